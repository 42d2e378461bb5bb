//! Workloads on other machines, independent of the system under test or using it.

use super::super::under_test::UnderTest;
use crate::experiment::{OnNodes, Work};
use crate::machine::evidence::Watched;
use crate::measure::failure::Failure;
use crate::nodes::{Crew, Home};
use crate::systems::scratch::Scratch;
use spindles_measure::Run;
use spindles_workload::network::{CopyPlan, Store};

impl<'a> UnderTest<'a> {
    /// Copies between the folder of the system, or memory, and nodes.
    pub(super) fn copy(&mut self, plan: &CopyPlan, run: &mut Run) -> Result<(), Failure> {
        self.close()?;
        let mut watched = Watched::default();
        let mut own = None;
        if plan.server() == Store::Disk {
            let place = self.system.folder()?;
            own = Some(Scratch::with_folder(&place.folder)?);
            watched = place.watched;
        }
        let folder = own.as_ref().map(|(folder, _)| folder.as_path());
        let mut crew = self.crew(plan.nodes())?;
        crew.copy(plan, folder, &self.home(&watched), run)
    }

    /// Runs a workload on files, or fio, on nodes.
    pub(super) fn on_nodes(
        &mut self,
        work: &Work,
        on: &OnNodes,
        runs: &mut [Run],
    ) -> Result<(), Failure> {
        self.close()?;
        // Watch the devices of the system if it has a folder, which nodes may have mounted.
        let watched = self.system.folder().map(|place| place.watched);
        let watched = watched.unwrap_or_default();
        let seed = runs.first().map_or(0, |run| run.seed);
        let mut crew = self.crew(on.count)?;
        let home = self.home(&watched);
        match work {
            Work::Files(plan) => crew.files(plan, seed, &home, runs),
            Work::Fio(work) => crew.fio(work, on.device.as_deref(), &home, &mut runs[0]),
            Work::Blocks(_) | Work::Newfs(_) | Work::Copy(_) | Work::Replay(_) => {
                unreachable!("refused when the experiment was read")
            }
        }
    }

    /// Starts the agents of the first `count` nodes.
    fn crew(&self, count: u32) -> Result<Crew<'a>, Failure> {
        let nodes = self.experiment.nodes.as_ref();
        let nodes = nodes.expect("workloads without enough nodes are left out");
        let count = usize::try_from(count).expect("32 bits fit");
        Crew::gather(nodes, self.options.agent, count, self.options.interrupt)
    }

    fn home<'b>(&self, watched: &'b Watched) -> Home<'b>
    where
        'a: 'b,
    {
        Home {
            watched,
            listen: self
                .experiment
                .nodes
                .as_ref()
                .and_then(|nodes| nodes.listen),
            empty_caches: self.empty_caches,
            idle_permille: self.idle_permille,
            interrupt: self.options.interrupt,
        }
    }
}
