//! Mounts a file system on a file, and unmounts it: with system calls if permitted, else with
//! `fusermount3`, which may do it for unprivileged users.

use super::mounts::FILE_SYSTEM;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{getgid, getuid};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The device for the kernel's requests.
const DEVICE: &str = "/dev/fuse";
const HELPER: &str = "fusermount3";
/// Names the helper's descriptor of our socket.
const HELPER_SOCKET: &str = "_FUSE_COMMFD";

/// Mounts on a file. Returns the descriptor that delivers its requests.
pub(crate) fn mount(path: &Path, name: &str, read_only: bool) -> io::Result<OwnedFd> {
    let mounted = match mount_directly(path, name, read_only) {
        Err(error) if is_forbidden(&error) => mount_with_helper(path, name, read_only)?,
        other => other?,
    };
    fcntl_setfl(&mounted, fcntl_getfl(&mounted)? | OFlags::NONBLOCK)?;
    Ok(mounted)
}

/// Unmounts. With `lazily` also while in use: detaches the path now; the last user frees the mount.
pub(crate) fn unmount(path: &Path, lazily: bool) -> io::Result<()> {
    let flags = if lazily {
        UnmountFlags::DETACH
    } else {
        UnmountFlags::empty()
    };
    match rustix::mount::unmount(path, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => unmount_with_helper(path, lazily),
        other => Ok(other?),
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn mount_directly(path: &Path, name: &str, read_only: bool) -> io::Result<OwnedFd> {
    let device = File::options().read(true).write(true).open(DEVICE);
    let device =
        device.map_err(|error| io::Error::new(error.kind(), format!("{DEVICE}: {error}")))?;
    // The root of the file system is a regular file.
    let options = format!(
        "fd={},rootmode=100000,user_id={},group_id={}",
        device.as_raw_fd(),
        getuid().as_raw(),
        getgid().as_raw()
    );
    let options = CString::new(options)?;
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    rustix::mount::mount(name, path, FILE_SYSTEM, flags, options.as_c_str())?;
    Ok(device.into())
}

/// Mounts with the helper, which sends the descriptor over a socket.
fn mount_with_helper(path: &Path, name: &str, read_only: bool) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let access = if read_only { "ro" } else { "rw" };
    let options = format!("{access},nosuid,nodev,fsname={name},subtype=spindles");
    let helper = {
        let mut command = Command::new(HELPER);
        let command = command.args(["-o", &options, "--"]).arg(path);
        let command = command.env(HELPER_SOCKET, "0").stdin(OwnedFd::from(theirs));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    }; // Only the helper has its end now, so its exit closes the socket.
    let helper = helper.map_err(|error| no_helper(&error))?;
    let received = receive_descriptor(&ours);
    let output = helper.wait_with_output()?;
    match received {
        Ok(Some(descriptor)) if output.status.success() => Ok(descriptor),
        Err(error) if output.status.success() => Err(error),
        _ => Err(said(&output)),
    }
}

fn receive_descriptor(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        flags,
    )?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptors.next())
}

fn unmount_with_helper(path: &Path, lazily: bool) -> io::Result<()> {
    let mut command = Command::new(HELPER);
    let command = command.arg("-u").args(lazily.then_some("-z"));
    let output = command.arg("--").arg(path).stdin(Stdio::null()).output();
    let output = output.map_err(|error| no_helper(&error))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(said(&output))
    }
}

fn no_helper(error: &io::Error) -> io::Error {
    let what = format!(
        "only root may mount without {HELPER} (Debian: fuse3), which can't be run: {error}"
    );
    io::Error::new(error.kind(), what)
}

/// Returns the helper's error message.
fn said(output: &Output) -> io::Error {
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.trim();
    io::Error::other(if words.is_empty() {
        format!("{HELPER}: {}", output.status)
    } else {
        words.to_owned()
    })
}
