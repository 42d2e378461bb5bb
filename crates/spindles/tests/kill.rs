//! Kills `spindles copy` into an array at random moments, and takes members away. The array opens
//! without help, and every block is old or new. Only whole stripes that were being written may
//! return errors for blocks of a missing member.

#![allow(clippy::print_stdout, reason = "the figures")]

use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_block::{BlockIndex, BlockSize, BufferSlice, Operation, Request};
use spindles_device::OpenOptions;
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BYTES: usize = 24 << 20;
const BLOCK: usize = 4096;

/// A few random numbers: the moment of a kill is random by nature.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).expect("small")).expect("small")
    }
}

/// Blocks that depend on their file and offset.
fn pattern(file: u64) -> Vec<u8> {
    let words = u64::try_from(BYTES / 8).expect("small");
    let word = |at: u64| (at << 8 | file).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..words).flat_map(|at| word(at).to_le_bytes()).collect()
}

fn copy(folder: &Path, from: &str, to: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["copy", from, to, "--bytes", &BYTES.to_string()])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs")
}

fn array(devices: &[&str]) -> String {
    format!("array:{}", devices.join(","))
}

/// The name of the device for the journal.
const JOURNAL: &str = "journal";

/// Makes an array that holds the old file, in `folder/base`, on all of these devices. A device
/// named `JOURNAL` becomes the separate journal device.
fn prepare(folder: &Path, level: &str, devices: &[&str], checksum: ChecksumKind) {
    let base = folder.join("base");
    std::fs::create_dir(&base).expect("a folder");
    let paths: Vec<String> = devices
        .iter()
        .map(|name| base.join(name).to_str().expect("UTF-8").to_owned())
        .collect();
    for path in &paths {
        let file = std::fs::File::create(path).expect("a file");
        file.set_len(32 << 20).expect("its length");
    }
    let options = CreateOptions {
        block_size: BlockSize::B4096,
        chunk_bytes: Some(16 << 10),
        checksum: Some(checksum),
        journal: paths.iter().find(|path| path.ends_with(JOURNAL)).cloned(),
        open: OpenOptions::default(),
        ..CreateOptions::new("box")
    };
    let members = paths.iter().filter(|path| !path.ends_with(JOURNAL));
    let members: Vec<&str> = members.map(String::as_str).collect();
    let expression = format!("{level}({})", members.join(","));
    let expression = Expression::parse(&expression).expect("an expression");
    create(&expression, &options, &mut |_, _| true).expect("an array");
    let done = copy(&base, "../old", &array(devices)).wait_with_output();
    let done = done.expect("it ran");
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Reads every block of an array after a kill, one by one; `None` for an error.
fn blocks_of(folder: &Path, devices: &[&str]) -> Vec<Option<Vec<u8>>> {
    let paths = devices.iter().map(|device| folder.join(device));
    let paths: Vec<String> = paths
        .map(|path| path.to_str().expect("UTF-8").to_owned())
        .collect();
    let names: Vec<&str> = paths.iter().map(String::as_str).collect();
    // A single copy may be left.
    let options = AssembleOptions {
        degraded: true,
        ..AssembleOptions::default()
    };
    let assembled = assemble(&names, &options);
    let mut target = assembled.expect("it opens by itself").target;
    let buffer = target.allocate(1);
    let mut read = |block: usize| {
        let request = Request {
            token: 0,
            operation: Operation::Read,
            block: BlockIndex(u64::try_from(block).expect("small")),
            blocks: 1,
            buffer: BufferSlice {
                buffer,
                first_block: 0,
            },
        };
        target.submit(request).expect("there is room");
        let reply = target.poll(true).expect("it is answered");
        reply
            .result
            .is_ok()
            .then(|| target.buffer(buffer)[..BLOCK].to_vec())
    };
    let blocks = (0..BYTES / BLOCK).map(&mut read).collect();
    target.close().expect("it closes");
    blocks
}

/// Counts the blocks that are new, that are still old, and that are lost.
fn judge(out: &[Option<Vec<u8>>], old: &[u8], new: &[u8], what: &str) -> (usize, usize, usize) {
    let mut counts = (0, 0, 0);
    let files = old.chunks_exact(BLOCK).zip(new.chunks_exact(BLOCK));
    for (at, (out, (old, new))) in out.iter().zip(files).enumerate() {
        match out.as_deref() {
            None => counts.2 += 1,
            Some(out) if out == new => counts.0 += 1,
            Some(out) => {
                assert!(out == old, "{what}: block {at} is neither old nor new");
                counts.1 += 1;
            }
        }
    }
    counts
}

fn kill_rounds(
    level: &str,
    members: usize,
    tolerance: usize,
    checksum: ChecksumKind,
    journal: bool,
) {
    let rounds = rounds();
    let folder = TempDir::new().expect("a folder");
    let folder = folder.path();
    let (old, new) = (pattern(1), pattern(2));
    std::fs::write(folder.join("old"), &old).expect("old");
    std::fs::write(folder.join("new"), &new).expect("new");
    let mut devices = ["a", "b", "c", "d", "e"][..members].to_vec();
    devices.extend(journal.then_some(JOURNAL));
    let devices = devices.as_slice();
    prepare(folder, level, devices, checksum);
    let round = folder.join("round");
    let fresh = || {
        if round.exists() {
            std::fs::remove_dir_all(&round).expect("an old round");
        }
        std::fs::create_dir(&round).expect("a folder");
        for device in devices {
            std::fs::copy(folder.join("base").join(device), round.join(device)).expect("a copy");
        }
    };
    fresh();
    let start = Instant::now();
    let whole = copy(&round, "../new", &array(devices)).wait_with_output();
    assert!(whole.expect("it ran").status.success());
    let takes_us = usize::try_from(start.elapsed().as_micros()).expect("short");

    let seed = std::process::id();
    let level = &if journal {
        format!("{level}, journal of its own")
    } else {
        level.to_owned()
    };
    println!("{level}: a copy takes {takes_us} us; seed {seed}");
    let mut random = Random(u64::from(seed) << 20 | 1);
    let mut in_the_middle = 0;
    let mut lost_blocks = 0;
    // More rounds than requested, until a kill hits the middle of a write.
    let more = (rounds..20 * rounds).map(|number| (number, true));
    for (number, extra) in (0..rounds).map(|number| (number, false)).chain(more) {
        if extra && in_the_middle > 0 {
            break;
        }
        fresh();
        let mut child = copy(&round, "../new", &array(devices));
        // Starting takes part of the time.
        let at_us = takes_us / 4 + random.below(takes_us);
        std::thread::sleep(Duration::from_micros(u64::try_from(at_us).expect("short")));
        child.kill().expect("SIGKILL");
        child.wait().expect("it ended");
        let mut left = devices.to_vec();
        if journal && random.below(3) == 0 {
            left.truncate(members);
        } else {
            for gone in 0..random.below(tolerance + 1) {
                left.remove(random.below(members - gone));
            }
        }
        let what = format!("{level}, round {number}, killed after {at_us} us, {left:?} left");
        // Read twice: the first read must not change the result.
        let out = blocks_of(&round, &left);
        let (came, stayed, lost) = judge(&out, &old, &new, &what);
        assert!(
            lost == 0 || left.len() < devices.len(),
            "{what}: {lost} are lost"
        );
        assert!(
            out == blocks_of(&round, &left),
            "{what}: read again it is different"
        );
        in_the_middle += usize::from(came > 0 && stayed > 0);
        lost_blocks += lost;
        // `copy` can read it too, or reports what it can't.
        let read = copy(&round, &array(&left), "out").wait_with_output();
        let read = read.expect("it ran");
        let message = String::from_utf8_lossy(&read.stderr);
        assert!(read.status.success() == (lost == 0), "{what}: {message}");
        if lost == 0 {
            let all = std::fs::read(round.join("out")).expect("out");
            let same = out.iter().flatten().flatten().eq(all.iter());
            assert!(same, "{what}: the command reads something else");
        }
    }
    println!("{level}: {lost_blocks} blocks answered errors");
    println!("{level}: {in_the_middle} of {rounds} rounds were killed in the middle");
    assert!(in_the_middle > 0, "no round was killed in the middle");
}

/// `SPINDLES_KILL_ROUNDS=70 cargo test -p spindles --test program kill::` for more.
fn rounds() -> usize {
    let rounds = std::env::var("SPINDLES_KILL_ROUNDS").ok();
    rounds.map_or(7, |rounds| rounds.parse().expect("a number of rounds"))
}

#[test]
fn parity_on_three() {
    kill_rounds("raid5", 3, 1, ChecksumKind::None, false);
}

#[test]
fn parity_with_checksums() {
    kill_rounds("raid5", 4, 1, ChecksumKind::Crc32c, false);
}

#[test]
fn double_parity_on_five() {
    kill_rounds("raid6", 5, 2, ChecksumKind::None, false);
}

#[test]
fn a_mirror() {
    kill_rounds("raid1", 2, 1, ChecksumKind::None, false);
}

#[test]
fn a_mirror_with_checksums() {
    kill_rounds("raid1", 2, 1, ChecksumKind::Crc32c, false);
}

/// The device of the journal may be taken away too.
#[test]
fn parity_with_a_journal_device() {
    kill_rounds("raid5", 4, 1, ChecksumKind::None, true);
}

#[test]
fn parity_with_checksums_and_a_journal_device() {
    kill_rounds("raid5", 4, 1, ChecksumKind::Crc32c, true);
}
