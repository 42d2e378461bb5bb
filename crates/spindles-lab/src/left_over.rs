//! What a run that was killed left behind: mounts, loop devices and servers of its arrays. All of it lies in, or
//! works on, folders of ours whose owner is gone.

use crate::mounts;
use crate::undo::{What, end};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The variable that names the folder in which a server of ours has its sockets.
pub(crate) const RUNTIME: &str = "XDG_RUNTIME_DIR";

/// Takes down whatever uses these folders: file systems first, then the loop devices beneath them, then servers, then the
/// files that these showed. Whatever can't be taken down stays.
pub(crate) fn take_down(folders: &[PathBuf]) {
    for folder in folders {
        mounts::isolate(folder);
    }
    let unmount = |is_mine: fn(&mounts::Mount) -> bool| {
        for folder in folders {
            let mounts = mounts::below(folder).unwrap_or_default();
            for mount in mounts.into_iter().filter(is_mine) {
                drop(What::Mounted(mount.path).undo());
            }
        }
    };
    unmount(|mount| !mount.kind.starts_with("fuse"));
    for device in loops_on(folders) {
        drop(What::Attached(device).undo());
    }
    for process in servers_of(folders) {
        end(process);
    }
    unmount(|_| true);
}

/// Whether something still works on files in a folder that was not taken down: a server or a loop device of a run whose
/// other folders lie elsewhere.
pub(crate) fn is_used(folder: &Path) -> bool {
    let name = folder.as_os_str().as_bytes();
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let serves = processes.flatten().any(|process| {
        let is_process = process
            .file_name()
            .to_str()
            .is_some_and(|it| it.parse::<u32>().is_ok());
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut arguments = arguments.split(|byte| *byte == 0);
        let is_ours = |argument: &[u8]| {
            let rest = argument.strip_prefix(name);
            rest.is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        is_process
            && process.file_name().to_str() != Some(&std::process::id().to_string())
            && arguments.any(is_ours)
    });
    serves || !loops_on(&[folder.to_owned()]).is_empty()
}

/// Loop devices on files in these folders.
fn loops_on(folders: &[PathBuf]) -> Vec<String> {
    let devices = fs::read_dir("/sys/class/block").into_iter().flatten();
    let on_ours = devices.flatten().filter_map(|device| {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let is_ours = folders
            .iter()
            .any(|folder| Path::new(&file).starts_with(folder));
        is_ours.then(|| format!("/dev/{}", device.file_name().to_string_lossy()))
    });
    on_ours.collect()
}

/// Processes that keep their sockets in these folders.
fn servers_of(folders: &[PathBuf]) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let ours = processes.flatten().filter_map(|process| {
        let number: u32 = process.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(process.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let runtime =
            variables.find_map(|it| it.strip_prefix(RUNTIME.as_bytes())?.strip_prefix(b"="))?;
        let runtime = Path::new(std::ffi::OsStr::from_bytes(runtime));
        folders
            .iter()
            .any(|folder| runtime.starts_with(folder))
            .then_some(number)
    });
    ours.collect()
}
