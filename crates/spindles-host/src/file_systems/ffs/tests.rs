//! Tests of the file system: places, writes and options.

use super::*;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

const FILE: FileId = FileId(0);

fn ffs(bytes: u64, mkfs: &[&str], mount: &str) -> Ffs {
    let options = options(mkfs, mount).unwrap();
    Ffs::new(bytes, &options, true).unwrap()
}

/// Returns the group of each block of a file.
fn groups(ffs: &Ffs, file: FileId, blocks: core::ops::Range<u64>) -> Vec<u64> {
    let bytes = u64::from(ffs.geometry.group_fragments) * u64::from(ffs.geometry.fragment_bytes);
    let place = |block| ffs.place(file, block).unwrap().place_bytes / bytes;
    blocks.map(place).collect()
}

/// The first 12 blocks lie in the group of the inode, then 2048 in each following group.
#[test]
fn large_files_change_groups() {
    let mut ffs = ffs(2 << 30, &["-g", "32M"], "");
    let mut effects = Effects::new();
    ffs.create(FILE, "large", &mut effects).unwrap();
    ffs.grow(FILE, (12 + 2048 + 2048 + 1) * 8192, &mut effects)
        .unwrap();
    let of = |range| {
        groups(&ffs, FILE, range)
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    let all = [of(0..12), of(12..2060), of(2060..4108), of(4108..4109)];
    assert_eq!(
        all.map(|groups| groups.into_iter().collect::<Vec<_>>()),
        [[0], [1], [2], [3]]
    );
    // Within a group neighbours follow each other.
    let place = |block| ffs.place(FILE, block).unwrap().place_bytes;
    assert!((12..2059).all(|block| place(block + 1) == place(block) + 8192));
}

/// The end of a small file takes fragments, which become a block when it grows.
#[test]
fn ends_of_small_files_share_blocks() {
    let mut ffs = ffs(64 << 20, &[], "");
    let mut effects = Effects::new();
    let free = ffs.groups_free();
    for file in 0..4 {
        ffs.create(FileId(file), &format!("file{file}"), &mut effects)
            .unwrap();
        ffs.grow(FileId(file), 8192 + 2048, &mut effects).unwrap();
    }
    let place = |ffs: &Ffs, file, block| ffs.place(FileId(file), block).unwrap();
    let tails: BTreeSet<u64> = (0..4)
        .map(|file| place(&ffs, file, 1).place_bytes)
        .collect();
    assert_eq!(tails.len(), 4);
    assert_eq!(place(&ffs, 2, 1).bytes, 2048);
    // Four blocks, and the fragments of the four ends: three fit into the folder's block.
    assert_eq!(free - ffs.groups_free(), 5);
    ffs.grow(FileId(0), 16_384, &mut effects).unwrap();
    assert_eq!(place(&ffs, 0, 1).bytes, 8192);
    for file in 0..4 {
        ffs.remove(FileId(file), &mut effects).unwrap();
    }
    assert_eq!(ffs.groups_free(), free);
}

impl Ffs {
    fn groups_free(&self) -> u64 {
        self.groups.free_blocks()
    }
}

/// No two files share a byte, whatever is created, grown and removed.
#[test]
fn files_never_overlap() {
    let mut ffs = ffs(32 << 20, &["-g", "4M"], "");
    let mut effects = Effects::new();
    let mut random = 7_u64;
    let mut files = BTreeMap::new();
    for round in 0..3000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let file = FileId(u32::try_from(random >> 33 & 63).unwrap());
        if !files.contains_key(&file) {
            ffs.create(file, &format!("{}", file.0), &mut effects)
                .unwrap();
            files.insert(file, 0);
        } else if round % 7 == 0 {
            ffs.remove(file, &mut effects).unwrap();
            files.remove(&file);
        } else {
            let bytes = (random >> 40 & 0xffff) + files[&file];
            if ffs.grow(file, bytes, &mut effects).is_ok() {
                files.insert(file, bytes);
            }
        }
        effects.clear();
    }
    let mut ends: Vec<(u64, u64)> = Vec::new();
    for (file, bytes) in &files {
        let blocks = 0..bytes.div_ceil(8192);
        let places = blocks.map(|block| ffs.place(*file, block).unwrap());
        ends.extend(places.map(|block| (block.place_bytes, block.end_bytes())));
    }
    ends.sort_unstable();
    assert!(ends.len() > 500, "{}", ends.len());
    assert!(ends.windows(2).all(|two| two[0].1 <= two[1].0));
}

#[test]
fn full_file_systems_are_errors() {
    let mut ffs = ffs(8 << 20, &[], "");
    let mut effects = Effects::new();
    ffs.create(FILE, "file", &mut effects).unwrap();
    assert_eq!(ffs.grow(FILE, 9 << 20, &mut effects), Err(HostError::Full));
    assert_eq!(
        ffs.create(FileId(1), "no/file", &mut effects),
        Err(HostError::Missing)
    );
    let error = |bytes, mkfs: &[&str]| {
        let options = options(mkfs, "").unwrap();
        super::ROW.check(bytes, &options).err()
    };
    assert_eq!(error(8192, &[]), Some(HostError::TooSmall));
    // Fragments of 1 KiB, numbered with 32 bits.
    assert_eq!(error((1 << 42) - 1024, &[]), None);
    assert_eq!(error(1 << 42, &[]), Some(HostError::TooLarge));
    assert_eq!(error(1 << 42, &["-f", "2048"]), None);
}

/// A folder and its files take as many writes as the original, and lie where it places them.
#[test]
fn folders_are_written_in_order_and_spread() {
    let mut ffs = ffs(1 << 30, &["-g", "32M"], "");
    let mut effects = Effects::new();
    ffs.mkdir("a", &mut effects).unwrap();
    let writes = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::WriteNow(_)));
    // Inode, contents, the parent's inode, and the entry.
    assert_eq!(writes.count(), 4);
    ffs.mkdir("a/b", &mut effects).unwrap();
    for (file, path) in [(0, "x"), (1, "a/x"), (2, "a/b/x")] {
        ffs.create(FileId(file), path, &mut effects).unwrap();
        ffs.grow(FileId(file), 1, &mut effects).unwrap();
    }
    let of = [0, 1, 2].map(|file| groups(&ffs, FileId(file), 0..1)[0]);
    assert_eq!(of, [0, 1, 2]);
    let near = {
        let mut near = Ffs::new(1 << 30, &options(&[], "").unwrap(), false).unwrap();
        near.mkdir("a", &mut effects).unwrap();
        near.create(FILE, "a/x", &mut effects).unwrap();
        near.grow(FILE, 1, &mut effects).unwrap();
        groups(&near, FILE, 0..1)
    };
    assert_eq!(near, [0]);
}

#[test]
fn options_are_those_of_newfs_and_mount() {
    let of = |mkfs: &[&str], mount| {
        let options = options(mkfs, mount)?;
        Ok((
            options.block_bytes,
            options.fragment_bytes,
            options.inode_bytes,
        ))
    };
    assert_eq!(of(&[], ""), Ok((8192, 1024, 4096)));
    assert_eq!(of(&["-f", "2048"], "async"), Ok((16_384, 2048, 8192)));
    assert_eq!(
        of(&["-b", "16K", "-i", "8K"], "softdep"),
        Ok((16_384, 2048, 8192))
    );
    for (mkfs, mount) in [
        (&["-b"][..], ""),
        (&["-q", "1"], ""),
        (&["-b", "3000"], ""),
        (&["-f", "300"], ""),
        (&["-g", "1K"], ""),
        (&[], "noatime"),
    ] {
        let refused: Result<_, &str> = of(mkfs, mount);
        assert!(refused.is_err(), "{mkfs:?} {mount}");
    }
}

/// A million files take less than 200 MB.
#[test]
fn files_take_little_memory() {
    let each = size_of::<File>() + size_of::<FileId>();
    // A node of the tree is filled by two thirds on average; blocks of one file take 16 bytes.
    assert!(each * 3 / 2 + 32 < 200, "{each}");
}
