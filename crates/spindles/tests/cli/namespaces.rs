//! Several machines in one: network namespaces on one switch. Processes hold the namespaces; they
//! end with the test, however that ends, and the namespaces with them.

use crate::world::Background;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// A namespace that exists until this is dropped.
struct Namespace(Background);

impl Namespace {
    fn new() -> Result<Self, String> {
        // The process reads from a pipe of ours, which the kernel closes when we end. /sys shows
        // the interfaces of the namespace in which it is mounted.
        let script = "mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec cat";
        let mut child = Command::new("unshare")
            .args(["--net", "--mount", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut output = String::new();
        let out = child.stdout.take().expect("a pipe");
        let read = BufReader::new(out).read_line(&mut output);
        match (read, output.trim()) {
            (Ok(_), "ready") => Ok(Self(Background(child))),
            _ => Err("network namespaces take root, unshare and iproute2".to_owned()),
        }
    }

    /// A command that runs in this namespace.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let target = self.0.0.id().to_string();
        command.args(["--net", "--mount", "--target", &target, program]);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Result<(), String> {
        let output = self.command("sh").args(["-e", "-c", line]).output();
        let output = output.map_err(|error| format!("nsenter: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{line}` failed: {}", why.trim()))
    }
}

/// A server and nodes on a network.
pub(crate) struct Network {
    server: Namespace,
    nodes: Vec<Namespace>,
    _switch: Namespace,
}

/// The address of the server.
pub(crate) const SERVER: &str = "10.7.0.1";

impl Network {
    /// Creates a network with this many nodes. Every interface sends at most at `rate`, in the
    /// syntax of `tc`: `100mbit`.
    ///
    /// # Errors
    /// The reason why it is impossible here.
    pub(crate) fn new(nodes: u8, rate: Option<&str>) -> Result<Self, String> {
        let switch = Namespace::new()?;
        switch.run("ip link add name br0 type bridge; ip link set br0 up")?;
        let server = Namespace::new()?;
        let nodes = (0..nodes).map(|_| Namespace::new());
        let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let machines = std::iter::once(&server).chain(&nodes);
        for (number, machine) in (1..).zip(machines) {
            let (end, process) = (format!("port{number}"), machine.0.0.id());
            switch.run(&format!(
                "ip link add name {end} type veth peer name eth0 netns {process}; \
                 ip link set {end} master br0 up"
            ))?;
            machine.run(&format!(
                "ip address add 10.7.0.{number}/24 dev eth0; ip link set eth0 up"
            ))?;
            if let Some(rate) = rate {
                machine.run(&format!(
                    "tc qdisc add dev eth0 root tbf rate {rate} burst 64kb latency 50ms"
                ))?;
            }
        }
        Ok(Self {
            server,
            nodes,
            _switch: switch,
        })
    }

    /// The address of a node, from 0.
    pub(crate) fn address(node: usize) -> String {
        format!("10.7.0.{}", node + 2)
    }

    /// A command on the server.
    pub(crate) fn on_server(&self, program: &str) -> Command {
        self.server.command(program)
    }

    /// A command on a node.
    pub(crate) fn on_node(&self, node: usize, program: &str) -> Command {
        self.nodes[node].command(program)
    }
}
