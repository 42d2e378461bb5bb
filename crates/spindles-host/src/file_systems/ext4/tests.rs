//! Tests of the file system: places, the journal, folders and options.

use super::*;
use alloc::format;
use alloc::vec;

const FILE: FileId = FileId(0);

fn ext4(bytes: u64, mkfs: &[&str]) -> Ext4 {
    Ext4::new(bytes, &options(mkfs, "").unwrap()).unwrap()
}

/// Creates a file in the root and makes it that long. Returns the steps.
fn make(ext4: &mut Ext4, file: u32, bytes: u64) -> Effects {
    let mut effects = Effects::new();
    let path = format!("file{file}");
    ext4.create(FileId(file), &path, &mut effects).unwrap();
    ext4.grow(FileId(file), bytes, &mut effects).unwrap();
    effects
}

/// Writes blocks of a file. Returns the first block and the number of each request.
fn write(ext4: &mut Ext4, file: u32, blocks: core::ops::Range<u64>) -> Vec<(u64, u64)> {
    let blocks: Vec<Block> = blocks.map(|block| window(FileId(file), block)).collect();
    let pieces = ext4.requests(RequestKind::Write, &blocks).into_iter();
    let in_blocks = |piece: Piece| (piece.offset_bytes / 4096, piece.bytes / 4096);
    pieces.map(in_blocks).collect()
}

/// Blocks have a place once they are written, in the second group. A large file is one piece,
/// however it grows; small ones follow each other.
#[test]
fn places_are_chosen_when_blocks_are_written() {
    let mut ext4 = ext4(1 << 30, &[]);
    let free = ext4.groups.free_blocks();
    for file in 0..3 {
        make(&mut ext4, file, 8192);
    }
    make(&mut ext4, 3, 4096 * 100);
    assert_eq!(ext4.groups.free_blocks(), free);
    // The third file is written before the second.
    assert_eq!(write(&mut ext4, 0, 0..2), [(32_768, 2)]);
    assert_eq!(write(&mut ext4, 2, 0..2), [(32_770, 2)]);
    // A large one begins at a multiple of 128 blocks.
    assert_eq!(write(&mut ext4, 3, 0..50), [(33_280, 50)]);
    assert_eq!(write(&mut ext4, 1, 0..2), [(32_772, 2)]);
    assert_eq!(write(&mut ext4, 3, 50..100), [(33_330, 50)]);
    assert_eq!(free - ext4.groups.free_blocks(), 106);
    // A second write goes to the same place.
    assert_eq!(write(&mut ext4, 3, 0..50), [(33_280, 50)]);
    assert_eq!(ext4.files[&FileId(3)].extents.count(), 1);
    let mut effects = Effects::new();
    for file in 0..4 {
        ext4.remove(FileId(file), &mut effects).unwrap();
    }
    assert_eq!(ext4.groups.free_blocks(), free);
}

/// A file that grows by one block a time lies in windows that double, each at a multiple of its
/// size.
#[test]
fn a_growing_file_has_windows_of_places() {
    let mut ext4 = ext4(1 << 30, &[]);
    make(&mut ext4, 0, 0);
    let mut effects = Effects::new();
    for block in 0..100 {
        ext4.grow(FILE, (block + 1) * 4096, &mut effects).unwrap();
        write(&mut ext4, 0, block..block + 1);
    }
    let place = |block| ext4.files[&FILE].extents.get(block).unwrap() - 32_768;
    assert_eq!(
        [15, 16, 31, 32, 63, 64, 99].map(place),
        [15, 512, 527, 576, 607, 640, 675]
    );
    assert_eq!(ext4.files[&FILE].extents.count(), 4);
}

/// What is removed before it is written takes no place.
#[test]
fn delayed_blocks_are_counted_but_have_no_place() {
    let mut ext4 = ext4(1 << 30, &[]);
    let free = ext4.groups.free_blocks();
    make(&mut ext4, 0, (free - 10) * 4096);
    let mut effects = Effects::new();
    ext4.create(FileId(1), "b", &mut effects).unwrap();
    let full = ext4.grow(FileId(1), 11 * 4096, &mut effects);
    assert_eq!(full, Err(HostError::Full));
    ext4.remove(FILE, &mut effects).unwrap();
    assert_eq!(ext4.grow(FileId(1), 11 * 4096, &mut effects), Ok(()));
    assert_eq!((ext4.groups.free_blocks(), ext4.delayed), (free, 11));
}

/// Blocks of extents follow four pieces.
#[test]
fn a_file_in_many_pieces_has_a_block_of_extents() {
    let mut ext4 = ext4(1 << 30, &[]);
    make(&mut ext4, 0, 4096 * 1000);
    for (pieces, nodes) in [(4, 0), (5, 1), (340, 1), (341, 2)] {
        while ext4.files[&FILE].extents.count() < pieces {
            let next = u64::try_from(ext4.files[&FILE].extents.count() * 2).unwrap();
            write(&mut ext4, 0, next..next + 1);
        }
        let mut effects = Effects::new();
        ext4.journal.drop_changes();
        ext4.find(FILE, 0, &mut effects);
        assert_eq!(effects.len(), nodes, "{pieces}");
    }
}

/// A commit writes what changed, one block that describes it, and one that makes it valid.
#[test]
fn a_commit_writes_each_changed_block_once() {
    let mut ext4 = ext4(1 << 30, &[]);
    let commit = |ext4: &mut Ext4| {
        let blocks = |pieces: Vec<Piece>| pieces.iter().map(|one| one.bytes / 4096).sum::<u64>();
        let groups = ext4.log(1).into_iter().map(blocks).collect::<Vec<_>>();
        (groups, ext4.committed().len())
    };
    // Bitmap of inodes, descriptor, inode, folder, and the folder's inode in the same block.
    make(&mut ext4, 0, 4096);
    assert_eq!(commit(&mut ext4), (vec![1 + 4, 0, 1, 0], 4));
    // Only a flush.
    assert_eq!(commit(&mut ext4), (vec![0], 0));
    assert!(ext4.log(0).is_empty());
    // Bitmap of blocks, descriptor and inode; the descriptor of another group is in the same block.
    write(&mut ext4, 0, 0..1);
    assert_eq!(commit(&mut ext4), (vec![1 + 3, 0, 1, 0], 3));
    let mut effects = Effects::new();
    ext4.set(FILE, true, &mut effects).unwrap();
    assert_eq!(commit(&mut ext4), (vec![1 + 1, 0, 1, 0], 1));
    // Superblock, both bitmaps, descriptor, inode and folder.
    ext4.remove(FILE, &mut effects).unwrap();
    assert_eq!(commit(&mut ext4), (vec![1 + 6, 0, 1, 0], 6));
}

/// A full journal asks for the oldest blocks that lie nowhere else: neither in their place nor in a
/// newer transaction.
#[test]
fn a_full_journal_asks_for_its_oldest_blocks() {
    let mut journal = Journal::new(1000, 101);
    let mut overdue = Vec::new();
    for round in 0..40 {
        // Four blocks of the journal: a new one, and one that always changes.
        for block in [round, 999] {
            journal.change(block);
        }
        let places = journal.commit().into_iter().flatten();
        let inside = |one: Piece| (1001 * 4096..=1100 * 4096).contains(&one.offset_bytes);
        assert!(places.filter(|one| one.bytes > 0).all(inside));
        journal.committed();
        for block in journal.overdue() {
            overdue.push((round, block));
            journal.is_home(block);
        }
    }
    assert_eq!(overdue[..2], [(18, 0), (18, 1)]);
    assert!(overdue.iter().all(|(_, block)| *block != 999));
    assert!(overdue.len() >= 20, "{overdue:?}");
}

/// A name is found in the same block until that is split, and creation costs the same in any size.
#[test]
fn folders_have_no_search() {
    let mut ext4 = ext4(1 << 30, &[]);
    let most = |effects: &Effects| {
        assert!(!effects.iter().any(|one| matches!(one, Effect::Search(_))));
        effects.len()
    };
    let all = (0..5000).map(|file| most(&make(&mut ext4, file, 1))).max();
    assert!(all.unwrap() <= 16, "{all:?}");
    // 16 or 20 bytes each, in leaves three quarters full.
    let folder = &ext4.folders[0];
    let leaves: BTreeSet<u32> = (ext4.files.values())
        .map(|one| folder.leaf(one.hash))
        .collect();
    assert!((27..=33).contains(&leaves.len()), "{}", leaves.len());
    assert_eq!(folder.way(7).count(), 2);
}

/// Folders of the root spread, those in them stay near, and files lie in their folder's group.
#[test]
fn folders_of_the_root_spread_over_flex_groups() {
    let mut ext4 = ext4(8 << 30, &[]);
    let mut effects = Effects::new();
    for folder in ["a", "a/b", "c"] {
        ext4.mkdir(folder, &mut effects).unwrap();
    }
    let mut flex = |file: u32, path: &str| {
        ext4.create(FileId(file), path, &mut effects).unwrap();
        ext4.grow(FileId(file), 4096 * 17, &mut effects).unwrap();
        let inode = ext4.files[&FileId(file)].inode;
        ext4.geometry.group_of(inode)
    };
    let found = [
        flex(0, "x"),
        flex(1, "a/x"),
        flex(2, "a/b/x"),
        flex(3, "c/x"),
    ];
    assert_eq!((found[0], found[1]), (0, found[2]));
    assert!(found[1] != 0 && found[3] != found[1], "{found:?}");
    let missing = ext4.create(FileId(9), "no/x", &mut effects);
    assert_eq!(missing, Err(HostError::Missing));
}

/// Lazy tables are not written by mkfs.
#[test]
fn mkfs_writes_tables_unless_they_are_lazy() {
    let made = |mkfs: &[&str]| ext4(1 << 30, mkfs).make().len();
    let tables = 8 * 8192 * 256 / 4096;
    assert_eq!(made(&["-E", "lazy_itable_init=0"]) - made(&[]), tables);
    // The journal, the folder, and superblock, descriptors and bitmaps.
    assert_eq!(made(&[]), 8192 + 1 + 2 + 16);
}

#[test]
fn options_are_those_of_mke2fs_and_mount() {
    let of = |mkfs: &[&str], mount| {
        let options = options(mkfs, mount)?;
        Ok((options.inode_bytes, options.is_lazy))
    };
    assert_eq!(of(&[], ""), Ok((0, true)));
    let mkfs = ["-b", "4096", "-i", "8K", "-E", "lazy_itable_init=0"];
    assert_eq!(of(&mkfs, "noinit_itable"), Ok((8192, false)));
    for (mkfs, mount) in [
        (&["-b"][..], ""),
        (&["-b", "1024"], ""),
        (&["-i", "512"], ""),
        (&["-E", "nodiscard"], ""),
        (&[], "sync"),
    ] {
        let refused: Result<_, &str> = of(mkfs, mount);
        assert!(refused.is_err(), "{mkfs:?} {mount}");
    }
    let check = |bytes| super::ROW.check(bytes, &options(&[], "").unwrap()).err();
    assert_eq!(check(4 << 20), Some(HostError::TooSmall));
    assert_eq!(check(1 << 45), Some(HostError::TooLarge));
    assert_eq!([64 << 20, 3 << 30, 1 << 43].map(check), [None; 3]);
}

/// A million files take less than 200 MB.
#[test]
fn files_take_little_memory() {
    let each = size_of::<File>() + size_of::<FileId>();
    // A node of the tree is filled by two thirds on average; an extent takes 12 bytes, or 48.
    assert!(each * 3 / 2 + 48 < 200, "{each}");
}
