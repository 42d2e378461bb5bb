//! Makes a block device for a system: the device itself, a loop device on a file, or an array
//! exported by a server that this module starts.

use crate::machine::own_counters::OwnCounters;
use crate::systems::left_over::RUNTIME;
use crate::systems::scratch::{self, Scratch};
use crate::systems::undo::{self, Undo, What};
use spindles_admin::assemble::AssembleOptions;
use spindles_device::OpenOptions;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A block device that lasts as long as this value. Fields are dropped in their order: the loop
/// device is detached before the server ends.
#[derive(Debug)]
pub(crate) struct Exported {
    /// `/dev/loop7`.
    pub(crate) device: String,
    /// Process id of the server, if any.
    pub(crate) process: Option<u32>,
    /// In words: `FUSE and a loop device`.
    pub(crate) how: &'static str,
    /// Counters of the bytes that its members move for it.
    pub(crate) counters: Option<OwnCounters>,
    _loop: Option<Undo>,
    _server: Option<Undo>,
    _scratch: Option<Scratch>,
}

/// How long a server may take to start.
const SERVE_MAX: Duration = Duration::from_mins(1);
/// The control device of ublk, the kernel's block devices in user space.
const UBLK: &str = "/dev/ublk-control";

impl Exported {
    /// Exports a path: a block device as it is, a file through a loop device.
    pub(crate) fn of_path(path: &str) -> Result<Self, String> {
        let facts = fs::metadata(path).map_err(|error| format!("{path}: {error}"))?;
        if facts.file_type().is_block_device() {
            return Ok(Self {
                device: path.to_owned(),
                process: None,
                how: direct_how(path),
                counters: of_devices(&[path.to_owned()]),
                _loop: None,
                _server: None,
                _scratch: None,
            });
        }
        let (device, undo) = attach(path, &[])?;
        Ok(Self {
            counters: of_devices(std::slice::from_ref(&device)),
            device,
            process: None,
            how: direct_how(path),
            _loop: Some(undo),
            _server: None,
            _scratch: None,
        })
    }

    /// Exports an array on these devices, served by `program`.
    pub(crate) fn of_array(
        devices: &[String],
        options: &AssembleOptions,
        program: &Path,
    ) -> Result<Self, String> {
        let AssembleOptions { open, engine, .. } = options;
        let job_rate = engine.job_rate.map(|rate| rate.to_string());
        let policy = engine.read_policy;
        let policy = policy.map(|policy| ["--read-policy", policy.name]);
        let rate = job_rate
            .as_ref()
            .map(|rate| ["--rebuild-rate", rate.as_str()]);
        let options: Vec<&str> = policy.into_iter().chain(rate).flatten().collect();
        Self::served(devices, &options, open, program)
    }

    /// Exports a file or device, served by `program` as arrays are, so that the access path is the
    /// same.
    pub(crate) fn as_it_is(
        device: &str,
        open: &OpenOptions,
        program: &Path,
    ) -> Result<Self, String> {
        let mut exported = Self::served(&[device.to_owned()], &["--as-is"], open, program)?;
        // The server counts only members of arrays; its device moves the same bytes.
        exported.counters = of_devices(std::slice::from_ref(&exported.device));
        Ok(exported)
    }

    fn served(
        devices: &[String],
        options: &[&str],
        open: &OpenOptions,
        program: &Path,
    ) -> Result<Self, String> {
        let (runtime, scratch) = scratch::own_folder("the server")?;
        let wrong = |error: std::io::Error| format!("{}: {error}", program.display());
        let number = Path::new(UBLK).exists().then(free_ublk);
        let file = runtime.join("array.blk");
        let mut command = Command::new(program);
        command.arg("serve").args(devices);
        command.args(options);
        command.args(["--metrics", "0"]); // Port 0: the kernel picks a free port.
        if open.ignore_flushes {
            command.args(["--flushes", "ignored"]);
        }
        let ready = if let Some(number) = number {
            command.args(["--ublk", &number.to_string()]);
            PathBuf::from(format!("/dev/ublkb{number}"))
        } else {
            command.arg("--fuse").arg(&file);
            file.clone()
        };
        let log = fs::File::create(runtime.join("log")).map_err(wrong)?;
        let mut child = command
            // A separate runtime folder keeps the server out of the user's list of servers, so that
            // no name there selects it. Root's commands list it.
            .env(RUNTIME, &runtime)
            .stdin(Stdio::null())
            // Ctrl-C in the terminal is for the lab, which ends the server when it is no longer
            // needed.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(wrong)?;
        let server = Undo::new(What::Started(child.id()));
        await_ready(&mut child, &ready, &runtime.join("log"))?;
        let counters = Some(OwnCounters::Server(metrics_of(&runtime.join("log"))?));
        let process = Some(child.id());
        if number.is_some() {
            return Ok(Self {
                device: ready.to_string_lossy().into_owned(),
                process,
                how: served_how(),
                counters,
                _loop: None,
                _server: Some(server),
                _scratch: Some(scratch),
            });
        }
        // The block size of the array, so that no smaller requests arrive.
        let (device, undo) = attach(&file.to_string_lossy(), &["--sector-size", "4096"])?;
        Ok(Self {
            device,
            process,
            how: served_how(),
            counters,
            _loop: Some(undo),
            _server: Some(server),
            _scratch: Some(scratch),
        })
    }
}

/// Describes how the kernel reaches a served device.
pub(crate) fn served_how() -> &'static str {
    if Path::new(UBLK).exists() {
        "ublk"
    } else {
        "FUSE and a loop device"
    }
}

/// Describes how the kernel reaches a file or device directly.
pub(crate) fn direct_how(path: &str) -> &'static str {
    let facts = fs::metadata(path);
    if facts.is_ok_and(|facts| facts.file_type().is_block_device()) {
        "as it is"
    } else {
        "a loop device"
    }
}

/// Returns the counters of block devices that only one system uses; `None` if a path is no block
/// device.
pub(crate) fn of_devices(paths: &[String]) -> Option<OwnCounters> {
    let name = |path: &String| {
        let device = fs::canonicalize(path).ok()?;
        let is_device = fs::metadata(&device).ok()?.file_type().is_block_device();
        let name = device.file_name()?.to_string_lossy().into_owned();
        is_device.then_some(name)
    };
    let names: Option<Vec<_>> = paths.iter().map(name).collect();
    names
        .filter(|names| !names.is_empty())
        .map(OwnCounters::Devices)
}

/// Reads the address of the metrics from the log of a started server.
fn metrics_of(log: &Path) -> Result<SocketAddr, String> {
    let began = Instant::now();
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        let url = said
            .lines()
            .find_map(|line| line.strip_suffix("/metrics")?.rsplit_once("http://"));
        match url.map(|(_, address)| address.parse()) {
            Some(Ok(address)) => return Ok(address),
            _ if began.elapsed() > SERVE_MAX => {
                return Err(format!(
                    "the array's server has no metrics: {}",
                    said.trim()
                ));
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Waits until the file has a size, or the block device exists.
fn await_ready(child: &mut Child, ready: &Path, log: &Path) -> Result<(), String> {
    let began = Instant::now();
    let is_ready = || {
        fs::metadata(ready)
            .is_ok_and(|facts| facts.file_type().is_block_device() || facts.len() > 0)
    };
    while !is_ready() {
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        if ended.is_some() || began.elapsed() > SERVE_MAX {
            let said = fs::read_to_string(log).unwrap_or_default();
            let said = said.trim().replace('\n', "; ");
            return Err(format!("the array is not served: {said}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn free_ublk() -> u32 {
    let is_free = |number: &u32| !Path::new(&format!("/dev/ublkc{number}")).exists();
    (0..u32::MAX).find(is_free).unwrap_or(0)
}

/// Attaches a loop device to a file, bypassing the page cache of the file if possible.
pub(crate) fn attach(file: &str, more: &[&str]) -> Result<(String, Undo), String> {
    let with = |direct: &str| {
        let mut arguments: Vec<String> = ["--find", "--show", direct].map(str::to_owned).into();
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        arguments.push(file.to_owned());
        undo::run("losetup", &arguments)
    };
    let device = with("--direct-io=on").or_else(|_| with("--direct-io=off"));
    let device = device.map_err(|why| {
        format!("a loop device is needed, which needs root and the tool losetup: {why}")
    })?;
    let undo = Undo::new(What::Attached(device.clone()));
    Ok((device, undo))
}
