//! Files as lists of extents from the front of the device, without names, folders or metadata. It
//! shows what a host's cache does, apart from any file system.

use super::{FileSystem, Options, Row};
use crate::block::Block;
use crate::effect::{Effect, Effects};
use crate::error::HostError;
use alloc::boxed::Box;
use spindles_workload::file::{FileId, Layout};

pub(super) static ROW: Row = Row {
    name: "bare",
    year: None,
    about: "extents of 1 MiB from the front of the device, without metadata",
    not_modelled: &["names", "folders", "inodes", "dates"],
    moves_blocks: false,
    options: |mkfs, mount| match (mkfs, mount) {
        ([], "") => Ok(Options::default()),
        _ => Err("bare takes no options: leave out `mkfs` and `mount`"),
    },
    make: |device_bytes, _, _| {
        Ok(Box::new(Bare {
            layout: Layout::new(device_bytes),
        }))
    },
};

/// Bytes of a block in memory.
const BLOCK_BYTES: u32 = 8192;

#[derive(Debug)]
struct Bare {
    layout: Layout,
}

impl FileSystem for Bare {
    fn block_bytes(&self) -> u32 {
        BLOCK_BYTES
    }

    fn make(&self) -> Effects {
        Effects::new()
    }

    fn mkdir(&mut self, _path: &str, _effects: &mut Effects) -> Result<(), HostError> {
        Ok(())
    }

    fn create(
        &mut self,
        file: FileId,
        _path: &str,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        if self.layout.bytes(file).is_some() {
            self.remove(file, effects)?;
        }
        self.layout.create(file);
        Ok(())
    }

    fn look_up(&self, file: FileId, _effects: &mut Effects) -> Result<(), HostError> {
        self.layout.bytes(file).map(drop).ok_or(HostError::Missing)
    }

    fn set(
        &mut self,
        file: FileId,
        _is_mode: bool,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        self.look_up(file, effects)
    }

    fn remove(&mut self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        let bytes = self.layout.bytes(file).ok_or(HostError::Missing)?;
        let blocks = 0..bytes.div_ceil(BLOCK_BYTES.into());
        effects.extend(blocks.filter_map(|block| self.place(file, block).map(Effect::Forget)));
        self.layout.remove(file);
        Ok(())
    }

    fn bytes(&self, file: FileId) -> u64 {
        self.layout.bytes(file).unwrap_or(0)
    }

    fn grow(&mut self, file: FileId, bytes: u64, _effects: &mut Effects) -> Result<(), HostError> {
        self.layout.grow(file, bytes).map_err(|_| HostError::Full)
    }

    fn place(&self, file: FileId, block: u64) -> Option<Block> {
        let offset = block * u64::from(BLOCK_BYTES);
        if offset >= self.layout.bytes(file)? {
            return None;
        }
        let piece = self.layout.pieces(file, offset, BLOCK_BYTES.into());
        Some(Block {
            place_bytes: piece.first()?.target_bytes,
            bytes: BLOCK_BYTES,
        })
    }

    fn find(&self, _file: FileId, _block: u64, _effects: &mut Effects) {}

    fn sync(&mut self, _file: FileId, _effects: &mut Effects) {}

    fn is_sync(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_block_layout() {
        let mut bare = (ROW.make)(8 << 20, &Options::default(), true).unwrap();
        let mut effects = Effects::new();
        let [a, b] = [FileId(0), FileId(1)];
        bare.create(a, "a", &mut effects).unwrap();
        bare.create(b, "b", &mut effects).unwrap();
        bare.grow(a, 1 << 20, &mut effects).unwrap();
        bare.grow(b, 1, &mut effects).unwrap();
        bare.grow(a, (1 << 20) + 1, &mut effects).unwrap();
        assert_eq!(effects, []);
        let place = |file, block| bare.place(file, block).map(|block| block.place_bytes);
        assert_eq!(
            [place(a, 127), place(a, 128)],
            [Some(127 << 13), Some(2 << 20)]
        );
        assert_eq!([place(b, 0), place(b, 1)], [Some(1 << 20), None]);
        assert_eq!(bare.grow(b, 8 << 20, &mut effects), Err(HostError::Full));
        assert_eq!(
            bare.remove(FileId(7), &mut effects),
            Err(HostError::Missing)
        );
    }
}
