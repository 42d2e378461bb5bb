//! Runs on several machines: agents in network namespaces, started over ssh.

use crate::cli::namespaces::{Network, SERVER};
use crate::cli::sshd::{Keys, SSHD};
use crate::loop_devices::Loop;
use crate::world::{Background, spindles};
use spindles_measure::verdicts::{Bottleneck, CellVerdicts, Facts};
use spindles_measure::{Analysis, Record, Run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_spindles");

/// Machines with an sshd on each node.
struct Lab {
    folder: TempDir,
    keys: Keys,
    sshds: Vec<Background>,
    network: Network,
}

impl Lab {
    fn new(nodes: u8, rate: Option<&str>) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut lab = Self {
            keys: Keys::new(folder.path())?,
            folder,
            sshds: Vec::new(),
            network: Network::new(nodes, rate)?,
        };
        fs::create_dir(lab.at("server")).expect("a folder");
        for node in 0..usize::from(nodes) {
            fs::create_dir(lab.own(node)).expect("a folder");
            let agent = format!("{BINARY} lab agent --folder {}", lab.own(node).display());
            let sshd = lab.network.on_node(node, SSHD);
            let sshd = (lab.keys).serve(sshd, &Network::address(node), Some(&agent));
            lab.sshds.push(sshd);
        }
        Ok(lab)
    }

    /// Returns the processes that are agents in the folder of a node.
    fn agents(&self, node: usize) -> Vec<String> {
        let own = self.own(node).display().to_string();
        let own = ["lab", "agent", "--folder", &own, ""].join("\0");
        let processes = fs::read_dir("/proc").expect("a folder").flatten();
        let agents = processes.filter(|process| {
            let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
            command.ends_with(own.as_bytes())
        });
        let numbers = agents.map(|process| process.file_name().display().to_string());
        numbers.collect()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn own(&self, node: usize) -> PathBuf {
        self.at(&format!("node{node}"))
    }

    /// A command on the server that runs an experiment with these workloads.
    fn command(&self, workloads: &str) -> Command {
        let nodes: Vec<String> = (0..self.sshds.len()).map(Network::address).collect();
        let text = format!(
            "name = \"net\"\nblocks = 1\ncontrol = false\ncaches = \"keep\"\nnodes = {nodes:?}\n\
             ssh = \"{}\"\nlisten = \"{SERVER}\"\n[[system]]\nname = \"server\"\n\
             target = {:?}\n{workloads}",
            self.keys.ssh("user", "known_hosts"),
            format!("folder:{}", self.at("server").display()),
        );
        fs::write(self.at("x.toml"), text).expect("a file");
        let mut command = self.network.on_server(BINARY);
        command.args(["lab", "run"]).arg(self.at("x.toml"));
        command.arg("--out").arg(self.at("out"));
        command
    }

    /// Runs it. Returns whether all succeeded, its standard error, and its records.
    fn run(&self, workloads: &str) -> (bool, String, Vec<Record>) {
        let output = self.command(workloads).output().expect("it was built");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let out = self.at("out");
        let records = spindles_lab::load(&out).unwrap_or_default();
        drop(fs::remove_dir_all(out));
        (output.status.success(), message, records)
    }

    /// Asserts that agents and the server removed all their files, and that no agent is left.
    fn assert_clean(&self) {
        let nodes = (0..self.sshds.len()).map(|node| self.own(node));
        for folder in nodes.chain([self.at("server")]) {
            // A stopped agent may still be removing files.
            let gone = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                fs::read_dir(&folder).expect("a folder").next().is_none()
            });
            assert!(gone, "{} is not empty", folder.display());
        }
        let began = Instant::now();
        while (0..self.sshds.len()).any(|node| !self.agents(node).is_empty()) {
            assert!(began.elapsed() < Duration::from_secs(10), "agents are left");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn copy(parameters: &str) -> String {
    format!("[[workload]]\nkind = \"copy\"\nparameters = {{ {parameters} }}\n")
}

fn runs(records: &[Record]) -> Vec<&Run> {
    let runs = records.iter().filter_map(|record| match record {
        Record::Run(run) => Some(run.as_ref()),
        _ => None,
    });
    runs.collect()
}

/// The bottleneck of each workload.
fn bottlenecks(records: &[Record]) -> Vec<Bottleneck> {
    let analysis = Analysis::of(records).expect("whole records");
    let cells = analysis.cells.iter();
    cells
        .map(|cell| {
            let facts = Facts::of(&analysis, cell).expect("evidence");
            CellVerdicts::on(&facts).bottleneck
        })
        .collect()
}

/// Payload in Mbit/s.
fn megabits(run: &Run) -> f64 {
    run.per_second() * 8.0 / 1e6
}

/// Runs of a test that needs a machine faster than its links.
const TRIES_MAX: u32 = 10;

#[test]
fn a_link_of_100_mbit_is_seen_from_one_to_four_nodes() {
    let lab = match Lab::new(4, Some("100mbit")) {
        Ok(lab) => lab,
        Err(why) => return println!("SKIPPED: a_link_of_100_mbit_is_seen: {why}"),
    };
    let memory = "size = \"4M\", server = \"memory\"";
    let workloads = [
        copy(&format!("nodes = [1, 4], {memory}")),
        copy(&format!("nodes = 1, {memory}, direction = \"write\""))
            .replace("kind", "name = \"write\"\nkind"),
    ];
    // A busy machine may be slower than the link, so one success is enough.
    let seen = (0..TRIES_MAX).any(|_| {
        let (good, message, records) = lab.run(&workloads.concat());
        assert!(good, "{message}");
        let runs = runs(&records);
        assert_eq!(runs.len(), 3);
        for (run, count) in runs.iter().zip([1, 4, 1]) {
            check_shaped(run, count);
        }
        lab.assert_clean();
        let slow = runs.iter().any(|run| megabits(run) < 88.0);
        let late = runs.iter().any(|run| spread_ns(run) > 15_000_000);
        let found = bottlenecks(&records);
        let other = found.iter().any(|it| it.cause() != Some("network"));
        if slow || late || other {
            let rates: Vec<f64> = runs.iter().copied().map(megabits).collect();
            let spreads: Vec<u64> = runs.iter().copied().map(spread_ns).collect();
            let words: Vec<String> = found.iter().map(Bottleneck::words).collect();
            println!("once more: {rates:?} Mbit/s, {spreads:?} ns apart, {words:#?}");
        }
        !(slow || late || other)
    });
    assert!(seen);
}

/// The time between the starts of the first and the last node.
fn spread_ns(run: &Run) -> u64 {
    let begins = run.nodes.iter().map(|node| node.begin_ns);
    begins.max().expect("it ran on nodes")
}

/// Checks a copy over links of 100 Mbit/s, with limits that hold on a busy machine too.
fn check_shaped(run: &Run, count: u32) {
    let name = &run.workload.name;
    assert_eq!(run.workload.parameters["nodes"], count.to_string());
    assert_eq!(run.counted, u64::from(count) * (4 << 20));
    assert!(megabits(run) <= 98.0, "{name}: {}", megabits(run));
    assert_eq!(run.nodes.len(), usize::try_from(count).expect("few"));
    let shares: u64 = run.nodes.iter().map(|node| node.counted).sum();
    assert_eq!(shares, run.counted);
    assert!(run.fairness > Some(0.5) && run.fairness <= Some(1.0 + 1e-9));
    let links = &run.evidence.as_ref().expect("evidence").links;
    assert_eq!(links.len(), 1 + run.nodes.len());
    for link in links {
        assert_eq!(link.sent_bits_per_s, Some(100_000_000), "{link:?}");
    }
    let sent = links.iter().map(|link| link.sent).max();
    assert!(sent > Some(run.counted), "{name}: {links:?}");
    let busy = links.iter().map(|link| link.tcp_busy_ns).max();
    assert!(busy > Some(100_000_000), "{name}: {links:?}");
}

#[test]
fn a_link_of_1_gbit_is_seen() {
    let lab = match Lab::new(1, Some("1gbit")) {
        Ok(lab) => lab,
        Err(why) => return println!("SKIPPED: a_link_of_1_gbit_is_seen: {why}"),
    };
    let workload = copy("size = \"48M\", server = \"memory\"");
    // A busy machine may be slower than the link, so one success is enough.
    let is_fast = (0..TRIES_MAX).any(|_| {
        let (good, message, records) = lab.run(&workload);
        assert!(good, "{message}");
        let run = runs(&records)[0];
        assert!(megabits(run) <= 980.0, "{}", megabits(run));
        let links = &run.evidence.as_ref().expect("evidence").links;
        assert!(
            links
                .iter()
                .all(|link| link.sent_bits_per_s == Some(1_000_000_000))
        );
        megabits(run) >= 200.0
    });
    assert!(is_fast);
}

/// Without a rate limit the link is no bottleneck; files, fio and the disks of both ends go through
/// agents too.
#[test]
fn nodes_run_copies_on_files_and_fio() {
    let lab = match Lab::new(2, None) {
        Ok(lab) => lab,
        Err(why) => return println!("SKIPPED: nodes_run_copies: {why}"),
    };
    let fio = Command::new("fio").arg("--version").output().is_ok();
    let mut workloads = vec![
        copy("nodes = 2, size = \"32M\", server = \"memory\""),
        copy("nodes = 2, size = \"4M\", client = \"disk\"")
            .replace("kind", "name = \"read\"\nkind"),
        copy("nodes = 2, size = \"4M\", client = \"disk\", direction = \"write\", fsync = \"yes\"")
            .replace("kind", "name = \"write\"\nkind"),
        "[[workload]]\nkind = \"cp\"\non = \"nodes\"\nnodes = [1, 2]\n\
         parameters = { size = \"2M\", processes = 2 }\n"
            .to_owned(),
    ];
    if fio {
        let options = "rw = \"randread\", size = \"4m\", ioengine = \"psync\", runtime = 1";
        workloads.push(format!(
            "[[workload]]\nkind = \"fio\"\non = \"nodes\"\nnodes = 2\n\
             parameters = {{ {options} }}\n"
        ));
    } else {
        println!("SKIPPED: fio through agents: fio is not installed");
    }
    let (good, message, records) = lab.run(&workloads.concat());
    let all = runs(&records);
    let failed: Vec<_> = all.iter().filter_map(|run| run.failed.as_ref()).collect();
    assert!(good, "{message}{failed:?}");
    let of = |name: &str| {
        let run = all.iter().find(|run| run.workload.name == name);
        *run.unwrap_or_else(|| panic!("{name} in {all:?}"))
    };
    assert_ne!(bottlenecks(&records)[0].cause(), Some("network"));
    let links = &of("copy").evidence.as_ref().expect("evidence").links;
    assert!(
        links
            .iter()
            .all(|link| link.bits_per_s.is_none() && link.sent_bits_per_s.is_none()),
        "{links:?}"
    );
    let (read, write) = (of("read"), of("write"));
    assert_eq!(
        (read.application.read, write.application.written),
        (8 << 20, 8 << 20)
    );
    // 64 pieces each, and the end of each file.
    assert_eq!(read.latency["read"].total(), 128);
    assert_eq!(write.latency["write"].total(), 128);
    assert_eq!(write.latency["fsync"].total(), 2);
    let cp = of("cp nodes 2 write");
    assert_eq!(cp.application.written, 2 * 2 * (2 << 20));
    assert_eq!(
        cp.evidence.as_ref().map(|evidence| evidence.actors),
        Some(4)
    );
    let slots = &cp.series.as_ref().expect("a series").slots;
    let in_slots: u64 = slots.iter().map(|slot| slot.operations).sum();
    assert_eq!(in_slots, cp.operations);
    for run in all.iter().filter(|run| run.workload.kind == "fio") {
        assert_eq!(run.nodes.len(), 2);
        assert!(run.operations > 0 && run.latency["read"].total() > 0);
        let sum: u64 = run.nodes.iter().map(|node| node.operations).sum();
        assert_eq!(run.operations, sum);
    }
    lab.assert_clean();
}

impl Lab {
    /// Starts a long copy to files at two nodes.
    fn begun(&self) -> Background {
        let long = copy("nodes = 2, size = \"64M\", client = \"disk\"");
        let run = self
            .command(&long)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let run = Background(run.expect("it was built"));
        let began = Instant::now();
        let grows = |node: usize| {
            let scratch = fs::read_dir(self.own(node)).expect("a folder").next()?;
            let file = scratch.ok()?.path().join("files/copy");
            Some(fs::metadata(file).ok()?.len() > 0)
        };
        while !(0..2).all(|node| grows(node) == Some(true)) {
            assert!(
                began.elapsed() < Duration::from_mins(2),
                "nothing is copied"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        run
    }

    /// Waits for a started run to fail. Returns the reason.
    fn why(&self, mut run: Background) -> String {
        assert!(!run.0.wait().expect("it ends").success());
        let records = spindles_lab::load(&self.at("out")).expect("records");
        fs::remove_dir_all(self.at("out")).expect("it is ours");
        runs(&records)[0].failed.clone().expect("it failed")
    }
}

fn end(process: &str, signal: &str) {
    let killed = Command::new("kill").args([signal, process]).status();
    assert!(killed.expect("there is a kill").success());
}

/// A killed or interrupted controller, a killed agent, and a node without sshd: each failure names
/// the node, agents end, and files are removed.
#[test]
fn a_node_that_fails_is_named() {
    let mut lab = match Lab::new(2, Some("100mbit")) {
        Ok(lab) => lab,
        Err(why) => return println!("SKIPPED: a_node_that_fails_is_named: {why}"),
    };
    drop(lab.begun());
    let server = lab.at("server");
    for left in fs::read_dir(&server).expect("a folder").flatten() {
        fs::remove_dir_all(left.path()).expect("who was killed could not");
    }
    lab.assert_clean();
    fs::remove_dir_all(lab.at("out")).expect("it is ours");

    let mut run = lab.begun();
    end(&run.0.id().to_string(), "-INT");
    assert_eq!(run.0.wait().expect("it ends").code(), Some(1));
    lab.assert_clean();

    let run = lab.begun();
    end(&lab.agents(0)[0], "-TERM");
    let why = lab.why(run);
    assert_eq!(why, "node 10.7.0.2: its agent was stopped");
    lab.assert_clean();

    let run = lab.begun();
    end(&lab.agents(1)[0], "-KILL");
    let why = lab.why(run);
    assert!(why.starts_with("node 10.7.0.3 is lost after "), "{why}");
    fs::remove_dir_all(lab.own(1)).expect("who was killed could not");
    fs::create_dir(lab.own(1)).expect("a new one");
    lab.assert_clean();

    lab.sshds[1].0.kill().expect("it is ours");
    lab.sshds[1].0.wait().expect("it ends");
    let command = lab.command(&copy("nodes = 2, size = \"1M\"")).output();
    let message = String::from_utf8(command.expect("it was built").stderr).expect("text");
    let named = "node 10.7.0.3: no agent answers: the connection was closed: ssh: connect to host \
                 10.7.0.3 port 2222: Connection refused: `ssh ";
    assert!(message.contains(named), "{message}");
}

/// A node on loopback, with an address of its own.
struct OneNode {
    folder: TempDir,
    keys: Keys,
    address: String,
    _sshd: Background,
}

impl OneNode {
    fn new() -> Result<Self, String> {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let folder = tempfile::tempdir().expect("a folder");
        let keys = Keys::new(folder.path())?;
        let [third, second, ..] = std::process::id().to_le_bytes();
        let last = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = format!("127.{second}.{third}.{last}");
        Ok(Self {
            _sshd: keys.serve(Command::new(SSHD), &address, None),
            folder,
            keys,
            address,
        })
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The command of an agent in the folder of the test.
    fn agent(&self) -> String {
        format!(
            "{BINARY} lab agent --folder {}",
            self.folder.path().display()
        )
    }

    /// Writes an experiment on this node. Returns its file.
    fn experiment(&self, ssh: &str, agent: &str, rest: &str) -> String {
        let text = format!(
            "name = \"net\"\nblocks = 1\ncontrol = false\nmembers = \"mem\"\n\
             nodes = [\"{}\"]\nssh = \"{ssh}\"\nagent = \"{agent}\"\n[[system]]\n{rest}",
            self.address
        );
        fs::write(self.at("x.toml"), text).expect("a file");
        self.at("x.toml")
    }
}

/// fio runs on a block device that was given to the agent, and on no other.
#[test]
fn fio_runs_on_a_device_of_a_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let devices = ["given", "other"].map(|name| {
        let file = fs::File::create(at(name)).expect("a file");
        file.set_len(16 << 20).expect("room");
        Loop::new(Path::new(&at(name)), 512)
    });
    let [given, other] = match devices {
        [Ok(given), Ok(other)] => [given, other],
        [Err(why), _] | [_, Err(why)] => {
            return println!("SKIPPED: fio_runs_on_a_device_of_a_node: {why}");
        }
    };
    let node = match OneNode::new() {
        Ok(node) => node,
        Err(why) => return println!("SKIPPED: fio_runs_on_a_device_of_a_node: {why}"),
    };
    let text = |device: &Loop| {
        format!(
            "target = \"folder:{}\"\n[[workload]]\nkind = \"fio\"\n\
             on = \"nodes\"\nnodes = 1\ndevice = \"{}\"\n\
             parameters = {{ rw = \"write\", bs = \"64k\", size = \"8M\", runtime = 1 }}\n",
            folder.path().display(),
            device.0
        )
    };
    let ssh = node.keys.ssh("user", "known_hosts");
    let agent = format!("{} --device {}", node.agent(), given.0);
    let run_on = |device: &Loop, out: &str| {
        let experiment = node.experiment(&ssh, &agent, &text(device));
        let done = spindles(&["lab", "run", &experiment, "--out", &at(out)]);
        let records = spindles_lab::load(Path::new(&at(out))).expect("records");
        (done, runs(&records)[0].clone())
    };
    let (done, run) = run_on(&other, "refused");
    done.fails(1, "the report says why");
    let why = run.failed.expect("it was not given");
    assert!(why.contains(&other.0) && why.contains("--device"), "{why}");
    let (done, run) = run_on(&given, "out");
    done.ok();
    assert!(run.application.written >= 64 << 10, "{run:?}");
}

/// A node is reached over ssh; each obstacle is named, with the node.
#[test]
fn a_node_is_reached_over_ssh() {
    let node = match OneNode::new() {
        Ok(node) => node,
        Err(why) => return println!("SKIPPED: a_node_is_reached_over_ssh: {why}"),
    };
    let copies = copy("nodes = 1, size = \"1M\", server = \"memory\"");
    let rest = format!("target = \"single\"\n{copies}");
    let run = |ssh: &str, agent: &str| {
        let experiment = node.experiment(ssh, agent, &rest);
        drop(fs::remove_dir_all(node.at("out")));
        spindles(&["lab", "run", &experiment, "--out", &node.at("out")])
    };
    let (good, agent) = (node.keys.ssh("user", "known_hosts"), node.agent());
    run(&good, &agent).ok();
    let records = spindles_lab::load(Path::new(&node.at("out"))).expect("records");
    let nodes = runs(&records)[0].nodes.iter().map(|node| &node.name);
    assert!(nodes.eq([&node.address]));

    let named = format!("node {}: no agent answers: ", node.address);
    let refused = |ssh: &str, agent: &str, why: &str| {
        let remedy = format!("`{ssh} {} {agent}` must start one", node.address);
        run(ssh, agent).fails(1, [&named, why, &remedy]);
    };
    let stranger = node.keys.ssh("stranger", "known_hosts");
    refused(&stranger, &agent, "Permission denied (publickey");
    let unknown = node.keys.ssh("user", "no_known_hosts");
    refused(&unknown, &agent, "Host key verification failed");
    refused(&good, "no-such-agent", "no-such-agent: command not found");
    let nowhere = format!("{agent}/nowhere");
    refused(
        &good,
        &nowhere,
        "nowhere is not a folder: make it, or name another",
    );
    let old = format!("{agent} --token-file x");
    refused(&good, &old, "unexpected argument '--token-file' found");
    refused(
        &good,
        "echo Welcome && sleep 100",
        "bytes at once, more than",
    );
}

/// An agent checks its folder and devices before it starts.
#[test]
fn an_agent_checks_its_folder_and_devices_at_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("file"), "").expect("a file");
    let agent = |more: &[&str]| spindles(&[&["lab", "agent"], more].concat());
    agent(&["--listen", "127.0.0.1"]).fails(2, "--listen");
    agent(&["--folder", &at("none")]).fails(1, ["none is not a folder", "--folder"]);
    agent(&["--folder", &at("file")]).fails(1, ["file is not a folder", "--folder"]);
    agent(&["--device", &at("none")]).fails(1, ["none", "No such file"]);
    agent(&["--device", &at("")]).fails(1, "is a folder");
    agent(&["--device", "mem:1M"]).fails(1, "mem:1M is neither a block device nor a file");
    if let Some(proc) = ["/proc", "/sys"].iter().find(|it| Path::new(it).is_dir()) {
        agent(&["--folder", proc]).fails(1, ["can't make files there", "--folder"]);
    }
    // Lock the file as an array locks its devices.
    let held = fs::File::create(at("held")).expect("a file");
    held.set_len(1 << 20).expect("room");
    held.lock().expect("it is unlocked");
    agent(&["--device", &at("held")]).fails(1, ["is in use by", "--force"]);
    drop(held);
}
