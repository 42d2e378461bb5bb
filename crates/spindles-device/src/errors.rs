//! Why a target could not be opened or closed.

use crate::holders::is_server;
use spindles_block::SizeBytes;
use std::borrow::Cow;
use std::io;
use thiserror::Error;

/// Returns the remedy that ends the use. A server that runs a command on its own array may itself
/// have the device.
fn remedy(users: Option<&String>) -> Cow<'static, str> {
    let own = format!("pid {} ", std::process::id());
    if let Some(owner) = users.and_then(|users| owner_of_server(users)) {
        let name = owner.trim_start_matches("user ");
        return Cow::Owned(format!(
            "its server accepts commands of {owner} only: run it as that user, as with \
             `sudo -u {name}`"
        ));
    }
    Cow::Borrowed(if users.is_some_and(|users| users.starts_with(&own)) {
        "the array's server has it open, and releases it when that member is out and removed"
    } else {
        "stop or unmount that first"
    })
}

/// Returns the other user whose server has the device, parsed from the description of its users.
fn owner_of_server(users: &str) -> Option<&str> {
    let (_, described) = users.split_once(" of ")?;
    let (owner, command) = described.split_once(" (")?;
    is_server(command).then_some(owner)
}

/// Describes the users of a device.
fn user(above: Option<&String>, users: Option<&String>) -> String {
    match (above, users) {
        (Some(device), _) => {
            format!("{device}, a loop device on it that is mounted or otherwise held")
        }
        (None, Some(users)) => users.clone(),
        (None, None) => "another program".to_owned(),
    }
}

/// Returns the place that a bare name was looked up in, for messages.
pub fn in_folder(device: &str) -> &'static str {
    if device.contains(['/', ':']) {
        ""
    } else {
        " in this folder"
    }
}

/// Returns the remedy for missing rights, and for a bare name that is not in this folder.
fn io_remedy(device: &str, source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ": become root, or get the right to read and write it",
        io::ErrorKind::NotFound if !in_folder(device).is_empty() => {
            ": check the name, or give the whole path of what is not in this folder"
        }
        _ => "",
    }
}

/// Why a target could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A system call failed.
    #[error("can't {action} {device}: {source}{}", io_remedy(device, source))]
    Io {
        /// The device as the user named it.
        device: String,
        /// The failed action: "open", "read the size of".
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// No experiment has a modelled disk of this name.
    #[error(
        "{device} is a modelled disk, which exists only while an experiment runs on it: give a \
         file or a device, or one at its pace, as in paced:exos-x18-18tb:FILE"
    )]
    Modelled {
        /// The device.
        device: String,
    },
    /// A device can't be paced.
    #[error("{device}: {why}")]
    Paced {
        /// The device.
        device: String,
        /// The reason, with the remedy.
        why: String,
    },
    /// A target has modelled and real devices.
    #[error(
        "{device} can't be in one array with the other devices: devices are all modelled, in one \
         experiment, or all real"
    )]
    ModelledAndReal {
        /// The device.
        device: String,
    },
    /// The process that opens files for a sandboxed server has ended or does not answer.
    #[error(
        "the helper with which the sandboxed server opens devices has ended or does not answer; \
         clients are still served: stop the server, and start it again"
    )]
    NoOpener,
    /// The process that opens files for a sandboxed server refused this one.
    #[error(
        "{device} holds something else, and a server in its sandbox opens such files only in the \
         folders of the array's devices: put it there, or serve with --no-sandbox"
    )]
    Elsewhere {
        /// The device.
        device: String,
    },
    /// The kernel refuses writes to it.
    #[error("{device} is write-protected: lift that (blockdev --setrw), or leave it out")]
    WriteProtected {
        /// The device.
        device: String,
    },
    /// The address of the export is invalid.
    #[error(
        "{device} can't be opened: {what}; an export is nbd://HOST[:PORT]/EXPORT or \
         nbd+unix:///EXPORT?socket=PATH, or nbds://HOST[:PORT]/EXPORT?tls-certificates=DIR"
    )]
    Address {
        /// The address given.
        device: String,
        /// The mistake in it.
        what: &'static str,
    },
    /// The server refuses the export, or can't be reached.
    #[error("can't open {device}: {reason}")]
    Server {
        /// The device.
        device: String,
        /// The reason.
        reason: String,
    },
    /// Its server serves it for reading only.
    #[error("{device} is served for reading only: serve it for writing, or leave it out")]
    ServedReadOnly {
        /// The device.
        device: String,
    },
    /// Its server does not support flush.
    #[error(
        "{device} can't be written to: its server does not flush, so nothing written there is ever \
         known to be durable; serve it with flush, or leave it out"
    )]
    NoFlush {
        /// The device.
        device: String,
    },
    /// Another program has the device open or locked.
    #[error(
        "{device} is in use by {}: {}",
        user(above.as_ref(), users.as_ref()),
        remedy(users.as_ref())
    )]
    Busy {
        /// The device.
        device: String,
        /// The loop device on it, if that is in use.
        above: Option<String>,
        /// Its users, if known.
        users: Option<String>,
    },
    /// It exceeds the file size limit of the process.
    #[error(
        "{device} would have {bytes}, and a file of this process has {limit_bytes} at most: raise \
         that limit (ulimit -f), or copy less"
    )]
    FileLimit {
        /// The file.
        device: String,
        /// Its required length.
        bytes: SizeBytes,
        /// The limit.
        limit_bytes: SizeBytes,
    },
    /// The name of a device is empty.
    #[error(
        "the name of a device is empty: look for a comma too many, or a variable that is not set"
    )]
    NoName,
    /// Another command wrote to it after it was examined.
    #[error(
        "{device} was changed by another command meanwhile, and nothing was written to it: look at \
         what it holds now, and try again"
    )]
    ChangedMeanwhile {
        /// The device.
        device: String,
    },
    /// Its name contains control characters.
    #[error("the name {device:?} has a control character in it: rename it")]
    Unprintable {
        /// The device.
        device: String,
    },
    /// It is neither a file nor a block device.
    #[error(
        "{device} is {kind}: give a file, a block device, nbd://HOST/EXPORT, mem:SIZE or null:SIZE"
    )]
    NotADevice {
        /// The device.
        device: String,
        /// The kind of file, with an article: "a folder".
        kind: &'static str,
    },
    /// The size of a `mem:` or `null:` device is missing or invalid.
    #[error("{device}: {source}")]
    Size {
        /// The device.
        device: String,
        /// The mistake in the size.
        source: spindles_block::SizeError,
    },
    /// The text of a slice is wrong.
    #[error("{0}")]
    Slice(spindles_layout::ExpressionError),
    /// A slice goes beyond the end of its device.
    #[error(
        "{slice} does not fit: {device} ends at {bytes} bytes, sector {}",
        bytes / spindles_layout::Slice::SECTOR_BYTES
    )]
    BeyondEnd {
        /// The slice.
        slice: String,
        /// Its device.
        device: String,
        /// The size of the device.
        bytes: u64,
    },
    /// A slice cuts a sector of its device.
    #[error(
        "{slice} cuts a sector: {device} has sectors of {sector_bytes} bytes, so give a start and \
         a length in multiples of {sector_bytes}"
    )]
    CutsSector {
        /// The slice.
        slice: String,
        /// Its device.
        device: String,
        /// The sector size of the device.
        sector_bytes: u32,
    },
    /// The device is smaller than one block.
    #[error(
        "{device} holds {bytes} bytes, less than one block of {block_bytes}: give a larger one"
    )]
    TooSmall {
        /// The device.
        device: String,
        /// Its size.
        bytes: u64,
        /// The block size asked for.
        block_bytes: u32,
    },
    /// Its length is no multiple of the block size.
    #[error(
        "{device} holds {bytes} bytes, and its last {} are less than a block of {block_bytes}: \
         make its length a multiple of {block_bytes} bytes",
        bytes % u64::from(*block_bytes)
    )]
    NotWhole {
        /// The device.
        device: String,
        /// Its size.
        bytes: u64,
        /// The block size.
        block_bytes: u32,
    },
    /// The sectors of the device are larger than the blocks.
    #[error(
        "{device} has sectors of {sector_bytes} bytes and can't serve blocks of {block_bytes}: \
         take a device with smaller sectors, or use blocks of {sector_bytes} bytes"
    )]
    BlockSize {
        /// The device.
        device: String,
        /// Its sector size.
        sector_bytes: u32,
        /// The block size asked for.
        block_bytes: u32,
    },
    /// `io_uring` was asked for explicitly and is unavailable.
    #[error("io_uring is not available here ({source}): use threads instead")]
    NoUring {
        /// The error of the operating system.
        source: io::Error,
    },
    /// Direct I/O was asked for explicitly and is unavailable.
    #[error("{device} can't be read and written directly ({reason}): allow the page cache")]
    NoDirect {
        /// The device.
        device: String,
        /// The reason.
        reason: String,
    },
    /// `SPINDLES_IO` has an unknown value.
    #[error("SPINDLES_IO is \"{value}\": set it to io_uring or threads, or unset it")]
    Environment {
        /// Its value.
        value: String,
    },
}

/// Why data may not be durable after closing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The last flush failed.
    #[error("{target}: the last writes may not be durable: {reason}")]
    NotDurable {
        /// The target.
        target: String,
        /// The reason.
        reason: String,
    },
}

/// Wraps an error of the operating system about a device.
pub fn failed(device: &str, action: &'static str, source: io::Error) -> OpenError {
    OpenError::Io {
        device: device.to_owned(),
        action,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cant_open(device: &str, kind: io::ErrorKind) -> String {
        let error = OpenError::Io {
            device: device.to_owned(),
            action: "open",
            source: kind.into(),
        };
        error.to_string()
    }

    #[test]
    fn missing_rights_and_names_have_a_remedy() {
        let denied = cant_open("/dev/sda", io::ErrorKind::PermissionDenied);
        assert!(denied.ends_with(": become root, or get the right to read and write it"));
        let bare = cant_open("disk", io::ErrorKind::NotFound);
        assert!(bare.contains("check the name"), "{bare}");
        let path = cant_open("/dev/sda", io::ErrorKind::NotFound);
        assert!(!path.contains("in this folder"), "{path}");
    }
}
