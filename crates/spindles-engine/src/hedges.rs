//! When a read counts as kept waiting, and which columns read around it.

use crate::{
    config::{FaultLimits, Limits},
    index,
};
use alloc::{vec, vec::Vec};
use spindles_block::{BufferSlice, Instant, MemberIndex};

/// Columns that are kept for hedges: those of other requests may all wait at one member.
const COLUMNS_MAX: u32 = 8;

/// How a request stands to others, and to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// A client waits for it, and for no other.
    Single,
    /// No client does: it is the array's own.
    Own,
    /// That slot has its hedge.
    Hedged(u32),
    /// It is the hedge of the request in that slot.
    Hedge(u32),
    /// The other was done first: what it reads is for nobody.
    Late,
}

/// What the engine keeps about hedges.
#[derive(Clone, Debug)]
pub(crate) struct Hedges {
    /// Whether what is being submitted may be answered with other memory.
    pub(crate) exchanges: bool,
    /// So many at once.
    pub(crate) most: u32,
    /// Columns that are meant for them.
    pub(crate) columns: u32,
    /// Those of them that other requests must leave free now.
    pub(crate) kept_columns: u32,
    /// Free slots of requests for them.
    pub(crate) slots: Vec<u32>,
    /// Memory that was lent and is in no use, and how long each piece is.
    pub(crate) areas: Vec<BufferSlice>,
    pub(crate) area_blocks: u32,
    /// When to look at what waits, while something does; `None` where nothing can be hedged.
    pub(crate) look: Option<Instant>,
    /// Reads that were not counted as hedged, of which some may be: each hedge takes
    /// `FaultLimits::hedge_share`.
    pub(crate) credit: u64,
    /// Reads of all members when that was reckoned.
    pub(crate) reads: u64,
    /// For each member the reads that were hedged because of it.
    pub(crate) hedged: Vec<u64>,
}

impl Hedges {
    pub(crate) fn new(
        limits: &Limits,
        faults: FaultLimits,
        members: u8,
        redundancy: bool,
        now: Instant,
    ) -> Self {
        let possible = redundancy && faults.stall_factor > 0;
        let most = if possible { limits.hedges } else { 0 };
        let columns = most.min(COLUMNS_MAX);
        // After those of the clients, and the one of the array's own.
        let first = limits.requests + 1;
        Self {
            exchanges: false,
            most,
            columns,
            kept_columns: columns,
            slots: (first..first + most).rev().collect(),
            areas: Vec::with_capacity(index(most)),
            area_blocks: 0,
            look: possible.then_some(now),
            credit: u64::from(most) * u64::from(faults.hedge_share),
            reads: 0,
            hedged: vec![0; usize::from(members)],
        }
    }

    /// How many there may be at once.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// Reads that were hedged.
    pub(crate) fn all(&self) -> u64 {
        self.hedged.iter().sum()
    }

    /// Reads that were hedged because of a member.
    pub(crate) fn of(&self, member: MemberIndex) -> u64 {
        self.hedged[usize::from(member.0)]
    }
}
