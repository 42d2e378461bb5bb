//! A system that commands of the user's make and take down: mdadm, ZFS, LVM, a controller's tool, a mount
//! of a network file system.

use super::{Kind, Place, Site, System, kind_of};
use crate::export::{Exported, attach};
use crate::mounts;
use crate::scratch::Scratch;
use crate::undo::{Undo, What, shell};
use spindles_io::{Target, physical_device_of};
use std::collections::BTreeSet;
use std::path::Path;

/// The commands of a system, run by `sh -e`.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Makes it.
    pub up: String,
    /// Takes it down, whatever state it is in.
    pub down: Option<String>,
    /// How many members of the experiment it takes.
    pub members: usize,
    /// Whether members that are files come as loop devices.
    pub loops: bool,
}

/// What stands for the folder of the system's own in its target.
pub(crate) const DIR: &str = "$DIR";

/// A system that was made by a command. Fields are dropped in their order.
pub(crate) struct Made {
    inner: Box<dyn System>,
    /// The members that it was made of.
    members: Vec<String>,
    down: Option<Undo>,
    _loops: Vec<Undo>,
    scratch: Scratch,
}

impl Made {
    /// Runs `up`, and makes ready what the target names then.
    pub(crate) fn prepare(
        target: &str,
        commands: &Commands,
        site: &Site<'_>,
    ) -> Result<Box<dyn System>, String> {
        let scratch = Scratch::new(&super::temporary_folder());
        let scratch = scratch.map_err(|error| format!("a folder for the commands: {error}"))?;
        let folder = scratch.folder().map_err(|error| error.to_string())?;
        let folder = folder.to_string_lossy().into_owned();
        let (mut members, mut loops) = (Vec::new(), Vec::new());
        for member in &site.members[..commands.members] {
            if commands.loops && Path::new(member).is_file() {
                let (device, undo) = attach(member, &[])?;
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
        // What was half made is taken down as well.
        let down = commands.down.clone();
        let down = down.map(|down| Undo::new(What::Up(down, environment.clone())));
        shell(&commands.up, &environment)?;
        let target = target.replace(DIR, &folder);
        let kind: &Kind = kind_of(&target);
        let inner = (kind.prepare)(&target, site)?;
        Ok(Box::new(Self {
            inner,
            members: site.members[..commands.members].to_vec(),
            down,
            _loops: loops,
            scratch,
        }))
    }
}

impl System for Made {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        self.inner.open()
    }

    fn folder(&mut self) -> Result<Place, String> {
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
        down.map_or(Ok(()), Undo::now)?;
        // Nothing of a file system that is not ours to empty may be removed with the folder.
        let left = mounts::below(scratch.path()).unwrap_or_default();
        left.first().map_or(Ok(()), |mount| {
            Err(format!(
                "{} is still mounted, so {} stays: let `down` unmount it",
                mount.path.display(),
                scratch.path().display()
            ))
        })
    }

    fn devices(&self) -> Vec<String> {
        self.inner.devices()
    }
}
