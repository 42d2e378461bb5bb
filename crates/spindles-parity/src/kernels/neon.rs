//! NEON, which every 64-bit Arm processor has: like AVX2, half as wide.

#![expect(
    unsafe_code,
    clippy::inline_always,
    reason = "instructions that must be there"
)]

use super::columns::{self, NIBBLES, Nibbles, Vector};
use crate::linear::{Kernel, Map};
use core::arch::aarch64::{
    uint8x16_t, vaddq_u8, vandq_u8, vcltzq_s8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8,
    vreinterpretq_s8_u8, vshrq_n_u8, vst1q_u8,
};

pub(super) static KERNEL: Kernel = Kernel {
    name: "neon",
    summary: "64-bit Arm with NEON",
    available: || cfg!(target_feature = "neon"),
    run,
};

#[target_feature(enable = "neon")]
fn run(map: &mut Map<'_, '_, '_>) {
    // SAFETY: this function enables NEON.
    unsafe { columns::run::<Neon, 4, 4, 4>(map) }
}

#[derive(Clone, Copy)]
struct Neon(uint8x16_t);

impl Vector for Neon {
    const BYTES: usize = 16;
    const DOUBLES_MAX: usize = 3;
    type Factor = &'static Nibbles;

    #[inline(always)]
    fn factor(coefficient: u8) -> Self::Factor {
        &NIBBLES[usize::from(coefficient)]
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(vdupq_n_u8(0)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(vld1q_u8(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        let mut whole = [0u8; 16];
        // SAFETY: guaranteed by the caller; `bytes` is less than 16.
        unsafe {
            from.copy_to_nonoverlapping(whole.as_mut_ptr(), bytes);
            Self::load(whole.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        let mut whole = [0u8; 16];
        // SAFETY: guaranteed by the caller; `bytes` is less than 16.
        unsafe {
            self.store(whole.as_mut_ptr());
            to.copy_from_nonoverlapping(whole.as_ptr(), bytes);
        }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(veorq_u8(self.0, b.0)) }
    }

    #[inline(always)]
    unsafe fn add2(self, b: Self, c: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { self.add(b.add(c)) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        let (low, high) = factor.split_at(16);
        // SAFETY: guaranteed by the caller; both halves are 16 bytes long.
        unsafe {
            let (low, high) = (vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr()));
            let of_low = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(0x0f)));
            Self(veorq_u8(of_low, vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0))))
        }
    }

    #[inline(always)]
    unsafe fn double_add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let carries = vcltzq_s8(vreinterpretq_s8_u8(self.0));
            let reduced = vandq_u8(carries, vdupq_n_u8(0x1d));
            Self(vaddq_u8(self.0, self.0)).add2(Self(reduced), b)
        }
    }
}
