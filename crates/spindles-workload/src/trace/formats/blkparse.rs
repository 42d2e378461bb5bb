//! The text of blkparse, in its default layout: `8,0 1 5 0.000123 697 Q W 223490 + 8 [kjournald]`.
//!
//! A request is an event Q, or D in a trace that begins without Q. Its answer is the event C that
//! covers its sectors. Requests that wait for an answer are bounded: the oldest is passed on
//! without one.

use super::super::fields::{decimal, sectors, small, words};
use super::super::format::{Parser, TraceFormat};
use super::super::problem::{Problem, shown};
use super::super::request::{TraceOperation, TraceRequest, When};
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

pub(super) static FORMAT: TraceFormat = TraceFormat {
    name: "blkparse",
    summary: "text of blkparse: events of the Linux block layer",
    recognises: |line| {
        let mut words = words(line);
        words.next().is_some_and(is_device) && words.count() >= 5
    },
    parser: || Box::new(Blkparse::default()),
    writer: None,
};

const FIELDS: &str = "device, CPU, sequence, time, process, action, RWBS";
const ACTIONS: &str = "A, B, C, D, F, G, I, M, P, Q, R, S, T, U, UT, X, m";

/// Most requests that wait for their answer.
const WAITING_MAX: usize = 1024;

fn is_device(word: &[u8]) -> bool {
    let mut parts = word.split(|byte| *byte == b',');
    let mut is_number = || {
        let part = parts.next();
        part.is_some_and(|part| !part.is_empty() && part.iter().all(u8::is_ascii_digit))
    };
    is_number() && is_number() && parts.next().is_none()
}

#[derive(Debug)]
struct Waiting {
    request: TraceRequest,
    at_ns: u64,
}

#[derive(Debug, Default)]
struct Blkparse {
    device: Vec<u8>,
    /// The event that counts as a request: Q or D.
    counted: Option<u8>,
    waiting: VecDeque<Waiting>,
    /// The time of the last request.
    last_ns: u64,
    /// Set in the summary after the events.
    is_over: bool,
}

/// The operations of an RWBS field.
struct Operations {
    flush: bool,
    data: Option<TraceOperation>,
}

fn operations(rwbs: &[u8]) -> Result<Operations, Problem> {
    let (flush, rest) = match rwbs.split_first() {
        Some((b'F', rest)) => (true, rest),
        _ => (false, rwbs),
    };
    let data = match rest.first() {
        Some(b'R') => Some(TraceOperation::Read),
        Some(b'W') if rest.get(1) == Some(&b'Z') => Some(TraceOperation::Zero),
        Some(b'W') => Some(TraceOperation::Write),
        Some(b'D') => Some(TraceOperation::Trim),
        Some(b'N' | b'S' | b'F' | b'M' | b'A' | b'B') | None => None,
        Some(_) => {
            return Err(Problem::Operation {
                text: shown(rwbs),
                known: "R, W, D, F, N with B, S, M, A, F",
            });
        }
    };
    Ok(Operations { flush, data })
}

impl Parser for Blkparse {
    fn line(&mut self, line: &[u8], sink: &mut dyn FnMut(TraceRequest)) -> Result<(), Problem> {
        let mut words = words(line);
        let first = words.next().unwrap_or_default();
        if first.starts_with(b"CPU") || first == b"Total" {
            self.is_over = true;
        }
        if self.is_over || first == b"Input" {
            return Ok(());
        }
        let mut fields: [&[u8]; 6] = [&[]; 6];
        let mut found = 1;
        for field in &mut fields {
            let Some(word) = words.next() else { break };
            *field = word;
            found += 1;
        }
        let [_, _, time, process, action, rwbs] = fields;
        if found < 7 || !is_device(first) {
            return Err(Problem::Fields {
                found,
                wanted: FIELDS,
            });
        }
        let is_request = match action {
            b"Q" | b"D" => *self.counted.get_or_insert(action[0]) == action[0],
            b"C" => false,
            b"A" | b"B" | b"F" | b"G" | b"I" | b"M" | b"P" | b"R" | b"S" | b"T" | b"U" | b"UT"
            | b"X" | b"m" => return Ok(()),
            other => {
                return Err(Problem::Operation {
                    text: shown(other),
                    known: ACTIONS,
                });
            }
        };
        if !is_request && action != b"C" {
            return Ok(());
        }
        self.check_device(first)?;
        let at_ns = decimal("the time", time, 9)?;
        let client = small("the process", process)?;
        // Commands of the driver have a length in bytes and no place.
        let place = match (words.next(), words.next(), words.next()) {
            (Some(first), Some(b"+"), Some(count)) => Some((
                sectors("the sector", first)?,
                sectors("the number of sectors", count)?,
            )),
            _ => None,
        };
        let operations = operations(rwbs)?;
        if action == b"C" {
            self.answer(&operations, place, at_ns);
        } else {
            if at_ns < self.last_ns {
                let before_ns = self.last_ns;
                return Err(Problem::TimeGoesBack { at_ns, before_ns });
            }
            self.last_ns = at_ns;
            self.ask(&operations, place, at_ns, client);
        }
        self.pass_on(sink, WAITING_MAX);
        Ok(())
    }

    fn end(&mut self, sink: &mut dyn FnMut(TraceRequest)) {
        self.waiting
            .drain(..)
            .for_each(|waiting| sink(waiting.request));
    }
}

impl Blkparse {
    fn check_device(&mut self, device: &[u8]) -> Result<(), Problem> {
        if self.device.is_empty() {
            device.clone_into(&mut self.device);
        }
        if self.device == device {
            return Ok(());
        }
        Err(Problem::SecondDevice {
            text: shown(device),
            first: shown(&self.device),
        })
    }

    fn ask(&mut self, operations: &Operations, place: Option<(u64, u64)>, at_ns: u64, client: u32) {
        let place = place.filter(|(_, bytes)| *bytes > 0);
        let data = operations.data.zip(place);
        let flush = operations.flush.then_some((TraceOperation::Flush, (0, 0)));
        for (operation, (offset_bytes, bytes)) in flush.into_iter().chain(data) {
            let request = TraceRequest {
                when: When::At(at_ns),
                operation,
                offset_bytes,
                bytes,
                client,
                response_ns: None,
            };
            self.waiting.push_back(Waiting { request, at_ns });
        }
    }

    fn answer(&mut self, operations: &Operations, place: Option<(u64, u64)>, at_ns: u64) {
        let place = place.filter(|(_, bytes)| *bytes > 0);
        let (first, end) = place.map_or((0, 0), |(first, bytes)| {
            (first, first.saturating_add(bytes))
        });
        let mut flushes = usize::from(operations.flush);
        for Waiting {
            request,
            at_ns: sent,
        } in &mut self.waiting
        {
            if request.response_ns.is_some() {
                continue;
            }
            let is_answer = if request.operation == TraceOperation::Flush {
                flushes > 0
            } else {
                Some(request.operation) == operations.data
                    && (first..end).contains(&request.offset_bytes)
                    && request.end_bytes() <= end
            };
            if is_answer {
                flushes -= usize::from(request.operation == TraceOperation::Flush);
                request.response_ns = Some(at_ns.saturating_sub(*sent));
            }
        }
    }

    /// Passes on answered requests, in order. Keeps at most `most`.
    fn pass_on(&mut self, sink: &mut dyn FnMut(TraceRequest), most: usize) {
        while let Some(first) = self.waiting.front() {
            if first.request.response_ns.is_none() && self.waiting.len() <= most {
                break;
            }
            sink(first.request);
            self.waiting.pop_front();
        }
    }
}
