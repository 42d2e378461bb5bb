//! The agent: takes connections, greets who knows the token, and serves them.

use super::handshake::{greet, limit};
use super::places::{Place, Places};
use super::session::{Shop, serve};
use super::token::Token;
use crate::scratch::Scratch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;
use spindles_io::{Backend, OpenError, OpenOptions, open_device};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

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
    /// Take these devices also where something else uses them.
    pub force: bool,
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
    /// It can't make files in its folder.
    #[error("{}: can't make files there: {source}: give it to this user, or name another with --folder", .folder.display())]
    Unwritable {
        /// What was named.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A device is no device of the kernel's.
    #[error(
        "{device} is neither a block device nor a file, and fio needs one: name another with --device"
    )]
    NoDevice {
        /// What was named.
        device: String,
    },
    /// Something else has a device.
    #[error("{source}, or say --force if fio may disturb it")]
    Busy {
        /// Who.
        source: OpenError,
    },
    /// A device can't be opened.
    #[error(transparent)]
    Device(OpenError),
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
    /// Looks at its folder and devices, and listens.
    ///
    /// # Errors
    /// When the folder or a device is not there or can't be written, or the address can't be had.
    pub fn new(options: AgentOptions) -> Result<Self, AgentError> {
        if !options.folder.is_dir() {
            return Err(AgentError::Folder {
                folder: options.folder,
            });
        }
        // The first folder of a task, which goes at once; with it go those that agents left which were killed.
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
                    // It is heard as long as there are threads like this one.
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

/// Whether fio may be run on a device: one that is there, can be written, and is not used otherwise.
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
