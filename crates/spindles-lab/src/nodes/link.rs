//! The network interface that a connection goes through: what it can carry, and what it carried.

use serde_json::Value;
use spindles_io::{TcpCounters, interface_of};
use spindles_measure::LinkUse;
use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// An interface that is watched.
#[derive(Clone, Debug)]
pub(super) struct Link {
    name: String,
}

/// Its counters at one moment, and what it can carry.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkCounters(LinkUse);

impl Link {
    /// The one that has this address of ours.
    pub(super) fn of(address: IpAddr) -> Option<Self> {
        interface_of(address).map(|name| Self { name })
    }

    /// Its counters now.
    pub(super) fn now(&self) -> LinkCounters {
        // The names under /sys may be those of another network namespace; these are ours.
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
    /// What it carried since `earlier`, and what its connections waited for meanwhile.
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
            retransmits: sum(|it| it.retransmits),
            tcp_busy_ns: sum(|it| it.busy_ns),
            receive_window_ns: sum(|it| it.receive_window_ns),
            send_buffer_ns: sum(|it| it.send_buffer_ns),
        }
    }
}

/// Bytes received and sent by an interface, from `/proc/net/dev`.
fn carried(text: &str, name: &str) -> Option<(u64, u64)> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, numbers) = lines.find(|(known, _)| known.trim() == name)?;
    let numbers: Vec<&str> = numbers.split_ascii_whitespace().collect();
    Some((
        numbers.first()?.parse().ok()?,
        numbers.get(8)?.parse().ok()?,
    ))
}

/// What the queue of an interface says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Queue {
    /// To how much it is shaped.
    bits_per_s: Option<u64>,
    overlimits: u64,
    drops: u64,
}

/// Asks `tc`, where there is one.
fn queue(name: &str) -> Option<Queue> {
    let said = Command::new("tc")
        .args(["-s", "-j", "qdisc", "show", "dev", name])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    read_queue(&said.stdout)
}

/// From what `tc -s -j qdisc show` prints. Rates are in bytes a second there.
fn read_queue(said: &[u8]) -> Option<Queue> {
    let said: Value = serde_json::from_slice(said).ok()?;
    let mut all = said.as_array()?.iter();
    let root = all.find(|it| it["root"] == true)?;
    let number = |key: &str| root[key].as_u64().unwrap_or(0);
    let rate = root["options"]["rate"].as_u64();
    Some(Queue {
        bits_per_s: rate.map(|bytes| bytes.saturating_mul(8)),
        overlimits: number("overlimits"),
        drops: number("drops"),
    })
}

/// So many interfaces may lie one on another.
const LOWER_MAX: u32 = 8;

/// Bits a second of an interface that has hardware, itself or beneath it: what virtual ones say is made up.
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
    let megabits = said.trim().parse::<u64>().ok().filter(|it| *it > 0);
    // A driver that does not know says the largest number.
    let megabits = megabits.filter(|it| *it < u64::from(u32::MAX));
    megabits
        .filter(|_| has_hardware || lies_on_some)
        .map(|megabits| megabits * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_the_kernel_are_understood() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 1 2 3 4 5 6 7 8 9 10\n  \
                    eth0:90 1 0 0 0 0 0 0 1234 5 0 0 0 0 0 0\n";
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
    fn what_tc_says_is_understood() {
        let said = br#"[{"kind":"fq","handle":"1:","parent":"8001:1","options":{"rate":5}},
            {"kind":"tbf","handle":"8001:","root":true,"options":{"rate":12500000,"burst":32762},
             "bytes":90,"drops":3,"overlimits":17}]"#;
        let shaped = Queue {
            bits_per_s: Some(100_000_000),
            overlimits: 17,
            drops: 3,
        };
        assert_eq!(read_queue(said), Some(shaped));
        let plain = br#"[{"kind":"noqueue","handle":"0:","root":true,"refcnt":2,"options":{}}]"#;
        assert_eq!(read_queue(plain), Some(Queue::default()));
        assert_eq!(read_queue(b"Cannot find device"), None);
    }

    /// A veth says 10 Gbit/s whatever it carries.
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
