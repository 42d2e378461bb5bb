//! How long the reads of each member take beside those of its peers.

use crate::config::FaultLimits;
use alloc::{vec, vec::Vec};
use spindles_block::{Instant, MEMBERS_MAX, MemberIndex, MemberSet};

/// Of so many reads of a member one is timed, once it is known and while nobody is slow.
const TIME_EVERY: u32 = 8;

/// So many first reads of a member are all timed.
const TIME_FIRST: u32 = 64;

/// Reads between two looks at a member.
pub(crate) const LOOK_EVERY: u32 = 16;

/// How long the reads of a member take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Latency {
    /// A moving average, in nanoseconds: each read that is timed counts for an eighth.
    pub(crate) average_ns: u64,
    pub(crate) reads: u32,
    /// Since when it is much slower than its peers.
    pub(crate) since: Option<Instant>,
}

/// What the engine keeps about slow members.
#[derive(Clone, Debug)]
pub(crate) struct Slow {
    pub(crate) limits: FaultLimits,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) members: MemberSet,
    /// Members at which a read waits for too long.
    pub(crate) stalled: MemberSet,
    /// Reads that went, or could have gone, around one.
    pub(crate) reads: u32,
    /// Columns that compute what a slow member holds.
    pub(crate) around: u32,
}

impl Slow {
    pub(crate) fn new(limits: FaultLimits, members: u8) -> Self {
        Self {
            limits,
            latencies: vec![Latency::default(); usize::from(members)],
            members: MemberSet::EMPTY,
            stalled: MemberSet::EMPTY,
            reads: 0,
            around: 0,
        }
    }

    /// How long a read of the member takes of late, in nanoseconds; 0 where that is not known.
    pub(crate) fn average_ns(&self, member: MemberIndex) -> u64 {
        self.latencies[usize::from(member.0)].average_ns
    }

    /// Members that are read around.
    #[inline]
    pub(crate) fn avoided(&self) -> MemberSet {
        self.members.union(self.stalled)
    }

    /// Reads of all members that came back.
    pub(crate) fn reads_of_all(&self) -> u64 {
        self.latencies.iter().map(|it| u64::from(it.reads)).sum()
    }

    /// Another read of `member` came back. Whether to time it.
    #[inline]
    pub(crate) fn is_timed(&mut self, member: MemberIndex) -> bool {
        let reads = &mut self.latencies[usize::from(member.0)].reads;
        *reads = reads.wrapping_add(1);
        reads.is_multiple_of(TIME_EVERY) || *reads <= TIME_FIRST || !self.avoided().is_empty()
    }

    /// The average of the member in the middle, of those besides `member` that were read enough.
    pub(crate) fn median_ns(&self, member: MemberIndex, missing: MemberSet) -> Option<u64> {
        let mut averages = [0; MEMBERS_MAX as usize];
        let mut count = 0;
        for (peer, latency) in (0..).map(MemberIndex).zip(&self.latencies) {
            if peer != member && !missing.contains(peer) && latency.reads >= LOOK_EVERY {
                averages[count] = latency.average_ns;
                count += 1;
            }
        }
        let averages = &mut averages[..count];
        averages.sort_unstable();
        averages.get(count / 2).copied()
    }
}
