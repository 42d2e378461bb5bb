//! The kernel's mount table.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// File system type of our mounts in the table.
pub(crate) const FILE_SYSTEM: &str = "fuse.spindles";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// Device number, such as `0:55`; unique among mounted file systems.
    pub(crate) device: String,
    /// File system type.
    pub(crate) file_system: String,
}

const TABLE: &str = "/proc/self/mountinfo";

/// Returns the topmost mount on a path, if any.
pub(crate) fn mounted_on(path: &Path) -> io::Result<Option<Mounted>> {
    Ok(find(&fs::read(TABLE)?, path).map(|row| row.mounted))
}

/// Returns the path of a mount: `path` if it is still there, or the place it was moved to. `None`
/// if it is not mounted.
pub(crate) fn place_of(mounted: &Mounted, path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(find_place(&fs::read(TABLE)?, mounted, path))
}

/// Returns true if a mount on the path is invisible to the rest of the machine, as in systemd
/// services with their own mount namespace. Assumes the same namespace if that of process 1 is
/// unreadable.
pub(crate) fn is_hidden(path: &Path) -> io::Result<bool> {
    let table = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt"));
    let is_own = matches!((table("self"), table("1")), (Ok(own), Ok(first)) if own != first);
    Ok(is_own && is_kept_here(&fs::read(TABLE)?, path))
}

/// Returns true if a mount on the path propagates only to namespaces that receive mounts from this
/// one.
fn is_kept_here(table: &[u8], path: &Path) -> bool {
    let Some(row) = find(table, path) else {
        return false;
    };
    let below = rows(table).find(|below| below.id == row.parent);
    below.is_some_and(|below| !below.is_shared || below.is_slave)
}

fn find_place(table: &[u8], mounted: &Mounted, path: &Path) -> Option<PathBuf> {
    if find(table, path).is_some_and(|row| row.mounted == *mounted) {
        return Some(path.to_owned());
    }
    let its = rows(table).filter(|row| row.mounted == *mounted);
    its.map(|row| row.mount_point.into()).last()
}

/// A row of the table.
struct Row<'a> {
    id: &'a [u8],
    /// ID of the mount below it.
    parent: &'a [u8],
    mount_point: OsString,
    /// True if mounts on it propagate to its peers.
    is_shared: bool,
    /// True if it receives mounts from a master, to which it propagates none.
    is_slave: bool,
    mounted: Mounted,
}

fn rows(table: &[u8]) -> impl Iterator<Item = Row<'_>> {
    table.split(|byte| *byte == b'\n').filter_map(row)
}

fn find<'a>(table: &'a [u8], path: &Path) -> Option<Row<'a>> {
    let on = |row: &Row<'_>| row.mount_point.as_bytes() == path.as_os_str().as_bytes();
    rows(table).filter(on).last()
}

/// `36 35 0:55 / /mnt/pool rw,relatime shared:1 master:2 - fuse.spindles pool rw,user_id=0`
fn row(line: &[u8]) -> Option<Row<'_>> {
    let mut words = line.split(|byte| *byte == b' ');
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let (id, parent) = (words.next()?, words.next()?);
    let device = words.next().map(text)?;
    let mount_point = words.nth(1).map(plain)?;
    let (mut is_shared, mut is_slave) = (false, false);
    for option in words.by_ref().take_while(|word| *word != b"-") {
        is_shared |= option.starts_with(b"shared:");
        is_slave |= option.starts_with(b"master:");
    }
    let file_system = words.next().map(text)?;
    Some(Row {
        id,
        parent,
        mount_point,
        is_shared,
        is_slave,
        mounted: Mounted {
            device,
            file_system,
        },
    })
}

/// Decodes a word of the table: `\040` stands for a space, and so on.
fn plain(word: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\');
        let code = code.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found() {
        let table = b"22 1 254:0 / / rw - ext4 /dev/root rw\n\
            30 22 0:40 / /a rw,nosuid shared:1 master:2 - tmpfs tmpfs rw\n\
            31 22 0:41 / /a rw - fuse.spindles pool rw,user_id=0\n\
            32 22 0:42 / /with\\040space\\134n rw shared:9 - fuse.other x rw\n";
        let found = |path: &str| {
            let found = find(table, Path::new(path)).map(|row| row.mounted);
            found.map(|found| (found.device, found.file_system))
        };
        let is = |device: &str, kind: &str| Some((device.to_owned(), kind.to_owned()));
        for (path, expected) in [
            ("/", is("254:0", "ext4")),
            // The upper mount hides the lower one.
            ("/a", is("0:41", FILE_SYSTEM)),
            ("/with space\\n", is("0:42", "fuse.other")),
            ("/a/b", None),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
        let ours = find(table, Path::new("/a")).expect("it is there").mounted;
        let place = |path: &str| find_place(table, &ours, Path::new(path));
        for path in ["/a", "/before it was moved", "/"] {
            assert_eq!(place(path), Some("/a".into()), "{path}");
        }
        let gone = Mounted {
            device: "0:43".to_owned(),
            ..ours.clone()
        };
        assert_eq!(find_place(table, &gone, Path::new("/a")), None);
    }

    #[test]
    fn mounts_invisible_to_other_namespaces_are_found() {
        // As systemd sets up a service's namespace: it propagates mounts, but not to its master.
        let table = b"22 1 254:0 / / rw shared:1 - ext4 /dev/root rw\n\
            30 22 0:40 / /service rw shared:7 master:2 - tmpfs tmpfs rw\n\
            31 30 0:41 / /service/file rw shared:8 - fuse.spindles pool rw\n\
            32 22 0:42 / /file rw shared:9 - fuse.spindles pool rw\n\
            33 22 0:43 / /alone rw - tmpfs tmpfs rw\n\
            34 33 0:44 / /alone/file rw - fuse.spindles pool rw\n";
        for (path, expected) in [
            ("/service/file", true),
            ("/file", false),
            ("/alone/file", true),
            ("/nothing", false),
        ] {
            assert_eq!(is_kept_here(table, Path::new(path)), expected, "{path}");
        }
    }
}
