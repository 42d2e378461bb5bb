//! The stage of an open array: its life, and the order of its work. `stage/` says which blocks go
//! where; here they are copied, written, placed and released. The rules are in
//! `docs/adr/0017-a-stage-in-front.md`.
//!
//! ```text
//! write   taken ─▶ copied to memory ─▶ in a batch on the holders ─▶ answered: covers its blocks
//! block   covered ─▶ placed by an ordinary write ─▶ released: flushed, then a tail on all holders
//! ```

mod batches;
mod loading;
mod placing;
mod releasing;
mod taking;

use crate::{
    Engine, Mutation,
    agenda::Due,
    engine::Closing,
    staging::{Life, Staging, Tail},
    system_io::Purpose,
};
use spindles_block::{BlockIndex, Instant, MemberIndex, MemberResult, Operation};
use spindles_format::{StageDescriptor, StageLayout};
pub(crate) use taking::Turn;

impl Engine {
    /// Returns the stage; panics if the array has none.
    pub(crate) fn staging(&mut self) -> &mut Staging {
        self.staging.as_mut().expect("the array has a stage")
    }

    /// Returns when the stage wants to be looked at.
    pub(crate) fn stage_wake(&self) -> Option<Instant> {
        let works = !self.settings.read_only && self.closing != Closing::Closed;
        let staging = self.staging.as_ref().filter(|_| works)?;
        staging.wake(self.now, self.requests.all_free())
    }

    /// Returns true if a stage may begin to take writes, or continue to: no device is being filled
    /// or about to join, and the array is neither closing nor growing (rule 7).
    fn may_stage(&self) -> bool {
        self.members.being_filled().is_empty()
            && self.closing == Closing::Open
            && !self.replace.copies()
            && !self.holds_back()
            && !self.is_growing()
            && !self.writes_nothing()
    }

    // ---- life ---------------------------------------------------------------------------------

    /// Goes on to the next part of the stage's life, if that is due.
    pub(crate) fn live_stage(&mut self) -> bool {
        let may_stage = self.may_stage();
        let (recorded, busy) = (self.metadata.is_recorded(), self.metadata.busy());
        let is_staged = self.metadata.is_staged_durable();
        let is_hidden = self.mutated(Mutation::StageUnrecorded);
        let staging = self.staging();
        match staging.life {
            Life::Off if staging.is_wanted && staging.is_on && may_stage && recorded => {
                self.describe_stage();
            }
            Life::Recording if (is_staged || is_hidden) && !busy => staging.life = Life::On,
            Life::On if !may_stage => staging.life = Life::Draining,
            Life::Draining if staging.is_empty() => {
                staging.life = Life::Clearing;
                self.record_stage(false);
            }
            Life::Clearing if !is_staged && !busy => {
                staging.life = Life::Off;
                staging.is_wanted = false;
                self.agenda.add(Due::Serve);
            }
            _ => return false,
        }
        true
    }

    /// Begins a life: writes the descriptors, with a nonce of their own, to all holders.
    fn describe_stage(&mut self) {
        let persistence = self.metadata.persistence().expect("it has superblocks");
        let (array, generation) = (persistence.array.uuid, persistence.array.generation);
        let stage_bytes = persistence.array.shared.stage_bytes;
        // Each life within an opening has its own generation.
        let nonce = persistence.nonce ^ generation.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let holders = self.holders();
        let staging = self.staging();
        staging.life = Life::Describing;
        staging.describing = holders.count();
        staging.describes_again = false;
        staging.stage.restart(nonce);
        let (place, blocks) = (staging.descriptors, staging.header_blocks());
        for holder in holders.iter() {
            let descriptor = StageDescriptor {
                array,
                nonce,
                generation,
                holder,
                stage_bytes,
            };
            let bytes = self.metadata_buffer.bytes_mut(place, holder.0);
            bytes.copy_from_slice(&descriptor.encode());
            self.system_io(
                Purpose::StageDescriptor,
                holder,
                Operation::Write { fua: true },
                self.stage_block(holder, 0),
                blocks,
                self.metadata_buffer.slice(place, holder.0),
            );
        }
    }

    /// Handles the result of a write of a descriptor.
    pub(crate) fn stage_described(&mut self, holder: MemberIndex, result: MemberResult) {
        self.stage_io_failed(holder, result);
        let staging = self.staging();
        staging.describing -= 1;
        staging.describes_again |= result.is_err();
        if staging.describing > 0 {
            return;
        }
        if staging.describes_again {
            staging.stage.recorded();
            staging.life = Life::Off;
        } else {
            staging.life = Life::Tailing;
            staging.tail = Tail::Due;
        }
    }

    /// Asks for superblocks that say whether there may be records.
    pub(super) fn record_stage(&mut self, staged: bool) {
        let is_hidden = self.mutated(Mutation::StageUnrecorded);
        if let Some(persistence) = self.metadata.persistence_mut() {
            persistence.array.staged = staged && !is_hidden;
        }
        self.want_update();
    }

    /// Returns the block of a holder's device at a place of the stage.
    fn stage_block(&self, holder: MemberIndex, place: u32) -> BlockIndex {
        let persistence = self.metadata.persistence().expect("it has superblocks");
        let device = persistence.devices[usize::from(holder.0)].as_ref();
        let device = device.expect("a present member has a record");
        let (shared, size) = (&persistence.array.shared, self.settings.block_size);
        let start = StageLayout::start(device, shared, size);
        start.expect("it has a journal area").plus(place.into())
    }
}
