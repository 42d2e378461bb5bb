//! The page map, and the copies of cleaning. The map of a large drive is a sample: a hash picks one
//! unit of each group of neighbours. Amplification depends on shares alone, so memory is bounded
//! for any size.

use crate::draw::mix;
use crate::parameters::{float, whole};

/// The most places of the map.
const PLACES_MOST: u64 = 1 << 16;
/// The most blocks: greedy cleaning looks at each.
const BLOCKS_MOST: u64 = 1 << 12;
/// The units of a block in a sample.
const SAMPLED_BLOCK: u64 = 128;
/// A unit without data.
const NOWHERE: u32 = u32::MAX;

/// Which block is cleaned next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleaning {
    FirstIn,
    Greedy,
}

/// The units of a drive, and its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Units of the host.
    pub(super) units: u64,
    /// Units of a block.
    pub(super) block_units: u64,
    /// Physical units divided by units of the host.
    pub(super) over_provision: f64,
    pub(super) cleaning: Cleaning,
}

/// The price of the place for new units: `copies` units were moved for `room` new ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    pub(super) copies: u64,
    pub(super) room: u64,
}

#[derive(Debug)]
pub(super) struct Map {
    cleaning: Cleaning,
    /// Units of the drive for each one of the map.
    group: u64,
    block_units: usize,
    /// The place of each unit.
    places: Vec<u32>,
    /// The unit of each place; it holds data if it is still the unit's place.
    owners: Vec<u32>,
    /// Units with data, by block.
    valid: Vec<u32>,
    /// The block that takes new units.
    open: usize,
    filled: usize,
    price: Price,
    /// Units of the map that cleaning has moved.
    copied: u64,
}

impl Map {
    /// Returns an empty map, or the number of all units that the shape needs at least.
    pub(super) fn new(shape: &Shape) -> Result<Self, u64> {
        // Cleaning needs a block with room next to the open one.
        let least = shape.units + 2 * shape.block_units;
        let all = float(shape.units) * shape.over_provision;
        if all < float(least) {
            return Err(least);
        }
        let sampled = shape.block_units.min(SAMPLED_BLOCK);
        let most = PLACES_MOST.min(BLOCKS_MOST * sampled);
        let group = whole((all / float(most)).ceil());
        let block_units = if group > 1 {
            sampled
        } else {
            shape.block_units
        };
        let units = shape.units / group;
        let blocks = whole(float(units) * shape.over_provision / float(block_units));
        let [units, blocks, block_units] = [units, blocks, block_units].map(index);
        Ok(Self {
            cleaning: shape.cleaning,
            group,
            block_units,
            places: vec![NOWHERE; units],
            owners: vec![0; blocks * block_units],
            valid: vec![0; blocks],
            open: 0,
            filled: 0,
            price: Price { copies: 0, room: 1 },
            copied: 0,
        })
    }

    /// Fills the drive in order, then overwrites it at random until amplification is constant.
    pub(super) fn wear(&mut self, seed: u64) {
        const TIMES: u64 = 3;
        let units = self.places.len();
        for unit in 0..units {
            self.place(unit);
        }
        let mut random = seed;
        for _ in 0..count(units) * TIMES {
            random = mix(random);
            self.place(index(((random >> 32) * count(units)) >> 32));
        }
        self.copied = 0;
    }

    /// What cleaning paid last.
    pub(super) const fn price(&self) -> Price {
        self.price
    }

    /// Units of the drive that cleaning has moved.
    pub(super) const fn copied_units(&self) -> u64 {
        self.copied * self.group
    }

    /// Gives units `first` to `end` new places.
    pub(super) fn write(&mut self, first: u64, end: u64) {
        self.each_sampled(first, end, Self::place);
    }

    /// Frees units `first` to `end`.
    pub(super) fn trim(&mut self, first: u64, end: u64) {
        self.each_sampled(first, end, Self::forget);
    }

    /// Calls `change` for the units of the map that stand for some of `first` to `end`.
    fn each_sampled(&mut self, first: u64, end: u64, change: fn(&mut Self, usize)) {
        for group in first / self.group..end.div_ceil(self.group) {
            let unit = group * self.group + mix(group) % self.group;
            let index = index(group);
            if (first..end).contains(&unit) && index < self.places.len() {
                change(self, index);
            }
        }
    }

    fn forget(&mut self, unit: usize) {
        let place = std::mem::replace(&mut self.places[unit], NOWHERE);
        if place != NOWHERE {
            self.valid[index(u64::from(place)) / self.block_units] -= 1;
        }
    }

    fn place(&mut self, unit: usize) {
        self.forget(unit);
        if self.filled == self.block_units {
            self.clean();
        }
        let place = self.open * self.block_units + self.filled;
        self.owners[place] = index32(unit);
        self.places[unit] = index32(place);
        self.valid[self.open] += 1;
        self.filled += 1;
    }

    /// Opens the next block with room. The units in it that hold data come first.
    fn clean(&mut self) {
        let mut copies = 0;
        while self.filled == self.block_units {
            self.open = self.next();
            self.filled = self.compact(self.open);
            copies += count(self.filled);
        }
        self.copied += copies;
        self.price = Price {
            copies,
            room: count(self.block_units - self.filled),
        };
    }

    fn next(&self) -> usize {
        match self.cleaning {
            Cleaning::FirstIn => (self.open + 1) % self.valid.len(),
            Cleaning::Greedy => {
                let blocks = 0..self.valid.len();
                let others = blocks.filter(|block| *block != self.open);
                let least = others.min_by_key(|block| self.valid[*block]);
                least.expect("a drive has at least two blocks")
            }
        }
    }

    fn compact(&mut self, block: usize) -> usize {
        let begin = block * self.block_units;
        let mut kept = 0;
        for place in begin..begin + self.block_units {
            let unit = self.owners[place];
            if self.places[index(u64::from(unit))] == index32(place) {
                self.owners[begin + kept] = unit;
                self.places[index(u64::from(unit))] = index32(begin + kept);
                kept += 1;
            }
        }
        kept
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("the map is bounded")
}

fn index32(index: usize) -> u32 {
    u32::try_from(index).expect("the map is bounded")
}

fn count(index: usize) -> u64 {
    u64::try_from(index).expect("64 bits")
}
