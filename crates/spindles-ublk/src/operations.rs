//! The numbers of commands (`include/uapi/linux/ublk_cmd.h`).

use rustix::ioctl::opcode;

/// These sizes of the command payload are part of the command numbers.
type Control = [u8; 32];
type Answer = [u8; 16];

pub(super) const INFO: u32 = opcode::read::<Control>(b'u', 0x02);
pub(super) const ADD: u32 = opcode::read_write::<Control>(b'u', 0x04);
pub(super) const DELETE: u32 = opcode::read_write::<Control>(b'u', 0x05);
pub(super) const START: u32 = opcode::read_write::<Control>(b'u', 0x06);
pub(super) const STOP: u32 = opcode::read_write::<Control>(b'u', 0x07);
pub(super) const SET_PARAMETERS: u32 = opcode::read_write::<Control>(b'u', 0x08);
pub(super) const PARAMETERS: u32 = opcode::read::<Control>(b'u', 0x09);
pub(super) const BEGIN_RECOVERY: u32 = opcode::read_write::<Control>(b'u', 0x10);
pub(super) const END_RECOVERY: u32 = opcode::read_write::<Control>(b'u', 0x11);
pub(super) const FEATURES: u32 = opcode::read::<Control>(b'u', 0x13);
pub(super) const DELETE_LATER: u32 = opcode::read::<Control>(b'u', 0x14);

/// Fetches the next request of a tag.
pub(super) const FETCH: u32 = opcode::read_write::<Answer>(b'u', 0x20);
/// Answers a request and fetches the next one.
pub(super) const ANSWER_AND_FETCH: u32 = opcode::read_write::<Answer>(b'u', 0x21);

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the macros in the kernel's header.
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn command_numbers_equal_those_of_the_kernel() {
        for (operation, number) in [
            (INFO, 0x8020_7502),
            (ADD, 0xc020_7504),
            (DELETE, 0xc020_7505),
            (START, 0xc020_7506),
            (STOP, 0xc020_7507),
            (SET_PARAMETERS, 0xc020_7508),
            (PARAMETERS, 0x8020_7509),
            (BEGIN_RECOVERY, 0xc020_7510),
            (END_RECOVERY, 0xc020_7511),
            (FEATURES, 0x8020_7513),
            (DELETE_LATER, 0x8020_7514),
            (FETCH, 0xc010_7520),
            (ANSWER_AND_FETCH, 0xc010_7521),
        ] {
            assert_eq!(operation, number, "{number:x}");
        }
    }
}
