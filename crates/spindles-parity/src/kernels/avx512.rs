//! AVX-512 without GFNI: like AVX2, twice as wide, with sums of three in one instruction.

#![expect(
    unsafe_code,
    clippy::inline_always,
    reason = "instructions that must be there"
)]

use super::columns::{self, NIBBLES, Nibbles, Vector};
use crate::linear::{Kernel, Map};
use core::arch::x86_64::{
    __m512i, _mm_loadu_si128, _mm512_add_epi8, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_loadu_si512, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_maskz_set1_epi8,
    _mm512_movepi8_mask, _mm512_set1_epi8, _mm512_setzero_si512, _mm512_shuffle_epi8,
    _mm512_srli_epi16, _mm512_storeu_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use std::is_x86_feature_detected;

pub(super) static KERNEL: Kernel = Kernel {
    name: "avx512",
    summary: "x86-64 with AVX-512 (F, BW)",
    available,
    run,
};

/// Returns true if this machine can use the vectors of this kernel.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

#[target_feature(enable = "avx512f,avx512bw")]
fn run(map: &mut Map<'_, '_, '_>) {
    // SAFETY: this function enables AVX-512F and AVX-512BW.
    unsafe { columns::run::<Avx512, 8, 4, 3>(map) }
}

/// A vector, shared by all AVX-512 kernels.
#[derive(Clone, Copy)]
pub(super) struct Avx512(pub(super) __m512i);

impl Vector for Avx512 {
    const BYTES: usize = 64;
    const DOUBLES_MAX: usize = 2;
    type Factor = &'static Nibbles;

    #[inline(always)]
    fn factor(coefficient: u8) -> Self::Factor {
        &NIBBLES[usize::from(coefficient)]
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: guaranteed by the caller; masked bytes are not read. `bytes` is less than 64.
        unsafe { Self(_mm512_maskz_loadu_epi8((1 << bytes) - 1, from.cast())) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: guaranteed by the caller; masked bytes are not written. `bytes` is less than 64.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1 << bytes) - 1, self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(_mm512_xor_si512(self.0, b.0)) }
    }

    #[inline(always)]
    unsafe fn add2(self, b: Self, c: Self) -> Self {
        // SAFETY: guaranteed by the caller. 0x96 is the truth table of the sum of three bits.
        unsafe { Self(_mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0)) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        let (low, high) = factor.split_at(16);
        // SAFETY: guaranteed by the caller; both halves are 16 bytes long.
        unsafe {
            let low = _mm512_broadcast_i32x4(_mm_loadu_si128(low.as_ptr().cast()));
            let high = _mm512_broadcast_i32x4(_mm_loadu_si128(high.as_ptr().cast()));
            let nibble = _mm512_set1_epi8(0x0f);
            let of_low = _mm512_shuffle_epi8(low, _mm512_and_si512(self.0, nibble));
            let shifted = _mm512_and_si512(_mm512_srli_epi16::<4>(self.0), nibble);
            Self(_mm512_xor_si512(of_low, _mm512_shuffle_epi8(high, shifted)))
        }
    }

    #[inline(always)]
    unsafe fn double_add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let reduced = _mm512_maskz_set1_epi8(_mm512_movepi8_mask(self.0), 0x1d);
            Self(_mm512_add_epi8(self.0, self.0)).add2(Self(reduced), b)
        }
    }
}
