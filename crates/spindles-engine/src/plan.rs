//! Plans all work on a stripe range of a redundancy group before the work begins.
//!
//! A *stripe range* is the same range of blocks in every chunk of a group. A plan is a printable
//! value: reads, computation, **commit**, writes. One executor runs all plans (`engine/ranges/`).
//! Levels differ only in the slots of their groups: `data` chunks first, then redundancy. Any
//! `data` chunks recover the rest.

use crate::slots::SlotSet;
use core::fmt;
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

/// A computation between the reads and the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Find the one chunk among those read that does not fit the others.
    Locate,
    /// Recover `Plan::recover` from the slots read.
    Recover,
    /// Update the parity that was read by the difference of the touched data.
    Update,
    /// Compute `Plan::encode` from all data chunks.
    Encode,
    /// Fill the requested blocks with zeros.
    Fill,
    /// Compare the blocks read with the correct ones; if they are equal there is nothing to write.
    Compare,
    /// Compute the checksums of blocks that are about to be written, or were read from the journal.
    Checksum,
    /// Compute the checksums of blocks that were read, to verify them.
    Verify,
    /// Compute the checksums of blocks that were recovered or computed, to prove that they fit the
    /// row.
    Prove,
    /// Copy a client's data to scratch space, so that the client can be answered before it is in
    /// place.
    Keep,
}

/// The steps for one stripe range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The strategy.
    pub strategy: Strategy,
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
        reads,
        recover,
        encode,
        writes,
        writes_always: writes,
    };
    if health.contents == Contents::Blank {
        let writes = shape.all().minus(health.missing);
        let strategy = if untouched.is_empty() {
            Strategy::FullStripeWrite
        } else {
            Strategy::ReconstructWrite
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
    /// Returns the computation that follows `done` (`None`: the reads).
    #[must_use]
    pub fn work_after(&self, done: Option<Work>) -> Option<Work> {
        let recover = (!self.recover.is_empty()).then_some(Work::Recover);
        match (self.strategy, done) {
            (Strategy::ReadModifyWrite, None) => Some(Work::Update),
            (Strategy::Zeros, None) => Some(Work::Fill),
            (Strategy::Scrub, None) => Some(Work::Locate),
            (_, None | Some(Work::Locate)) if recover.is_some() => recover,
            (_, None | Some(Work::Recover)) if !self.encode.is_empty() => Some(Work::Encode),
            (Strategy::Settle, None | Some(Work::Recover | Work::Encode))
                if self.writes != self.writes_always =>
            {
                Some(Work::Compare)
            }
            _ => None,
        }
    }

    /// Formats the plan as `ReadModifyWrite; read 0:d0 4:p0; write 0:d0 4:p0`, each slot as
    /// member:role.
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
        write!(f, "{:?}; read", self.plan.strategy)?;
        self.slots(f, self.plan.reads)?;
        if !self.plan.recover.is_empty() {
            f.write_str("; recover")?;
            self.slots(f, self.plan.recover)?;
        }
        if !self.plan.writes.is_empty() {
            f.write_str("; write")?;
            self.slots(f, self.plan.writes)?;
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
