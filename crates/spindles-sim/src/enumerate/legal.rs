//! The legal contents of each atom: the rules of `docs/design/consistency.md` over a few requests,
//! implemented independently of the history that long runs keep.

use super::scenario::{ATOMS_PER_BLOCK, Event, Scenario};
use super::store::{Content, Store, ZEROS, mix};
use crate::stack::group_of;
use spindles_block::{BlockIndex, Operation};
use spindles_workload::stamp::Stamp;

/// The candidate for the contents before the first event.
const BASE: u8 = 1;

/// The progress of a submitted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) answered: bool,
    /// The events answered before this one was submitted, as bits; for a close, before it was
    /// answered.
    pub(super) after: u8,
    /// Set if all members were present when it was submitted.
    pub(super) whole: bool,
}

/// The candidates of every atom: what the base and each event leave there.
#[derive(Debug)]
pub(super) struct Candidates {
    /// For each atom, each candidate's content; `None` if the event does not write it.
    atoms: Vec<Vec<Option<Content>>>,
    events: Vec<Event>,
    /// For each atom, the events that write all data of its row, as bits of candidates. These
    /// writes are not logged.
    rows: Vec<u8>,
    /// For each block, the data atoms of its row, as bits.
    same_row: Vec<u64>,
}

/// The verdict on what a read of an atom returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The contents before all events.
    Old,
    /// The contents that an event wrote.
    New,
    /// Illegal contents.
    Wrong,
}

/// The legal contents of every atom after a crash, as bits of candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Legal {
    /// After a process crash.
    pub(super) now: Vec<u8>,
    /// After a power loss.
    power: Vec<u8>,
    /// Atoms with a write in flight at the crash, not read since.
    flying: u64,
    /// Atoms with a volatile write: in flight or in caches, so that a power loss may lose it.
    volatile: u64,
    /// Atoms of unlogged whole rows that are not durable, not read since the crash.
    unlogged: u64,
    /// Same as `unlogged`, after a power loss.
    unlogged_power: u64,
    /// Atoms next to those with a volatile write, in the same rows, after a crash that lost the
    /// journal device. Not read since.
    neighbours: u64,
    /// Atoms that answered an error, which stays.
    lost: u64,
}

fn bit(event: usize) -> u8 {
    1 << (event + 1)
}

/// Returns the data blocks in the row of a block.
fn row_of(scenario: &Scenario, block: u64) -> Vec<u64> {
    let location = scenario.geometry.locate(BlockIndex(block));
    let group = group_of(&scenario.geometry, location.group);
    let chunks = (0..u64::from(group.data_chunks)).map(|chunk| chunk * u64::from(group.blocks));
    let row = chunks.map(|chunk| group.first_block.0 + chunk + u64::from(location.block_in_chunk));
    row.collect()
}

/// Returns the events that write the whole row of a block, as bits.
fn whole_rows(scenario: &Scenario, block: u64) -> u8 {
    let row = row_of(scenario, block);
    let writes = scenario.events.iter().enumerate();
    let writes = writes.filter(|(_, event)| {
        let written = event.asks().filter(|(operation, _)| operation.is_write());
        written.is_some_and(|(_, blocks)| row.iter().all(|block| blocks.contains(block)))
    });
    writes.fold(0, |bits, (event, _)| bits | bit(event))
}

impl Candidates {
    pub(super) fn new(scenario: &Scenario, store: &mut Store, atom_bytes: usize) -> Self {
        let blocks = scenario.geometry.blocks();
        let atoms = (0..blocks * ATOMS_PER_BLOCK).map(|atom| {
            let mut stamp = |write| {
                let mut bytes = vec![0; atom_bytes];
                let (run, sector) = (1, atom);
                Stamp { run, sector, write }.fill(&mut bytes);
                store.atom(&bytes)
            };
            let base = if scenario.new { ZEROS } else { stamp(0) };
            let events = (1..).zip(&scenario.events).map(|(write, event)| {
                let block = atom / ATOMS_PER_BLOCK;
                match event.asks() {
                    Some((Operation::Write { .. }, blocks)) if blocks.contains(&block) => {
                        Some(stamp(write))
                    }
                    Some((Operation::Discard | Operation::WriteZeroes { .. }, blocks))
                        if blocks.contains(&block) =>
                    {
                        Some(ZEROS)
                    }
                    _ => None,
                }
            });
            let mut candidates = vec![Some(base)];
            candidates.extend(events);
            candidates
        });
        let logged = !scenario.is_logged() || !scenario.checksums;
        let rows = (0..blocks * ATOMS_PER_BLOCK).map(|atom| {
            if logged {
                0
            } else {
                whole_rows(scenario, atom / ATOMS_PER_BLOCK)
            }
        });
        let same_row = (0..blocks).map(|block| {
            let atoms = row_of(scenario, block).into_iter().flat_map(|block| {
                let first = block * ATOMS_PER_BLOCK;
                first..first + ATOMS_PER_BLOCK
            });
            atoms.fold(0, |all, atom| all | 1 << atom)
        });
        Self {
            same_row: same_row.collect(),
            atoms: atoms.collect(),
            events: scenario.events.clone(),
            rows: rows.collect(),
        }
    }

    /// Returns what a candidate leaves in an atom. Candidate 0 is the base, candidate i + 1 is
    /// event i.
    pub(super) fn content(&self, atom: usize, candidate: usize) -> Option<Content> {
        self.atoms[atom][candidate]
    }

    pub(super) fn atoms(&self) -> usize {
        self.atoms.len()
    }

    /// Returns `legal` for a lost log: nothing shows which volatile writes are complete.
    pub(super) fn without_log(&self, legal: &Legal) -> Legal {
        let flying = legal.flying | legal.volatile;
        let rows = self.same_row.iter().filter(|row| *row & flying != 0);
        Legal {
            flying,
            neighbours: rows.fold(0, |all, row| all | row) & !flying,
            ..legal.clone()
        }
    }

    /// Returns true if any event writes the atom.
    pub(super) fn is_touched(&self, atom: usize) -> bool {
        self.atoms[atom][1..].iter().any(Option::is_some)
    }

    fn writes(&self, atom: usize, event: usize) -> bool {
        self.atoms[atom][event + 1].is_some()
    }

    /// Returns the legal contents after a crash at this point. Events not submitted yet are not in
    /// `asked`.
    pub(super) fn legal(&self, asked: &[Asked]) -> Legal {
        let count = asked.len();
        let mut durable = 0_u8;
        for (event, state) in asked.iter().enumerate().filter(|(_, state)| state.answered) {
            match self.events[event] {
                Event::Ask { operation, .. } => match operation {
                    Operation::Write { fua: true } | Operation::WriteZeroes { fua: true } => {
                        durable |= bit(event);
                    }
                    Operation::Flush => durable |= state.after << 1,
                    _ => {}
                },
                Event::Close => durable |= state.after << 1,
                Event::Drop(_) | Event::DropJournal | Event::Rebuild(_) => {}
            }
        }
        let mut legal = Legal {
            now: Vec::with_capacity(self.atoms.len()),
            power: Vec::with_capacity(self.atoms.len()),
            flying: 0,
            volatile: 0,
            unlogged: 0,
            unlogged_power: 0,
            neighbours: 0,
            lost: 0,
        };
        let asked_whole = asked.iter().enumerate().filter(|(_, state)| state.whole);
        let asked_whole = asked_whole.fold(0, |bits, (event, _)| bits | bit(event));
        for atom in 0..self.atoms.len() {
            let (mut all, mut under_answered, mut under_durable) = (BASE, 0, 0);
            for event in (0..count).filter(|event| self.writes(atom, *event)) {
                all |= bit(event);
                let under = BASE | asked[event].after << 1;
                if asked[event].answered {
                    under_answered |= under;
                } else {
                    legal.flying |= 1 << atom;
                }
                if durable & bit(event) != 0 {
                    under_durable |= under;
                }
            }
            let now = all & !under_answered;
            let power = all & !under_durable;
            let unlogged = self.rows[atom] & asked_whole & !durable;
            legal.unlogged |= u64::from(now & unlogged != 0) << atom;
            legal.unlogged_power |= u64::from(power & unlogged != 0) << atom;
            legal.now.push(now);
            if power & !durable & !BASE != 0 {
                legal.volatile |= 1 << atom;
            }
            legal.power.push(power);
        }
        legal
    }

    /// Checks what a read of the atom returned. If reads must be `stable`, only the same contents
    /// are legal from then on.
    pub(super) fn judge(
        &self,
        legal: &mut Legal,
        atom: usize,
        content: Content,
        stable: bool,
    ) -> Verdict {
        let candidates = self.atoms[atom].iter().enumerate();
        let same = candidates.filter(|(_, candidate)| **candidate == Some(content));
        let matching = same.fold(0, |bits, (candidate, _)| bits | 1 << candidate) & legal.now[atom];
        if matching == 0 {
            return Verdict::Wrong;
        }
        if stable {
            legal.now[atom] = matching;
            legal.power[atom] = matching;
            legal.flying &= !(1 << atom);
            legal.volatile &= !(1 << atom);
            legal.unlogged &= !(1 << atom);
            legal.unlogged_power &= !(1 << atom);
            legal.neighbours &= !(1 << atom);
        }
        match matching & BASE {
            0 => Verdict::New,
            _ => Verdict::Old,
        }
    }

    /// Describes the contents.
    pub(super) fn name(&self, atom: usize, content: Content) -> String {
        let same = |of: &usize| self.atoms[*of].contains(&Some(content));
        let others = (0..self.atoms.len()).filter(|of| *of != atom);
        match [atom].into_iter().chain(others).find(same) {
            None => "unknown contents".to_owned(),
            Some(place) => {
                let mut candidates = self.atoms[place].iter();
                match candidates.position(|candidate| *candidate == Some(content)) {
                    Some(0) if place == atom => "the base".to_owned(),
                    Some(event) if place == atom => format!("event {event}"),
                    _ => format!("what belongs to atom {place}"),
                }
            }
        }
    }

    /// Describes the legal contents of the atom.
    pub(super) fn describe(&self, legal: &Legal, atom: usize) -> String {
        let names = (0..self.atoms[atom].len()).filter(|c| legal.now[atom] >> c & 1 == 1);
        let names = names.map(|candidate| match candidate {
            0 => "the base".to_owned(),
            event => format!("event {event}"),
        });
        names.collect::<Vec<_>>().join(" or ")
    }
}

impl Legal {
    /// Returns the legal contents after a power loss.
    pub(super) fn after_power_loss(&self) -> Self {
        Self {
            now: self.power.clone(),
            flying: self.flying | self.volatile,
            unlogged: self.unlogged_power,
            ..self.clone()
        }
    }

    /// Records that the atom answered an error, legally.
    pub(super) fn lose(&mut self, atom: usize) {
        self.lost |= 1 << atom;
    }

    /// Returns true if the atom answered an error. Later reads may fail too, whichever members
    /// return.
    pub(super) fn is_lost(&self, atom: usize) -> bool {
        self.lost >> atom & 1 == 1
    }

    /// Returns true if a write of the atom was in flight at the crash, and was not read since.
    /// Losing the log may lose such a write.
    pub(super) fn is_flying(&self, atom: usize) -> bool {
        self.flying >> atom & 1 == 1
    }

    /// Returns true if the atom is in the row of such a write, and the log is lost. Half-written
    /// parity can't reconstruct it if its own member is lost too.
    pub(super) fn is_neighbour(&self, atom: usize) -> bool {
        self.neighbours >> atom & 1 == 1
    }

    /// Returns true if the atom was in an unlogged whole row that was not durable at the crash, and
    /// was not read since. On a missing member it may be lost.
    pub(super) fn is_unlogged(&self, atom: usize) -> bool {
        self.unlogged >> atom & 1 == 1
    }

    /// Returns true if any atom may be lost.
    pub(super) fn may_lose(&self) -> bool {
        self.flying | self.unlogged | self.neighbours != 0
    }

    /// Returns `self` for a member failure that was durable before the crash: all unlogged writes
    /// were durable then too.
    pub(super) fn with_rows_flushed(&self) -> Self {
        Self {
            unlogged: 0,
            unlogged_power: 0,
            ..self.clone()
        }
    }

    /// Returns true if corruption may be mistaken for an unfinished write of the atom.
    pub(super) fn is_in_gap(&self, atom: usize, copies: bool) -> bool {
        let gap = if copies {
            self.flying | self.volatile
        } else {
            self.unlogged | self.unlogged_power
        };
        gap >> atom & 1 == 1
    }

    /// Returns true if there is an unlogged row that is not durable.
    pub(super) fn has_unlogged(&self) -> bool {
        self.unlogged | self.unlogged_power != 0
    }

    pub(super) fn hash(&self) -> u64 {
        let masks = self.now.iter().zip(&self.power);
        masks.fold(
            [
                self.flying,
                self.volatile,
                self.unlogged,
                self.unlogged_power,
                self.neighbours,
                self.lost,
            ]
            .into_iter()
            .fold(3, mix),
            |hash, (now, power)| mix(hash, u64::from(*now) << 8 | u64::from(*power)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bounds;
    use super::super::scenario::{ATOM_BYTES, scenarios};
    use super::*;

    const BOUNDS: Bounds = Bounds {
        member_writes_max: u32::MAX,
        ..Bounds::SHORT
    };

    /// Rows of two blocks: 0 and 2, 1 and 3.
    fn candidates(events: &str, bounds: &Bounds) -> Candidates {
        let name = format!("raid5:left-symmetric(3) journal{events}");
        let mut all = scenarios(bounds).into_iter();
        let scenario = all.find(|scenario| scenario.to_string() == name);
        let scenario = scenario.expect("it is in the table");
        Candidates::new(&scenario, &mut Store::new(ATOM_BYTES), ATOM_BYTES)
    }

    fn asked(answered: bool, after: u8, whole: bool) -> Asked {
        Asked {
            answered,
            after,
            whole,
        }
    }

    /// Returns the blocks that may be lost on a missing member: after a process crash, and after a
    /// power loss.
    fn unlogged(candidates: &Candidates, asked: &[Asked]) -> [Vec<usize>; 2] {
        let legal = candidates.legal(asked);
        [legal.clone(), legal.after_power_loss()].map(|legal| {
            let atoms = (0..candidates.atoms()).filter(|atom| legal.is_unlogged(*atom));
            let mut blocks: Vec<_> = atoms.map(|atom| atom / 2).collect();
            blocks.dedup();
            blocks
        })
    }

    #[test]
    fn only_whole_rows_without_durable_data_may_be_lost() {
        let row = || vec![0, 1, 2, 3];
        let events = candidates(" regions checksums: write 0+4, flush", &BOUNDS);
        for answered in [false, true] {
            let write = asked(answered, 0, true);
            assert_eq!(unlogged(&events, &[write]), [row(), row()]);
        }
        let write = asked(true, 0, true);
        let flush_before = asked(true, 0, true);
        assert_eq!(unlogged(&events, &[write, flush_before]), [row(), row()]);
        let flush = asked(true, 1, true);
        assert_eq!(unlogged(&events, &[write, flush]), [vec![], vec![]]);
        // A group that lacked a member when the write was submitted.
        let degraded = asked(false, 0, false);
        assert_eq!(unlogged(&events, &[degraded]), [vec![], vec![]]);
    }

    #[test]
    fn partially_written_rows_may_not_be_lost() {
        let whole = asked(false, 0, true);
        let part = candidates(" regions checksums: write 0+1, flush", &BOUNDS);
        assert_eq!(unlogged(&part, &[whole]), [vec![], vec![]]);
        // The row of blocks 1 and 3 is whole; of the other only the end is written.
        let mixed = candidates(" regions checksums: zero durably 1+3, close", &BOUNDS);
        assert_eq!(unlogged(&mixed, &[whole]), [vec![1, 3], vec![1, 3]]);
        assert_eq!(unlogged(&mixed, &[asked(true, 0, true)]), [vec![], vec![]]);
        // An answered partial write lies over the row, but a power loss may lose it.
        let over = candidates(" regions checksums: write 0+4, write 0+1", &BOUNDS);
        let (row, part) = (asked(true, 0, true), asked(true, 1, true));
        let expected = [vec![1, 2, 3], vec![0, 1, 2, 3]];
        assert_eq!(unlogged(&over, &[row, part]), expected);
        let over = candidates(" regions checksums: write 0+4, write durably 0+1", &BOUNDS);
        let expected = [vec![1, 2, 3], vec![1, 2, 3]];
        assert_eq!(unlogged(&over, &[row, part]), expected);
    }

    #[test]
    fn without_checksums_every_row_is_logged() {
        let write = asked(false, 0, true);
        let none = candidates(": write 0+4, flush", &BOUNDS);
        assert_eq!(unlogged(&none, &[write]), [vec![], vec![]]);
    }

    #[test]
    fn rows_read_or_flushed_before_a_dropout_may_not_be_lost() {
        let events = candidates(" regions checksums: write 0+4, flush", &BOUNDS);
        let mut legal = events.legal(&[asked(true, 0, true)]);
        assert!(!legal.with_rows_flushed().has_unlogged());
        let written = events.content(0, 1).expect("it is written");
        assert_eq!(events.judge(&mut legal, 0, written, true), Verdict::New);
        let left = [legal.clone(), legal.after_power_loss()].map(|legal| {
            let of_block: [bool; 2] = [0, 1].map(|atom| legal.is_unlogged(atom));
            of_block
        });
        assert_eq!(left, [[false, true]; 2]);
    }
}
