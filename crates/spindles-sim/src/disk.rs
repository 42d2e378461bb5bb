//! The contents of a disk: what reads return, what is durable, and the versions in between. Latent
//! sector errors are a layer over the contents and don't change them.

use crate::disks::Model;
use crate::media::Media;
use crate::random::Random;
use spindles_block::MemberError;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A version of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The bytes that a read would return.
    Current,
    /// The bytes that would be left if all caches were lost now.
    Durable,
}

/// A write and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteData {
    /// The first sector.
    pub first: u64,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// The outcome of a write that was in flight when its process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Landing {
    /// No sector is written.
    Not,
    /// Every sector is written.
    Whole,
    /// Only part of the sectors is written.
    Torn,
}

impl Landing {
    /// Draws an outcome.
    pub fn random(random: &mut Random) -> Self {
        [Self::Not, Self::Whole, Self::Torn][random.weighted(&[2, 2, 1])]
    }
}

/// The effect of power loss on the cache and on writes in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PowerLoss {
    /// The whole cache is lost, and every write in flight.
    CacheLost,
    /// The cache and the writes in flight had just become durable.
    CacheKept,
    /// Each write is lost or kept as a whole.
    WritesLost,
    /// Each sector falls back to any version since the durable one: torn and reordered writes.
    SectorsLost,
}

impl PowerLoss {
    /// Draws an effect.
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

/// A sector with volatile versions.
#[derive(Clone, Debug)]
struct Cached {
    durable: Box<[u8]>,
    /// Set if the durable version is unreadable.
    unreadable: bool,
    /// The versions written since, oldest first, each with the number of its write. Reads return
    /// the last.
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
    /// Sectors that the array knows it could not fill, until they are durably written, each with
    /// the write counter at that time.
    unfilled: BTreeMap<u64, u64>,
    /// Allocated sectors; the rest of the disk is holes. `None` if the disk is not sparse.
    taken: Option<BTreeSet<u64>>,
    /// Counts writes.
    write: u64,
}

impl Disk {
    /// Creates a disk of zeros.
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

    /// Makes the disk sparse: it takes space only for written sectors.
    pub fn make_sparse(&mut self) {
        self.taken.get_or_insert_default();
    }

    /// Returns a disk of zeros of the same model, with `bytes` bytes.
    #[must_use]
    pub fn as_new(&self, bytes: u64) -> Self {
        let sector_bytes = u32::try_from(self.sector_bytes).expect("small");
        Self {
            taken: self.taken.as_ref().map(|_| BTreeSet::new()),
            ..Self::new(self.model, sector_bytes, bytes / u64::from(sector_bytes))
        }
    }

    /// Replaces this disk with a disk of zeros of `bytes` bytes.
    pub fn exchange(&mut self, bytes: u64) {
        let write = self.write;
        *self = Self {
            write,
            ..self.as_new(bytes)
        };
    }

    /// Returns the model.
    pub fn model(&self) -> &'static Model {
        self.model
    }

    /// Bytes of a sector: the unit that may tear.
    pub fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        self.current.bytes()
    }

    /// Returns the contents of a small disk as if every sector was readable.
    pub fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.bytes()).expect("a small disk")];
        self.current.read(0, &mut bytes);
        bytes
    }

    /// Reads from byte `at` on as if every sector was readable.
    pub fn peek(&self, at: u64, out: &mut [u8]) {
        self.current.read(at, out);
    }

    /// Returns the byte offset of sector `first`. Checks that `bytes` is whole sectors within the
    /// disk.
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

    /// Returns the sector as a read would if the sector was readable.
    pub fn current(&self, sector: u64) -> &[u8] {
        let at = self.at(sector, self.sector_bytes);
        self.current.part(at, self.sector_bytes)
    }

    /// Returns the contents that the sector would have if the cache was lost now.
    pub fn durable(&self, sector: u64) -> &[u8] {
        match self.cache.get(&sector) {
            Some(cached) => &cached.durable,
            None => self.current(sector),
        }
    }

    /// Returns the sector in that view.
    pub fn sector(&self, sector: u64, view: View) -> &[u8] {
        match view {
            View::Current => self.current(sector),
            View::Durable => self.durable(sector),
        }
    }

    /// Returns the bytes of these sectors.
    pub fn bytes_of(&self, sectors: Range<u64>, view: View) -> Vec<u8> {
        let sectors = sectors.map(|sector| self.sector(sector, view));
        sectors.collect::<Vec<_>>().concat()
    }

    /// Reads from sector `first` on.
    ///
    /// # Errors
    ///
    /// `Medium` if a sector of the range is unreadable.
    pub fn read(&self, first: u64, out: &mut [u8]) -> Result<(), MemberError> {
        let mut bad = self.unreadable.range(self.sectors(first, out.len()));
        if bad.next().is_some() {
            return Err(MemberError::Medium);
        }
        self.current.read(self.at(first, out.len()), out);
        Ok(())
    }

    /// Returns true if the sectors hold these bytes, readable or not, both in the cache and
    /// durably.
    pub fn holds(&self, first: u64, bytes: &[u8]) -> bool {
        let sectors = self.sectors(first, bytes.len());
        let mut sectors = sectors.zip(bytes.chunks_exact(self.sector_bytes));
        sectors
            .all(|(sector, bytes)| self.current(sector) == bytes && self.durable(sector) == bytes)
    }

    /// Returns the number of sectors of a write that would take new space.
    pub fn holes(&self, first: u64, bytes: usize) -> u64 {
        let Some(taken) = &self.taken else {
            return 0;
        };
        let sectors = self.sectors(first, bytes);
        let length = sectors.end - sectors.start;
        let there = taken.range(sectors).count();
        length - u64::try_from(there).expect("fits")
    }

    /// Writes zeros and frees the space.
    pub fn discard(&mut self, first: u64, bytes: &[u8]) {
        self.write(first, bytes, false);
        let sectors = self.sectors(first, bytes.len());
        if let Some(taken) = &mut self.taken {
            taken.extract_if(sectors, |_| true).for_each(drop);
        }
    }

    /// Writes into the cache, or durably with `fua` or without a cache. Makes the sectors readable.
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

    /// Replaces versions of sectors that are `wrong` with `right`, in the cache and below it. Later
    /// versions stay.
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

    /// Begins a flush, which covers all writes so far. Returns its ticket.
    pub fn flush_begins(&self) -> u64 {
        self.write
    }

    /// Ends the flush that returned `covered`.
    pub fn flush_ends(&mut self, covered: u64) {
        self.cache.retain(|sector, cached| {
            let count = cached
                .versions
                .partition_point(|&(write, _)| write <= covered);
            if let Some((write, newest)) = cached.versions.drain(..count).next_back() {
                cached.durable = newest;
                cached.unreadable = false;
                let unfilled_at = self.unfilled.get(sector);
                if unfilled_at.is_some_and(|&unfilled_at| unfilled_at < write) {
                    self.unfilled.remove(sector);
                }
            }
            !cached.versions.is_empty()
        });
    }

    /// Makes the sector unreadable until it is written.
    pub fn make_unreadable(&mut self, sector: u64) {
        self.unreadable.insert(sector);
    }

    /// Makes the sector readable again, with unchanged contents.
    pub fn make_readable(&mut self, sector: u64) {
        self.unreadable.remove(&sector);
    }

    /// Records that the array could not fill these sectors, and knows it.
    pub fn not_filled(&mut self, sectors: std::ops::Range<u64>) {
        self.unfilled
            .extend(sectors.map(|sector| (sector, self.write)));
    }

    /// Returns true if one of the sectors could not be filled and was not durably written since.
    pub fn is_unfilled(&self, sectors: std::ops::Range<u64>) -> bool {
        self.unfilled.range(sectors).next().is_some()
    }

    /// Returns the unreadable sectors.
    pub fn unreadable(&self) -> impl Iterator<Item = u64> {
        self.unreadable.iter().copied()
    }

    /// Returns the sectors that are unreadable, or would be if the cache was lost now. A rewrite
    /// heals a sector for good only once it is durable. Some sectors occur twice.
    pub fn not_durably_readable(&self) -> impl Iterator<Item = u64> {
        let healed = self.cache.iter().filter(|(_, cached)| cached.unreadable);
        self.unreadable().chain(healed.map(|(&sector, _)| sector))
    }

    /// Returns true if one of the sectors is unreadable.
    pub fn is_unreadable(&self, sectors: std::ops::Range<u64>) -> bool {
        self.unreadable.range(sectors).next().is_some()
    }

    /// Carries out a write whose process is gone, as `landing` says.
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

    /// Loses power while these writes are in flight: each sector falls back to its durable version
    /// or to any later one.
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
        // One random bit for each write, the same for all its sectors.
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
