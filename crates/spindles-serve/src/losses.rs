//! Collects the blocks found to be lost, place by place, to report them together.

use spindles_block::BlockIndex;
use std::fmt;
use std::ops::Range;

/// Most places named in a message. The array keeps the full list.
const PLACES_MAX: usize = 16;

/// The lost blocks of an array found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    blocks: u64,
    /// The places found first, sorted; adjacent ones are merged.
    places: Vec<Range<u64>>,
    /// True if more places were found.
    has_more: bool,
    /// True if everything was reported.
    is_reported: bool,
}

impl Losses {
    /// Adds `blocks` blocks from `block` on.
    pub(crate) fn add(&mut self, block: BlockIndex, blocks: u32) {
        let mut found = block.0..block.0 + u64::from(blocks);
        self.blocks += u64::from(blocks);
        self.is_reported = false;
        let touching =
            |place: &mut Range<u64>| place.start <= found.end && found.start <= place.end;
        let touched: Vec<Range<u64>> = self.places.extract_if(.., touching).collect();
        for place in touched {
            found = found.start.min(place.start)..found.end.max(place.end);
        }
        if self.places.len() == PLACES_MAX {
            self.has_more = true;
            return;
        }
        let at = self
            .places
            .partition_point(|place| place.start < found.start);
        self.places.insert(at, found);
    }

    /// Returns a summary; `None` if nothing was added since the previous call.
    pub(crate) fn unreported(&mut self) -> Option<String> {
        let was_reported = std::mem::replace(&mut self.is_reported, true);
        (!was_reported).then(|| self.to_string())
    }
}

/// `5 blocks are lost, 7 to 9 and 20 to 21`.
impl fmt::Display for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s_are = if self.blocks == 1 { " is" } else { "s are" };
        let places = self.places.iter().map(|place| match place.end - 1 {
            last if last == place.start => last.to_string(),
            last => format!("{} to {last}", place.start),
        });
        let mut places: Vec<String> = places.collect();
        places.extend(self.has_more.then(|| "others".to_owned()));
        let places = match places.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first @ .., last] => format!("{} and {last}", first.join(", ")),
        };
        write!(f, "{} block{s_are} lost, {places}", self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(places: &[(u64, u32)]) -> Losses {
        let mut losses = Losses::default();
        for (block, blocks) in places {
            losses.add(BlockIndex(*block), *blocks);
        }
        losses
    }

    #[test]
    fn adjacent_lost_ranges_are_merged_in_any_order() {
        assert_eq!(of(&[(7, 1)]).to_string(), "1 block is lost, 7");
        let found = [(20, 2), (9, 1), (7, 1), (8, 1), (40, 1)];
        let text = "6 blocks are lost, 7 to 9, 20 to 21 and 40";
        assert_eq!(of(&found).to_string(), text);
        let turned: Vec<_> = found.into_iter().rev().collect();
        assert_eq!(of(&turned).to_string(), text);
    }

    #[test]
    fn excess_lost_ranges_are_counted_but_not_kept() {
        let found: Vec<(u64, u32)> = (0..1000).map(|at| (at * 10, 2)).collect();
        let losses = of(&found);
        assert_eq!(losses.places.len(), PLACES_MAX);
        let text = losses.to_string();
        assert!(
            text.starts_with("2000 blocks are lost, 0 to 1, 10 to 11,"),
            "{text}"
        );
        assert!(text.ends_with(" 150 to 151 and others"), "{text}");
    }
}
