//! The fast file system of 4.2BSD and its successors: cylinder groups, blocks and fragments, and
//! metadata written before a call returns, unless it is mounted otherwise.

mod layout;

use super::files::Blocks;
use super::grouped::{
    DIRECT_BLOCKS, Folder, Geometry, Groups, Inode, POINTER_BYTES, folder_of, index, name_of,
};
use super::options::{Metadata, flags};
use super::{FileSystem, Options, Row};
use crate::block::Block;
use crate::effect::{Effect, Effects};
use crate::error::HostError;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use spindles_workload::file::FileId;

pub(super) static ROW: Row = Row {
    name: "ffs",
    year: Some(1983),
    about: "cylinder groups, blocks and fragments; mount: sync, async or softdep; mkfs: -b, -f, \
            -i, and -g for the bytes of a group",
    not_modelled: &[
        "age and fragmentation",
        "extended attributes",
        "rotational layout",
        "names that the name cache forgot",
        "folders removed",
        "rollbacks of soft updates",
        "writes of the superblock while mounted",
    ],
    moves_blocks: false,
    options,
    make: |device_bytes, options, spreads| Ok(Box::new(Ffs::new(device_bytes, options, spreads)?)),
};

/// A chunk of a directory, in which entries never cross its end.
const CHUNK_BYTES: u32 = 512;
/// Bytes that end a name in an entry.
const NAME_END_BYTES: u64 = 1;

fn options(mkfs: &[&str], mount: &str) -> Result<Options, &'static str> {
    const KNOWN: &str = "ffs takes -b, -f, -i and -g with a size each, as in mkfs = [\"-b\", \
        \"8192\", \"-f\", \"1024\"]";
    let mut options = Options::default();
    for flag in flags(mkfs) {
        match flag.ok_or(KNOWN)? {
            ("-b", bytes) => options.block_bytes = bytes,
            ("-f", bytes) => options.fragment_bytes = bytes,
            ("-i", bytes) => options.inode_bytes = bytes,
            ("-g", bytes) => options.group_bytes = bytes.into(),
            _ => return Err(KNOWN),
        }
    }
    for word in mount.split(',').filter(|word| !word.is_empty()) {
        match word {
            "sync" => options.is_sync = true,
            "async" => options.metadata = Metadata::Asynchronous,
            "softdep" => options.metadata = Metadata::SoftUpdates,
            _ => return Err("ffs is mounted with sync, async or softdep"),
        }
    }
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    options.block_bytes = or(options.block_bytes, or(options.fragment_bytes, 1024) * 8);
    options.fragment_bytes = or(options.fragment_bytes, options.block_bytes / 8);
    options.inode_bytes = or(options.inode_bytes, options.fragment_bytes * 4);
    let (block, fragment) = (options.block_bytes, options.fragment_bytes);
    if !(4096..=65_536).contains(&block) || !block.is_power_of_two() {
        return Err("-b: a block of ffs has 4096 to 65536 bytes, a power of two");
    }
    if fragment < 512 || !fragment.is_power_of_two() || !(1..=8).contains(&(block / fragment)) {
        return Err("-f: a fragment is a half, a quarter or an eighth of a block, or all of it");
    }
    if options.inode_bytes < fragment {
        return Err("-i: an inode is for a fragment or more");
    }
    if options.group_bytes != 0 && options.group_bytes < 1 << 20 {
        return Err("-g: a group has 1M or more");
    }
    Ok(options)
}

/// A file.
#[derive(Debug)]
struct File {
    inode: Inode,
    /// The number of its folder, and the chunk of its entry there.
    folder: u32,
    chunk: u32,
    blocks: Blocks,
}

#[derive(Debug)]
struct Ffs {
    geometry: Geometry,
    groups: Groups,
    metadata: Metadata,
    is_sync: bool,
    spreads: bool,
    files: BTreeMap<FileId, File>,
    folders: alloc::vec::Vec<Folder>,
    numbers: BTreeMap<String, u32>,
}

impl Ffs {
    fn new(device_bytes: u64, options: &Options, spreads: bool) -> Result<Self, HostError> {
        let geometry = layout::new(device_bytes, options)?;
        let mut ffs = Self {
            geometry,
            groups: Groups::new(geometry),
            metadata: options.metadata,
            is_sync: options.is_sync,
            spreads,
            files: BTreeMap::new(),
            folders: alloc::vec::Vec::new(),
            numbers: BTreeMap::new(),
        };
        let root = ffs.groups.take_inode(0)?;
        let mut root = folder(root);
        root.blocks.push(ffs.groups.take_fragments(0, 1)?);
        root.blocks.tail_fragments = 1;
        ffs.folders.push(root);
        ffs.numbers.insert(String::new(), 0);
        Ok(ffs)
    }

    /// Writes a block of metadata as the mount options have it.
    fn write(&self, block: Block, effects: &mut Effects) {
        effects.push(match self.metadata {
            Metadata::Synchronous => Effect::WriteNow(block),
            Metadata::SoftUpdates | Metadata::Asynchronous => Effect::Change(block),
        });
    }

    /// Returns the number of the folder that holds a path.
    fn folder_of(&self, path: &str) -> Result<u32, HostError> {
        self.numbers
            .get(folder_of(path))
            .copied()
            .ok_or(HostError::Missing)
    }

    /// Enters a name in a folder: searches it, and writes the block of the entry. Returns the
    /// chunk.
    fn enter(&mut self, number: u32, name: &str, effects: &mut Effects) -> Result<u32, HostError> {
        let geometry = self.geometry;
        let folder = &mut self.folders[index(number)];
        let slot = folder.enter(name.len());
        let block = folder.block_of(slot.chunk, geometry.block_bytes);
        let (bytes, inode) = (folder.bytes(), folder.inode);
        if slot.grows {
            let mut blocks = core::mem::take(&mut folder.blocks);
            let grown = self.grow_blocks(&mut blocks, inode, bytes, effects);
            self.folders[index(number)].blocks = blocks;
            grown?;
        }
        let place = self.folder_block(number, block);
        effects.push(Effect::Need(place));
        self.write(place, effects);
        let inode = geometry.block_of(inode);
        if slot.grows {
            self.write(inode, effects);
        } else {
            effects.push(Effect::Change(inode));
        }
        Ok(slot.chunk)
    }

    fn folder_block(&self, number: u32, block: u64) -> Block {
        let blocks = &self.folders[index(number)].blocks;
        self.place_of(blocks, block)
            .expect("a folder has the block of its entry")
    }

    fn place_of(&self, blocks: &Blocks, block: u64) -> Option<Block> {
        let place = blocks.get(block)?;
        let is_tail = blocks.tail_fragments > 0 && block + 1 == blocks.count();
        let count = if is_tail {
            blocks.tail_fragments.into()
        } else {
            self.geometry.block_fragments
        };
        Some(self.geometry.fragments(place, count))
    }

    /// Allocates an inode in a group. The maps change later; the inode's block is needed.
    fn take_inode(&mut self, group: u32, effects: &mut Effects) -> Result<Inode, HostError> {
        let inode = self.groups.take_inode(group)?;
        let map = layout::map(&self.geometry, self.geometry.group_of(inode));
        let block = self.geometry.block_of(inode);
        effects.extend([Effect::Need(map), Effect::Change(map), Effect::Need(block)]);
        Ok(inode)
    }

    /// Makes a file or folder at least this long.
    fn grow_blocks(
        &mut self,
        blocks: &mut Blocks,
        inode: Inode,
        bytes: u64,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        if bytes <= blocks.bytes && blocks.count() > 0 {
            return Ok(());
        }
        let block_bytes = u64::from(self.geometry.block_bytes);
        let wanted = bytes.div_ceil(block_bytes);
        let tail = self.tail_of(bytes, wanted);
        let is_same = blocks.count() == wanted && blocks.tail_fragments == tail;
        if !is_same && blocks.tail_fragments > 0 {
            // The fragments at the end become a block, or more of them.
            let count = blocks.tail_fragments.into();
            let place = blocks.pop().expect("it has fragments");
            effects.push(Effect::Forget(self.geometry.fragments(place, count)));
            self.groups.free(place, count);
            blocks.tail_fragments = 0;
        }
        while blocks.count() < wanted {
            let is_last = blocks.count() + 1 == wanted;
            let fragments = if is_last { tail } else { 0 };
            self.add_block(blocks, inode, fragments, effects)?;
        }
        blocks.bytes = bytes.max(blocks.bytes);
        Ok(())
    }

    /// Returns the fragments of the last block; 0 if it is whole.
    fn tail_of(&self, bytes: u64, blocks: u64) -> u8 {
        let rest = bytes % u64::from(self.geometry.block_bytes);
        let fragments = rest.div_ceil(self.geometry.fragment_bytes.into());
        let is_whole = rest == 0 || blocks > DIRECT_BLOCKS;
        let is_whole = is_whole || fragments == u64::from(self.geometry.block_fragments);
        if is_whole {
            0
        } else {
            u8::try_from(fragments).expect("fewer than a block has")
        }
    }

    /// Adds a block to a file, or some fragments.
    fn add_block(
        &mut self,
        blocks: &mut Blocks,
        inode: Inode,
        fragments: u8,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        let number = blocks.count();
        let own = self.geometry.group_of(inode);
        let pointers = u64::from(self.geometry.block_bytes) / POINTER_BYTES;
        let begins_run =
            number >= DIRECT_BLOCKS && (number - DIRECT_BLOCKS).is_multiple_of(pointers);
        let group_of = |place: u32| place / self.geometry.group_fragments;
        let last = blocks.last();
        let (group, wanted) = match last {
            Some(_) if number == DIRECT_BLOCKS => (self.groups.roomy(own), None),
            Some(last) if begins_run => (self.groups.roomy(group_of(last) + 1), None),
            Some(last) => (group_of(last), Some(last + self.geometry.block_fragments)),
            None => (own, None),
        };
        let wanted = if begins_run {
            // A new block of pointers is written before anything points to it.
            let pointers = self.groups.take_block(group, wanted)?;
            self.write(self.geometry.block(pointers), effects);
            blocks.pointers.push(pointers);
            Some(pointers + self.geometry.block_fragments)
        } else {
            wanted
        };
        let place = if fragments > 0 {
            self.groups.take_fragments(group, fragments.into())?
        } else {
            self.groups.take_block(group, wanted)?
        };
        let group = group_of(place);
        let is_other = last.is_none_or(|last| group_of(last) != group);
        let map = layout::map(&self.geometry, group);
        if is_other {
            effects.push(Effect::Need(map));
        }
        effects.push(Effect::Change(map));
        blocks.push(place);
        blocks.tail_fragments = fragments;
        Ok(())
    }

    /// Frees all blocks of a file.
    fn free_blocks(&mut self, file: FileId, effects: &mut Effects) {
        let Some(one) = self.files.get_mut(&file) else {
            return;
        };
        let tail = one.blocks.tail_fragments;
        for pointers in core::mem::take(&mut one.blocks.pointers) {
            effects.push(Effect::Forget(self.geometry.block(pointers)));
            self.groups.free(pointers, self.geometry.block_fragments);
        }
        let places = one.blocks.take();
        one.blocks.tail_fragments = 0;
        let last = places.len().wrapping_sub(1);
        let mut group_before = None;
        for (at, place) in places.into_iter().enumerate() {
            let count = match tail {
                1.. if at == last => tail.into(),
                _ => self.geometry.block_fragments,
            };
            effects.push(Effect::Forget(self.geometry.fragments(place, count)));
            self.groups.free(place, count);
            let group = place / self.geometry.group_fragments;
            if group_before.replace(group) != Some(group) {
                effects.push(Effect::Change(layout::map(&self.geometry, group)));
            }
        }
    }
}

impl FileSystem for Ffs {
    fn block_bytes(&self) -> u32 {
        self.geometry.block_bytes
    }

    fn make(&self) -> Effects {
        let geometry = &self.geometry;
        let group = |group| {
            let inodes = (0..geometry.inode_blocks).map(move |at| geometry.inode_block(group, at));
            let head = [
                layout::superblock(geometry, group),
                layout::map(geometry, group),
            ];
            head.into_iter().chain(inodes)
        };
        let root = self.folder_block(0, 0);
        let all = (0..geometry.groups)
            .flat_map(group)
            .chain([root, layout::superblock(geometry, 0)]);
        all.map(Effect::WriteNow).collect()
    }

    fn mkdir(&mut self, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        let parent = self.folder_of(path)?;
        let (near, entries) = {
            let folder = &self.folders[index(parent)];
            (self.geometry.group_of(folder.inode), folder.entries)
        };
        effects.push(Effect::Search(entries));
        let group = self.groups.group_for_folder(near, self.spreads);
        let inode = self.take_inode(group, effects)?;
        self.write(self.geometry.block_of(inode), effects);
        let mut folder = folder(inode);
        let bytes = folder.bytes();
        let mut blocks = core::mem::take(&mut folder.blocks);
        self.grow_blocks(&mut blocks, inode, bytes, effects)?;
        folder.blocks = blocks;
        let number = u32::try_from(self.folders.len()).expect("few folders");
        self.folders.push(folder);
        self.numbers.insert(path.to_owned(), number);
        self.write(self.folder_block(number, 0), effects);
        // The parent has a link more.
        self.write(
            self.geometry.block_of(self.folders[index(parent)].inode),
            effects,
        );
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
        let number = self.folder_of(path)?;
        let folder = &self.folders[index(number)];
        let group = self.geometry.group_of(folder.inode);
        effects.push(Effect::Search(folder.entries));
        let inode = self.take_inode(group, effects)?;
        self.write(self.geometry.block_of(inode), effects);
        let chunk = self.enter(number, name_of(path), effects)?;
        let one = File {
            inode,
            folder: number,
            chunk,
            blocks: Blocks::default(),
        };
        self.files.insert(file, one);
        Ok(())
    }

    fn look_up(&self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        let one = self.files.get(&file).ok_or(HostError::Missing)?;
        effects.push(Effect::Need(self.geometry.block_of(one.inode)));
        Ok(())
    }

    fn set(&mut self, file: FileId, is_mode: bool, effects: &mut Effects) -> Result<(), HostError> {
        self.look_up(file, effects)?;
        let inode = self.geometry.block_of(self.files[&file].inode);
        if is_mode {
            effects.push(Effect::Change(inode));
        } else {
            self.write(inode, effects);
        }
        Ok(())
    }

    fn remove(&mut self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        self.look_up(file, effects)?;
        let (inode, number, chunk, bytes) = {
            let one = &self.files[&file];
            (one.inode, one.folder, one.chunk, one.blocks.bytes)
        };
        let folder = &mut self.folders[index(number)];
        folder.remove(chunk);
        let inode_of_folder = folder.inode;
        let block = folder.block_of(chunk, self.geometry.block_bytes);
        let entry = self.folder_block(number, block);
        effects.push(Effect::Need(entry));
        self.write(entry, effects);
        effects.push(Effect::Change(self.geometry.block_of(inode_of_folder)));
        let place = self.geometry.block_of(inode);
        if bytes > 0 {
            // The inode no longer names blocks that are about to be free.
            self.write(place, effects);
        }
        self.free_blocks(file, effects);
        self.files.remove(&file);
        self.groups.free_inode(inode);
        let map = layout::map(&self.geometry, self.geometry.group_of(inode));
        effects.extend([
            Effect::Change(place),
            Effect::Need(map),
            Effect::Change(map),
        ]);
        Ok(())
    }

    fn bytes(&self, file: FileId) -> u64 {
        self.files.get(&file).map_or(0, |one| one.blocks.bytes)
    }

    fn grow(&mut self, file: FileId, bytes: u64, effects: &mut Effects) -> Result<(), HostError> {
        let one = self.files.get_mut(&file).ok_or(HostError::Missing)?;
        let inode = one.inode;
        let mut blocks = core::mem::take(&mut one.blocks);
        let grown = self.grow_blocks(&mut blocks, inode, bytes, effects);
        let one = self.files.get_mut(&file).ok_or(HostError::Missing)?;
        one.blocks = blocks;
        effects.push(Effect::Change(self.geometry.block_of(inode)));
        grown
    }

    fn place(&self, file: FileId, block: u64) -> Option<Block> {
        self.place_of(&self.files.get(&file)?.blocks, block)
    }

    fn find(&self, file: FileId, block: u64, effects: &mut Effects) {
        let run_blocks = u64::from(self.geometry.block_bytes) / POINTER_BYTES;
        if let (Some(one), Some(after)) = (self.files.get(&file), block.checked_sub(DIRECT_BLOCKS))
        {
            let run = usize::try_from(after / run_blocks).expect("64 bits");
            let pointers = one.blocks.pointers.get(run);
            effects.extend(pointers.map(|place| Effect::Need(self.geometry.block(*place))));
        }
    }

    fn sync(&mut self, file: FileId, effects: &mut Effects) {
        if let Some(one) = self.files.get(&file) {
            if self.metadata == Metadata::SoftUpdates {
                // The entry must be durable, too.
                let folder = &self.folders[index(one.folder)];
                let block = folder.block_of(one.chunk, self.geometry.block_bytes);
                effects.push(Effect::WriteNow(self.folder_block(one.folder, block)));
            }
            effects.push(Effect::WriteNow(self.geometry.block_of(one.inode)));
        }
    }

    fn is_sync(&self) -> bool {
        self.is_sync
    }
}

/// Creates an empty directory.
fn folder(inode: Inode) -> Folder {
    Folder::new(inode, CHUNK_BYTES, NAME_END_BYTES)
}

#[cfg(test)]
mod tests;
