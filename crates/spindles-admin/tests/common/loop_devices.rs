//! Loop devices for tests, also of other crates, which include this file by its path.

#![allow(dead_code, reason = "each test binary uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest wait for a detached device.
const RELEASE_MAX: Duration = Duration::from_secs(10);

/// A loop device on a file; detached when dropped.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    /// Sets one up; returns the reason if it can't.
    pub(crate) fn new(file: &Path, sector_bytes: u32) -> Result<Self, String> {
        Self::with(file, &["--sector-size", &sector_bytes.to_string()])
    }

    /// Sets one up with further arguments for `losetup`; returns the reason if it can't.
    pub(crate) fn with(file: &Path, arguments: &[&str]) -> Result<Self, String> {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(arguments)
            .arg(file)
            .output()
            .map_err(|error| format!("losetup: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(format!("no loop devices here: {reason}"));
        }
        let device = Self(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        device.allow_writes();
        Ok(device)
    }

    /// Removes a write protection that a test left when it was killed: it outlives the detaching.
    fn allow_writes(&self) {
        let name = self.0.trim_start_matches("/dev/");
        let is_protected = std::fs::read_to_string(format!("/sys/block/{name}/ro"));
        if is_protected.is_ok_and(|text| text.trim() == "1") {
            let status = Command::new("blockdev").args(["--setrw", &self.0]).status();
            assert!(status.is_ok_and(|status| status.success()), "{name}");
        }
    }

    /// Detaches it once its last user has closed it, and does not wait for that.
    pub(crate) fn detach_later(self) {
        self.detach();
        std::mem::forget(self);
    }

    fn detach(&self) {
        let detached = Command::new("losetup").args(["--detach", &self.0]).status();
        // A second panic would abort all tests and hide the reason of the first.
        assert!(detached.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

impl Drop for Loop {
    /// Detaches it, and waits until it has released its file: while another process has the device
    /// open, such as one of udev, the kernel only notes the wish.
    fn drop(&mut self) {
        let name = self.0.trim_start_matches("/dev/");
        let place = format!("/sys/block/{name}/loop/backing_file");
        let file = || std::fs::read_to_string(&place).ok();
        let before = file();
        self.detach();
        let end = Instant::now() + RELEASE_MAX;
        while before.is_some() && file() == before && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Loop devices on sparse files in a folder of their own.
pub(crate) struct Loops {
    devices: Vec<Loop>,
    /// Dropped after the devices.
    _folder: tempfile::TempDir,
}

impl Loops {
    /// Sets up `count` devices of `bytes` each; returns the reason if it can't.
    pub(crate) fn new(count: usize, bytes: u64) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let one = |number: usize| {
            let path = folder.path().join(format!("{number}.img"));
            File::create_new(&path).unwrap().set_len(bytes).unwrap();
            Loop::new(&path, 512)
        };
        let devices = (0..count).map(one).collect::<Result<_, _>>()?;
        Ok(Self {
            devices,
            _folder: folder,
        })
    }

    /// The names of the devices, such as `/dev/loop7`.
    pub(crate) fn names(&self) -> Vec<String> {
        self.devices.iter().map(|device| device.0.clone()).collect()
    }
}
