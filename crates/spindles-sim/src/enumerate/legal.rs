//! What each atom of the array may hold: the rules of `docs/consistency.md` over a few requests,
//! told independently of the history that long runs keep.

use super::scenario::{ATOMS_PER_BLOCK, Event, Scenario};
use super::store::{Content, Store, ZEROS, mix};
use spindles_block::Operation;
use spindles_workload::stamp::Stamp;

/// The contents before the first event, as a candidate.
const BASE: u8 = 1;

/// How far an event has come that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) answered: bool,
    /// The events that were answered when it was asked; of a close, when it was answered.
    pub(super) after: u8,
}

/// The candidates of every atom: what the base and each event leave there.
#[derive(Debug)]
pub(super) struct Candidates {
    /// For each atom, each candidate's content; `None` where the event leaves it alone.
    atoms: Vec<Vec<Option<Content>>>,
    events: Vec<Event>,
}

/// What an atom turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As before all events.
    Old,
    /// What an event wrote.
    New,
    /// What it must not be.
    Wrong,
}

/// What every atom may hold after a crash, as bits of candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Legal {
    /// Now.
    pub(super) now: Vec<u8>,
    /// When power is lost.
    power: Vec<u8>,
    /// Atoms with a write in flight at the crash, that were not read since.
    flying: u64,
    /// Atoms with a write that is not durable: all that power loss catches in flight or in caches.
    volatile: u64,
    /// Atoms that answered an error, which stays.
    lost: u64,
}

fn bit(event: usize) -> u8 {
    1 << (event + 1)
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
            let base = stamp(0);
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
        Self {
            atoms: atoms.collect(),
            events: scenario.events.clone(),
        }
    }

    /// What a candidate leaves in an atom, 0 being the base and event i being i + 1.
    pub(super) fn content(&self, atom: usize, candidate: usize) -> Option<Content> {
        self.atoms[atom][candidate]
    }

    pub(super) fn atoms(&self) -> usize {
        self.atoms.len()
    }

    /// Whether any event writes the atom.
    pub(super) fn is_touched(&self, atom: usize) -> bool {
        self.atoms[atom][1..].iter().any(Option::is_some)
    }

    fn writes(&self, atom: usize, event: usize) -> bool {
        self.atoms[atom][event + 1].is_some()
    }

    /// What a crash would make legal with the events so far; events that were not asked are not
    /// in `asked`.
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
            lost: 0,
        };
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
            legal.now.push(all & !under_answered);
            let power = all & !under_durable;
            if power & !durable & !BASE != 0 {
                legal.volatile |= 1 << atom;
            }
            legal.power.push(power);
        }
        legal
    }

    /// Judges what a read of the atom returned. Where reads must be `stable`, it stays from then
    /// on.
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
        }
        match matching & BASE {
            0 => Verdict::New,
            _ => Verdict::Old,
        }
    }

    /// In words, what it holds.
    pub(super) fn name(&self, atom: usize, content: Content) -> String {
        let same = |of: &usize| self.atoms[*of].contains(&Some(content));
        let others = (0..self.atoms.len()).filter(|of| *of != atom);
        match [atom].into_iter().chain(others).find(same) {
            None => "what nobody wrote".to_owned(),
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

    /// In words, what the atom might have held.
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
    /// The same after power loss.
    pub(super) fn after_power_loss(&self) -> Self {
        Self {
            now: self.power.clone(),
            flying: self.flying | self.volatile,
            ..self.clone()
        }
    }

    /// The same where nothing tells what of the writes that are not durable is whole.
    pub(super) fn without_log(&self) -> Self {
        Self {
            flying: self.flying | self.volatile,
            ..self.clone()
        }
    }

    /// The atom answered an error, where that is legal.
    pub(super) fn lose(&mut self, atom: usize) {
        self.lost |= 1 << atom;
    }

    /// Whether it did: then it may again, whoever is back.
    pub(super) fn is_lost(&self, atom: usize) -> bool {
        self.lost >> atom & 1 == 1
    }

    /// Whether a write of the atom was in flight at the crash, and no read has told what came of
    /// it: with members missing it may be lost.
    pub(super) fn is_flying(&self, atom: usize) -> bool {
        self.flying >> atom & 1 == 1
    }

    pub(super) fn any_flying(&self) -> bool {
        self.flying != 0
    }

    pub(super) fn hash(&self) -> u64 {
        let masks = self.now.iter().zip(&self.power);
        masks.fold(
            mix(mix(mix(3, self.flying), self.volatile), self.lost),
            |hash, (now, power)| mix(hash, u64::from(*now) << 8 | u64::from(*power)),
        )
    }
}
