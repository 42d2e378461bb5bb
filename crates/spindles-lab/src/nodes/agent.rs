//! The agent: serves one controller through its standard input and output, and ends with it.

use super::link::Link;
use super::session::{Shop, serve};
use super::wire::{Hello, Outlet, Reply, SILENCE, VERSION, in_words, send};
use crate::systems::scratch::Scratch;
use spindles_array::open_device;
use spindles_device::{Backend, OpenError, OpenOptions};
use std::env;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Settings of an agent.
#[derive(Debug)]
pub struct AgentOptions {
    /// The folder in which tasks create and remove files.
    pub folder: PathBuf,
    /// Devices that fio may run on and overwrite.
    pub devices: Vec<String>,
    /// Use these devices even if something else uses them.
    pub force: bool,
}

/// Why an agent can't start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The folder does not exist.
    #[error("{} is not a folder: make it, or name another with --folder", .folder.display())]
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
    #[error("{source}, or use --force if fio may disturb it")]
    Busy {
        /// The error, which names the user.
        source: OpenError,
    },
    /// A device can't be opened.
    #[error(transparent)]
    Device(OpenError),
}

/// A node of distributed runs.
#[derive(Debug)]
pub struct Agent(AgentOptions);

impl Agent {
    /// Checks the folder and the devices.
    ///
    /// # Errors
    /// When the folder or a device is missing or not writable.
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
        Ok(Self(options))
    }

    /// Serves the controller until it hangs up or `interrupt` is set; then ends the running task
    /// and removes its files.
    ///
    /// # Errors
    /// Why it ended early. The controller knows the reason too, unless it is lost.
    pub fn run(&self, interrupt: &AtomicBool) -> Result<(), String> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let [controller, node] = ssh_addresses();
        let hello = Reply::Hello(Hello {
            version: VERSION,
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            controller,
        });
        let pipe = io::stdout().as_fd().try_clone_to_owned();
        let mut to = Outlet::new(pipe.map_err(|error| error.to_string())?);
        send(&mut to, &hello).map_err(|error| in_words(&error))?;
        let shop = Shop {
            folder: &self.0.folder,
            devices: &self.0.devices,
            link: node.and_then(Link::of),
            silence: SILENCE,
            interrupt,
        };
        serve(io::stdin(), to, &shop)
    }
}

/// Returns the addresses of the controller and of this machine, which sshd tells.
fn ssh_addresses() -> [Option<IpAddr>; 2] {
    let text = env::var("SSH_CONNECTION").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').collect();
    [0, 2].map(|word| Some(words.get(word)?.parse::<IpAddr>().ok()?.to_canonical()))
}

/// Checks that fio may run on a device, which must exist, be writable and be unused.
fn look_at(device: &str, force: bool) -> Result<(), AgentError> {
    if !Backend::facts_of(device).is_path {
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
