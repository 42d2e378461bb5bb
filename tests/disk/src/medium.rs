//! One disk: what was written to it, what of that is durable, and what power loss leaves.

use crate::image::Image;
use crate::random::Random;
use std::collections::VecDeque;

/// What a disk holds.
#[derive(Clone, Debug)]
pub(crate) struct Medium {
    /// It writes so many bytes as a whole.
    sector_bytes: usize,
    /// What a read returns.
    seen: Image,
    /// What survives whatever happens, before all in the cache.
    durable: Image,
    /// What was written since, the oldest first.
    cached: VecDeque<Cached>,
    /// The number of the next write.
    next: u64,
    lie: Lie,
}

/// What a disk answers and does not do: what must be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lie {
    /// It does what it answers.
    #[default]
    None,
    /// A flush makes nothing durable.
    Flush,
    /// A write with FUA is not durable.
    Fua,
    /// Neither.
    Both,
}

/// A write in the cache.
#[derive(Clone, Debug)]
struct Cached {
    number: u64,
    write: Write,
    durable: bool,
}

/// Bytes and where they go.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// What power loss takes out of the caches.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loss {
    /// All that is not durable.
    Everything,
    /// Nothing but, maybe, what was not answered.
    Nothing,
    /// Each write with that likelihood, and some by sectors.
    Some {
        /// Of 100.
        lost_percent: u64,
        /// Of those that are not lost, of 100: torn, which keeps some of the sectors.
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

    /// Writes the sectors for which `keep` says so.
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

    /// It lies from now on.
    pub(crate) fn set_lie(&mut self, lie: Lie) {
        self.lie = lie;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.seen.bytes()
    }

    /// What is there, or less at the end of the disk.
    pub(crate) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        self.seen.read(offset, bytes)
    }

    /// Writes; `durable` as with FUA. What goes beyond the end is refused.
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

    /// Names everything that was written before now, for a flush that comes now.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    /// Makes durable what was written before the mark.
    pub(crate) fn flush(&mut self, mark: u64) {
        if matches!(self.lie, Lie::Flush | Lie::Both) {
            return;
        }
        for cached in &mut self.cached {
            cached.durable |= cached.number < mark;
        }
        self.settle();
    }

    /// Moves out of the cache what lies under nothing volatile.
    fn settle(&mut self) {
        while let Some(oldest) = self.cached.pop_front_if(|oldest| oldest.durable) {
            oldest.write.to(&mut self.durable);
        }
    }

    /// Power is lost while these writes were not answered.
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
                // What was not answered is torn all the same.
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
            // Any sectors of it, or those up to or from some sector.
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
    fn power_loss_takes_what_is_not_durable() {
        let mut random = Random::new(1, "test");
        let mut medium = Medium::new(4 * 512, 512);
        medium.write(write(0, 4, 1), false).unwrap();
        let mark = medium.mark();
        medium.write(write(1, 1, 2), false).unwrap();
        medium.write(write(2, 1, 3), true).unwrap();
        assert_eq!(sectors(&medium), [1, 2, 3, 1]);
        let mut unflushed = medium.clone();
        unflushed.lose_power(Vec::new(), Loss::Everything, &mut random);
        assert_eq!(sectors(&unflushed), [0, 0, 3, 0]);
        // A flush covers what was written before it came.
        medium.flush(mark);
        medium.lose_power(Vec::new(), Loss::Everything, &mut random);
        assert_eq!(sectors(&medium), [1, 1, 3, 1]);
    }

    #[test]
    fn what_power_loss_tears_is_torn_at_sectors() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..2000 {
            let mut random = Random::new(seed, "test");
            let mut medium = Medium::new(3 * 512, 512);
            medium.write(write(0, 3, 1), false).unwrap();
            let loss = Loss::Some {
                lost_percent: 20,
                torn_percent: 50,
            };
            medium.lose_power(vec![write(1, 2, 2)], loss, &mut random);
            let whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
            assert!(medium.read(0, 3 * 512).chunks(512).all(whole));
            kinds.insert(sectors(&medium));
        }
        // Of the first sector two values, of the others three.
        assert_eq!(kinds.len(), 2 * 3 * 3);
    }

    #[test]
    fn a_disk_that_lies_loses_what_it_answered() {
        let mut random = Random::new(1, "test");
        for (lie, kept) in [
            (Lie::None, [1, 2]),
            (Lie::Flush, [0, 2]),
            (Lie::Fua, [1, 0]),
            (Lie::Both, [0, 0]),
        ] {
            let mut medium = Medium::new(2 * 512, 512);
            medium.set_lie(lie);
            medium.write(write(0, 1, 1), false).unwrap();
            medium.flush(medium.mark());
            medium.write(write(1, 1, 2), true).unwrap();
            medium.lose_power(Vec::new(), Loss::Everything, &mut random);
            assert_eq!(sectors(&medium), kept, "{lie:?}");
        }
    }
}
