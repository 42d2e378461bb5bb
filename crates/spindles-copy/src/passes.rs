//! Passes over stretches of both ends, with many requests in flight.

use crate::end::{CopyEnd, REQUESTS, count, differ};
use crate::error::CopyError;
use spindles_array::export::{Access, Answer, Export, SlotId};
use spindles_block::{Operation, RequestError};
use std::ops::{ControlFlow, Range};

/// The phase of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Source bytes are being copied to the target.
    Copying,
    /// Both ends are being read and compared.
    Comparing,
    /// Stretches that failed to read as a whole are copied or compared block by block. Only
    /// `Progress` reports this phase.
    Again,
}

/// The progress of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// Bytes done so far in this phase.
    pub bytes: u64,
    /// Total bytes of this phase.
    pub bytes_total: u64,
}

/// One pass over stretches of both ends.
pub(crate) struct Pass {
    pub(crate) phase: Phase,
    /// The phase that `Progress` reports.
    pub(crate) shown: Phase,
    pub(crate) request_bytes: u32,
    pub(crate) bytes_total: u64,
}

impl Pass {
    /// Runs the pass. Returns the requests that could not be read, if the source skips them.
    pub(crate) fn run(
        &self,
        from: &mut CopyEnd,
        to: &mut CopyEnd,
        stretches: &[Range<u64>],
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Vec<Range<u64>>, CopyError> {
        let leaves_out = from.left_out.is_some();
        let (Some(source), Some(target)) = (&mut from.export, &mut to.export) else {
            return Ok(Vec::new());
        };
        let mut pipeline = Pipeline {
            pass: self,
            from: source,
            to: target,
            pieces: Vec::with_capacity(usize::from(REQUESTS)),
            stretches,
            next: 0,
            done: 0,
            leaves_out,
            unread: Vec::new(),
            stopped: None,
        };
        let stopped = pipeline.run(progress);
        let unread = pipeline.unread;
        stopped.map_err(|stop| match stop {
            Stop::Read(at, bytes, error) => from.first_unreadable(at, bytes, error),
            Stop::ReadBack(at, error) => to.read_failed(at, error),
            Stop::Write(at, error) => to.write_failed(at, to.why(error)),
            Stop::Differs(at) => differ(from, to, at),
            Stop::Interrupted(bytes) => CopyError::Interrupted { bytes },
        })?;
        Ok(unread)
    }
}

/// Why a pipeline stopped, and where.
#[derive(Clone, Copy, Debug)]
enum Stop {
    Read(u64, u32, RequestError),
    ReadBack(u64, RequestError),
    Write(u64, RequestError),
    Differs(u64),
    Interrupted(u64),
}

/// A stretch in progress.
#[derive(Clone, Copy, Debug)]
struct Piece {
    offset_bytes: u64,
    bytes: u32,
    /// Held until its bytes have been used.
    from: Option<Leg>,
    to: Option<Leg>,
    /// True if it could not be read as a whole and is left for later.
    unread: bool,
}

/// The source end or the target end of a piece.
#[derive(Clone, Copy, Debug)]
struct Leg {
    slot: SlotId,
    answered: bool,
}

/// Many pieces in flight, each progressing independently.
struct Pipeline<'ends> {
    pass: &'ends Pass,
    from: &'ends mut Export,
    to: &'ends mut Export,
    pieces: Vec<Piece>,
    /// The stretches still to start, from `next` on. `next` lies in the first of them or before it.
    stretches: &'ends [Range<u64>],
    next: u64,
    done: u64,
    /// True if unreadable pieces of the source are collected in `unread` instead of failing.
    leaves_out: bool,
    unread: Vec<Range<u64>>,
    /// The first failure; no piece is started after it.
    stopped: Option<Stop>,
}

impl Pipeline<'_> {
    fn run(&mut self, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) -> Result<(), Stop> {
        loop {
            self.begin_pieces();
            if self.pieces.is_empty() {
                return self.stopped.map_or(Ok(()), Err);
            }
            let done = self.done;
            self.turn();
            if self.done == done {
                continue;
            }
            let progress = progress(Progress {
                phase: self.pass.shown,
                bytes: self.done,
                bytes_total: self.pass.bytes_total,
            });
            if progress.is_break() {
                self.stopped.get_or_insert(Stop::Interrupted(self.done));
            }
        }
    }

    fn begin_pieces(&mut self) {
        while self.stopped.is_none()
            && self.pieces.len() < usize::from(REQUESTS)
            && let Some((stretch, rest)) = self.stretches.split_first()
        {
            self.next = self.next.max(stretch.start);
            if self.next >= stretch.end {
                self.stretches = rest;
                continue;
            }
            let bytes = (stretch.end - self.next).min(self.pass.request_bytes.into());
            let bytes = u32::try_from(bytes).expect("at most a request");
            let read = Access {
                operation: Operation::Read,
                offset_bytes: self.next,
                bytes,
            };
            let from = begin(self.from, read);
            let compares = self.pass.phase == Phase::Comparing;
            let to = compares.then(|| begin(self.to, read));
            self.pieces.push(Piece {
                offset_bytes: self.next,
                bytes,
                from: Some(from),
                to,
                unread: false,
            });
            self.next += u64::from(bytes);
        }
    }

    /// Takes all pending answers. If there are none, waits for one at the end with more requests in
    /// flight.
    fn turn(&mut self) {
        let mut answered = false;
        while let Some(answer) = self.from.poll(false) {
            self.source_answered(answer);
            answered = true;
        }
        while let Some(answer) = self.to.poll(false) {
            self.target_answered(answer);
            answered = true;
        }
        if answered {
            return;
        }
        let in_flight = |leg: fn(&Piece) -> Option<Leg>| {
            let legs = self.pieces.iter().filter_map(leg);
            legs.filter(|leg| !leg.answered).count()
        };
        if in_flight(|piece| piece.to) >= in_flight(|piece| piece.from) {
            if let Some(answer) = self.to.poll(true) {
                self.target_answered(answer);
            }
        } else if let Some(answer) = self.from.poll(true) {
            self.source_answered(answer);
        }
    }

    /// Notes that a request was answered; returns the index of its piece.
    fn note_answer(&mut self, slot: SlotId, leg: fn(&mut Piece) -> &mut Option<Leg>) -> usize {
        let is_its = |piece: &mut Piece| leg(piece).is_some_and(|leg| leg.slot == slot);
        let index = self.pieces.iter_mut().position(is_its);
        let index = index.expect("only pieces are in flight");
        let answered = true;
        *leg(&mut self.pieces[index]) = Some(Leg { slot, answered });
        index
    }

    fn source_answered(&mut self, answer: Answer) {
        let slot = answer.slot;
        let index = self.note_answer(slot, |piece| &mut piece.from);
        let piece = &mut self.pieces[index];
        match answer.result {
            Ok(()) => {}
            Err(_) if self.leaves_out => {
                piece.unread = true;
                let end = piece.offset_bytes + u64::from(piece.bytes);
                self.unread.push(piece.offset_bytes..end);
            }
            Err(error) => {
                self.stopped
                    .get_or_insert(Stop::Read(piece.offset_bytes, piece.bytes, error));
            }
        }
        if self.pass.phase == Phase::Copying && self.stopped.is_none() && !piece.unread {
            let write = Access {
                operation: Operation::Write { fua: false },
                offset_bytes: piece.offset_bytes,
                bytes: piece.bytes,
            };
            let to = self.to.take(write).expect("as many as there are pieces");
            let bytes = self.from.payload(slot);
            self.to.payload(to).copy_from_slice(bytes);
            self.to.submit(to);
            piece.to = Some(Leg {
                slot: to,
                answered: false,
            });
            self.from.give_back(slot);
            piece.from = None;
        }
        self.end_piece(index);
    }

    fn target_answered(&mut self, answer: Answer) {
        let index = self.note_answer(answer.slot, |piece| &mut piece.to);
        if let Err(error) = answer.result {
            let compares = self.pass.phase == Phase::Comparing;
            let stop = if compares {
                Stop::ReadBack
            } else {
                Stop::Write
            };
            let at = self.pieces[index].offset_bytes;
            self.stopped.get_or_insert(stop(at, error));
        }
        self.end_piece(index);
    }

    /// Frees a piece once it has nothing in flight.
    fn end_piece(&mut self, index: usize) {
        let piece = self.pieces[index];
        let in_flight = |leg: Option<Leg>| leg.is_some_and(|leg| !leg.answered);
        if in_flight(piece.from) || in_flight(piece.to) {
            return;
        }
        if let (Some(from), Some(to), None, false) =
            (piece.from, piece.to, self.stopped, piece.unread)
        {
            let (ours, theirs) = (self.from.payload(from.slot), self.to.payload(to.slot));
            if let Some(index) = first_difference(ours, theirs) {
                self.stopped = Some(Stop::Differs(piece.offset_bytes + count(index)));
            }
        }
        for (end, leg) in [(&mut self.from, piece.from), (&mut self.to, piece.to)] {
            if let Some(leg) = leg {
                end.give_back(leg.slot);
            }
        }
        self.pieces.swap_remove(index);
        self.done += u64::from(piece.bytes);
    }
}

fn begin(export: &mut Export, access: Access) -> Leg {
    let slot = export.take(access).expect("as many as there are pieces");
    export.submit(slot);
    Leg {
        slot,
        answered: false,
    }
}

pub(crate) fn first_difference(ours: &[u8], theirs: &[u8]) -> Option<usize> {
    if ours == theirs {
        return None;
    }
    ours.iter().zip(theirs).position(|(a, b)| a != b)
}
