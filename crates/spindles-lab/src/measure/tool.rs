//! Runs and times another program, with the counters of the machine around it.

use crate::machine::clock::{self, MachineTicks};
use crate::machine::evidence::Watched;
use crate::measure::failure::Failure;
use crate::measure::measurement;
use crate::systems::export::Exported;
use spindles_device::physical_device_of;
use spindles_measure::{Cpu, Run};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Returns which counters belong to an exported system on these devices.
pub(crate) fn watched(exported: &Exported, devices: &[String]) -> Watched {
    let members = devices
        .iter()
        .filter_map(|device| physical_device_of(Path::new(device)));
    Watched {
        devices: members.map(|name| (name, true)).collect(),
        processes: exported.process.into_iter().collect(),
        own: exported.counters.clone(),
    }
}

/// Runs the work of a tool, and fills in the counters of the machine meanwhile. Returns the work's
/// result and its duration in nanoseconds. The caller sets the duration once there is a result: a
/// run with a time counts as measured.
pub(crate) fn timed<T>(
    watched: &Watched,
    idle_permille: u64,
    run: &mut Run,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, u64), Failure> {
    let before = watched.now();
    let machine = MachineTicks::now();
    let began = Instant::now();
    let done = work()?;
    let elapsed_ns = clock::duration_ns(began.elapsed());
    let ticks = MachineTicks::now().since(machine);
    let after = watched.now();
    let evidence = after.since(&before, Vec::new());
    measurement::of_members(&after.members_since(&before), run);
    let engine_ns = after.cpu_ns_since(&before);
    run.cpu_ns = Cpu {
        workload: 0,
        engine: engine_ns,
        machine: measurement::machine_ns(ticks, idle_permille).max(engine_ns),
    };
    run.io = measurement::io_of_files();
    run.evidence = Some(evidence);
    run.doubts = measurement::doubts(ticks, idle_permille);
    Ok((done, elapsed_ns))
}

/// Returns the first line that a program prints when asked for its version; empty if it prints
/// nothing.
pub(crate) fn version(program: &str, asked: &str) -> String {
    let said = Command::new(program).arg(asked).output();
    let said = said.map_or_else(|_| Vec::new(), |said| [said.stdout, said.stderr].concat());
    let said = String::from_utf8_lossy(&said);
    said.lines().next().unwrap_or_default().trim().to_owned()
}
