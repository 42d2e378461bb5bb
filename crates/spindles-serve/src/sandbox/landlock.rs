//! Landlock restricts which files can be opened by name. Open files, and files from the helper,
//! stay usable.

use super::{Needs, Restriction};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::PathBuf;

/// The newest known access rights: files, network, signals and sockets to other processes. An older
/// kernel enforces those that it supports.
const KNOWN: ABI = ABI::V6;
/// Folders in which the kernel reports devices and their users.
const KERNEL_FOLDERS: &[&str] = &["/proc", "/sys"];

/// Files that the C library reads to look up host names, and the libraries it may load for that.
const NAMES_IN: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/services",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];

pub(super) static LANDLOCK: Restriction = Restriction {
    name: |_| "Landlock",
    for_all_threads: false,
    enter: |needs| enter(needs).is_ok_and(|status| status != RulesetStatus::NotEnforced),
};

fn enter(needs: &Needs) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let remove = BitFlags::from(AccessFs::RemoveFile);
    let write = read | remove | AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::Truncate;
    // Folders can be listed everywhere, because commands search for arrays. The helper opens the
    // files in them.
    let list = BitFlags::from(AccessFs::ReadDir);
    let rules = |folders: &[PathBuf], access| path_beneath_rules(folders.to_vec(), access);
    let names = if needs.connects { NAMES_IN } else { &[] };
    let readable: Vec<PathBuf> = [KERNEL_FOLDERS, names]
        .concat()
        .iter()
        .map(PathBuf::from)
        .collect();
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
    if !needs.connects {
        // An `io_uring` could connect too, and the system call filter does not see that.
        ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    }
    let status = ruleset
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(rules(&[PathBuf::from("/")], list))?
        .add_rules(rules(&readable, read))?
        .add_rules(rules(&needs.writes_in, write))?
        .add_rules(rules(&needs.removes_from, remove))?
        .restrict_self()?;
    Ok(status.ruleset)
}
