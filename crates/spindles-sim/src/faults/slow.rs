//! A disk answers late for a while, so that others run ahead of it.

use super::Fault;
use crate::world::{Moment, Strike, World};
use std::collections::BTreeSet;

pub(super) static FAULT: Fault = Fault {
    name: "slow",
    about: "a disk takes twenty times as long for the rest of the session",
    percent: 30,
    own_stream: false,
    start: |_| Box::<Slow>::default(),
};

/// The slow disks of a session.
#[derive(Debug, Default)]
struct Slow {
    disks: BTreeSet<usize>,
}

impl Strike for Slow {
    fn strike(&mut self, world: &mut World) -> bool {
        let disk = world.random_disk();
        world.note(&format!("disk {disk} is slow"));
        self.disks.insert(disk);
        true
    }

    fn on_event(&mut self, _: &mut World, moment: &mut Moment<'_>) {
        match moment {
            Moment::Begins { disk, ns, .. } if self.disks.contains(disk) => **ns *= 20,
            Moment::Exchanged { disk } => {
                self.disks.remove(disk);
            }
            Moment::Stopped => self.disks.clear(),
            _ => {}
        }
    }
}
