//! A tree of files like that in a source archive, in the order of the archive.

use super::sizes;
use crate::stream::Random;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The contents of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// In the order of the archive: a folder comes before its contents.
    pub entries: Vec<Entry>,
}

/// A file or folder of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the archive's root, without a leading slash.
    pub path: String,
    /// Its size; `None` for a folder.
    pub bytes: Option<u64>,
}

/// Files of a folder: median 7, mean 15.4, as in linux-source-6.1 (78,579 files in 5,096 folders).
const FILES_MU: f64 = 1.946;
const FILES_SIGMA: f64 = 1.256;
/// Bytes of a file: median 3.9 KB, mean 16.5 KB, as in the same source.
const BYTES_MU: f64 = 8.225;
const BYTES_SIGMA: f64 = 1.618;
/// Files and folders of the default tree, which stands for a system's sources. The ratio is that of
/// linux-source-6.1.
pub(crate) const FILES: u64 = 15_556;
const FOLDERS: u64 = 1_010;
/// The greatest depth of a folder. With it the mean depth of files is about 4.6, as in the same
/// source.
const DEPTH_MAX: usize = 4;

struct Folder {
    path: String,
    depth: usize,
    inside: Vec<usize>,
    files: u64,
}

impl Tree {
    /// Creates a tree of `files` files, determined by that number and the seed.
    pub fn sources(files: u64, seed: u64) -> Self {
        let mut random = Random::new(seed, "untar/tree", 0);
        let count = (files * FOLDERS).div_ceil(FILES).max(1);
        let mut folders: Vec<Folder> = Vec::new();
        for number in 0..count {
            let parent = loop {
                let Some(last) = number.checked_sub(1) else {
                    break None;
                };
                let at = usize::try_from(random.below(last + 1)).expect("a folder there is");
                if folders[at].depth < DEPTH_MAX {
                    break Some(at);
                }
            };
            let at = folders.len();
            let (path, depth) = match parent {
                None => (String::from("src"), 0),
                Some(parent) => {
                    folders[parent].inside.push(at);
                    let parent = &folders[parent];
                    (format!("{}/part{number}", parent.path), parent.depth + 1)
                }
            };
            let files = sizes::lognormal(&mut random, FILES_MU, FILES_SIGMA);
            folders.push(Folder {
                path,
                depth,
                inside: Vec::new(),
                files,
            });
        }
        share_out(&mut folders, files);
        let mut tree = Self::default();
        tree.add(&folders, 0, &mut random);
        tree
    }

    /// Adds a folder, its files, then the folders in it.
    fn add(&mut self, folders: &[Folder], at: usize, random: &mut Random) {
        let folder = &folders[at];
        self.entries.push(Entry {
            path: folder.path.clone(),
            bytes: None,
        });
        for number in 0..folder.files {
            self.entries.push(Entry {
                path: format!("{}/module{number}.c", folder.path),
                bytes: Some(sizes::lognormal(random, BYTES_MU, BYTES_SIGMA)),
            });
        }
        for inside in &folder.inside {
            self.add(folders, *inside, random);
        }
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        let files = self.entries.iter().filter(|entry| entry.bytes.is_some());
        u64::try_from(files.count()).expect("a count fits")
    }

    /// Returns the bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().filter_map(|entry| entry.bytes).sum()
    }
}

/// Scales the drawn numbers of files so that they add up to `files`.
fn share_out(folders: &mut [Folder], files: u64) {
    let drawn: u64 = folders.iter().map(|folder| folder.files).sum();
    let (mut seen, mut given) = (0, 0);
    for folder in folders {
        seen += folder.files;
        let upto = files * seen / drawn.max(1);
        folder.files = upto - given;
        given = upto;
    }
    assert!(drawn == 0 || given == files);
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_tree_resembles_that_of_linux() {
        let tree = Tree::sources(FILES, 1);
        assert_eq!(tree.files(), FILES);
        assert_eq!(tree, Tree::sources(FILES, 1));
        assert_ne!(tree, Tree::sources(FILES, 2));
        let folders = tree.entries.iter().filter(|entry| entry.bytes.is_none());
        assert_eq!(folders.count(), 1010);
        let mean = tree.bytes() / FILES;
        assert!((13_000..20_000).contains(&mean), "{mean}");
        let mut bytes: Vec<u64> = tree
            .entries
            .iter()
            .filter_map(|entry| entry.bytes)
            .collect();
        bytes.sort_unstable();
        let median = bytes[bytes.len() / 2];
        assert!((3_600..4_200).contains(&median), "{median}");
        let files = tree.entries.iter().filter(|entry| entry.bytes.is_some());
        let depth: usize = files.map(|file| file.path.matches('/').count()).sum();
        let tenths = depth * 10 / usize::try_from(FILES).unwrap();
        assert!((41..=50).contains(&tenths), "{tenths}");
        // A folder comes before its contents, and no name occurs twice.
        let mut seen = BTreeSet::new();
        for entry in &tree.entries {
            if let Some((folder, _)) = entry.path.rsplit_once('/') {
                assert!(seen.contains(folder), "{}", entry.path);
            }
            assert!(seen.insert(entry.path.as_str()), "{} twice", entry.path);
        }
        assert_eq!(Tree::sources(300, 1).files(), 300);
    }
}
