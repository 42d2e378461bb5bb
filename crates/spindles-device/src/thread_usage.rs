//! The kernel's resource counters of one thread: CPU time in user space and in the kernel, and
//! waits.

#![expect(
    unsafe_code,
    reason = "rustix has no getrusage, and libc's fills a structure in"
)]

use std::mem::MaybeUninit;

/// The kernel's counters for the calling thread, since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUsage {
    /// CPU time in user space.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
    /// Blocks of 512 bytes read from devices on its behalf.
    pub blocks_in: u64,
    /// Blocks of 512 bytes written to devices on its behalf.
    pub blocks_out: u64,
    /// Times it waited and gave up its CPU.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
}

impl ThreadUsage {
    /// Returns the counters of the calling thread. Zeros if the kernel refuses.
    pub fn now() -> Self {
        let mut filled = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the structure is writable, and as large as the call expects.
        let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, filled.as_mut_ptr()) };
        if answer != 0 {
            return Self::default();
        }
        // SAFETY: the call succeeded, so it filled in the structure.
        let usage = unsafe { filled.assume_init() };
        let count = |count: libc::c_long| u64::try_from(count).unwrap_or(0);
        let time = |time: libc::timeval| {
            let microseconds = u64::try_from(time.tv_usec).unwrap_or(0);
            count(time.tv_sec) * 1_000_000_000 + microseconds * 1000
        };
        Self {
            user_ns: time(usage.ru_utime),
            system_ns: time(usage.ru_stime),
            blocks_in: count(usage.ru_inblock),
            blocks_out: count(usage.ru_oublock),
            voluntary_switches: count(usage.ru_nvcsw),
            involuntary_switches: count(usage.ru_nivcsw),
            major_faults: count(usage.ru_majflt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    #[test]
    fn a_computing_thread_uses_user_time() {
        let before = ThreadUsage::now();
        let clock = Clock::Real;
        let mut sum = 0_u64;
        while ThreadUsage::now().user_ns < before.user_ns + 20_000_000 {
            for round in 0..100_000_u64 {
                sum = std::hint::black_box(sum ^ round);
            }
            let waited = clock.now().0;
            assert!(
                waited < 60_000_000_000,
                "no CPU time in a minute: {before:?}"
            );
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = ThreadUsage::now();
        assert!(after.voluntary_switches > before.voluntary_switches);
    }
}
