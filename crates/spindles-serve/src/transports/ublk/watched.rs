//! The watcher's view of a device: the driver does not let a sandboxed server start and end
//! devices.

use super::device::{Device, delete};
use crate::transports::users::{User, by_users, lasting_users};
use crate::transports::watcher::{Watched, reply, unknown};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spindles_ublk::{Control, block_device};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Argument: the device existed before.
const TAKEN_OVER: &str = "taken-over";
/// Argument: the device is new.
const MADE: &str = "made";
/// Argument: the device waits for another server.
const RECOVERABLE: &str = "recoverable";
/// Argument: the device does not wait.
const PASSING: &str = "passing";

/// Request: all requests are fetched; let programs use the device.
pub(super) const START: &str = "start";
/// Request: list the users of the device, if any use it for longer than a moment.
pub(super) const USERS: &str = "users";
/// Request: end or leave the device. The reply is [`Left`].
pub(super) const LEAVE: &str = "leave";
/// Request: the server has stopped serving the device. The reply may carry a warning.
pub(super) const END: &str = "end";

/// Result of leaving a device.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Left {
    /// True if the device is left to another server.
    pub(super) stays: bool,
    /// A warning for the user, if any.
    pub(super) warning: Option<String>,
}

/// Returns the arguments of the process.
pub(super) fn arguments(device: &Device) -> [String; 3] {
    let came = if device.taken_over { TAKEN_OVER } else { MADE };
    let goes = if device.is_recoverable {
        RECOVERABLE
    } else {
        PASSING
    };
    [device.number.to_string(), came.to_owned(), goes.to_owned()]
}

pub(super) fn find(arguments: &[OsString]) -> io::Result<Box<dyn Watched>> {
    let wrong = || io::Error::other("a device is a number and two words");
    let [number, came, goes] = arguments else {
        return Err(wrong());
    };
    let number = number.to_str().and_then(|number| number.parse().ok());
    Ok(Box::new(Held {
        control: Control::open()?,
        number: number.ok_or_else(wrong)?,
        server: getppid().ok_or_else(wrong)?,
        taken_over: came == TAKEN_OVER,
        is_recoverable: goes == RECOVERABLE,
        stage: DeviceStage::Prepared,
    }))
}

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceStage {
    /// Only users since an earlier server can have it open.
    Prepared,
    /// The device is started: programs can open it.
    Started,
    /// Stopped, or left to another server.
    Ended { stays: bool },
    /// Not this server's device any longer.
    Over,
}

/// A device of a server.
struct Held {
    control: Control,
    number: u32,
    /// The process of the server.
    server: Pid,
    taken_over: bool,
    is_recoverable: bool,
    stage: DeviceStage,
}

impl Watched for Held {
    fn asked(&mut self, word: &str) -> io::Result<Value> {
        match (word, self.stage) {
            (START, DeviceStage::Prepared) => reply(self.start()?),
            (START, DeviceStage::Ended { .. }) => Err(io::Error::other("the server is to end")),
            (USERS, DeviceStage::Started) => reply(self.users()),
            (LEAVE, DeviceStage::Prepared | DeviceStage::Started) => reply(self.leave()),
            (END, DeviceStage::Prepared | DeviceStage::Started | DeviceStage::Ended { .. }) => {
                reply(self.end())
            }
            _ => Err(unknown(word)),
        }
    }

    /// The device waits for another server, or the driver ends it.
    fn left(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

impl Held {
    fn start(&mut self) -> io::Result<()> {
        let server = self.server.as_raw_pid().unsigned_abs();
        if self.taken_over {
            self.control.end_recovery(self.number, server)?;
        } else {
            self.control.start(self.number, server)?;
        }
        self.stage = DeviceStage::Started;
        Ok(())
    }

    fn leave(&mut self) -> Left {
        let left = match self.stage {
            DeviceStage::Started => self.end_use(),
            _ if self.taken_over => Left {
                stays: true,
                warning: None,
            },
            _ => self.stop(None),
        };
        self.stage = DeviceStage::Ended { stays: left.stays };
        left
    }

    /// Ends a device that programs may have open, or leaves it.
    fn end_use(&mut self) -> Left {
        let path = block_device(self.number);
        let users = self.users();
        let is_used = users.is_some();
        let by = by_users(&users.unwrap_or_default());
        if is_used && self.is_recoverable {
            let number = self.number;
            return Left {
                stays: true,
                warning: Some(format!(
                    "{path} is still open, {by}: it stays, and its users wait until the array is \
                     served with --ublk {number} again. To remove it with the server, unmount what \
                     is on it first"
                )),
            };
        }
        self.stop(is_used.then(|| {
            format!(
                "{path} was still open, {by}: they get errors from now on. Unmount what is on it \
                 before the server is stopped"
            )
        }))
    }

    fn stop(&mut self, warning: Option<String>) -> Left {
        let stopped = self.control.stop(self.number);
        let path = block_device(self.number);
        let failed = |error| Some(format!("{path} could not be stopped: {error}"));
        Left {
            stays: false,
            warning: stopped.map_or_else(failed, |()| warning),
        }
    }

    fn end(&mut self) -> Option<String> {
        // A server that lost its array leaves a device in use to the next one, as if it had died.
        let is_left = match self.stage {
            DeviceStage::Prepared => self.taken_over && self.is_recoverable,
            DeviceStage::Started => self.is_recoverable,
            DeviceStage::Ended { stays } => stays,
            DeviceStage::Over => true,
        };
        self.stage = DeviceStage::Over;
        if is_left {
            return None;
        }
        match delete(&mut self.control, self.number) {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::NODEV) => {
                let path = block_device(self.number);
                Some(format!("{path} could not be deleted: {error}"))
            }
            _ => None,
        }
    }

    fn users(&self) -> Option<Vec<User>> {
        lasting_users(Path::new(&block_device(self.number)), Some(self.server))
    }
}
