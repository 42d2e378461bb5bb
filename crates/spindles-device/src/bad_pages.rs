//! The lists of bad blocks on members, read without opening the array.

use spindles_format::{
    AreaKind, ArrayRecord, BAD_BLOCKS_PAGE_BYTES, BadBlocks, DeviceRecord, decode_bad_blocks,
};
use std::collections::BTreeMap;

/// A page of the list on one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPage {
    /// Its number.
    pub number: u32,
    /// Of the pages on two members, the one with the higher number counts.
    pub sequence: u64,
    /// Its entries.
    pub runs: Vec<BadBlocks>,
}

/// Reads the pages on a member, as far as possible.
pub fn read_pages(
    array: &ArrayRecord,
    device: &DeviceRecord,
    read: &mut dyn FnMut(u64, &mut [u8]) -> bool,
) -> Vec<BadPage> {
    let Some(area) = device.area(AreaKind::BAD_BLOCKS) else {
        return Vec::new();
    };
    let pages = array.bad_blocks_pages();
    let mut bytes = vec![0; usize::try_from(pages).expect("few") * BAD_BLOCKS_PAGE_BYTES];
    // A page longer than a block may be readable only in part.
    let step = usize::try_from(array.block_size.bytes()).expect("4096");
    let mut at = area.offset_bytes;
    for block in bytes.chunks_mut(step) {
        let mut whole = vec![0; step];
        if read(at, &mut whole) {
            block.copy_from_slice(&whole[..block.len()]);
        }
        at += u64::from(array.block_size.bytes());
    }
    let pages = (0..pages).zip(bytes.as_chunks().0);
    let decoded = pages.filter_map(|(number, bytes)| {
        let (sequence, runs) = decode_bad_blocks(array.uuid, number, bytes)?;
        Some(BadPage {
            number,
            sequence,
            runs: runs.collect(),
        })
    });
    decoded.collect()
}

/// Merges the lists of all members: the newest version of each page counts.
pub fn newest<'a>(pages: impl IntoIterator<Item = &'a BadPage>) -> Vec<BadBlocks> {
    let mut newest: BTreeMap<u32, &BadPage> = BTreeMap::new();
    for page in pages {
        let known = newest.entry(page.number).or_insert(page);
        if known.sequence < page.sequence {
            *known = page;
        }
    }
    let pages = newest.values();
    pages.flat_map(|page| &page.runs).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_block::BlockIndex;
    use spindles_format::BadBlockKind;

    #[test]
    fn the_newest_version_of_each_page_counts() {
        let page = |number, sequence, starts: &[u64]| BadPage {
            number,
            sequence,
            runs: starts
                .iter()
                .map(|start| BadBlocks {
                    kind: BadBlockKind::Lost,
                    start: BlockIndex(*start),
                    blocks: 2,
                })
                .collect(),
        };
        let pages = [
            page(0, 3, &[10]),
            page(1, 2, &[8, 20]),
            page(0, 4, &[14, 12]),
            page(1, 1, &[100]),
        ];
        let starts: Vec<u64> = newest(&pages).iter().map(|run| run.start.0).collect();
        assert_eq!(starts, [14, 12, 8, 20]);
    }
}
