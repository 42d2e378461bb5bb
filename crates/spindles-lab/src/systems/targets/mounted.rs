//! A system with a file system on it: exported as a block device, formatted, mounted, and at the
//! end unmounted and checked.

use super::folder::Folder;
use super::{Site, System, WatchedFolder};
use crate::experiment::systems::Mounting;
use crate::machine::evidence::Watched;
use crate::systems::export::Exported;
use crate::systems::scratch::{self, Scratch};
use crate::systems::undo::{self, Undo, What};
use spindles_array::Target;
use spindles_device::TargetFacts;
use spindles_device::{OpenOptions, physical_device_of};
use std::path::{Path, PathBuf};

/// A system with a file system on it.
pub(crate) struct Mounted {
    inner: Box<dyn System>,
    how: Mounting,
    program: PathBuf,
    size_bytes: u64,
    options: OpenOptions,
    mount: Option<Mount>,
}

/// An active mount. Fields are dropped in their order.
struct Mount {
    folder: Folder,
    mounted: Undo,
    exported: Exported,
    /// Holds the mount point.
    scratch: Scratch,
    path: PathBuf,
}

impl Mounted {
    pub(crate) fn new(inner: Box<dyn System>, how: &Mounting, site: &Site<'_>) -> Self {
        Self {
            inner,
            how: how.clone(),
            program: site.program.to_owned(),
            size_bytes: site.size_bytes,
            options: site.open.clone(),
            mount: None,
        }
    }

    fn mounted(&mut self) -> Result<&mut Mount, String> {
        if self.mount.is_none() {
            self.mount = Some(self.mount()?);
        }
        Ok(self.mount.as_mut().expect("just mounted"))
    }

    fn mount(&mut self) -> Result<Mount, String> {
        let exported = self.inner.export(&self.program)?;
        let kind = self.how.kind;
        let mut arguments: Vec<String> = kind
            .mkfs
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        arguments.extend(self.how.mkfs.iter().cloned());
        arguments.push(exported.device.clone());
        undo::run(&format!("mkfs.{}", kind.name), &arguments)?;
        let (path, scratch) = scratch::own_folder("the mount")?;
        let mut arguments = vec!["-t".to_owned(), kind.name.to_owned()];
        let options = self.how.mount_options();
        if !options.is_empty() {
            arguments.extend(["-o".to_owned(), options]);
        }
        arguments.extend([exported.device.clone(), path.to_string_lossy().into_owned()]);
        undo::run("mount", &arguments)?;
        let mounted = Undo::new(What::Mounted(path.clone()));
        Ok(Mount {
            folder: Folder::new(path.clone(), self.size_bytes, self.options.clone()),
            mounted,
            exported,
            scratch,
            path,
        })
    }
}

impl System for Mounted {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        self.mounted()?.folder.open()
    }

    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        match self.mount {
            None => self.inner.facts(),
            Some(_) => Ok(None),
        }
    }

    fn folder(&mut self) -> Result<WatchedFolder, String> {
        let devices = self.inner.devices();
        let mount = self.mounted()?;
        let exported = &mount.exported;
        let members = devices
            .iter()
            .filter_map(|device| physical_device_of(Path::new(device)));
        let mut watched: Vec<(String, bool)> = members.map(|name| (name, true)).collect();
        let carrier = exported.device.strip_prefix("/dev/").unwrap_or_default();
        if !watched.iter().any(|(name, _)| name == carrier) {
            watched.push((carrier.to_owned(), false));
        }
        Ok(WatchedFolder {
            folder: mount.path.clone(),
            watched: Watched {
                devices: watched.into_iter().collect(),
                processes: exported.process.into_iter().collect(),
                own: exported.counters.clone(),
            },
            how: exported.how,
        })
    }

    fn leave_folder(&mut self) -> Result<(), String> {
        let Some(mount) = self.mount.take() else {
            return self.inner.leave_folder();
        };
        let Mount {
            folder,
            mounted,
            exported,
            scratch,
            path: _,
        } = mount;
        drop(folder);
        mounted.now()?;
        drop(scratch);
        let Some((program, arguments)) = self.how.kind.check.split_first() else {
            return Ok(());
        };
        let mut arguments: Vec<String> = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        arguments.push(exported.device.clone());
        let checked = undo::run(program, &arguments);
        checked.map(drop).map_err(|why| {
            format!(
                "the {} on it is damaged, so its figures mean nothing: {why}",
                self.how.kind.name
            )
        })
    }

    fn end(mut self: Box<Self>) -> Result<(), String> {
        self.leave_folder()?;
        self.inner.end()
    }

    fn devices(&self) -> Vec<String> {
        self.inner.devices()
    }
}
