//! The device that is to replace a member, and how far it has come.

use crate::{bits::Bits, faults::MemberFaults, regions::Regions};
use spindles_block::{MemberIndex, MemberSet};
use spindles_format::{DeviceRecord, Uuid};

/// See the drawing above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Idle,
    Waiting,
    Copying,
    Draining,
    Flushing,
    Telling,
    Recording,
}

/// The device that is to replace a member; from `Telling` on, the one that it replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacementDevice {
    pub(crate) member: MemberIndex,
    pub(crate) device: DeviceRecord,
    pub(crate) uuid: Uuid,
}

/// What the engine keeps about the replacement of a member, besides the walk.
#[derive(Clone, Debug)]
pub(crate) struct Replace {
    pub(crate) stage: Stage,
    pub(crate) replacement: Option<ReplacementDevice>,
    /// Regions that the walk is to copy.
    pub(crate) todo: Bits,
    /// Regions that were written for the first time since the walk began.
    pub(crate) fresh: Bits,
    /// Flushes that are not back.
    pub(crate) flushes: u32,
    /// What went wrong on the device that was replaced last.
    pub(crate) faults: MemberFaults,
}

impl Replace {
    pub(crate) fn new(regions: u64) -> Self {
        Self {
            stage: Stage::Idle,
            replacement: None,
            todo: Bits::new(regions, false),
            fresh: Bits::new(regions, false),
            flushes: 0,
            faults: MemberFaults::default(),
        }
    }

    /// Whether nothing of it is under way that must end first.
    pub(crate) fn is_quiet(&self) -> bool {
        self.flushes == 0
    }

    /// Whether nothing new may be begun because of it.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Copying)
    }

    /// Whether what is written to the member goes to the replacement device too.
    #[inline]
    pub(crate) fn copies(&self) -> bool {
        matches!(self.stage, Stage::Copying | Stage::Draining)
    }

    /// Whether the replacement device is there and nobody was told of it.
    pub(crate) fn is_secret(&self) -> bool {
        self.copies() || self.stage == Stage::Flushing
    }

    /// Whether the replacement device's own superblock is being written, before all others.
    pub(crate) fn is_telling(&self) -> bool {
        self.stage == Stage::Telling
    }

    /// Whether the two devices have changed places, and not all know it durably.
    pub(crate) fn has_exchanged(&self) -> bool {
        matches!(self.stage, Stage::Telling | Stage::Recording)
    }

    /// Members whose superblocks are to be written, of those that are there.
    pub(crate) fn told_now(&self, there: MemberSet) -> MemberSet {
        match (self.stage, self.replacement) {
            (Stage::Telling, Some(replacement)) => MemberSet::EMPTY.with(replacement.member),
            _ => there,
        }
    }

    /// The members hold what the array holds in this region, from now on.
    pub(crate) fn first_written(&mut self, region: u64) {
        if self.copies() {
            self.fresh.set(region);
        }
    }

    pub(crate) fn everything(regions: &Regions, bits: &mut Bits) {
        if regions.all_written {
            bits.words_mut().fill(u64::MAX);
            bits.trim();
        } else {
            bits.words_mut()
                .copy_from_slice(regions.written.bits.words());
        }
    }
}
