//! AVX-512 with GFNI: a product is one instruction, multiplication by a matrix of bits.

#![expect(
    unsafe_code,
    clippy::inline_always,
    reason = "instructions that must be there"
)]

use super::{
    avx512::{self, Avx512},
    columns::{self, Vector},
};
use crate::gf;
use crate::linear::{Kernel, Map};
use core::arch::x86_64::{_mm512_gf2p8affine_epi64_epi8, _mm512_set1_epi64};
use std::is_x86_feature_detected;

pub(super) static KERNEL: Kernel = Kernel {
    name: "gfni",
    summary: "x86-64 with AVX-512 (F, BW) and GFNI",
    available: || avx512::available() && is_x86_feature_detected!("gfni"),
    run,
};

#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn run(map: &mut Map<'_, '_, '_>) {
    // SAFETY: this function enables AVX-512F, AVX-512BW and GFNI.
    unsafe { columns::run::<Gfni, 8, 8, 4>(map) }
}

/// For each field element, multiplication by it as the matrix that `gf2p8affineqb` takes: byte 7 -
/// i has bit k set if bit i of the product depends on bit k of the other factor.
static MATRICES: [i64; 256] = {
    let mut matrices = [0; 256];
    let mut coefficient: u8 = 0;
    loop {
        let mut rows = [0; 8];
        let mut k = 0;
        while k < 8 {
            let product = gf::mul_slow(coefficient, 1 << k);
            let mut i = 0;
            while i < 8 {
                rows[7 - i] |= (product >> i & 1) << k;
                i += 1;
            }
            k += 1;
        }
        matrices[coefficient as usize] = i64::from_le_bytes(rows);
        if coefficient == 255 {
            break matrices;
        }
        coefficient += 1;
    }
};

#[derive(Clone, Copy)]
struct Gfni(Avx512);

impl Vector for Gfni {
    const BYTES: usize = Avx512::BYTES;
    const DOUBLES_MAX: usize = 0;
    type Factor = i64;

    #[inline(always)]
    fn factor(coefficient: u8) -> Self::Factor {
        MATRICES[usize::from(coefficient)]
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(Avx512::zero()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(Avx512::load(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(Avx512::load_part(from, bytes)) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe { self.0.store_part(to, bytes) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(self.0.add(b.0)) }
    }

    #[inline(always)]
    unsafe fn add2(self, b: Self, c: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(self.0.add2(b.0, c.0)) }
    }

    #[inline(always)]
    unsafe fn times(self, factor: Self::Factor) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let matrix = _mm512_set1_epi64(factor);
            Self(Avx512(_mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, matrix)))
        }
    }

    #[inline(always)]
    unsafe fn double_add(self, b: Self) -> Self {
        // SAFETY: guaranteed by the caller.
        unsafe { Self(self.0.double_add(b.0)) }
    }
}
