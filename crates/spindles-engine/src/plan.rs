//! Plans all work on a stripe range of a redundancy group before the work begins.
//!
//! A *stripe range* is the same range of blocks in every chunk of a group. A plan is a printable
//! value: reads, computation, **commit**, writes. One executor takes its steps in order
//! (`engine/ranges/`). Levels differ only in the slots of their groups: `data` chunks first, then
//! redundancy. Any `data` chunks recover the rest.
//!
//! The steps up to the commit are planned first. The steps between commit and write are added at
//! the commit, because they depend on the members that are out by then (`stripe/commit.rs`).

use crate::{index, slots::SlotSet};
use core::fmt;
use spindles_block::Compute;
use spindles_layout::{Geometry, Group, Role};

/// The task of a stripe range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Read the touched data chunks.
    Read,
    /// Replace the touched data chunks.
    Write,
    /// Make redundancy agree with data; no slot is touched.
    Settle,
    /// Write the unreadable slots whose members are present; no slot is touched.
    Rebuild,
    /// Copy the touched chunks, of any kind, onto the device that is to replace their member.
    Replace,
    /// Read everything and repair blocks known to be wrong; nothing is touched.
    Scrub,
}

/// How a plan reaches its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Read or write the chunks as they are.
    Direct,
    /// Read other chunks and compute the missing ones.
    Reconstruct,
    /// Read old data and old parity, write new ones.
    ReadModifyWrite,
    /// Read the untouched data, compute parity from all data.
    ReconstructWrite,
    /// Recover untouched data first, then continue like `ReconstructWrite`.
    RecoverWrite,
    /// The request has all data chunks, so no chunk is read.
    FullStripeWrite,
    /// Read everything, correct redundancy that disagrees.
    Settle,
    /// Read zeros: the rows were never written.
    Zeros,
    /// Read enough chunks, write those that can't be read.
    Rebuild,
    /// Read everything, check that it is consistent, recover lost chunks from the rest.
    Scrub,
}

/// A step of a plan. Steps are taken in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Fill the requested blocks that are zeros.
    Fill,
    /// Read `Plan::reads`.
    Read,
    /// Compute the checksums of the blocks that were read, to verify them.
    Verify,
    /// Find the one chunk among those read that does not fit the others.
    Locate,
    /// Recover `Plan::recover` from the slots read.
    Recover,
    /// Compute the checksums of recovered data, to prove that the data fits the row.
    Prove,
    /// Update the parity that was read by the difference of the touched data.
    Update,
    /// Compute `Plan::encode` from all data chunks.
    Encode,
    /// Compute the checksums of parity as it should be, to find the blocks that differ.
    Witness,
    /// Compare the blocks read with the correct ones; if they are equal there is nothing to write.
    Compare,
    /// Wait until the rows may be written. An error before it leads to another plan; an error after
    /// it puts the member out.
    Commit,
    /// Compute the checksums of blocks that are about to be written, or were read from the journal.
    Checksum,
    /// Make the new blocks durable in the log.
    Log,
    /// Copy a client's data to scratch space, and answer the client before the data is in place.
    Keep,
    /// Write `Plan::writes`.
    Write,
    /// Flush all members before the answer.
    Flush,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Self; 16] = [
        Self::Fill,
        Self::Read,
        Self::Verify,
        Self::Locate,
        Self::Recover,
        Self::Prove,
        Self::Update,
        Self::Encode,
        Self::Witness,
        Self::Compare,
        Self::Commit,
        Self::Checksum,
        Self::Log,
        Self::Keep,
        Self::Write,
        Self::Flush,
    ];

    /// Returns the computation that carries it out; `None` if it computes nothing.
    #[must_use]
    pub(crate) const fn compute(self) -> Option<Compute> {
        match self {
            Self::Recover | Self::Encode => Some(Compute::Solve),
            Self::Update => Some(Compute::Update),
            Self::Fill | Self::Keep => Some(Compute::Copy),
            Self::Compare => Some(Compute::Compare),
            Self::Locate => Some(Compute::Locate),
            Self::Checksum | Self::Verify | Self::Prove | Self::Witness => Some(Compute::Checksum),
            Self::Read | Self::Commit | Self::Log | Self::Write | Self::Flush => None,
        }
    }

    /// Returns the name in printed plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Read => "read",
            Self::Verify => "verify",
            Self::Locate => "locate",
            Self::Recover => "recover",
            Self::Prove => "prove",
            Self::Update => "update",
            Self::Encode => "encode",
            Self::Witness => "witness",
            Self::Compare => "compare",
            Self::Commit => "commit",
            Self::Checksum => "checksum",
            Self::Log => "log",
            Self::Keep => "keep",
            Self::Write => "write",
            Self::Flush => "flush",
        }
    }
}

/// A set of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(u16);

impl Steps {
    /// No step.
    pub const NONE: Self = Self(0);

    /// The steps with `step` among them.
    #[must_use]
    pub const fn with(self, step: Step) -> Self {
        Self(self.0 | 1 << step as u16)
    }

    /// The steps with `step` among them if `takes`.
    #[must_use]
    pub const fn with_if(self, step: Step, takes: bool) -> Self {
        Self(self.0 | (takes as u16) << step as u16)
    }

    /// Steps of either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The steps without `step`.
    #[must_use]
    pub const fn without(self, step: Step) -> Self {
        Self(self.0 & !(1 << step as u16))
    }

    /// Returns true if `step` is among them.
    #[must_use]
    pub const fn contains(self, step: Step) -> bool {
        self.0 >> step as u16 & 1 == 1
    }

    /// Returns the first step.
    #[must_use]
    pub fn first(self) -> Option<Step> {
        self.after(None)
    }

    /// Returns the step that follows `done`; the first step after `None`.
    #[must_use]
    pub fn after(self, done: Option<Step>) -> Option<Step> {
        let left = done.map_or(self.0, |done| self.0 & (u16::MAX << done as u16) << 1);
        Step::ALL.get(index(left.trailing_zeros())).copied()
    }

    /// The steps in order.
    pub fn iter(self) -> impl Iterator<Item = Step> {
        Step::ALL
            .into_iter()
            .filter(move |&step| self.contains(step))
    }
}

/// The steps for one stripe range, and the slots that they concern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
    /// The steps.
    pub steps: Steps,
    /// Slots to read.
    pub reads: SlotSet,
    /// Slots to recover from those read.
    pub recover: SlotSet,
    /// Parity slots to compute from data.
    pub encode: SlotSet,
    /// Slots to write after the commit.
    pub writes: SlotSet,
    /// Of `writes`, those written even if the comparison finds no difference.
    pub writes_always: SlotSet,
}

/// What the members hold in some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The contents of the array.
    Written,
    /// Arbitrary blocks; the array holds zeros.
    Zeros,
    /// Arbitrary blocks; some are about to be written, and the others must become zeros.
    Blank,
}

/// The state of a group, as much of it as planning needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Slots whose member is missing: neither read nor written.
    pub missing: SlotSet,
    /// Slots that can't be read here; includes `missing`.
    pub unreadable: SlotSet,
    /// True if redundancy is known to agree with data.
    pub settled: bool,
    /// What the members hold in the rows.
    pub contents: Contents,
    /// True to recover missing data even from redundancy that is not settled: only if the
    /// administrator forced it.
    pub trust_unsettled: bool,
    /// True if blocks have checksums.
    pub checksums: bool,
}

/// The shape of a group, as much of it as planning needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Data chunks.
    pub data: u8,
    /// All chunks.
    pub slots: u8,
    /// True if redundancy is copies of the one data chunk, false if it is parity.
    pub copies: bool,
}

impl Shape {
    /// Returns true if there are copies to choose from.
    #[inline]
    pub(crate) fn mirrors(self) -> bool {
        self.copies && self.slots > 1
    }

    /// The shape of a group.
    #[must_use]
    pub fn of(group: &Group) -> Self {
        Self {
            data: group.data_chunks,
            slots: u8::try_from(group.slots().len()).expect("at most the members"),
            copies: group.parity_chunks == 0,
        }
    }

    /// The largest shape of a map's groups; while it grows, of both maps.
    #[must_use]
    pub fn whole(geometry: &Geometry) -> Self {
        let of = |geometry: &Geometry| Self {
            data: geometry.data_chunks(),
            slots: geometry.data_chunks() + geometry.redundancy(),
            copies: geometry.parity_chunks() == 0,
        };
        let new = of(geometry);
        geometry.older().map_or(new, |older| Self {
            slots: new.slots.max(of(older).slots),
            copies: new.copies && of(older).copies,
            ..new
        })
    }

    /// The number of parity chunks.
    #[must_use]
    pub const fn parity(self) -> u8 {
        if self.copies {
            0
        } else {
            self.slots - self.data
        }
    }

    /// Returns true if rows may be blank: enough members can show it, whichever are missing.
    pub(crate) const fn may_be_blank(self) -> bool {
        !self.copies && self.data > 1
    }

    /// All data chunks.
    #[must_use]
    pub const fn all_data(self) -> SlotSet {
        SlotSet::range(0, self.data)
    }

    /// All parity chunks; for copies, all copies after the first.
    #[must_use]
    pub const fn redundant(self) -> SlotSet {
        SlotSet::range(self.data, self.slots)
    }

    /// All chunks.
    #[must_use]
    pub const fn all(self) -> SlotSet {
        SlotSet::range(0, self.slots)
    }
}

/// Plans one stripe range. `touched` are the requested data slots; for copies slot 0, with
/// `preferred` as the copy to read. `None` if more is lost than the group survives.
#[must_use]
pub fn plan(
    shape: Shape,
    health: Health,
    ask: Ask,
    touched: SlotSet,
    preferred: u8,
) -> Option<Plan> {
    let mut chosen = choose(shape, health, ask, touched, preferred);
    if let Some(plan) = &mut chosen {
        plan.set_steps(shape, health.checksums);
    }
    chosen
}

/// Chooses the strategy and the slots of a plan.
fn choose(shape: Shape, health: Health, ask: Ask, touched: SlotSet, preferred: u8) -> Option<Plan> {
    if health.contents == Contents::Zeros {
        let nothing = direct(SlotSet::EMPTY, SlotSet::EMPTY);
        let strategy = match ask {
            Ask::Read => Strategy::Zeros,
            Ask::Write | Ask::Settle | Ask::Rebuild | Ask::Replace | Ask::Scrub => Strategy::Direct,
        };
        return Some(Plan {
            strategy,
            ..nothing
        });
    }
    match (ask, shape.copies) {
        (Ask::Rebuild, _) if health.unreadable == health.missing => {
            Some(direct(SlotSet::EMPTY, SlotSet::EMPTY))
        }
        (Ask::Replace, _) => plan_replace(shape, health, touched),
        (Ask::Rebuild, true) if health.settled => plan_copy_rebuild(shape, health),
        (Ask::Rebuild, false) if health.settled => plan_parity_rebuild(shape, health),
        (Ask::Scrub, _) if health.settled => plan_scrub(shape, health),
        // Another request settled the rows meanwhile, or they were discarded and then written.
        (Ask::Settle, _) if health.settled => Some(direct(SlotSet::EMPTY, SlotSet::EMPTY)),
        (Ask::Settle | Ask::Scrub, _) if nothing_to_settle(shape, health) => {
            Some(direct(SlotSet::EMPTY, SlotSet::EMPTY))
        }
        (Ask::Read, true) if health.settled => plan_copy_read(health, preferred),
        (Ask::Write, true) => plan_copy_write(shape, health),
        (_, true) => plan_copy_settle(shape, health),
        (Ask::Read, false) if health.settled => plan_parity_read(shape, health, touched),
        (Ask::Write, false) => plan_parity_write(shape, health, touched),
        (_, false) => plan_parity_settle(shape, health),
    }
}

/// Returns true if only data is left, without redundancy that could disagree: the last copy, or all
/// data chunks without parity. Parity that stands in for missing data does not count. It is the
/// only evidence of that data, and settling must find out whether it is right.
fn nothing_to_settle(shape: Shape, health: Health) -> bool {
    let present = shape.all().minus(health.missing);
    if shape.copies {
        present.count() <= 1
    } else {
        present == shape.all_data()
    }
}

const fn direct(reads: SlotSet, writes: SlotSet) -> Plan {
    Plan {
        strategy: Strategy::Direct,
        steps: Steps::NONE,
        reads,
        recover: SlotSet::EMPTY,
        encode: SlotSet::EMPTY,
        writes,
        writes_always: writes,
    }
}

fn plan_copy_read(health: Health, preferred: u8) -> Option<Plan> {
    let readable = SlotSet::one(preferred).minus(health.unreadable);
    (!readable.is_empty()).then(|| direct(readable, SlotSet::EMPTY))
}

fn plan_copy_write(shape: Shape, health: Health) -> Option<Plan> {
    let writes = shape.all().minus(health.missing);
    (!writes.is_empty()).then(|| direct(SlotSet::EMPTY, writes))
}

/// Takes one readable copy as correct; compares the others with it and corrects them.
fn plan_copy_settle(shape: Shape, health: Health) -> Option<Plan> {
    let readable = shape.all().minus(health.unreadable);
    let others = shape
        .all()
        .minus(health.missing)
        .minus(SlotSet::one(readable.first()?));
    Some(Plan {
        strategy: Strategy::Settle,
        steps: Steps::NONE,
        reads: readable,
        recover: SlotSet::EMPTY,
        encode: SlotSet::EMPTY,
        writes: others,
        writes_always: others.minus(readable),
    })
}

fn plan_copy_rebuild(shape: Shape, health: Health) -> Option<Plan> {
    let truth = SlotSet::one(shape.all().minus(health.unreadable).first()?);
    Some(Plan {
        strategy: Strategy::Rebuild,
        ..direct(truth, health.unreadable.minus(health.missing))
    })
}

/// Returns the unreadable data slots. Recovering a slot requires recovering all these slots: only
/// the whole row proves the result.
fn unreadable_data(shape: Shape, health: Health) -> SlotSet {
    shape.all_data().and(health.unreadable)
}

fn plan_parity_rebuild(shape: Shape, health: Health) -> Option<Plan> {
    let writes = health.unreadable.minus(health.missing);
    let encode = writes.and(shape.redundant());
    Some(Plan {
        strategy: Strategy::Rebuild,
        recover: unreadable_data(shape, health),
        encode,
        ..direct(recovery_sources(shape, health)?, writes)
    })
}

/// Copies readable slots as they are, and recovers the unreadable ones.
fn plan_replace(shape: Shape, health: Health, touched: SlotSet) -> Option<Plan> {
    let readable = touched.and(health.unreadable).is_empty();
    if readable || !touched.and(health.missing).is_empty() {
        let copied = touched.minus(health.missing);
        return Some(Plan {
            strategy: Strategy::Rebuild,
            ..direct(copied, copied)
        });
    }
    if !health.settled {
        return None;
    }
    let (reads, recover) = if shape.copies {
        let truth = shape.all().minus(health.unreadable).first()?;
        (SlotSet::one(truth), SlotSet::EMPTY)
    } else {
        let recover = touched.or(unreadable_data(shape, health));
        (recovery_sources(shape, health)?, recover)
    };
    Some(Plan {
        strategy: Strategy::Rebuild,
        recover,
        ..direct(reads, touched)
    })
}

fn plan_parity_read(shape: Shape, health: Health, touched: SlotSet) -> Option<Plan> {
    let lost = touched.and(health.unreadable);
    if lost.is_empty() {
        return Some(direct(touched, SlotSet::EMPTY));
    }
    let sources = recovery_sources(shape, health)?;
    Some(Plan {
        strategy: Strategy::Reconstruct,
        steps: Steps::NONE,
        reads: sources,
        recover: unreadable_data(shape, health),
        encode: SlotSet::EMPTY,
        writes: SlotSet::EMPTY,
        writes_always: SlotSet::EMPTY,
    })
}

/// Returns the chunks to recover any others from: data first, then the lowest parity.
fn recovery_sources(shape: Shape, health: Health) -> Option<SlotSet> {
    let sources = shape
        .all()
        .minus(health.unreadable)
        .lowest(u32::from(shape.data));
    (sources.count() == u32::from(shape.data)).then_some(sources)
}

fn plan_parity_settle(shape: Shape, health: Health) -> Option<Plan> {
    let lost = shape.all_data().and(health.unreadable);
    let parity = shape.redundant().minus(health.missing);
    let mut compared = parity.minus(health.unreadable);
    if !lost.is_empty() {
        // Redundancy that is not settled proves nothing about data.
        if !health.trust_unsettled {
            return None;
        }
        compared = compared.minus(recovery_sources(shape, health)?);
    }
    let sources = shape.all_data().minus(health.unreadable);
    let witnesses = if lost.is_empty() {
        SlotSet::EMPTY
    } else {
        recovery_sources(shape, health)?.minus(sources)
    };
    let encode = parity.minus(witnesses);
    Some(Plan {
        strategy: Strategy::Settle,
        steps: Steps::NONE,
        reads: sources.or(witnesses).or(compared),
        recover: lost,
        encode,
        writes: encode.or(lost.minus(health.missing)),
        writes_always: encode.minus(compared).or(lost.minus(health.missing)),
    })
}

/// Plans to read every readable slot. Slots that are unreadable, or known to be wrong, are
/// recovered from the rest. Slots beyond the number needed for the recovery must be consistent.
fn plan_scrub(shape: Shape, health: Health) -> Option<Plan> {
    let readable = shape.all().minus(health.unreadable);
    let spare = readable.count().checked_sub(u32::from(shape.data))?;
    let lost = shape.all().minus(health.missing).minus(readable);
    Some(Plan {
        strategy: if spare > 0 {
            Strategy::Scrub
        } else {
            Strategy::Reconstruct
        },
        steps: Steps::NONE,
        reads: readable,
        recover: if shape.copies || lost.is_empty() {
            SlotSet::EMPTY
        } else {
            lost.or(unreadable_data(shape, health))
        },
        encode: SlotSet::EMPTY,
        writes: lost,
        writes_always: lost,
    })
}

fn plan_parity_write(shape: Shape, health: Health, touched: SlotSet) -> Option<Plan> {
    if health.missing.count() > u32::from(shape.slots - shape.data) {
        return None;
    }
    let parity = shape.redundant().minus(health.missing);
    let untouched = shape.all_data().minus(touched);
    let writes = touched.minus(health.missing).or(parity);
    let make = |strategy, reads, recover, encode| Plan {
        strategy,
        steps: Steps::NONE,
        reads,
        recover,
        encode,
        writes,
        writes_always: writes,
    };
    if health.contents == Contents::Blank {
        let writes = shape.all().minus(health.missing);
        let strategy = match untouched {
            SlotSet::EMPTY => Strategy::FullStripeWrite,
            _ => Strategy::ReconstructWrite,
        };
        return Some(Plan {
            writes,
            writes_always: writes,
            ..make(strategy, SlotSet::EMPTY, SlotSet::EMPTY, parity)
        });
    }
    if parity.is_empty() {
        return Some(direct(SlotSet::EMPTY, writes));
    }
    if untouched.is_empty() {
        return Some(make(
            Strategy::FullStripeWrite,
            SlotSet::EMPTY,
            SlotSet::EMPTY,
            parity,
        ));
    }

    let modify = touched.or(parity);
    let can_modify = health.settled && modify.and(health.unreadable).is_empty();
    let can_reconstruct = untouched.and(health.unreadable).is_empty();
    // Choose the fewest reads; writes are the same. At a tie don't depend on old parity.
    if can_reconstruct && !(can_modify && modify.count() < untouched.count()) {
        return Some(make(
            Strategy::ReconstructWrite,
            untouched,
            SlotSet::EMPTY,
            parity,
        ));
    }
    if can_modify {
        return Some(make(
            Strategy::ReadModifyWrite,
            modify,
            SlotSet::EMPTY,
            SlotSet::EMPTY,
        ));
    }
    if !(health.settled || health.trust_unsettled) {
        return None;
    }
    Some(make(
        Strategy::RecoverWrite,
        recovery_sources(shape, health)?,
        unreadable_data(shape, health),
        parity,
    ))
}

impl Plan {
    /// Sets the steps that follow from the strategy and the slots.
    fn set_steps(&mut self, shape: Shape, checksums: bool) {
        const WRITES: Steps = Steps::NONE.with(Step::Commit).with(Step::Write);
        let mut steps = if self.writes.is_empty() {
            Steps::NONE
        } else {
            WRITES
        };
        if !self.reads.is_empty() {
            steps = steps.with(Step::Read).with_if(Step::Verify, checksums);
        }
        if !self.recover.is_empty() {
            let proves = checksums && !self.recover.and(shape.all_data()).is_empty();
            steps = steps.with(Step::Recover).with_if(Step::Prove, proves);
        }
        steps = steps.with_if(Step::Encode, !self.encode.is_empty());
        self.steps = match self.strategy {
            Strategy::Zeros => steps.with(Step::Fill),
            Strategy::Scrub => steps.with(Step::Locate),
            Strategy::ReadModifyWrite => steps.with(Step::Update),
            Strategy::Settle => steps.with_if(Step::Compare, self.writes != self.writes_always),
            Strategy::Direct
            | Strategy::Reconstruct
            | Strategy::ReconstructWrite
            | Strategy::RecoverWrite
            | Strategy::FullStripeWrite
            | Strategy::Rebuild => steps,
        };
    }

    /// Changes the slots to write after the commit. Without any the plan has no commit.
    pub(crate) fn set_writes(&mut self, writes: SlotSet) {
        let (steps, any) = (self.steps, !writes.is_empty());
        let steps = steps.without(Step::Commit).without(Step::Write);
        self.steps = steps.with_if(Step::Commit, any).with_if(Step::Write, any);
        self.writes = writes;
    }

    /// Formats the plan as `ReadModifyWrite; read 0:d0 4:p0; update; commit; write 0:d0 4:p0`, each
    /// slot as member:role.
    pub fn describe<'a>(&'a self, group: &'a Group) -> impl fmt::Display + 'a {
        Described { plan: self, group }
    }
}

struct Described<'a> {
    plan: &'a Plan,
    group: &'a Group,
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.plan.strategy)?;
        for step in self.plan.steps.iter() {
            write!(f, "; {}", step.name())?;
            match step {
                Step::Read => self.slots(f, self.plan.reads)?,
                Step::Recover => self.slots(f, self.plan.recover)?,
                Step::Encode => self.slots(f, self.plan.encode)?,
                Step::Write => self.slots(f, self.plan.writes)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Described<'_> {
    fn slots(&self, f: &mut fmt::Formatter<'_>, set: SlotSet) -> fmt::Result {
        // In the order of the members, as in a row of devices.
        for member in 0..=spindles_block::MEMBERS_MAX {
            for index in set.iter() {
                let slot = &self.group.slots()[usize::from(index)];
                if slot.member.0 != member {
                    continue;
                }
                let role = match slot.role {
                    Role::Data(data) => ('d', data),
                    Role::Copy(_) => ('d', 0),
                    Role::Parity(parity) => ('p', parity),
                };
                write!(f, " {}:{}{}", member, role.0, role.1)?;
            }
        }
        Ok(())
    }
}
