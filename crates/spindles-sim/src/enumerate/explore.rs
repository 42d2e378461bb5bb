//! The enumeration of one scenario.

use super::assemble::{Assemblies, superblock};
use super::bounds::{Bounds, Finding, Summary};
use super::legal::{Asked, Candidates, Legal, Verdict};
use super::machine::{Machine, STEPS_MAX};
use super::media::{Left, Media, Write};
use super::scenario::{ATOM_BYTES, ATOMS_PER_BLOCK, BLOCK_SIZE, Event, Scenario};
use super::store::{Content, POISON, Store, ZEROS, mix};
use super::way::{WayStep, describe_left};
use spindles_block::{BlockIndex, MemberSet, Operation};
use spindles_engine::{OpenError, WriteHole};
use spindles_format::{Assembly, DeviceRecord, SLOT_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// One in this many openings after the first crash is also done read-only.
const LOOK_SHARE: u64 = 8;

/// Describes what went wrong; `Explorer::way` has the steps that led there.
type Found = Result<(), String>;

/// A moment during the events.
#[derive(Clone)]
struct Moment {
    machine: Machine,
    asked: Vec<Asked>,
}

/// The state that a crash left.
struct AfterCrash {
    media: Media,
    legal: Legal,
    /// Members with contents that are, or could be, out of date.
    lost: MemberSet,
    /// Set if an earlier opening after a crash lacked the log on the journal device.
    log_is_lost: bool,
}

pub(super) struct Explorer<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) bounds: &'a Bounds,
    pub(super) store: Store,
    pub(super) assemblies: Assemblies,
    pub(super) candidates: Candidates,
    pub(super) summary: Summary,
    /// States by hash, with the number of crashes that were still to come.
    pub(super) visited: BTreeMap<u64, u8>,
    pub(super) moments: BTreeSet<u64>,
    /// Crashes already explored, each with the number of crashes that were still to come. The hash
    /// covers the disks, the writes in flight and the legal contents.
    pub(super) crashed: BTreeSet<(u64, u8)>,
    pub(super) settled: BTreeSet<u64>,
    /// Openings without a further crash.
    pub(super) opened: BTreeSet<u64>,
    /// Set while a block is corrupt.
    pub(super) rotten: bool,
    /// A second crash strikes at one in this many moments of a recovery.
    pub(super) later_crash_share: u64,
    pub(super) way: Vec<WayStep>,
    /// The layout of the areas on the array's devices.
    pub(super) devices: Vec<DeviceRecord>,
}

/// Enumerates a scenario, up to the first finding.
pub fn explore(scenario: &Scenario, bounds: &Bounds) -> Summary {
    let mut store = Store::new(ATOM_BYTES);
    let candidates = Candidates::new(scenario, &mut store, ATOM_BYTES);
    let mut explorer = Explorer {
        scenario,
        bounds,
        store,
        assemblies: Assemblies::default(),
        candidates,
        summary: Summary {
            scenarios: 1,
            ..Summary::default()
        },
        visited: BTreeMap::new(),
        moments: BTreeSet::new(),
        crashed: BTreeSet::new(),
        settled: BTreeSet::new(),
        opened: BTreeSet::new(),
        rotten: false,
        later_crash_share: match bounds.later_crash_share {
            1 => 1,
            share => {
                share * u64::try_from(scenario.tolerated(MemberSet::EMPTY).len()).expect("few")
            }
        },
        way: Vec::new(),
        devices: Vec::new(),
    };
    if let Err(what) = explorer.run() {
        let way = explorer.way.iter().map(WayStep::describe);
        let way = way.collect();
        explorer.summary.findings.push(Finding {
            scenario: scenario.to_string(),
            what,
            way,
        });
    }
    explorer.summary
}

impl Explorer<'_> {
    fn run(&mut self) -> Found {
        let media = self.create()?;
        let mut machine = self.open_whole(media, self.scenario.missing)?;
        machine.drop(self.scenario.missing);
        if self.scenario.staged {
            self.begin_to_stage(&mut machine)?;
        }
        self.moment(&Moment {
            machine,
            asked: Vec::new(),
        })
    }

    // ---- events ------------------------------------------------------------------------------

    /// Explores every continuation from this moment on.
    fn moment(&mut self, moment: &Moment) -> Found {
        let asked = moment.asked.iter().fold(0, |hash, asked| {
            let flags = u64::from(asked.whole) << 1 | u64::from(asked.answered);
            mix(hash, u64::from(asked.after) << 2 | flags)
        });
        let is_known = !self.moments.insert(mix(moment.machine.hash(), asked));
        if is_known || self.summary.states >= self.bounds.states_max {
            return Ok(());
        }
        self.summary.moments += 1;
        let legal = self.candidates.legal(&moment.asked);
        let lost = moment.machine.lost();
        let left = self.bounds.crashes;
        self.crashes(&moment.machine, &legal, lost, left)?;

        if let Some(event) = self.scenario.events.get(moment.asked.len()) {
            let mut next = moment.clone();
            self.way.push(WayStep::Event(*event));
            self.begin(&mut next, *event)?;
            self.moment(&next)?;
            self.way.pop();
        }
        // Reads change nothing: only the first one completes, in no other order.
        let flights = &moment.machine.flights;
        let is_read = |flight: &&super::machine::Flight| flight.io.operation == Operation::Read;
        let choices = match flights.iter().take_while(|flight| !is_read(flight)).count() {
            all if all == flights.len() => 0..all,
            first_read => first_read..first_read + 1,
        };
        for flight in choices {
            let mut next = moment.clone();
            let io = next.machine.flights[flight].io;
            self.way
                .push(WayStep::Done(io.member, io.operation, io.block.0));
            next.machine.complete(&mut self.store, flight)?;
            Self::answers(&mut next)?;
            self.moment(&next)?;
            self.way.pop();
        }
        if moment.machine.flights.is_empty() {
            let mut next = moment.clone();
            let mut is_awake = false;
            // A wake-up that begins no operation gives a moment that looks like the one before.
            // Skip it.
            while next.machine.flights.is_empty() && next.machine.wake(&mut self.store) {
                is_awake = true;
            }
            if is_awake {
                Self::answers(&mut next)?;
                self.moment(&next)?;
                if !next.machine.flights.is_empty() {
                    return Ok(());
                }
            }
            let mut asked = moment.asked.iter();
            if let Some(event) = asked.position(|asked| !asked.answered) {
                return Err(format!("event {} is never answered", event + 1));
            }
            if moment.asked.len() == self.scenario.events.len()
                && moment.machine.closed.is_none()
                && !moment.machine.filling.is_empty()
            {
                return Err("a rebuild does not end".to_owned());
            }
        }
        Ok(())
    }

    fn begin(&mut self, moment: &mut Moment, event: Event) -> Found {
        let number = u32::try_from(moment.asked.len()).expect("few");
        let after = answered(&moment.asked);
        let has_no_answer = matches!(
            event,
            Event::Drop(_) | Event::DropJournal | Event::Rebuild(_)
        );
        moment.asked.push(Asked {
            answered: has_no_answer,
            after,
            whole: moment.machine.lost().is_empty(),
        });
        match event {
            Event::Ask {
                operation,
                block,
                blocks,
            } => {
                let per_block = ATOMS_PER_BLOCK;
                let blocks = block..block + u64::from(blocks);
                let candidate = moment.asked.len();
                let atoms: Vec<Content> = match operation {
                    Operation::Write { .. } => (blocks.start * per_block..blocks.end * per_block)
                        .map(|atom| {
                            let atom = usize::try_from(atom).expect("small");
                            let content = self.candidates.content(atom, candidate);
                            content.expect("the event writes it")
                        })
                        .collect(),
                    _ => Vec::new(),
                };
                let machine = &mut moment.machine;
                let store = &mut self.store;
                if !machine.ask(store, number, operation, blocks, &atoms) {
                    return Err("an engine with room to spare was busy".to_owned());
                }
            }
            Event::Close => moment.machine.close(&mut self.store),
            Event::Drop(member) => moment.machine.drop(MemberSet::EMPTY.with(member)),
            Event::DropJournal => moment.machine.drop_journal(),
            Event::Rebuild(member) => {
                let like = &self.devices[usize::from(member.0)];
                moment.machine.rebuild(&mut self.store, member, like);
            }
        }
        Self::answers(moment)
    }

    fn answers(moment: &mut Moment) -> Found {
        for reply in std::mem::take(&mut moment.machine.replies) {
            let event = usize::try_from(reply.token).expect("few");
            if let Err(error) = reply.result {
                return Err(format!("event {} failed: {error:?}", event + 1));
            }
            moment.asked[event].answered = true;
        }
        if let Some(clean) = moment.machine.closed {
            let close = moment.asked.len() - 1;
            if !clean && !moment.asked[close].answered {
                return Err("the array could not be closed clean".to_owned());
            }
            moment.asked[close].after = answered(&moment.asked[..close]);
            moment.asked[close].answered = true;
        }
        Ok(())
    }

    // ---- crashes -----------------------------------------------------------------------------

    /// Explores everything that a crash now may leave.
    fn crashes(&mut self, machine: &Machine, legal: &Legal, lost: MemberSet, left: u8) -> Found {
        let flights = machine.flights.iter();
        let writes: Vec<&Write> = flights.filter_map(|flight| flight.write.as_ref()).collect();
        let there = (lost, machine.log_is_lost);
        self.crashes_of(&machine.media, &writes, legal, there, left)
    }

    fn crashes_of(
        &mut self,
        media: &Media,
        writes: &[&Write],
        legal: &Legal,
        (lost, log_is_lost): (MemberSet, bool),
        left: u8,
    ) -> Found {
        if left == 0 {
            return Ok(());
        }
        let later = left < self.bounds.crashes;
        let hash = writes
            .iter()
            .fold(media.hash(), |hash, write| mix(hash, write.hash()));
        let without = lost.bits() << 1 | u64::from(log_is_lost);
        let key = mix(mix(hash, legal.hash()), without);
        if later && !key.is_multiple_of(self.later_crash_share) || !self.crashed.insert((key, left))
        {
            return Ok(());
        }
        for power in [true, false] {
            let legal = if power {
                legal.after_power_loss()
            } else {
                legal.clone()
            };
            let losses: Vec<Vec<Left>> = (0..self.scenario.disks())
                .map(|disk| {
                    let to_disk = writes.iter().copied().filter(|write| write.disk == disk);
                    media.losses(disk, &to_disk.collect::<Vec<_>>(), power)
                })
                .collect();
            let mut chosen = Vec::new();
            let flushed = legal.with_rows_flushed();
            let [rest, rest_flushed] = [&legal, &flushed].map(|legal| mix(legal.hash(), without));
            let may_be_out = !later && legal.has_unlogged();
            let hash = media.durable_hash();
            self.every_loss(&losses, &mut chosen, hash, &mut |explorer, chosen, hash| {
                let is_out = may_be_out && explorer.is_out(&media.with(chosen), lost);
                let (legal, rest) = if is_out {
                    (&flushed, rest_flushed)
                } else {
                    (&legal, rest)
                };
                if !explorer.is_fresh(mix(hash, rest), left) {
                    return Ok(());
                }
                let state = AfterCrash {
                    media: media.with(chosen),
                    legal: legal.clone(),
                    lost,
                    log_is_lost,
                };
                let there = (0..).zip(chosen);
                explorer.way.push(WayStep::Crash {
                    power,
                    left: there
                        .map(|(disk, left)| describe_left(disk, left))
                        .collect(),
                });
                explorer.visit(&state, left - 1)?;
                explorer.way.pop();
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Returns true if a member durably records that one of these members is out.
    fn is_out(&mut self, media: &Media, lost: MemberSet) -> bool {
        let others = MemberSet::all(self.scenario.members()).difference(lost);
        !lost.is_empty()
            && others.iter().any(|member| {
                let counts_on = self.assemblies.counts_on(&self.store, media, member);
                counts_on.is_some_and(|members| !lost.difference(members).is_empty())
            })
    }

    /// Calls `each` for every combination of one loss per disk, with at most one torn write in all.
    fn every_loss<'l>(
        &mut self,
        losses: &'l [Vec<Left>],
        chosen: &mut Vec<&'l Left>,
        hash: u64,
        each: &mut dyn FnMut(&mut Self, &[&Left], u64) -> Found,
    ) -> Found {
        let Some(of_disk) = losses.get(chosen.len()) else {
            return each(self, chosen, hash);
        };
        let torn = chosen.iter().any(|left| left.torn);
        for left in of_disk.iter().filter(|left| !(torn && left.torn)) {
            chosen.push(left);
            self.every_loss(losses, chosen, hash.wrapping_add(left.hash), each)?;
            chosen.pop();
        }
        Ok(())
    }

    /// Returns true if the state was not visited yet with as many crashes to come.
    fn is_fresh(&mut self, key: u64, left: u8) -> bool {
        let before = self.visited.get(&key).copied();
        if before.is_some_and(|before| before >= left) {
            return false;
        }
        self.visited.insert(key, left);
        self.summary.states += u64::from(before.is_none());
        true
    }

    // ---- openings ----------------------------------------------------------------------------

    /// Opens the state with every tolerated set of members missing.
    fn visit(&mut self, state: &AfterCrash, left: u8) -> Found {
        self.visit_rotten(state)?;
        for missing in self.scenario.tolerated(state.lost) {
            match self.is_decidable(state, missing) {
                Some(true) => {}
                Some(false) => {
                    self.summary.undecidable += 1;
                    continue;
                }
                // A member without a superblock can't be included; the array is also opened without
                // it.
                None => continue,
            }
            let journals: &[bool] = if self.scenario.journal_device {
                &[true, false]
            } else {
                &[false]
            };
            for &journal in journals {
                if left == 0 && !self.is_new_opening(state, missing, journal) {
                    continue;
                }
                self.way.push(WayStep::Open(missing, journal));
                if let Some((machine, legal)) = self.open(state, missing, journal, left)? {
                    self.after_recovery(machine, &legal, left)?;
                }
                self.way.pop();
            }
        }
        Ok(())
    }

    /// Returns true for the first opening of the present devices with these contents. Contents of
    /// missing devices can't change an opening without a further crash.
    fn is_new_opening(&mut self, state: &AfterCrash, missing: MemberSet, journal: bool) -> bool {
        let mut without: Vec<u8> = missing.iter().map(|member| member.0).collect();
        if !journal {
            without.push(self.scenario.members());
        }
        let lost = u64::from(state.log_is_lost) << 1 | u64::from(journal);
        let contents = mix(state.media.hash_without(&without), state.legal.hash());
        let members = mix(missing.bits(), state.lost.bits());
        self.opened.insert(mix(mix(contents, members), lost))
    }

    /// Opens the state with one corrupt block in addition: of data, parity, checksums or the log.
    fn visit_rotten(&mut self, state: &AfterCrash) -> Found {
        let share = self.bounds.rot_share;
        let is_promised = self.scenario.checksums && !self.scenario.journal_device;
        if share == 0 || !is_promised || !state.lost.is_empty() || state.log_is_lost {
            return Ok(());
        }
        let per_block = u16::try_from(ATOMS_PER_BLOCK).expect("2");
        let whole = mix(state.media.hash(), state.legal.hash());
        for disk in 0..self.scenario.members() {
            let block_bytes = u64::from(BLOCK_SIZE.bytes());
            for block in 0..self.scenario.device_bytes() / block_bytes {
                let key = mix(mix(whole, u64::from(disk)), block);
                let first = u16::try_from(block).expect("small") * per_block;
                let mut held = [ZEROS; 2];
                state.media.read(disk, first, &mut held);
                let is_superblock = SLOT_BYTES.contains(&(block * block_bytes));
                if is_superblock || held == [ZEROS; 2] || !key.is_multiple_of(share) {
                    continue;
                }
                let mut media = state.media.clone();
                let rot = Write {
                    disk,
                    first,
                    atoms: [POISON; 2].into(),
                };
                media.write(&rot, true);
                let rotten = AfterCrash {
                    media,
                    legal: state.legal.clone(),
                    lost: state.lost,
                    log_is_lost: false,
                };
                self.summary.rotten += 1;
                self.way.push(WayStep::Rot(disk, block));
                self.rotten = true;
                self.open(&rotten, MemberSet::EMPTY, false, 0)?;
                self.rotten = false;
                self.way.pop();
            }
        }
        Ok(())
    }

    /// Returns true if the present members can prove every outdated member outdated. An outdated
    /// member whose superblock relies only on missing or outdated members might be valid. `None` if
    /// one has no superblock yet.
    fn is_decidable(&mut self, state: &AfterCrash, missing: MemberSet) -> Option<bool> {
        let lost = state.lost.union(missing);
        let mut decidable = true;
        for member in state.lost.difference(missing).iter() {
            let counts_on = self
                .assemblies
                .counts_on(&self.store, &state.media, member)?;
            decidable &= !counts_on.difference(lost).is_empty();
        }
        Some(decidable)
    }

    /// Assembles and opens the array and reads everything while it recovers, with a crash at every
    /// operation. `None` if the array was refused and that is legal.
    fn open(
        &mut self,
        state: &AfterCrash,
        missing: MemberSet,
        journal: bool,
        left: u8,
    ) -> Result<Option<(Machine, Legal)>, String> {
        self.summary.openings += 1;
        let assembled = self.assemble(&state.media, missing);
        let assembly = match &assembled.result {
            Ok(assembly) => assembly,
            Err(why) => return Err(format!("refused: {why}")),
        };
        let mut media = state.media.clone();
        let lost = state.lost.union(missing);
        for member in assembly.lagging.iter() {
            let write = superblock(&mut self.store, assembly, member);
            let there = (lost, state.log_is_lost);
            self.crashes_of(&media, &[&write], &state.legal, there, left)?;
            media.write(&write, true);
        }
        let refused = &assembled.refused[usize::from(journal)];
        if refused.get() {
            self.summary.refused += 1;
            return Ok(None);
        }
        if journal && !state.log_is_lost && self.journal_device(&media).is_outdated(&assembly.array)
        {
            return Err("the device of the journal counts as outdated".to_owned());
        }
        let filling = assembly.array.rebuilding();
        let out = assembly.missing;
        let key = mix(state.media.hash(), missing.bits());
        if left + 1 == self.bounds.crashes && key.is_multiple_of(LOOK_SHARE) {
            self.look(state, media.clone(), assembly, journal)?;
        }
        let mut machine = match self.machine(media, assembly, journal, false) {
            Ok(machine) => machine,
            Err(error) => {
                let in_doubt = matches!(error, OpenError::UncleanDegraded { .. })
                    && self.scenario.has_parity()
                    && !assembly.array.clean
                    && !out.union(filling).is_empty();
                let has_log = self.scenario.policy.write_hole == WriteHole::Closed
                    && journal == self.scenario.journal_device
                    && !state.log_is_lost;
                if in_doubt && !has_log {
                    refused.set(true);
                    self.summary.refused += 1;
                    return Ok(None);
                }
                return Err(format!("refused: {error}"));
            }
        };
        machine.drop(out);
        machine.log_is_lost = state.log_is_lost || machine.journal_is_gone && !assembly.array.clean;
        let mut legal = if machine.log_is_lost && self.scenario.checksums {
            self.candidates.without_log(&state.legal)
        } else {
            state.legal.clone()
        };
        // The record that a rebuild is complete may be in a cache until a request is answered.
        let doubtful = state.lost.difference(machine.lost());
        self.read_all(&mut machine, &mut legal, doubtful, left)?;
        Ok(Some((machine, legal)))
    }

    /// Opens the state after the first crash read-only, and reads every block. Answers must be
    /// legal. The media are a copy: whatever the engine writes is forgotten, as over an overlay.
    fn look(
        &mut self,
        state: &AfterCrash,
        media: Media,
        assembly: &Assembly,
        journal: bool,
    ) -> Found {
        let before = self.way.len();
        self.way.push(WayStep::Look);
        let Ok(mut machine) = self.machine(media, assembly, journal, true) else {
            self.way.truncate(before); // It is refused for writing too.
            return Ok(());
        };
        machine.drop(assembly.missing);
        let blocks = self.scenario.geometry.blocks();
        for number in 0..u32::try_from(blocks).expect("small") {
            let range = u64::from(number)..u64::from(number) + 1;
            if !machine.ask(&mut self.store, number, Operation::Read, range, &[]) {
                return Err("an engine with room to spare was busy".to_owned());
            }
        }
        machine.settle(&mut self.store, |_, _| Ok(()))?;
        let log_is_lost = state.log_is_lost || machine.journal_is_gone && !assembly.array.clean;
        let mut legal = if log_is_lost && self.scenario.checksums {
            self.candidates.without_log(&state.legal)
        } else {
            state.legal.clone()
        };
        let replies = std::mem::take(&mut machine.replies);
        if replies.len() != usize::try_from(blocks).expect("small") {
            return Err(format!("{} of {blocks} reads were answered", replies.len()));
        }
        for reply in replies {
            if reply.result.is_err() {
                self.summary.errors_looked += 1;
                continue;
            }
            self.summary.looked += 1;
            let first = usize::try_from(reply.token * ATOMS_PER_BLOCK).expect("small");
            let number = u32::try_from(reply.token).expect("small");
            for (atom, content) in (first..).zip(machine.buffer(number, 1)) {
                let gap = self.rotten && legal.is_in_gap(atom, !self.scenario.has_parity());
                let verdict = self.candidates.judge(&mut legal, atom, *content, false);
                if verdict == Verdict::Wrong && !gap {
                    return Err(format!(
                        "half {} of block {number} holds {}; legal: {}",
                        atom - first,
                        self.candidates.name(atom, *content),
                        self.candidates.describe(&legal, atom)
                    ));
                }
            }
        }
        self.way.truncate(before);
        Ok(())
    }

    /// Reads every block, all at once, and checks the results. `doubtful` are members whose
    /// completeness may not be durable until the first read is answered.
    fn read_all(
        &mut self,
        machine: &mut Machine,
        legal: &mut Legal,
        doubtful: MemberSet,
        left: u8,
    ) -> Found {
        let scenario = self.scenario;
        let blocks = scenario.geometry.blocks();
        for number in 0..u32::try_from(blocks).expect("small") {
            let range = u64::from(number)..u64::from(number) + 1;
            if !machine.ask(&mut self.store, number, Operation::Read, range, &[]) {
                return Err("an engine with room to spare was busy".to_owned());
            }
        }
        let mut answered = 0;
        let mut steps = 0;
        let before = self.way.len();
        loop {
            for reply in std::mem::take(&mut machine.replies) {
                answered += 1;
                self.judge(machine, legal, reply.token, reply.result.is_ok())?;
            }
            let lost = match answered {
                0 => machine.lost().union(doubtful),
                _ => machine.lost(),
            };
            self.crashes(machine, legal, lost, left)?;
            if machine.flights.is_empty() {
                if !machine.wake(&mut self.store) {
                    break;
                }
            } else {
                let io = machine.flights[0].io;
                self.way
                    .push(WayStep::Done(io.member, io.operation, io.block.0));
                machine.complete(&mut self.store, 0)?;
            }
            steps += 1;
            if steps > STEPS_MAX {
                return Err("it does not end".to_owned());
            }
        }
        if answered != blocks {
            return Err(format!("{answered} of {blocks} reads were answered"));
        }
        self.way.truncate(before);
        Ok(())
    }

    fn judge(&mut self, machine: &Machine, legal: &mut Legal, block: u64, done: bool) -> Found {
        let per_block = ATOMS_PER_BLOCK;
        let first = usize::try_from(block * per_block).expect("small");
        let number = u32::try_from(block).expect("small");
        let atoms = machine.buffer(number, 1);
        let copies = !self.scenario.has_parity();
        for (atom, content) in (first..).zip(atoms) {
            if self.rotten && legal.is_in_gap(atom, copies) {
                let mut unread = legal.clone();
                let verdict = self.candidates.judge(&mut unread, atom, *content, false);
                if !done || verdict == Verdict::Wrong {
                    self.summary.gaps += 1;
                    continue;
                }
            }
            if !done {
                let place = self.scenario.geometry.locate(BlockIndex(block)).member;
                let without_log = machine.log_is_lost && self.scenario.has_parity();
                let count = if legal.is_lost(atom) {
                    &mut self.summary.errors_again
                } else if legal.is_unlogged(atom) && machine.lost().contains(place) {
                    &mut self.summary.errors_unlogged
                } else if without_log
                    && (legal.is_flying(atom)
                        || legal.is_neighbour(atom) && machine.lost().contains(place))
                {
                    &mut self.summary.errors_without_log
                } else {
                    return Err(format!("block {block} can't be read"));
                };
                *count += 1;
                legal.lose(atom);
                continue;
            }
            let stable = self.scenario.is_ruled();
            let verdict = self.candidates.judge(legal, atom, *content, stable);
            let touched = self.candidates.is_touched(atom);
            match verdict {
                Verdict::Old => self.summary.old += u64::from(touched),
                Verdict::New => self.summary.new += u64::from(touched),
                Verdict::Wrong => {
                    return Err(format!(
                        "half {} of block {block} holds {}; legal: {}",
                        atom - first,
                        self.candidates.name(atom, *content),
                        self.candidates.describe(legal, atom)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that later reads return the same: after further members drop out, and after a close.
    fn after_recovery(&mut self, machine: Machine, legal: &Legal, left: u8) -> Found {
        let missing = machine.lost();
        let without = missing.bits() << 1 | u64::from(machine.journal_is_gone);
        let key = mix(mix(machine.media.hash(), legal.hash()), without);
        if !self.scenario.is_ruled() || !self.settled.insert(key) {
            return Ok(());
        }
        for more in self.scenario.largest_tolerated(missing) {
            self.way.push(WayStep::Again(more));
            let mut without = machine.clone();
            without.drop(more);
            self.read_all(&mut without, &mut legal.clone(), MemberSet::EMPTY, 0)?;
            self.way.pop();
        }
        let mut machine = machine;
        self.way.push(WayStep::Closed);
        machine.close(&mut self.store);
        machine.settle(&mut self.store, |_, _| Ok(()))?;
        if machine.closed.is_none() || machine.closed == Some(false) && !legal.may_lose() {
            return Err(format!("closed: {:?}", machine.closed));
        }
        machine.media.lose_caches();
        let state = AfterCrash {
            legal: legal.clone(),
            lost: missing,
            log_is_lost: false,
            media: machine.media,
        };
        let key = mix(mix(state.media.hash(), legal.hash()), missing.bits());
        // Closing again after a close finds nothing new.
        if left > 0 && self.is_fresh(key, 0) {
            self.visit(&state, 0)?;
        }
        self.way.pop();
        Ok(())
    }
}

fn answered(asked: &[Asked]) -> u8 {
    let events = asked.iter().enumerate();
    let answered = events.filter(|(_, asked)| asked.answered);
    answered.fold(0, |bits, (event, _)| bits | 1 << event)
}
