//! How long a program of the user's takes to make a file system: `mkfs.ext4`, `newfs`.

use crate::clock::{self, MachineTicks};
use crate::evidence::Watched;
use crate::execute::Failure;
use crate::export::Exported;
use crate::{undo, whole};
use spindles_io::physical_device_of;
use spindles_measure::{Cpu, Histogram, Io, Run};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Runs `words` with the device as the last of them. Durable when it ends: the device is flushed within
/// the time.
pub(crate) fn run(
    words: &[String],
    exported: &Exported,
    devices: &[String],
    idle_permille: u64,
    run: &mut Run,
) -> Result<(), Failure> {
    let (program, arguments) = words.split_first().expect("checked when it was read");
    let mut arguments = arguments.to_vec();
    arguments.push(exported.device.clone());
    let version = version(program);
    let members = devices
        .iter()
        .filter_map(|it| physical_device_of(Path::new(it)));
    let watched = Watched {
        devices: members.map(|name| (name, true)).collect(),
        processes: exported.process.into_iter().collect(),
    };
    let before = watched.now();
    let machine = MachineTicks::now();
    let began = Instant::now();
    undo::run(program, &arguments).map_err(Failure::Failed)?;
    let flushed = std::fs::File::options().write(true).open(&exported.device);
    let flushed = flushed.and_then(|device| device.sync_all());
    flushed.map_err(|error| Failure::Failed(format!("{}: {error}", exported.device)))?;
    let elapsed_ns = clock::duration_ns(began.elapsed());
    let ticks = MachineTicks::now().since(machine);
    let after = watched.now();
    let evidence = after.since(&before, Vec::new());
    run.elapsed_ns = elapsed_ns;
    run.operations = 1;
    run.counted = 1;
    let mut latency = Histogram::new();
    latency.record(elapsed_ns);
    run.latency.insert("newfs".to_owned(), latency);
    for member in evidence.devices.iter().filter(|device| device.member) {
        run.each_member.push(member.bytes);
        run.members.read += member.bytes.read;
        run.members.written += member.bytes.written;
    }
    let engine_ns = after.cpu_ns_since(&before);
    run.cpu_ns = Cpu {
        workload: 0,
        engine: engine_ns,
        machine: whole::machine_ns(ticks, idle_permille).max(engine_ns),
    };
    run.io = Io {
        backend: "files".to_owned(),
        direct: false,
    };
    run.evidence = Some(evidence);
    run.workload
        .parameters
        .insert("version".to_owned(), version);
    run.doubts = whole::doubts(ticks, idle_permille, None);
    Ok(())
}

/// What the program says of its version, the first line; empty where it says nothing.
fn version(program: &str) -> String {
    let said = Command::new(program).arg("-V").output();
    let said = said.map_or_else(|_| Vec::new(), |said| [said.stdout, said.stderr].concat());
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or_default().trim().to_owned()
}
