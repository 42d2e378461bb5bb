//! Turns the workloads of an experiment into tasks for the nodes.

use super::controller::{Crew, NodeDone, Seen};
use super::copies::{self, Door, Endpoint, Trouble, await_signal, signal};
use super::merge::{OwnPart, merge};
use super::wire::{CopyTask, SAME, Task};
use crate::experiment::fio::FioWork;
use crate::machine::caches::{make_ready, sync};
use crate::machine::clock::{self, ThreadTime};
use crate::machine::evidence::Watched;
use crate::measure::failure::Failure;
use crate::measure::schedule::Draw;
use spindles_device::TcpCounters;
use spindles_measure::{Run, ThreadUse};
use spindles_workload::file::FilePlan;
use spindles_workload::network::{CopyPlan, Store};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// This machine while nodes work.
pub(crate) struct Home<'a> {
    /// Devices and processes of this machine whose counters are recorded meanwhile.
    pub(crate) watched: &'a Watched,
    /// The address at which nodes reach this machine, if given.
    pub(crate) listen: Option<IpAddr>,
    /// True if caches are emptied before timed phases.
    pub(crate) empty_caches: bool,
    /// How busy the machine is without the lab.
    pub(crate) idle_permille: u64,
    /// Set when the user interrupts the run.
    pub(crate) interrupt: &'a AtomicBool,
}

/// Each node draws different random numbers.
fn seed_of(seed: u64, node: usize) -> u64 {
    Draw::new(seed, 7, u64::try_from(node).expect("few")).number()
}

impl Crew<'_> {
    /// Runs the same workload on files in the folder of each node. Each phase with a result fills
    /// in one of `runs`.
    pub(crate) fn files(
        &mut self,
        plan: &FilePlan,
        seed: u64,
        home: &Home<'_>,
        runs: &mut [Run],
    ) -> Result<(), Failure> {
        let task = |node| Task::Files {
            kind: plan.kind.name.to_owned(),
            parameters: plan.words(),
            seed: seed_of(seed, node),
            empty_caches: home.empty_caches,
        };
        self.prepare((0..self.count()).map(task).collect())?;
        let mut runs = runs.iter_mut();
        for (part, phase) in plan.phases().iter().enumerate() {
            let (nodes, here) = self.run_part(part, home.watched, self.address(home))?;
            if let Some(run) = phase.counted.and_then(|_| runs.next()) {
                merge(nodes, &here, &here.counters.1, &home.own_part(), run);
            }
        }
        Ok(())
    }

    /// Runs fio on a file in the folder of each node, or on a device of each.
    pub(crate) fn fio(
        &mut self,
        work: &FioWork,
        device: Option<&str>,
        home: &Home<'_>,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let task = |_| Task::Fio {
            options: work.options().clone(),
            device: device.map(str::to_owned),
        };
        self.prepare((0..self.count()).map(task).collect())?;
        let (nodes, here) = self.run_part(0, home.watched, self.address(home))?;
        merge(nodes, &here, &here.counters.1, &home.own_part(), run);
        Ok(())
    }

    /// Copies between this machine and each node; on this machine from or to `folder`, or memory if
    /// `None`.
    pub(crate) fn copy(
        &mut self,
        plan: &CopyPlan,
        folder: Option<&Path>,
        home: &Home<'_>,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let address = match home.listen {
            Some(address) => address,
            None => self.our_address()?,
        };
        let door = Door::open(address, plan.nodes())?;
        let server = door.address()?;
        let places = places(plan, folder, run.seed, home)?;
        let tasks = (0..self.count()).map(|node| {
            Task::Copy(CopyTask {
                server: server.to_string(),
                ticket: door.ticket(node),
                bytes: plan.file_bytes(),
                writes: plan.writes(),
                disk: plan.client() == Store::Disk,
                fsync: plan.fsync(),
                seed: seed_of(run.seed, node),
                empty_caches: home.empty_caches,
            })
        });
        let streams = self.let_in(&door, tasks.collect())?;
        // Caches are emptied last, so that no preparation fills them again.
        let emptied = folder.is_some_and(|folder| make_ready(folder, home.empty_caches));
        let ends = streams.iter().zip(places).collect();
        let (nodes, here, threads) = self.run_copy(plan, ends, home.watched, address)?;
        let own = OwnPart {
            threads,
            connections: streams.iter().map(TcpCounters::of).collect(),
            ..home.own_part()
        };
        let settling = std::time::Instant::now();
        folder.inspect(|folder| sync(folder));
        let settle_ns = clock::duration_ns(settling.elapsed());
        merge(nodes, &here, &home.watched.now(), &own, run);
        if let (Some(evidence), Some(_)) = (&mut run.evidence, folder) {
            evidence.cache.file_bytes = plan.file_bytes().saturating_mul(plan.nodes().into());
            evidence.cache.settle_ns = settle_ns;
            evidence.cache.emptied = emptied;
        }
        Ok(())
    }

    /// Runs a copy on the nodes while this machine serves their streams. Returns the results of the
    /// nodes, the controller's observations, and the CPU use of the serving threads.
    fn run_copy(
        &mut self,
        plan: &CopyPlan,
        streams: Vec<(&TcpStream, Endpoint)>,
        watched: &Watched,
        address: IpAddr,
    ) -> Result<(Vec<NodeDone>, Seen, Vec<ThreadUse>), Failure> {
        let wrong_here = OnceLock::new();
        let (ran, ends) = std::thread::scope(|scope| {
            let connections: Vec<_> = streams.iter().map(|(stream, _)| *stream).collect();
            let ends: Vec<_> = (streams.into_iter().enumerate())
                .map(|(node, (stream, place))| {
                    let (name, wrong_here) = (self.name(node).to_owned(), &wrong_here);
                    scope.spawn(move || {
                        let end = serve(plan, node, stream, place);
                        if let Err(why) = &end {
                            if let Trouble::Endpoint(_) = why {
                                wrong_here.get_or_init(|| why.at_server(&name));
                            }
                            // Closing the stream stops the node from waiting.
                            let _closed = stream.shutdown(Shutdown::Both);
                        }
                        end
                    })
                })
                .collect();
            let ran = self.run_part(0, watched, Some(address));
            if ran.is_err() {
                for stream in connections {
                    let _closed = stream.shutdown(Shutdown::Both);
                }
            }
            let ends: Vec<_> = ends
                .into_iter()
                .map(|end| end.join().expect("a stream does not panic"))
                .collect();
            (ran, ends)
        });
        let (nodes, here) = match ran {
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            // Prefer our error: a node does not know about a failed disk here.
            Err(why) => return Err(wrong_here.into_inner().map_or(why, Failure::Failed)),
            Ok(ran) => ran,
        };
        let ends = (ends.into_iter().enumerate()).map(|(node, end)| {
            end.map_err(|trouble| Failure::Failed(trouble.at_server(self.name(node))))
        });
        let threads = ends.collect::<Result<Vec<_>, _>>()?;
        Ok((nodes, here, threads))
    }

    /// Lets all nodes prepare, and accepts their streams.
    fn let_in(&mut self, door: &Door, tasks: Vec<Task>) -> Result<Vec<TcpStream>, Failure> {
        let stop = AtomicBool::new(false);
        let (prepared, streams) = std::thread::scope(|scope| {
            let streams = scope.spawn(|| door.streams(&stop));
            let prepared = self.prepare(tasks);
            stop.store(true, Ordering::Relaxed);
            (prepared, streams.join().expect("a door does not panic"))
        });
        prepared?;
        let streams = (streams.into_iter().enumerate()).map(|(node, stream)| {
            stream.ok_or_else(|| {
                let name = self.name(node);
                let why = "its agent reports that it is ready, but has not opened its data \
                    connection";
                Failure::Failed(format!("node {name}: {why}: {SAME}"))
            })
        });
        streams.collect()
    }

    /// Returns the address of this machine for nodes, if the same for all.
    fn address(&self, home: &Home<'_>) -> Option<IpAddr> {
        home.listen.or_else(|| self.our_address().ok())
    }
}

impl Home<'_> {
    fn own_part(&self) -> OwnPart {
        OwnPart {
            threads: Vec::new(),
            connections: Vec::new(),
            idle_permille: self.idle_permille,
        }
    }
}

/// Creates the server's end of each stream.
fn places(
    plan: &CopyPlan,
    folder: Option<&Path>,
    seed: u64,
    home: &Home<'_>,
) -> Result<Vec<Endpoint>, Failure> {
    let place = |stream: u32| {
        let name = format!("copy.{stream}");
        if plan.writes() {
            return Endpoint::to_write(folder, &name);
        }
        let contents = (plan.file_bytes(), seed ^ u64::from(stream));
        Endpoint::to_read(folder, &name, contents, home.interrupt)
    };
    (0..plan.nodes()).map(place).collect()
}

/// Serves the stream of a node. Returns the CPU time this took.
fn serve(
    plan: &CopyPlan,
    node: usize,
    stream: &TcpStream,
    mut place: Endpoint,
) -> Result<ThreadUse, Trouble> {
    let time = ThreadTime::now();
    if plan.writes() {
        copies::receive(stream, &mut place, plan.file_bytes(), &mut |_, _| {})?;
        if plan.fsync() {
            place.sync()?;
        }
        drop(place);
        signal(stream)?;
    } else {
        await_signal(stream)?;
        copies::send(stream, &mut place, plan.file_bytes(), &mut |_, _| {})?;
    }
    Ok(ThreadTime::now().used_since(time, format!("stream {node}")))
}
