//! Notifies systemd of the service's state: one datagram for each notification (`sd_notify(3)`). A
//! crate for this would be longer than this file.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The variable with the address of systemd's socket.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// Notifies the service manager that started this process, if it wants that.
#[derive(Debug, Default)]
pub struct Readiness(Option<UnixDatagram>);

impl Readiness {
    /// Connects to the service manager named in the environment. Without a service manager, reports
    /// are dropped.
    #[must_use]
    pub fn from_environment() -> Self {
        let name = std::env::var_os(VARIABLE);
        Self(name.and_then(|name| socket(&name)))
    }

    /// Reports that clients are served from now on.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", first_line(status)));
    }

    /// Reports the state in one line for people; further lines are dropped.
    pub fn status(&self, status: &str) {
        self.tell(&format!("STATUS={}", first_line(status)));
    }

    /// Reports that the service is about to end.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, what: &str) {
        if let Self(Some(socket)) = self {
            // Ignore a service manager that does not listen.
            drop(socket.send(what.as_bytes()));
        }
    }
}

/// Connects to a path, or after `@` to an abstract name. It connects at once because a server in
/// its sandbox can't.
fn socket(name: &OsStr) -> Option<UnixDatagram> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => return None,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

/// Removes line breaks and control characters: a line break would start another assignment.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(listener: &UnixDatagram) -> String {
        let mut bytes = [0; 256];
        let count = listener.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn readiness_is_sent_to_both_kinds_of_sockets() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).expect("a socket");
        let name = format!("spindles-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let by_name = UnixDatagram::bind_addr(&address).expect("a socket");
        let at_name = format!("@{name}");
        for (listener, name) in [(by_path, path.as_os_str()), (by_name, OsStr::new(&at_name))] {
            let readiness = Readiness(socket(name));
            readiness.ready("healthy");
            assert_eq!(received(&listener), "READY=1\nSTATUS=healthy");
            readiness.status("degraded:\twithout member 2\nREADY=1");
            assert_eq!(received(&listener), "STATUS=degraded: without member 2");
            readiness.stopping();
            assert_eq!(received(&listener), "STOPPING=1");
        }
    }

    #[test]
    fn readiness_without_a_listener_is_no_error() {
        assert!(socket(OsStr::new("")).is_none());
        Readiness::default().stopping();
        Readiness(socket(OsStr::new("/there/is/none"))).stopping();
    }
}
