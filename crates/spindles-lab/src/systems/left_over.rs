//! Takes down what a killed run left behind: mounts, loop devices and servers of its arrays. All of
//! them lie in, or work on, folders of the lab whose owner is gone.

use crate::systems::mounts;
use crate::systems::undo::{What, end};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The variable that names the folder for the sockets of a server.
pub(crate) const RUNTIME: &str = "XDG_RUNTIME_DIR";

/// Takes down everything that uses these folders: file systems first, then the loop devices beneath
/// them, then servers, then their mounts of files. Whatever fails stays.
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
    for device in loops_on(folders).into_iter().chain(loops_noted_in(folders)) {
        drop(What::Attached(device).undo());
    }
    for process in servers_of(folders) {
        end(process);
    }
    unmount(|_| true);
}

/// Returns true if something still works on files in a folder: a server or loop device of a run
/// whose other folders lie elsewhere, and which was not taken down.
pub(crate) fn is_used(folder: &Path) -> bool {
    let name = folder.as_os_str().as_bytes();
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let serves = processes.flatten().any(|process| {
        let is_process = process
            .file_name()
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
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

/// Returns the loop devices on files in these folders.
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

/// Returns the loop devices that are noted in these folders (`Scratch::note_attached`) and still
/// attached to the file that the note names.
fn loops_noted_in(folders: &[PathBuf]) -> Vec<String> {
    let entries = folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok());
    let noted = entries.flatten().flatten().filter_map(|entry| {
        let file = fs::read_link(entry.path()).ok()?;
        let name = entry.path().file_stem()?.to_str()?.to_owned();
        let backing = format!("/sys/class/block/{name}/loop/backing_file");
        let backing = fs::read_to_string(backing).ok()?;
        (Path::new(backing.trim_end_matches('\n')) == file).then(|| format!("/dev/{name}"))
    });
    noted.collect()
}

/// Returns the processes that keep their sockets in these folders.
fn servers_of(folders: &[PathBuf]) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten();
    let ours = processes.flatten().filter_map(|process| {
        let number: u32 = process.file_name().to_str()?.parse().ok()?;
        let environment = fs::read(process.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let runtime = variables.find_map(|variable| {
            variable
                .strip_prefix(RUNTIME.as_bytes())?
                .strip_prefix(b"=")
        })?;
        let runtime = Path::new(std::ffi::OsStr::from_bytes(runtime));
        folders
            .iter()
            .any(|folder| runtime.starts_with(folder))
            .then_some(number)
    });
    ours.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::export::attach;
    use crate::systems::scratch::Scratch;
    use std::fs::File;

    /// A killed run leaves loop devices on the user's files, known only from notes in its folder.
    #[test]
    fn recorded_loop_devices_of_a_folder_are_detached() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("disk of the user's.img");
        File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let file = file.to_str().unwrap();
        let (Ok((ours, killed)), Ok((other, _other))) = (attach(file, &[]), attach(file, &[]))
        else {
            return println!(
                "SKIPPED recorded_loop_devices_of_a_folder_are_detached: no loop devices"
            );
        };
        let scratch = Scratch::new(parent.path()).unwrap();
        scratch.note_attached(&ours, file).unwrap();
        let elsewhere = parent.path().join("another.img");
        File::create(&elsewhere).unwrap();
        // A note of a device that has since been attached to another file.
        let noted = scratch.note_attached(&other, elsewhere.to_str().unwrap());
        noted.unwrap();
        take_down(&[scratch.path().to_owned()]);
        let is_attached = |device: &str| {
            let name = device.trim_start_matches("/dev/");
            let backing = format!("/sys/class/block/{name}/loop/backing_file");
            fs::read_to_string(backing).is_ok_and(|text| text.trim_end() == file)
        };
        assert_eq!((is_attached(&ours), is_attached(&other)), (false, true));
        killed.ended();
    }
}
