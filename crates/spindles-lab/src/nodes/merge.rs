//! Adds up what several nodes did at once into one record.

use super::controller::{NodeDone, Seen};
use super::wire::Done;
use crate::machine::evidence::Counters;
use crate::measure::measurement;
use spindles_device::TcpCounters;
use spindles_measure::statistics::fairness;
use spindles_measure::{
    Cpu, Evidence, Histogram, LinkUse, NodeRun, Phase, Run, Series, THREADS_MAX, ThreadUse,
};
use std::collections::BTreeMap;

/// The part of this machine.
pub(super) struct OwnPart {
    /// CPU time of threads that served the nodes.
    pub(super) threads: Vec<ThreadUse>,
    /// Connections that carried the traffic.
    pub(super) connections: Vec<TcpCounters>,
    /// How busy the machine is without the lab.
    pub(super) idle_permille: u64,
}

/// Fills in the record, from the first begin to the last end.
///
/// `settled` holds the counters of this machine's devices once all written data had reached them.
pub(super) fn merge(
    nodes: Vec<NodeDone>,
    seen: &Seen,
    settled: &Counters,
    own: &OwnPart,
    run: &mut Run,
) {
    let began = nodes.iter().map(|node| node.begin_ns).min().unwrap_or(0);
    let ends = nodes.iter().map(|node| node.begin_ns + node.elapsed_ns);
    run.elapsed_ns = ends.max().unwrap_or(0) - began;
    let (before, after) = &seen.counters;
    let engine_ns = after.cpu_ns_since(before);
    let mut evidence = after.since(before, own.threads.clone());
    measurement::of_members(&settled.members_since(before), run);
    if let Some((before, after)) = &seen.link {
        evidence.links.push(after.since(before, &own.connections));
    }
    let mut series = Series::default();
    for node in nodes {
        let begin_ns = node.begin_ns - began;
        add(node, begin_ns, &mut evidence, &mut series, run);
    }
    evidence
        .threads
        .sort_by_key(|thread| std::cmp::Reverse(thread.cpu_ns));
    evidence.threads.truncate(THREADS_MAX);
    run.series = Some(series);
    run.evidence = Some(evidence);
    let rates: Vec<f64> = run.nodes.iter().map(NodeRun::per_second).collect();
    run.fairness = fairness(&rates);
    let served_ns: u64 = own.threads.iter().map(|thread| thread.cpu_ns).sum();
    run.cpu_ns = Cpu {
        workload: served_ns,
        engine: engine_ns,
        machine: measurement::machine_ns(seen.ticks, own.idle_permille).max(served_ns + engine_ns),
    };
    run.io = measurement::io_of_files();
    run.doubts = measurement::doubts(seen.ticks, own.idle_permille);
}

fn add(node: NodeDone, begin_ns: u64, evidence: &mut Evidence, series: &mut Series, run: &mut Run) {
    let Done {
        run: theirs, link, ..
    } = node.done;
    run.phases.push(Phase {
        name: node.name.clone(),
        begin_ns,
        elapsed_ns: node.elapsed_ns,
        operations: theirs.operations,
        bytes: theirs.application.total(),
    });
    run.operations += theirs.operations;
    run.counted += theirs.counted;
    run.application += theirs.application;
    add_latency(&mut run.latency, &theirs.latency);
    series.add(&theirs.series.unwrap_or_default());
    if let Some(version) = theirs.workload.parameters.get("version") {
        let parameters = &mut run.workload.parameters;
        parameters.insert("version".to_owned(), version.clone());
    }
    if let Some(seen) = theirs.evidence {
        evidence.actors += seen.actors;
        for (operation, ns) in seen.actor_ns {
            *evidence.actor_ns.entry(operation).or_default() += ns;
        }
        let threads = seen.threads.into_iter().map(|thread| ThreadUse {
            name: format!("{} {}", node.name, thread.name),
            ..thread
        });
        evidence.threads.extend(threads);
        let (all, one) = (&mut evidence.cache, seen.cache);
        all.file_bytes = all.file_bytes.max(one.file_bytes);
        all.settle_ns = all.settle_ns.max(one.settle_ns);
        all.resident_permille = all.resident_permille.max(one.resident_permille);
        // True only if every node emptied its caches.
        all.emptied = one.emptied && (all.emptied || run.nodes.is_empty());
    }
    evidence.links.extend(link.map(|link| LinkUse {
        name: format!("{} {}", node.name, link.name),
        ..link
    }));
    run.nodes.push(NodeRun {
        name: node.name,
        begin_ns,
        begin_uncertainty_ns: node.uncertainty_ns,
        elapsed_ns: node.elapsed_ns,
        operations: theirs.operations,
        counted: theirs.counted,
        bytes: theirs.application,
        latency: theirs.latency,
        cpus: node.cpus,
        cpu_ns: theirs.cpu_ns,
    });
}

fn add_latency(all: &mut BTreeMap<String, Histogram>, more: &BTreeMap<String, Histogram>) {
    for (operation, histogram) in more {
        all.entry(operation.clone()).or_default().merge(histogram);
    }
}
