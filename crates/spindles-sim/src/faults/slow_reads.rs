//! Reads of a part of a disk become slow, as where a platter begins to fail.

use super::Fault;
use crate::random::Random;
use crate::world::{Moment, Strike, World};
use spindles_block::Operation;
use std::ops::Range;

pub(super) static FAULT: Fault = Fault {
    name: "slow_reads",
    about: "reads of some blocks of a disk take fifty times as long for the rest of the session",
    percent: 8,
    own_stream: true,
    start: |seed| {
        Box::new(SlowReads {
            random: Random::new(seed, "slow reads"),
            places: Vec::new(),
        })
    },
};

/// The slow blocks of disks.
#[derive(Debug)]
struct SlowReads {
    random: Random,
    places: Vec<(usize, Range<u64>)>,
}

impl Strike for SlowReads {
    fn strike(&mut self, world: &mut World) -> bool {
        let disk = self.random.index(world.stack.disks.len());
        let first = world.stack.in_use(disk).any(&mut self.random).0;
        let blocks = first..first + self.random.between(8, 128);
        world.note(&format!(
            "reads of blocks {blocks:?} of disk {disk} are slow"
        ));
        self.places.push((disk, blocks));
        true
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        match moment {
            Moment::Begins { io, disk, ns } if io.operation == Operation::Read => {
                let read = io.block.0..io.block.0 + u64::from(io.blocks);
                let mut places = self.places.iter();
                if places
                    .any(|(of, slow)| of == disk && slow.start < read.end && read.start < slow.end)
                {
                    **ns *= 50;
                    world.log.count("slow read", 1);
                }
            }
            Moment::Exchanged { disk } => self.places.retain(|(of, _)| of != disk),
            Moment::Stopped => self.places.clear(),
            _ => {}
        }
    }
}
