//! The fourth extended file system of Linux: flex groups, extents, blocks that are chosen when they
//! are written, folders with a hashed index, and an ordered journal. Sources: the pages of
//! Documentation/filesystems/ext4 of Linux, and the manual pages of mke2fs, mke2fs.conf and ext4.
//!
//! The blocks of a file have places of their own in memory, behind those of the device.

mod extents;
mod folder;
mod journal;
mod layout;

use super::grouped::{Geometry, Groups, Inode, folder_of, index, name_of};
use super::{FileSystem, Options, Piece, Row};
use crate::block::{Block, RequestKind};
use crate::effect::{Effect, Effects};
use crate::error::HostError;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use extents::Extents;
use folder::{Folder, Growth};
use journal::Journal;
use layout::BLOCK_BYTES;
use spindles_workload::file::FileId;

pub(super) static ROW: Row = Row {
    name: "ext4",
    year: Some(2008),
    about: "flex groups, extents, delayed allocation and an ordered journal; mount: noinit_itable; \
            mkfs: -i for the bytes for each inode, -E lazy_itable_init=0",
    not_modelled: &[
        "age and fragmentation",
        "times of access",
        "extended attributes",
        "reserved blocks",
        "folders removed",
        "inode tables written after the mount",
        "places kept ahead of the end of an open file",
        "superblocks of the journal",
        "fast commits, and journals with data",
    ],
    moves_blocks: false,
    options,
    make: |device_bytes, options, _| Ok(Box::new(Ext4::new(device_bytes, options)?)),
};

/// Nanoseconds between commits: the default of the mount option `commit`.
const COMMIT_NS: u64 = 5_000_000_000;
/// Files of at most this many blocks lie with other small ones (`mb_stream_req`).
const SMALL_BLOCKS: u64 = 16;
/// Large files begin at multiples of this many blocks at most: 8 MiB.
const ALIGN_BLOCKS_MAX: u64 = 2048;
/// The first large file lies so far behind the first small one: a piece for small ones.
const LARGE_AFTER: u32 = 512;
/// Places in memory of a file: a number above those of devices, and bytes.
const WINDOW_BITS: u32 = 40;
const FILE_WINDOW: u64 = 32;
const FILES_MAX: u32 = 1 << 23;
/// Extents that an inode names, and that a block of them does.
const INODE_EXTENTS: usize = 4;
const BLOCK_EXTENTS: usize = 340;

fn options(mkfs: &[&str], mount: &str) -> Result<Options, &'static str> {
    const KNOWN: &str = "ext4 takes -b 4096, -i with a size, and -E lazy_itable_init=0 or 1, as in \
                         mkfs = [\"-i\", \"16K\", \"-E\", \"lazy_itable_init=0\"]";
    let mut options = Options {
        is_lazy: true,
        ..Options::default()
    };
    for words in mkfs.chunks(2) {
        match *words {
            ["-b", "4096" | "4K" | "4k"] => {}
            ["-i", bytes] => {
                let bytes = super::options::size(bytes).and_then(|bytes| u32::try_from(bytes).ok());
                let bytes = bytes.filter(|bytes| (1024..=64 << 20).contains(bytes));
                options.inode_bytes = bytes.ok_or(KNOWN)?;
            }
            ["-E", "lazy_itable_init=0"] => options.is_lazy = false,
            ["-E", "lazy_itable_init=1"] => options.is_lazy = true,
            _ => return Err(KNOWN),
        }
    }
    match mount {
        "" | "noinit_itable" => Ok(options),
        _ => Err("ext4 is mounted with noinit_itable, or without options"),
    }
}

/// A file.
#[derive(Debug)]
struct File {
    inode: Inode,
    /// The number of its folder, and the hash and length of its name.
    folder: u32,
    hash: u32,
    name_bytes: usize,
    bytes: u64,
    extents: Extents,
    /// Blocks of extents.
    nodes: Vec<u32>,
}

#[derive(Debug)]
struct Ext4 {
    geometry: Geometry,
    groups: Groups,
    is_lazy: bool,
    journal: Journal,
    journal_places: Vec<u32>,
    /// Blocks of metadata that were written or committed once.
    known: BTreeSet<u32>,
    files: BTreeMap<FileId, File>,
    folders: Vec<Folder>,
    numbers: BTreeMap<String, u32>,
    /// Blocks of files that have no place yet.
    delayed: u64,
    /// Where the next block of a small file goes, and that of a large one.
    small_goal: Option<u32>,
    large_goal: Option<u32>,
    /// The block that got its place last, of the same requests.
    last_placed: Option<(FileId, u32)>,
}

impl Ext4 {
    fn new(device_bytes: u64, options: &Options) -> Result<Self, HostError> {
        let mut options = *options;
        if options.inode_bytes == 0 {
            // "small" of mke2fs.conf, and the default.
            options.inode_bytes = if device_bytes < 512 << 20 {
                4096
            } else {
                16_384
            };
        }
        let geometry = layout::new(device_bytes, &options)?;
        let mut groups = Groups::new(geometry);
        let root = groups.take_inode(0)?;
        let leaf = groups.take_block(0, Some(layout::folder_goal(&geometry, 0)))?;
        // In the middle of the device.
        let all = geometry.groups * geometry.group_blocks;
        let count = layout::journal_blocks(all);
        let mut places: Vec<u32> = Vec::new();
        for _ in 0..count {
            let goal = places.last().map_or(all / 2, |last| last + 1);
            places.push(groups.take_block(0, Some(goal))?);
        }
        let mut ext4 = Self {
            geometry,
            groups,
            is_lazy: options.is_lazy,
            journal: Journal::new(places[0], count),
            journal_places: places,
            known: BTreeSet::new(),
            files: BTreeMap::new(),
            folders: Vec::new(),
            numbers: BTreeMap::new(),
            delayed: 0,
            small_goal: None,
            large_goal: None,
            last_placed: None,
        };
        ext4.folders.push(Folder::new(root, leaf));
        ext4.numbers.insert(String::new(), 0);
        Ok(ext4)
    }

    /// Changes a block of metadata: it becomes part of the running transaction.
    fn change(&mut self, block: u32, effects: &mut Effects) {
        let is_held = self.journal.change(block);
        let is_new = self.known.insert(block);
        if !is_held && !is_new {
            effects.push(Effect::Need(self.geometry.block(block)));
        }
    }

    /// Changes a bitmap, and the descriptor of its group, which counts what is free.
    fn count(&mut self, bitmap: u32, effects: &mut Effects) {
        self.change(bitmap, effects);
        self.change(layout::descriptor(&self.geometry, bitmap), effects);
    }

    fn change_inode(&mut self, inode: Inode, effects: &mut Effects) {
        self.change(layout::inode(&self.geometry, inode), effects);
    }

    fn take_inode(&mut self, flex: u32, effects: &mut Effects) -> Result<Inode, HostError> {
        let inode = self.groups.take_inode(flex)?;
        self.count(layout::inode_bitmap(&self.geometry, inode), effects);
        self.change_inode(inode, effects);
        Ok(inode)
    }

    /// Allocates a block from a goal on.
    fn take_block(&mut self, goal: u32, effects: &mut Effects) -> Result<u32, HostError> {
        let flex = goal / self.geometry.group_blocks;
        let place = self.groups.take_block(flex, Some(goal))?;
        self.count(layout::block_bitmap(&self.geometry, place), effects);
        Ok(place)
    }

    fn folder_block(&mut self, inode: Inode, effects: &mut Effects) -> Result<u32, HostError> {
        let flex = self.geometry.group_of(inode);
        let place = self.take_block(layout::folder_goal(&self.geometry, flex), effects)?;
        self.change(place, effects);
        Ok(place)
    }

    fn number_of(&self, path: &str) -> Result<u32, HostError> {
        let number = self.numbers.get(folder_of(path));
        number.copied().ok_or(HostError::Missing)
    }

    /// Enters a name in a folder. Returns its hash.
    fn enter(&mut self, number: u32, name: &str, effects: &mut Effects) -> Result<u32, HostError> {
        let hash = folder::hash(name);
        let (inode, growth) = {
            let folder = &mut self.folders[index(number)];
            (folder.inode, folder.enter(name.len()))
        };
        if !matches!(growth, Growth::None) {
            let leaf = self.folder_block(inode, effects)?;
            let root = match growth {
                Growth::LeafAndRoot => Some(self.folder_block(inode, effects)?),
                _ => None,
            };
            let changed = self.folders[index(number)].split(leaf, root);
            for block in changed {
                self.change(block, effects);
            }
        }
        self.change_entry(number, hash, effects);
        Ok(hash)
    }

    /// Changes the block of an entry, which the index leads to, and the folder's inode.
    fn change_entry(&mut self, number: u32, hash: u32, effects: &mut Effects) {
        let folder = &self.folders[index(number)];
        let (leaf, inode) = (folder.leaf(hash), folder.inode);
        let is_read = |block: &u32| self.known.contains(block) && !self.journal.holds(*block);
        let needs = folder.way(hash).filter(is_read);
        effects.extend(needs.map(|block| Effect::Need(self.geometry.block(block))));
        self.change(leaf, effects);
        self.change_inode(inode, effects);
    }

    /// Frees all blocks of a file.
    fn free_blocks(&mut self, file: FileId, effects: &mut Effects) {
        let Some(one) = self.files.get_mut(&file) else {
            return;
        };
        let blocks = one.bytes.div_ceil(BLOCK_BYTES.into());
        let extents = core::mem::take(&mut one.extents);
        let nodes = core::mem::take(&mut one.nodes);
        one.bytes = 0;
        let placed = u64::try_from(extents.places().count()).expect("64 bits");
        self.delayed -= blocks - placed;
        effects.extend((0..blocks).map(|block| Effect::Forget(window(file, block))));
        for node in &nodes {
            self.journal.forget(*node);
            self.known.remove(node);
            effects.push(Effect::Forget(self.geometry.block(*node)));
        }
        let mut bitmap_before = None;
        for place in extents.places().chain(nodes) {
            self.groups.free(place, 1);
            let bitmap = layout::block_bitmap(&self.geometry, place);
            if bitmap_before.replace(bitmap) != Some(bitmap) {
                self.count(bitmap, effects);
            }
        }
    }

    /// Returns the place of a block, which the first write chooses. Bitmaps are in memory.
    fn place_of(&mut self, file: FileId, block: u32) -> u32 {
        let one = self.files.get(&file).expect("changed blocks have a file");
        if let Some(place) = one.extents.get(block) {
            return place;
        }
        let before = block
            .checked_sub(1)
            .and_then(|block| one.extents.get(block));
        // A file that grows gets a new window of places each time that its size doubles.
        let grows = self
            .last_placed
            .is_none_or(|last| last != (file, block.wrapping_sub(1)));
        let before = before.filter(|_| !(grows && begins_window(block)));
        let is_small = one.bytes.div_ceil(BLOCK_BYTES.into()) <= SMALL_BLOCKS;
        let inode = one.inode;
        let goal = if is_small {
            self.small_goal
        } else {
            before.map(|before| before + 1).or(self.large_goal)
        };
        let flex = self.geometry.group_of(inode);
        let goal = goal.unwrap_or_else(|| layout::file_goal(&self.geometry, flex));
        let goal = match before {
            None if !is_small => aligned(self.large_goal.unwrap_or(goal + LARGE_AFTER), one.bytes),
            _ => goal,
        };
        let mut unneeded = Effects::new();
        let place = self.take_block(goal, &mut unneeded);
        let place = place.expect("growth left room for it");
        *(if is_small {
            &mut self.small_goal
        } else {
            &mut self.large_goal
        }) = Some(place + 1);
        self.change_inode(inode, &mut unneeded);
        let one = self.files.get_mut(&file).expect("just found");
        one.extents.insert(block, place);
        self.delayed -= 1;
        self.last_placed = Some((file, block));
        let nodes = match one.extents.count() {
            0..=INODE_EXTENTS => 0,
            count => count.div_ceil(BLOCK_EXTENTS),
        };
        if one.nodes.len() < nodes
            && let Ok(node) = self.take_block(place + 1, &mut unneeded)
        {
            self.files
                .get_mut(&file)
                .expect("just found")
                .nodes
                .push(node);
        }
        let node = self.files[&file].nodes.last().copied();
        if let Some(node) = node {
            self.change(node, &mut unneeded);
        }
        place
    }

    /// Returns where a block of memory lies on the device.
    fn home(&mut self, block: Block) -> u64 {
        match (block.place_bytes >> WINDOW_BITS).checked_sub(FILE_WINDOW) {
            None => block.place_bytes,
            Some(file) => {
                let file = FileId(u32::try_from(file).expect("32 bits"));
                let at = block.place_bytes % (1 << WINDOW_BITS) / u64::from(BLOCK_BYTES);
                let place = self.place_of(file, u32::try_from(at).expect("32 bits"));
                u64::from(place) * u64::from(BLOCK_BYTES)
            }
        }
    }
}

/// Returns true if a window of places begins with a block.
fn begins_window(block: u32) -> bool {
    let block = u64::from(block);
    block >= SMALL_BLOCKS && (block.is_power_of_two() || block.is_multiple_of(ALIGN_BLOCKS_MAX))
}

/// Returns where a large file begins: a multiple of its size, rounded to a power of two
/// (`ext4_mb_normalize_request`).
fn aligned(goal: u32, bytes: u64) -> u32 {
    let blocks = bytes.div_ceil(BLOCK_BYTES.into()).next_power_of_two();
    let blocks = u32::try_from(blocks.min(ALIGN_BLOCKS_MAX)).expect("bounded");
    goal.next_multiple_of(blocks)
}

/// Returns the place in memory of a file's block.
fn window(file: FileId, block: u64) -> Block {
    Block {
        place_bytes: ((FILE_WINDOW + u64::from(file.0)) << WINDOW_BITS)
            + block * u64::from(BLOCK_BYTES),
        bytes: BLOCK_BYTES,
    }
}

impl FileSystem for Ext4 {
    fn block_bytes(&self) -> u32 {
        BLOCK_BYTES
    }

    fn make(&self) -> Effects {
        let geometry = &self.geometry;
        let tables = |flex| {
            let count = if self.is_lazy {
                0
            } else {
                geometry.inode_blocks
            };
            (0..count).map(move |at| geometry.inode_block(flex, at))
        };
        let flex = |flex| {
            let head = layout::head(geometry, flex).map(|block| geometry.block(block));
            head.chain(tables(flex))
        };
        let all = (0..geometry.groups).flat_map(flex);
        let others = self.journal_places.iter().copied();
        let others = others.chain([self.folders[0].leaf(0)]);
        let all = all.chain(others.map(|place| geometry.block(place)));
        all.map(Effect::WriteNow).collect()
    }

    fn mkdir(&mut self, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        let parent = self.number_of(path)?;
        let near = self.geometry.group_of(self.folders[index(parent)].inode);
        // Folders of the root spread; others stay with their parent.
        let flex = match parent {
            0 => self.groups.emptiest(),
            _ => near,
        };
        let inode = self.take_inode(flex, effects)?;
        let leaf = self.folder_block(inode, effects)?;
        let number = u32::try_from(self.folders.len()).expect("few folders");
        self.folders.push(Folder::new(inode, leaf));
        self.numbers.insert(path.to_owned(), number);
        self.enter(parent, name_of(path), effects).map(drop)
    }

    fn create(&mut self, file: FileId, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        if let Some(inode) = self.files.get(&file).map(|one| one.inode) {
            self.change_inode(inode, effects);
            self.free_blocks(file, effects);
            return Ok(());
        }
        if file.0 >= FILES_MAX {
            return Err(HostError::NoInodes);
        }
        let folder = self.number_of(path)?;
        let flex = self.geometry.group_of(self.folders[index(folder)].inode);
        let inode = self.take_inode(flex, effects)?;
        let name = name_of(path);
        let hash = self.enter(folder, name, effects)?;
        let one = File {
            inode,
            folder,
            hash,
            name_bytes: name.len(),
            bytes: 0,
            extents: Extents::default(),
            nodes: Vec::new(),
        };
        self.files.insert(file, one);
        Ok(())
    }

    fn look_up(&self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        let one = self.files.get(&file).ok_or(HostError::Missing)?;
        let inode = layout::inode(&self.geometry, one.inode);
        if !self.journal.holds(inode) {
            effects.push(Effect::Need(self.geometry.block(inode)));
        }
        Ok(())
    }

    fn set(
        &mut self,
        file: FileId,
        _is_mode: bool,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        let inode = self.files.get(&file).ok_or(HostError::Missing)?.inode;
        self.change_inode(inode, effects);
        Ok(())
    }

    fn remove(&mut self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        self.free_blocks(file, effects);
        let one = self.files.remove(&file).ok_or(HostError::Missing)?;
        self.folders[index(one.folder)].remove(one.name_bytes);
        self.change_entry(one.folder, one.hash, effects);
        self.groups.free_inode(one.inode);
        self.count(layout::inode_bitmap(&self.geometry, one.inode), effects);
        self.change_inode(one.inode, effects);
        // The list of files without a name begins in the superblock.
        self.change(0, effects);
        Ok(())
    }

    fn bytes(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |one| one.bytes)
    }

    fn grow(&mut self, file: FileId, bytes: u64, effects: &mut Effects) -> Result<(), HostError> {
        let one = self.files.get_mut(&file).ok_or(HostError::Missing)?;
        let blocks = |bytes: u64| bytes.div_ceil(BLOCK_BYTES.into());
        let bytes = bytes.max(one.bytes);
        let more = blocks(bytes) - blocks(one.bytes);
        if bytes > 1 << WINDOW_BITS || self.delayed + more > self.groups.free_blocks() {
            return Err(HostError::Full);
        }
        one.bytes = bytes;
        self.delayed += more;
        let inode = one.inode;
        self.change_inode(inode, effects);
        Ok(())
    }

    fn place(&self, file: FileId, block: u64) -> Option<Block> {
        let is_in = block * u64::from(BLOCK_BYTES) < self.bytes(file);
        is_in.then(|| window(file, block))
    }

    fn find(&self, file: FileId, block: u64, effects: &mut Effects) {
        let _ = block;
        let nodes = self.files.get(&file).map_or(&[][..], |one| &one.nodes);
        let needs = nodes.iter().filter(|node| !self.journal.holds(**node));
        effects.extend(needs.map(|node| Effect::Need(self.geometry.block(*node))));
    }

    fn writes_clusters(&self) -> bool {
        false
    }

    fn sync(&mut self, _file: FileId, _effects: &mut Effects) {}

    fn is_sync(&self) -> bool {
        false
    }

    fn journal(&self) -> Option<u64> {
        Some(COMMIT_NS)
    }

    fn lay_out(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.home(*block);
        }
        self.journal.drop_changes();
    }

    fn log(&mut self, bytes: u64) -> Vec<Vec<Piece>> {
        if bytes == 0 && !self.journal.has_changes() {
            return Vec::new();
        }
        self.journal.commit()
    }

    fn committed(&mut self) -> Vec<Block> {
        let blocks = self.journal.committed().into_iter();
        blocks.map(|block| self.geometry.block(block)).collect()
    }

    fn overdue(&mut self) -> Vec<Block> {
        let blocks = self.journal.overdue().into_iter();
        blocks.map(|block| self.geometry.block(block)).collect()
    }

    fn requests(&mut self, kind: RequestKind, blocks: &[Block]) -> Vec<Piece> {
        self.last_placed = None;
        let mut pieces: Vec<Piece> = Vec::new();
        for block in blocks {
            let offset_bytes = self.home(*block);
            if kind == RequestKind::Write && offset_bytes == block.place_bytes {
                let place = offset_bytes / u64::from(BLOCK_BYTES);
                self.journal.is_home(u32::try_from(place).expect("32 bits"));
            }
            let bytes = u64::from(block.bytes);
            match pieces.last_mut() {
                Some(last) if last.offset_bytes + last.bytes == offset_bytes => last.bytes += bytes,
                _ => pieces.push(Piece {
                    kind,
                    offset_bytes,
                    bytes,
                }),
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests;
