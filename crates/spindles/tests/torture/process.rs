//! The shape *process*: kills `spindles copy` into an array at random moments, or when a random
//! block reaches its member, and takes members away. The array opens without help, and every block
//! is old or new. Only with members missing may blocks that were being written return errors.
//!
//! `SPINDLES_KILL_ROUNDS=70 cargo test -p spindles --test program torture::process` for more.

use crate::torture::client::Client;
use crate::torture::ledger::{Ledger, Wish};
use crate::torture::library::Library;
use crate::torture::number;
use crate::torture::random::Random;
use crate::world::{Run, Running, World};
use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_workload::stamp::{Found, Stamp};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread::sleep;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 6144;
const BLOCK_BYTES: u32 = 4096;
const MEMBER_BYTES: u64 = 32 << 20;
/// The most blocks read at once.
const AT_ONCE: u32 = 48;
/// The name of the device for the journal.
const JOURNAL: &str = "journal";

/// Starts to copy from one name to another.
fn start_copy(place: &World, from: &str, to: &str) -> Running {
    let bytes = (BLOCKS * u64::from(BLOCK_BYTES)).to_string();
    place.start(place.command_of(&["copy", from, to, "--bytes", &bytes]))
}

fn copy(place: &World, from: &str, to: &str) -> Run {
    start_copy(place, from, to).end(None)
}

/// When a copy is killed.
#[derive(Debug)]
enum Moment {
    After(Duration),
    /// When this block of a device changes.
    Written {
        device: String,
        byte: u64,
    },
}

impl Moment {
    /// Draws a block of the array's data. Its old contents show where it lies on the devices.
    fn of_block(random: &mut Random, place: &World, devices: &[&str], old: &[u8]) -> Self {
        let block_bytes = usize::try_from(BLOCK_BYTES).expect("64 bits");
        let at = random.index(old.len() / block_bytes) * block_bytes;
        let block = &old[at..at + block_bytes];
        for device in devices {
            let bytes = fs::read(place.path(device)).expect("a device");
            if let Some(found) = bytes.chunks(block_bytes).position(|each| each == block) {
                return Self::Written {
                    device: (*device).to_owned(),
                    byte: u64::try_from(found * block_bytes).expect("64 bits"),
                };
            }
        }
        panic!("no device holds the block at {at}");
    }

    /// Kills a copy at this moment, if it still runs then.
    fn kill(&self, place: &World, mut copy: Running) {
        match self {
            Self::After(time) => {
                copy.end(Some(*time));
            }
            Self::Written { device, byte } => {
                let device = File::open(place.path(device)).expect("a device");
                let read = || {
                    let mut block = [0; BLOCK_BYTES as usize];
                    device.read_exact_at(&mut block, *byte).expect("a block");
                    block
                };
                let old = read();
                while !copy.has_ended() && read() == old {
                    sleep(Duration::from_micros(100));
                }
                copy.kill();
            }
        }
    }
}

fn array(devices: &[&str]) -> String {
    format!("array:{}", devices.join(","))
}

/// Makes an array on all of these devices, of which `JOURNAL` is no member.
fn create(place: &World, level: &str, devices: &[&str], checksum: &str) {
    for device in devices {
        place.make(device, MEMBER_BYTES);
    }
    let members: Vec<&str> = devices
        .iter()
        .copied()
        .filter(|device| *device != JOURNAL)
        .collect();
    let journal = if members.len() < devices.len() {
        " --journal journal"
    } else {
        ""
    };
    let expression = format!("{level}({})", members.join(","));
    let line = format!("create box {expression} --chunk 16K --checksum {checksum}{journal}");
    place.tries(&line).expect("an array");
}

/// Reads every block after a kill, and closes the array.
fn read_all(place: &World, devices: &[&str], ledger: &mut Ledger) -> Result<(), String> {
    let paths = devices.iter().map(|device| place.path(device));
    let paths: Vec<String> = paths
        .map(|path| path.to_str().expect("UTF-8").to_owned())
        .collect();
    let names: Vec<&str> = paths.iter().map(String::as_str).collect();
    // A single copy may be left.
    let options = AssembleOptions {
        degraded: true,
        ..AssembleOptions::default()
    };
    let assembled = assemble(&names, &options).map_err(|error| error.to_string())?;
    let link = Library::new(assembled.target, 1, AT_ONCE);
    let mut client = Client::new(link, ledger);
    client.read_all(u64::from(AT_ONCE))?;
    let closed = client.link.target.close();
    closed.map_err(|error| error.to_string())
}

/// Returns true if the bytes hold sectors of several writes.
fn is_mixed(bytes: &[u8]) -> bool {
    let sectors = bytes.chunks_exact(usize::try_from(BLOCK_BYTES).expect("64 bits"));
    let mut writes = sectors.map(|sector| match Stamp::find(sector) {
        Found::Stamp(stamp) => Some(stamp.write),
        _ => None,
    });
    let first = writes.next();
    writes.any(|write| Some(write) != first)
}

/// Judges the array after a kill. Returns the number of lost blocks, and whether the kill hit the
/// middle of the write.
fn judge(place: &World, left: &[&str], ledger: &mut Ledger) -> Result<(usize, bool), String> {
    read_all(place, left, ledger)?;
    let lost = ledger.failed_reads.clone();
    // Read twice: the first read must not change the result.
    read_all(place, left, ledger)?;
    if ledger.failed_reads[lost.len()..] != lost {
        return Err("other blocks are lost when they are read again".to_owned());
    }
    // `copy` can read it too, or reports what it can't.
    let read = copy(place, &array(left), "out");
    if (read.status == 0) != lost.is_empty() {
        return Err(format!(
            "{} are lost, and a copy: {}",
            lost.len(),
            read.error
        ));
    }
    if !lost.is_empty() {
        return Ok((lost.len(), true));
    }
    let out = fs::read(place.path("out")).expect("it was copied");
    ledger.found(0, &out)?;
    Ok((0, is_mixed(&out)))
}

fn kill_rounds(level: &str, members: usize, tolerance: usize, checksum: &str, journal: bool) {
    let mut devices = ["a", "b", "c", "d", "e"][..members].to_vec();
    devices.extend(journal.then_some(JOURNAL));
    let devices = devices.as_slice();
    let base = World::new("", 0);
    create(&base, level, devices, checksum);
    let seed = u64::from(std::process::id());
    let mut ledger = Ledger::new(seed, BLOCK_BYTES);
    ledger.opened(BLOCKS, 1);
    let old = ledger.asks(Wish::Write { fua: true }, 0..BLOCKS);
    let old_bytes = ledger.payload(old);
    fs::write(base.path("data"), &old_bytes).expect("room");
    let done = copy(&base, "data", &array(devices));
    let answer = (done.status == 0).then_some(&[][..]).ok_or(done.error);
    ledger.answered(old, answer).expect("it is written");
    let new = ledger.asks(Wish::Write { fua: true }, 0..BLOCKS);
    fs::write(base.path("data"), ledger.payload(new)).expect("room");
    let data = base.path("data");
    let data = data.to_str().expect("UTF-8");
    ledger.crashed(false);
    let fresh = || {
        let place = World::new("", 0);
        for device in devices {
            fs::copy(base.path(device), place.path(device)).expect("a copy");
        }
        place
    };
    let place = fresh();
    let begin = Instant::now();
    let whole = copy(&place, data, &array(devices));
    whole.ends(0);
    let takes_us = u64::try_from(begin.elapsed().as_micros()).expect("short");
    println!("{level}, {checksum}, {journal}: a copy takes {takes_us} us; seed {seed}");
    let mut random = Random::of(seed, level);
    let rounds = number("SPINDLES_KILL_ROUNDS").unwrap_or(7);
    let (mut in_the_middle, mut lost_blocks) = (0, 0);
    // More rounds than requested, until a kill hits the middle of a write.
    for round in 0..20 * rounds {
        if round >= rounds && in_the_middle > 0 {
            break;
        }
        let place = fresh();
        let moment = if round % 2 == 0 {
            // Starting takes part of the time.
            Moment::After(Duration::from_micros(takes_us / 4 + random.below(takes_us)))
        } else {
            Moment::of_block(&mut random, &place, devices, &old_bytes)
        };
        let copy = start_copy(&place, data, &array(devices));
        moment.kill(&place, copy);
        let mut left = devices.to_vec();
        if journal && random.one_in(3) {
            left.truncate(members);
        } else {
            for gone in 0..random.index(tolerance + 1) {
                left.remove(random.index(members - gone));
            }
        }
        let mut ledger = ledger.clone();
        if left.len() < devices.len() {
            ledger.lacks();
        }
        match judge(&place, &left, &mut ledger) {
            Ok((lost, is_middle)) => {
                lost_blocks += lost;
                in_the_middle += u64::from(is_middle);
            }
            Err(what) => panic!("round {round}, {moment:?}, {left:?} left: {what}"),
        }
    }
    println!("{level}: {lost_blocks} blocks answered errors, {in_the_middle} kills in the middle");
    assert!(in_the_middle > 0, "no round was killed in the middle");
}

#[test]
fn parity_on_three() {
    kill_rounds("raid5", 3, 1, "none", false);
}

#[test]
fn parity_with_checksums() {
    kill_rounds("raid5", 4, 1, "crc32c", false);
}

#[test]
fn double_parity_on_five() {
    kill_rounds("raid6", 5, 2, "none", false);
}

#[test]
fn a_mirror() {
    kill_rounds("raid1", 2, 1, "none", false);
}

#[test]
fn a_mirror_with_checksums() {
    kill_rounds("raid1", 2, 1, "crc32c", false);
}

/// The device of the journal may be taken away too.
#[test]
fn parity_with_a_journal_device() {
    kill_rounds("raid5", 4, 1, "none", true);
}

#[test]
fn parity_with_checksums_and_a_journal_device() {
    kill_rounds("raid5", 4, 1, "crc32c", true);
}
