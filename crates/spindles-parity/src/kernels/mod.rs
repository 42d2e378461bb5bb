//! The kernels. Each runs a linear map over byte columns, as fast as its instructions allow. The
//! scalar kernel is the reference. The best kernel for this machine is selected once.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod columns; // Not a row: shared by the vector kernels.
#[cfg(target_arch = "x86_64")]
mod gfni;
#[cfg(target_arch = "aarch64")]
mod neon;
mod scalar;

use crate::linear::{Kernel, Map};
use core::sync::atomic::{AtomicUsize, Ordering};

/// All kernels for this architecture, slowest first.
pub static KERNELS: &[&Kernel] = &[
    &scalar::KERNEL,
    #[cfg(target_arch = "aarch64")]
    &neon::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &avx2::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &avx512::KERNEL,
    #[cfg(target_arch = "x86_64")]
    &gfni::KERNEL,
];

/// The fastest kernel that this machine can run.
pub fn best_kernel() -> &'static Kernel {
    static CHOSEN: AtomicUsize = AtomicUsize::new(usize::MAX);
    let chosen = CHOSEN.load(Ordering::Relaxed);
    if let Some(kernel) = KERNELS.get(chosen) {
        return kernel;
    }
    let best = KERNELS
        .iter()
        .rposition(|kernel| (kernel.available)())
        .expect("scalar always is");
    CHOSEN.store(best, Ordering::Relaxed);
    KERNELS[best]
}

/// Runs `map` with `kernel`.
pub(crate) fn run(kernel: &Kernel, map: &mut Map<'_, '_, '_>) {
    debug_assert!((kernel.available)());
    #[expect(unsafe_code, reason = "the one call of a kernel")]
    // SAFETY: a kernel comes either from `best_kernel`, which asked whether it is available, or
    // from a caller of `solve_with` and the like, which assert it.
    unsafe {
        (kernel.run)(map);
    }
}
