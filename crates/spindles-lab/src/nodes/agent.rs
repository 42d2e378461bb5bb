//! The agent: accepts connections, authenticates controllers by the token, and serves them.

use super::handshake::{greet, limit};
use super::places::{Place, Places};
use super::session::{Shop, serve};
use super::token::Token;
use crate::scratch::Scratch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use spindles_array::open_device;
use spindles_device::{Backend, OpenError, OpenOptions};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a silent peer is presumed alive.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// Settings of an agent.
#[derive(Debug)]
pub struct AgentOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The folder in which tasks create and remove files.
    pub folder: PathBuf,
    /// Devices that fio may run on and overwrite.
    pub devices: Vec<String>,
    /// Use these devices even if something else uses them.
    pub force: bool,
    /// The token that controllers must know.
    pub token: Token,
}

/// Why an agent can't start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The folder does not exist.
    #[error("{} is no folder: make it, or name another with --folder", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
    },
    /// The agent can't create files in its folder.
    #[error(
        "{}: can't make files there: {source}: give the folder to this user, or name another \
         with --folder",
        .folder.display()
    )]
    Unwritable {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A device is neither a block device nor a file.
    #[error(
        "{device} is neither a block device nor a file, and fio needs one: name another with \
         --device"
    )]
    NoDevice {
        /// The device.
        device: String,
    },
    /// Something else uses a device.
    #[error("{source}, or say --force if fio may disturb it")]
    Busy {
        /// The error, which names the user.
        source: OpenError,
    },
    /// A device can't be opened.
    #[error(transparent)]
    Device(OpenError),
    /// The agent can't listen at its address.
    #[error("{address}: can't listen there: {source}: choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
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
    /// Checks the folder and the devices, and listens.
    ///
    /// # Errors
    /// When the folder or a device is missing or not writable, or the agent can't listen at the
    /// address.
    pub fn new(options: AgentOptions) -> Result<Self, AgentError> {
        if !options.folder.is_dir() {
            return Err(AgentError::Folder {
                folder: options.folder,
            });
        }
        // Creates and drops a scratch folder to test write access. This also removes the folders of
        // killed agents.
        if let Err(source) = Scratch::new(&options.folder) {
            return Err(AgentError::Unwritable {
                folder: options.folder,
                source,
            });
        }
        for device in &options.devices {
            look_at(device, options.force)?;
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

    /// Returns the address where the agent listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves controllers until `interrupt` is set; then ends running tasks and removes their
    /// files. Calls `said` with a line for each event.
    pub fn run(&self, interrupt: &AtomicBool, said: &dyn Fn(&str)) {
        let shop = Shop {
            folder: &self.options.folder,
            devices: &self.options.devices,
            turn: Mutex::new(()),
            silence: SILENCE,
            interrupt,
        };
        let places = Places::default();
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
                let accepted = self.listener.accept();
                let accepted = accepted.and_then(|(stream, peer)| {
                    let place = places.take(&stream, peer.ip().to_canonical())?;
                    Ok((stream, peer, place))
                });
                let Ok((stream, peer, place)) = accepted else {
                    continue;
                };
                let (shop, news) = (&shop, news.clone());
                scope.spawn(move || {
                    let what = match self.one(stream, &place, shop) {
                        Ok(()) => format!("{peer} was served"),
                        Err(why) => format!("{peer}: {why}"),
                    };
                    // The receiver outlives the threads.
                    drop(news.send(what));
                });
            }
        });
        for what in heard.try_iter() {
            said(&what);
        }
    }

    fn one(&self, mut stream: TcpStream, place: &Place<'_>, shop: &Shop<'_>) -> Result<(), String> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let greeted = greet(&mut stream, &self.options.token, cpus, &|| place.keep());
        greeted.map_err(|why| {
            if place.is_lost() {
                "it had not shown that it knows the token when others came, and gave way".to_owned()
            } else {
                why.to_string()
            }
        })?;
        stay_alert(&stream).map_err(|error| error.to_string())?;
        serve(&stream, shop)
    }
}

/// Checks that fio may run on a device, which must exist, be writable and be unused.
fn look_at(device: &str, force: bool) -> Result<(), AgentError> {
    if !Backend::of(device).facts.is_path {
        let device = device.to_owned();
        return Err(AgentError::NoDevice { device });
    }
    match open_device(device, &OpenOptions::default()) {
        // Nothing was written.
        Ok(target) => drop(target.close()),
        Err(OpenError::Busy { .. }) if force => {}
        Err(source @ OpenError::Busy { .. }) => return Err(AgentError::Busy { source }),
        Err(source) => return Err(AgentError::Device(source)),
    }
    Ok(())
}

/// Detects a silently lost peer: by unacknowledged data, or else by keepalive probes.
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
