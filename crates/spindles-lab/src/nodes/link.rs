//! The network interface of a connection: its speed, and its counters.

use serde_json::Value;
use spindles_device::{TcpCounters, interface_of};
use spindles_measure::LinkUse;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// A watched interface.
#[derive(Clone, Debug)]
pub(super) struct Link {
    name: String,
}

/// Its counters at one moment, and its speed.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkCounters(LinkUse);

impl Link {
    /// Returns the interface of this machine with the given address.
    pub(super) fn of(address: IpAddr) -> Option<Self> {
        interface_of(address).map(|name| Self { name })
    }

    /// Reads the counters.
    pub(super) fn now(&self) -> LinkCounters {
        // /sys may list the interfaces of another network namespace; /proc/net/dev lists ours.
        let all = fs::read_to_string("/proc/net/dev").unwrap_or_default();
        let (received, sent) = carried(&all, &self.name).unwrap_or_default();
        let queue = queue(&self.name).unwrap_or_default();
        LinkCounters(LinkUse {
            name: self.name.clone(),
            bits_per_s: speed(Path::new("/sys/class/net"), &self.name, 0),
            sent_bits_per_s: queue.bits_per_s,
            received,
            sent,
            overlimits: queue.overlimits,
            drops: queue.drops,
            ..LinkUse::default()
        })
    }
}

impl LinkCounters {
    /// Returns the traffic since `earlier`, and what its connections waited for meanwhile.
    pub(super) fn since(&self, earlier: &Self, connections: &[TcpCounters]) -> LinkUse {
        let (now, before) = (&self.0, &earlier.0);
        let less = u64::saturating_sub;
        let sum = |of: fn(&TcpCounters) -> u64| connections.iter().map(of).sum::<u64>();
        LinkUse {
            name: now.name.clone(),
            bits_per_s: now.bits_per_s,
            sent_bits_per_s: now.sent_bits_per_s,
            received: less(now.received, before.received),
            sent: less(now.sent, before.sent),
            overlimits: less(now.overlimits, before.overlimits),
            drops: less(now.drops, before.drops),
            retransmits: sum(|connection| connection.retransmits),
            tcp_busy_ns: sum(|connection| connection.busy_ns),
            receive_window_ns: sum(|connection| connection.receive_window_ns),
            send_buffer_ns: sum(|connection| connection.send_buffer_ns),
        }
    }
}

/// Returns the bytes received and sent by an interface, from `/proc/net/dev`.
fn carried(text: &str, name: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.find(|(known, _)| known.trim() == name)?;
    let numbers: Vec<&str> = numbers.split_ascii_whitespace().collect();
    Some((
        numbers.first()?.parse().ok()?,
        numbers.get(8)?.parse().ok()?,
    ))
}

/// The state of an interface's queue.
#[derive(Debug, Default, PartialEq, Eq)]
struct Queue {
    /// The rate that traffic is shaped to.
    bits_per_s: Option<u64>,
    overlimits: u64,
    drops: u64,
}

/// Asks `tc`; `None` if it is not installed.
fn queue(name: &str) -> Option<Queue> {
    let said = Command::new("tc")
        .args(["-s", "-j", "qdisc", "show", "dev", name])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    read_queue(&said.stdout)
}

/// Parses the output of `tc -s -j qdisc show`, whose rates are in bytes per second.
fn read_queue(said: &[u8]) -> Option<Queue> {
    let said: Value = serde_json::from_slice(said).ok()?;
    let mut all = said.as_array()?.iter();
    let root = all.find(|discipline| discipline["root"] == true)?;
    let number = |key: &str| root[key].as_u64().unwrap_or(0);
    let rate = root["options"]["rate"].as_u64();
    Some(Queue {
        bits_per_s: rate.map(|bytes| bytes.saturating_mul(8)),
        overlimits: number("overlimits"),
        drops: number("drops"),
    })
}

/// Most interfaces stacked on each other.
const LOWER_MAX: u32 = 8;

/// Returns the bits per second of an interface that is hardware, or lies on hardware. Purely
/// virtual interfaces report invented speeds.
fn speed(folder: &Path, name: &str, depth: u32) -> Option<u64> {
    let own = folder.join(name);
    let has_hardware = own.join("device").exists();
    let lower = fs::read_dir(&own).into_iter().flatten().flatten();
    let mut lower = lower.filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("lower_").map(str::to_owned)
    });
    let lies_on_some =
        depth < LOWER_MAX && lower.any(|lower| speed(folder, &lower, depth + 1).is_some());
    let said = fs::read_to_string(own.join("speed")).ok()?;
    let megabits = said
        .trim()
        .parse::<u64>()
        .ok()
        .filter(|megabits| *megabits > 0);
    // A driver that does not know the speed reports the largest number.
    let megabits = megabits.filter(|megabit| *megabit < u64::from(u32::MAX));
    megabits
        .filter(|_| has_hardware || lies_on_some)
        .map(|megabits| megabits * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_counters_are_parsed() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 \
            9 10\n  eth0:90 1 0 0 0 0 0 0 1234 5 0 0 0 0 0 0\n";
        assert_eq!(carried(text, "eth0"), Some((90, 1234)));
        assert_eq!(carried(text, "eth"), None);
        let loopback = Link::of("127.0.0.1".parse().unwrap()).unwrap();
        let before = loopback.now();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        assert_eq!(socket.send_to(&[0; 5000], to).unwrap(), 5000);
        let used = loopback.now().since(&before, &[TcpCounters::default()]);
        assert!(used.sent >= 5000, "{used:?}");
        assert_eq!((used.name.as_str(), used.bits_per_s), ("lo", None));
    }

    #[test]
    fn tc_output_is_parsed() {
        let output = br#"[{"kind":"fq","handle":"1:","parent":"8001:1","options":{"rate":5}},
            {"kind":"tbf","handle":"8001:","root":true,"options":{"rate":12500000,"burst":32762},
             "bytes":90,"drops":3,"overlimits":17}]"#;
        let shaped = Queue {
            bits_per_s: Some(100_000_000),
            overlimits: 17,
            drops: 3,
        };
        assert_eq!(read_queue(output), Some(shaped));
        let plain = br#"[{"kind":"noqueue","handle":"0:","root":true,"refcnt":2,"options":{}}]"#;
        assert_eq!(read_queue(plain), Some(Queue::default()));
        assert_eq!(read_queue(b"Cannot find device"), None);
    }

    /// A veth reports 10 Gbit/s whatever it can carry.
    #[test]
    fn only_hardware_has_a_speed() {
        let folder = tempfile::tempdir().unwrap();
        let interface = |name: &str, speed: &str, has: &[&str]| {
            let own = folder.path().join(name);
            fs::create_dir(&own).unwrap();
            fs::write(own.join("speed"), speed).unwrap();
            for name in has {
                fs::create_dir(own.join(name)).unwrap();
            }
        };
        interface("eth0", "1000\n", &["device"]);
        interface("eth1", "-1\n", &["device"]);
        interface("veth0", "10000\n", &[]);
        interface("bond0", "2000\n", &["lower_eth0"]);
        interface("br0", "10000\n", &["lower_veth0"]);
        let speed = |name: &str| speed(folder.path(), name, 0);
        assert_eq!(speed("eth0"), Some(1_000_000_000));
        assert_eq!(speed("bond0"), Some(2_000_000_000));
        for name in ["eth1", "veth0", "br0", "eth9"] {
            assert_eq!(speed(name), None, "{name}");
        }
    }
}
