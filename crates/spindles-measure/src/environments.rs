//! Differences in the environments of two measurements.

use crate::{Analysis, Environment, System};

/// Name of the members among the facts of an environment.
pub(crate) const MEMBERS: &str = "members";

/// Name of the physical devices that hold them.
pub(crate) const DEVICES: &str = "devices";

/// Prefix of the names of folders that hold a run's temporary files.
pub const TEMPORARY_PREFIX: &str = "spindles-lab-";

/// Compares two environments: name, before, after.
pub(crate) fn of_environments(
    before: &Analysis,
    after: &Analysis,
) -> Vec<(String, String, String)> {
    let facts = |analysis: &Analysis| {
        let environment = &analysis.environment;
        [
            ("version", environment.tool_version.clone()),
            ("commit", environment.commit.clone()),
            ("build", environment.profile.clone()),
            ("system", environment.os.clone()),
            ("kernel", environment.kernel.clone()),
            ("CPU", environment.cpu_model.clone()),
            ("CPUs", environment.cpus.to_string()),
            ("governor", environment.governor.clone()),
            ("memory", environment.memory_bytes.to_string()),
            ("file system", environment.file_system.clone()),
            ("mount options", environment.mount_options.clone()),
            (MEMBERS, members(analysis)),
            (DEVICES, devices(environment)),
        ]
    };
    let is_disks = |name: &str| matches!(name, MEMBERS | DEVICES);
    let of_all = facts(before)
        .into_iter()
        .zip(facts(after))
        .filter(|((_, before), (_, after))| before != after)
        // Not every record lists the disks.
        .filter(|((name, before), (_, after))| {
            !is_disks(name) || !(before.is_empty() || after.is_empty())
        })
        .map(|((name, before), (_, after))| {
            (name.to_owned(), or_unknown(before), or_unknown(after))
        });
    of_all.chain(mounts(before, after)).collect()
}

/// Names of the members, without temporary files, whose names always differ.
fn members(analysis: &Analysis) -> String {
    let members = analysis
        .calibration
        .iter()
        .flat_map(|calibration| &calibration.members);
    let names = members.map(|member| member.name.as_str());
    let is_temporary = |name: &str| {
        name.split('/')
            .any(|part| part.starts_with(TEMPORARY_PREFIX))
    };
    let names: Vec<&str> = names.filter(|name| !is_temporary(name)).collect();
    names.join(", ")
}

fn devices(environment: &Environment) -> String {
    let devices = environment.devices.iter().map(|device| {
        let facts = [&*device.name, &*device.model, &*device.serial];
        let known = facts.into_iter().filter(|fact| !fact.is_empty());
        known.collect::<Vec<_>>().join(" ")
    });
    devices.collect::<Vec<_>>().join(", ")
}

fn or_unknown(fact: String) -> String {
    if fact.is_empty() {
        "unknown".to_owned()
    } else {
        fact
    }
}

/// Folders whose mount differs: another file system or other options.
fn mounts(before: &Analysis, after: &Analysis) -> Vec<(String, String, String)> {
    let systems = before.experiment.systems.iter();
    let differing = systems.filter_map(|system| {
        let mut others = after.experiment.systems.iter();
        let other = others.find(|other| other.name == system.name)?;
        let [one, two] = [system, other].map(|either| either.options.get(System::MOUNTED));
        let (one, two) = one.zip(two).filter(|(one, two)| one != two)?;
        Some((
            format!("mount of {}", system.name),
            one.clone(),
            two.clone(),
        ))
    });
    differing.collect()
}
