//! The server: listens, and gives each connection a thread of its own.

use crate::connection;
use crate::library::Library;
use crate::routes::{ReportCommand, Site};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Limits on connections and waiting times.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Simultaneous connections. Further connections wait until an open connection ends.
    pub connections: usize,
    /// How long a request may take to arrive.
    pub head: Duration,
    /// How long a client may accept no bytes of an answer.
    pub write: Duration,
    /// How long the list waits for findings that are not cached. Later requests of the list read
    /// the rest: reading hundreds of runs takes a while.
    pub list: Duration,
}

impl Default for Limits {
    /// Returns limits that allow for browsers, which open several idle connections ahead of need.
    fn default() -> Self {
        Self {
            connections: 128,
            head: Duration::from_secs(3),
            write: Duration::from_secs(20),
            list: Duration::from_millis(400),
        }
    }
}

/// Why the server can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The folder can't be listed.
    #[error(
        "{}: {source}: name a folder of results",
        .folder.display()
    )]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process listens at this address.
    #[error(
        "{address} is in use already: choose another port with --listen, or 0 for any free one"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// The server can't listen at this address.
    #[error("{address}: {source}: give an address of this machine, such as 127.0.0.1:7118")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    site: Arc<Site>,
    limits: Limits,
}

impl Server {
    /// Listens at `address` and serves the runs in `folder`. Chooses a free port if the port is 0.
    /// Reports name the command that draws them, as `command` returns it.
    ///
    /// # Errors
    /// When the folder can't be listed, or the server can't listen at `address`.
    pub fn bind(
        folder: &Path,
        address: SocketAddr,
        limits: Limits,
        command: ReportCommand,
    ) -> Result<Self, ServeError> {
        let listed = folder.canonicalize().and_then(|root| {
            root.read_dir()?;
            Ok(root)
        });
        let root = listed.map_err(|source| ServeError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse { address },
            _ => ServeError::Listen { address, source },
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            site: Arc::new(Site::new(
                Library::new(root),
                address.ip().is_loopback(),
                limits.list,
                command,
            )),
            listener,
            address,
            limits,
        })
    }

    /// Returns the address where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns true if other machines may reach the server.
    pub fn is_public(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Serves until the process ends.
    pub fn run(self) -> ! {
        let seats = Arc::new(Seats::default());
        loop {
            seats.take(self.limits.connections);
            let seat = Seat(Arc::clone(&seats));
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream, seat),
                // Usually out of descriptors: wait until other connections end.
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn begin(&self, stream: TcpStream, seat: Seat) {
        let (site, limits) = (Arc::clone(&self.site), self.limits);
        let thread = thread::Builder::new().name("lab serve".to_owned());
        let begun = thread.spawn(move || {
            connection::answer(stream, &site, &limits);
            drop(seat);
        });
        // If the thread could not be started, the connection is closed.
        drop(begun);
    }
}

/// Counts the connections.
#[derive(Debug, Default)]
struct Seats {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Seats {
    /// Waits until a seat is free, and takes it.
    fn take(&self, all: usize) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.freed.wait_while(taken, |taken| *taken >= all);
        *taken.unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// The seat of a connection: dropping it frees the seat.
#[derive(Debug)]
struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        *(self.0.taken.lock()).unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}
