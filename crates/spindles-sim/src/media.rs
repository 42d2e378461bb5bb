//! The bytes of a disk of any size. Unwritten bytes take no memory and read as zeros.

use std::collections::BTreeMap;

/// A multiple of every sector size.
const PAGE_BYTES: usize = 16 << 10;
static ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Bytes, most of them zeros.
#[derive(Clone, Debug)]
pub(crate) struct Media {
    bytes: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Media {
    pub(crate) fn new(bytes: u64) -> Self {
        Self {
            bytes,
            pages: BTreeMap::new(),
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn place(at: u64) -> (u64, usize) {
        let page_bytes = u64::try_from(PAGE_BYTES).expect("16 KiB");
        let within = usize::try_from(at % page_bytes).expect("within a page");
        (at / page_bytes, within)
    }

    /// Returns a part that lies within a page, such as a sector.
    pub(crate) fn part(&self, at: u64, bytes: usize) -> &[u8] {
        let (page, within) = Self::place(at);
        let page = self.pages.get(&page).map_or(&ZEROS[..], |page| &page[..]);
        &page[within..within + bytes]
    }

    /// Same as `part`, but mutable.
    pub(crate) fn part_mut(&mut self, at: u64, bytes: usize) -> &mut [u8] {
        let (page, within) = Self::place(at);
        let page = self.pages.entry(page).or_insert_with(|| ZEROS.into());
        &mut page[within..within + bytes]
    }

    pub(crate) fn read(&self, mut at: u64, mut out: &mut [u8]) {
        while !out.is_empty() {
            let length = (PAGE_BYTES - Self::place(at).1).min(out.len());
            let (now, rest) = out.split_at_mut(length);
            now.copy_from_slice(self.part(at, length));
            at += u64::try_from(length).expect("small");
            out = rest;
        }
    }

    pub(crate) fn write(&mut self, mut at: u64, mut from: &[u8]) {
        while !from.is_empty() {
            let length = (PAGE_BYTES - Self::place(at).1).min(from.len());
            let (now, rest) = from.split_at(length);
            self.part_mut(at, length).copy_from_slice(now);
            at += u64::try_from(length).expect("small");
            from = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_blocks_read_back_and_all_others_are_zeros() {
        let mut media = Media::new(100 << 40);
        let bytes: Vec<u8> = (0..40_000)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        for at in [0, 16_000, (100 << 40) - 40_000] {
            media.write(at, &bytes);
            let mut read = vec![0xee; bytes.len()];
            media.read(at, &mut read);
            assert!(read == bytes, "{at}");
        }
        let mut read = vec![0xee; 40_000];
        media.read(1 << 40, &mut read);
        assert!(read.iter().all(|&byte| byte == 0));
        assert!(media.pages.len() < 12);
    }
}
