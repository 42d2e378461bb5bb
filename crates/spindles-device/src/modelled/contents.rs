//! The stored bytes of a modelled disk, in pages. Pages of zeros take no memory.

use std::collections::BTreeMap;
use std::ops::Range;

const PAGE: usize = 4096;
const PAGE_BYTES: u64 = 4096;

type Page = Box<[u8; PAGE]>;

/// The pages with a nonzero byte, by their number.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pages: BTreeMap<u64, Page>,
}

/// A part of a range that lies in one page.
struct Piece {
    page: u64,
    in_page: Range<usize>,
    in_range: Range<usize>,
}

/// Splits a range of bytes at the borders of pages.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let rest = bytes.checked_sub(done).filter(|rest| *rest > 0)?;
        let at = offset + u64::try_from(done).expect("64 bits");
        let start = usize::try_from(at % PAGE_BYTES).expect("below a page");
        let length = rest.min(PAGE - start);
        let piece = Piece {
            page: at / PAGE_BYTES,
            in_page: start..start + length,
            in_range: done..done + length,
        };
        done += length;
        Some(piece)
    })
}

impl Contents {
    /// Copies stored bytes. Other bytes become zeros if `fills`, and else stay.
    pub(super) fn read(&self, offset: u64, into: &mut [u8], fills: bool) {
        let end = offset + u64::try_from(into.len()).expect("64 bits");
        if !fills && self.is_hole(offset, end) {
            return;
        }
        for piece in pieces(offset, into.len()) {
            let target = &mut into[piece.in_range];
            match self.pages.get(&piece.page) {
                Some(page) => target.copy_from_slice(&page[piece.in_page]),
                None if fills => target.fill(0),
                None => {}
            }
        }
    }

    /// Stores bytes.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) {
        for piece in pieces(offset, from.len()) {
            let source = &from[piece.in_range];
            let is_whole = source.len() == PAGE;
            let is_zero = source.iter().all(|byte| *byte == 0);
            if is_zero && (is_whole || !self.pages.contains_key(&piece.page)) {
                self.pages.remove(&piece.page);
                continue;
            }
            let page = self.pages.entry(piece.page);
            page.or_insert_with(|| Box::new([0; PAGE]))[piece.in_page].copy_from_slice(source);
        }
    }

    /// Turns a range into zeros.
    pub(super) fn clear(&mut self, offset: u64, bytes: u64) {
        let end = offset + bytes;
        loop {
            let mut stored = self
                .pages
                .range_mut(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES));
            let Some(number) = stored.find_map(|(number, page)| {
                let start = number * PAGE_BYTES;
                let from = offset.saturating_sub(start).min(PAGE_BYTES);
                let to = (end - start).min(PAGE_BYTES);
                let index = |at: u64| usize::try_from(at).expect("within a page");
                page[index(from)..index(to)].fill(0);
                page.iter().all(|byte| *byte == 0).then_some(*number)
            }) else {
                return;
            };
            self.pages.remove(&number);
        }
    }

    /// Returns true if no byte of a range is stored.
    pub(super) fn is_hole(&self, from: u64, to: u64) -> bool {
        let pages = from / PAGE_BYTES..to.div_ceil(PAGE_BYTES).max(from / PAGE_BYTES);
        self.pages.range(pages).next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes, clears and reads at odd places, and compares with a plain vector.
    #[test]
    fn contents_are_those_of_a_plain_disk() {
        const BYTES: usize = 10 * PAGE;
        let (mut contents, mut plain) = (Contents::default(), vec![0_u8; BYTES]);
        let mut state = 9_u64;
        let mut draw = |below: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(state >> 33).expect("31 bits") % below
        };
        for round in 0..3000 {
            let start = draw(BYTES) & !(draw(2) * 511);
            let end = start + draw(BYTES - start + 1);
            let offset = u64::try_from(start).unwrap();
            let bytes = u64::try_from(end - start).unwrap();
            match draw(4) {
                0 => {
                    contents.clear(offset, bytes);
                    plain[start..end].fill(0);
                }
                1 => {
                    let value = u8::try_from(round % 3).unwrap();
                    let from = vec![value; end - start];
                    contents.write(offset, &from);
                    plain[start..end].copy_from_slice(&from);
                }
                _ => {
                    let mut into = vec![7; end - start];
                    contents.read(offset, &mut into, true);
                    assert_eq!(into, plain[start..end], "{start}..{end}");
                    let is_hole = contents.is_hole(offset, offset + bytes);
                    assert!(!is_hole || into.iter().all(|byte| *byte == 0));
                }
            }
        }
        let all = u64::try_from(BYTES).unwrap();
        contents.clear(0, all);
        assert!(contents.is_hole(0, all) && contents.pages.is_empty());
    }
}
