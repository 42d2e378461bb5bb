//! A disk does not answer for a while, or answers one read very late, like a disk in error
//! recovery.

use super::Fault;
use crate::random::Random;
use crate::world::{Moment, Strike, World};
use spindles_block::{Instant, Operation};
use std::collections::BTreeMap;

pub(super) static FAULT: Fault = Fault {
    name: "stall",
    about: "a disk answers nothing for some milliseconds, or one read so late",
    percent: 12,
    own_stream: true,
    start: |seed| {
        Box::new(Stalls {
            random: Random::new(seed, "stalling"),
            disks: BTreeMap::new(),
        })
    },
};

/// The answers that a disk delays.
#[derive(Clone, Copy, Debug)]
enum Stall {
    /// All, until then.
    Until(Instant),
    /// The next read that it would have answered, by `ns` nanoseconds.
    NextRead { ns: u64 },
}

/// The disks that stall.
#[derive(Debug)]
struct Stalls {
    random: Random,
    disks: BTreeMap<usize, Stall>,
}

impl Strike for Stalls {
    fn strike(&mut self, world: &mut World) -> bool {
        let disk = self.random.index(world.stack.disks.len());
        let ns = self.random.between(1, 60) * 1_000_000;
        let one_read = self.random.percent(50);
        let what = if one_read { "one read" } else { "everything" };
        world.note(&format!("disk {disk} stalls for {ns} ns: {what}"));
        let now = world.now();
        world.client.stalled_at.get_or_insert(now);
        let stall = if one_read {
            Stall::NextRead { ns }
        } else {
            Stall::Until(now.plus_ns(ns))
        };
        self.disks.insert(disk, stall);
        true
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        match moment {
            Moment::Answers {
                operation,
                disk,
                at,
            } => match self.disks.get(disk) {
                Some(Stall::Until(until)) if *until > world.now() => **at = Some(*until),
                Some(Stall::NextRead { ns }) if *operation == Operation::Read => {
                    **at = Some(world.now().plus_ns(*ns));
                    self.disks.remove(disk);
                }
                _ => {}
            },
            Moment::Stopped => self.disks.clear(),
            _ => {}
        }
    }
}
