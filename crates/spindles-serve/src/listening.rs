//! Accepts clients, and explains why a socket can't listen.

use spindles_device::sockets::listens;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts the next client. Failures, such as too many open files, have no event for their end.
pub(crate) fn next_client<C>(accept: impl Fn() -> io::Result<C>) -> C {
    loop {
        match accept() {
            Ok(client) => return client,
            Err(_) => sleep(PAUSE),
        }
    }
}

/// Explains why listening on a port failed, and how to fix it.
pub(crate) fn port_failed(address: SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => {
            format!(
                ": `ss --listening --tcp --processes sport = :{port}` says who has it; end that, \
                 or give another port"
            )
        }
        ErrorKind::AddrNotAvailable => {
            ": this machine has no such address; `ip address` lists its addresses".to_owned()
        }
        ErrorKind::PermissionDenied if port < 1024 => {
            ": this user may not listen on a port below 1024; give another".to_owned()
        }
        _ => String::new(),
    };
    format!("can't listen on {address}: {error}{remedy}")
}

/// Explains why listening on a Unix socket failed, and how to fix it.
pub(crate) fn path_failed(path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse if listens(path) => {
            ": a server listens there already; stop that one, or give another path"
        }
        ErrorKind::AddrInUse => ": something else is there; remove it, or give another path",
        ErrorKind::NotFound => ": there is no such folder; make it, or give another path",
        _ => "",
    };
    format!("can't listen on unix:{}: {error}{remedy}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn listening_reports_the_obstacle() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let error = TcpListener::bind(address).expect_err("it is taken");
        let port = format!("sport = :{}` says who", address.port());
        assert!(port_failed(address, &error).contains(&port));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let message_for = |path: &Path| {
            let error = UnixListener::bind(path).expect_err("it can't be");
            path_failed(path, &error)
        };
        assert!(message_for(&path.join("none")).contains("no such folder"));
        let listener = UnixListener::bind(&path).expect("it is free");
        assert!(
            message_for(&path).contains("a server listens"),
            "{}",
            message_for(&path)
        );
        drop(listener);
        // A process that another test is starting inherits the listener until it executes its
        // program.
        while message_for(&path).contains("a server listens") {
            std::thread::yield_now();
        }
        assert!(
            message_for(&path).contains("something else"),
            "{}",
            message_for(&path)
        );
    }
}
