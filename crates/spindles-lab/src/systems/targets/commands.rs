//! A system that the user's commands set up and tear down: mdadm, ZFS, LVM, a controller's tool, a
//! mount of a network file system.

use super::{Site, System, WatchedFolder, check_unused, prepare};
use crate::experiment::systems::{Commands, names};
use crate::machine::own_counters::OwnCounters;
use crate::systems::export::{Exported, attach, of_devices};
use crate::systems::mounts;
use crate::systems::scratch::{self, Scratch};
use crate::systems::undo::{Undo, What, shell};
use spindles_array::Target;
use spindles_device::physical_device_of;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Checks that the shell takes each name in `$MEMBERS` for one word: otherwise commands would
/// get other files.
pub(crate) fn can_name(commands: &Commands, members: &[String]) -> Result<(), String> {
    let down = commands.down.as_deref().unwrap_or_default();
    // Covers both $MEMBERS and ${MEMBERS}.
    let name = MEMBERS.trim_start_matches('$');
    if ![&*commands.up, down]
        .iter()
        .any(|command| command.contains(name))
    {
        return Ok(());
    }
    let splits = |c: char| c.is_whitespace() || "*?[\\".contains(c);
    let is_named = |member: &&String| !(commands.loops && Path::new(member).is_file());
    let taken = members.iter().take(commands.members);
    match taken
        .filter(is_named)
        .find(|member| member.contains(splits))
    {
        None => Ok(()),
        Some(member) => Err(format!(
            "the shell would split or expand {member} in {MEMBERS}: give it a name without spaces \
             and wildcards, such as a link, or write \"$MEMBER0\" \"$MEMBER1\" .., in double \
             quotes"
        )),
    }
}

/// Stands for all members in commands.
const MEMBERS: &str = "$MEMBERS";
/// Stands for the system's own folder in its target.
const DIR: &str = "$DIR";

/// A system set up by commands. Fields are dropped in their order.
pub(crate) struct Made {
    inner: Box<dyn System>,
    /// Names of the members passed to the commands.
    members: Vec<String>,
    /// Counters of the members, if all are devices.
    counters: Option<OwnCounters>,
    down: Option<Undo>,
    _loops: Vec<Undo>,
    scratch: Scratch,
}

impl Made {
    /// Runs `up`, and prepares the target, which may exist only now.
    pub(crate) fn prepare(
        target: &str,
        commands: &Commands,
        site: &Site<'_>,
    ) -> Result<Box<dyn System>, String> {
        let (folder, scratch) = scratch::own_folder("the commands")?;
        let folder = folder.to_string_lossy().into_owned();
        let (mut members, mut loops) = (Vec::new(), Vec::new());
        for member in &site.members[..commands.members] {
            check_unused(member, site.open)?;
            if commands.loops && Path::new(member).is_file() {
                let (device, undo) = attach(member, &[])?;
                let noted = scratch.note_attached(&device, member);
                noted.map_err(|error| format!("{member}: {error}"))?;
                members.push(device);
                loops.push(undo);
            } else {
                members.push(member.clone());
            }
        }
        let mut environment = vec![
            ("DIR".to_owned(), folder.clone()),
            ("MEMBERS".to_owned(), members.join(" ")),
        ];
        for (number, member) in members.iter().enumerate() {
            environment.push((format!("MEMBER{number}"), member.clone()));
        }
        // `down` also cleans up after a failed `up`.
        let down = commands.down.clone();
        let down = down.map(|down| Undo::new(What::Up(down, environment.clone())));
        shell(&commands.up, &environment)?;
        let value = |name: &str| {
            let found = environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone())
        };
        let replaced = names::filled_in(target, value)
            .map_err(|name| format!("`{name}` in `target` is not defined"))?;
        if target.starts_with(DIR) && !site.force && is_of_others(&replaced, &folder) {
            return Err(format!(
                "{target} is outside the lab's folder, and its contents would be lost: use --force \
                 to overwrite them"
            ));
        }
        let target = replaced;
        let inner = prepare(&target, site)?;
        Ok(Box::new(Self {
            inner,
            members: site.members[..commands.members].to_vec(),
            counters: of_devices(&members),
            down,
            _loops: loops,
            scratch,
        }))
    }
}

/// Returns true if a file or device named below the lab's folder does not belong to the lab: behind
/// a link, on something mounted there, or a file with another hard link. Folders are not
/// overwritten.
fn is_of_others(target: &str, folder: &str) -> bool {
    let (Ok(facts), Ok(real)) = (fs::metadata(target), fs::canonicalize(target)) else {
        return false; // It does not exist yet.
    };
    let mounts = mounts::below(Path::new(folder)).unwrap_or_default();
    let at_home = fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder))
        && !mounts.iter().any(|mount| real.starts_with(&mount.path))
        && facts.nlink() == 1;
    !facts.is_dir() && !at_home
}

impl System for Made {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        self.inner.open()
    }

    fn folder(&mut self) -> Result<WatchedFolder, String> {
        let mut place = self.inner.folder()?;
        let members = self.members.iter().map(Path::new);
        let members: BTreeSet<_> = members
            .filter_map(physical_device_of)
            .map(|name| (name, true))
            .collect();
        if !members.is_empty() {
            let carriers = place
                .watched
                .devices
                .into_iter()
                .map(|(name, _)| (name, false));
            let carriers = carriers.filter(|(name, _)| !members.contains(&(name.clone(), true)));
            place.watched.devices = carriers.collect();
            place.watched.devices.extend(members);
        }
        place.watched.own.clone_from(&self.counters);
        Ok(place)
    }

    fn leave_folder(&mut self) -> Result<(), String> {
        self.inner.leave_folder()
    }

    fn export(&mut self, program: &Path) -> Result<Exported, String> {
        self.inner.export(program)
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        let Self {
            inner,
            down,
            scratch,
            ..
        } = *self;
        drop(inner);
        let ended = down.map_or(Ok(()), Undo::now);
        // Removing the folder must not delete files of a foreign file system that is still mounted.
        let left = mounts::below(scratch.path()).unwrap_or_default();
        let left = left.first().map(|mount| {
            format!(
                "{} is still mounted, so {} stays: let `down` unmount it, and unmount this one by \
                 hand",
                mount.path.display(),
                scratch.path().display()
            )
        });
        match (ended, left) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(left)) => Err(left),
            (Err(why), None) => Err(why),
            (Err(why), Some(left)) => Err(format!("{why}; {left}")),
        }
    }

    fn exported_how(&self) -> &'static str {
        self.inner.exported_how()
    }

    fn devices(&self) -> Vec<String> {
        self.inner.devices()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_in_the_labs_folder_belong_to_the_lab() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
        let folder = home.path().to_str().unwrap();
        let precious = other.path().join("precious");
        fs::write(&precious, "data").unwrap();
        fs::write(at("own"), "").unwrap();
        std::os::unix::fs::symlink(&precious, at("link")).unwrap();
        fs::hard_link(&precious, at("hard")).unwrap();
        fs::create_dir(at("mnt")).unwrap();
        for name in ["own", "mnt", "none"] {
            assert!(!is_of_others(&at(name), folder), "{name}");
        }
        assert!(is_of_others(&at("link"), folder) && is_of_others(&at("hard"), folder));
        let mount = |program: &str, arguments: &[&str]| {
            let mut command = std::process::Command::new(program);
            let done = command.args(arguments).arg(at("mnt")).status();
            done.is_ok_and(|status| status.success())
        };
        if !mount("mount", &["--bind", other.path().to_str().unwrap()]) {
            return println!(
                "SKIPPED only_plain_files_in_the_labs_folder_belong_to_the_lab: mounting takes root"
            );
        }
        fs::remove_file(at("hard")).unwrap();
        let is_others = is_of_others(&at("mnt/precious"), folder);
        assert!(mount("umount", &[]));
        assert!(is_others);
    }
}
