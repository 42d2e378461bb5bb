//! Devices and files without an engine.

use super::system::System;
use crate::systems::export::{self, Exported};
use spindles_array::Target;
use spindles_device::{OpenOptions, TargetFacts};
use std::path::Path;

/// Returns the facts of a target, and closes it.
pub(super) fn facts_of(target: Box<dyn Target>) -> Result<Option<TargetFacts>, String> {
    let facts = target.facts().clone();
    let closed = target.close();
    closed.map_err(|error| error.to_string())?;
    Ok(Some(facts))
}

/// Opens one device without an engine.
pub(super) fn open_raw(name: &str, options: &OpenOptions) -> Result<Box<dyn Target>, String> {
    spindles_array::open_device(name, options).map_err(|error| error.to_string())
}

/// Checks that nothing else uses a device or file: it can be opened for writing.
pub(crate) fn check_unused(name: &str, options: &OpenOptions) -> Result<(), String> {
    facts_of(open_raw(name, options)?).map(drop)
}

/// A device that each workload opens directly.
pub(super) struct Raw {
    pub(super) name: String,
    /// True if it is exported to the kernel as arrays are.
    pub(super) is_served: bool,
    pub(super) options: OpenOptions,
}

impl System for Raw {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        open_raw(&self.name, &self.options)
    }

    fn export(&mut self, program: &Path) -> Result<Exported, String> {
        // The kernel attaches a loop device to any file, and mkfs does not check either.
        check_unused(&self.name, &self.options)?;
        if self.is_served {
            Exported::as_it_is(&self.name, &self.options, program)
        } else {
            Exported::of_path(&self.name)
        }
    }

    fn exported_how(&self) -> &'static str {
        if self.is_served {
            export::served_how()
        } else {
            export::direct_how(&self.name)
        }
    }

    fn devices(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}
