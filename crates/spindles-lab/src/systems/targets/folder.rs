//! `folder:PATH`: a folder of a mounted file system. Workloads on blocks get a file in it.

use super::Opener;
use super::raw::open_raw;
use super::system::{Needs, System, WatchedFolder};
use crate::experiment::systems::kinds::{FOLDER, folder_path};
use crate::machine::evidence::Watched;
use crate::systems::scratch::Scratch;
use spindles_array::Target;
use spindles_device::{OpenOptions, physical_device_of};
use std::path::PathBuf;

pub(super) static OPENER: Opener = Opener {
    kind: &FOLDER,
    needs: |_| Ok(Needs::default()),
    prepare: |text, site| {
        let folder = PathBuf::from(folder_path(text));
        if !folder.is_dir() {
            return Err(format!(
                "{} is not a folder: make it, or name another",
                folder.display()
            ));
        }
        Ok(Box::new(Folder::new(
            folder,
            site.size_bytes,
            site.open.clone(),
        )))
    },
};

/// A user's folder, in which the lab creates files of its own.
pub(super) struct Folder {
    path: PathBuf,
    size_bytes: u64,
    options: OpenOptions,
    /// The file for workloads on blocks, created at first use.
    file: Option<(Scratch, PathBuf)>,
}

impl Folder {
    pub(super) fn new(path: PathBuf, size_bytes: u64, options: OpenOptions) -> Self {
        Self {
            path,
            size_bytes,
            options,
            file: None,
        }
    }

    fn wrong(&self, error: &std::io::Error) -> String {
        let folder = self.path.display();
        format!("{folder}: can't make a file there: {error}")
    }
}

impl System for Folder {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        if self.file.is_none() {
            let scratch = Scratch::new(&self.path).map_err(|error| self.wrong(&error))?;
            let file = scratch.sparse("target", self.size_bytes);
            let file = file.map_err(|error| self.wrong(&error))?;
            self.file = Some((scratch, file));
        }
        open_raw(&self.devices()[0], &self.options)
    }

    fn folder(&mut self) -> Result<WatchedFolder, String> {
        let device = physical_device_of(&self.path);
        Ok(WatchedFolder {
            folder: self.path.clone(),
            watched: Watched {
                devices: device.into_iter().map(|name| (name, true)).collect(),
                processes: Vec::new(),
                own: None,
            },
            how: "",
        })
    }

    fn devices(&self) -> Vec<String> {
        let file = self.file.iter();
        file.map(|(_, file)| file.to_string_lossy().into_owned())
            .collect()
    }
}
