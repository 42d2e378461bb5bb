//! Opens every system once before the first run, and records the systems, the members and the
//! machine.

use super::options::go_on;
use super::state::{Runner, Stop, holds_files, moves_blocks};
use crate::experiment::Work;
use crate::experiment::systems::Members;
use crate::machine::clock::{self, MachineTicks};
use crate::machine::environment;
use crate::machine::evidence::MEMORY;
use crate::run::calibrate::Parts;
use crate::run::described::{described, described_folder, workload_records};
use crate::run::preflight::{self, bare_bytes_of, workloads_as};
use crate::run::run_error::RunError;
use crate::systems::pool::{self, Pool};
use crate::systems::targets;
use spindles_device::TargetFacts;
use spindles_device::physical_device_of;
use spindles_measure::{Environment, Record, System};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long the machine is watched before the first run, to measure other load.
const IDLE_WATCH: Duration = Duration::from_millis(500);

impl Runner<'_> {
    /// Opens every system once and describes it for the first records. Returns true if all members
    /// lie on one physical device.
    pub(super) fn describe_systems(&mut self) -> Result<bool, Stop> {
        let mut devices = BTreeSet::new();
        let mut beneath = Vec::new();
        for side in 0..self.sides.len() {
            if self.options.interrupt.load(Ordering::Relaxed) {
                return Err(Stop::Interrupted);
            }
            let what = format!("preparing {}", self.sides[side].spec.name);
            self.observer.progress(0, self.total, &what);
            let names = self.pool.names.clone();
            // No superblock of another system stays below a plain array.
            if moves_blocks(&self.sides[side].spec) {
                let folder = Path::new("");
                let pool = Pool::new(&self.experiment.members, names.len(), 0, folder);
                self.pool = pool.map_err(|source| {
                    let folder = folder.to_owned();
                    Stop::Error(RunError::Members { folder, source })
                })?;
            }
            let mut system = match self.prepare(side, &names) {
                Ok(system) => system,
                Err(why) => {
                    go_on(self.options.interrupt).map_err(|_| Stop::Interrupted)?;
                    return Err(Stop::Error(self.wrong_system(side, &why)));
                }
            };
            let described = self.describe(side, system.as_mut());
            devices.extend(described.map_err(|why| Stop::Error(self.wrong_system(side, &why)))?);
            // One device is no array.
            let members = system.devices();
            if members.len() > 1 {
                beneath.extend(
                    members
                        .iter()
                        .map(|member| physical_device_of(Path::new(member))),
                );
            }
            let ended = system.end();
            ended.map_err(|why| Stop::Error(self.wrong_system(side, &why)))?;
        }
        devices.remove(MEMORY);
        let shared_device = all_on_one(&beneath, self.pool.folder().is_some());
        self.lay_out()?;
        if self.experiment.members.modelled().is_none() {
            self.watch_idle_machine();
        }
        let mut environment = environment::capture(self.folder().as_deref(), &devices);
        if self.experiment.members.modelled().is_some() {
            environment = of_a_prediction(environment);
        } else {
            let idle = format!("{}.{} %", self.idle_permille / 10, self.idle_permille % 10);
            let more = &mut environment.more;
            more.insert("machine busy before the first run".to_owned(), idle);
        }
        let more = &mut environment.more;
        let left_out = self.experiment.left_out.iter();
        more.extend(left_out.map(|what| ("left out".to_owned(), what.clone())));
        let experiment = self.experiment_record(shared_device);
        self.record(Record::Experiment(experiment))?;
        self.record(Record::Environment(environment))?;
        if self.options.calibrate && self.experiment.members.modelled().is_none() {
            self.calibrate()?;
        }
        Ok(shared_device)
    }

    /// Describes a system. Returns the names of the physical devices beneath it.
    fn describe(
        &mut self,
        side: usize,
        system: &mut dyn targets::System,
    ) -> Result<Vec<String>, String> {
        let spec = &self.sides[side].spec;
        if !holds_files(spec, system) {
            let target = system.open()?;
            let facts = target.facts().clone();
            drop(target.close());
            let mut record = described(spec, &facts);
            let how = system.exported_how();
            if !how.is_empty() && preflight::is_exported(self.experiment, spec) {
                record
                    .options
                    .insert(System::THROUGH.to_owned(), how.to_owned());
            }
            self.sides[side].record = record;
            self.fits(side, &facts)?;
            let devices = facts.devices.into_iter();
            return Ok(devices
                .filter_map(|device| device.physical_device)
                .collect());
        }
        let facts = system.facts()?;
        let place = system.folder()?;
        let mut record = described_folder(spec, &place);
        if let Some(array) = facts {
            // The description of the array, with the capacity of its file system.
            record = System {
                capacity_bytes: record.capacity_bytes,
                options: record.options,
                ..described(spec, &array)
            };
        }
        self.sides[side].record = record;
        system.leave_folder()?;
        // Without the devices that only carry the file system to the members.
        let devices = place.watched.devices.into_iter();
        let members = devices.filter(|(_, is_member)| *is_member);
        Ok(members.map(|(name, _)| name).collect())
    }

    fn watch_idle_machine(&mut self) {
        let before = MachineTicks::now();
        self.observer
            .progress(0, self.total, "watching the idle machine");
        std::thread::sleep(IDLE_WATCH);
        self.idle_permille = MachineTicks::now().since(before).busy_permille();
    }

    fn lay_out(&mut self) -> Result<(), Stop> {
        self.observer
            .progress(0, self.total, "laying out the members");
        let interrupt = self.options.interrupt;
        let named = preflight::named_members(self.experiment).into_iter();
        let named: Vec<String> = named.filter(|named| named.1).map(|named| named.0).collect();
        let go_on = || go_on(interrupt);
        let laid_out = self.pool.lay_out(&go_on);
        let laid_out = laid_out.and_then(|()| pool::fill_holes(&named, &go_on));
        laid_out.map_err(|source| match source.kind() {
            io::ErrorKind::Interrupted => Stop::Interrupted,
            _ => Stop::Error(RunError::Members {
                folder: self.pool.folder().unwrap_or(Path::new("")).to_owned(),
                source,
            }),
        })
    }

    fn calibrate(&mut self) -> Result<(), Stop> {
        self.observer
            .progress(0, self.total, "measuring the parts by themselves");
        let devices = matches!(self.experiment.members, Members::Devices(_));
        // New devices in memory are not calibrated; the others were laid out, or may be written.
        let mut members: Vec<(String, bool)> = Vec::new();
        if devices || self.pool.folder().is_some() {
            members.extend(self.pool.names.iter().map(|name| (name.clone(), true)));
        }
        members.extend(preflight::named_members(self.experiment));
        let parts = Parts {
            members: &members,
            open: &self.options.open,
            experiment: self.experiment,
            interrupt: self.options.interrupt,
        };
        let calibration = parts.measure();
        go_on(self.options.interrupt).map_err(|_| Stop::Interrupted)?;
        Ok(self.record(Record::Calibration(Box::new(calibration)))?)
    }

    /// Returns the folder on the measured file system, if there is one.
    fn folder(&self) -> Option<PathBuf> {
        let ours = self.pool.folder().map(Path::to_owned);
        ours.or_else(|| {
            let first = self.pool.names.first().or_else(|| {
                let spec = &self.sides.first()?.spec;
                Some(&spec.target)
            })?;
            let path = Path::new(first.strip_prefix("folder:").unwrap_or(first));
            path.exists().then(|| path.to_owned())
        })
    }

    fn wrong_system(&self, side: usize, what: &str) -> RunError {
        let spec = &self.sides[side].spec;
        RunError::Experiment {
            file: self.experiment.source.clone(),
            line: (spec.line > 0).then_some(spec.line),
            what: format!("system \"{}\": {what}", spec.name),
        }
    }

    /// Checks that every workload fits the system.
    fn fits(&self, side: usize, facts: &TargetFacts) -> Result<(), String> {
        let spec = &self.sides[side].spec;
        for workload in &self.experiment.workloads {
            if let Work::Replay(work) = &workload.work
                && workload.runs_on(workloads_as(spec))
            {
                let fits = work.on(facts.block_size.bytes(), facts.blocks);
                fits.map_err(|error| format!("{}: {error}", workload.name))?;
                continue;
            }
            let Some(bytes) = bare_bytes_of(self.experiment, workload, spec) else {
                continue;
            };
            if facts.bytes() < bytes {
                return Err(format!(
                    "it holds {} MiB, and {} works on {} MiB: choose a smaller size or larger \
                     members",
                    facts.bytes() >> 20,
                    workload.name,
                    bytes >> 20
                ));
            }
        }
        Ok(())
    }

    fn experiment_record(&self, shared_device: bool) -> spindles_measure::Experiment {
        let experiment = self.experiment;
        spindles_measure::Experiment {
            name: experiment.name.clone(),
            summary: experiment.summary.clone(),
            seed: experiment.seed,
            started_unix_ms: clock::unix_ms(),
            repetition_blocks: experiment.blocks,
            baseline: experiment.baseline.clone(),
            control: self.control.clone(),
            systems: self.sides.iter().map(|side| side.record.clone()).collect(),
            workloads: (experiment.workloads.iter())
                .flat_map(workload_records)
                .collect(),
            scaled: !experiment.scaled_how.is_empty(),
            scaled_how: experiment.scaled_how.clone(),
            shared_device,
            definition: experiment.definition.clone(),
            weights: experiment.weights.clone(),
        }
    }
}

/// Returns what of the environment a prediction depends on: the program.
fn of_a_prediction(environment: Environment) -> Environment {
    Environment {
        tool_version: environment.tool_version,
        commit: environment.commit,
        clock_resolution_ns: 1,
        ..Environment::default()
    }
}

/// Returns true if all devices lie on one physical device. `beneath` names the physical device of
/// each. Files in one folder (`files`) share a device even if it is unknown.
fn all_on_one(beneath: &[Option<String>], files: bool) -> bool {
    let Some((first, others)) = beneath.split_first() else {
        return false;
    };
    others.iter().all(|other| other == first)
        && match first {
            Some(name) => name != MEMORY,
            None => files,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_device_is_reported_only_if_all_members_share_it() {
        let one = |name: &str| Some(name.to_owned());
        assert!(all_on_one(&[one("sda"), one("sda"), one("sda")], true));
        assert!(!all_on_one(&[one("sda"), one("sda"), one("sdb")], true));
        assert!(!all_on_one(&[one("sda"), None], true));
        assert!(!all_on_one(&[one(MEMORY), one(MEMORY)], true));
        assert!(all_on_one(&[None, None], true) && !all_on_one(&[None, None], false));
        assert!(!all_on_one(&[], true));
    }
}
