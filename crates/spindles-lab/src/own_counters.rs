//! Bytes of members that no other program adds to: of devices that a system has for itself, or as the server of an array
//! counts them.

use crate::evidence::{device_use, stat_of};
use spindles_measure::Traffic;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Counters of bytes that belong to a system alone.
#[derive(Clone, Debug)]
pub(crate) enum OwnCounters {
    /// Block devices of the kernel that it has for itself, by name.
    Devices(Vec<String>),
    /// The page of metrics of the server that has the array.
    Server(SocketAddr),
}

/// How long a server may take to say a line of its page.
const PAGE_MAX: Duration = Duration::from_secs(5);

impl OwnCounters {
    /// Bytes of each member until now; empty where they can't be had.
    pub(crate) fn now(&self) -> Vec<Traffic> {
        match self {
            Self::Devices(names) => names
                .iter()
                .map(|name| device_use(name, true, &stat_of(name)).bytes)
                .collect(),
            Self::Server(address) => page_of(*address)
                .map(|page| members_on(&page))
                .unwrap_or_default(),
        }
    }
}

fn page_of(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PAGE_MAX))?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// What a page of metrics says of the devices, in its order.
fn members_on(page: &str) -> Vec<Traffic> {
    let of = |metric: &str| -> Vec<u64> {
        let samples = page.lines().filter(|line| {
            line.strip_prefix(metric)
                .is_some_and(|it| it.starts_with('{'))
        });
        let numbers = samples.filter_map(|line| line.rsplit(' ').next()?.parse().ok());
        numbers.collect()
    };
    let (read, written) = (
        of("spindles_device_read_bytes_total"),
        of("spindles_device_written_bytes_total"),
    );
    let both = read.into_iter().zip(written);
    both.map(|(read, written)| Traffic { read, written })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_metrics_is_understood() {
        let page = "# TYPE spindles_device_read_bytes_total counter\n\
                    spindles_device_read_bytes_total{array=\"a b\",member=\"0\",device=\"x\"} 5\n\
                    spindles_device_read_bytes_total{array=\"a b\",member=\"1\",device=\"y\"} 6\n\
                    spindles_device_written_bytes_total{array=\"a b\",member=\"0\",device=\"x\"} 7\n\
                    spindles_device_written_bytes_total{array=\"a b\",member=\"1\",device=\"y\"} 8\n";
        let members = [(5, 7), (6, 8)].map(|(read, written)| Traffic { read, written });
        assert_eq!(members_on(page), members);
    }
}
