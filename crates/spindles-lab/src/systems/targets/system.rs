//! The trait of a ready system, and the results of its methods.

use crate::machine::evidence::Watched;
use crate::systems::export::Exported;
use spindles_array::Target;
use spindles_device::TargetFacts;
use std::path::{Path, PathBuf};

/// The needs of a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Members of the experiment, by number.
    pub members: usize,
    /// Devices and files that the target names: writing workloads destroy their contents.
    pub named: Vec<String>,
}

/// A system that is ready. At most one of its targets is open at a time.
pub(crate) trait System {
    /// Opens the system.
    fn open(&mut self) -> Result<Box<dyn Target>, String>;

    /// Opens it without its first device, which can then be cleared.
    fn open_without_first(&mut self) -> Result<Box<dyn Target>, String> {
        Err(
            "no device of this system can be left out: give an array on files or devices"
                .to_owned(),
        )
    }

    /// Begins to copy the first device onto a blank one, which then takes its place.
    fn replace_first(&mut self, _open: &mut dyn Target) -> Result<(), String> {
        Err(
            "no device of this system can be replaced: give an array on files or devices"
                .to_owned(),
        )
    }

    /// Opens it with one more device, and begins to grow onto it.
    fn open_growing(&mut self) -> Result<Box<dyn Target>, String> {
        Err("this system can't grow: give an array on files or devices".to_owned())
    }

    /// Describes the array beneath, if a workload on files only sees the file system on it.
    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        Ok(None)
    }

    /// Returns a folder on the file system that it is or holds, for workloads on files. The system
    /// must not be opened otherwise meanwhile.
    fn folder(&mut self) -> Result<WatchedFolder, String> {
        Err(
            "it has no file system for a workload on files: give a folder, or have one made and \
             mounted: `fs = \"ext4\"` in an experiment, --fs ext4 with bench"
                .to_owned(),
        )
    }

    /// Ends the use of `folder`, and checks the file system. After an error, results measured there
    /// are discarded.
    fn leave_folder(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Exports the system as a block device of the kernel. `program` serves arrays.
    fn export(&mut self, _program: &Path) -> Result<Exported, String> {
        Err(
            "it can't be a block device of the kernel: give an array on files or devices, a file \
            or a device"
                .to_owned(),
        )
    }

    /// Describes how the kernel reaches the exported device; empty if unknown.
    fn exported_how(&self) -> &'static str {
        ""
    }

    /// Takes down whatever the lab created for the system. Returns an error if that failed.
    fn end(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }

    /// Returns the devices that can be opened individually while the system is closed.
    fn devices(&self) -> Vec<String>;
}

/// A folder for workloads on files, and the counters that belong to it.
#[derive(Clone, Debug)]
pub(crate) struct WatchedFolder {
    pub(crate) folder: PathBuf,
    pub(crate) watched: Watched,
    /// How the kernel reaches the device beneath: `FUSE and a loop device`. Empty if directly.
    pub(crate) how: &'static str,
}
