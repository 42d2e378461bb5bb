//! The client: a process that opens the array through the library and gets killed.

use crate::job::{Creation, Job, Lacking, Work, exit};
use crate::ledger::Ledger;
use crate::random::Random;
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_admin::attach::ChangeError;
use spindles_admin::create::{CreateError, CreateOptions, create};
use spindles_admin::grow::{GrowOptions, grow};
use spindles_admin::scrub::{ScrubError, scrub};
use spindles_array::{Target, await_resync};
use spindles_block::{BlockIndex, BufferId, BufferSlice, Operation, Reply, Request, RequestError};
use spindles_device::{Direct, IoChoice, OpenOptions};
use spindles_engine::{Repair, Scrub};
use spindles_layout::Expression;
use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

/// Runs the job given as the only argument, and reports failures on standard error.
pub fn serve(job: &str) -> ExitCode {
    let job: Job = match serde_json::from_str(job) {
        Ok(job) => job,
        Err(error) => return tell(&format!("not a job: {error}"), exit::FINDING),
    };
    let done = match &job.work {
        Work::Create(creation) => make(&job, creation),
        Work::Ask { .. } | Work::Read { .. } => Client::open(&job).and_then(Client::run),
        Work::Grow { chunk_bytes } => regrow(&job, *chunk_bytes),
        Work::Scrub => compare(&job),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(ended) => tell(&ended.why, ended.code),
    }
}

fn tell(why: &str, code: u8) -> ExitCode {
    use std::io::Write as _;
    // If no one reads standard error, the exit status says enough.
    drop(writeln!(std::io::stderr(), "{why}"));
    ExitCode::from(code)
}

/// The reason why a client ended early.
struct Ended {
    why: String,
    code: u8,
}

impl Ended {
    fn finding(why: impl std::fmt::Display) -> Self {
        Self {
            why: why.to_string(),
            code: exit::FINDING,
        }
    }
}

fn open_options(job: &Job) -> OpenOptions {
    OpenOptions {
        requests_max: job.requests_max,
        io: if job.threads {
            IoChoice::Threads
        } else {
            IoChoice::Uring
        },
        direct: if job.cached {
            Direct::Never
        } else {
            Direct::Auto
        },
        ..OpenOptions::default()
    }
}

fn make(job: &Job, creation: &Creation) -> Result<u8, Ended> {
    let expression = Expression::parse(&creation.expression).map_err(Ended::finding)?;
    let options = CreateOptions {
        block_size: creation.block_size(),
        chunk_bytes: Some(creation.chunk_bytes),
        consistency: creation.policy(),
        checksum: Some(creation.checksum()),
        journal: creation.journal.clone(),
        open: open_options(job),
        ..CreateOptions::new("box")
    };
    match create(&expression, &options, &mut |_, _| true) {
        Ok(_) => Ok(exit::CLOSED),
        Err(
            error @ (CreateError::TooSmall(_)
            | CreateError::NoJournal { .. }
            | CreateError::Inexact { .. }
            | CreateError::Geometry(_)),
        ) => Err(Ended {
            why: error.to_string(),
            code: exit::IMPOSSIBLE,
        }),
        Err(error) => Err(Ended::finding(error)),
    }
}

fn assemble_options(job: &Job) -> AssembleOptions {
    AssembleOptions {
        open: open_options(job),
        // Members are absent on purpose.
        degraded: true,
        only_recovers: matches!(job.work, Work::Read { settles: false }),
        ..AssembleOptions::default()
    }
}

fn names(job: &Job) -> Vec<&str> {
    job.devices.iter().map(String::as_str).collect()
}

/// Changes the chunk size of the array.
fn regrow(job: &Job, chunk_bytes: u64) -> Result<u8, Ended> {
    let options = |chunk_bytes| GrowOptions {
        assemble: assemble_options(job),
        chunk_bytes,
        ..GrowOptions::default()
    };
    let all = &mut |_, _| true;
    let grown = match grow(&names(job), &options(Some(chunk_bytes)), all) {
        Err(ChangeError::Growing { .. }) => grow(&names(job), &options(None), all),
        grown => grown,
    };
    match grown {
        Ok(grown) if grown.through => Ok(exit::CLOSED),
        Ok(grown) => Err(Ended::finding(format!("it stopped: {grown:?}"))),
        Err(ChangeError::Assemble(AssembleError::CantGrow { reason, .. })) => Err(Ended {
            why: reason.to_string(),
            code: exit::REFUSED,
        }),
        Err(error) => Err(Ended::finding(error)),
    }
}

/// Scrubs an array without errors.
fn compare(job: &Job) -> Result<u8, Ended> {
    let scrub_all = Scrub {
        anew: true,
        repair: Repair::Nothing,
    };
    let mut found = Vec::new();
    let scrubbed = scrub(
        &names(job),
        &assemble_options(job),
        scrub_all,
        &mut |event| found.push(event.clone()),
        &mut |_, _| true,
    );
    match scrubbed {
        Err(ScrubError::NoRedundancy { .. }) => Ok(exit::CLOSED),
        Err(error) => Err(Ended::finding(error)),
        Ok(scrubbed) if !scrubbed.through => Err(Ended::finding("the scrub stopped")),
        Ok(_) if found.is_empty() => Ok(exit::CLOSED),
        Ok(_) => Err(Ended::finding(format!("a scrub finds {found:?}"))),
    }
}

/// The longest request.
const REQUEST_BYTES: u32 = 192 << 10;
/// The most blocks read at once when everything is read.
const READ_BLOCKS: u32 = 48;

/// Arrays with more blocks are not read completely.
const ALL_BLOCKS: u64 = 2048;

/// A request in flight in a slot.
#[derive(Clone, Copy, Debug)]
struct Flight {
    operation: Operation,
    index: usize,
    block: u64,
    blocks: u32,
}

struct Client<'a> {
    job: &'a Job,
    random: Random,
    ledger: Ledger,
    target: Box<dyn Target>,
    sectors_per_block: u64,
    block_bytes: usize,
    /// The longest request.
    longest: u32,
    /// The blocks of a whole stripe; `None` if requests can't be that long.
    stripe: Option<u32>,
    buffers: Vec<BufferId>,
    flights: Vec<Option<Flight>>,
    /// A range of the array that is used often.
    hot: u64,
}

impl<'a> Client<'a> {
    fn open(job: &'a Job) -> Result<Self, Ended> {
        let mut ledger =
            Ledger::open(&job.log, job.seed, job.sector_bytes, true).map_err(Ended::finding)?;
        if job.lacking != Lacking::Nothing {
            ledger.lacks(job.lacking != Lacking::Members);
        }
        let assembled = assemble(&names(job), &assemble_options(job)).map_err(|error| Ended {
            why: format!("it does not open: {error}"),
            code: match error {
                AssembleError::UncleanDegraded { .. } => exit::REFUSED,
                _ if job.beyond => exit::REFUSED,
                _ => exit::FINDING,
            },
        })?;
        let mut target = assembled.target;
        let facts = target.facts();
        let block_bytes = facts.block_size.bytes();
        for device in &facts.devices {
            if device.physical_sector_bytes > job.tear_bytes {
                let what = format!(
                    "{} is taken for a disk that writes {} bytes at once",
                    device.name, device.physical_sector_bytes
                );
                return Err(Ended::finding(what));
            }
        }
        let sectors_per_block = u64::from(block_bytes / job.sector_bytes);
        let blocks = facts.blocks;
        let longest = facts.request_blocks_max.min(REQUEST_BYTES / block_bytes);
        let longest = longest.min(u32::try_from(blocks).unwrap_or(u32::MAX));
        let stripe = facts.array.as_ref().and_then(|array| {
            let blocks = array.chunk_blocks * u32::from(array.data_chunks);
            (blocks <= longest).then_some(blocks)
        });
        let (depth, longest) = match job.work {
            Work::Ask { depth, .. } => (depth, longest),
            _ => (1, longest.min(READ_BLOCKS)),
        };
        let buffers = (0..depth).map(|_| target.allocate(longest)).collect();
        let mut random = Random::new(job.seed, &format!("client {}", job.life));
        ledger.opened(blocks, sectors_per_block);
        Ok(Self {
            job,
            ledger,
            hot: random.below(blocks),
            random,
            target,
            sectors_per_block,
            block_bytes: usize::try_from(block_bytes).expect("64 bits"),
            longest,
            stripe,
            buffers,
            flights: vec![None; depth],
        })
    }

    fn run(mut self) -> Result<u8, Ended> {
        match self.job.work {
            Work::Create(_) | Work::Grow { .. } | Work::Scrub => unreachable!("not by asking"),
            Work::Ask {
                operations,
                scrubs,
                closes,
                ..
            } => {
                if scrubs {
                    // If there is redundancy to compare.
                    self.target.begin_scrub(Scrub::default()).unwrap_or(());
                }
                self.ask(operations)?;
                if !closes {
                    // Skip all cleanup.
                    std::mem::forget(self);
                    return Ok(exit::LEFT);
                }
            }
            Work::Read { settles } => {
                self.read_all()?;
                // The redundancy of a lost block is not repaired.
                let settled = !settles || await_resync(self.target.as_mut(), &mut |_, _| true);
                if !settled && !self.ledger.any_may_fail() {
                    return Err(Ended::finding(
                        "redundancy does not come to agree with data",
                    ));
                }
            }
        }
        let flush = self.ledger.asks_flush();
        let closed = self.target.close();
        self.ledger.flush_ended(flush, closed.is_ok());
        match closed {
            Err(error) if !self.job.beyond => Err(Ended::finding(error)),
            _ => Ok(exit::CLOSED),
        }
    }

    fn ask(&mut self, operations: u32) -> Result<(), Ended> {
        let mut asked = 0;
        while asked < operations || self.flights.iter().any(Option::is_some) {
            let free = self.flights.iter().position(Option::is_none);
            match free {
                Some(slot) if asked < operations => {
                    let (operation, block, blocks) = self.wish();
                    self.submit(slot, operation, block, blocks)?;
                    asked += 1;
                    if self.random.percent(2) {
                        std::thread::sleep(Duration::from_micros(self.random.below(3000)));
                    }
                    if self.random.percent(60) {
                        self.poll(false)?;
                    }
                }
                _ => self.poll(true)?,
            }
        }
        Ok(())
    }

    fn wish(&mut self) -> (Operation, u64, u32) {
        let random = &mut self.random;
        let fua = random.percent(15);
        let operation = match random.below(100) {
            0..25 => Operation::Read,
            25..82 => Operation::Write { fua },
            82..92 => Operation::Flush,
            92..96 => Operation::Discard,
            _ => Operation::WriteZeroes { fua },
        };
        if operation == Operation::Flush {
            return (operation, 0, 0);
        }
        let all = self.target.facts().blocks;
        if let Some(stripe) = self.stripe
            && random.percent(25)
        {
            let stripes = all / u64::from(stripe);
            if stripes > 0 {
                return (operation, random.below(stripes) * u64::from(stripe), stripe);
            }
        }
        let blocks = match random.below(4) {
            0 | 1 => 1,
            2 => random.between(1, u64::from(self.longest.min(8))),
            _ => random.between(1, u64::from(self.longest)),
        };
        let block = if random.percent(40) {
            (self.hot + random.below(6)).min(all - blocks)
        } else {
            random.below(all - blocks + 1)
        };
        (
            operation,
            block,
            u32::try_from(blocks).expect("at most the longest"),
        )
    }

    fn bytes(&self, blocks: u32) -> usize {
        usize::try_from(blocks).expect("64 bits") * self.block_bytes
    }

    fn submit(
        &mut self,
        slot: usize,
        operation: Operation,
        block: u64,
        blocks: u32,
    ) -> Result<(), Ended> {
        let first = block * self.sectors_per_block;
        let sectors = u64::from(blocks) * self.sectors_per_block;
        let bytes = self.bytes(blocks);
        let buffer = self.buffers[slot];
        let memory = &mut self.target.buffer_mut(buffer)[..bytes];
        let index = match operation {
            Operation::Read => {
                memory.fill(0xdd); // Bytes that are not filled in will be noticed.
                self.ledger.asks_read(first, sectors)
            }
            Operation::Write { .. } => {
                let index = self.ledger.asks_write(first, sectors, false);
                self.ledger.fill(index, memory);
                index
            }
            Operation::Discard | Operation::WriteZeroes { .. } => {
                self.ledger.asks_write(first, sectors, true)
            }
            Operation::Flush => self.ledger.asks_flush(),
        };
        let carries = matches!(operation, Operation::Read | Operation::Write { .. });
        let request = Request {
            token: u64::try_from(slot).expect("64 bits"),
            operation,
            block: BlockIndex(block),
            blocks,
            buffer: if carries {
                BufferSlice {
                    buffer,
                    first_block: 0,
                }
            } else {
                BufferSlice::NONE
            },
        };
        self.flights[slot] = Some(Flight {
            operation,
            index,
            block,
            blocks,
        });
        while self.target.submit(request).is_err() {
            self.poll(true)?;
        }
        Ok(())
    }

    fn poll(&mut self, wait: bool) -> Result<(), Ended> {
        match self.target.poll(wait) {
            Some(reply) => self.take(reply),
            None => Ok(()),
        }
    }

    fn take(&mut self, reply: Reply) -> Result<(), Ended> {
        let slot = usize::try_from(reply.token).expect("we named it");
        let flight = self.flights[slot].take().expect("it was asked");
        let Flight {
            operation,
            index,
            block,
            blocks,
        } = flight;
        let failed = |error: RequestError| {
            let what = format!("{operation:?} of {blocks} blocks at {block} failed: {error}");
            Err(Ended::finding(what))
        };
        match (operation, reply.result) {
            (Operation::Read, Ok(())) => {
                let bytes = self.bytes(blocks);
                let memory = &self.target.buffer(self.buffers[slot])[..bytes];
                let judged = self.ledger.read_ended(index, Some(memory));
                judged.map_err(|violation| {
                    let what = format!("a read of {blocks} blocks at {block}: {violation}");
                    Ended::finding(what)
                })
            }
            (Operation::Read, Err(error)) => {
                drop(self.ledger.read_ended(index, None));
                let mut all = block..block + u64::from(blocks);
                if self.job.beyond || all.any(|block| self.ledger.may_fail(block)) {
                    return Ok(());
                }
                failed(error)
            }
            (Operation::Flush, result) => {
                self.ledger.flush_ended(index, result.is_ok());
                result.or_else(failed)
            }
            (_, result) => {
                let fua = matches!(
                    operation,
                    Operation::Write { fua: true } | Operation::WriteZeroes { fua: true }
                );
                self.ledger.write_ended(index, result.is_ok(), fua);
                // Small writes may need what a torn row lacks.
                match result {
                    Err(_) if self.ledger.any_may_fail() => Ok(()),
                    result => result.or_else(failed),
                }
            }
        }
    }

    /// Reads every block, or, of a long array, the written blocks and some others. After a failed
    /// read, reads its blocks again one by one.
    fn read_all(&mut self) -> Result<(), Ended> {
        let all = self.target.facts().blocks;
        let mut left: BTreeSet<u64> = if all <= ALL_BLOCKS {
            (0..all).collect()
        } else {
            let touched = self.ledger.touched().clone();
            let others = (0..ALL_BLOCKS / 4).map(|_| self.random.below(all));
            touched.into_iter().chain(others).collect()
        };
        while let Some(block) = left.pop_first() {
            let most = self.random.between(1, u64::from(self.longest));
            let mut end = block + 1;
            while end < block + most && left.remove(&end) {
                end += 1;
            }
            let blocks = u32::try_from(end - block).expect("few");
            if !self.read_now(block, blocks)? {
                for block in block..end {
                    self.read_now(block, 1)?;
                }
            }
        }
        Ok(())
    }

    /// Reads, and returns true on success. A failure that is not allowed is a finding.
    fn read_now(&mut self, block: u64, blocks: u32) -> Result<bool, Ended> {
        self.submit(0, Operation::Read, block, blocks)?;
        let reply = self.target.poll(true).expect("it is in flight");
        let worked = reply.result.is_ok();
        self.take(reply)?;
        Ok(worked)
    }
}
