//! Landlock: which files can be opened by name. What is open already, or comes from the helper, stays as it is.

use super::{Needs, Part};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::PathBuf;

/// What is known of the access of files, and of signals and sockets to other processes. A kernel that knows less
/// goes as far as it can.
const KNOWN: ABI = ABI::V6;
/// Where the kernel tells of devices, and of who has them.
const TOLD_IN: &[&str] = &["/proc", "/sys"];

/// What the C library reads to find a host by its name, and the libraries that it may load for that.
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

pub(super) static LANDLOCK: Part = Part {
    name: |_| "Landlock",
    for_all_threads: false,
    enter: |needs| enter(needs).is_ok_and(|status| status != RulesetStatus::NotEnforced),
};

fn enter(needs: &Needs) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let remove = BitFlags::from(AccessFs::RemoveFile);
    let write = read | remove | AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::Truncate;
    // What is called so, everywhere: commands look for arrays. What is in it is opened by the helper.
    let list = BitFlags::from(AccessFs::ReadDir);
    let rules = |folders: &[PathBuf], access| path_beneath_rules(folders.to_vec(), access);
    let names = if needs.connects { NAMES_IN } else { &[] };
    let told: Vec<PathBuf> = [TOLD_IN, names]
        .concat()
        .iter()
        .map(PathBuf::from)
        .collect();
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
    if !needs.connects {
        // A ring could make connections too, which no list of system calls sees.
        ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    }
    let status = ruleset
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(rules(&[PathBuf::from("/")], list))?
        .add_rules(rules(&told, read))?
        .add_rules(rules(&needs.writes_in, write))?
        .add_rules(rules(&needs.removes_from, remove))?
        .restrict_self()?;
    Ok(status.ruleset)
}
