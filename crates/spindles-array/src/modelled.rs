//! What is special about modelled devices: their clock, and the bytes that they store.

use crate::device_io::DeviceIo;
use spindles_block::{BufferId, Instant, MemberResult, Operation, Piece};
use spindles_device::Clock;
use spindles_device::backends::Medium;
use spindles_device::buffers::Buffers;
use spindles_device::modelled::{Disk, Port, Stored};
use spindles_device::queues::Wait;
use spindles_device::transfer::Tag;
use spindles_model::Work;

/// The way to the modelled devices of a target, if it has any: then all are.
#[derive(Debug, Default)]
pub(crate) struct ModelledDevices {
    port: Option<Port>,
    /// The buffers of metadata. Modelled devices store the writes from these buffers.
    metadata: Vec<BufferId>,
}

impl ModelledDevices {
    /// Returns false if a device can't join those so far: some are real, or stand in another room.
    /// Opens the way to the first modelled one.
    pub(crate) fn may_add(&mut self, medium: &Medium, is_first: bool) -> bool {
        match (medium, &self.port) {
            (Medium::Modelled(disk), None) if is_first => {
                self.port = Some(disk.port());
                true
            }
            (Medium::Modelled(disk), port) => port.as_ref().is_some_and(|port| port.reaches(disk)),
            (_, port) => port.is_none(),
        }
    }

    /// Returns true if the devices are modelled.
    pub(crate) fn are_there(&self) -> bool {
        self.port.is_some()
    }

    /// Returns the clock of the devices; `None` if they are real.
    pub(crate) fn clock(&self) -> Option<Clock> {
        self.port.as_ref().map(Port::clock)
    }

    /// Notes that a buffer holds metadata.
    pub(crate) fn holds_metadata(&mut self, buffer: BufferId) {
        self.metadata.push(buffer);
    }

    /// Returns true if payload is zeros that no device stores, so that computing on it is idle.
    pub(crate) fn is_payload_zero(&self) -> bool {
        let port = self.port.as_ref();
        port.is_some_and(|port| port.stored() == Stored::Metadata)
    }

    /// Starts an operation. Its bytes move at once; `next_done` returns its tag later.
    pub(crate) fn start(
        &mut self,
        disk: &Disk,
        tag: Tag,
        offset_bytes: u64,
        io: &DeviceIo,
        pieces: &[Piece],
        buffers: &mut Buffers,
    ) {
        let port = self.port.as_mut().expect("opened for the disk");
        let stores_all = port.stored() == Stored::All;
        let is_stored = |buffer| stores_all || self.metadata.contains(&buffer);
        move_contents(disk, buffers, offset_bytes, *io, pieces, is_stored);
        let block_bytes = u64::from(buffers.block_size().bytes());
        let work = Work {
            operation: io.operation,
            offset_bytes,
            length_bytes: u64::from(io.blocks) * block_bytes,
        };
        port.start(disk, tag, work);
    }

    /// Returns the next operation that is done.
    pub(crate) fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        self.port.as_mut()?.next_done()
    }

    /// Waits in virtual time; returns false if the devices are real.
    pub(crate) fn turn(&mut self, wait: Wait) -> bool {
        self.port.as_mut().is_some_and(|port| {
            port.turn(wait);
            true
        })
    }

    /// Lets the clock go on to a moment if nothing happens until then.
    pub(crate) fn skip_to(&mut self, moment: Instant) -> bool {
        let port = self.port.as_mut();
        port.is_some_and(|port| port.skip_to(moment))
    }

    /// Returns true if an operation is in flight.
    pub(crate) fn busy(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.in_flight() > 0)
    }
}

/// Moves the bytes of an operation between the buffers and a disk. Bytes in buffers that are not
/// stored count as zeros.
fn move_contents(
    disk: &Disk,
    buffers: &mut Buffers,
    offset_bytes: u64,
    io: DeviceIo,
    pieces: &[Piece],
    is_stored: impl Fn(BufferId) -> bool,
) {
    let block_bytes = u64::from(buffers.block_size().bytes());
    match io.operation {
        Operation::Read => {
            let fills = is_stored(io.buffer.buffer);
            disk.read(offset_bytes, buffers.slice_mut(io.buffer, io.blocks), fills);
        }
        Operation::Write { .. } => {
            for part in io.parts(pieces) {
                let offset_bytes = offset_bytes + (part.block.0 - io.block.0) * block_bytes;
                if is_stored(part.buffer.buffer) {
                    disk.write(offset_bytes, buffers.slice(part.buffer, part.blocks));
                } else {
                    disk.clear(offset_bytes, u64::from(part.blocks) * block_bytes);
                }
            }
        }
        Operation::Discard | Operation::WriteZeroes { .. } => {
            disk.clear(offset_bytes, u64::from(io.blocks) * block_bytes);
        }
        Operation::Flush => {}
    }
}
