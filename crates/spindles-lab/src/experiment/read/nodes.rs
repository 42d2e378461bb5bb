//! Nodes in an experiment: their names, and the workloads that run on them.

use super::raw::{RawFile, RawWorkload, span_of};
use super::reader::{Reader, keys_of_blocks, not_for_files};
use crate::experiment::addresses::{ip_address, node_name};
use crate::experiment::fio::check_on_nodes;
use crate::experiment::spec::{ExperimentError, Nodes, OnNodes, Work, WorkloadSpec};
use spindles_workload::network::{COPY, CopyPlan, NODES_MAX, PARAMETERS};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;

/// The value of `on` for workloads on nodes.
const NODES: &str = "nodes";

/// Returns the workloads that have enough nodes, and a note on the others.
pub(super) fn with_enough(
    workloads: impl Iterator<Item = WorkloadSpec>,
    count: usize,
) -> (Vec<WorkloadSpec>, Option<String>) {
    let needs = |spec: &WorkloadSpec| usize::try_from(spec.nodes()).expect("32 bits fit");
    let (run, left): (Vec<_>, Vec<_>) = workloads.partition(|spec| needs(spec) <= count);
    let most = left.iter().map(needs).max();
    let why = most.map(|most| {
        let names: Vec<&str> = left.iter().map(|spec| spec.name.as_str()).collect();
        let there_are = match count {
            0 => "none are given".to_owned(),
            1 => "1 is given".to_owned(),
            many => format!("{many} are given"),
        };
        let remedy = match count {
            0 => "give `nodes`, or --nodes",
            _ => "name more of them in `nodes` or --nodes",
        };
        let names = names.join(", ");
        format!("{names} (up to {most} nodes needed, {there_are}: {remedy})")
    });
    (run, why)
}

impl Reader<'_> {
    /// Reads the nodes of the file, or those of the command line that replace them.
    pub(super) fn nodes(&self, raw: &RawFile) -> Result<Option<Nodes>, ExperimentError> {
        let mut names = Vec::new();
        for text in raw.nodes.iter().flat_map(Spanned::get_ref) {
            let name = node_name(text.get_ref());
            names.push(name.map_err(|why| self.at(&text.span(), why))?);
        }
        if !self.tuning.nodes.is_empty() {
            names.clone_from(&self.tuning.nodes);
        }
        let span = raw.nodes.as_ref().map_or(0..0, Spanned::span);
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(*name)) {
            let what = format!("node {twice} is listed twice: name each once");
            return Err(self.at(&span, what));
        }
        let listen = raw.listen.as_ref().map(|text| {
            ip_address(text.get_ref()).ok_or_else(|| {
                let what = format!(
                    "listen = \"{}\" is not an address: give the address at which nodes reach this \
                     machine, such as \"10.0.0.1\"",
                    text.get_ref()
                );
                self.at(&text.span(), what)
            })
        });
        let listen = self.tuning.listen.or(listen.transpose()?);
        if names.is_empty() {
            return Ok(None);
        }
        let ssh = self.tuning.ssh.as_ref().or(raw.ssh.as_ref());
        let agent = self.tuning.agent.as_ref().or(raw.agent.as_ref());
        Ok(Some(Nodes {
            names,
            ssh: ssh.map_or("ssh", String::as_str).to_owned(),
            agent: agent.cloned(),
            listen,
        }))
    }

    /// Returns on which nodes a workload runs; `None` if it runs here.
    pub(super) fn on_nodes(
        &self,
        raw: &RawWorkload,
        work: &Work,
    ) -> Result<Option<OnNodes>, ExperimentError> {
        let Some(on) = &raw.on else {
            let nodes = span_of(raw.nodes.as_ref());
            let others = [("nodes", nodes), ("device", span_of(raw.device.as_ref()))];
            self.refuse(others, |key| match work {
                Work::Copy(_) => format!("`{key}` is among the parameters of copy"),
                _ => format!("`{key}` is for workloads on nodes: add `on = \"nodes\"`"),
            })?;
            return Ok(None);
        };
        let wrong = |what: &str| Err(self.at(&on.span(), what));
        if on.get_ref() != NODES {
            return wrong(
                "workloads run here or on nodes: leave `on` out, or write on = \"nodes\"",
            );
        }
        match work {
            Work::Files(plan) if plan.has_tree() || plan.archive_folder().is_some() => {
                return wrong(
                    "an archive of yours is not sent to nodes: leave `tarball` and \
                     `archive_folder` out",
                );
            }
            Work::Fio(work) => {
                check_on_nodes(work.options()).map_err(|what| self.at(&on.span(), what))?;
            }
            Work::Files(_) => {}
            Work::Copy(_) => return wrong("copy runs on nodes by itself: leave `on` out"),
            Work::Blocks(_) | Work::Newfs(_) | Work::Replay(_) => {
                return wrong("nodes run only workloads on files, and fio: choose one of these");
            }
        }
        if let (Some(device), Work::Files(_)) = (&raw.device, work) {
            let what = "`device` is for fio: workloads on files run in the folder of the agent";
            return Err(self.at(&device.span(), what));
        }
        let count = self.count(raw.nodes.as_ref(), "nodes", 1, NODES_MAX)?;
        let Some(count) = count else {
            return wrong(
                "the number of nodes is missing: add `nodes`, a number or a list such as [1, 2, 4]",
            );
        };
        Ok(Some(OnNodes {
            count: u32::try_from(count).expect("checked"),
            device: raw.device.as_ref().map(|device| device.get_ref().clone()),
        }))
    }

    pub(super) fn copy(&self, raw: &RawWorkload) -> Result<CopyPlan, ExperimentError> {
        self.refuse(keys_of_blocks(raw), |key| {
            not_for_files(COPY, PARAMETERS, key)
        })?;
        let given = raw.parameters.iter().flat_map(Spanned::get_ref);
        let chosen = given.map(|(name, value)| Ok((name.clone(), self.parameter(name, value)?)));
        let chosen = chosen.collect::<Result<BTreeMap<_, _>, ExperimentError>>()?;
        let span = raw.span_of_parameters();
        let plan = CopyPlan::new(&chosen, self.tuning.scale);
        plan.map_err(|error| self.at(&span, error))
    }
}
