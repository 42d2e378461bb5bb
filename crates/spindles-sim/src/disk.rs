//! The contents of a disk: what reads return, what is durable, and what lies between. Contents
//! stay pristine; latent sector errors are a layer over them.

use crate::disks::Model;
use crate::media::Media;
use crate::random::Random;
use crate::stack::View;
use spindles_block::MemberError;
use std::collections::{BTreeMap, BTreeSet};

/// A write, as its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteData {
    /// The first sector.
    pub first: u64,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// What becomes of a write that was in flight when its process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Landing {
    /// It is not carried out.
    Not,
    /// All of it is.
    Whole,
    /// Some of its sectors are.
    Torn,
}

impl Landing {
    /// Any of them.
    pub fn random(random: &mut Random) -> Self {
        [Self::Not, Self::Whole, Self::Torn][random.weighted(&[2, 2, 1])]
    }
}

/// What power loss does to the cache and to what is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerLoss {
    /// All of it is lost.
    CacheLost,
    /// All of it had just become durable.
    CacheKept,
    /// Each write is lost or kept as a whole.
    WritesLost,
    /// Each sector falls back to any version since the durable one: torn and reordered writes.
    SectorsLost,
}

impl PowerLoss {
    /// Any of them.
    pub fn random(random: &mut Random) -> Self {
        let ways = [
            Self::CacheLost,
            Self::CacheKept,
            Self::WritesLost,
            Self::SectorsLost,
        ];
        ways[random.weighted(&[2, 1, 3, 4])]
    }
}

/// A sector that is not durable as it is.
#[derive(Clone, Debug)]
struct Cached {
    durable: Box<[u8]>,
    /// Whether the durable version can't be read.
    unreadable: bool,
    /// What was written since, oldest first, each with the number of its write. The last is what
    /// reads return.
    versions: Vec<(u64, Box<[u8]>)>,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    model: &'static Model,
    sector_bytes: usize,
    current: Media,
    cache: BTreeMap<u64, Cached>,
    unreadable: BTreeSet<u64>,
    /// Sectors that its array knows to hold nothing, until they are durably written, and how many writes there
    /// were when it said so.
    unfilled: BTreeMap<u64, u64>,
    /// The sectors that take space, where all others are holes.
    taken: Option<BTreeSet<u64>>,
    /// Counts writes.
    write: u64,
}

impl Disk {
    /// A disk of zeros.
    pub fn new(model: &'static Model, sector_bytes: u32, sectors: u64) -> Self {
        let bytes = u64::from(sector_bytes) * sectors;
        Self {
            model,
            sector_bytes: usize::try_from(sector_bytes).expect("a sector fits in memory"),
            current: Media::new(bytes),
            cache: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            unfilled: BTreeMap::new(),
            taken: None,
            write: 0,
        }
    }

    /// From now on it takes space only for what is written.
    pub fn make_sparse(&mut self) {
        self.taken.get_or_insert_default();
    }

    /// A disk of zeros of the same make, with so many bytes.
    #[must_use]
    pub fn as_new(&self, bytes: u64) -> Self {
        let sector_bytes = u32::try_from(self.sector_bytes).expect("small");
        Self {
            taken: self.taken.as_ref().map(|_| BTreeSet::new()),
            ..Self::new(self.model, sector_bytes, bytes / u64::from(sector_bytes))
        }
    }

    /// A disk of zeros with so many bytes is put where this one is.
    pub fn exchange(&mut self, bytes: u64) {
        let write = self.write;
        *self = Self {
            write,
            ..self.as_new(bytes)
        };
    }

    /// The model.
    pub fn model(&self) -> &'static Model {
        self.model
    }

    /// Bytes of a sector: what may tear.
    pub fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.current.bytes()
    }

    /// The whole of a small disk, as reads would return it if all could be read.
    pub fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.bytes()).expect("a small disk")];
        self.current.read(0, &mut bytes);
        bytes
    }

    /// What reads would return from that byte on, if all could be read.
    pub fn peek(&self, at: u64, out: &mut [u8]) {
        self.current.read(at, out);
    }

    /// Where sectors begin, of which so many bytes are there.
    fn at(&self, first: u64, bytes: usize) -> u64 {
        assert!(bytes.is_multiple_of(self.sector_bytes), "whole sectors");
        let at = first * u64::try_from(self.sector_bytes).expect("small");
        let end = at + u64::try_from(bytes).expect("fits");
        assert!(end <= self.bytes(), "beyond the end");
        at
    }

    fn sectors(&self, first: u64, bytes: usize) -> std::ops::Range<u64> {
        let sectors = u64::try_from(bytes / self.sector_bytes).expect("fits");
        first..first + sectors
    }

    /// What a read of the sector would return if it could be read.
    pub fn current(&self, sector: u64) -> &[u8] {
        let at = self.at(sector, self.sector_bytes);
        self.current.part(at, self.sector_bytes)
    }

    /// What the sector would hold if the cache was lost now.
    pub fn durable(&self, sector: u64) -> &[u8] {
        match self.cache.get(&sector) {
            Some(cached) => &cached.durable,
            None => self.current(sector),
        }
    }

    /// The sector in that view.
    pub fn sector(&self, sector: u64, view: View) -> &[u8] {
        match view {
            View::Current => self.current(sector),
            View::Durable => self.durable(sector),
        }
    }

    /// Reads.
    ///
    /// # Errors
    ///
    /// `Medium` when a sector of the range can't be read.
    pub fn read(&self, first: u64, out: &mut [u8]) -> Result<(), MemberError> {
        let mut bad = self.unreadable.range(self.sectors(first, out.len()));
        if bad.next().is_some() {
            return Err(MemberError::Medium);
        }
        self.current.read(self.at(first, out.len()), out);
        Ok(())
    }

    /// Whether these bytes lie there, readable or not, whatever becomes of the cache.
    pub fn holds(&self, first: u64, bytes: &[u8]) -> bool {
        let sectors = self.sectors(first, bytes.len());
        let mut sectors = sectors.zip(bytes.chunks_exact(self.sector_bytes));
        sectors
            .all(|(sector, bytes)| self.current(sector) == bytes && self.durable(sector) == bytes)
    }

    /// How many sectors of a write would take space that they do not take yet.
    pub fn holes(&self, first: u64, bytes: usize) -> u64 {
        let Some(taken) = &self.taken else {
            return 0;
        };
        let sectors = self.sectors(first, bytes);
        let length = sectors.end - sectors.start;
        let there = taken.range(sectors).count();
        length - u64::try_from(there).expect("fits")
    }

    /// Zeros that take no space.
    pub fn discard(&mut self, first: u64, bytes: &[u8]) {
        self.write(first, bytes, false);
        let sectors = self.sectors(first, bytes.len());
        if let Some(taken) = &mut self.taken {
            taken.extract_if(sectors, |_| true).for_each(drop);
        }
    }

    /// Writes, into the cache where there is one; with `fua` durably. Makes the sectors readable.
    pub fn write(&mut self, first: u64, bytes: &[u8], fua: bool) {
        self.write += 1;
        let all = self.at(first, bytes.len());
        let sectors = self.sectors(first, bytes.len());
        if let Some(taken) = &mut self.taken {
            taken.extend(sectors.clone());
        }
        for (sector, new) in sectors.zip(bytes.chunks_exact(self.sector_bytes)) {
            let unreadable = self.unreadable.remove(&sector);
            if fua || !self.model.volatile_cache {
                self.cache.remove(&sector);
                self.unfilled.remove(&sector);
                continue;
            }
            let at = self.at(sector, self.sector_bytes);
            let cached = self.cache.entry(sector).or_insert_with(|| Cached {
                durable: self.current.part(at, self.sector_bytes).into(),
                unreadable,
                versions: Vec::new(),
            });
            cached.versions.push((self.write, new.into()));
        }
        self.current.write(all, bytes);
    }

    /// Sectors that are `wrong` are `right`, in caches and beneath them; what was written since stays.
    pub fn correct(&mut self, first: u64, wrong: &[u8], right: &[u8]) {
        let sectors = self.sectors(first, wrong.len());
        let bytes = wrong.chunks_exact(self.sector_bytes);
        let bytes = bytes.zip(right.chunks_exact(self.sector_bytes));
        for (sector, (wrong, right)) in sectors.zip(bytes) {
            let at = self.at(sector, self.sector_bytes);
            let current = self.current.part_mut(at, self.sector_bytes);
            let cached = self.cache.get_mut(&sector).into_iter();
            let beneath = cached.flat_map(|cached| {
                let versions = cached.versions.iter_mut().map(|(_, bytes)| &mut bytes[..]);
                versions.chain(std::iter::once(&mut cached.durable[..]))
            });
            for bytes in beneath.chain(std::iter::once(current)) {
                if bytes == wrong {
                    bytes.copy_from_slice(right);
                }
            }
        }
    }

    /// A flush is asked for: it covers what was written so far.
    pub fn flush_begins(&self) -> u64 {
        self.write
    }

    /// The flush that began with this is answered.
    pub fn flush_ends(&mut self, covered: u64) {
        self.cache.retain(|sector, cached| {
            let count = cached
                .versions
                .partition_point(|&(write, _)| write <= covered);
            if let Some((write, newest)) = cached.versions.drain(..count).next_back() {
                cached.durable = newest;
                cached.unreadable = false;
                if self.unfilled.get(sector).is_some_and(|&told| told < write) {
                    self.unfilled.remove(sector);
                }
            }
            !cached.versions.is_empty()
        });
    }

    /// The sector can't be read until it is written.
    pub fn make_unreadable(&mut self, sector: u64) {
        self.unreadable.insert(sector);
    }

    /// The sector can be read again, as it was.
    pub fn make_readable(&mut self, sector: u64) {
        self.unreadable.remove(&sector);
    }

    /// Its array could not fill these sectors, and knows that.
    pub fn not_filled(&mut self, sectors: std::ops::Range<u64>) {
        self.unfilled
            .extend(sectors.map(|sector| (sector, self.write)));
    }

    /// Whether one of the sectors could not be filled, and was not written since.
    pub fn is_unfilled(&self, sectors: std::ops::Range<u64>) -> bool {
        self.unfilled.range(sectors).next().is_some()
    }

    /// The sectors that can't be read.
    pub fn unreadable(&self) -> impl Iterator<Item = u64> {
        self.unreadable.iter().copied()
    }

    /// The sectors that can't be read, or could not if the cache was lost now: a rewrite heals a
    /// sector for good only when it is durable. Some come twice.
    pub fn not_durably_readable(&self) -> impl Iterator<Item = u64> {
        let healed = self.cache.iter().filter(|(_, cached)| cached.unreadable);
        self.unreadable().chain(healed.map(|(&sector, _)| sector))
    }

    /// Whether one of the sectors can't be read.
    pub fn is_unreadable(&self, sectors: std::ops::Range<u64>) -> bool {
        self.unreadable.range(sectors).next().is_some()
    }

    /// The process that asked for this write is gone.
    pub fn land(&mut self, random: &mut Random, write: &WriteData, landing: Landing) {
        match landing {
            Landing::Not => {}
            Landing::Whole => self.write(write.first, &write.bytes, false),
            Landing::Torn => {
                let sectors = self.sectors(write.first, write.bytes.len());
                let bytes: Vec<_> = write.bytes.chunks_exact(self.sector_bytes).collect();
                for (sector, bytes) in sectors.zip(bytes) {
                    if random.percent(50) {
                        self.write(sector, bytes, false);
                    }
                }
            }
        }
    }

    /// Power is lost while these writes are in flight: each sector falls back to its durable
    /// version or any later one.
    pub fn lose_power(&mut self, random: &mut Random, how: PowerLoss, in_flight: &[&WriteData]) {
        for write in in_flight {
            let landing = match how {
                PowerLoss::CacheLost => Landing::Not,
                PowerLoss::CacheKept => Landing::Whole,
                PowerLoss::WritesLost => [Landing::Not, Landing::Whole][random.weighted(&[1, 1])],
                PowerLoss::SectorsLost => Landing::Torn,
            };
            self.land(random, write, landing);
        }
        // One coin for each write, the same for all its sectors.
        let coins = random.any();
        let kept = |write: u64| (coins ^ write).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1;
        for (sector, cached) in std::mem::take(&mut self.cache) {
            let versions = &cached.versions;
            let chosen = match how {
                PowerLoss::CacheLost => None,
                PowerLoss::CacheKept => versions.last(),
                PowerLoss::WritesLost => versions.iter().rfind(|&&(write, _)| kept(write)),
                PowerLoss::SectorsLost => {
                    let count = u64::try_from(versions.len()).expect("fits");
                    let index = usize::try_from(random.below(count + 1)).expect("fits");
                    versions.get(index)
                }
            };
            let bytes = chosen.map_or(&cached.durable, |(_, bytes)| bytes);
            if chosen.is_none() && cached.unreadable {
                self.unreadable.insert(sector);
            }
            let at = self.at(sector, self.sector_bytes);
            self.current.write(at, bytes);
        }
    }
}
