//! The driver of one engine over contents that are numbers. Every operation on a member waits until
//! the caller completes it; computations complete at once.

use super::media::{Media, Write};
use super::scenario::atoms;
use super::store::{Content, POISON, Store, ZEROS, mix};
use crate::planted::Planted;
use spindles_block::{
    BlockIndex, BufferId, BufferSlice, Compute, Instant, MemberError, MemberIndex, MemberIo,
    MemberSet, Operation, Piece, Reply, Request,
};
use spindles_engine::{Command, Config, Engine, Event, JOURNAL_DEVICE, OpenError, Output};
use spindles_format::{DeviceRecord, Uuid};
use spindles_layout::Geometry;
use std::collections::VecDeque;
use std::rc::Rc;

pub(super) const SCRATCH: BufferId = BufferId(0);
pub(super) const METADATA: BufferId = BufferId(1);
/// The buffer of the first request.
const FIRST_REQUEST: u32 = 2;
/// An array that is not idle after this many operations never will be.
pub(super) const STEPS_MAX: u32 = 20_000;

/// An operation on a member that is not complete yet.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) io: MemberIo,
    /// The data of a write.
    pub(super) write: Option<Write>,
    /// The memory of a write.
    pieces: Vec<Piece>,
    covered: u32,
}

/// An engine, its disks and its buffers.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    engine: Engine,
    pub(super) media: Media,
    /// In the order in which they were submitted.
    pub(super) flights: VecDeque<Flight>,
    pub(super) gone: MemberSet,
    /// Set if the journal device of the array does not answer, or is missing.
    pub(super) journal_is_gone: bool,
    /// Set if the array was opened after a crash without the log on that device.
    pub(super) log_is_lost: bool,
    /// The number of the journal device: after all members.
    journal_disk: u8,
    /// Members being rebuilt, until their completion is durable.
    pub(super) filling: MemberSet,
    pub(super) replies: Vec<Reply>,
    /// The engine's answer to a close: whether the array is clean.
    pub(super) closed: Option<bool>,
    buffers: Vec<Content>,
    scratch_blocks: u32,
    request_blocks: u32,
    now: Instant,
    planted: Planted,
}

impl Machine {
    /// Opens an engine on these disks, of which `filling` are being rebuilt. Allocates `requests`
    /// buffers of as many blocks as the array has.
    pub(super) fn open(
        store: &mut Store,
        geometry: &Geometry,
        media: Media,
        config: Config,
        requests: u32,
        filling: MemberSet,
        planted: Planted,
    ) -> Result<Self, OpenError> {
        let engine = Engine::open(Instant(0), config)?;
        let scratch_blocks = engine.scratch_blocks();
        let request_blocks = u32::try_from(geometry.blocks()).expect("small");
        let blocks = scratch_blocks + requests * request_blocks;
        let mut machine = Self {
            engine,
            media,
            flights: VecDeque::new(),
            gone: MemberSet::EMPTY,
            journal_is_gone: false,
            log_is_lost: false,
            journal_disk: geometry.members(),
            filling,
            replies: Vec::new(),
            closed: None,
            buffers: vec![POISON; usize::from(atoms(u64::from(blocks)))],
            scratch_blocks,
            request_blocks,
            now: Instant(0),
            planted,
        };
        machine.carry_out(store);
        Ok(machine)
    }

    fn place(&self, slice: BufferSlice, blocks: u32) -> std::ops::Range<usize> {
        let (first, end) = match slice.buffer {
            SCRATCH => (0, self.scratch_blocks),
            BufferId(number) => {
                let before = (number - FIRST_REQUEST) * self.request_blocks;
                let first = self.scratch_blocks + before;
                (first, first + self.request_blocks)
            }
        };
        let start = first + slice.first_block;
        assert!(
            start + blocks <= end,
            "beyond the end of a buffer: {slice:?}"
        );
        usize::from(atoms(u64::from(start)))..usize::from(atoms(u64::from(start + blocks)))
    }

    /// Returns the buffer of request `number`.
    pub(super) fn buffer(&self, number: u32, blocks: u32) -> &[Content] {
        let slice = request_buffer(number);
        &self.buffers[self.place(slice, blocks)]
    }

    /// Submits a request, with these atoms in its buffer. Returns false if the engine was busy.
    pub(super) fn ask(
        &mut self,
        store: &mut Store,
        number: u32,
        operation: Operation,
        blocks: std::ops::Range<u64>,
        atoms: &[Content],
    ) -> bool {
        let count = u32::try_from(blocks.end - blocks.start).expect("small");
        let carries_data = matches!(operation, Operation::Read | Operation::Write { .. });
        if carries_data {
            let place = self.place(request_buffer(number), count);
            match atoms {
                [] => self.buffers[place].fill(POISON),
                atoms => self.buffers[place].copy_from_slice(atoms),
            }
        }
        let request = Request {
            token: u64::from(number),
            operation,
            block: BlockIndex(blocks.start),
            blocks: count,
            buffer: if carries_data {
                request_buffer(number)
            } else {
                BufferSlice::NONE
            },
        };
        let taken = self.engine.submit(self.now, request).is_ok();
        self.carry_out(store);
        taken
    }

    pub(super) fn close(&mut self, store: &mut Store) {
        let taken = self.engine.command(self.now, Command::Close);
        taken.expect("an array can always be closed");
        self.carry_out(store);
    }

    /// Returns the disk of a member or of the journal device.
    fn disk(&self, member: MemberIndex) -> u8 {
        if member == JOURNAL_DEVICE {
            self.journal_disk
        } else {
            member.0
        }
    }

    /// Returns true if the disk does not answer.
    fn is_gone(&self, member: MemberIndex) -> bool {
        if member == JOURNAL_DEVICE {
            self.journal_is_gone
        } else {
            self.gone.contains(member)
        }
    }

    /// Makes these members stop answering. Writes in flight on them go to their caches, so that
    /// each may land or not.
    pub(super) fn drop(&mut self, members: MemberSet) {
        self.gone = self.gone.union(members);
        self.land_what_is_gone();
    }

    /// Makes the journal device stop answering.
    pub(super) fn drop_journal(&mut self) {
        self.journal_is_gone = true;
        self.land_what_is_gone();
    }

    fn land_what_is_gone(&mut self) {
        for at in 0..self.flights.len() {
            if self.is_gone(self.flights[at].io.member)
                && let Some(write) = self.flights[at].write.take()
            {
                self.media.write(&write, false);
            }
        }
    }

    /// Puts a blank device in the place of a missing member and starts its rebuild.
    pub(super) fn rebuild(&mut self, store: &mut Store, member: MemberIndex, like: &DeviceRecord) {
        let block_atoms = atoms(1);
        let data = u16::try_from(like.data_start().0).expect("small") * block_atoms;
        self.media.replace(member.0, data);
        let only = MemberSet::EMPTY.with(member);
        self.gone = self.gone.difference(only);
        self.filling = self.filling.union(only);
        let command = Command::Rebuild {
            member,
            device: Box::new(*like),
            uuid: Uuid([0xb1; 16]),
        };
        let taken = self.engine.command(self.now, command);
        taken.expect("the member is missing");
        self.carry_out(store);
    }

    /// Returns the members whose contents do not count.
    pub(super) fn lost(&self) -> MemberSet {
        self.gone.union(self.filling)
    }

    /// Completes an operation on a member. Returns an error if its buffer changed since it was
    /// submitted.
    pub(super) fn complete(&mut self, store: &mut Store, flight: usize) -> Result<(), String> {
        let Flight {
            io,
            write,
            pieces,
            covered,
        } = self.flights.remove(flight).expect("it is in flight");
        let disk = self.disk(io.member);
        let mut result = Ok(());
        if self.is_gone(io.member) {
            result = Err(MemberError::Gone);
        } else {
            match io.operation {
                Operation::Read => self.read(store, &io),
                Operation::Flush => self.media.flush_ends(disk, covered),
                Operation::Write { fua } | Operation::WriteZeroes { fua } => {
                    self.media.write(write.as_ref().expect("it writes"), fua);
                }
                Operation::Discard => self.media.write(write.as_ref().expect("it writes"), false),
            }
        }
        if let (Operation::Write { .. }, Some(write)) = (io.operation, &write) {
            let mut at = 0;
            let same = pieces.iter().all(|piece| {
                let begin = at;
                at += usize::from(atoms(u64::from(piece.blocks)));
                match piece.buffer.buffer {
                    METADATA | BufferId::ZEROS => true, // Copied when it was sent.
                    _ => {
                        let place = self.place(piece.buffer, piece.blocks);
                        self.buffers[place] == write.atoms[begin..at]
                    }
                }
            });
            if !same {
                return Err(format!("the buffer changed while member {disk} wrote it"));
            }
        }
        self.engine.complete_member(self.now, io.id, result);
        self.carry_out(store);
        Ok(())
    }

    fn read(&mut self, store: &Store, io: &MemberIo) {
        let first = atoms(io.block.0);
        let mut out = vec![ZEROS; usize::from(atoms(u64::from(io.blocks)))];
        self.media.read(self.disk(io.member), first, &mut out);
        if let Some(read) = self.engine.metadata_read(io.id) {
            store.fill(&out, read.bytes);
        } else {
            let place = self.place(io.buffer, io.blocks);
            self.buffers[place].copy_from_slice(&out);
        }
    }

    /// Returns the data of a write, whose memory is `pieces`.
    fn carried(&self, store: &mut Store, io: &MemberIo, pieces: &[Piece]) -> Rc<[Content]> {
        let mut all = Vec::new();
        for &Piece { buffer, blocks } in pieces {
            match (io.operation, buffer.buffer) {
                (Operation::Write { .. }, METADATA) => {
                    let bytes = self.engine.metadata_of(buffer, blocks);
                    all.extend_from_slice(&store.atoms(bytes));
                }
                (Operation::Write { .. }, id) if id != BufferId::ZEROS => {
                    all.extend_from_slice(&self.buffers[self.place(buffer, blocks)]);
                }
                _ => {
                    let atoms = usize::from(atoms(u64::from(blocks)));
                    all.extend(std::iter::repeat_n(ZEROS, atoms));
                }
            }
        }
        all.into()
    }

    /// Carries out the engine's outputs: begins operations on members, and computes.
    fn carry_out(&mut self, store: &mut Store) {
        let mut steps = VecDeque::new();
        let mut answers = VecDeque::new();
        loop {
            while let Some(output) = self.engine.poll_output() {
                match output {
                    Output::Member(io) => {
                        let id = io.id;
                        let sent = self.planted.pass(&self.engine, self.filling, io);
                        let Some(io) = sent else {
                            answers.push_back(id);
                            continue;
                        };
                        let pieces: Vec<Piece> = self.engine.pieces(&io).collect();
                        let write = io.operation.is_write().then(|| Write {
                            disk: self.disk(io.member),
                            first: atoms(io.block.0),
                            atoms: self.carried(store, &io, &pieces),
                        });
                        let covered = self.media.flush_begins();
                        self.flights.push_back(Flight {
                            io,
                            write,
                            pieces,
                            covered,
                        });
                    }
                    Output::Compute(step) => steps.push_back(step),
                    Output::Reply(reply) => self.replies.push(reply),
                    Output::Event(Event::Closed { clean }) => self.closed = Some(clean),
                    Output::Event(Event::RebuildDone { member }) => {
                        let only = MemberSet::EMPTY.with(member);
                        self.filling = self.filling.difference(only);
                    }
                    Output::Event(_) | Output::Swap(_) => {}
                }
            }
            if let Some(id) = answers.pop_front() {
                self.engine.complete_member(self.now, id, Ok(()));
                continue;
            }
            let Some(id) = steps.pop_front() else {
                return;
            };
            let step = self.engine.step(id);
            let places: Vec<_> = (step.targets.iter())
                .map(|target| self.place(target.slice, step.blocks))
                .collect();
            let zeros = [ZEROS; 64];
            let compute = step.compute;
            let came = store.compute(&step, |slice| match slice.buffer {
                BufferId::ZEROS => &zeros[..usize::from(atoms(u64::from(step.blocks)))],
                _ => &self.buffers[self.place(slice, step.blocks)],
            });
            for (place, atoms) in places.into_iter().zip(came.targets) {
                self.buffers[place].copy_from_slice(&atoms);
            }
            if compute == Compute::Checksum {
                let checksums = self.engine.checksums_mut(id);
                checksums.copy_from_slice(&came.checksums);
            }
            self.engine.complete_compute(self.now, id, came.result);
        }
    }

    /// Advances time until the engine's timer expires. Returns false if none is set.
    pub(super) fn wake(&mut self, store: &mut Store) -> bool {
        let Some(at) = self.engine.poll_timeout() else {
            return false;
        };
        self.now = self.now.max(at);
        self.engine.handle_timeout(self.now);
        self.carry_out(store);
        true
    }

    /// Completes all work, in order of submission; `before` is called before each step. Returns an
    /// error if the work does not end.
    pub(super) fn settle(
        &mut self,
        store: &mut Store,
        mut before: impl FnMut(&mut Store, &mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        for _ in 0..STEPS_MAX {
            before(store, self)?;
            if self.flights.is_empty() {
                if !self.wake(store) {
                    return Ok(());
                }
            } else {
                self.complete(store, 0)?;
            }
        }
        Err("it does not end".to_owned())
    }

    /// Returns a hash of the visible state: the disks, and the operations in flight.
    pub(super) fn hash(&self) -> u64 {
        // The order of flights depends on the order of completions: hash them as a set.
        let flights = self.flights.iter().map(|flight| {
            let io = &flight.io;
            let kind = match io.operation {
                Operation::Read => 1,
                Operation::Flush => 2,
                Operation::Write { fua } => 3 + u64::from(fua),
                Operation::Discard => 5,
                Operation::WriteZeroes { fua } => 6 + u64::from(fua),
            };
            let covered = self.media.covered_by(self.disk(io.member), flight.covered);
            let place = u64::from(io.member.0) << 40 | io.block.0 << 20 | u64::from(io.blocks);
            let what = flight.write.as_ref().map_or(covered, Write::hash);
            mix(mix(kind, what), place)
        });
        let flights = flights.fold(0, u64::wrapping_add);
        let journal = u64::from(self.journal_is_gone) << 63;
        let lost = journal | self.gone.bits() << 32 | self.filling.bits();
        mix(mix(self.media.hash(), flights), lost)
    }
}

fn request_buffer(number: u32) -> BufferSlice {
    BufferSlice {
        buffer: BufferId(FIRST_REQUEST + number),
        first_block: 0,
    }
}
