//! The clients: they submit random requests, up to the depth of the run, and keep the history.

use crate::memory::Memory;
use crate::options::{Mix, Options};
use crate::random::Random;
use spindles_block::{BlockIndex, BufferId, BufferSlice, Instant, Operation, Reply, Request};
use spindles_workload::history::{Contents, FlushToken, History, ReadToken, WriteToken};
use spindles_workload::{BlockWorkload, Next, Params, Plan};
use std::ops::Range;

/// The history's token of a request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token {
    Read(ReadToken),
    Write { token: WriteToken, fua: bool },
    Flush(FlushToken),
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    pub(crate) request: Request,
    pub(crate) token: Token,
    pub(crate) submitted: Instant,
    /// Its operation in the workload; `None` for a random request.
    issue: Option<u32>,
}

/// A request that a client is about to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) operation: Operation,
    pub(crate) block: u64,
    pub(crate) blocks: u32,
    /// Its operation in the workload; `None` for a random request.
    pub(crate) issue: Option<u32>,
}

/// All clients.
pub(crate) struct Client {
    random: Random,
    pub(crate) history: History,
    pub(crate) sectors_per_block: u64,
    block_bytes: u64,
    blocks: u64,
    plan: Option<Plan>,
    workload: Option<Box<dyn BlockWorkload>>,
    mix: Mix,
    request_blocks_max: u32,
    hot: u64,
    /// One slot for each request in flight, each with its own buffer.
    flights: Vec<Option<Flight>>,
    buffers: Vec<u32>,
    first_buffer: u32,
    next_token: u64,
    /// A request that the engine was too busy for.
    pub(crate) held: Option<Request>,
    pub(crate) submitted: u64,
    pub(crate) answered: u64,
    /// The longest that a client waited for a read, counted from the stall of a disk.
    pub(crate) longest_read_ns: u64,
    pub(crate) stalled_at: Option<Instant>,
}

impl Client {
    pub(crate) fn new(options: &Options, blocks: u64, first_buffer: u32) -> Self {
        let sectors_per_block = u64::from(options.block_size.bytes() / options.sector_bytes);
        let sectors = blocks * sectors_per_block;
        let initial = options.contents();
        let history = History::new(options.seed, options.sector_bytes, sectors, initial);
        let mut random = Random::new(options.seed, "client");
        let block_bytes = u64::from(options.block_size.bytes());
        let plan = options.workload.and_then(|kind| {
            let params = Params {
                chunk_bytes: Some(options.block_size.bytes() * random.between_u32(1, 8)),
                in_flight: Some(options.depth),
                operations: kind.operations.map(|_| 100),
                ..Params::new(blocks * block_bytes, options.seed)
            };
            kind.plan(&params).ok()
        });
        Self {
            hot: random.below(blocks),
            random,
            history,
            sectors_per_block,
            block_bytes,
            blocks,
            workload: plan.map(|plan| plan.start()),
            plan,
            mix: options.mix,
            request_blocks_max: options.request_blocks_max,
            flights: vec![None; usize::try_from(options.depth).expect("small")],
            buffers: (first_buffer..first_buffer + options.depth).collect(),
            first_buffer,
            next_token: 0,
            held: None,
            submitted: 0,
            answered: 0,
            longest_read_ns: 0,
            stalled_at: None,
        }
    }

    /// Takes back all buffers, except `lent` ones for lending. Returns the lent ones.
    pub(crate) fn own_all_buffers(&mut self, lent: u32) -> std::ops::Range<u32> {
        let count = u32::try_from(self.flights.len()).expect("few");
        let first = self.first_buffer + count;
        self.buffers = (self.first_buffer..first).collect();
        first..first + lent
    }

    /// Returns true if a client owns the buffer and has no request in flight with it.
    pub(crate) fn keeps(&self, buffer: BufferId) -> bool {
        let mut places = self.buffers.iter().zip(&self.flights);
        places.any(|(&number, flight)| number == buffer.0 && flight.is_none())
    }

    /// Gives the client of a flight another buffer, which holds the data that was read.
    fn exchange(&mut self, place: usize, buffer: BufferSlice) {
        self.buffers[place] = buffer.buffer.0;
        let flight = self.flights[place].as_mut().expect("in flight");
        flight.request.buffer = buffer;
    }

    /// Returns the next request: the workload's next operation if there is one, or a random one.
    pub(crate) fn wish(&mut self) -> Wish {
        if let Some(Next::Issue(issue)) = self.workload.as_mut().map(|workload| workload.next()) {
            let blocks = u64::from(issue.bytes) / self.block_bytes;
            return Wish {
                operation: issue.operation,
                block: issue.offset_bytes / self.block_bytes,
                blocks: u32::try_from(blocks).expect("small"),
                issue: Some(issue.id),
            };
        }
        let random = &mut self.random;
        let mix = &self.mix;
        let weights = [
            mix.read,
            mix.write,
            mix.flush,
            mix.discard,
            mix.write_zeroes,
        ];
        let fua = random.percent(mix.fua_percent);
        let operation = match random.weighted(&weights) {
            0 => Operation::Read,
            1 => Operation::Write { fua },
            2 => Operation::Flush,
            3 => Operation::Discard,
            _ => Operation::WriteZeroes { fua },
        };
        if operation == Operation::Flush {
            return Wish {
                operation,
                block: 0,
                blocks: 0,
                issue: None,
            };
        }
        let longest = u64::from(self.request_blocks_max).min(self.blocks);
        let blocks = match random.below(4) {
            0 | 1 => 1,
            2 => random.between(1, longest.min(8)),
            _ => random.between(1, longest),
        };
        let block = if random.percent(mix.hot_percent) {
            (self.hot + random.below(6)).min(self.blocks - blocks)
        } else {
            random.below(self.blocks - blocks + 1)
        };
        Wish {
            operation,
            block,
            blocks: u32::try_from(blocks).expect("at most the maximum"),
            issue: None,
        }
    }

    /// Returns the sectors of a request.
    pub(crate) fn sectors(&self, request: &Request) -> Range<u64> {
        let first = request.block.0 * self.sectors_per_block;
        first..first + u64::from(request.blocks) * self.sectors_per_block
    }

    /// Extends the array; the added blocks hold zeros.
    pub(crate) fn extend(&mut self, blocks: u64) {
        self.blocks = blocks;
        self.history.extend(blocks * self.sectors_per_block);
    }

    /// Returns true if another request may be submitted now.
    pub(crate) fn has_room(&self) -> bool {
        self.held.is_none() && self.flights.iter().any(Option::is_none)
    }

    /// Makes a request and records it in the history. The data of a write is put into the slot's
    /// buffer. Panics if there is no room.
    pub(crate) fn request(&mut self, now: Instant, wish: Wish, memory: &mut Memory) -> Request {
        let place = self.flights.iter().position(Option::is_none);
        let place = place.expect("the caller looked for room");
        let number = self.buffers[place];
        let first = wish.block * self.sectors_per_block;
        let sectors = u64::from(wish.blocks) * self.sectors_per_block;
        let bytes = usize::try_from(sectors).expect("small") * self.history.sector_bytes();
        memory.extend(BufferId(number), bytes, 0);
        let bytes = &mut memory.whole(BufferId(number))[..bytes];
        let history = &mut self.history;
        let token = match wish.operation {
            Operation::Read => {
                bytes.fill(0xdd); // So that bytes the read does not fill are detected.
                Token::Read(history.read(first, sectors))
            }
            Operation::Write { fua } => {
                let token = history.write(first, sectors, Contents::Stamps);
                history.fill(token, bytes);
                Token::Write { token, fua }
            }
            Operation::WriteZeroes { fua } => {
                let token = history.write(first, sectors, Contents::Zeros);
                Token::Write { token, fua }
            }
            Operation::Discard => {
                let token = history.write(first, sectors, Contents::Zeros);
                Token::Write { token, fua: false }
            }
            Operation::Flush => Token::Flush(history.flush()),
        };
        let carries_data = matches!(wish.operation, Operation::Read | Operation::Write { .. });
        self.next_token += 1;
        let request = Request {
            token: self.next_token,
            operation: wish.operation,
            block: BlockIndex(wish.block),
            blocks: wish.blocks,
            buffer: if carries_data {
                BufferSlice {
                    buffer: BufferId(number),
                    first_block: 0,
                }
            } else {
                BufferSlice::NONE
            },
        };
        self.flights[place] = Some(Flight {
            request,
            token,
            submitted: now,
            issue: wish.issue,
        });
        self.submitted += 1;
        request
    }

    /// Takes an answered request out of flight. `None` if no request with that token is in flight.
    pub(crate) fn take(&mut self, now: Instant, reply: Reply) -> Option<Flight> {
        let mut flights = self.flights.iter();
        let is_it = |flight: &Flight| flight.request.token == reply.token;
        let place = flights.position(|flight| flight.as_ref().is_some_and(is_it))?;
        if let Some(buffer) = reply.exchanged {
            self.exchange(place, buffer);
        }
        self.answered += 1;
        let flight = self.flights[place].take()?;
        if let (Token::Read(_), Some(stalled_at)) = (flight.token, self.stalled_at) {
            let ns = now.ns_since(flight.submitted.max(stalled_at));
            self.longest_read_ns = self.longest_read_ns.max(ns);
        }
        if let (Some(workload), Some(issue)) = (&mut self.workload, flight.issue) {
            workload.complete(issue);
        }
        Some(flight)
    }

    /// Returns the writes in flight, and the blocks of each.
    pub(crate) fn writes(&self) -> impl Iterator<Item = (u64, Range<u64>)> {
        let flights = self.flights.iter().flatten();
        flights.filter_map(|flight| match flight.token {
            Token::Write { token, .. } => {
                let first = flight.request.block.0;
                let blocks = first..first + u64::from(flight.request.blocks);
                Some((token.write(), blocks))
            }
            Token::Read(_) | Token::Flush(_) => None,
        })
    }

    /// Drops all requests in flight: the connection to the engine is gone.
    pub(crate) fn forget_flights(&mut self) {
        self.flights.fill(None);
        self.workload = self.plan.map(|plan| plan.start());
        self.held = None;
    }

    pub(crate) fn oldest(&self) -> Option<Flight> {
        let flights = self.flights.iter().flatten();
        flights.min_by_key(|flight| flight.request.token).copied()
    }
}
