//! Compares our kernels with ISA-L's, interleaved in one run: GB of data encoded per second, and
//! the median over rounds of the ratio within a round. The noise of a shared machine moves that
//! ratio least.
//!
//! `cargo run --release -- [DATA CHUNKS] [KIB PER CHUNK] [ROUNDS]`, 8, 64 and 301 by default.

use spindles_parity::{KERNELS, Kernel, by_parity_chunks, solve_with};
use std::{
    alloc::{Layout, alloc_zeroed},
    ffi::{c_int, c_void},
    slice,
    time::{Duration, Instant},
};

#[link(name = "isal")]
unsafe extern "C" {
    fn xor_gen(vects: c_int, bytes: c_int, array: *mut *mut c_void) -> c_int;
    fn pq_gen(vects: c_int, bytes: c_int, array: *mut *mut c_void) -> c_int;
}

/// Chunks in one allocation, each aligned to a page, as both are given them.
struct Chunks {
    base: *mut u8,
    bytes: usize,
    count: usize,
}

impl Chunks {
    fn new(count: usize, bytes: usize) -> Self {
        let layout = Layout::from_size_align(count * bytes, 2 << 20).expect("a small layout");
        // SAFETY: the size is not zero. Never freed.
        let base = unsafe { alloc_zeroed(layout) };
        assert!(!base.is_null());
        Self { base, bytes, count }
    }

    fn chunks(&mut self) -> Vec<&mut [u8]> {
        // SAFETY: the chunks lie apart in the one allocation, borrowed from `self`.
        (0..self.count)
            .map(|i| unsafe {
                slice::from_raw_parts_mut(self.base.add(i * self.bytes), self.bytes)
            })
            .collect()
    }
}

fn time(repeat: u32, mut f: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..repeat {
        f();
    }
    start.elapsed() / repeat
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| {
        arguments.next().map_or(default, |text| text.parse().expect("a number"))
    };
    let (data, bytes, rounds) = (number(8), number(64) << 10, number(301));
    let repeat = u32::try_from((16 << 20) / (data * bytes)).expect("small").max(1);
    println!("{data} data chunks x {} KiB, {rounds} rounds of {repeat}", bytes >> 10);
    for parity in [1, 2] {
        compare(&Case { parity, data, bytes, repeat }, rounds);
    }
}

/// A number of parity chunks, and the size of the data.
struct Case {
    parity: u8,
    data: usize,
    bytes: usize,
    repeat: u32,
}

/// Checks that all kernels agree with ISA-L, then prints the speeds.
fn compare(case: &Case, rounds: usize) {
    let kernels: Vec<&Kernel> =
        KERNELS.iter().copied().filter(|k| k.name != "scalar" && (k.available)()).collect();
    let mut memory = random_data(case);
    let parities = |memory: &mut Chunks| memory.chunks()[case.data..].concat();
    time_isal(case, &mut memory);
    let expected = parities(&mut memory);
    for kernel in &kernels {
        time_ours(case, kernel, &mut memory);
        assert!(parities(&mut memory) == expected, "{} differs from ISA-L", kernel.name);
    }

    let mut seconds = vec![Vec::new(); kernels.len() + 1];
    for round in 0..rounds {
        for turn in 0..=kernels.len() {
            let which = (turn + round) % (kernels.len() + 1);
            let took = match kernels.get(which) {
                Some(kernel) => time_ours(case, kernel, &mut memory),
                None => time_isal(case, &mut memory),
            };
            seconds[which].push(took.as_secs_f64());
        }
    }
    print(case, &kernels, seconds);
}

fn random_data(case: &Case) -> Chunks {
    let mut memory = Chunks::new(case.data + usize::from(case.parity), case.bytes);
    let mut seed = 1u64;
    for byte in memory.chunks().iter_mut().take(case.data).flat_map(|chunk| chunk.iter_mut()) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = seed.to_le_bytes()[7];
    }
    memory
}

fn time_isal(case: &Case, memory: &mut Chunks) -> Duration {
    let mut chunks = memory.chunks();
    let mut array: Vec<*mut c_void> =
        chunks.iter_mut().map(|chunk| chunk.as_mut_ptr().cast()).collect();
    let (vects, len) = (
        c_int::try_from(array.len()).expect("small"),
        c_int::try_from(case.bytes).expect("small"),
    );
    time(case.repeat, || {
        // SAFETY: `array` points to `vects` chunks of `bytes`, aligned to 32 bytes.
        let failed = unsafe {
            match case.parity {
                1 => xor_gen(vects, len, array.as_mut_ptr()),
                _ => pq_gen(vects, len, array.as_mut_ptr()),
            }
        };
        assert_eq!(failed, 0);
    })
}

fn time_ours(case: &Case, kernel: &Kernel, memory: &mut Chunks) -> Duration {
    let code = by_parity_chunks(case.parity);
    let mut chunks = memory.chunks();
    let (sources, targets) = chunks.split_at_mut(case.data);
    let sources: Vec<(u8, &[u8])> = (0..).zip(sources).map(|(i, c)| (i, &**c)).collect();
    let first = u8::try_from(case.data).expect("small");
    let mut targets: Vec<(u8, &mut [u8])> =
        (first..).zip(targets).map(|(i, c)| (i, &mut **c)).collect();
    time(case.repeat, || solve_with(kernel, code, first, &sources, &mut targets))
}

/// Prints the median speeds, given the seconds of each kernel, then of ISA-L.
fn print(case: &Case, kernels: &[&Kernel], mut seconds: Vec<Vec<f64>>) {
    let name = by_parity_chunks(case.parity).name;
    let total = f64::from(u32::try_from(case.data * case.bytes).expect("small"));
    let isal = seconds.pop().expect("the last are ISA-L's");
    println!("{name:<5}{:<8}{:>7.1} GB/s", "isa-l", total / median(isal.clone()) / 1e9);
    for (kernel, seconds) in kernels.iter().zip(seconds) {
        let ratio = median(seconds.iter().zip(&isal).map(|(s, isal)| isal / s).collect());
        let speed = total / median(seconds) / 1e9;
        println!("{name:<5}{:<8}{speed:>7.1} GB/s {ratio:>6.2} x ISA-L", kernel.name);
    }
}
