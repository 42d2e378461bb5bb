//! A block device of the kernel for what a system is made of: the device itself, a loop device on a file,
//! or an array that a server of ours exports.

use crate::left_over::RUNTIME;
use crate::own_counters::OwnCounters;
use crate::scratch::Scratch;
use crate::undo::{self, Undo, What};
use spindles_io::OpenOptions;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A block device that lasts as long as this value. Fields are dropped in their order: the loop device
/// goes before the server.
#[derive(Debug)]
pub(crate) struct Exported {
    /// `/dev/loop7`.
    pub(crate) device: String,
    /// The server, where there is one.
    pub(crate) process: Option<u32>,
    /// In words: `FUSE and a loop device`.
    pub(crate) how: &'static str,
    /// What counts the bytes that its members move for it.
    pub(crate) counters: Option<OwnCounters>,
    _loop: Option<Undo>,
    _server: Option<Undo>,
    _scratch: Option<Scratch>,
}

/// How long a server may take until it serves.
const SERVE_MAX: Duration = Duration::from_mins(1);
/// Where the kernel's module for block devices of user space is asked.
const UBLK: &str = "/dev/ublk-control";

impl Exported {
    /// What is there: a block device as it is, or a file through a loop device.
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

    /// An array on these devices, served by `program`.
    pub(crate) fn of_array(
        devices: &[String],
        open: &OpenOptions,
        program: &Path,
    ) -> Result<Self, String> {
        let job_rate = open.job_rate.to_string();
        let options = [
            "--read-policy",
            open.read_policy.name,
            "--rebuild-rate",
            &job_rate,
        ];
        Self::served(devices, &options, open, program)
    }

    /// A file or device, served by `program` as arrays are, so that it is reached in the same way.
    pub(crate) fn as_it_is(
        device: &str,
        open: &OpenOptions,
        program: &Path,
    ) -> Result<Self, String> {
        let mut exported = Self::served(&[device.to_owned()], &["--as-is"], open, program)?;
        // The server counts members of arrays; the device that it makes has the same bytes.
        exported.counters = of_devices(std::slice::from_ref(&exported.device));
        Ok(exported)
    }

    fn served(
        devices: &[String],
        options: &[&str],
        open: &OpenOptions,
        program: &Path,
    ) -> Result<Self, String> {
        let (runtime, scratch) = crate::targets::own_folder("the server")?;
        let wrong = |error: std::io::Error| format!("{}: {error}", program.display());
        let number = Path::new(UBLK).exists().then(free_ublk);
        let file = runtime.join("array.blk");
        let mut command = Command::new(program);
        command.arg("serve").args(devices);
        command.args(options);
        command.args(["--metrics", "0"]); // Any free port of this machine.
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
            // It is not among the servers of this user, so that no name of theirs means it. Root's commands list it.
            .env(RUNTIME, &runtime)
            .stdin(Stdio::null())
            // Ctrl-C in the terminal is for the lab, which ends it when nothing needs it any more.
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
        // As large as the array's blocks: nothing smaller is asked for.
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

/// How the kernel reaches what is served, in words.
pub(crate) fn served_how() -> &'static str {
    if Path::new(UBLK).exists() {
        "ublk"
    } else {
        "FUSE and a loop device"
    }
}

/// How the kernel reaches a file or device by itself, in words.
pub(crate) fn direct_how(path: &str) -> &'static str {
    let facts = fs::metadata(path);
    if facts.is_ok_and(|facts| facts.file_type().is_block_device()) {
        "as it is"
    } else {
        "a loop device"
    }
}

/// The counters of block devices that one system has for itself; none where one is something else.
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

/// Where a server that has begun says that its metrics are.
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

/// The file has a size, or the device is there.
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

/// A loop device on a file, past the page cache of the file where that is possible.
pub(crate) fn attach(file: &str, more: &[&str]) -> Result<(String, Undo), String> {
    let with = |direct: &str| {
        let mut arguments: Vec<String> = ["--find", "--show", direct].map(str::to_owned).into();
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        arguments.push(file.to_owned());
        undo::run("losetup", &arguments)
    };
    let device = with("--direct-io=on").or_else(|_| with("--direct-io=off"));
    let device = device.map_err(|why| {
        format!("a loop device is needed, which takes root and the tool losetup: {why}")
    })?;
    let undo = Undo::new(What::Attached(device.clone()));
    Ok((device, undo))
}
