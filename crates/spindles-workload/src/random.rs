//! Chunks at random offsets: Bonnie's seeks, and random reads and writes.

use crate::issue::{BlockWorkload, Issue, Next};
use crate::plan::Plan;
use crate::stream::Random;
use alloc::boxed::Box;
use alloc::vec::Vec;
use spindles_block::Operation;

/// The operation on each chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Each {
    Read,
    Write,
    /// A read or a write, in the proportion of the plan.
    Mixed,
    /// A read. An actor's first read, and then every this-many-th, is written back with one integer
    /// changed.
    ReadAndWriteBackEvery(u64),
}

#[derive(Clone, Copy)]
enum ActorState {
    Idle,
    InFlight { chunk: u64, operation: Operation },
    WriteBack { chunk: u64 },
}

struct Actor {
    random: Random,
    /// Tickets drawn so far, including the one in flight.
    drawn: u64,
    state: ActorState,
}

struct Scattered {
    each: Each,
    chunk_bytes: u32,
    chunks: u64,
    read_percent: u64,
    /// Tickets left for all actors together.
    tickets: u64,
    actors: Vec<Actor>,
}

/// All actors draw from one pool of `plan.operations` tickets; each has its own random numbers.
pub(crate) fn start(plan: &Plan, each: Each) -> Box<dyn BlockWorkload> {
    let actor = |index| Actor {
        random: Random::new(plan.seed, plan.kind.name, index),
        drawn: 0,
        state: ActorState::Idle,
    };
    Box::new(Scattered {
        each,
        chunk_bytes: plan.chunk_bytes,
        chunks: plan.chunks(),
        read_percent: plan.read_percent.into(),
        tickets: if plan.endless {
            u64::MAX
        } else {
            plan.operations
        },
        actors: (0..plan.actors()).map(actor).collect(),
    })
}

impl Scattered {
    fn issue(&mut self, index: usize, chunk: u64, operation: Operation, touch: bool) -> Next {
        let actor = &mut self.actors[index];
        actor.state = ActorState::InFlight { chunk, operation };
        let touch = touch.then(|| {
            let integer = actor.random.below(u64::from(self.chunk_bytes / 4));
            u32::try_from(integer).expect("less than the chunk")
        });
        let id = u32::try_from(index).expect("a small number");
        Next::Issue(Issue {
            id,
            actor: id,
            stream: 0,
            operation,
            offset_bytes: chunk * u64::from(self.chunk_bytes),
            bytes: self.chunk_bytes,
            touch,
        })
    }
}

impl BlockWorkload for Scattered {
    fn next(&mut self) -> Next {
        let mut in_flight = false;
        for index in 0..self.actors.len() {
            let actor = &mut self.actors[index];
            match actor.state {
                ActorState::InFlight { .. } => in_flight = true,
                ActorState::WriteBack { chunk } => {
                    return self.issue(index, chunk, Operation::Write { fua: false }, true);
                }
                ActorState::Idle if self.tickets > 0 => {
                    self.tickets -= 1;
                    actor.drawn += 1;
                    let chunk = actor.random.below(self.chunks);
                    let reads = match self.each {
                        Each::Read | Each::ReadAndWriteBackEvery(_) => true,
                        Each::Write => false,
                        Each::Mixed => actor.random.below(100) < self.read_percent,
                    };
                    return if reads {
                        self.issue(index, chunk, Operation::Read, false)
                    } else {
                        self.issue(index, chunk, Operation::Write { fua: false }, true)
                    };
                }
                ActorState::Idle => {}
            }
        }
        if in_flight { Next::Wait } else { Next::Done }
    }

    fn complete(&mut self, id: u32) {
        let actor = &mut self.actors[usize::try_from(id).expect("an id of ours")];
        let ActorState::InFlight { chunk, operation } = actor.state else {
            panic!("operation {id} is not in flight");
        };
        actor.state = match self.each {
            Each::ReadAndWriteBackEvery(step)
                if operation == Operation::Read && (actor.drawn - 1).is_multiple_of(step) =>
            {
                ActorState::WriteBack { chunk }
            }
            Each::Read | Each::Write | Each::Mixed | Each::ReadAndWriteBackEvery(_) => {
                ActorState::Idle
            }
        };
    }
}
