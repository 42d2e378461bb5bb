//! Measures the parity kernels of this machine against a plain copy.
//!
//! Every round measures all cases in a new order, so that the noise of a shared machine affects all
//! of them equally. The report contains the medians over the rounds.

use spindles_parity::{CHUNKS_MAX, CODES, Code, KERNELS, Kernel, solve_with, update_with};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Most data chunks that every code supports.
pub(crate) const DATA_CHUNKS_MAX: u8 = CHUNKS_MAX - 3;
/// The longest chunk that can be measured.
pub(crate) const CHUNK_BYTES_MAX: u32 = 64 << 20;

/// Options of the measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Data chunks of a group, `1..=DATA_CHUNKS_MAX`.
    pub data_chunks: u8,
    /// Length of a chunk, `1..=CHUNK_BYTES_MAX`.
    pub chunk_bytes: u32,
    /// Measurements per case.
    pub rounds: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_chunks: 8,
            chunk_bytes: 64 << 10,
            rounds: 51,
        }
    }
}

/// The results.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Bytes copied per second.
    pub memcpy_bytes_per_s: f64,
    /// One row per code with parity, for each kernel that this machine can run, slowest kernel
    /// first.
    pub rows: Vec<Row>,
    /// The kernels of this architecture that this machine cannot run.
    pub unavailable: Vec<&'static str>,
}

/// The results of one kernel on one code.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The code's name.
    pub code: &'static str,
    /// Computing all parity from all data: bytes of data read per second.
    pub encode_bytes_per_s: f64,
    /// Recovering the first chunks of a group, as many as the code survives, from the others: bytes
    /// of the others read per second.
    pub recover_bytes_per_s: f64,
    /// Updating all parity after a change of one data chunk: bytes of new data per second.
    pub update_bytes_per_s: f64,
}

/// Least duration of one measurement.
const SLICE: Duration = Duration::from_micros(500);

#[derive(Clone, Copy)]
enum Job {
    Copy,
    Encode(&'static Kernel, &'static Code),
    Recover(&'static Kernel, &'static Code),
    Update(&'static Kernel, &'static Code),
}

/// Measures every kernel on every code. Takes a few seconds.
pub(crate) fn measure(options: &Options) -> Report {
    assert!((1..=DATA_CHUNKS_MAX).contains(&options.data_chunks));
    assert!((1..=CHUNK_BYTES_MAX).contains(&options.chunk_bytes) && options.rounds > 0);
    let (kernels, unavailable): (Vec<&Kernel>, Vec<&Kernel>) =
        KERNELS.iter().partition(|kernel| (kernel.available)());
    let codes = || CODES.iter().filter(|code| code.parity_chunks > 0);
    let mut jobs = vec![Job::Copy];
    for kernel in kernels {
        for code in codes() {
            jobs.extend([
                Job::Encode(kernel, code),
                Job::Recover(kernel, code),
                Job::Update(kernel, code),
            ]);
        }
    }

    let mut memory = Memory::new(options);
    let repeats: Vec<u32> = jobs.iter().map(|job| memory.repeats(*job)).collect();
    let mut rates = vec![Vec::new(); jobs.len()];
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let mut random = 1_u64;
    for _ in 0..options.rounds {
        shuffle(&mut order, &mut random);
        for &case in &order {
            rates[case].push(memory.rate(jobs[case], repeats[case]));
        }
    }

    let mut report = Report {
        memcpy_bytes_per_s: 0.0,
        rows: Vec::new(),
        unavailable: unavailable.iter().map(|kernel| kernel.name).collect(),
    };
    for (job, rates) in jobs.iter().zip(rates) {
        let rate = median(rates);
        match job {
            Job::Copy => report.memcpy_bytes_per_s = rate,
            Job::Encode(kernel, code) => report.rows.push(Row {
                kernel: kernel.name,
                code: code.name,
                encode_bytes_per_s: rate,
                recover_bytes_per_s: 0.0,
                update_bytes_per_s: 0.0,
            }),
            Job::Recover(..) => last(&mut report.rows).recover_bytes_per_s = rate,
            Job::Update(..) => last(&mut report.rows).update_bytes_per_s = rate,
        }
    }
    report
}

fn last(rows: &mut [Row]) -> &mut Row {
    rows.last_mut().expect("a row begins with its encoding")
}

/// Shuffles the cases: the clock rate of a core depends on its recent work, so the order matters.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for at in (1..order.len()).rev() {
        *random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let below = u64::try_from(at).expect("few cases") + 1;
        order.swap(
            at,
            usize::try_from((*random >> 33) % below).expect("few cases"),
        );
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The chunks. Each begins on a page, as buffers of arrays do.
struct Memory {
    data_chunks: u8,
    chunk_bytes: usize,
    bytes: Vec<u8>,
}

const PAGE: usize = 4096;

impl Memory {
    fn new(options: &Options) -> Self {
        let chunk_bytes = usize::try_from(options.chunk_bytes).expect("at most 64 MiB");
        // Copies take twice the data; an update takes three parities and two versions of a chunk.
        let chunks =
            (2 * usize::from(options.data_chunks)).max(usize::from(options.data_chunks) + 4);
        let mut bytes = vec![0; chunks * chunk_bytes.next_multiple_of(PAGE) + PAGE];
        let mut state = 1_u64;
        for byte in &mut bytes {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *byte = state.to_le_bytes()[7];
        }
        Self {
            data_chunks: options.data_chunks,
            chunk_bytes,
            bytes,
        }
    }

    fn chunks(&mut self) -> Vec<&mut [u8]> {
        let start = self.bytes.as_ptr().align_offset(PAGE);
        self.bytes[start..]
            .chunks_exact_mut(self.chunk_bytes.next_multiple_of(PAGE))
            .map(|chunk| &mut chunk[..self.chunk_bytes])
            .collect()
    }

    /// Returns the number of repeats that makes a measurement long enough.
    fn repeats(&mut self, job: Job) -> u32 {
        self.run(job, 1); // Maps the pages and warms the caches.
        let mut repeats = 1;
        while self.run(job, repeats) < SLICE && repeats < 1 << 20 {
            repeats *= 2;
        }
        repeats
    }

    /// Measures bytes per second.
    fn rate(&mut self, job: Job, repeats: u32) -> f64 {
        let chunks = match job {
            Job::Update(..) => 1,
            Job::Copy | Job::Encode(..) | Job::Recover(..) => self.data_chunks,
        };
        let chunk_bytes = u32::try_from(self.chunk_bytes).expect("at most 64 MiB");
        let bytes = f64::from(chunks) * f64::from(chunk_bytes) * f64::from(repeats);
        bytes / self.run(job, repeats).as_secs_f64().max(1e-9)
    }

    fn run(&mut self, job: Job, repeats: u32) -> Duration {
        let data = self.data_chunks;
        let mut chunks = self.chunks();
        match job {
            Job::Copy => {
                let (from, to) = chunks.split_at_mut(data.into());
                time(repeats, || {
                    for (from, to) in from.iter().zip(to.iter_mut()) {
                        black_box(&mut **to).copy_from_slice(black_box(from));
                    }
                })
            }
            Job::Encode(kernel, code) => {
                let (sources, targets) = chunks.split_at_mut(data.into());
                let sources = sources_of(0, sources);
                let mut targets = targets_of(data, &mut targets[..code.parity_chunks.into()]);
                time(repeats, || {
                    solve_with(kernel, code, data, &sources, &mut targets);
                })
            }
            Job::Recover(kernel, code) => {
                let (targets, sources) = chunks.split_at_mut(code.parity_chunks.into());
                let sources = sources_of(code.parity_chunks, &sources[..data.into()]);
                let mut targets = targets_of(0, targets);
                time(repeats, || {
                    solve_with(kernel, code, data, &sources, &mut targets);
                })
            }
            Job::Update(kernel, code) => {
                let (parity, rest) = chunks.split_at_mut(code.parity_chunks.into());
                let pair = [(data - 1, &*rest[0], &*rest[rest.len() - 1])];
                let mut targets = targets_of(data, parity);
                time(repeats, || {
                    update_with(kernel, code, data, &pair, &mut targets);
                })
            }
        }
    }
}

fn sources_of<'a>(first: u8, chunks: &'a [&'a mut [u8]]) -> Vec<(u8, &'a [u8])> {
    (first..)
        .zip(chunks)
        .map(|(index, chunk)| (index, &**chunk))
        .collect()
}

fn targets_of<'a>(first: u8, chunks: &'a mut [&mut [u8]]) -> Vec<(u8, &'a mut [u8])> {
    (first..)
        .zip(chunks)
        .map(|(index, chunk)| (index, &mut **chunk))
        .collect()
}

fn time(repeats: u32, mut job: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..repeats {
        job();
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_measured_on_every_code() {
        for (data_chunks, chunk_bytes) in [(1, 1), (2, 512), (5, 1000)] {
            let report = measure(&Options {
                data_chunks,
                chunk_bytes,
                rounds: 1,
            });
            let kernels = KERNELS.len() - report.unavailable.len();
            assert_eq!(report.rows.len(), kernels * (CODES.len() - 1));
            assert!(report.memcpy_bytes_per_s > 0.0);
            for row in &report.rows {
                let rates = [
                    row.encode_bytes_per_s,
                    row.recover_bytes_per_s,
                    row.update_bytes_per_s,
                ];
                assert!(
                    rates.iter().all(|rate| *rate > 0.0 && rate.is_finite()),
                    "{row:?}"
                );
            }
        }
    }
}
