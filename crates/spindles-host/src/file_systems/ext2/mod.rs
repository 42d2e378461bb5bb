//! The second extended file system of Linux: block groups with bitmaps, blocks of pointers, eight
//! blocks allocated at once, and metadata that is written later, unless it is mounted `sync`.

mod layout;
mod pointers;

use super::files::Blocks;
use super::grouped::{Folder, Geometry, Groups, Inode, POINTER_BYTES, folder_of, index, name_of};
use super::options::flags;
use super::{FileSystem, Options, Row};
use crate::block::Block;
use crate::effect::{Effect, Effects};
use crate::error::HostError;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;
use spindles_workload::file::FileId;

pub(super) static ROW: Row = Row {
    name: "ext2",
    year: Some(1993),
    about: "block groups, bitmaps and blocks of pointers; mount: sync or async; mkfs: -b, and -i \
            for the bytes for each inode",
    not_modelled: &[
        "age and fragmentation",
        "times of access",
        "the buffer cache next to the page cache",
        "writes of the superblock while mounted",
        "extended attributes",
        "reserved blocks",
        "folders removed",
    ],
    moves_blocks: false,
    options,
    make: |device_bytes, options, _| Ok(Box::new(Ext2::new(device_bytes, options)?)),
};

/// Blocks that are allocated together.
const TOGETHER: u32 = 8;
/// An entry's name needs no byte at its end.
const NAME_END_BYTES: u64 = 0;

fn options(mkfs: &[&str], mount: &str) -> Result<Options, &'static str> {
    const KNOWN: &str =
        "ext2 takes -b and -i with a size each, as in mkfs = [\"-b\", \"4096\", \"-i\", \"8192\"]";
    let mut options = Options {
        block_bytes: 4096,
        ..Options::default()
    };
    for flag in flags(mkfs) {
        match flag.ok_or(KNOWN)? {
            ("-b", bytes) => options.block_bytes = bytes,
            ("-i", bytes) => options.inode_bytes = bytes,
            _ => return Err(KNOWN),
        }
    }
    for word in mount.split(',').filter(|word| !word.is_empty()) {
        match word {
            "sync" => options.is_sync = true,
            "async" => options.is_sync = false,
            _ => return Err("ext2 is mounted with sync or async"),
        }
    }
    if !matches!(options.block_bytes, 1024 | 2048 | 4096) {
        return Err("-b: a block of ext2 has 1024, 2048 or 4096 bytes");
    }
    if options.inode_bytes == 0 {
        options.inode_bytes = 4096;
    }
    if options.inode_bytes < 1024 {
        return Err("-i: an inode is for 1024 bytes or more");
    }
    Ok(options)
}

/// A file.
#[derive(Debug)]
struct File {
    inode: Inode,
    /// The number of its folder, and the block of its entry there.
    folder: u32,
    chunk: u32,
    blocks: Blocks,
    /// Blocks after the last one that are allocated, but not in use.
    spare: Range<u32>,
}

#[derive(Debug)]
struct Ext2 {
    geometry: Geometry,
    groups: Groups,
    is_sync: bool,
    files: BTreeMap<FileId, File>,
    folders: Vec<Folder>,
    numbers: BTreeMap<String, u32>,
}

impl Ext2 {
    fn new(device_bytes: u64, options: &Options) -> Result<Self, HostError> {
        let geometry = layout::new(device_bytes, options)?;
        let mut ext2 = Self {
            geometry,
            groups: Groups::new(geometry),
            is_sync: options.is_sync,
            files: BTreeMap::new(),
            folders: Vec::new(),
            numbers: BTreeMap::new(),
        };
        let inode = ext2.groups.take_inode(0)?;
        let mut root = ext2.folder(inode);
        root.blocks.push(ext2.groups.take_block(0, None)?);
        root.blocks.bytes = root.bytes();
        ext2.folders.push(root);
        ext2.numbers.insert(String::new(), 0);
        Ok(ext2)
    }

    fn folder(&self, inode: Inode) -> Folder {
        Folder::new(inode, self.geometry.block_bytes, NAME_END_BYTES)
    }

    /// Writes a block of metadata as the mount options have it.
    fn write(&self, block: Block, effects: &mut Effects) {
        effects.push(if self.is_sync {
            Effect::WriteNow(block)
        } else {
            Effect::Change(block)
        });
    }

    fn number_of(&self, path: &str) -> Result<u32, HostError> {
        let number = self.numbers.get(folder_of(path));
        number.copied().ok_or(HostError::Missing)
    }

    /// Pointers in a block of them.
    fn each(&self) -> u64 {
        u64::from(self.geometry.block_bytes) / POINTER_BYTES
    }

    /// Returns the group of a block.
    fn group_of(&self, place: u32) -> u32 {
        place / self.geometry.group_blocks
    }

    /// Changes a bitmap, and the descriptor of its group, which counts what is free.
    fn count(&self, bitmap: Block, group: u32, effects: &mut Effects) {
        let descriptor = layout::descriptor(&self.geometry, group);
        effects.extend([
            Effect::Need(bitmap),
            Effect::Change(bitmap),
            Effect::Change(descriptor),
        ]);
    }

    fn count_blocks(&self, place: u32, effects: &mut Effects) {
        let group = self.group_of(place);
        self.count(layout::block_bitmap(&self.geometry, group), group, effects);
    }

    fn count_inodes(&self, inode: Inode, effects: &mut Effects) {
        let group = self.geometry.group_of(inode);
        self.count(layout::inode_bitmap(&self.geometry, group), group, effects);
    }

    fn take_inode(&mut self, group: u32, effects: &mut Effects) -> Result<Inode, HostError> {
        let inode = self.groups.take_inode(group)?;
        self.count_inodes(inode, effects);
        effects.push(Effect::Need(self.geometry.block_of(inode)));
        Ok(inode)
    }

    /// Enters a name in a folder: searches it twice, for the name and for room, and writes the
    /// block of the entry. Returns this block's number.
    fn enter(&mut self, number: u32, name: &str, effects: &mut Effects) -> Result<u32, HostError> {
        let folder = &mut self.folders[index(number)];
        effects.push(Effect::Search(folder.entries * 2));
        let slot = folder.enter(name.len());
        let (bytes, inode) = (folder.bytes(), folder.inode);
        if slot.grows {
            let mut blocks = core::mem::take(&mut folder.blocks);
            let grown = self.grow_blocks(&mut blocks, inode, bytes, None, effects);
            self.folders[index(number)].blocks = blocks;
            grown?;
        }
        let place = self.folder_block(number, slot.chunk);
        effects.push(Effect::Need(place));
        self.write(place, effects);
        self.write(self.geometry.block_of(inode), effects);
        Ok(slot.chunk)
    }

    fn folder_block(&self, number: u32, chunk: u32) -> Block {
        let place = self.folders[index(number)].blocks.get(chunk.into());
        self.geometry
            .block(place.expect("a folder has the block of its entry"))
    }

    /// Makes a file or folder at least this long.
    fn grow_blocks(
        &mut self,
        blocks: &mut Blocks,
        inode: Inode,
        bytes: u64,
        mut spare: Option<&mut Range<u32>>,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        let wanted = bytes.div_ceil(self.geometry.block_bytes.into());
        while blocks.count() < wanted {
            let number = blocks.count();
            let chain = pointers::chain(number, self.each()).ok_or(HostError::Full)?;
            let needed = chain.count();
            let is_new = blocks.pointers.len() < needed;
            let mut goal = blocks.last().map(|last| last + 1);
            while blocks.pointers.len() < needed {
                let place = self.take_block(inode, goal, spare.as_deref_mut(), effects)?;
                blocks.pointers.push(place);
                goal = Some(place + 1);
            }
            let place = self.take_block(inode, goal, spare.as_deref_mut(), effects)?;
            blocks.push(place);
            // The pointer to the block changes, and with new blocks of pointers all above it.
            let named_by = if is_new { chain.all() } else { chain.leaf() };
            for at in named_by {
                self.write(self.geometry.block(blocks.pointers[*at]), effects);
            }
        }
        blocks.bytes = bytes.max(blocks.bytes);
        Ok(())
    }

    /// Allocates a block: a spare one if it is the goal, else the first free one from the goal on,
    /// and spare ones behind it.
    fn take_block(
        &mut self,
        inode: Inode,
        goal: Option<u32>,
        spare: Option<&mut Range<u32>>,
        effects: &mut Effects,
    ) -> Result<u32, HostError> {
        let group = self.geometry.group_of(inode);
        // Without one: the begin of the group.
        let first = group * self.geometry.group_blocks + self.geometry.first_data_block;
        let wanted = Some(goal.unwrap_or(first));
        let Some(spare) = spare else {
            let place = self.groups.take_block(group, wanted)?;
            self.count_blocks(place, effects);
            return Ok(place);
        };
        if spare.start < spare.end && goal == Some(spare.start) {
            spare.start += 1;
            return Ok(spare.start - 1);
        }
        self.free_all(core::mem::take(spare), effects);
        let place = self.groups.take_block(group, wanted)?;
        self.count_blocks(place, effects);
        let behind = (place + 1..place + TOGETHER).take_while(|next| self.groups.take_at(*next));
        let end = behind.last().map_or(place + 1, |last| last + 1);
        *spare = place + 1..end;
        Ok(place)
    }

    /// Frees blocks.
    fn free_all(&mut self, places: impl IntoIterator<Item = u32>, effects: &mut Effects) {
        let mut group_before = None;
        for place in places {
            self.groups.free(place, 1);
            let group = self.group_of(place);
            if group_before.replace(group) != Some(group) {
                self.count_blocks(place, effects);
            }
        }
    }

    /// Frees all blocks of a file.
    fn free_blocks(&mut self, file: FileId, effects: &mut Effects) {
        let Some(one) = self.files.get_mut(&file) else {
            return;
        };
        let spare = core::mem::take(&mut one.spare);
        let mut places = core::mem::take(&mut one.blocks.pointers);
        places.extend(one.blocks.take());
        places.sort_unstable();
        let geometry = self.geometry;
        effects.extend(
            places
                .iter()
                .map(|place| Effect::Forget(geometry.block(*place))),
        );
        places.extend(spare);
        self.free_all(places, effects);
    }
}

impl FileSystem for Ext2 {
    fn block_bytes(&self) -> u32 {
        self.geometry.block_bytes
    }

    fn make(&self) -> Effects {
        let geometry = &self.geometry;
        let group = |group| {
            let bitmaps = [
                layout::block_bitmap(geometry, group),
                layout::inode_bitmap(geometry, group),
            ];
            let inodes = (0..geometry.inode_blocks).map(move |at| geometry.inode_block(group, at));
            let head = core::iter::once(layout::superblock(geometry, group));
            let head = head.chain(layout::descriptors(geometry, group));
            head.chain(bitmaps).chain(inodes)
        };
        let all = (0..geometry.groups).flat_map(group);
        let all = all.chain([self.folder_block(0, 0)]);
        all.map(Effect::WriteNow).collect()
    }

    fn mkdir(&mut self, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        let parent = self.number_of(path)?;
        let group = self.groups.emptiest();
        let inode = self.take_inode(group, effects)?;
        self.write(self.geometry.block_of(inode), effects);
        let mut folder = self.folder(inode);
        let bytes = folder.bytes();
        let mut blocks = core::mem::take(&mut folder.blocks);
        self.grow_blocks(&mut blocks, inode, bytes, None, effects)?;
        folder.blocks = blocks;
        let number = u32::try_from(self.folders.len()).expect("few folders");
        self.folders.push(folder);
        self.numbers.insert(path.to_owned(), number);
        self.write(self.folder_block(number, 0), effects);
        self.enter(parent, name_of(path), effects).map(drop)
    }

    fn create(&mut self, file: FileId, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        if let Some(one) = self.files.get(&file) {
            let inode = self.geometry.block_of(one.inode);
            if one.blocks.bytes > 0 {
                self.write(inode, effects);
            }
            self.free_blocks(file, effects);
            return Ok(());
        }
        let number = self.number_of(path)?;
        let group = self.geometry.group_of(self.folders[index(number)].inode);
        let inode = self.take_inode(group, effects)?;
        self.write(self.geometry.block_of(inode), effects);
        let chunk = self.enter(number, name_of(path), effects)?;
        let one = File {
            inode,
            folder: number,
            chunk,
            blocks: Blocks::default(),
            spare: 0..0,
        };
        self.files.insert(file, one);
        Ok(())
    }

    fn look_up(&self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        let one = self.files.get(&file).ok_or(HostError::Missing)?;
        effects.push(Effect::Need(self.geometry.block_of(one.inode)));
        Ok(())
    }

    fn set(
        &mut self,
        file: FileId,
        _is_mode: bool,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        self.look_up(file, effects)?;
        effects.push(Effect::Change(
            self.geometry.block_of(self.files[&file].inode),
        ));
        Ok(())
    }

    fn remove(&mut self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        self.look_up(file, effects)?;
        let (inode, number, chunk) = {
            let one = &self.files[&file];
            (one.inode, one.folder, one.chunk)
        };
        let folder = &mut self.folders[index(number)];
        effects.push(Effect::Search(folder.entries_to(chunk)));
        folder.remove(chunk);
        let inode_of_folder = folder.inode;
        let entry = self.folder_block(number, chunk);
        effects.push(Effect::Need(entry));
        self.write(entry, effects);
        effects.push(Effect::Change(self.geometry.block_of(inode_of_folder)));
        self.free_blocks(file, effects);
        self.files.remove(&file);
        self.groups.free_inode(inode);
        self.write(self.geometry.block_of(inode), effects);
        self.count_inodes(inode, effects);
        Ok(())
    }

    fn bytes(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |one| one.blocks.bytes)
    }

    fn grow(&mut self, file: FileId, bytes: u64, effects: &mut Effects) -> Result<(), HostError> {
        let one = self.files.get_mut(&file).ok_or(HostError::Missing)?;
        let inode = one.inode;
        let mut blocks = core::mem::take(&mut one.blocks);
        let mut spare = core::mem::take(&mut one.spare);
        let grown = self.grow_blocks(&mut blocks, inode, bytes, Some(&mut spare), effects);
        let one = self.files.get_mut(&file).ok_or(HostError::Missing)?;
        (one.blocks, one.spare) = (blocks, spare);
        effects.push(Effect::Change(self.geometry.block_of(inode)));
        grown
    }

    fn place(&self, file: FileId, block: u64) -> Option<Block> {
        let place = self.files.get(&file)?.blocks.get(block)?;
        Some(self.geometry.block(place))
    }

    fn find(&self, file: FileId, block: u64, effects: &mut Effects) {
        let Some(one) = self.files.get(&file) else {
            return;
        };
        let chain = pointers::chain(block, self.each()).unwrap_or_default();
        let places = (chain.all().iter()).filter_map(|at| one.blocks.pointers.get(*at));
        effects.extend(places.map(|place| Effect::Need(self.geometry.block(*place))));
    }

    fn closed(&mut self, file: FileId, effects: &mut Effects) {
        let one = self.files.get_mut(&file);
        let spare = one.map(|one| core::mem::take(&mut one.spare));
        self.free_all(spare.unwrap_or_default(), effects);
    }

    fn pointers(&self, file: FileId) -> Vec<Block> {
        let one = self.files.get(&file);
        let places = one.map_or(&[][..], |one| &one.blocks.pointers);
        places
            .iter()
            .map(|place| self.geometry.block(*place))
            .collect()
    }

    fn sync(&mut self, file: FileId, effects: &mut Effects) {
        let one = self.files.get(&file);
        effects.extend(one.map(|one| Effect::WriteNow(self.geometry.block_of(one.inode))));
    }

    fn is_sync(&self) -> bool {
        self.is_sync
    }

    fn writes_clusters(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
