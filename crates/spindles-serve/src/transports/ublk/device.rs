//! A ublk device: created, or taken over from a dead server.
//!
//! The driver stores a mark for each device; the mark of an array's device derives from the array's
//! UUID. So a server finds the devices of its array, whichever server created them, without any
//! file. The device of an export that ends with its server has a common mark, and waits for no
//! server.

use crate::server_handle::ExportFacts;
use rustix::io::Errno;
use spindles_ublk::{
    Control, DeviceInfo, DeviceState, NewDevice, Parameters, block_device, features,
};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Most bytes of one zeroing or discard request.
const ZEROING_BYTES_MAX: u32 = 16 << 20;
/// Largest block size that all kernels support.
const BLOCK_BYTES_MAX: u32 = 4096;
/// The mark of devices that wait for no server.
const UNAWAITED: u64 = 0x7370_696e_646c_6573;
/// Required driver features.
const FEATURES: u64 = features::NUMBERS | features::USER_COPY;
/// Features that let another server take over.
const RECOVERY: u64 = features::RECOVERY | features::REISSUE;
/// How long a killed process may hold its device. If all of its requests were in progress, the
/// kernel notices only after the time limit of a request.
const DYING_TIMEOUT: Duration = Duration::from_secs(90);
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// The requested device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The device that waits for the array, else a new one with a free number.
    Auto,
    Number(u32),
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The driver's limit.
        const NUMBER_MAX: u32 = (1 << 20) - 1;
        let number = || text.parse().ok().filter(|&number| number <= NUMBER_MAX);
        match text {
            "auto" => Ok(Self::Auto),
            _ => number().map(Self::Number).ok_or_else(|| {
                format!(
                    "--ublk {text}: give auto, or the N of /dev/ublkbN: a number up to {NUMBER_MAX}"
                )
            }),
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("a ublk device"),
            Self::Number(number) => f.write_str(&block_device(*number)),
        }
    }
}

/// The device can't be created or taken over.
#[derive(Debug, Error)]
pub(super) enum DeviceError {
    #[error(
        "this kernel has no ublk, or its module is not loaded (modprobe ublk_drv): serve with \
         --nbd and make a block device with nbd-client, or with --fuse and losetup"
    )]
    NoDriver,
    #[error("{0}: only root can make block devices: serve with --nbd or --fuse, or as root")]
    Forbidden(io::Error),
    #[error(
        "the ublk of this kernel is too old, Linux 6.5 is needed: serve with --nbd and make a \
         block device with nbd-client, or with --fuse and losetup"
    )]
    TooOld,
    #[error("the ublk driver does not answer: {0}")]
    Driver(io::Error),
    #[error("{} is there already: give another number, or auto", block_device(*.0))]
    Taken(u32),
    #[error(
        "{waiting} and its users wait for this array: take it over with --ublk {number}, or with \
         --ublk auto",
        waiting = block_device(*.number)
    )]
    WaitsElsewhere { number: u32 },
    #[error("{} waits for this array, and can't be taken over: {why}", block_device(*.number))]
    Misfit { number: u32, why: &'static str },
    #[error("{} can't be made: {error}", .asked)]
    Make { asked: Asked, error: io::Error },
    #[error("{} can't be taken over: {error}", block_device(*.number))]
    TakeOver { number: u32, error: io::Error },
}

/// Opens the driver, and checks its features.
pub(super) fn driver() -> Result<Control, DeviceError> {
    let opened = Control::open().map_err(|error| match error.kind() {
        // ENXIO or ENODEV: the device file exists without a driver.
        io::ErrorKind::NotFound => DeviceError::NoDriver,
        _ if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => DeviceError::NoDriver,
        _ if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => DeviceError::NoDriver,
        io::ErrorKind::PermissionDenied => DeviceError::Forbidden(error),
        _ => DeviceError::Driver(error),
    });
    let mut control = opened?;
    let needed = FEATURES | RECOVERY;
    match control.features() {
        Ok(features) if features & needed == needed => Ok(control),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(DeviceError::Forbidden(error))
        }
        _ => Err(DeviceError::TooOld),
    }
}

/// A device whose requests must be fetched before it is started.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) number: u32,
    /// Queue depth: most requests in progress.
    pub(super) depth: u16,
    /// True if the device existed before: programs may have it open, and wait.
    pub(super) taken_over: bool,
    /// True if the device waits for another server when this one ends.
    pub(super) is_recoverable: bool,
}

impl Device {
    /// Takes over the device that waits for this array, or creates one. A new device keeps the
    /// control locked until it is started.
    pub(super) fn prepare(
        control: &mut Control,
        asked: Asked,
        export: &ExportFacts,
    ) -> Result<Self, DeviceError> {
        let mark = export.identity.unwrap_or(UNAWAITED);
        // Lock: a device that another server is creating looks abandoned until it is started.
        control.lock().map_err(DeviceError::Driver)?;
        let left = left_behind(control, asked, mark)?;
        let (info, taken_over) = match left {
            Some(left) => {
                control.unlock().map_err(DeviceError::Driver)?;
                take_over(control, &left, export)?;
                (left, true)
            }
            None => (make(control, asked, mark, export)?, false),
        };
        Ok(Self {
            number: info.number,
            depth: info.depth,
            taken_over,
            is_recoverable: export.identity.is_some(),
        })
    }

    /// Deletes a new device that can't be started.
    pub(super) fn give_up(&self, control: &mut Control) {
        if !self.taken_over {
            delete(control, self.number).ok();
        }
    }
}

/// Returns a device that waits or will wait for the array with this mark. Deletes dead servers'
/// devices that wait for no server.
fn left_behind(
    control: &mut Control,
    asked: Asked,
    mark: u64,
) -> Result<Option<DeviceInfo>, DeviceError> {
    let mut elsewhere = None;
    for number in Control::numbers() {
        // The device may just have been deleted.
        let Ok(info) = control.info(number) else {
            continue;
        };
        match info.state {
            DeviceState::Dead if [mark, UNAWAITED].contains(&info.mark) => {
                // Ignore failures: a remaining device does no harm.
                delete(control, number).ok();
            }
            _ if info.mark != mark || mark == UNAWAITED => {}
            // Belongs to another listener of this server.
            DeviceState::Live if info.server == Some(std::process::id()) => {}
            _ if matches!(asked, Asked::Number(asked) if asked != number) => {
                elsewhere = Some(number);
            }
            _ => return Ok(Some(info)),
        }
    }
    match elsewhere {
        Some(number) => Err(DeviceError::WaitsElsewhere { number }),
        None => Ok(None),
    }
}

fn make(
    control: &mut Control,
    asked: Asked,
    mark: u64,
    export: &ExportFacts,
) -> Result<DeviceInfo, DeviceError> {
    let number = match asked {
        Asked::Auto => None,
        Asked::Number(number) => Some(number),
    };
    let recovery = export.identity.map_or(0, |_| RECOVERY);
    let added = control.add(&NewDevice {
        number,
        // Each request in progress has a slot of the export.
        depth: export.accesses_max,
        request_bytes_max: export.access_bytes_max,
        features: FEATURES | recovery,
        mark,
    });
    let exists = Some(Errno::EXIST.raw_os_error());
    let added = added.map_err(|error| match number {
        Some(number) if error.raw_os_error() == exists => DeviceError::Taken(number),
        _ => DeviceError::Make { asked, error },
    })?;
    let given = control.set_parameters(added.number, &parameters(export));
    if let Err(error) = given {
        // Unusable: delete it.
        drop(control.delete(added.number));
        return Err(DeviceError::Make { asked, error });
    }
    Ok(added)
}

/// Returns the parameters of the array as a block device.
fn parameters(export: &ExportFacts) -> Parameters {
    Parameters {
        bytes: export.bytes,
        block_bytes: export.block_bytes.min(BLOCK_BYTES_MAX),
        physical_block_bytes: export.block_bytes,
        request_bytes_max: export.access_bytes_max,
        zeroing_bytes_max: ZEROING_BYTES_MAX,
        read_only: export.read_only,
    }
}

/// Returns a reason if the array can't replace the device for programs that have it open. The array
/// may have grown; the new size stays hidden from these programs.
fn misfit(device: &Parameters, info: &DeviceInfo, export: &ExportFacts) -> Option<&'static str> {
    let own = parameters(export);
    let wanted = FEATURES | RECOVERY;
    if info.features & wanted != wanted || info.queues != 1 {
        return Some("another program made it");
    }
    if device.bytes > own.bytes {
        return Some("the array is smaller now");
    }
    if !device.read_only && own.read_only {
        return Some("it is writable, so serve without --read-only");
    }
    let fits =
        device.block_bytes == own.block_bytes && device.request_bytes_max <= own.request_bytes_max;
    (!fits).then_some("its block size or its largest request does not fit the array")
}

/// Takes the device over, so that its requests can be fetched.
fn take_over(
    control: &mut Control,
    left: &DeviceInfo,
    export: &ExportFacts,
) -> Result<(), DeviceError> {
    let number = left.number;
    let failed = |error| DeviceError::TakeOver { number, error };
    let device = control.parameters(number).map_err(failed)?;
    if let Some(why) = misfit(&device, left, export) {
        return Err(DeviceError::Misfit { number, why });
    }
    let begun = Instant::now();
    loop {
        let Err(error) = control.begin_recovery(number) else {
            return Ok(());
        };
        match Errno::from_io_error(&error) {
            Some(Errno::BUSY) if begun.elapsed() < DYING_TIMEOUT => thread::sleep(BETWEEN_TRIES),
            // An earlier server began the recovery, and never fetched.
            Some(Errno::INVAL) => return Ok(()),
            _ => return Err(failed(error)),
        }
    }
}

/// Deletes a device, then waits briefly until its number is free: at once, or when its last user
/// closes it.
pub(super) fn delete(control: &mut Control, number: u32) -> io::Result<()> {
    const TRIES: u32 = 100;
    control.delete(number)?;
    for _ in 0..TRIES {
        if control.info(number).is_err() {
            break;
        }
        thread::sleep(BETWEEN_TRIES);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export() -> ExportFacts {
        ExportFacts {
            name: "pool".to_owned(),
            description: String::new(),
            identity: Some(7),
            bytes: 1 << 30,
            block_bytes: 4096,
            read_only: false,
            access_bytes_max: 1 << 20,
            accesses_max: 128,
        }
    }

    #[test]
    fn a_ublk_device_is_requested_by_number_or_auto() {
        assert_eq!("auto".parse(), Ok(Asked::Auto));
        assert_eq!("0".parse(), Ok(Asked::Number(0)));
        assert_eq!("1048575".parse(), Ok(Asked::Number(1_048_575)));
        for wrong in ["", "-1", "1048576", "/dev/ublkb0", "x"] {
            let refused = wrong.parse::<Asked>().unwrap_err();
            assert!(refused.contains("give auto, or the N"), "{refused}");
        }
    }

    /// Programs that have a device open must not find another one in its place.
    #[test]
    fn an_array_takes_over_only_matching_devices() {
        let info = DeviceInfo {
            number: 0,
            state: DeviceState::Waiting,
            server: None,
            depth: 128,
            queues: 1,
            features: FEATURES | RECOVERY,
            mark: 7,
        };
        let device = parameters(&export());
        let changed = |change: fn(&mut ExportFacts)| {
            let mut export = export();
            change(&mut export);
            misfit(&device, &info, &export)
        };
        assert_eq!(changed(|_| {}), None);
        assert_eq!(changed(|export| export.bytes *= 2), None);
        assert!(changed(|export| export.bytes -= 4096).is_some());
        assert!(changed(|export| export.read_only = true).is_some());
        assert!(changed(|export| export.block_bytes = 512).is_some());
        assert!(changed(|export| export.access_bytes_max /= 2).is_some());
        let foreign = DeviceInfo {
            features: 0,
            ..info
        };
        assert!(misfit(&device, &foreign, &export()).is_some());
        let many = DeviceInfo { queues: 2, ..info };
        assert!(misfit(&device, &many, &export()).is_some());
    }

    #[test]
    fn a_read_only_export_makes_a_read_only_device() {
        let read_only = ExportFacts {
            read_only: true,
            ..export()
        };
        assert!(parameters(&read_only).read_only);
        assert!(!parameters(&export()).read_only);
    }

    #[test]
    fn block_size_is_limited_to_what_kernels_support() {
        let large = ExportFacts {
            block_bytes: 65536,
            ..export()
        };
        let parameters = parameters(&large);
        assert_eq!(
            (parameters.block_bytes, parameters.physical_block_bytes),
            (4096, 65536)
        );
    }
}
