//! Times a user's program that makes a file system: `mkfs.ext4`, `newfs`.

use crate::measure::failure::Failure;
use crate::measure::tool;
use crate::systems::export::Exported;
use crate::systems::undo;
use spindles_measure::{Histogram, Run};
use std::fs::File;

/// Runs `words` with the device as the last argument. The time includes a flush of the device, so
/// that the file system is durable.
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
    let watched = tool::watched(exported, devices);
    let ((), elapsed_ns) = tool::timed(&watched, idle_permille, run, || {
        undo::run(program, &arguments)?;
        let opened = File::options().write(true).open(&exported.device);
        let flushed = opened.and_then(|device| device.sync_all());
        flushed.map_err(|error| Failure::Failed(format!("{}: {error}", exported.device)))
    })?;
    run.elapsed_ns = elapsed_ns;
    run.operations = 1;
    run.counted = 1;
    let mut latency = Histogram::new();
    latency.record(run.elapsed_ns);
    run.latency.insert("newfs".to_owned(), latency);
    let version = tool::version(program, "-V");
    run.workload
        .parameters
        .insert("version".to_owned(), version);
    Ok(())
}
