//! The server: listens, and gives each connection a thread of its own.

use crate::connection;
use crate::library::Library;
use crate::routes::Site;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How much the server does at once, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once. Further ones wait until one of these ends.
    pub connections: usize,
    /// How long a request may take to come.
    pub head: Duration,
    /// How long a client may take nothing of an answer.
    pub write: Duration,
    /// How long the list waits for what came out of runs that nobody asked for before. The rest comes
    /// with the next looks at it: to read hundreds of runs takes a while.
    pub list: Duration,
}

impl Default for Limits {
    /// Browsers open connections ahead of need and leave them idle, several each.
    fn default() -> Self {
        Self {
            connections: 128,
            head: Duration::from_secs(3),
            write: Duration::from_secs(20),
            list: Duration::from_millis(400),
        }
    }
}

/// Why the server can't begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is nothing to show.
    #[error(
        "{}: {source}: name a folder of results, or make one with `spindles lab run`",
        .folder.display()
    )]
    Folder {
        /// What was to be shown.
        folder: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// Somebody else listens there.
    #[error(
        "{address} is in use already: choose another port with --listen, or 0 for any free one"
    )]
    InUse {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// It can't listen there.
    #[error("{address}: {source}: give an address of this machine, such as 127.0.0.1:7118")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// What the operating system says.
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
    /// Listens at `address`, on any free port where its port is 0, for who wants to see the runs in `folder`.
    ///
    /// # Errors
    /// When the folder can't be listed, or nobody can listen there.
    pub fn bind(folder: &Path, address: SocketAddr, limits: Limits) -> Result<Self, ServeError> {
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
            )),
            listener,
            address,
            limits,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to open in a browser.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Whether others than this machine may reach it.
    pub fn is_public(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Serves for as long as the process lives.
    pub fn run(self) -> ! {
        let seats = Arc::new(Seats::default());
        loop {
            seats.take(self.limits.connections);
            let seat = Seat(Arc::clone(&seats));
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream, seat),
                // Out of descriptors, as a rule: others end soon.
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
        // Without memory for a thread the connection is closed.
        drop(begun);
    }
}

/// How many connections there are.
#[derive(Debug, Default)]
struct Seats {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Seats {
    /// Waits until one is free.
    fn take(&self, all: usize) {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.freed.wait_while(taken, |taken| *taken >= all);
        *taken.unwrap_or_else(PoisonError::into_inner) += 1;
    }
}

/// The seat of a connection: free again when it is dropped.
#[derive(Debug)]
struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        *(self.0.taken.lock()).unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.freed.notify_one();
    }
}
