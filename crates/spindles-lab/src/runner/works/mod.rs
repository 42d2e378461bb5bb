//! What a workload does to the system under test: a file for each kind of work.

mod blocks;
mod files;
mod nodes;
mod tools;

use super::Options;
use crate::execute::Failure;
use crate::experiment::{Experiment, Work, WorkloadSpec};
use crate::targets::System;
use spindles_io::Target;
use spindles_measure::Run;

/// A system that is ready, and what its workloads need.
pub(super) struct UnderTest<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) options: &'a Options<'a>,
    /// How busy the machine is without us.
    pub(super) idle_permille: u64,
    /// Whether the caches of the machine are emptied before each phase on files, where that may be done.
    pub(super) empty_caches: bool,
    /// Whether it is a file system or holds one: otherwise workloads on files lay theirs out on its blocks.
    pub(super) has_file_system: bool,
    pub(super) system: Box<dyn System>,
    /// The system, open for workloads on blocks.
    pub(super) open: Option<Box<dyn Target>>,
    /// Why nothing that was measured on it counts: it was found damaged, or can't be checked.
    pub(super) damage: Option<String>,
}

impl UnderTest<'_> {
    /// Runs a workload; each of its phases with a result fills in one of `runs`. What was measured before a
    /// failure stays.
    pub(super) fn run(&mut self, workload: &WorkloadSpec, runs: &mut [Run]) -> Result<(), Failure> {
        if let Some(on) = &workload.on_nodes {
            return self.on_nodes(&workload.work, on, runs);
        }
        match &workload.work {
            Work::Copy(plan) => self.copy(plan, &mut runs[0]),
            Work::Blocks(work) => self.blocks(workload, work, &mut runs[0]),
            Work::Files(plan) => self.files(plan, runs),
            Work::Fio(work) => self.fio(work, &mut runs[0]),
            Work::Newfs(words) => self.newfs(words, &mut runs[0]),
        }
    }

    /// Ends what workloads on files began, and keeps what is wrong with what they left.
    pub(super) fn leave_folder(&mut self) -> Result<(), String> {
        let left = self.system.leave_folder();
        if let Err(why) = &left {
            self.damage.get_or_insert_with(|| why.clone());
        }
        left
    }

    /// The open system. What the kernel or another program opens must be closed first.
    fn opened(&mut self) -> Result<&mut Box<dyn Target>, Failure> {
        Ok(match &mut self.open {
            Some(target) => target,
            none => none.insert(self.system.open().map_err(Failure::Failed)?),
        })
    }

    /// Closes the system, if it is open.
    fn close(&mut self) -> Result<(), Failure> {
        self.open.take().map_or(Ok(()), |target| {
            let closed = target.close();
            closed.map_err(|error| Failure::Failed(error.to_string()))
        })
    }
}
