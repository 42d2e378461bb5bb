//! Releasing: batches whose blocks are placed, from the first on.

use crate::{
    Engine, Mutation,
    staging::{FILL_TO_RELEASE, IDLE_NS, Life, Tail, count_of},
    system_io::Purpose,
};
use spindles_block::{MemberIndex, MemberResult, Operation};

impl Engine {
    /// Goes on with the release under way, or begins one. Returns true if anything did.
    pub(crate) fn release_staged(&mut self) -> bool {
        let unrecorded = self.metadata.may_count_on(self.members.missing()) || self.metadata.busy();
        let staging = self.staging.as_ref().expect("the array has a stage");
        match staging.tail {
            Tail::Resting => return self.begin_to_release(),
            Tail::Flushed if !unrecorded => {
                let staging = self.staging();
                let records = staging.stage.release_flushed(true);
                staging.tail = if records { Tail::Due } else { Tail::Resting };
            }
            Tail::Due if !unrecorded => self.write_tail(),
            Tail::Durable if staging.reads[usize::from(staging.epoch ^ 1)] == 0 => {
                let staging = self.staging();
                staging.stage.recorded();
                staging.tail = Tail::Resting;
                if staging.stage.is_empty() {
                    staging.choice.emptied();
                }
                if staging.life == Life::Tailing {
                    staging.life = Life::Recording;
                    self.record_stage(true);
                }
            }
            _ => return false,
        }
        true
    }

    fn begin_to_release(&mut self) -> bool {
        let staging = self.staging.as_ref().expect("the array has a stage");
        let all = match staging.life {
            Life::Draining => true,
            Life::On => {
                let is_idle = self.requests.all_free()
                    && self.now.ns_since(staging.asked) >= IDLE_NS
                    || staging.is_awaited;
                is_idle || staging.stage.fill() >= FILL_TO_RELEASE
            }
            _ => return false,
        };
        // What is being placed can go with the rest soon, unless a request waits for room.
        let all = all && (staging.placing == 0 || staging.is_awaited);
        if self.staging().stage.begin_release(all).is_none() {
            return false;
        }
        if self.mutated(Mutation::ReleaseUnplaced) {
            self.staging().release_flushed();
            return true;
        }
        // Places and their entries, and all holders with them (rule 5).
        self.flush_active(Purpose::StageRelease);
        true
    }

    /// Writes the tail on all holders.
    pub(super) fn write_tail(&mut self) {
        let holders = self.holders();
        let staging = self.staging.as_mut().expect("the array has a stage");
        staging.tail = Tail::Writing { failed: false };
        staging.tailing = holders.count();
        let (place, blocks) = (staging.tail_header, staging.header_blocks());
        let header = self.metadata_buffer.bytes_mut(place, 0);
        let columns = &mut staging.columns[..count_of(holders)];
        staging.stage.tail_header(holders, columns, header);
        for (at, holder) in holders.iter().enumerate() {
            let column = self.staging().columns[at];
            self.system_io(
                Purpose::StageTail,
                holder,
                Operation::Write { fua: true },
                self.stage_block(holder, column.place),
                blocks,
                self.metadata_buffer.slice(place, 0),
            );
        }
    }

    /// Handles the result of a write of a tail. While the stage is loaded, the last result returns
    /// true if all holders have the tail.
    pub(crate) fn tail_written(
        &mut self,
        holder: MemberIndex,
        result: MemberResult,
    ) -> Option<bool> {
        self.stage_io_failed(holder, result);
        let staging = self.staging();
        staging.tailing -= 1;
        if let Tail::Writing { failed } = &mut staging.tail {
            *failed |= result.is_err();
        }
        if staging.tailing > 0 {
            return None;
        }
        let fails = staging.tail == (Tail::Writing { failed: true });
        if staging.life == Life::Loading {
            return Some(!fails);
        }
        if fails {
            staging.tail = Tail::Due; // On the others, when the loss is durable.
            return None;
        }
        staging.tail = Tail::Durable;
        // From here on reads see places. Those that began before still copy from memory.
        staging.stage.uncover();
        staging.epoch ^= 1;
        None
    }
}
