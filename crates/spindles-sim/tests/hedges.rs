//! Members that stall: how long clients wait for reads, with hedges and without, exactly, in
//! virtual time.

use super::runs::fixed;
use spindles_sim::{Options, Outcome, run};
use spindles_workload::history::Initial;

const MS: u64 = 1_000_000;
/// A member stalls after this many of the session's requests.
const STALL_AT: u32 = 2000;

/// Returns a run of one session of reads in which a disk stalls once, for up to 60 ms.
fn options(seed: u64, level: &str, checksums: bool, hedges: u32) -> Options {
    let checked = ["no-checksums", "checksums"][usize::from(checksums)];
    let words = "4-wide 2400-requests 8-deep calm close write-through alike";
    let mut options = Options::swarm(seed, &fixed(&format!("{level} {checked} {words}")));
    options.mix.read = 100;
    options.mix.write = 0;
    options.mix.flush = 0;
    options.mix.discard = 0;
    options.mix.write_zeroes = 0;
    options.workload =
        checksums.then(|| spindles_workload::by_name("dd-write").expect("a row of the table"));
    options.beyond = false;
    options.initial = Initial::Zeros;
    options.limit_requests = 8;
    options.limit_columns = 32;
    options.limit_hedges = hedges;
    options.checksum_pages = 1000;
    options.request_blocks_max = 4;
    options.region_groups = u32::from(checksums);
    options.faults.stall_factor = 10;
    options.faults.stall_min_ns = MS;
    options.faults.hedge_share = 20;
    options.faults.slow_factor = 0;
    options.sessions.truncate(1);
    for session in &mut options.sessions {
        session.faults = vec![("stall", STALL_AT)];
        session.quiet_after = None;
    }
    options
}

fn outcome(options: &Options) -> Outcome {
    let outcome = run(options, false);
    assert_eq!(outcome.failure, None, "seed {}", options.seed);
    outcome
}

/// The longest that a client may wait for a read: the hedge delay, then two waits for other
/// members. One wait may include queueing behind a request that computes the same rows.
const LONGEST_NS: u64 = 2 * MS;

#[test]
fn requests_do_not_wait_for_a_stalled_member() {
    let mut helped = 0;
    for level in ["raid1", "raid10", "raid5", "raid6"] {
        for checksums in [false, true] {
            for seed in 0..12 {
                let with = outcome(&options(seed, level, checksums, 8));
                let longest_ns = with.longest_read_ns;
                let what = format!("seed {seed}: {}, {longest_ns} ns", with.tree);
                assert!(longest_ns < LONGEST_NS, "{what}");
                let without = outcome(&options(seed, level, checksums, 0));
                helped += u32::from(without.longest_read_ns > 10 * MS);
            }
        }
    }
    assert!(
        helped > 50,
        "a client would have waited in only {helped} runs"
    );
}

/// Reads and writes, other faults, crashes, and arrays of arrays.
#[test]
fn hedged_reads_keep_all_promises() {
    let fixed = fixed("120-requests stall slow latent_sector_error dropout rot_met rebuild");
    let (mut hedged, mut runs) = (0, 0);
    for seed in 0..300 {
        let mut options = Options::swarm(seed, &fixed);
        for session in &mut options.sessions {
            session.faults.extend([("stall", 60), ("stall", 90)]);
            session.faults.sort_by_key(|&(_, at)| at);
        }
        options.mix.read += 6;
        let outcome = outcome(&options);
        let count = outcome.struck.get("hedged").copied().unwrap_or(0);
        hedged += count;
        runs += u64::from(count > 0);
    }
    println!("{hedged} reads hedged in {runs} runs");
    assert!(runs > 60, "hedges in {runs} runs only");
}
