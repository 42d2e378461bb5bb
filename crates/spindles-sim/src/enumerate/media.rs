//! All disks of a small array: their durable contents, their caches, and everything that a crash
//! may leave of both.

use super::store::{Content, mix};
use std::rc::Rc;

/// Marks a part of a cached write that a later durable write replaced.
const HOLE: Content = Content::MAX;

/// Up to this many writes to one disk are lost in every combination. With more writes, explores
/// only no loss, total loss, the loss of a single write, and the loss of all but a single write.
const COMBINED_MAX: usize = 8;

/// A write to one disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) disk: u8,
    /// The first atom.
    pub(super) first: u16,
    pub(super) atoms: Rc<[Content]>,
}

impl Write {
    pub(super) fn hash(&self) -> u64 {
        let place = mix(u64::from(self.disk), u64::from(self.first));
        let atoms = self.atoms.iter();
        atoms.fold(place, |hash, atom| mix(hash, u64::from(*atom)))
    }

    fn places(&self) -> impl Iterator<Item = (u16, Content)> {
        let places = (self.first..).zip(self.atoms.iter().copied());
        places.filter(|(_, atom)| *atom != HOLE)
    }

    /// Returns the parts that may land when the write tears: its beginning or its end, cut after
    /// the first atom or before the last.
    fn torn(&self) -> Vec<Self> {
        let count = self.atoms.len();
        let mut parts = Vec::new();
        for cut in [1, count.saturating_sub(1)] {
            for (range, first) in [(0..cut, 0), (cut..count, cut)] {
                let part = Self {
                    disk: self.disk,
                    first: self.first + u16::try_from(first).expect("short"),
                    atoms: self.atoms[range].into(),
                };
                if cut < count && !parts.contains(&part) {
                    parts.push(part);
                }
            }
        }
        parts
    }
}

/// A state that a crash may leave on one disk.
#[derive(Debug)]
pub(super) struct Left {
    /// Atoms whose durable contents change.
    pub(super) durable: Vec<(u16, Content)>,
    /// The contents of the cache.
    pub(super) cached: Vec<Write>,
    /// Set if a write was torn.
    pub(super) torn: bool,
    /// Its contribution to `Media::durable_hash`.
    pub(super) hash: u64,
}

/// The disks.
#[derive(Clone, Debug)]
pub(super) struct Media {
    disks: u8,
    atoms: u16,
    durable: Vec<Content>,
    /// Writes in caches, oldest first, with their numbers.
    cached: Vec<(u32, Write)>,
    written: u32,
    /// Hashes of the durable contents, by disk.
    hashes: [u64; DISKS_MAX],
}

/// Disks of an array, with its journal device.
const DISKS_MAX: usize = 8;

fn atom_hash(disk: u8, atom: u16, content: Content) -> u64 {
    let place = u64::from(disk) << 48 | u64::from(atom) << 32;
    mix(1, place | u64::from(content))
}

fn cache_hash<'a>(disk: u8, writes: impl Iterator<Item = &'a Write>) -> u64 {
    let mut writes = writes.peekable();
    if writes.peek().is_none() {
        return 0;
    }
    writes.fold(u64::from(disk), |hash, write| mix(hash, write.hash()))
}

impl Media {
    /// Creates disks of zeros.
    pub(super) fn new(disks: u8, atoms: u16) -> Self {
        Self {
            disks,
            atoms,
            durable: vec![super::store::ZEROS; usize::from(disks) * usize::from(atoms)],
            cached: Vec::new(),
            written: 0,
            hashes: [0; DISKS_MAX],
        }
    }

    fn place(&self, disk: u8, atom: u16) -> usize {
        assert!(disk < self.disks && atom < self.atoms, "beyond the end");
        usize::from(disk) * usize::from(self.atoms) + usize::from(atom)
    }

    fn set(&mut self, disk: u8, atom: u16, content: Content) {
        let place = self.place(disk, atom);
        let was = std::mem::replace(&mut self.durable[place], content);
        let hash = &mut self.hashes[usize::from(disk)];
        *hash = hash
            .wrapping_add(atom_hash(disk, atom, content))
            .wrapping_sub(atom_hash(disk, atom, was));
    }

    /// Reads from the cache, or else the durable contents.
    pub(super) fn read(&self, disk: u8, first: u16, out: &mut [Content]) {
        let start = self.place(disk, first);
        out.copy_from_slice(&self.durable[start..start + out.len()]);
        for (_, write) in self.cached.iter().filter(|(_, write)| write.disk == disk) {
            for (atom, content) in write.places() {
                let at = usize::from(atom).checked_sub(usize::from(first));
                if let Some(out) = at.and_then(|at| out.get_mut(at)) {
                    *out = content;
                }
            }
        }
    }

    /// Writes, into the cache unless `durably`.
    pub(super) fn write(&mut self, write: &Write, durably: bool) {
        self.written += 1;
        if !durably {
            return self.cached.push((self.written, write.clone()));
        }
        let range = write.first..write.first + u16::try_from(write.atoms.len()).expect("short");
        for (_, older) in self.cached.iter_mut().filter(|(_, w)| w.disk == write.disk) {
            let over = |place: &(u16, Content)| range.contains(&place.0);
            if (older.first..)
                .zip(older.atoms.iter().copied())
                .any(|place| over(&place))
            {
                let atoms = (older.first..).zip(older.atoms.iter().copied());
                older.atoms = atoms
                    .map(|place| if over(&place) { HOLE } else { place.1 })
                    .collect();
            }
        }
        self.cached
            .retain(|(_, write)| write.places().next().is_some());
        for (atom, content) in write.places() {
            self.set(write.disk, atom, content);
        }
    }

    /// Begins a flush, which covers all writes so far. Returns its ticket.
    pub(super) fn flush_begins(&self) -> u32 {
        self.written
    }

    /// Returns how many cached writes of this disk a flush covers.
    pub(super) fn covered_by(&self, disk: u8, covered: u32) -> u64 {
        let writes = self.cached.iter();
        let writes = writes.filter(|(number, write)| write.disk == disk && *number <= covered);
        u64::try_from(writes.count()).expect("few")
    }

    /// Ends the flush of this disk that returned `covered`.
    pub(super) fn flush_ends(&mut self, disk: u8, covered: u32) {
        for (number, write) in std::mem::take(&mut self.cached) {
            if write.disk != disk || number > covered {
                self.cached.push((number, write));
                continue;
            }
            for (atom, content) in write.places() {
                self.set(disk, atom, content);
            }
        }
    }

    /// Replaces a disk with a blank one, which holds unknown contents from atom `data` on.
    pub(super) fn replace(&mut self, disk: u8, data: u16) {
        self.cached.retain(|(_, write)| write.disk != disk);
        for atom in 0..self.atoms {
            let content = if atom < data {
                super::store::ZEROS
            } else {
                super::store::POISON
            };
            self.set(disk, atom, content);
        }
    }

    /// Loses all caches.
    pub(super) fn lose_caches(&mut self) {
        self.cached.clear();
    }

    fn cache_of(&self, disk: u8) -> impl Iterator<Item = &Write> {
        let writes = self.cached.iter().map(|(_, write)| write);
        writes.filter(move |write| write.disk == disk)
    }

    /// Returns a hash of all durable and cached contents.
    pub(super) fn hash(&self) -> u64 {
        self.hash_without(&[])
    }

    /// Hashes durable and cached contents of the disks that are not missing.
    pub(super) fn hash_without(&self, missing: &[u8]) -> u64 {
        let disks = (0..self.disks).filter(|disk| !missing.contains(disk));
        let hashes = disks.map(|disk| {
            let cached = cache_hash(disk, self.cache_of(disk));
            self.hashes[usize::from(disk)].wrapping_add(cached)
        });
        hashes.fold(0, u64::wrapping_add)
    }

    /// Returns a hash of the durable contents. The hash after a crash is this plus the contribution
    /// of each disk.
    pub(super) fn durable_hash(&self) -> u64 {
        self.hashes.iter().copied().fold(0, u64::wrapping_add)
    }

    /// Returns the disks after a crash, given one of the `losses` of each disk.
    pub(super) fn with(&self, left: &[&Left]) -> Self {
        let mut media = self.clone();
        media.cached.clear();
        for (disk, left) in (0..self.disks).zip(left) {
            for (atom, content) in &left.durable {
                media.set(disk, *atom, *content);
            }
            for write in &left.cached {
                media.write(write, false);
            }
        }
        media
    }

    /// Returns everything that a crash may leave on a disk while these writes to it are in flight.
    /// A power loss may lose any volatile write; a process crash, any write in flight. At
    /// most one write is torn.
    pub(super) fn losses(&self, disk: u8, in_flight: &[&Write], power: bool) -> Vec<Left> {
        let cached: Vec<&Write> = self.cache_of(disk).collect();
        let (kept, doubtful) = if power {
            (Vec::new(), [&cached, in_flight].concat())
        } else {
            (cached, in_flight.to_vec())
        };
        let mut all: Vec<Left> = Vec::new();
        let mut add = |landed: &[&Write], torn: bool| {
            let left = self.left(disk, &kept, landed, power, torn);
            let same =
                |known: &&mut Left| known.durable == left.durable && known.cached == left.cached;
            match all.iter_mut().find(same) {
                Some(known) => known.torn &= torn,
                None => all.push(left),
            }
        };
        for subset in subsets(doubtful.len()) {
            let keeps = |index: usize| subset >> index & 1 == 1;
            let landing = |torn: Option<(usize, &Write)>| -> Vec<Write> {
                let writes = doubtful.iter().enumerate();
                let writes = writes.filter_map(|(index, write)| match torn {
                    Some((place, part)) if place == index => Some(part.clone()),
                    _ => keeps(index).then(|| (*write).clone()),
                });
                writes.collect()
            };
            let all_of_it = landing(None);
            add(&all_of_it.iter().collect::<Vec<_>>(), false);
            for (index, write) in doubtful.iter().enumerate().filter(|(i, _)| !keeps(*i)) {
                for part in write.torn() {
                    let torn = landing(Some((index, &part)));
                    add(&torn.iter().collect::<Vec<_>>(), true);
                }
            }
        }
        all
    }

    fn left(&self, disk: u8, kept: &[&Write], landed: &[&Write], power: bool, torn: bool) -> Left {
        let mut left = Left {
            durable: Vec::new(),
            cached: Vec::new(),
            torn,
            hash: 0,
        };
        if !power {
            left.cached = kept
                .iter()
                .chain(landed)
                .map(|write| (*write).clone())
                .collect();
            left.hash = cache_hash(disk, left.cached.iter());
            return left;
        }
        for (atom, content) in landed.iter().flat_map(|write| write.places()) {
            left.durable.retain(|(place, _)| *place != atom);
            if self.durable[self.place(disk, atom)] != content {
                left.durable.push((atom, content));
            }
        }
        left.durable.sort_unstable();
        for (atom, content) in &left.durable {
            let was = self.durable[self.place(disk, *atom)];
            left.hash = left
                .hash
                .wrapping_add(atom_hash(disk, *atom, *content))
                .wrapping_sub(atom_hash(disk, *atom, was));
        }
        left
    }
}

/// Returns sets of this many writes that land, as bits.
fn subsets(writes: usize) -> Vec<u64> {
    let all = (1_u64 << writes) - 1;
    if writes <= COMBINED_MAX {
        return (0..=all).collect();
    }
    let alone = (0..writes).flat_map(|index| [1 << index, all & !(1 << index)]);
    [0, all].into_iter().chain(alone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(first: u16, atoms: &[Content]) -> Write {
        Write {
            disk: 0,
            first,
            atoms: atoms.into(),
        }
    }

    fn contents(media: &Media) -> Vec<Content> {
        let mut out = vec![0; 4];
        media.read(0, 0, &mut out);
        out
    }

    #[test]
    fn a_crash_leaves_every_combination_and_one_torn_write() {
        let mut media = Media::new(1, 4);
        media.write(&write(0, &[2, 3]), false);
        let flying = write(1, &[4, 5]);
        let losses = media.losses(0, &[&flying], true);
        let mut left: Vec<_> = losses.iter().map(|l| contents(&media.with(&[l]))).collect();
        left.sort();
        let expected = [
            [0, 0, 0, 0],
            [0, 0, 5, 0],
            [0, 3, 0, 0],
            [0, 4, 0, 0],
            [0, 4, 5, 0],
            [2, 0, 0, 0],
            [2, 3, 0, 0],
            [2, 3, 5, 0],
            [2, 4, 0, 0],
            [2, 4, 5, 0],
        ];
        // Not among them: both torn, [2, 0, 5, 0] and [0, 3, 5, 0].
        assert_eq!(left, expected);
        for loss in &losses {
            let after = media.with(&[loss]);
            let expected = media.durable_hash().wrapping_add(loss.hash);
            assert_eq!(after.hash(), expected);
        }
        assert_eq!(losses.iter().filter(|left| left.torn).count(), 6);
        // A process crash: cached writes stay cached.
        let losses = media.losses(0, &[&flying], false);
        let left: Vec<_> = losses.iter().map(|l| contents(&media.with(&[l]))).collect();
        assert_eq!(
            left,
            [[2, 3, 0, 0], [2, 4, 0, 0], [2, 3, 5, 0], [2, 4, 5, 0]]
        );
        assert_eq!(media.with(&[&losses[0]]).hash(), media.hash());
    }

    #[test]
    fn missing_disks_do_not_change_a_hash() {
        let mut media = Media::new(2, 4);
        media.write(&write(0, &[2, 3]), true);
        media.write(&write(2, &[4]), false);
        assert_eq!(media.hash_without(&[0]), Media::new(2, 4).hash());
        assert_eq!(media.hash_without(&[1]), media.hash());
        assert_ne!(media.hash_without(&[1]), media.hash_without(&[0]));
    }

    #[test]
    fn durable_data_replaces_earlier_cached_data() {
        let mut media = Media::new(1, 4);
        media.write(&write(0, &[2, 3]), false);
        media.write(&write(1, &[6]), true);
        assert_eq!(contents(&media), [2, 6, 0, 0]);
        let flush = media.flush_begins();
        media.write(&write(3, &[7]), false);
        media.flush_ends(0, flush);
        assert_eq!(contents(&media), [2, 6, 0, 7]);
        media.lose_caches();
        assert_eq!(contents(&media), [2, 6, 0, 0]);
    }

    #[test]
    fn many_writes_are_bounded() {
        assert_eq!(subsets(3).len(), 8);
        assert_eq!(subsets(20).len(), 42);
    }
}
