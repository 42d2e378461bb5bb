//! A set of files as filebench keeps it: which files exist, and which is taken next.
//!
//! Files are taken round robin in the order of their numbers. One rotor goes over the existing
//! files, another over the missing ones. Files that are being created, opened or removed are
//! skipped.

use super::action::FileId;
use super::sizes;
use crate::stream::Random;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The files of a set.
pub(crate) struct Fileset {
    there: Bits,
    absent: Bits,
    /// Number of actors that have the file open.
    open: Vec<u16>,
    next_there: usize,
    next_absent: usize,
}

/// Returns which files exist at the start: each with a probability of `percent`.
pub(crate) fn preallocated(seed: u64, files: u64, percent: u64) -> Vec<bool> {
    let mut random = Random::new(seed, "fileset/there", 0);
    (0..files).map(|_| random.below(100) < percent).collect()
}

/// Returns their sizes at the start: spread around a mean, as filebench before 1.5 draws them.
pub(crate) fn sizes_of(seed: u64, files: u64, mean: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::new(seed, "fileset/sizes", 0);
    (0..files).map(move |_| sizes::gamma(&mut random, mean))
}

/// Returns filebench's name of a file when all are in one folder.
pub(crate) fn name(file: FileId) -> String {
    format!("bigfileset/00000001/{:08}", file.0 + 1)
}

impl Fileset {
    pub(crate) fn new(there: &[bool]) -> Self {
        let mut set = Self {
            there: Bits::new(there.len()),
            absent: Bits::new(there.len()),
            open: vec![0; there.len()],
            next_there: 0,
            next_absent: 0,
        };
        for (at, is_there) in there.iter().enumerate() {
            if *is_there {
                set.there.set(at);
            } else {
                set.absent.set(at);
            }
        }
        set
    }

    /// Takes the next existing file: no other actor gets it until it is given back.
    pub(crate) fn take_there(&mut self) -> Option<FileId> {
        let at = self.there.next_from(self.next_there)?;
        self.there.clear(at);
        self.next_there = at + 1;
        Some(id(at))
    }

    /// Takes the next missing file.
    pub(crate) fn take_absent(&mut self) -> Option<FileId> {
        let at = self.absent.next_from(self.next_absent)?;
        self.absent.clear(at);
        self.next_absent = at + 1;
        Some(id(at))
    }

    /// Returns true if an actor has it open.
    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.open[index(file)] > 0
    }

    /// Gives back a taken file: it exists and is free again.
    pub(crate) fn give_back(&mut self, file: FileId) {
        self.there.set(index(file));
    }

    /// Records that a taken file was opened; others may take it too.
    pub(crate) fn opened(&mut self, file: FileId) {
        self.open[index(file)] += 1;
        self.give_back(file);
    }

    /// Records that an actor closed it.
    pub(crate) fn closed(&mut self, file: FileId) {
        let open = &mut self.open[index(file)];
        *open = open.checked_sub(1).expect("it was open");
    }

    /// Records that a taken file was removed.
    pub(crate) fn removed(&mut self, file: FileId) {
        self.absent.set(index(file));
    }
}

fn id(at: usize) -> FileId {
    FileId(u32::try_from(at).expect("the number of files is bounded"))
}

fn index(file: FileId) -> usize {
    usize::try_from(file.0).expect("32 bits fit")
}

/// A set of small numbers that quickly finds the next one.
struct Bits {
    words: Vec<u64>,
}

impl Bits {
    fn new(count: usize) -> Self {
        Self {
            words: vec![0; count.div_ceil(64)],
        }
    }

    fn set(&mut self, at: usize) {
        self.words[at / 64] |= 1 << (at % 64);
    }

    fn clear(&mut self, at: usize) {
        self.words[at / 64] &= !(1 << (at % 64));
    }

    /// Returns the first number at or after `from`, or else the first of all.
    fn next_from(&self, from: usize) -> Option<usize> {
        let start = from / 64;
        let above = self.words.get(start).map(|word| word & (!0 << (from % 64)));
        let found = |at: usize, word: u64| {
            let bit = usize::try_from(word.trailing_zeros()).expect("at most 64");
            (word != 0).then(|| at * 64 + bit)
        };
        let later = self.words.iter().enumerate().skip(start + 1);
        let all = self.words.iter().enumerate();
        above
            .and_then(|word| found(start, word))
            .or_else(|| later.chain(all).find_map(|(at, word)| found(at, *word)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotors_wrap_around_and_skip_taken_files() {
        let mut there = [true; 130];
        there[1] = false;
        there[129] = false;
        let mut set = Fileset::new(&there);
        assert_eq!(set.take_there(), Some(FileId(0)));
        assert_eq!(set.take_there(), Some(FileId(2)));
        assert_eq!(set.take_absent(), Some(FileId(1)));
        assert_eq!(set.take_absent(), Some(FileId(129)));
        assert_eq!(set.take_absent(), None);
        set.removed(FileId(0));
        assert_eq!(set.take_absent(), Some(FileId(0)));
        set.opened(FileId(1));
        for expected in 3..129 {
            assert_eq!(set.take_there(), Some(FileId(expected)));
        }
        // Second round: only the opened file is free.
        assert_eq!(set.take_there(), Some(FileId(1)));
        assert!(set.is_open(FileId(1)));
        assert_eq!(set.take_there(), None);
        set.closed(FileId(1));
        set.give_back(FileId(128));
        assert!(!set.is_open(FileId(1)));
        assert_eq!(set.take_there(), Some(FileId(128)));
    }

    #[test]
    fn sizes_have_the_mean_and_the_spread_of_the_gamma_distribution() {
        let (mut sum, mut squares, count) = (0.0, 0.0, 20_000);
        for size in sizes_of(1, count, 10_000) {
            let size = f64::from(u32::try_from(size).unwrap());
            sum += size;
            squares += size * size;
        }
        let count = f64::from(u32::try_from(count).unwrap());
        let mean = sum / count;
        let variance = squares / count - mean * mean;
        assert!((mean - 10_000.0).abs() < 200.0, "{mean}");
        // The shape of a gamma distribution is the square of its mean divided by its variance.
        let shape = mean * mean / variance;
        assert!((shape - 1.5).abs() < 0.08, "{shape}");
        let there = preallocated(1, 10_000, 80);
        let there = there.iter().filter(|is_there| **is_there).count();
        assert!((7_850..8_150).contains(&there), "{there}");
    }
}
