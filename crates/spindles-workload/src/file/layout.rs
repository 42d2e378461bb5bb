//! Files on a bare target: each is a list of extents, taken from the front of the target as the
//! file grows. There are no names, folders, times or journals. The layout is not stored: it lasts
//! as long as the workload. So results compare targets, not file systems.

use super::action::FileId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// Bytes of an extent. Files that grow at the same time interleave, as on a file system.
pub const EXTENT_BYTES: u64 = 1 << 20;

/// The places of a workload's files.
#[derive(Debug)]
pub struct Layout {
    extents: u64,
    /// Extents below this were in use at some time.
    fresh: u64,
    /// Extents below `fresh` that are free again.
    free: BTreeSet<u64>,
    files: BTreeMap<FileId, Extents>,
}

#[derive(Debug, Default)]
struct Extents {
    places: Vec<u64>,
    bytes: u64,
}

/// Contiguous bytes of a file on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset on the target.
    pub target_bytes: u64,
    /// Length.
    pub bytes: u64,
}

/// The target is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Layout {
    /// Creates a layout without files on a target of that size.
    pub const fn new(target_bytes: u64) -> Self {
        Self {
            extents: target_bytes / EXTENT_BYTES,
            fresh: 0,
            free: BTreeSet::new(),
            files: BTreeMap::new(),
        }
    }

    /// Creates an empty file, or empties an existing one.
    pub fn create(&mut self, file: FileId) {
        self.remove(file);
        self.files.insert(file, Extents::default());
    }

    /// Removes a file. Returns true if it existed.
    pub fn remove(&mut self, file: FileId) -> bool {
        let removed = self.files.remove(&file);
        let was_there = removed.is_some();
        self.free
            .extend(removed.into_iter().flat_map(|file| file.places));
        was_there
    }

    /// Returns the bytes of a file; `None` if it does not exist.
    pub fn bytes(&self, file: FileId) -> Option<u64> {
        self.files.get(&file).map(|file| file.bytes)
    }

    /// Makes a file at least this long.
    ///
    /// # Errors
    /// The target is full. The file then keeps the extents it got.
    ///
    /// # Panics
    /// If the file does not exist.
    pub fn grow(&mut self, file: FileId, bytes: u64) -> Result<(), Full> {
        let all = self.files.get_mut(&file).expect("the file is there");
        let wanted = usize::try_from(bytes.div_ceil(EXTENT_BYTES)).expect("64 bits");
        while all.places.len() < wanted {
            let place = match self.free.pop_first() {
                Some(place) => place,
                None if self.fresh < self.extents => {
                    self.fresh += 1;
                    self.fresh - 1
                }
                None => return Err(Full),
            };
            all.places.push(place);
        }
        all.bytes = all.bytes.max(bytes);
        Ok(())
    }

    /// Returns the pieces of a range of a file, in order. The range may extend to the end of the
    /// last extent.
    ///
    /// # Panics
    /// If the file does not exist, or has no extents for the whole range.
    pub fn pieces(&self, file: FileId, offset: u64, bytes: u64) -> Vec<Piece> {
        let places = &self.files[&file].places;
        let mut pieces: Vec<Piece> = Vec::new();
        let (mut at, end) = (offset, offset + bytes);
        while at < end {
            let place = places[usize::try_from(at / EXTENT_BYTES).expect("64 bits")];
            let piece = Piece {
                target_bytes: place * EXTENT_BYTES + at % EXTENT_BYTES,
                bytes: (EXTENT_BYTES - at % EXTENT_BYTES).min(end - at),
            };
            at += piece.bytes;
            match pieces.last_mut() {
                Some(last) if last.target_bytes + last.bytes == piece.target_bytes => {
                    last.bytes += piece.bytes;
                }
                _ => pieces.push(piece),
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: FileId = FileId(0);
    const B: FileId = FileId(7);

    #[test]
    fn files_growing_together_interleave_and_never_overlap() {
        let mut layout = Layout::new(8 * EXTENT_BYTES + 17);
        layout.create(A);
        layout.create(B);
        for round in 1..=3 {
            layout.grow(A, round * EXTENT_BYTES).unwrap();
            layout.grow(B, round * EXTENT_BYTES - 1).unwrap();
        }
        assert_eq!(layout.bytes(B), Some(3 * EXTENT_BYTES - 1));
        let piece = |target_bytes, bytes| Piece {
            target_bytes,
            bytes,
        };
        // Across the end of the first extent, which is followed by the other file's.
        let across = layout.pieces(A, EXTENT_BYTES - 512, 1024);
        assert_eq!(
            across,
            [piece(EXTENT_BYTES - 512, 512), piece(2 * EXTENT_BYTES, 512)]
        );
        // Adjacent extents are one piece.
        layout.create(A);
        layout.grow(A, 2 * EXTENT_BYTES).unwrap();
        assert_eq!(layout.grow(B, 9 * EXTENT_BYTES), Err(Full));
        assert!(layout.remove(B) && !layout.remove(B));
        assert_eq!(layout.bytes(B), None);
        layout.grow(A, 8 * EXTENT_BYTES).unwrap();
        let all = layout.pieces(A, 0, 8 * EXTENT_BYTES);
        assert_eq!(
            all.iter().map(|piece| piece.bytes).sum::<u64>(),
            8 * EXTENT_BYTES
        );
        let mut extents: Vec<u64> = (all.iter())
            .flat_map(|piece| {
                (0..piece.bytes / EXTENT_BYTES).map(|at| piece.target_bytes / EXTENT_BYTES + at)
            })
            .collect();
        extents.sort_unstable();
        assert_eq!(extents, [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(all.len() < 8, "{all:?}");
    }
}
