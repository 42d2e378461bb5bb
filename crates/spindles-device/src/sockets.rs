//! Sockets of servers: connects with a time limit, and finds the process that listens.

#![expect(
    unsafe_code,
    reason = "the peer's process is 0 where this namespace has no number for it, which rustix does \
        not allow for"
)]

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The limit of a connection attempt. A running server accepts at once; a stopped one does not, and
/// its backlog fills up.
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Connects to a socket. A full backlog is an error after `CONNECT_MAX`, of the kind `WouldBlock`.
///
/// # Errors
///
/// The error of the system.
pub fn connect_to(path: &Path) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_MAX))?;
    connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

/// Returns true if a process listens on a socket, also if it is too busy to accept.
#[must_use]
pub fn listens(path: &Path) -> bool {
    connect_to(path).map_or_else(|error| is_full(&error), |_| true)
}

/// Returns true if an attempt to connect failed only because the server accepts nothing.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Returns the process at the other end of a connection: the listener, or the process that
/// connected. `None` if that process is not in this user's namespace.
#[must_use]
pub fn process_behind(stream: &UnixStream) -> Option<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
    // SAFETY: the structure and its length live through the call, which writes at most that many
    // bytes of plain numbers.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    let pid = u32::try_from(peer.pid).ok()?;
    (answer == 0 && pid > 0).then_some(pid)
}

/// Returns true if a process is stopped by a signal, such as SIGSTOP or Ctrl-Z in its terminal.
#[must_use]
pub fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    // 7 (spindles) T 1 ...: the name may hold anything.
    let state = stat.ok();
    let state = state.as_deref().and_then(|state| state.rsplit_once(") "));
    state.is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_hung_server_is_distinguished_from_an_absent_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(!listens(&path));
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let first = connect_to(&path).unwrap();
        assert_eq!(process_behind(&first), Some(std::process::id()));
        // The backlog is full now, and without a limit the next attempt waits until it is not.
        assert!(is_full(&connect_to(&path).unwrap_err()));
        assert!(listens(&path));
        drop((listener, first));
        assert!(!listens(&path));
    }

    #[test]
    fn only_a_signal_stops_a_process() {
        assert!(!is_stopped(std::process::id()));
        assert!(!is_stopped(0));
    }
}
