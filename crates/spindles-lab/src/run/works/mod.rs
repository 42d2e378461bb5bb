//! Runs a workload on the system under test. Each kind of work has a file.

mod blocks;
mod files;
mod jobs;
mod nodes;
mod tools;

use super::under_test::UnderTest;
use crate::experiment::replay::ReplayWork;
use crate::experiment::{Work, WorkloadSpec};
use crate::measure::failure::Failure;
use crate::measure::replay;
use spindles_measure::Run;

impl UnderTest<'_> {
    /// Runs a workload; each of its phases with a result fills in one of `runs`. Results before a
    /// failure stay.
    pub(super) fn run(&mut self, workload: &WorkloadSpec, runs: &mut [Run]) -> Result<(), Failure> {
        if let Some(on) = &workload.on_nodes {
            return self.on_nodes(&workload.work, on, runs);
        }
        match &workload.work {
            Work::Copy(plan) => self.copy(plan, &mut runs[0]),
            Work::Blocks(work) => self.blocks(workload, work, &mut runs[0]),
            Work::Replay(work) => self.replay(work, &mut runs[0]),
            Work::Files(plan) => self.files(plan, runs),
            Work::Fio(work) => self.fio(work, &mut runs[0]),
            Work::Newfs(words) => self.newfs(words, &mut runs[0]),
        }
    }

    /// Replays a trace on the open system.
    fn replay(&mut self, work: &ReplayWork, run: &mut Run) -> Result<(), Failure> {
        let interrupt = self.options.interrupt;
        let idle_permille = self.idle_permille;
        let watched = if self.has_file_system {
            let place = self.system.folder()?;
            Some(place.watched).filter(|watched| watched.own.is_some())
        } else {
            None
        };
        let target = self.opened()?;
        let measured = replay::run(target.as_mut(), work, watched.as_ref(), interrupt)?;
        measured.into_run(run, idle_permille);
        Ok(())
    }
}
