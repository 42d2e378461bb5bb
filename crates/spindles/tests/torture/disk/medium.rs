//! One disk: its contents, their durable part, and what power loss leaves.

use crate::torture::disk::image::Image;
use crate::torture::random::Random;
use std::collections::VecDeque;

/// The contents of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    /// The number of bytes written atomically.
    sector_bytes: usize,
    /// The contents that a read returns.
    seen: Image,
    /// The contents that survive any power loss, without the cache.
    durable: Image,
    /// The writes since then, the oldest first.
    cached: VecDeque<Cached>,
    /// The number of the next write.
    next: u64,
    lie: Lie,
}

/// A promise that a disk breaks, which must be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The disk keeps its promises.
    #[default]
    None,
    /// A flush makes nothing durable.
    Flush,
    /// A write with FUA is not durable.
    Fua,
    /// Neither makes anything durable.
    Both,
}

/// A write in the cache.
#[derive(Clone, Debug)]
struct Cached {
    number: u64,
    write: Write,
    durable: bool,
}

/// Bytes and their offset.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// The part of the caches that power loss destroys.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// Every volatile write.
    Everything,
    /// Nothing except, maybe, unanswered writes.
    Nothing,
    /// Each write with a probability, and some only partly.
    Some {
        /// The share of writes that are lost, in percent.
        lost_percent: u64,
        /// The share of the other writes that are torn and keep only some sectors, in percent.
        torn_percent: u64,
    },
}

impl Loss {
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Everything,
            1 => Self::Nothing,
            kind => Self::Some {
                lost_percent: [10, 50, 50, 90][usize::try_from(kind - 2).expect("small")],
                torn_percent: *random.choose(&[0, 20, 60]),
            },
        }
    }
}

impl Write {
    fn to(&self, image: &mut Image) {
        image.write(self.offset, &self.bytes);
    }

    /// Writes the sectors for which `keep` returns true.
    fn torn_to(&self, image: &mut Image, sector_bytes: usize, mut keep: impl FnMut() -> bool) {
        let end = self.offset + self.bytes.len();
        let mut from = self.offset;
        while from < end {
            let to = ((from / sector_bytes + 1) * sector_bytes).min(end);
            if keep() {
                image.write(from, &self.bytes[from - self.offset..to - self.offset]);
            }
            from = to;
        }
    }
}

impl Medium {
    /// A disk of zeros.
    pub(crate) fn new(bytes: usize, sector_bytes: usize) -> Self {
        Self {
            sector_bytes,
            seen: Image::new(bytes),
            durable: Image::new(bytes),
            cached: VecDeque::new(),
            next: 0,
            lie: Lie::None,
        }
    }

    /// Makes the disk lie from now on.
    pub(crate) fn set_lie(&mut self, lie: Lie) {
        self.lie = lie;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.seen.bytes()
    }

    /// Returns the bytes at `offset`, fewer at the end of the disk.
    pub(crate) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        self.seen.read(offset, bytes)
    }

    /// Writes; `durable` for FUA. Writes beyond the end are refused.
    pub(crate) fn write(&mut self, write: Write, durable: bool) -> Result<(), ()> {
        if write.offset + write.bytes.len() > self.seen.bytes() {
            return Err(());
        }
        write.to(&mut self.seen);
        let number = self.next;
        self.next += 1;
        self.cached.push_back(Cached {
            number,
            write,
            durable: durable && !matches!(self.lie, Lie::Fua | Lie::Both),
        });
        self.settle();
        Ok(())
    }

    /// Returns a mark for a flush that arrives now: it covers every write before.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    /// Makes the writes before the mark durable.
    pub(crate) fn flush(&mut self, mark: u64) {
        if matches!(self.lie, Lie::Flush | Lie::Both) {
            return;
        }
        for cached in &mut self.cached {
            cached.durable |= cached.number < mark;
        }
        self.settle();
    }

    /// Moves the oldest writes from the cache to the durable contents, up to the first volatile
    /// one.
    fn settle(&mut self) {
        while let Some(oldest) = self.cached.pop_front_if(|oldest| oldest.durable) {
            oldest.write.to(&mut self.durable);
        }
    }

    /// Loses power while these writes are unanswered.
    pub(crate) fn lose_power(&mut self, flying: Vec<Write>, loss: Loss, random: &mut Random) {
        let mut flying = flying;
        while !flying.is_empty() {
            let write = flying.swap_remove(random.index(flying.len()));
            if write.offset + write.bytes.len() <= self.seen.bytes() && random.percent(70) {
                self.cached.push_back(Cached {
                    number: self.next,
                    write,
                    durable: false,
                });
            }
        }
        for cached in std::mem::take(&mut self.cached) {
            let write = &cached.write;
            let (drop_percent, tear_percent) = match loss {
                _ if cached.durable => (0, 0),
                // Unanswered writes may still be lost or torn.
                Loss::Nothing if cached.number == self.next => (30, 50),
                Loss::Everything if cached.number == self.next => (50, 50),
                Loss::Everything => (100, 0),
                Loss::Nothing => (0, 0),
                Loss::Some {
                    lost_percent,
                    torn_percent,
                } => (lost_percent, torn_percent),
            };
            if random.percent(drop_percent) {
                continue;
            }
            if !random.percent(tear_percent) {
                write.to(&mut self.durable);
                continue;
            }
            let sectors = write.bytes.len().div_ceil(self.sector_bytes);
            let (turn, keeps_first) = (random.index(sectors + 1), random.percent(50));
            let image = &mut self.durable;
            // Any of its sectors, or those up to or from some sector.
            if random.percent(50) {
                write.torn_to(image, self.sector_bytes, || random.percent(50));
            } else {
                let mut at = 0;
                write.torn_to(image, self.sector_bytes, || {
                    at += 1;
                    (at <= turn) == keeps_first
                });
            }
        }
        self.seen.clone_from(&self.durable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(sector: usize, sectors: usize, byte: u8) -> Write {
        Write {
            offset: sector * 512,
            bytes: vec![byte; sectors * 512],
        }
    }

    fn sectors(medium: &Medium) -> Vec<u8> {
        let seen = medium.read(0, medium.bytes());
        seen.chunks(512).map(|sector| sector[0]).collect()
    }

    #[test]
    fn power_loss_loses_writes_that_are_not_durable() {
        let mut random = Random::of(1, "test");
        let mut medium = Medium::new(4 * 512, 512);
        medium.write(write(0, 4, 1), false).expect("a test");
        let mark = medium.mark();
        medium.write(write(1, 1, 2), false).expect("a test");
        medium.write(write(2, 1, 3), true).expect("a test");
        assert_eq!(sectors(&medium), [1, 2, 3, 1]);
        let mut unflushed = medium.clone();
        unflushed.lose_power(Vec::new(), Loss::Everything, &mut random);
        assert_eq!(sectors(&unflushed), [0, 0, 3, 0]);
        // A flush covers the writes before its arrival.
        medium.flush(mark);
        medium.lose_power(Vec::new(), Loss::Everything, &mut random);
        assert_eq!(sectors(&medium), [1, 1, 3, 1]);
    }

    #[test]
    fn power_loss_tears_writes_at_sector_boundaries() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..2000 {
            let mut random = Random::of(seed, "test");
            let mut medium = Medium::new(3 * 512, 512);
            medium.write(write(0, 3, 1), false).expect("a test");
            let loss = Loss::Some {
                lost_percent: 20,
                torn_percent: 50,
            };
            medium.lose_power(vec![write(1, 2, 2)], loss, &mut random);
            let whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
            assert!(medium.read(0, 3 * 512).chunks(512).all(whole));
            kinds.insert(sectors(&medium));
        }
        // Two possible values of the first sector, three of the others.
        assert_eq!(kinds.len(), 2 * 3 * 3);
    }

    #[test]
    fn a_lying_disk_loses_answered_writes() {
        let mut random = Random::of(1, "test");
        for (lie, kept) in [
            (Lie::None, [1, 2]),
            (Lie::Flush, [0, 2]),
            (Lie::Fua, [1, 0]),
            (Lie::Both, [0, 0]),
        ] {
            let mut medium = Medium::new(2 * 512, 512);
            medium.set_lie(lie);
            medium.write(write(0, 1, 1), false).expect("a test");
            medium.flush(medium.mark());
            medium.write(write(1, 1, 2), true).expect("a test");
            medium.lose_power(Vec::new(), Loss::Everything, &mut random);
            assert_eq!(sectors(&medium), kept, "{lie:?}");
        }
    }
}
