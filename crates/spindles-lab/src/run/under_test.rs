//! The system under test while its workloads run.

use super::options::Options;
use crate::experiment::Experiment;
use crate::measure::failure::Failure;
use crate::measure::files::HostPlan;
use crate::systems::controlled::{Controlled, ControllerPlan};
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
    /// The modelled controller in front of the system, if any.
    pub(super) controller: Option<ControllerPlan>,
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
            none => {
                let target = self.system.open()?;
                none.insert(behind(self.controller.as_ref(), target)?)
            }
        })
    }

    /// Puts a modelled controller in front of the system.
    pub(super) fn put_behind(&mut self, plan: ControllerPlan) -> Result<(), String> {
        if let Some(target) = self.open.take() {
            self.open = Some(behind(Some(&plan), target)?);
        }
        self.controller = Some(plan);
        Ok(())
    }

    /// Closes the system, if open.
    pub(super) fn close(&mut self) -> Result<(), Failure> {
        self.open.take().map_or(Ok(()), |target| {
            let closed = target.close();
            closed.map_err(|error| Failure::Failed(error.to_string()))
        })
    }
}

/// Puts a controller in front of an open system, if there is one.
fn behind(
    plan: Option<&ControllerPlan>,
    target: Box<dyn Target>,
) -> Result<Box<dyn Target>, String> {
    match plan {
        Some(plan) => Ok(Box::new(Controlled::new(target, plan)?)),
        None => Ok(target),
    }
}
