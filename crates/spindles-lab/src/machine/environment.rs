//! Captures the environment of a run: kernel, CPU, memory, file system, devices. Values that can't
//! be read are left empty; nothing here fails.

use crate::machine::clock;
use crate::machine::kernel_text::{kib_of, read, value_of};
use spindles_measure::{Device, Environment};
use std::collections::BTreeSet;
use std::path::Path;

/// Captures the environment. `folder` holds the members that are files, `devices` names the
/// physical devices (`sda`) beneath the members.
pub(crate) fn capture(folder: Option<&Path>, devices: &BTreeSet<String>) -> Environment {
    let cpuinfo = read("/proc/cpuinfo");
    let meminfo = read("/proc/meminfo");
    let (file_system, mount_options) = folder.and_then(mount_of).unwrap_or_default();
    let mut environment = Environment {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("SPINDLES_COMMIT").to_owned(),
        profile: profile().to_owned(),
        os: os_name(&read("/etc/os-release")),
        kernel: read("/proc/sys/kernel/osrelease"),
        cpu_model: value_of(&cpuinfo, "model name").to_owned(),
        cpus: std::thread::available_parallelism()
            .ok()
            .and_then(|cpus| u32::try_from(cpus.get()).ok())
            .unwrap_or(0),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        virtualization: virtualization(&cpuinfo),
        memory_bytes: kib_of(&meminfo, "MemTotal"),
        memory_available_bytes: kib_of(&meminfo, "MemAvailable"),
        file_system,
        mount_options,
        clock_resolution_ns: clock::resolution_ns(),
        devices: devices.iter().map(|name| device(name)).collect(),
        ..Environment::default()
    };
    let more = [
        (
            "clock source",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        ("load average at the start", "/proc/loadavg"),
        ("memory limit of the cgroup", "/sys/fs/cgroup/memory.max"),
        (
            "transparent huge pages",
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ),
    ];
    for (name, path) in more {
        let text = read(path);
        if !text.is_empty() {
            environment.more.insert(name.to_owned(), text);
        }
    }
    environment
}

/// `release` or `debug`.
pub(crate) const fn profile() -> &'static str {
    if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    }
}

fn os_name(os_release: &str) -> String {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or("", |name| name.trim_matches('"'))
        .to_owned()
}

fn virtualization(cpuinfo: &str) -> String {
    let mut found = Vec::new();
    let vendor = read("/sys/class/dmi/id/sys_vendor");
    let flags = value_of(cpuinfo, "flags");
    if flags.split(' ').any(|flag| flag == "hypervisor") {
        found.push(match vendor.as_str() {
            "" => "virtual machine".to_owned(),
            vendor => format!("virtual machine ({vendor})"),
        });
    }
    let container = [
        "/.dockerenv",
        "/run/.containerenv",
        "/run/systemd/container",
    ];
    if container.iter().any(|path| Path::new(path).exists()) {
        found.push("container".to_owned());
    }
    found.join(", ")
}

/// Returns file system and mount options of the mount that holds the folder.
pub(crate) fn mount_of(folder: &Path) -> Option<(String, String)> {
    // Compare mount numbers: the device numbers of btrfs folders are in no table.
    let (here, mask) = (rustix::fs::CWD, rustix::fs::StatxFlags::MNT_ID);
    let facts = rustix::fs::statx(here, folder, rustix::fs::AtFlags::empty(), mask);
    let mount = facts.ok()?.stx_mnt_id.to_string();
    mount_in(&read("/proc/self/mountinfo"), &mount)
}

/// Parses lines such as `36 35 98:0 /root /mount rw,noatime shared:1 - ext4 /dev/sda1 rw`.
fn mount_in(mountinfo: &str, number: &str) -> Option<(String, String)> {
    let line = mountinfo
        .lines()
        .find(|line| line.split(' ').next() == Some(number))?;
    let (before, after) = line.split_once(" - ")?;
    let options = before.split(' ').nth(5)?;
    let file_system = after.split(' ').next()?;
    let more = after.split(' ').nth(2).unwrap_or_default();
    Some((file_system.to_owned(), format!("{options}; {more}")))
}

fn device(name: &str) -> Device {
    let sys = Path::new("/sys/class/block").join(name);
    let text = |file: &str| read(sys.join(file));
    let number = |file: &str| text(file).parse::<u64>().unwrap_or(0);
    let scheduler = text("queue/scheduler");
    // The active scheduler is in brackets: `none [mq-deadline] kyber`.
    let in_use = scheduler
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(scheduler.as_str(), |(name, _)| name);
    Device {
        name: name.to_owned(),
        model: text("device/model"),
        serial: text("device/serial"),
        bytes: number("size") * 512,
        rotational: number("queue/rotational") == 1,
        scheduler: in_use.to_owned(),
        sector_bytes: u32::try_from(number("queue/logical_block_size")).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_texts_are_parsed() {
        let mountinfo = "25 1 0:23 / /proc rw - proc proc rw\n\
                         36 1 98:0 /r /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=ro\n";
        let found = mount_in(mountinfo, "36").unwrap();
        assert_eq!(
            found,
            ("ext4".to_owned(), "rw,noatime; rw,errors=ro".to_owned())
        );
        assert_eq!(mount_in(mountinfo, "98:0"), None);
        assert_eq!(
            kib_of("MemTotal:       16 kB\nMemFree: 1 kB", "MemTotal"),
            16384
        );
        assert_eq!(os_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
    }

    #[test]
    fn this_machine_is_captured() {
        let folder = std::env::temp_dir();
        let environment = capture(
            Some(&folder),
            &BTreeSet::from(["no-such-device".to_owned()]),
        );
        assert!(environment.memory_bytes > environment.memory_available_bytes);
        assert!(environment.cpus >= 1);
        assert!(!environment.kernel.is_empty() && !environment.file_system.is_empty());
        assert_eq!(environment.devices[0].bytes, 0);
        assert_eq!(environment.profile, profile());
    }
}
