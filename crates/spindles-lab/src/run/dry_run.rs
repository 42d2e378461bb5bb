//! Estimates what a run takes and lists what it would destroy, before anything is written.

use crate::experiment::Experiment;
use crate::experiment::systems::{self, Members};
use crate::run::calibrate::Parts;
use crate::run::described::workload_records;
use crate::run::preflight::{self, Side, bare_bytes, check, destroyed_by, workloads_of};
use crate::run::run_error::RunError;
use crate::systems::scratch;
use spindles_admin::wipe;
use spindles_device::OpenOptions;
use spindles_layout::Expression;
use spindles_measure::Workload;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The estimate of a run that did not happen.
#[derive(Clone, Debug, PartialEq)]
pub struct DryRun {
    /// Runs of a workload on a system, each with a record of its own, in all repetition blocks.
    pub runs: u64,
    /// Fewest and most repetition blocks.
    pub blocks: (u32, u32),
    /// Estimated seconds for the fewest blocks, at the rates below.
    pub seconds: f64,
    /// Estimated bytes that these blocks write, redundancy included.
    pub written_bytes: u64,
    /// Assumed rates of a member: sequential reads in bytes per second, random reads in blocks per
    /// second.
    pub rates: (f64, f64),
    /// True if the rates were measured on the members just now.
    pub is_measured: bool,
    /// Devices and files that lose their contents.
    pub lost: Vec<Loss>,
    /// Folder of the files that the run creates, and their total bytes.
    pub files: Option<(PathBuf, u64)>,
}

/// A device or file that loses its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The device.
    pub device: String,
    /// Reason for overwriting the device.
    pub why: String,
    /// The recognised contents, with an article; `None` if nothing was recognised.
    pub holds: Option<String>,
}

/// Assumed rates if no member can be measured: those of a slow SSD.
const IN_ORDER_PER_S: f64 = 200e6;
const RANDOM_PER_S: f64 = 2000.0;
/// Operations up to this size cost a random access each, larger ones their bytes.
const SMALL_BYTES: u64 = 32 << 10;
/// Seconds to create and open a system, for each block.
const SYSTEM_S: f64 = 0.3;
/// Seconds to watch the idle machine and to calibrate.
const BEFORE_S: f64 = 2.0;

/// Estimates a run. Reads from devices, and writes nothing.
///
/// # Errors
/// Everything that is wrong with the experiment, and each device that is missing or in use. A
/// device with contents is no error here.
pub fn dry_run(experiment: &Experiment, open: &OpenOptions) -> Result<DryRun, RunError> {
    let count = check(experiment, true)?;
    let members = match &experiment.members {
        Members::Devices(paths) => &paths[..count.min(paths.len())],
        Members::Files | Members::Fresh(_) | Members::Modelled(_) => &[],
    };
    preflight::check_devices(experiment, members, open)?;
    let (sides, _) = preflight::sides(experiment);
    let (rates, is_measured) = rates(experiment, count, open);
    let mut all = DryRun {
        runs: 0,
        blocks: (experiment.blocks, experiment.blocks_max),
        seconds: 0.0,
        written_bytes: 0,
        rates,
        is_measured,
        lost: lost(experiment, count),
        files: None,
    };
    for side in &sides {
        all.add(experiment, side);
    }
    let blocks = u64::from(experiment.blocks);
    all.runs *= blocks;
    all.seconds = BEFORE_S + all.seconds * f64::from(experiment.blocks);
    all.written_bytes *= blocks;
    if experiment.members == Members::Files && count > 0 {
        let folder = experiment.folder.clone();
        let folder = folder.unwrap_or_else(scratch::temporary_folder);
        let bytes = u64::try_from(count).expect("few") * preflight::member_bytes(experiment);
        // Laid out once.
        all.written_bytes += bytes;
        all.seconds += float(bytes) / rates.0;
        preflight::check_room(&folder, count, preflight::member_bytes(experiment))?;
        all.files = Some((folder, bytes));
    }
    Ok(all)
}

impl DryRun {
    /// Adds the work of one block on a system.
    fn add(&mut self, experiment: &Experiment, side: &Side) {
        let spec = &side.spec;
        let exists = systems::kind_of(&spec.target).exists;
        let is_filled = !exists && spec.mounting.is_none() && spec.commands.is_none();
        let filled_bytes = if is_filled {
            bare_bytes(experiment, spec)
        } else {
            0
        };
        let amplification = amplification(&spec.target);
        let (in_order, random) = self.rates;
        let mut written = float(filled_bytes);
        self.seconds += SYSTEM_S + float(filled_bytes) / in_order;
        for workload in workloads_of(experiment, spec) {
            for record in workload_records(workload) {
                let seconds = seconds(&record, in_order, random);
                self.runs += 1;
                self.seconds += seconds;
                if workload.writes() {
                    let most = if record.duration_ns > 0 {
                        seconds * in_order
                    } else {
                        f64::MAX
                    };
                    written += float(bytes(&record)).min(most);
                }
            }
        }
        self.written_bytes += whole(written * amplification);
    }
}

/// Returns about how many bytes a run of a workload moves.
fn bytes(record: &Workload) -> u64 {
    match record.operations.saturating_mul(record.operation_bytes) {
        0 => record.size_bytes,
        bytes => bytes,
    }
}

/// Returns about how many seconds a run of a workload takes.
fn seconds(record: &Workload, in_order: f64, random: f64) -> f64 {
    if record.duration_ns > 0 {
        return float(record.duration_ns) / 1e9;
    }
    let is_small = (1..=SMALL_BYTES).contains(&record.operation_bytes);
    let places = if is_small {
        float(record.operations) / random
    } else {
        0.0
    };
    places.max(float(bytes(record)) / in_order)
}

/// Returns the bytes written to members for each byte of the workload.
fn amplification(target: &str) -> f64 {
    let members =
        Expression::parse_counted(target).map_or(1, |expression| expression.leaves().len());
    let members = u32::try_from(members).unwrap_or(1);
    let data = members
        .saturating_sub(crate::systems::arrays::survives_of(target))
        .max(1);
    f64::from(members) / f64::from(data)
}

/// Returns the sequential and random rates of the slowest device of the user's, and true if they
/// were measured.
fn rates(experiment: &Experiment, count: usize, open: &OpenOptions) -> ((f64, f64), bool) {
    let assumed = ((IN_ORDER_PER_S, RANDOM_PER_S), false);
    let mut names: Vec<(String, bool)> = preflight::named_members(experiment);
    if let Members::Devices(paths) = &experiment.members {
        names.extend(paths.iter().take(count).map(|path| (path.clone(), false)));
    }
    if names.is_empty() {
        return assumed;
    }
    for (_, writes) in &mut names {
        *writes = false;
    }
    let interrupt = AtomicBool::new(false);
    let open = OpenOptions {
        read_only: true,
        ..open.clone()
    };
    let parts = Parts {
        members: &names,
        open: &open,
        experiment,
        interrupt: &interrupt,
    };
    let members: Vec<_> = names
        .iter()
        .map(|(name, _)| parts.member(name, false))
        .collect();
    let in_order = members
        .iter()
        .map(|member| member.read_bytes_per_s)
        .filter(|rate| *rate > 0)
        .min();
    let random = members
        .iter()
        .map(|member| member.random_reads_per_s)
        .filter(|rate| *rate > 0)
        .min();
    in_order.zip(random).map_or(assumed, |(in_order, random)| {
        ((float(in_order), float(random)), true)
    })
}

/// Lists the devices that would lose their contents, each once.
fn lost(experiment: &Experiment, count: usize) -> Vec<Loss> {
    let mut lost: Vec<Loss> = Vec::new();
    let mut add = |device: &str, why: &str| {
        if !lost.iter().any(|loss| loss.device == device) {
            lost.push(Loss {
                device: device.to_owned(),
                why: why.to_owned(),
                holds: wipe::overwritten(device).map(|overwritten| overwritten.holds),
            });
        }
    };
    if let Members::Devices(paths) = &experiment.members {
        for path in paths.iter().take(count) {
            add(path, "it is a member of the experiment");
        }
    }
    for spec in &experiment.systems {
        let Some(why) = destroyed_by(experiment, spec) else {
            continue;
        };
        for device in preflight::named_by(spec).unwrap_or_default() {
            add(&device, &format!("system \"{}\": {why}", spec.name));
        }
    }
    lost
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn float(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, above 0"
)]
fn whole(count: f64) -> u64 {
    count as u64
}
