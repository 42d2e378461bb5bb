//! Runs on several machines: agents in network namespaces, started as users do.

use crate::cli::binary::{Background, spindles};
use crate::cli::namespaces::{Network, SERVER};
use crate::loop_devices::Loop;
use spindles_measure::verdicts::{Bottleneck, CellVerdicts, Facts};
use spindles_measure::{Analysis, Record, Run};
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_spindles");

/// Machines with an agent on each node.
struct Lab {
    folder: TempDir,
    agents: Vec<Background>,
    network: Network,
}

fn token(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("it is ours");
}

impl Lab {
    fn new(nodes: u8, rate: Option<&str>) -> Result<Self, String> {
        let mut lab = Self {
            folder: tempfile::tempdir().expect("a folder"),
            agents: Vec::new(),
            network: Network::new(nodes, rate)?,
        };
        token(&lab.at("token"), &"k".repeat(32));
        fs::create_dir(lab.at("server")).expect("a folder");
        for node in 0..usize::from(nodes) {
            fs::create_dir(lab.own(node)).expect("a folder");
            let agent = lab.agent(node);
            lab.agents.push(agent);
        }
        Ok(lab)
    }

    /// Starts an agent on a node.
    fn agent(&self, node: usize) -> Background {
        let child = (self.network.on_node(node, BINARY))
            .args(["lab", "agent", "--listen", &Network::address(node)])
            .arg("--token-file")
            .arg(self.at("token"))
            .arg("--folder")
            .arg(self.own(node))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        begun(child).0
    }

    /// Restarts the agent of a node, after the old one has ended.
    fn restart(&mut self, node: usize) {
        self.agents[node].0.wait().expect("it ends");
        self.agents[node] = self.agent(node);
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn own(&self, node: usize) -> PathBuf {
        self.at(&format!("node{node}"))
    }

    /// A command on the server that runs an experiment with these workloads.
    fn command(&self, workloads: &str) -> Command {
        let nodes: Vec<String> = (0..self.agents.len()).map(Network::address).collect();
        let text = format!(
            "name = \"net\"\nblocks = 1\ncontrol = false\ncaches = \"keep\"\nnodes = {nodes:?}\n\
             token_file = \"{}\"\nlisten = \"{SERVER}\"\n[[system]]\nname = \"server\"\n\
             target = {:?}\n{workloads}",
            self.at("token").display(),
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

    /// Asserts that agents and the server removed all their files.
    fn assert_clean(&self) {
        let nodes = (0..self.agents.len()).map(|node| self.own(node));
        for folder in nodes.chain([self.at("server")]) {
            // A stopped agent may still be removing files.
            let gone = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(5));
                fs::read_dir(&folder).expect("a folder").next().is_none()
            });
            assert!(gone, "{} is not empty", folder.display());
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
    // A busy machine may be slower than the link, so one success in three runs is enough.
    let seen = (0..3).any(|_| {
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
    let (good, message, records) = lab.run(&copy("size = \"48M\", server = \"memory\""));
    assert!(good, "{message}");
    let run = runs(&records)[0];
    // A busy machine may be slower than the link.
    assert!(
        (200.0..=980.0).contains(&megabits(run)),
        "{}",
        megabits(run)
    );
    let links = &run.evidence.as_ref().expect("evidence").links;
    assert!(
        links
            .iter()
            .all(|it| it.sent_bits_per_s == Some(1_000_000_000))
    );
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
            "[[workload]]\nkind = \"fio\"\non = \"nodes\"\nnodes = 2\nparameters = {{ {options} }}\n"
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
    assert_eq!(cp.evidence.as_ref().map(|it| it.actors), Some(4));
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
                began.elapsed() < Duration::from_secs(20),
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

fn end(agent: &Background, signal: &str) {
    let killed = Command::new("kill")
        .args([signal, &agent.0.id().to_string()])
        .status();
    assert!(killed.expect("there is a kill").success());
}

/// A wrong token, a killed controller or agent, an agent that is stopped, and one that does not
/// exist: each failure names the node, and files are removed.
#[test]
fn a_node_that_fails_is_named() {
    let mut lab = match Lab::new(2, Some("100mbit")) {
        Ok(lab) => lab,
        Err(why) => return println!("SKIPPED: a_node_that_fails_is_named: {why}"),
    };
    let short = copy("nodes = 2, size = \"1M\"");
    token(&lab.at("token"), &"x".repeat(32));
    let (good, message, _) = lab.run(&short);
    assert!(
        !good && message.contains("node 10.7.0.2:7117: it refuses us"),
        "{message}"
    );
    token(&lab.at("token"), &"k".repeat(32));

    drop(lab.begun());
    let server = lab.at("server");
    for left in fs::read_dir(&server).expect("a folder").flatten() {
        fs::remove_dir_all(left.path()).expect("who was killed could not");
    }
    lab.assert_clean();
    fs::remove_dir_all(lab.at("out")).expect("it is ours");

    let run = lab.begun();
    end(&lab.agents[0], "-TERM");
    let why = lab.why(run);
    assert_eq!(why, "node 10.7.0.2:7117: its agent was ended");
    lab.assert_clean();
    lab.restart(0);

    let run = lab.begun();
    end(&lab.agents[1], "-KILL");
    let why = lab.why(run);
    assert!(why.starts_with("node 10.7.0.3:7117"), "{why}");
    fs::remove_dir_all(lab.own(1)).expect("who was killed could not");
    fs::create_dir(lab.own(1)).expect("a new one");
    lab.assert_clean();

    let (good, message, _) = lab.run(&short);
    let named = "node 10.7.0.3:7117: it can't be reached";
    assert!(!good && message.contains(named), "{message}");
}

/// Starts an agent on loopback. Returns it and its address.
fn on_loopback(folder: &Path, more: &[&str]) -> (Background, String) {
    token(&folder.join("token"), &"k".repeat(32));
    let child = Command::new(BINARY)
        .args(["lab", "agent", "--listen", "127.0.0.1:0", "--token-file"])
        .arg(folder.join("token"))
        .arg("--folder")
        .arg(folder)
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    begun(child)
}

/// Waits until an agent listens. Returns it and its address.
fn begun(mut child: Child) -> (Background, String) {
    let mut output = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("text");
    assert!(line.contains("listening on"), "{line}");
    // Drains the rest of its output, so that it never blocks on a full pipe.
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    let address = line.trim().rsplit(' ').next().expect("words").to_owned();
    (Background(child), address)
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
    let (_agent, address) = on_loopback(folder.path(), &["--device", &given.0]);
    let text = |device: &Loop| {
        format!(
            "name = \"net\"\nblocks = 1\ncontrol = false\nmembers = \"mem\"\nnodes = [\"{address}\"]\n\
             token_file = \"{}\"\n[[system]]\ntarget = \"folder:{}\"\n[[workload]]\nkind = \"fio\"\n\
             on = \"nodes\"\nnodes = 1\ndevice = \"{}\"\n\
             parameters = {{ rw = \"write\", bs = \"64k\", size = \"8M\", runtime = 1 }}\n",
            at("token"),
            folder.path().display(),
            device.0
        )
    };
    let run_on = |device: &Loop, out: &str| {
        fs::write(at("x.toml"), text(device)).expect("a file");
        let done = spindles(&["lab", "run", &at("x.toml"), "--out", &at(out)]);
        let records = spindles_lab::load(Path::new(&at(out))).expect("records");
        (done, runs(&records)[0].clone())
    };
    let (done, run) = run_on(&other, "refused");
    done.fails(1, &["the report says why"]);
    let why = run.failed.expect("it was not given");
    assert!(why.contains(&other.0) && why.contains("--device"), "{why}");
    let (done, run) = run_on(&given, "out");
    done.ok();
    assert!(run.application.written >= 64 << 10, "{run:?}");
}

/// Silent connections do not block a controller.
#[test]
fn silent_connections_do_not_block_a_controller() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_agent, address) = on_loopback(folder.path(), &[]);
    let strangers: Vec<_> = (0..30).map(|_| TcpStream::connect(&address)).collect();
    assert!(strangers.iter().all(Result::is_ok));
    let text = format!(
        "name = \"net\"\nblocks = 1\ncontrol = false\nmembers = \"mem\"\nnodes = [\"{address}\"]\n\
         token_file = \"{}\"\n[[system]]\ntarget = \"single\"\n{}",
        folder.path().join("token").display(),
        copy("nodes = 1, size = \"1M\", server = \"memory\""),
    );
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("x.toml"), text).expect("a file");
    spindles(&["lab", "run", &at("x.toml"), "--out", &at("out")]).ok();
}

/// An agent checks its folder and devices before it starts.
#[test]
fn an_agent_checks_its_folder_and_devices_at_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    token(Path::new(&at("token")), &"k".repeat(32));
    let agent = |more: &[&str]| {
        let token = at("token");
        let first = [
            "lab",
            "agent",
            "--listen",
            "127.0.0.1:0",
            "--token-file",
            &token,
        ];
        spindles(&[&first[..], more].concat())
    };
    agent(&["--folder", &at("none")]).fails(1, &["none is no folder", "--folder"]);
    agent(&["--folder", &at("token")]).fails(1, &["token is no folder", "--folder"]);
    agent(&["--device", &at("none")]).fails(1, &["none", "No such file"]);
    agent(&["--device", &at("")]).fails(1, &["is a folder"]);
    agent(&["--device", "mem:1M"]).fails(1, &["mem:1M is neither a block device nor a file"]);
    if let Some(proc) = ["/proc", "/sys"].iter().find(|it| Path::new(it).is_dir()) {
        agent(&["--folder", proc]).fails(1, &["can't make files there", "--folder"]);
    }
    // Lock the file as an array locks its devices.
    let held = fs::File::create(at("held")).expect("a file");
    held.set_len(1 << 20).expect("room");
    held.lock().expect("it is unlocked");
    agent(&["--device", &at("held")]).fails(1, &["is in use by", "--force"]);
    drop(held);
}

/// An agent starts only with a secret token.
#[test]
fn an_agent_starts_only_with_a_secret_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let agent = |token: &str| spindles(&["lab", "agent", "--token-file", token]);
    agent(&at("none")).fails(1, &["none", "can't be read"]);
    token(Path::new(&at("short")), "secret");
    agent(&at("short")).fails(1, &["has 6 characters and needs 32", "openssl rand"]);
    fs::write(at("open"), "k".repeat(32)).expect("a file");
    fs::set_permissions(at("open"), Permissions::from_mode(0o644)).expect("it is ours");
    agent(&at("open")).fails(1, &["others may read", "chmod 600"]);
}
