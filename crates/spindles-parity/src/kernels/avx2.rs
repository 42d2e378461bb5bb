//! AVX2: products by tables of nibbles, P, Q and R of whole stripes by doubling.

#![expect(
    unsafe_code,
    clippy::inline_always,
    reason = "instructions that must be there"
)]

use super::columns::{self, NIBBLES, Nibbles, Vector};
use crate::linear::{Kernel, Map};
use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_add_epi8, _mm256_and_si256, _mm256_broadcastsi128_si256,
    _mm256_cmpgt_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256, _mm256_xor_si256,
};
use std::is_x86_feature_detected;

pub(super) static KERNEL: Kernel = Kernel {
    name: "avx2",
    summary: "x86-64 with AVX2",
    available: || is_x86_feature_detected!("avx2"),
    run,
};

#[target_feature(enable = "avx2")]
fn run(map: &mut Map<'_, '_, '_>) {
    // SAFETY: this function enables AVX2.
    unsafe { columns::run::<Avx2, 8, 4, 3>(map) }
}

#[derive(Clone, Copy)]
struct Avx2(__m256i);

impl Vector for Avx2 {
    const BYTES: usize = 32;
    const DOUBLES_MAX: usize = 3;
    type Factor = &'static Nibbles;

    #[inline(always)]
    fn factor(coefficient: u8) -> Self::Factor {
        &NIBBLES[usize::from(coefficient)]
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        let mut whole = [0u8; 32];
        // SAFETY: guaranteed by the caller; `bytes` is less than 32.
        unsafe {
            from.copy_to_nonoverlapping(whole.as_mut_ptr(), bytes);
            Self::load(whole.as_ptr())
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        let mut whole = [0u8; 32];
        // SAFETY: guaranteed by the caller; `bytes` is less than 32.
        unsafe {
            self.store(whole.as_mut_ptr());
            to.copy_from_nonoverlapping(whole.as_ptr(), bytes);
        }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(_mm256_xor_si256(self.0, b.0)) }
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
            let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast()));
            let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast()));
            let nibble = _mm256_set1_epi8(0x0f);
            let of_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, nibble));
            let shifted = _mm256_and_si256(_mm256_srli_epi16::<4>(self.0), nibble);
            Self(_mm256_xor_si256(of_low, _mm256_shuffle_epi8(high, shifted)))
        }
    }

    #[inline(always)]
    unsafe fn double_add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduced = _mm256_and_si256(carries, _mm256_set1_epi8(0x1d));
            Self(_mm256_add_epi8(self.0, self.0)).add2(Self(reduced), b)
        }
    }
}
