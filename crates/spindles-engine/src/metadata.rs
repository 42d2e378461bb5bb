//! The superblocks: when they are written, and what waits for them.
//!
//! One update is under way at a time; wishes that come meanwhile share the next. An update is one
//! FUA write to every active member, each to the slot of its generation, so that the other slot
//! keeps the generation before.

use crate::{
    Engine, SYSTEM_IO, index,
    member::Member,
    output::{OutReason, Output},
};
use alloc::{vec, vec::Vec};
use spindles_block::{
    BufferSlice, MemberIndex, MemberIo, MemberIoId, MemberResult, MemberSet, Operation,
};
use spindles_format::{MemberState, SUPERBLOCK_BYTES};

use crate::config::Persistence;

/// What the engine keeps about its superblocks.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is and what is durable are told apart"
)]
pub(crate) struct Metadata {
    pub(crate) persistence: Option<Persistence>,
    pub(crate) bytes: Vec<u8>,
    /// Whether the array, as it is in memory, must be resynchronised after a crash.
    pub(crate) dirty: bool,
    /// Whether it is durable that the array is dirty.
    pub(crate) dirty_durable: bool,
    /// Whether something changed that no update has taken up.
    wanted: bool,
    /// Superblock writes under way.
    pending: u32,
    /// Whether an update could not be made durable: nothing more may be acknowledged.
    pub(crate) broken: bool,
}

impl Metadata {
    pub(crate) fn new(persistence: Option<Persistence>, members: u8, dirty: bool) -> Self {
        let bytes = match persistence {
            Some(_) => vec![0; usize::from(members) * SUPERBLOCK_BYTES],
            None => Vec::new(),
        };
        Self {
            persistence,
            bytes,
            dirty,
            dirty_durable: dirty,
            wanted: false,
            pending: 0,
            broken: false,
        }
    }

    /// Whether something that must be durable before a write is acknowledged is not yet.
    pub(crate) fn busy(&self) -> bool {
        self.pending > 0 || self.wanted
    }

    pub(crate) fn generation(&self) -> u64 {
        self.persistence
            .as_ref()
            .map_or(0, |persistence| persistence.array.generation)
    }
}

impl Engine {
    /// Whether a write may go to its place: it is durable that the array is dirty.
    pub(crate) fn may_commit(&mut self) -> bool {
        if self.metadata.dirty_durable || !self.marks_dirty() {
            return true;
        }
        if !self.metadata.dirty {
            self.metadata.dirty = true;
            self.want_update();
        }
        self.metadata.broken // Then nothing is written, and that is answered.
    }

    /// Whether the array must be marked dirty before it is written.
    fn marks_dirty(&self) -> bool {
        self.metadata.persistence.is_some()
            && self.policy.resync_after_crash
            && self.geometry.redundancy() > 0
            && !self.mutated(crate::Mutation::SkipDirtyMark)
    }

    /// Something changed that the superblocks must say.
    pub(crate) fn want_update(&mut self) {
        if self.metadata.persistence.is_none() || self.read_only {
            return;
        }
        self.metadata.wanted = true;
        self.begin_update();
    }

    fn begin_update(&mut self) {
        if self.metadata.pending > 0 || !self.metadata.wanted {
            return;
        }
        self.metadata.wanted = false;
        if !self.geometry.survives(self.missing) {
            // A failed array stays as the superblocks have it: its members may come back.
            self.metadata.broken = true;
            return;
        }
        let Some(Persistence { array, devices }) = self.metadata.persistence.as_mut() else {
            return;
        };
        array.generation += 1;
        array.clean = !self.metadata.dirty;
        let mut active = MemberSet::EMPTY;
        for (member, record) in self.members.iter().zip(&mut array.member) {
            match (member.state, record.state) {
                (Member::Missing { .. }, MemberState::Active) => {
                    record.state = MemberState::Missing {
                        out_since: array.generation,
                    };
                }
                (Member::Missing { .. }, MemberState::Missing { .. })
                | (Member::Active, MemberState::Active) => {}
                (Member::Active, MemberState::Missing { .. }) => {
                    panic!("an active member is missing in the record")
                }
            }
            if member.state == Member::Active {
                active = active.with(member.index);
            }
        }
        let blocks = u32::try_from(SUPERBLOCK_BYTES).expect("small") / self.block_size.bytes();
        for member in active.iter() {
            let at = usize::from(member.0);
            let device = devices[at]
                .as_ref()
                .expect("an active member has a device record");
            let bytes = &mut self.metadata.bytes[at * SUPERBLOCK_BYTES..][..SUPERBLOCK_BYTES];
            spindles_format::encode(array, device, bytes);
            let io = MemberIo {
                id: MemberIoId(SYSTEM_IO | u32::from(member.0)),
                member,
                operation: Operation::Write { fua: true },
                block: device.slot_block(array.generation),
                blocks,
                buffer: BufferSlice {
                    buffer: self.metadata_buffer,
                    first_block: u32::from(member.0) * blocks,
                },
            };
            self.outputs.push_back(Output::Member(io));
            self.metadata.pending += 1;
        }
        assert!(
            self.metadata.pending > 0,
            "an array without active members is not written"
        );
    }

    /// A superblock write came back.
    pub(crate) fn superblock_written(&mut self, member: MemberIndex, result: MemberResult) {
        assert!(
            self.metadata.pending > 0,
            "a superblock write came back twice"
        );
        self.metadata.pending -= 1;
        if let Err(error) = result
            && !self.put_out(member, OutReason::Error(error))
        {
            self.metadata.broken = true;
        }
        if self.metadata.pending > 0 {
            return;
        }
        self.begin_update();
        if self.metadata.pending > 0 {
            return;
        }
        if !self.metadata.broken {
            self.metadata.dirty_durable = self.metadata.dirty;
        }
        self.serving = self.opening_is_flushed();
        self.ready.append(&mut self.gated);
        self.update_done_while_closing();
    }

    /// The bytes of `MemberIo`s whose buffer is `Config::metadata`: block `first_block` of that
    /// buffer is here.
    pub fn metadata(&self) -> &[u8] {
        &self.metadata.bytes
    }

    /// Where the bytes of one superblock write are in `metadata`.
    pub fn metadata_of(&self, io: &MemberIo) -> &[u8] {
        let block_bytes = index(self.block_size.bytes());
        &self.metadata.bytes[index(io.buffer.first_block) * block_bytes..]
            [..index(io.blocks) * block_bytes]
    }
}
