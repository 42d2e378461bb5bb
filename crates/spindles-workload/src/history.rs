//! The history oracle: the legal contents of each sector, now, after a process crash and after
//! power loss, given everything that was submitted and answered. See the legal values of
//! `consistency.md`.
//!
//! Every write stays a candidate of its sectors until another is known to lie over it. A write lies
//! over another when it was submitted after the other had ended, and was answered. So writes that
//! overlap while both are in flight are checked exactly: either may win. Once a read has shown
//! which one did, the other may not return.

use crate::stamp::{self, Found, Stamp};
use alloc::{collections::BTreeSet, string::String, vec, vec::Vec};
use core::fmt::{self, Write as _};

const NEVER: u64 = u64::MAX;

/// The contents of the array before the first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Initial {
    /// Zeros.
    Zeros,
    /// Anything; but the result of a first read must stay.
    Unknown,
}

/// The contents that a write leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contents {
    /// The stamps of [`History::fill`].
    Stamps,
    /// Zeros, as after a discard.
    Zeros,
}

/// A write between its submission and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteToken {
    submitted: u64,
    first: u64,
    sectors: u64,
}

impl WriteToken {
    /// Returns the number of the write, unique within its history.
    pub const fn write(self) -> u64 {
        self.submitted
    }
}

/// A read between its submission and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadToken {
    submitted: u64,
    first: u64,
    sectors: u64,
}

/// A flush between its submission and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushToken {
    submitted: u64,
}

/// A sector with illegal contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The sector of the array.
    pub sector: u64,
    /// The contents found.
    pub found: Found,
    /// The legal contents, in words.
    pub legal: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Zeros,
    Stamp,
    /// The initial contents, and their hash once they were read.
    Unknown(Option<u64>),
}

/// The effect of a write on a single sector. Times are ticks of the history.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    value: Value,
    submitted: u64,
    /// From then on it can no longer land: it was answered, failed, or ended by a crash.
    ended: u64,
    /// From then on it is known to be in effect, unless another write lies over it.
    answered: u64,
    /// A read that begins after this must not return it.
    dead_for_reads: u64,
    /// Power loss must not bring it back.
    dead_for_power: bool,
    durable: bool,
    /// Set if it landed, or not, before the array was opened: once read, no cache can lose it.
    on_media: bool,
}

impl Candidate {
    const fn initial(value: Value) -> Self {
        Self {
            value,
            submitted: 0,
            ended: 0,
            answered: 0,
            dead_for_reads: NEVER,
            dead_for_power: false,
            durable: true,
            on_media: true,
        }
    }

    fn is(&self, run: u64, sector: u64, found: Found, hash: impl FnOnce() -> u64) -> bool {
        match (self.value, found) {
            (Value::Zeros, Found::Zeros) => true,
            (Value::Stamp, Found::Stamp(stamp)) => {
                let write = self.submitted;
                stamp == Stamp { run, sector, write }
            }
            (Value::Unknown(Some(known)), _) => known == hash(),
            _ => false,
        }
    }
}

/// The legal contents of every sector of an array.
#[derive(Clone, Debug)]
pub struct History {
    run: u64,
    sector_bytes: usize,
    tick: u64,
    sectors: Sectors,
    /// Sectors with writes that were answered but are not durable.
    volatile: BTreeSet<u64>,
    reads: Vec<u64>,
}

/// The candidates of each sector.
#[derive(Clone, Debug)]
struct Sectors {
    /// The only candidate of a sector whose list is empty. No crash changes it.
    initial: Candidate,
    lists: Vec<Vec<Candidate>>,
}

impl Sectors {
    /// Returns the candidates of a sector, at least one.
    fn of(&self, sector: u64) -> &[Candidate] {
        let list = &self.lists[index(sector)];
        if list.is_empty() {
            return core::slice::from_ref(&self.initial);
        }
        list
    }

    /// Returns the list of a sector with at least one candidate.
    fn list(&mut self, sector: u64) -> &mut Vec<Candidate> {
        let list = &mut self.lists[index(sector)];
        if list.is_empty() {
            list.push(self.initial);
        }
        list
    }

    /// Returns each sector with its candidates.
    fn all(&self) -> impl Iterator<Item = (u64, &[Candidate])> {
        (0..self.lists.len() as u64).map(|sector| (sector, self.of(sector)))
    }
}

fn index(sector: u64) -> usize {
    usize::try_from(sector).expect("sectors are held in memory")
}

impl History {
    /// Creates the history of an array of `sectors` sectors. `run` goes into the stamps.
    pub fn new(run: u64, sector_bytes: u32, sectors: u64, initial: Initial) -> Self {
        let value = match initial {
            Initial::Zeros => Value::Zeros,
            Initial::Unknown => Value::Unknown(None),
        };
        Self {
            run,
            sector_bytes: usize::try_from(sector_bytes).expect("a sector fits in memory"),
            tick: 0,
            sectors: Sectors {
                initial: Candidate::initial(value),
                lists: vec![Vec::new(); index(sectors)],
            },
            volatile: BTreeSet::new(),
            reads: Vec::new(),
        }
    }

    /// Extends the array to `sectors` sectors; the new ones hold zeros.
    pub fn extend(&mut self, sectors: u64) {
        let zeros = match self.sectors.initial.value {
            Value::Zeros => Vec::new(),
            _ => vec![Candidate::initial(Value::Zeros)],
        };
        self.sectors.lists.resize(index(sectors), zeros);
    }

    /// Returns the number of sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors.lists.len().try_into().expect("a length fits")
    }

    /// Returns the bytes of a sector.
    pub const fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    fn now(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Records that a write (or discard, or write-zeroes) is submitted.
    pub fn write(&mut self, first: u64, sectors: u64, contents: Contents) -> WriteToken {
        let submitted = self.now();
        let candidate = Candidate {
            value: match contents {
                Contents::Stamps => Value::Stamp,
                Contents::Zeros => Value::Zeros,
            },
            submitted,
            ended: NEVER,
            answered: NEVER,
            dead_for_reads: NEVER,
            dead_for_power: false,
            durable: false,
            on_media: false,
        };
        for sector in first..first + sectors {
            self.sectors.list(sector).push(candidate);
        }
        WriteToken {
            submitted,
            first,
            sectors,
        }
    }

    /// Fills in the bytes that this write carries.
    pub fn fill(&self, token: WriteToken, bytes: &mut [u8]) {
        let sectors = bytes.chunks_exact_mut(self.sector_bytes);
        for (sector, bytes) in (token.first..token.first + token.sectors).zip(sectors) {
            let (run, write) = (self.run, token.submitted);
            Stamp { run, sector, write }.fill(bytes);
        }
    }

    /// Records the answer to a write: success, or a failure that leaves each sector old or new.
    /// Returns the sectors that became durable.
    pub fn write_answered(&mut self, token: WriteToken, done: bool, fua: bool) -> Vec<u64> {
        let now = self.now();
        let mut durable = Vec::new();
        for sector in token.first..token.first + token.sectors {
            let candidates = self.sectors.list(sector);
            let mut known = false;
            for candidate in candidates.iter_mut() {
                if candidate.submitted == token.submitted {
                    candidate.ended = now;
                    known = true;
                    if done {
                        candidate.answered = now;
                    }
                }
            }
            if !done {
                continue;
            }
            for other in candidates.iter_mut() {
                if other.ended < token.submitted {
                    other.dead_for_reads = other.dead_for_reads.min(now);
                }
            }
            if fua && known {
                make_durable(candidates, token.submitted);
                durable.push(sector);
            } else if known {
                self.volatile.insert(sector);
            }
            self.forget_dead(sector);
        }
        durable
    }

    /// Records that a read is submitted.
    pub fn read(&mut self, first: u64, sectors: u64) -> ReadToken {
        let submitted = self.now();
        self.reads.push(submitted);
        ReadToken {
            submitted,
            first,
            sectors,
        }
    }

    /// Records that a read failed.
    pub fn read_failed(&mut self, token: ReadToken) {
        self.reads.retain(|&read| read != token.submitted);
    }

    /// Records that a read was answered with these bytes, and checks them. Later reads must return
    /// the same, unless the write that they come from was in flight.
    ///
    /// # Errors
    ///
    /// The first sector with illegal contents.
    pub fn read_answered(&mut self, token: ReadToken, bytes: &[u8]) -> Result<(), Violation> {
        let now = self.now();
        self.reads.retain(|&read| read != token.submitted);
        let sectors = bytes.chunks_exact(self.sector_bytes);
        for (sector, bytes) in (token.first..token.first + token.sectors).zip(sectors) {
            self.judge(sector, bytes, token.submitted, now)?;
            self.forget_dead(sector);
        }
        Ok(())
    }

    fn judge(
        &mut self,
        sector: u64,
        bytes: &[u8],
        submitted: u64,
        now: u64,
    ) -> Result<(), Violation> {
        let found = Stamp::find(bytes);
        let run = self.run;
        if let [only] = self.sectors.of(sector)
            && only.is(run, sector, found, || stamp::hash(bytes))
        {
            return Ok(());
        }
        let candidates = self.sectors.list(sector);
        let mut matches = 0;
        let mut from_media = true;
        let mut ended = true;
        for candidate in candidates.iter() {
            let legal = candidate.dead_for_reads > submitted;
            if legal && candidate.is(run, sector, found, || stamp::hash(bytes)) {
                matches += 1;
                from_media &= candidate.on_media;
                ended &= candidate.ended < submitted;
            }
        }
        if matches == 0 {
            let unread = candidates
                .iter_mut()
                .find(|c| c.value == Value::Unknown(None) && c.dead_for_reads > submitted);
            let Some(unread) = unread else {
                return Err(self.violation(sector, found, |c| c.dead_for_reads > submitted));
            };
            unread.value = Value::Unknown(Some(stamp::hash(bytes)));
            from_media = unread.on_media;
            matches = 1;
        }
        if !ended {
            return Ok(()); // While the write is in flight, reads may return either.
        }
        // Other writes that had ended before the read began were not the last, and stay gone.
        for other in candidates.iter_mut() {
            let same = other.is(run, sector, found, || stamp::hash(bytes));
            if !same && other.ended < submitted {
                other.dead_for_reads = other.dead_for_reads.min(now);
                other.dead_for_power |= from_media && other.on_media;
            }
            // A write that a crash or an error ended is known to be in effect once it was read.
            if same && matches == 1 && other.ended != NEVER && other.answered == NEVER {
                other.answered = now;
                self.volatile.insert(sector);
            }
        }
        Ok(())
    }

    /// Records that a flush is submitted.
    pub fn flush(&mut self) -> FlushToken {
        FlushToken {
            submitted: self.now(),
        }
    }

    /// Records a successful flush. Returns the sectors that it made durable.
    pub fn flush_answered(&mut self, token: FlushToken) -> Vec<u64> {
        self.now();
        let mut durable = Vec::new();
        for sector in core::mem::take(&mut self.volatile) {
            let candidates = self.sectors.list(sector);
            let covered = |c: &&Candidate| c.answered < token.submitted && !c.durable;
            let covered: Vec<u64> = candidates
                .iter()
                .filter(covered)
                .map(|c| c.submitted)
                .collect();
            for &write in &covered {
                make_durable(candidates, write);
            }
            if !covered.is_empty() {
                durable.push(sector);
            }
            if candidates.iter().any(|c| c.answered != NEVER && !c.durable) {
                self.volatile.insert(sector);
            }
            self.forget_dead(sector);
        }
        durable
    }

    /// Returns the sectors with more than one possible result of a crash now: a write to them is in
    /// flight or, when power is lost, not durable.
    pub fn in_doubt(&self, power: bool) -> Vec<u64> {
        let open = |candidate: &Candidate| {
            let undecided = if power {
                !candidate.durable && !candidate.dead_for_power
            } else {
                candidate.answered == NEVER && candidate.dead_for_reads == NEVER
            };
            undecided && candidate.submitted > 0
        };
        let in_doubt = self.sectors.all().filter(|(_, all)| all.iter().any(open));
        in_doubt.map(|(sector, _)| sector).collect()
    }

    /// Returns the volatile writes that a crash now may leave: each sector, with the write.
    pub fn volatile_writes(&self, power: bool) -> impl Iterator<Item = (u64, u64)> {
        let is_legal = move |candidate: &&Candidate| {
            let dead = if power {
                candidate.dead_for_power
            } else {
                candidate.dead_for_reads != NEVER
            };
            !candidate.durable && !dead && candidate.submitted > 0
        };
        self.sectors.all().flat_map(move |(sector, all)| {
            let writes = all.iter().filter(is_legal);
            writes.map(move |write| (sector, write.submitted))
        })
    }

    /// Records a power loss: every sector holds its last durable write or a later submitted one.
    pub fn power_lost(&mut self) {
        let now = self.now();
        self.reads.clear();
        self.volatile.clear();
        let touched = self.sectors.lists.iter_mut();
        for candidates in touched.filter(|list| !list.is_empty()) {
            candidates.retain(|candidate| !candidate.dead_for_power);
            assert!(!candidates.is_empty(), "power loss leaves something");
            let alone = candidates.len() == 1;
            for candidate in candidates {
                candidate.ended = candidate.ended.min(now);
                candidate.answered = if alone { now } else { NEVER };
                candidate.dead_for_reads = NEVER;
                candidate.durable = alone;
                candidate.on_media = true;
            }
        }
    }

    /// Records a process crash: every answered write is in effect, the others may be or not. The
    /// next opening makes everything durable. Contents read after it therefore survive power loss
    /// too.
    pub fn process_crashed(&mut self) {
        let now = self.now();
        self.reads.clear();
        for candidates in &mut self.sectors.lists {
            for candidate in candidates {
                candidate.ended = candidate.ended.min(now);
                candidate.on_media = true;
            }
        }
        for sector in 0..self.sectors() {
            self.forget_dead(sector);
        }
    }

    /// Checks that power loss now might leave these bytes in the sector. Learns nothing.
    ///
    /// # Errors
    ///
    /// The sector's contents, if they are illegal.
    pub fn check_durable(&self, sector: u64, bytes: &[u8]) -> Result<(), Violation> {
        let found = Stamp::find(bytes);
        let legal = |c: &Candidate| {
            !c.dead_for_power
                && (c.value == Value::Unknown(None)
                    || c.is(self.run, sector, found, || stamp::hash(bytes)))
        };
        if self.sectors.of(sector).iter().any(legal) {
            return Ok(());
        }
        Err(self.violation(sector, found, |c| !c.dead_for_power))
    }

    /// Makes the contents of the sectors unknown: from now on each may hold anything, but only one
    /// thing.
    pub fn forget(&mut self, first: u64, sectors: u64) {
        for sector in first..first + sectors {
            let candidates = self.sectors.list(sector);
            candidates.retain(|candidate| candidate.ended == NEVER);
            candidates.push(Candidate::initial(Value::Unknown(None)));
        }
    }

    /// Returns true if exactly one value is possible and known.
    pub fn is_certain(&self, sector: u64) -> bool {
        matches!(
            self.sectors.of(sector),
            [only] if only.value != Value::Unknown(None)
        )
    }

    fn forget_dead(&mut self, sector: u64) {
        let candidates = &mut self.sectors.lists[index(sector)];
        if candidates.len() > 1 {
            let oldest_read = self.reads.first().copied().unwrap_or(NEVER - 1);
            candidates.retain(|c| !c.dead_for_power || c.dead_for_reads > oldest_read);
            assert!(!candidates.is_empty(), "some write is the last");
        }
    }

    fn violation(
        &self,
        sector: u64,
        found: Found,
        is_legal: impl Fn(&Candidate) -> bool,
    ) -> Violation {
        let mut legal = String::new();
        for candidate in self.sectors.of(sector) {
            if !is_legal(candidate) {
                continue;
            }
            if !legal.is_empty() {
                legal.push_str(", ");
            }
            let state = match (candidate.ended, candidate.answered) {
                (NEVER, _) => " (in flight)",
                (_, NEVER) => " (not answered)",
                _ if candidate.durable => " (durable)",
                _ => "",
            };
            match candidate.value {
                Value::Zeros => write!(legal, "zeros of write {}{state}", candidate.submitted),
                Value::Stamp => write!(legal, "write {}{state}", candidate.submitted),
                Value::Unknown(_) => write!(legal, "the initial contents"),
            }
            .expect("a string takes everything");
        }
        Violation {
            sector,
            found,
            legal,
        }
    }
}

/// Records that the write is durable, so that no write it lies over can return.
fn make_durable(candidates: &mut [Candidate], write: u64) {
    for candidate in candidates.iter_mut() {
        candidate.durable |= candidate.submitted == write;
        candidate.dead_for_power |= candidate.ended < write;
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "sector {} holds {}; legal: {}",
            self.sector, self.found, self.legal
        )
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    const BYTES: u32 = 64;

    fn history() -> History {
        History::new(7, BYTES, 4, Initial::Zeros)
    }

    fn bytes(history: &History, token: WriteToken) -> [u8; 64] {
        let mut bytes = [0; 64];
        history.fill(token, &mut bytes);
        bytes
    }

    /// Writes sector 1, answered.
    fn written(history: &mut History, fua: bool) -> [u8; 64] {
        let token = history.write(1, 1, Contents::Stamps);
        history.write_answered(token, true, fua);
        bytes(history, token)
    }

    fn read(history: &mut History, bytes: &[u8]) -> Result<(), Violation> {
        let token = history.read(1, 1);
        history.read_answered(token, bytes)
    }

    /// Returns true for each value that a read could legally return now.
    fn legal(history: &History, values: &[[u8; 64]]) -> Vec<bool> {
        let legal = |value: &[u8; 64]| read(&mut history.clone(), value).is_ok();
        values.iter().map(legal).collect()
    }

    const ZEROS: [u8; 64] = [0; 64];

    #[test]
    fn reads_return_the_last_answered_write() {
        let mut history = history();
        assert_eq!(legal(&history, &[ZEROS]), [true]);
        let first = written(&mut history, false);
        let second = written(&mut history, false);
        assert_eq!(
            legal(&history, &[ZEROS, first, second]),
            [false, false, true]
        );
        let error = read(&mut history, &first).unwrap_err();
        assert_eq!(
            error.to_string(),
            "sector 1 holds write 1 of sector 1; legal: write 3"
        );
    }

    #[test]
    fn overlapping_writes_in_flight_may_end_in_either_order() {
        let mut history = history();
        let base = written(&mut history, false);
        let one = history.write(1, 1, Contents::Stamps);
        let two = history.write(1, 1, Contents::Stamps);
        let (a, b) = (bytes(&history, one), bytes(&history, two));
        assert_eq!(legal(&history, &[base, a, b]), [true, true, true]);
        history.write_answered(two, true, false);
        assert_eq!(legal(&history, &[base, a, b]), [false, true, true]);
        history.write_answered(one, true, false);
        assert_eq!(legal(&history, &[base, a, b]), [false, true, true]);
        read(&mut history, &a).unwrap();
        assert_eq!(legal(&history, &[base, a, b]), [false, true, false]);
    }

    #[test]
    fn a_read_in_flight_may_return_overwritten_data() {
        let mut history = history();
        let base = written(&mut history, true);
        let slow = history.read(1, 1);
        let new = written(&mut history, true);
        history.read_answered(slow, &base).unwrap();
        assert_eq!(legal(&history, &[base, new]), [false, true]);
    }

    #[test]
    fn power_loss_keeps_durable_or_later_data() {
        let mut history = history();
        let old = written(&mut history, false);
        let durable = written(&mut history, true);
        let volatile = written(&mut history, false);
        let flying = history.write(1, 1, Contents::Stamps);
        let flying = bytes(&history, flying);
        let values = [ZEROS, old, durable, volatile, flying];
        assert!(history.check_durable(1, &old).is_err());
        history.power_lost();
        assert_eq!(legal(&history, &values), [false, false, true, true, true]);
        // Once read, it stays, also through the next power loss.
        read(&mut history, &volatile).unwrap();
        assert_eq!(legal(&history, &values), [false, false, false, true, false]);
        history.power_lost();
        assert_eq!(legal(&history, &values), [false, false, false, true, false]);
    }

    #[test]
    fn a_flush_covers_writes_answered_before_it() {
        let mut history = history();
        let before = written(&mut history, false);
        let flush = history.flush();
        let after = written(&mut history, false);
        assert_eq!(history.flush_answered(flush), [1]);
        let flush = history.flush();
        let mut later = history.clone();
        history.power_lost();
        assert_eq!(
            legal(&history, &[ZEROS, before, after]),
            [false, true, true]
        );
        assert_eq!(later.flush_answered(flush), [1]);
        later.power_lost();
        assert_eq!(legal(&later, &[before, after]), [false, true]);
    }

    #[test]
    fn a_process_crash_keeps_every_answered_write() {
        let mut history = history();
        let answered = written(&mut history, false);
        let flying = history.write(1, 1, Contents::Zeros);
        history.process_crashed();
        assert_eq!(legal(&history, &[answered, ZEROS]), [true, true]);
        // The contents of the devices' caches are as volatile as before.
        let mut lost = history.clone();
        lost.power_lost();
        assert_eq!(legal(&lost, &[answered, ZEROS]), [true, true]);
        // Read after opening, it stays.
        read(&mut history, &answered).unwrap();
        history.power_lost();
        assert_eq!(legal(&history, &[answered]), [true]);
        assert_eq!(flying.sectors, 1);
    }

    #[test]
    fn a_failed_write_leaves_either_old_or_new_data() {
        let mut history = history();
        let old = written(&mut history, false);
        let failed = history.write(1, 1, Contents::Stamps);
        history.write_answered(failed, false, false);
        let new = bytes(&history, failed);
        assert_eq!(legal(&history, &[old, new]), [true, true]);
        read(&mut history, &new).unwrap();
        assert_eq!(legal(&history, &[old, new]), [false, true]);
    }

    #[test]
    fn unknown_contents_are_fixed_by_the_first_read() {
        let mut history = History::new(7, BYTES, 4, Initial::Unknown);
        read(&mut history, &[3; 64]).unwrap();
        assert_eq!(
            legal(&history, &[[3; 64], [4; 64], ZEROS]),
            [true, false, false]
        );
        let new = written(&mut history, true);
        assert_eq!(legal(&history, &[[3; 64], new]), [false, true]);
        history.forget(1, 1);
        assert!(!history.is_certain(1));
        assert_eq!(legal(&history, &[[9; 64]]), [true]);
    }

    #[test]
    fn old_and_new_data_may_alternate_while_a_write_is_in_flight() {
        let mut history = history();
        let old = written(&mut history, false);
        let flying = history.write(1, 1, Contents::Stamps);
        let new = bytes(&history, flying);
        read(&mut history, &new).unwrap();
        assert_eq!(legal(&history, &[old, new]), [true, true]);
        history.write_answered(flying, true, false);
        assert_eq!(legal(&history, &[old, new]), [false, true]);
    }

    #[test]
    fn damage_is_never_legal() {
        let mut history = history();
        let mut torn = written(&mut history, false);
        torn[50] ^= 1;
        assert_eq!(legal(&history, &[torn]), [false]);
        // Another sector's write, however recent.
        let token = history.write(2, 1, Contents::Stamps);
        history.write_answered(token, true, false);
        let misplaced = bytes(&history, token);
        assert_eq!(legal(&history, &[misplaced]), [false]);
    }
}
