//! The shape *memory*: arrays served under memory pressure, in a control group whose limit covers
//! the servers, their clients and a memory hog. The clients are fio over NBD, and on an ext4 over
//! `--fuse` and a loop device, whose dirty pages are reclaimed through the server. Members go and
//! return meanwhile. No command or client hangs, the servers do not grow, and all reads return the
//! written data.
//!
//! `SPINDLES_SOAK_SECONDS` sets the duration, `SPINDLES_SOAK_FIRST` the first seed of the commands.

mod array;
mod fio;
mod group;
mod sizes;

use crate::loop_devices::Loop;
use crate::torture::number;
use array::Array;
use fio::{Client, Engine, Hog};
use group::Group;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Enough to show that it works. `cargo xtask fleet soak` finds what takes time.
const SECONDS: u64 = 5;
/// Memory limit of the group.
const LIMIT_BYTES: u64 = 288 << 20;
/// Memory that the hog allocates and frees in turn.
const HOG_BYTES: u64 = 80 << 20;
/// A client without progress for this long hangs.
const STANDSTILL_MAX: Duration = Duration::from_mins(1);
/// Time between two looks at the clients.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// NBD connections, each with a separate part of the array.
const CONNECTIONS: u64 = 4;
const PART_BYTES: u64 = 32 << 20;

/// The array as a file under a loop device, with a file system on it.
struct FileSystem {
    mounted: bool,
    at: PathBuf,
    device: Loop,
}

impl FileSystem {
    /// Makes it; an error names what is missing.
    fn make(array: &Array) -> Result<Self, String> {
        let file = array.path("file");
        let device = Loop::with(&file, &["--direct-io=on", "--sector-size", "4096"])?;
        let mut made = Self {
            mounted: false,
            at: array.path("mnt"),
            device,
        };
        std::fs::create_dir(&made.at).expect("a folder");
        run("mkfs.ext4", &["-q", "-F", &made.device.0])?;
        let at = made.at.to_str().expect("UTF-8");
        run("mount", &[&made.device.0, at])?;
        made.mounted = true;
        Ok(made)
    }

    /// Unmounts it, and checks it.
    fn check(mut self) {
        let at = self.at.to_str().expect("UTF-8");
        run("umount", &[at]).expect("it is unused");
        self.mounted = false;
        run("fsck.ext4", &["-f", "-n", &self.device.0]).expect("it is in order");
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        if self.mounted {
            drop(Command::new("umount").arg("--lazy").arg(&self.at).status());
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    Err(format!("{program} {arguments:?}: {out}{error}"))
}

/// Returns true if a server can be exempt from write throttling, which needs `CAP_SYS_RESOURCE`.
fn may_be_exempt() -> bool {
    const SYS_RESOURCE: u64 = 1 << 24;
    let table = fs::read_to_string("/proc/self/status").expect("a table");
    let may = table.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let may = may.expect("there is that line").trim();
    u64::from_str_radix(may, 16).expect("a number") & SYS_RESOURCE != 0
}

fn exists(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

/// Watches the clients until each has ended and the condition holds.
///
/// # Panics
///
/// A client failed or hangs, or a server has ended.
fn watch(clients: &mut [Client], arrays: &[&Array], condition: impl Fn() -> bool) {
    loop {
        let looked = arrays.iter().try_for_each(|array| array.look());
        // Looks at all clients, even if one has not ended yet.
        let through: Result<Vec<bool>, String> = looked.and_then(|()| {
            let looks = clients.iter_mut().map(|client| client.look(STANDSTILL_MAX));
            looks.collect()
        });
        match through {
            Ok(through) if through.iter().all(|it| *it) && condition() => return,
            Ok(_) => thread::sleep(LOOK_INTERVAL),
            Err(why) => {
                let stacks: Vec<String> = arrays.iter().map(|array| array.stacks()).collect();
                for array in arrays {
                    array.abandon();
                }
                panic!("{why}\n{}", stacks.join("\n"));
            }
        }
    }
}

#[test]
fn servers_survive_a_memory_shortage() {
    const NAME: &str = "servers_survive_a_memory_shortage";
    if !exists("fio") {
        return println!("SKIPPED: {NAME}: fio is not installed");
    }
    let group = match Group::new(LIMIT_BYTES) {
        Ok(group) => group,
        Err(reason) => return println!("SKIPPED: {NAME}: {reason}"),
    };
    let seconds = number("SPINDLES_SOAK_SECONDS").unwrap_or(SECONDS);
    let seed = number("SPINDLES_SOAK_FIRST").unwrap_or(1);
    let disk = Array::serve("--nbd", "unix:socket", &group, true).expect("it is served");
    let mut clients = Vec::new();
    for part in 0..CONNECTIONS {
        let engine = Engine::Nbd {
            uri: disk.uri(),
            offset: part * PART_BYTES,
        };
        clients.push((format!("connection {part}"), engine, PART_BYTES));
    }
    // The part that needs the most rights is skipped without them.
    let in_group = !group.waits_for_writes() || may_be_exempt();
    if !in_group {
        println!(
            "SKIPPED: {NAME}: the server of the file in the group: CAP_SYS_RESOURCE is missing"
        );
    }
    let file = Array::serve("--fuse", "file", &group, in_group);
    let file = file.and_then(|file| FileSystem::make(&file).map(|on_it| (file, on_it)));
    if let Err(reason) = &file {
        println!("SKIPPED: {NAME}: a file system on it: {reason}");
    }
    let file = file.ok();
    if let Some((_, on_it)) = &file {
        let buffered = Engine::Buffered(on_it.at.join("buffered"));
        clients.push(("a buffered file".to_owned(), buffered, 96 << 20));
        let mapped = Engine::Mapped(on_it.at.join("mapped"));
        clients.push(("a mapped file".to_owned(), mapped, 48 << 20));
    }
    let arrays: Vec<&Array> = [Some(&disk), file.as_ref().map(|(file, _)| file)]
        .into_iter()
        .flatten()
        .collect();
    soak(&clients, &arrays, seconds, seed, &group);
    if let Some((file, on_it)) = file {
        on_it.check();
        file.stop();
    }
    disk.stop();
    let (reached, peak) = (group.times_reached(), group.peak_bytes() >> 20);
    println!(
        "soak: the limit of {} MiB was reached {reached} times, peak {peak} MiB",
        LIMIT_BYTES >> 20
    );
    assert!(reached > 0, "memory was never short: this shows nothing");
}

/// Runs all clients at once for this time; then each verifies all of its data.
fn soak(
    clients: &[(String, Engine, u64)],
    arrays: &[&Array],
    seconds: u64,
    seed: u64,
    group: &Group,
) {
    let begin = |seconds: Option<u64>| -> Vec<Client> {
        let begun = clients
            .iter()
            .map(|(name, engine, bytes)| Client::begin(name, engine, *bytes, seconds, group));
        begun.collect()
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut writers = begin(Some(seconds));
    let hog = Hog::begin(HOG_BYTES, group);
    thread::scope(|scope| {
        let managers: Vec<_> = (seed..)
            .zip(arrays)
            .map(|(seed, array)| scope.spawn(move || array.manage(seed, end)))
            .collect();
        watch(&mut writers, arrays, || {
            managers.iter().all(ScopedJoinHandle::is_finished)
        });
        for (manager, array) in managers.into_iter().zip(arrays) {
            let series = manager.join().expect("its commands are done");
            println!("soak: {}: {series}", array.name());
            series.assert_steady(array.name());
        }
    });
    for writer in &writers {
        println!("soak: {writer}");
    }
    watch(&mut begin(None), arrays, || true);
    drop(hog);
}
