//! Reads a tar archive of the user's as the tree of files that a workload unpacks.

use spindles_workload::file::{Entry, Tree};
use std::fs::File;
use std::io;
use std::path::Path;

/// The experiment parameter that names the archive.
pub const ARCHIVE: &str = "tarball";

/// The parameter that names the folder, on another disk, from which the archive is read.
pub const ARCHIVE_FOLDER: &str = "archive_folder";

/// Returns the absolute path of a folder for an archive.
///
/// # Errors
/// When there is no such folder, or its path is not UTF-8.
pub fn folder(name: &str) -> Result<String, String> {
    let path = std::fs::canonicalize(name).map_err(|error| error.to_string())?;
    if !path.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    let text = path.into_os_string().into_string();
    text.map_err(|_| "its name is not UTF-8".to_owned())
}

/// Returns the files and folders of a tar file, in its order. Skips links and devices. A folder
/// that the archive does not list is added before its contents.
///
/// # Errors
/// When the file can't be read, is no tar file or is compressed.
pub fn read(path: &Path) -> io::Result<Tree> {
    let mut archive = tar::Archive::new(io::BufReader::new(File::open(path)?));
    let mut tree = Tree::default();
    let mut folders = std::collections::BTreeSet::new();
    for entry in archive.entries()? {
        // For a file that is no archive, the reader's error repeats bytes of that file.
        let entry = entry.map_err(|_| invalid("it is not a tar file"))?;
        let path = entry.path()?;
        // Entries outside of the target folder are skipped.
        let parts: Option<Vec<&str>> = path
            .components()
            .filter(|part| *part != std::path::Component::CurDir)
            .map(|part| match part {
                std::path::Component::Normal(name) => name.to_str(),
                _ => None,
            })
            .collect();
        let Some(parts) = parts.filter(|parts| !parts.is_empty()) else {
            continue;
        };
        let is_folder = entry.header().entry_type().is_dir();
        if !is_folder && !entry.header().entry_type().is_file() {
            continue;
        }
        let depth = if is_folder {
            parts.len()
        } else {
            parts.len() - 1
        };
        for end in 1..=depth {
            let folder = parts[..end].join("/");
            if folders.insert(folder.clone()) {
                tree.entries.push(Entry {
                    path: folder,
                    bytes: None,
                });
            }
        }
        if !is_folder {
            tree.entries.push(Entry {
                path: parts.join("/"),
                bytes: Some(entry.size()),
            });
        }
    }
    if tree.files() == 0 {
        return Err(invalid("it contains no file"));
    }
    Ok(tree)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn archives_of_tar_are_read_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("src/deep/er")).unwrap();
        std::fs::write(at("src/a.c"), [0; 700]).unwrap();
        std::fs::write(at("src/deep/er/b.c"), []).unwrap();
        std::os::unix::fs::symlink("a.c", at("src/link")).unwrap();
        let tar = at("x.tar");
        // Without folder entries, as some tools pack.
        let packed = Command::new("tar")
            .args(["-cf"])
            .arg(&tar)
            .arg("-C")
            .arg(folder.path())
            .args(["src/deep/er/b.c", "src/a.c", "src/link"])
            .status();
        assert!(packed.unwrap().success());
        let tree = read(&tar).unwrap();
        let entries: Vec<_> = (tree.entries.iter())
            .map(|entry| (entry.path.as_str(), entry.bytes))
            .collect();
        let expected = [
            ("src", None),
            ("src/deep", None),
            ("src/deep/er", None),
            ("src/deep/er/b.c", Some(0)),
            ("src/a.c", Some(700)),
        ];
        assert_eq!(entries, expected);
        std::fs::write(at("no.tar"), [7; 2000]).unwrap();
        assert!(read(&at("no.tar")).is_err());
        assert!(read(&at("absent.tar")).is_err());
    }
}
