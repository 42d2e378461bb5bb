//! The kernel's table of what is mounted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// The type of our mounts, as the table has it.
pub(crate) const FILE_SYSTEM: &str = "fuse.spindles";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// The number of its device: `0:55`. No two that are there at once have the same.
    pub(crate) device: String,
    /// What kind of file system it is.
    pub(crate) file_system: String,
}

const TABLE: &str = "/proc/self/mountinfo";

/// What is mounted on a path, if something is: of several the one that is seen.
pub(crate) fn mounted_on(path: &Path) -> io::Result<Option<Mounted>> {
    Ok(find(&fs::read(TABLE)?, path))
}

/// Where it is mounted, if it is: on `path` if it is there, or where that has been moved to.
pub(crate) fn place_of(mounted: &Mounted, path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(find_place(&fs::read(TABLE)?, mounted, path))
}

fn find(table: &[u8], path: &Path) -> Option<Mounted> {
    let on_it = mounts(table).filter(|(place, _)| place == path);
    on_it.map(|(_, mounted)| mounted).next_back()
}

fn find_place(table: &[u8], mounted: &Mounted, path: &Path) -> Option<PathBuf> {
    if find(table, path).as_ref() == Some(mounted) {
        return Some(path.to_owned());
    }
    let its = mounts(table).filter(|(_, it)| it == mounted);
    its.map(|(place, _)| place).next_back()
}

fn mounts(table: &[u8]) -> impl DoubleEndedIterator<Item = (PathBuf, Mounted)> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(mount)
}

/// `36 35 0:55 / /mnt/pool rw,relatime shared:1 - fuse.spindles pool rw,user_id=0`
fn mount(line: &[u8]) -> Option<(PathBuf, Mounted)> {
    let mut words = line.split(|byte| *byte == b' ');
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let device = words.nth(2).map(text)?;
    let mount_point = words.nth(1).map(plain)?;
    let file_system = words.skip_while(|word| *word != b"-").nth(1).map(text)?;
    let mounted = Mounted {
        device,
        file_system,
    };
    Some((mount_point.into(), mounted))
}

/// A word of the table: `\040` stands for a space, and so on.
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
            let found = find(table, Path::new(path));
            found.map(|it| (it.device, it.file_system))
        };
        let is = |device: &str, kind: &str| Some((device.to_owned(), kind.to_owned()));
        for (path, expected) in [
            ("/", is("254:0", "ext4")),
            // The one above hides the other.
            ("/a", is("0:41", FILE_SYSTEM)),
            ("/with space\\n", is("0:42", "fuse.other")),
            ("/a/b", None),
        ] {
            assert_eq!(found(path), expected, "{path}");
        }
        let ours = find(table, Path::new("/a")).expect("it is there");
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
}
