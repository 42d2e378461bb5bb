//! State of the replacement of a member.

use crate::{
    RangeId, bits::Bits, faults::MemberFaults, regions::Regions, slots::SlotSet, stripe::Ranges,
};
use spindles_block::{MemberIndex, MemberSet};
use spindles_format::{DeviceRecord, Uuid};

/// The stages of a replacement: see the drawing in `engine/jobs/replace.rs`.
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

/// The device that is to replace a member. From `Telling` on, the old device that it replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplacementDevice {
    pub(crate) member: MemberIndex,
    pub(crate) device: DeviceRecord,
    pub(crate) uuid: Uuid,
}

/// The engine's state of a replacement, apart from the walk.
#[derive(Clone, Debug)]
pub(crate) struct Replace {
    pub(crate) stage: Stage,
    pub(crate) replacement: Option<ReplacementDevice>,
    /// Regions that the walk has to copy.
    pub(crate) todo: Bits,
    /// Regions written for the first time since the walk began.
    pub(crate) fresh: Bits,
    /// Errors of the device that was replaced last.
    pub(crate) faults: MemberFaults,
}

impl Replace {
    pub(crate) fn new(regions: u64) -> Self {
        Self {
            stage: Stage::Idle,
            replacement: None,
            todo: Bits::new(regions, false),
            fresh: Bits::new(regions, false),
            faults: MemberFaults::default(),
        }
    }

    /// Returns true if a replacement keeps new work from starting.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Copying)
    }

    /// Returns true if writes to the member go to the replacement device too.
    #[inline]
    pub(crate) fn copies(&self) -> bool {
        matches!(self.stage, Stage::Copying | Stage::Draining)
    }

    /// Returns true if the replacement device is in use, but no superblock mentions it yet.
    pub(crate) fn is_secret(&self) -> bool {
        self.copies() || self.stage == Stage::Flushing
    }

    /// Returns true while the replacement device's own superblock is written, before all others.
    pub(crate) fn is_telling(&self) -> bool {
        self.stage == Stage::Telling
    }

    /// Returns true if the two devices have changed places, and not all superblocks say so yet.
    pub(crate) fn has_exchanged(&self) -> bool {
        matches!(self.stage, Stage::Telling | Stage::Recording)
    }

    /// Returns the members, out of `there`, whose superblocks are written now.
    pub(crate) fn told_now(&self, there: MemberSet) -> MemberSet {
        match (self.stage, self.replacement) {
            (Stage::Telling, Some(replacement)) => MemberSet::EMPTY.with(replacement.member),
            _ => there,
        }
    }

    /// Notes the first write to this region.
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

    /// Lets a device take the position of a live member.
    pub(crate) fn begin(&mut self, member: MemberIndex, device: &DeviceRecord, uuid: Uuid) {
        self.stage = Stage::Waiting;
        self.replacement = Some(ReplacementDevice {
            member,
            device: *device,
            uuid,
        });
    }

    pub(crate) fn device(&self) -> &DeviceRecord {
        &self.replacement.as_ref().expect("there is one").device
    }

    /// Returns the replacement device, if the bitmaps are written to it too.
    pub(crate) fn device_of_bitmaps(&self) -> Option<&DeviceRecord> {
        self.is_secret().then(|| self.device())
    }

    /// Returns the slot of a stripe range whose member is being replaced.
    #[inline]
    pub(crate) fn slots(&self, ranges: &Ranges, id: RangeId) -> SlotSet {
        if !self.copies() {
            return SlotSet::EMPTY;
        }
        let member = self
            .replacement
            .as_ref()
            .expect("one is replacement")
            .member;
        ranges.slots_of(id, MemberSet::EMPTY.with(member))
    }
}
