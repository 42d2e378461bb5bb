//! No space is left for sparse disks, as on a full file system. Sectors that are already allocated
//! stay writable.
//!
//! Until there is space again and the array was reopened, any request may fail. Checks of data read
//! continue meanwhile; every other check resumes afterwards.

use super::Fault;
use crate::disk::WriteData;
use crate::random::Random;
use crate::truth::rule::Rule;
use crate::world::{Moment, Strike, World};
use spindles_engine::Member;

pub(super) static FAULT: Fault = Fault {
    name: "no_space",
    about: "writes to unallocated blocks of one disk, or of all, find no space",
    percent: 8,
    own_stream: true,
    start: |seed| {
        Box::new(NoSpace {
            random: Random::new(seed, "space"),
            is_planned: false,
            space: None,
        })
    },
};

/// Most sectors that are left when space gets short.
const LEFT_MAX: u64 = 64;

/// The space that is left.
#[derive(Clone, Copy, Debug)]
struct Space {
    /// The only disk that is short of space; `None` for all members.
    disk: Option<usize>,
    /// Number of sectors that disks can still allocate.
    left: u64,
}

#[derive(Debug)]
struct NoSpace {
    random: Random,
    /// Set if space is short at the next opening.
    is_planned: bool,
    /// `None` while space is not limited.
    space: Option<Space>,
}

impl Strike for NoSpace {
    /// Makes space short, now or at the next opening. If it is short already, frees space.
    fn strike(&mut self, world: &mut World) -> bool {
        if let Some(space) = &mut self.space {
            space.left = u64::MAX;
            world.note("there is space again");
            return true;
        }
        if self.random.percent(50) {
            return !std::mem::replace(&mut self.is_planned, true);
        }
        self.take_space(world)
    }

    fn on_event(&mut self, world: &mut World, moment: &mut Moment<'_>) {
        match moment {
            Moment::Writes {
                disk,
                data,
                bytes,
                is_crash,
            } => self.limit(world, *disk, data, bytes, *is_crash),
            Moment::Frees { disk, sectors } => {
                let is_here = |space: &&mut Space| space.disk.is_none_or(|full| full == *disk);
                if let Some(space) = self.space.as_mut().filter(is_here) {
                    space.left = space.left.saturating_add(*sectors);
                }
            }
            Moment::Begun { .. } => self.change_space(world),
            Moment::Relief => self.give_space(world),
            _ => {}
        }
    }

    fn excuses(&self, _: u64) -> Option<Rule> {
        self.space.map(|_| Rule::NoSpace)
    }
}

impl NoSpace {
    /// Between sessions: makes space short if that was planned, or frees it.
    fn change_space(&mut self, world: &mut World) {
        if self.space.is_some_and(|space| space.left == u64::MAX) || self.random.percent(50) {
            self.give_space(world);
        }
        if std::mem::take(&mut self.is_planned) && self.space.is_none() {
            self.take_space(world);
        }
    }

    /// Makes space short, if all members with contents are readable: members without space may be
    /// put out.
    fn take_space(&mut self, world: &mut World) -> bool {
        let disks = 0..world.stack.disks.len();
        let is_whole = |disk: usize| {
            let unreadable = world.stack.disks[disk].not_durably_readable().next();
            let rotten = world.stack.rotten_sectors(disk).next();
            let (array, member) = world.stack.position(disk);
            let gone = world.devices.is_gone(disk) && world.arrays.is_open(array);
            let unnoticed =
                gone && !matches!(world.state_of(array, member), Member::Missing { .. });
            unreadable.is_none() && rotten.is_none() && !unnoticed
        };
        let mut arrays = world.stack.arrays.iter();
        let whole = disks.clone().all(is_whole)
            && world.stack.spoiled.is_empty()
            && arrays.all(|array| array.damaged.is_none());
        if !whole {
            return false;
        }
        let one = self.random.index(disks.len());
        let space = Space {
            disk: self.random.percent(40).then_some(one),
            left: [0, self.random.below(LEFT_MAX)][usize::from(self.random.percent(50))],
        };
        world.note(&format!("space is short: {space:?}"));
        self.space = Some(space);
        world.stack.is_short_of_space = true;
        world.log.count("space was short", 1);
        true
    }

    /// Frees space, between sessions.
    fn give_space(&mut self, world: &mut World) {
        if self.space.take().is_some() {
            world.note("there is space for all again");
            world.stack.is_short_of_space = false;
        }
    }

    /// Limits a write to its longest prefix that fits, in whole blocks, and allocates the space.
    /// Refuses some writes that do not fit before anything is written.
    fn limit(
        &mut self,
        world: &mut World,
        disk: usize,
        data: &WriteData,
        taken: &mut Option<usize>,
        is_crash: bool,
    ) {
        let bytes = data.bytes.len();
        let is_here = |space: &Space| {
            disk != world.devices.journal_number() && space.disk.is_none_or(|full| full == disk)
        };
        let Some(space) = self.space.filter(is_here) else {
            return;
        };
        let holes = |bytes| world.disk(disk).holes(data.first, bytes);
        let mut whole = (0..=bytes).rev().step_by(world.stack.block_bytes);
        let fits = whole.find(|&bytes| holes(bytes) <= space.left);
        let fits = fits.expect("nothing fits everywhere");
        let left = space.left - holes(fits);
        if fits < bytes && !is_crash {
            if self.random.percent(50) {
                *taken = None;
                return;
            }
            world.log.count("written in part", 1);
        }
        self.space = Some(Space { left, ..space });
        *taken = Some(fits);
    }
}
