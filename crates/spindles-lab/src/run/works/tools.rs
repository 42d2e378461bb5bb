//! Workloads that run another program.

use super::super::under_test::UnderTest;
use crate::experiment::fio::FioWork;
use crate::measure::failure::Failure;
use crate::measure::{fio, newfs, tool};
use crate::systems::scratch::Scratch;
use spindles_measure::Run;

impl UnderTest<'_> {
    /// Makes a file system on the whole system.
    pub(super) fn newfs(&mut self, words: &[String], run: &mut Run) -> Result<(), Failure> {
        if let Some(host) = self.host.clone() {
            return self.newfs_on_host(words, &host, run);
        }
        self.close()?;
        self.leave_folder()?;
        let exported = self.system.export(&self.options.program);
        let exported = exported?;
        newfs::run(
            words,
            &exported,
            &self.system.devices(),
            self.idle_permille,
            run,
        )
    }

    /// Runs fio on the whole system as a block device, or on a file if it has a file system.
    pub(super) fn fio(&mut self, work: &FioWork, run: &mut Run) -> Result<(), Failure> {
        self.close()?;
        if let Ok(place) = self.system.folder() {
            let (folder, _scratch) = Scratch::with_folder(&place.folder)?;
            let file = folder.join("fio").to_string_lossy().into_owned();
            fio::lay_out(work, &file)?;
            return fio::run(work, &file, &place.watched, self.idle_permille, run);
        }
        let exported = self.system.export(&self.options.program);
        let exported = exported?;
        let watched = tool::watched(&exported, &self.system.devices());
        fio::run(work, &exported.device, &watched, self.idle_permille, run)
    }
}
