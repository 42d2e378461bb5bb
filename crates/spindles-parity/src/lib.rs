//! Linear codes on byte slices: copies, xor, P+Q and P+Q+R. Each operation is a small linear map
//! over GF(2^8), run by the fastest kernel of this machine. This crate knows no levels and no
//! members, does no I/O and allocates nothing.
//!
//! Chunks are named by index: data chunk i is i, parity chunk p is `data_chunks + p`.

#![cfg_attr(not(test), no_std)]

#[cfg(any(test, target_arch = "x86_64"))]
extern crate std;

pub mod codes;
mod gf;
pub mod kernels;
mod linear;
mod locate;
mod map;

pub use codes::{CODES, Code, by_parity_chunks};
pub use kernels::{KERNELS, best_kernel};
pub use linear::{CHUNKS_MAX, Kernel};
pub use locate::{Located, locate};

/// Computes any chunks of a group from any `data_chunks` known ones: encoding and recovery alike.
///
/// Sources and targets are (index, bytes), all of one length, of any alignment. Source indices are
/// distinct. For copies every index is 0.
pub fn solve(
    code: &Code,
    data_chunks: u8,
    sources: &[(u8, &[u8])],
    targets: &mut [(u8, &mut [u8])],
) {
    map::solve(best_kernel(), code, data_chunks, sources, targets);
}

/// [`solve`] by the kernel of the caller's choice, for tests and measurements.
///
/// Panics if this machine cannot run it.
pub fn solve_with(
    kernel: &Kernel,
    code: &Code,
    data_chunks: u8,
    sources: &[(u8, &[u8])],
    targets: &mut [(u8, &mut [u8])],
) {
    assert!((kernel.available)(), "no {} here", kernel.name);
    map::solve(kernel, code, data_chunks, sources, targets);
}

/// Updates parity chunks in place after data chunks changed: each target gets
/// `p ^= c(p, i) * (old ^ new)` for every pair (i, old, new).
pub fn update(
    code: &Code,
    data_chunks: u8,
    pairs: &[(u8, &[u8], &[u8])],
    targets: &mut [(u8, &mut [u8])],
) {
    map::update(best_kernel(), code, data_chunks, pairs, targets);
}

/// [`update`] by the kernel of the caller's choice, for tests and measurements.
///
/// Panics if this machine cannot run it.
pub fn update_with(
    kernel: &Kernel,
    code: &Code,
    data_chunks: u8,
    pairs: &[(u8, &[u8], &[u8])],
    targets: &mut [(u8, &mut [u8])],
) {
    assert!((kernel.available)(), "no {} here", kernel.name);
    map::update(kernel, code, data_chunks, pairs, targets);
}

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_parity;
#[cfg(test)]
#[path = "../tests/codes.rs"]
mod public;
