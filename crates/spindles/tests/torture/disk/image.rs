//! The bytes of a disk. Copies are cheap: they share all unchanged pieces.

use std::sync::Arc;

const PIECE: usize = 16 << 10;

/// The contents of a disk.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pieces: Vec<Arc<[u8; PIECE]>>,
    bytes: usize,
}

impl Image {
    /// Creates an image of zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        let zeros = Arc::new([0; PIECE]);
        Self {
            pieces: vec![zeros; bytes.div_ceil(PIECE)],
            bytes,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes at `offset`, fewer at the end.
    pub(crate) fn read(&self, offset: usize, bytes: usize) -> Vec<u8> {
        let end = (offset + bytes).min(self.bytes);
        let mut out = Vec::with_capacity(bytes);
        let mut at = offset;
        while at < end {
            let from = at % PIECE;
            let to = (from + end - at).min(PIECE);
            out.extend_from_slice(&self.pieces[at / PIECE][from..to]);
            at += to - from;
        }
        out
    }

    /// Writes bytes. Panics beyond the end.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes, "beyond the end");
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let from = at % PIECE;
            let (now, later) = rest.split_at(rest.len().min(PIECE - from));
            let piece = Arc::make_mut(&mut self.pieces[at / PIECE]);
            piece[from..from + now.len()].copy_from_slice(now);
            (at, rest) = (at + now.len(), later);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_keep_written_data_and_copies_are_independent() {
        let bytes = 3 * PIECE + 512;
        let mut model = vec![0; bytes];
        let mut image = Image::new(bytes);
        let mut before = Vec::new();
        for (number, (offset, length)) in [(0, 1), (PIECE - 3, 9), (5, 2 * PIECE), (bytes - 7, 7)]
            .into_iter()
            .enumerate()
        {
            before.push((image.clone(), model.clone()));
            let byte = u8::try_from(number + 1).expect("a test");
            image.write(offset, &vec![byte; length]);
            model[offset..offset + length].fill(byte);
        }
        before.push((image, model));
        for (image, model) in before {
            assert_eq!(image.read(0, bytes), model);
            assert_eq!(image.read(PIECE - 1, 2), model[PIECE - 1..=PIECE]);
            assert_eq!(image.read(bytes - 1, 100), model[bytes - 1..]);
        }
    }
}
