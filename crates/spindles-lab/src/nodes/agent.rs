//! The agent: takes connections, greets who knows the token, and serves them.

use super::handshake::{greet, limit};
use super::session::{Shop, serve};
use super::token::Token;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// So many connections at once; further ones are closed.
const CONNECTIONS_MAX: usize = 8;
/// How long a peer that is silent is taken to be there.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// What an agent is given.
#[derive(Debug)]
pub struct AgentOptions {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Files of tasks are made below it, and removed.
    pub folder: PathBuf,
    /// Devices that fio may be run on. What they hold may be lost.
    pub devices: Vec<String>,
    /// What controllers must know.
    pub token: Token,
}

/// Why an agent can't begin.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Its folder is none.
    #[error("{} is no folder: make it, or name another with --folder", .folder.display())]
    Folder {
        /// What was named.
        folder: PathBuf,
    },
    /// It can't listen there.
    #[error("{address}: can't listen there: {source}: choose another address with --listen")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A node of distributed runs.
#[derive(Debug)]
pub struct Agent {
    listener: TcpListener,
    address: SocketAddr,
    options: AgentOptions,
}

impl Agent {
    /// Listens.
    ///
    /// # Errors
    /// When there is no such folder, or the address can't be had.
    pub fn new(options: AgentOptions) -> Result<Self, AgentError> {
        if !options.folder.is_dir() {
            return Err(AgentError::Folder {
                folder: options.folder,
            });
        }
        let wrong = |source| AgentError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        Ok(Self {
            listener,
            address,
            options,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves controllers until `interrupt` is set; then ends what is under way and removes its files. `said`
    /// is told what happens, a line each.
    pub fn run(&self, interrupt: &AtomicBool, said: &dyn Fn(&str)) {
        let shop = Shop {
            folder: &self.options.folder,
            devices: &self.options.devices,
            turn: Mutex::new(()),
            interrupt,
        };
        let open = AtomicUsize::new(0);
        let (news, heard) = channel::<String>();
        std::thread::scope(|scope| {
            while !interrupt.load(Ordering::Relaxed) {
                for what in heard.try_iter() {
                    said(&what);
                }
                let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
                let wait = Timespec {
                    tv_sec: 0,
                    tv_nsec: 50_000_000,
                };
                let Ok(1..) = poll(&mut fds, Some(&wait)) else {
                    continue;
                };
                let Ok((stream, peer)) = self.listener.accept() else {
                    continue;
                };
                if open.load(Ordering::SeqCst) >= CONNECTIONS_MAX {
                    continue; // It is closed.
                }
                open.fetch_add(1, Ordering::SeqCst);
                let (shop, open, news) = (&shop, &open, news.clone());
                scope.spawn(move || {
                    let what = match self.one(stream, shop) {
                        Ok(()) => format!("{peer} was served"),
                        Err(why) => format!("{peer}: {why}"),
                    };
                    open.fetch_sub(1, Ordering::SeqCst);
                    // It is heard as long as there are threads like this one.
                    drop(news.send(what));
                });
            }
        });
        for what in heard.try_iter() {
            said(&what);
        }
    }

    fn one(&self, mut stream: TcpStream, shop: &Shop<'_>) -> Result<(), String> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        greet(&mut stream, &self.options.token, cpus)?;
        stay_alert(&stream).map_err(|error| error.to_string())?;
        serve(&stream, shop)
    }
}

/// A peer that is gone without a word is noticed: by what it does not acknowledge, or else by asking it.
pub(super) fn stay_alert(stream: &TcpStream) -> io::Result<()> {
    limit(stream, SILENCE).map_err(io::Error::other)?;
    stream.set_read_timeout(None)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(2))?;
    let milliseconds = u32::try_from(SILENCE.as_millis()).expect("seconds");
    sockopt::set_tcp_user_timeout(stream, milliseconds)?;
    Ok(())
}
