//! Reads and changes mounts, so that nothing on another file system is removed by mistake.

use rustix::mount::MountPropagationFlags;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The mount point.
    pub(crate) path: PathBuf,
    /// The kind of file system: `ext4`, `fuse.spindles`.
    pub(crate) kind: String,
}

/// Returns the mounts on or below a folder, the last first.
///
/// # Errors
/// When the kernel's list of mounts can't be read.
pub(crate) fn below(folder: &Path) -> io::Result<Vec<Mount>> {
    let folder = fs::canonicalize(folder)?;
    let all = fs::read("/proc/self/mountinfo")?;
    let mut below: Vec<Mount> = all
        .split(|byte| *byte == b'\n')
        .filter_map(mount)
        .filter(|mount| mount.path.starts_with(&folder))
        .collect();
    below.reverse();
    Ok(below)
}

/// Parses a line `36 35 98:0 /root /where options tags - kind source options`.
fn mount(line: &[u8]) -> Option<Mount> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let end_of_tags = words.iter().position(|word| *word == b"-")?;
    Some(Mount {
        path: OsString::from_vec(unescaped(words.get(4)?)).into(),
        kind: String::from_utf8_lossy(words.get(end_of_tags + 1)?).into_owned(),
    })
}

/// Decodes escapes such as `\040` for a space.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            bytes.push(byte);
            rest = &after[3..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    bytes
}

/// Makes the mounts below a folder private, so that unmounting them here unmounts nothing
/// elsewhere. A bind mount of a user's folder is a peer of that folder's mounts.
pub(crate) fn isolate(folder: &Path) {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    for mount in below(folder).unwrap_or_default() {
        // A kernel that refuses this does not propagate the mount.
        let _refused = rustix::mount::mount_change(mount.path, flags);
    }
}

/// Removes a folder with its contents; refuses if something is mounted there.
pub(crate) fn remove_dir_all(folder: &Path) -> io::Result<()> {
    if let Some(mount) = below(folder)?.first() {
        let path = mount.path.display();
        return Err(io::Error::other(format!(
            "{path} is still mounted: unmount it, then remove {}",
            folder.display()
        )));
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_parsed() {
        let line = br"36 35 98:0 /mnt1 /mnt/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(
            mount(line),
            Some(Mount {
                path: r"/mnt/a b\c".into(),
                kind: "ext3".to_owned()
            })
        );
        assert_eq!(mount(b""), None);
        let all = below(Path::new("/")).unwrap();
        assert!(all.iter().any(|mount| mount.path == Path::new("/proc")));
    }

    /// The contents of a mounted file system must not be lost.
    #[test]
    fn a_folder_with_a_mount_inside_is_not_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("a");
        let at = folder.join("with space");
        fs::create_dir_all(&at).unwrap();
        let mount = |what: &[&str]| {
            let mounted = std::process::Command::new(what[0])
                .args(&what[1..])
                .arg(&at)
                .status();
            mounted.is_ok_and(|status| status.success())
        };
        if !mount(&["mount", "-t", "tmpfs", "none"]) {
            return println!(
                "SKIPPED a_folder_with_a_mount_inside_is_not_removed: mounting takes root"
            );
        }
        let precious = at.join("precious");
        fs::write(&precious, "data").unwrap();
        let refused = remove_dir_all(&folder).unwrap_err().to_string();
        let kept = precious.exists();
        assert!(mount(&["umount"]));
        assert!(
            kept && refused.contains("with space is still mounted: unmount it"),
            "{refused}"
        );
        remove_dir_all(&folder).unwrap();
        assert!(!folder.exists());
    }

    /// With a bind mount of a user's folder, unmounting ours leaves theirs mounted.
    #[test]
    fn a_private_unmount_affects_no_other_namespace() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let run = |line: &str| {
            let words = line.split(' ');
            let words = words.map(|word| word.strip_prefix('@').map_or(word.into(), &at));
            let words: Vec<PathBuf> = words.collect();
            let done = std::process::Command::new(&words[0])
                .args(&words[1..])
                .status();
            done.is_ok_and(|status| status.success())
        };
        fs::create_dir_all(at("ours/mnt")).unwrap();
        fs::create_dir(at("theirs")).unwrap();
        if !run("mount -t tmpfs none @theirs") {
            return println!(
                "SKIPPED a_private_unmount_affects_no_other_namespace: mounting takes root"
            );
        }
        fs::create_dir(at("theirs/disk")).unwrap();
        let prepared = run("mount --make-shared @theirs")
            && run("mount -t tmpfs none @theirs/disk")
            && run("mount --rbind @theirs @ours/mnt");
        fs::write(at("theirs/disk/precious"), "data").unwrap();
        isolate(&at("ours"));
        let unmounted = run("umount @ours/mnt/disk") && run("umount @ours/mnt");
        let kept = at("theirs/disk/precious").exists();
        assert!(run("umount -R @theirs"));
        assert!(prepared && unmounted && kept);
    }
}
