//! The system under test while its workloads run.

use super::options::Options;
use crate::experiment::Experiment;
use crate::measure::failure::Failure;
use crate::measure::files::HostPlan;
use crate::systems::targets::System;
use spindles_array::Target;

/// A system that is ready, with what its workloads need.
pub(super) struct UnderTest<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) options: &'a Options<'a>,
    /// How busy the machine is without the lab.
    pub(super) idle_permille: u64,
    /// True if the machine's caches are emptied before each phase on files, if permitted.
    pub(super) empty_caches: bool,
    /// True if the system is a file system or holds one. Otherwise workloads on files place their
    /// files on its blocks.
    pub(super) has_file_system: bool,
    /// The modelled host that carries out workloads on files, if any.
    pub(super) host: Option<HostPlan>,
    pub(super) system: Box<dyn System>,
    /// The system, open for workloads on blocks.
    pub(super) open: Option<Box<dyn Target>>,
    /// Reason for discarding the system's results: it is damaged, or can't be checked.
    pub(super) damage: Option<String>,
}

impl UnderTest<'_> {
    /// Stops using the folder, and remembers damage found in it.
    pub(super) fn leave_folder(&mut self) -> Result<(), String> {
        let left = self.system.leave_folder();
        if let Err(why) = &left {
            self.damage.get_or_insert_with(|| why.clone());
        }
        left
    }

    /// Returns the open system. Close it before the kernel or another program opens it.
    pub(super) fn opened(&mut self) -> Result<&mut Box<dyn Target>, Failure> {
        Ok(match &mut self.open {
            Some(target) => target,
            none => none.insert(self.system.open()?),
        })
    }

    /// Closes the system, if open.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.open.take().map_or(Ok(()), |target| {
            let closed = target.close();
            closed.map_err(|error| Failure::Failed(error.to_string()))
        })
    }
}
