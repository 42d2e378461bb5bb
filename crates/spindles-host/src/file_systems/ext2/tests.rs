//! Tests of the file system: places, blocks of pointers and options.

use super::*;
use crate::file_systems::grouped::DIRECT_BLOCKS;
use alloc::collections::BTreeSet;
use alloc::format;

const FILE: FileId = FileId(0);

fn ext2(bytes: u64, mkfs: &[&str], mount: &str) -> Ext2 {
    let options = options(mkfs, mount).unwrap();
    Ext2::new(bytes, &options).unwrap()
}

/// Creates a file in the root and makes it that long. Returns the steps.
fn make(ext2: &mut Ext2, file: u32, bytes: u64) -> Effects {
    let mut effects = Effects::new();
    let path = format!("file{file}");
    ext2.create(FileId(file), &path, &mut effects).unwrap();
    ext2.grow(FileId(file), bytes, &mut effects).unwrap();
    effects
}

fn place(ext2: &Ext2, file: u32, block: u64) -> u64 {
    ext2.place(FileId(file), block).unwrap().place_bytes
}

/// A file lies in one piece, but for one block of pointers after 12 blocks, two after 12 + 256, and
/// one after each 256 more.
#[test]
fn blocks_follow_each_other_but_for_pointers() {
    let mut ext2 = ext2(64 << 20, &["-b", "1024"], "");
    make(&mut ext2, 0, 1024 * (12 + 256 + 256 + 2));
    let gap = |block| place(&ext2, 0, block) - place(&ext2, 0, block - 1);
    let gaps: Vec<(u64, u64)> = (1..12 + 256 + 256 + 2)
        .map(|block| (block, gap(block) / 1024))
        .filter(|(_, blocks)| *blocks != 1)
        .collect();
    assert_eq!(gaps, [(12, 2), (12 + 256, 3), (12 + 512, 2)]);
    let needs = |block| {
        let mut effects = Effects::new();
        ext2.find(FILE, block, &mut effects);
        effects.len()
    };
    assert_eq!([11, 12, 267, 268, 525].map(needs), [0, 1, 1, 2, 2]);
}

/// Bitmap and descriptor change once for eight blocks. What a file does not need is free again once
/// it is closed.
#[test]
fn eight_blocks_are_allocated_at_once() {
    let mut ext2 = ext2(64 << 20, &[], "");
    let free = ext2.groups.free_blocks();
    let effects = make(&mut ext2, 0, 4096 * (DIRECT_BLOCKS - 1));
    let bitmap = layout::block_bitmap(&ext2.geometry, 0);
    let changes = effects.iter().filter(|one| **one == Effect::Change(bitmap));
    assert_eq!(changes.count(), 2);
    assert_eq!(free - ext2.groups.free_blocks(), 16);
    let mut effects = Effects::new();
    ext2.closed(FILE, &mut effects);
    assert_eq!(free - ext2.groups.free_blocks(), 11);
    ext2.remove(FILE, &mut effects).unwrap();
    assert_eq!(ext2.groups.free_blocks(), free);
}

/// Files that grow in turns have eight blocks each in a row.
#[test]
fn files_that_grow_at_once_alternate() {
    let mut ext2 = ext2(64 << 20, &[], "");
    let mut effects = Effects::new();
    for file in 0..2 {
        make(&mut ext2, file, 0);
    }
    for blocks in 1..=12 {
        for file in 0..2 {
            ext2.grow(FileId(file), blocks * 4096, &mut effects)
                .unwrap();
        }
    }
    let first = place(&ext2, 0, 0);
    let of = |file| [0, 7, 8, 11].map(|block| (place(&ext2, file, block) - first) / 4096);
    assert_eq!([of(0), of(1)], [[0, 7, 16, 19], [8, 15, 24, 27]]);
}

/// A full group is followed by the next one.
#[test]
fn large_files_go_on_in_the_next_group() {
    let mut ext2 = ext2(64 << 20, &["-b", "1024"], "");
    make(&mut ext2, 0, 20 << 20);
    let group = |block| place(&ext2, 0, block) / (8 << 20);
    let blocks = 0..20 << 10;
    let groups: BTreeSet<u64> = blocks.clone().map(group).collect();
    assert_eq!(groups.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
    let places: BTreeSet<u64> = blocks.map(|block| place(&ext2, 0, block)).collect();
    assert_eq!(places.len(), 20 << 10);
}

/// Folders go to the emptiest groups, and files to the group of their folder.
#[test]
fn folders_spread_and_files_stay_with_them() {
    let mut ext2 = ext2(64 << 20, &["-b", "1024"], "");
    let mut effects = Effects::new();
    ext2.mkdir("a", &mut effects).unwrap();
    ext2.mkdir("a/b", &mut effects).unwrap();
    for (file, path) in [(0, "x"), (1, "a/x"), (2, "a/b/x")] {
        ext2.create(FileId(file), path, &mut effects).unwrap();
        ext2.grow(FileId(file), 1, &mut effects).unwrap();
    }
    let groups = [0, 1, 2].map(|file| place(&ext2, file, 0) / (8 << 20));
    assert_eq!(groups, [0, 1, 2]);
    assert_eq!(
        ext2.create(FileId(3), "no/x", &mut effects),
        Err(HostError::Missing)
    );
}

/// Creation searches the folder twice, removal up to the entry.
#[test]
fn folders_are_searched_entry_by_entry() {
    let mut ext2 = ext2(64 << 20, &[], "");
    let searched = |effects: &Effects| {
        let searched = effects.iter().filter_map(|effect| match effect {
            Effect::Search(entries) => Some(*entries),
            _ => None,
        });
        searched.sum::<u64>()
    };
    let mut all = (0..400).map(|file| searched(&make(&mut ext2, file, 1)));
    assert_eq!([all.next(), all.next()], [Some(4), Some(6)]);
    assert_eq!(all.last(), Some(2 * 401));
    // 254 entries of 16 bytes fit into the first of two blocks.
    let mut effects = Effects::new();
    ext2.remove(FILE, &mut effects).unwrap();
    assert_eq!(searched(&effects), 201);
}

#[test]
fn metadata_waits_unless_the_mount_is_sync() {
    // The inode, the entry, and the folder's inode; then the entry and the inode.
    for (mount, created, removed) in [("", 0, 0), ("async", 0, 0), ("sync", 3, 2)] {
        let mut ext2 = ext2(64 << 20, &[], mount);
        let now = |effects: &Effects| {
            let now = effects.iter();
            now.filter(|one| matches!(one, Effect::WriteNow(_))).count()
        };
        assert_eq!(now(&make(&mut ext2, 0, 0)), created, "{mount}");
        let mut effects = Effects::new();
        ext2.remove(FILE, &mut effects).unwrap();
        assert_eq!(now(&effects), removed, "{mount}");
    }
}

#[test]
fn options_are_those_of_mke2fs_and_mount() {
    let of = |mkfs: &[&str], mount| {
        let options = options(mkfs, mount)?;
        Ok((options.block_bytes, options.inode_bytes, options.is_sync))
    };
    assert_eq!(of(&[], ""), Ok((4096, 4096, false)));
    assert_eq!(
        of(&["-b", "1K", "-i", "8K"], "sync"),
        Ok((1024, 8192, true))
    );
    for (mkfs, mount) in [
        (&["-b"][..], ""),
        (&["-b", "8192"], ""),
        (&["-f", "1024"], ""),
        (&["-i", "512"], ""),
        (&[], "softdep"),
    ] {
        let refused: Result<_, &str> = of(mkfs, mount);
        assert!(refused.is_err(), "{mkfs:?} {mount}");
    }
    let check = |bytes| super::ROW.check(bytes, &options(&[], "").unwrap()).err();
    assert_eq!(check(8192), Some(HostError::TooSmall));
    assert_eq!(check(1 << 44), Some(HostError::TooLarge));
}

/// A million files take less than 200 MB.
#[test]
fn files_take_little_memory() {
    let each = size_of::<File>() + size_of::<FileId>();
    // A node of the tree is filled by two thirds on average; blocks of one file take 16 bytes.
    assert!(each * 3 / 2 + 32 < 200, "{each}");
}
