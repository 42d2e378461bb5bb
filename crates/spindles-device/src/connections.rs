//! The kernel's view of a TCP connection: what its sender waited for, and which network interface
//! it uses.

#![expect(
    unsafe_code,
    reason = "rustix has neither TCP_INFO nor getifaddrs, and libc's fill structures in"
)]

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::ptr;

/// The kernel's counters of one side of a TCP connection as a sender, since the connection was
/// made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Time with data to send, or waiting for acknowledgement.
    pub busy_ns: u64,
    /// Part of `busy_ns` in which the receiver had no room.
    pub receive_window_ns: u64,
    /// Part of `busy_ns` in which the send buffer was too small.
    pub send_buffer_ns: u64,
    /// Retransmitted segments.
    pub retransmits: u64,
}

/// Bytes read of `struct tcp_info`. Kernels only append to it.
const INFO_BYTES: usize = 192;
/// Offset of `tcpi_total_retrans`, 32 bits.
const RETRANSMITS_AT: usize = 100;
/// Offsets of `tcpi_busy_time`, `tcpi_rwnd_limited` and `tcpi_sndbuf_limited`, 64 bits each, in
/// microseconds.
const BUSY_AT: usize = 168;
const RECEIVE_WINDOW_AT: usize = 176;
const SEND_BUFFER_AT: usize = 184;

impl TcpCounters {
    /// Returns the counters of a connection; zeros if the kernel does not report them (before Linux
    /// 4.10).
    pub fn of(stream: &TcpStream) -> Self {
        let mut info = [0_u8; INFO_BYTES];
        let mut length =
            libc::socklen_t::try_from(INFO_BYTES).expect("a structure of a few hundred bytes");
        // SAFETY: the buffer is writable and as long as `length` says.
        let answer = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if answer != 0 {
            return Self::default();
        }
        // Fields that an older kernel does not fill in stay zero.
        let microseconds = |at: usize| {
            let bytes = info[at..].first_chunk().expect("within the structure");
            native_u64(*bytes).saturating_mul(1000)
        };
        let retransmits = info[RETRANSMITS_AT..].first_chunk();
        Self {
            busy_ns: microseconds(BUSY_AT),
            receive_window_ns: microseconds(RECEIVE_WINDOW_AT),
            send_buffer_ns: microseconds(SEND_BUFFER_AT),
            retransmits: native_u32(*retransmits.expect("within the structure")).into(),
        }
    }
}

#[expect(clippy::host_endian_bytes, reason = "the kernel's own order")]
fn native_u64(bytes: [u8; 8]) -> u64 {
    u64::from_ne_bytes(bytes)
}

#[expect(clippy::host_endian_bytes, reason = "the kernel's own order")]
fn native_u32(bytes: [u8; 4]) -> u32 {
    u32::from_ne_bytes(bytes)
}

/// Returns the name of the network interface that has this address, such as `eth0`.
pub fn interface_of(address: IpAddr) -> Option<String> {
    let address = address.to_canonical();
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the call stores a pointer to a list that it allocates.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = list;
    while !next.is_null() {
        // SAFETY: entries are valid until the list is freed, below.
        let entry = unsafe { &*next };
        if socket_address(entry.ifa_addr) == Some(address) {
            // SAFETY: names are strings that end with a zero, valid as long as their entry.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found = Some(name.to_string_lossy().into_owned());
            break;
        }
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and is not used after this.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// Returns the address in the kernel's `sockaddr`; `None` if it is not an IP address.
fn socket_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: it is not null, and all kinds of addresses begin with their family.
    let family = unsafe { (*address).sa_family };
    match i32::from(family) {
        // Family and port, two bytes each, then the address.
        libc::AF_INET => {
            // SAFETY: the family identifies a `sockaddr_in`, which has 16 bytes.
            let bytes = unsafe { address.cast::<[u8; 8]>().read() };
            let address: [u8; 4] = *bytes[4..].first_chunk()?;
            Some(Ipv4Addr::from(address).into())
        }
        // Family, port and flow label, then the address.
        libc::AF_INET6 => {
            // SAFETY: the family identifies a `sockaddr_in6`, which has 28 bytes.
            let bytes = unsafe { address.cast::<[u8; 24]>().read() };
            let address: [u8; 16] = *bytes[8..].first_chunk()?;
            Some(Ipv6Addr::from(address).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    #[test]
    fn addresses_are_found_on_their_network_interfaces() {
        let loopback = interface_of(Ipv4Addr::LOCALHOST.into());
        assert_eq!(loopback.as_deref(), Some("lo"));
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
        assert_eq!(interface_of(mapped.into()).as_deref(), Some("lo"));
        // Reserved for documentation (RFC 5737), so no interface has this address.
        assert_eq!(interface_of(Ipv4Addr::new(192, 0, 2, 1).into()), None);
    }

    /// A sender whose receiver takes nothing for a while is busy, and waits for the receive window.
    #[test]
    fn a_full_receive_window_is_detected() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        let bytes = vec![0; 16 << 20];
        std::thread::scope(|scope| {
            scope.spawn(|| sender.write_all(&bytes).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(50));
            let mut taken = vec![0; bytes.len()];
            receiver.read_exact(&mut taken).unwrap();
        });
        let counters = TcpCounters::of(&sender);
        assert!(counters.busy_ns > 30_000_000, "{counters:?}");
        assert!(counters.receive_window_ns > 10_000_000, "{counters:?}");
        assert!(
            counters.busy_ns >= counters.receive_window_ns,
            "{counters:?}"
        );
        assert_eq!(TcpCounters::of(&receiver).busy_ns, 0);
    }
}
