//! The next disk being rebuilt drops out before it is full. It protects nothing until then.

use super::Fault;
use crate::clock::Happening;
use crate::world::{Moment, Strike, World};

pub(super) static FAULT: Fault = Fault {
    name: "rebuild_fails",
    about: "the next disk that is being filled is gone before it is full",
    percent: 25,
    own_stream: false,
    start: |_| Box::<WeakDisks>::default(),
};

/// The disks that will drop out before they are full.
#[derive(Debug, Default)]
struct WeakDisks {
    count: u32,
}

impl Strike for WeakDisks {
    fn strike(&mut self, _: &mut World) -> bool {
        self.count += 1;
        true
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        match *moment {
            Moment::Fills { disk } if self.count > 0 => {
                self.count -= 1;
                let gone = Happening::Gone { disk };
                world.clock.after_between(0, 8_000_000, gone);
            }
            Moment::Heals => self.count = 0,
            _ => {}
        }
    }
}
