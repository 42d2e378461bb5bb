//! Messages to and from the driver: numbers at fixed offsets, in native byte order
//! (`include/uapi/linux/ublk_cmd.h`).

#![allow(
    clippy::host_endian_bytes,
    reason = "the byte order of the driver is the machine's"
)]

use rustix::io::Errno;
use spindles_block::Operation;

/// The payload of a control command, inside its ring entry.
pub(super) const COMMAND_BYTES: usize = 80;
pub(super) const INFO_BYTES: usize = 64;
pub(super) const PARAMETERS_BYTES: usize = 60;
pub(super) const ASK_BYTES: usize = 24;
pub(super) const ANSWER_BYTES: usize = 16;
const SECTOR_BYTES: u32 = 512;
/// The command concerns no queue.
const NO_QUEUE: u16 = u16::MAX;
/// Lets the driver choose a number.
const ANY_NUMBER: u32 = u32::MAX;

/// Features of the driver, of which a device uses some.
pub mod features {
    /// The server may die: the device waits for another server.
    pub const RECOVERY: u64 = 1 << 3;
    /// The next server gets the unanswered requests of the dead server.
    pub const REISSUE: u64 = 1 << 4;
    /// Commands have the numbers used here.
    pub const NUMBERS: u64 = 1 << 6;
    /// Payload is read and written by system calls.
    pub const USER_COPY: u64 = 1 << 7;
}

/// Encodes a control command for a device, or for a new one.
pub(super) fn command(
    number: Option<u32>,
    buffer: Option<(u64, u16)>,
    data: u64,
) -> [u8; COMMAND_BYTES] {
    let mut bytes = [0; COMMAND_BYTES];
    let (address, length) = buffer.unwrap_or_default();
    put(&mut bytes, 0, number.unwrap_or(ANY_NUMBER).to_ne_bytes());
    put(&mut bytes, 4, NO_QUEUE.to_ne_bytes());
    put(&mut bytes, 6, length.to_ne_bytes());
    put(&mut bytes, 8, address.to_ne_bytes());
    put(&mut bytes, 16, data.to_ne_bytes());
    bytes
}

/// A new device with one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewDevice {
    /// The device number; `None` for any free number.
    pub number: Option<u32>,
    /// Requests in flight.
    pub depth: u16,
    /// The longest read or write, in bytes.
    pub request_bytes_max: u32,
    /// The [`features`] it uses.
    pub features: u64,
    /// A tag kept by the driver, which identifies the device to other programs.
    pub mark: u64,
}

impl NewDevice {
    pub(super) fn encode(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        put(&mut bytes, 0, 1_u16.to_ne_bytes());
        put(&mut bytes, 2, self.depth.to_ne_bytes());
        put(&mut bytes, 8, self.request_bytes_max.to_ne_bytes());
        let number = self.number.unwrap_or(ANY_NUMBER);
        put(&mut bytes, 12, number.to_ne_bytes());
        put(&mut bytes, 24, self.features.to_ne_bytes());
        put(&mut bytes, 32, self.mark.to_ne_bytes());
        bytes
    }
}

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Not started, or stopped.
    Dead,
    /// Programs can open it. A server has the device, or has just died.
    Live,
    /// The server died; programs that have the device open wait for the next server.
    Waiting,
}

/// An existing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number.
    pub number: u32,
    /// Its state.
    pub state: DeviceState,
    /// The process that serves or served it.
    pub server: Option<u32>,
    /// Requests in flight in each queue.
    pub depth: u16,
    /// Number of queues.
    pub queues: u16,
    /// The features it uses.
    pub features: u64,
    /// The tag that its creator set.
    pub mark: u64,
}

impl DeviceInfo {
    pub(super) fn decode(bytes: &[u8; INFO_BYTES]) -> Self {
        Self {
            number: u32::from_ne_bytes(get(bytes, 12)),
            state: match u16::from_ne_bytes(get(bytes, 4)) {
                0 => DeviceState::Dead,
                1 => DeviceState::Live,
                // Newer kernels have a second waiting state, in which requests fail.
                _ => DeviceState::Waiting,
            },
            server: u32::try_from(i32::from_ne_bytes(get(bytes, 16))).ok(),
            depth: u16::from_ne_bytes(get(bytes, 2)),
            queues: u16::from_ne_bytes(get(bytes, 0)),
            features: u64::from_ne_bytes(get(bytes, 24)),
            mark: u64::from_ne_bytes(get(bytes, 32)),
        }
    }
}

/// The parameters of a device. It has a volatile cache and supports FUA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Its size in bytes.
    pub bytes: u64,
    /// The smallest request, in bytes: a power of two from 512 to the page size.
    pub block_bytes: u32,
    /// The smallest write that needs no read, in bytes: a power of two.
    pub physical_block_bytes: u32,
    /// The longest read or write, in bytes.
    pub request_bytes_max: u32,
    /// The longest discard or write-zeroes, in bytes.
    pub zeroing_bytes_max: u32,
    /// True to refuse writes.
    pub read_only: bool,
}

mod attributes {
    pub(super) const READ_ONLY: u32 = 1 << 0;
    pub(super) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(super) const FUA: u32 = 1 << 3;
}

/// Both parameter sets: the basic one and the one for discards.
const PARAMETER_TYPES: u32 = 0b11;

impl Parameters {
    pub(super) fn encode(&self) -> [u8; PARAMETERS_BYTES] {
        let shift = |bytes: u32| u8::try_from(bytes.trailing_zeros()).expect("below 32");
        let read_only = if self.read_only {
            attributes::READ_ONLY
        } else {
            0
        };
        let attributes = attributes::VOLATILE_CACHE | attributes::FUA | read_only;
        let zeroing = self.zeroing_bytes_max / SECTOR_BYTES;
        let sectors = self.bytes / u64::from(SECTOR_BYTES);
        let mut bytes = header();
        put(&mut bytes, 4, PARAMETER_TYPES.to_ne_bytes());
        put(&mut bytes, 8, attributes.to_ne_bytes());
        let physical = shift(self.physical_block_bytes);
        let shifts = [shift(self.block_bytes), physical, physical, physical];
        put(&mut bytes, 12, shifts);
        let request = self.request_bytes_max / SECTOR_BYTES;
        put(&mut bytes, 16, request.to_ne_bytes());
        put(&mut bytes, 24, sectors.to_ne_bytes());
        put(&mut bytes, 44, self.physical_block_bytes.to_ne_bytes());
        put(&mut bytes, 48, zeroing.to_ne_bytes());
        put(&mut bytes, 52, zeroing.to_ne_bytes());
        put(&mut bytes, 56, 1_u16.to_ne_bytes());
        bytes
    }

    /// Returns `None` for bytes that `encode` can't have produced.
    pub(super) fn decode(bytes: &[u8; PARAMETERS_BYTES]) -> Option<Self> {
        let number = |at| u32::from_ne_bytes(get(bytes, at));
        let [block, physical, ..]: [u8; 4] = get(bytes, 12);
        let sectors = u64::from_ne_bytes(get(bytes, 24));
        Some(Self {
            bytes: sectors.checked_mul(u64::from(SECTOR_BYTES))?,
            block_bytes: 1_u32.checked_shl(block.into())?,
            physical_block_bytes: 1_u32.checked_shl(physical.into())?,
            request_bytes_max: number(16).checked_mul(SECTOR_BYTES)?,
            zeroing_bytes_max: number(48).checked_mul(SECTOR_BYTES)?,
            read_only: number(8) & attributes::READ_ONLY != 0,
        })
    }
}

/// Returns a request for parameters: only their length.
pub(super) fn header() -> [u8; PARAMETERS_BYTES] {
    let mut bytes = [0; PARAMETERS_BYTES];
    let length = u32::try_from(PARAMETERS_BYTES).expect("short");
    put(&mut bytes, 0, length.to_ne_bytes());
    bytes
}

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Identifies the request until it is answered.
    pub tag: u16,
    /// The operation; `None` if unknown here.
    pub operation: Option<Operation>,
    /// The first byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub bytes: u32,
}

impl Ask {
    pub(super) fn decode(tag: u16, bytes: &[u8; ASK_BYTES]) -> Self {
        const FUA: u32 = 1 << 13;
        const NO_UNMAP: u32 = 1 << 15;
        let what = u32::from_ne_bytes(get(bytes, 0));
        let fua = what & FUA != 0;
        let operation = match what & 0xff {
            0 => Some(Operation::Read),
            1 => Some(Operation::Write { fua }),
            2 => Some(Operation::Flush),
            3 => Some(Operation::Discard),
            // The zeros need no space unless the kernel asks for it.
            5 if !fua && what & NO_UNMAP == 0 => Some(Operation::Discard),
            5 => Some(Operation::WriteZeroes { fua }),
            _ => None,
        };
        let sectors = u32::from_ne_bytes(get(bytes, 4));
        let first = u64::from_ne_bytes(get(bytes, 8));
        let (offset_bytes, bytes) = match operation {
            // A flush has no position; ignore the driver's.
            Some(Operation::Flush) => (0, 0),
            _ => (
                first.saturating_mul(SECTOR_BYTES.into()),
                sectors.saturating_mul(SECTOR_BYTES),
            ),
        };
        Self {
            tag,
            operation,
            offset_bytes,
            bytes,
        }
    }
}

/// Encodes the result of a request: the bytes moved, or the error.
pub(super) fn answer(tag: u16, result: Result<u32, Errno>) -> [u8; ANSWER_BYTES] {
    let result = match result {
        Ok(bytes) => i32::try_from(bytes).expect("a request is short"),
        Err(error) => -error.raw_os_error(),
    };
    let mut bytes = [0; ANSWER_BYTES];
    put(&mut bytes, 2, tag.to_ne_bytes());
    put(&mut bytes, 4, result.to_ne_bytes());
    bytes
}

/// Returns the file position of a request's payload.
pub(super) fn payload_position(tag: u16) -> u64 {
    const PAYLOAD: u64 = 0x8000_0000;
    const TAG_BIT: u32 = 25;
    PAYLOAD + (u64::from(tag) << TAG_BIT)
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ublk_parameters_round_trip() {
        let parameters = Parameters {
            bytes: 3 << 30,
            block_bytes: 512,
            physical_block_bytes: 4096,
            request_bytes_max: 1 << 20,
            zeroing_bytes_max: 16 << 20,
            read_only: false,
        };
        let read_only = Parameters {
            read_only: true,
            ..parameters
        };
        for parameters in [parameters, read_only] {
            let decoded = Parameters::decode(&parameters.encode());
            assert_eq!(decoded, Some(parameters));
        }
        let mut strange = parameters.encode();
        strange[12] = 77;
        assert_eq!(Parameters::decode(&strange), None);
    }

    #[test]
    fn a_device_names_its_server() {
        let device = NewDevice {
            number: Some(7),
            depth: 128,
            request_bytes_max: 1 << 20,
            features: features::RECOVERY | features::REISSUE,
            mark: 0x0123_4567_89ab_cdef,
        };
        let mut bytes = device.encode();
        put(&mut bytes, 4, 2_u16.to_ne_bytes());
        put(&mut bytes, 16, 4711_i32.to_ne_bytes());
        let info = DeviceInfo {
            number: 7,
            state: DeviceState::Waiting,
            server: Some(4711),
            depth: 128,
            queues: 1,
            features: device.features,
            mark: device.mark,
        };
        assert_eq!(DeviceInfo::decode(&bytes), info);
        put(&mut bytes, 16, (-1_i32).to_ne_bytes());
        assert_eq!(DeviceInfo::decode(&bytes).server, None);
    }

    fn asked(what: u32, sectors: u32, first: u64) -> Ask {
        let mut bytes = [0; ASK_BYTES];
        put(&mut bytes, 0, what.to_ne_bytes());
        put(&mut bytes, 4, sectors.to_ne_bytes());
        put(&mut bytes, 8, first.to_ne_bytes());
        Ask::decode(3, &bytes)
    }

    #[test]
    fn ublk_requests_are_decoded() {
        let write = |fua| Some(Operation::Write { fua });
        let zeros = |fua| Some(Operation::WriteZeroes { fua });
        for (what, operation) in [
            (0, Some(Operation::Read)),
            (1, write(false)),
            (1 | 1 << 13, write(true)),
            // Flags for the kernel's own use change nothing.
            (1 | 1 << 11, write(false)),
            (3, Some(Operation::Discard)),
            (5, Some(Operation::Discard)),
            (5 | 1 << 15, zeros(false)),
            (5 | 1 << 13, zeros(true)),
            (4, None),
            (15, None),
        ] {
            let wanted = Ask {
                tag: 3,
                operation,
                offset_bytes: 8 << 20,
                bytes: 4096,
            };
            assert_eq!(asked(what, 8, 16 << 10), wanted, "{what:x}");
        }
        let flush = asked(2, 0, u64::MAX);
        assert_eq!(flush.operation, Some(Operation::Flush));
        assert_eq!((flush.offset_bytes, flush.bytes), (0, 0));
        // The addition can't overflow: the export refuses accesses beyond its end.
        assert_eq!(asked(0, u32::MAX, u64::MAX).offset_bytes, u64::MAX);
    }

    #[test]
    fn replies_carry_a_length_or_an_error() {
        let result = |bytes: [u8; ANSWER_BYTES]| {
            let tag = u16::from_ne_bytes(get(&bytes, 2));
            (tag, i32::from_ne_bytes(get(&bytes, 4)))
        };
        assert_eq!(result(answer(9, Ok(4096))), (9, 4096));
        assert_eq!(result(answer(9, Err(Errno::IO))), (9, -5));
        assert_eq!(payload_position(2), 0x8400_0000);
    }
}
