//! Every chunk once, from the first to the last, like dd and Bonnie's block phases, or from the
//! last to the first.

use crate::issue::{BlockWorkload, Issue, Next};
use crate::plan::Plan;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use spindles_block::Operation;

/// The operation on each chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Each {
    Read,
    ReadBackward,
    Write,
    /// Read, change one integer, and write back before the next read.
    Rewrite,
}

#[derive(Clone, Copy)]
enum Actor {
    Idle,
    InFlight { chunk: u64, operation: Operation },
    WriteBack { chunk: u64 },
}

struct Sequential {
    each: Each,
    touches: bool,
    chunk_bytes: u32,
    chunks: u64,
    /// Set to start over at the end.
    endless: bool,
    actors_per_stream: usize,
    /// The next chunk of each stream.
    next_chunk: Vec<u64>,
    actors: Vec<Actor>,
    /// Number of integers touched: the index rotates.
    touched: u64,
}

/// Every actor of a stream takes the stream's next chunk. `touches`: Bonnie's integer.
pub(crate) fn start(plan: &Plan, each: Each, touches: bool) -> Box<dyn BlockWorkload> {
    let index = |count: u32| usize::try_from(count).expect("a small number");
    Box::new(Sequential {
        each,
        touches,
        chunk_bytes: plan.chunk_bytes,
        chunks: plan.chunks(),
        endless: plan.endless,
        actors_per_stream: index(plan.actors_per_stream),
        next_chunk: vec![0; index(plan.streams)],
        actors: vec![Actor::Idle; index(plan.actors())],
        touched: 0,
    })
}

impl Sequential {
    fn issue(&mut self, actor: usize, chunk: u64, operation: Operation) -> Next {
        self.actors[actor] = Actor::InFlight { chunk, operation };
        let changes = operation.is_write() || self.each == Each::Read;
        let touch = (self.touches && changes).then(|| {
            let integers = u64::from(self.chunk_bytes / 4);
            let index = self.touched % integers;
            self.touched += 1;
            u32::try_from(index).expect("less than the chunk")
        });
        let number = |index: usize| u32::try_from(index).expect("a small number");
        let place = match self.each {
            Each::ReadBackward => self.chunks - 1 - chunk,
            Each::Read | Each::Write | Each::Rewrite => chunk,
        };
        Next::Issue(Issue {
            id: number(actor),
            actor: number(actor),
            stream: number(actor / self.actors_per_stream),
            operation,
            offset_bytes: place * u64::from(self.chunk_bytes),
            bytes: self.chunk_bytes,
            touch,
        })
    }
}

impl BlockWorkload for Sequential {
    fn next(&mut self) -> Next {
        let mut in_flight = false;
        for actor in 0..self.actors.len() {
            match self.actors[actor] {
                Actor::InFlight { .. } => in_flight = true,
                Actor::WriteBack { chunk } => {
                    return self.issue(actor, chunk, Operation::Write { fua: false });
                }
                Actor::Idle => {
                    let next = &mut self.next_chunk[actor / self.actors_per_stream];
                    if *next == self.chunks && self.endless {
                        *next = 0;
                    }
                    if *next < self.chunks {
                        let chunk = *next;
                        *next += 1;
                        let operation = match self.each {
                            Each::Read | Each::ReadBackward | Each::Rewrite => Operation::Read,
                            Each::Write => Operation::Write { fua: false },
                        };
                        return self.issue(actor, chunk, operation);
                    }
                }
            }
        }
        if in_flight { Next::Wait } else { Next::Done }
    }

    fn complete(&mut self, id: u32) {
        let actor = usize::try_from(id).expect("an id of ours");
        let Actor::InFlight { chunk, operation } = self.actors[actor] else {
            panic!("operation {id} is not in flight");
        };
        let write_back = self.each == Each::Rewrite && operation == Operation::Read;
        self.actors[actor] = if write_back {
            Actor::WriteBack { chunk }
        } else {
            Actor::Idle
        };
    }
}
