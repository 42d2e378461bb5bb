//! A model of the array, independent of the program: the possible contents of each block, the
//! devices that hold the last write, and the fault tolerance of levels.

/// An array, or a position for a device.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Device,
    Array {
        level: &'static str,
        /// With a colon, as in an expression; empty for the level's default.
        layout: &'static str,
        parts: Vec<Shape>,
    },
}

impl Shape {
    pub(crate) fn flat(level: &'static str, layout: &'static str, members: usize) -> Self {
        Self::Array {
            level,
            layout,
            parts: vec![Self::Device; members],
        }
    }

    /// The expression over these names, which are taken from the front.
    pub(crate) fn expression<'a>(&self, names: &mut impl Iterator<Item = &'a str>) -> String {
        match self {
            Self::Device => names.next().expect("a name for each place").to_owned(),
            Self::Array {
                level,
                layout,
                parts,
            } => {
                let parts: Vec<String> = parts.iter().map(|part| part.expression(names)).collect();
                format!("{level}{layout}({})", parts.join(","))
            }
        }
    }

    pub(crate) fn places(&self) -> usize {
        match self {
            Self::Device => 1,
            Self::Array { parts, .. } => parts.iter().map(Self::places).sum(),
        }
    }

    pub(crate) fn level(&self) -> &'static str {
        match self {
            Self::Device => "",
            Self::Array { level, .. } => level,
        }
    }

    pub(crate) fn is_nested(&self) -> bool {
        matches!(self, Self::Array { parts, .. }
            if parts.iter().any(|part| matches!(part, Self::Array { .. })))
    }

    /// Returns true if the absent positions could have continued alone: those of the whole array,
    /// where an inner array with any absence counts as absent, or those of an inner array.
    pub(crate) fn could_go_on(&self, away: &[bool]) -> bool {
        let Self::Array {
            level,
            layout,
            parts,
        } = self
        else {
            return false;
        };
        let mut rest = away;
        let mut parts_away = Vec::new();
        for part in parts {
            let (of_part, others) = rest.split_at(part.places());
            if part.could_go_on(of_part) {
                return true;
            }
            parts_away.push(of_part.contains(&true));
            rest = others;
        }
        Self::flat(level, layout, parts.len()).survives(&mut parts_away.into_iter())
    }

    /// Returns true if the good positions, taken from the front, suffice for all data.
    pub(crate) fn survives(&self, good: &mut impl Iterator<Item = bool>) -> bool {
        let Self::Array {
            level,
            layout,
            parts,
        } = self
        else {
            return good.next().expect("one for each place");
        };
        let good: Vec<bool> = parts.iter().map(|part| part.survives(good)).collect();
        let (count, missing) = (good.len(), good.iter().filter(|good| !**good).count());
        let pair = |first: usize| good[first % count] || good[(first + 1) % count];
        match *level {
            "concat" | "raid0" => missing == 0,
            "raid1" => missing < count,
            "raid4" | "raid5" => missing <= 1,
            "raid6" => missing <= 2,
            "raid7" => missing <= 3,
            // Two adjacent copies, from an even position on, so that no pair wraps around.
            "raid10" if layout.is_empty() && count.is_multiple_of(2) => {
                (0..count).step_by(2).all(pair)
            }
            "raid10" => (0..count).all(pair),
            other => panic!("the model does not know {other}"),
        }
    }
}

/// States whether a device holds the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Current {
    Yes,
    /// A command was interrupted, or the array was resynced without the device.
    Maybe,
    No,
}

/// The possible contents of a block of the array.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The numbers of the writes that it may hold; 0 for zeros.
    pub(crate) writes: Vec<u32>,
    /// Set if a crash, and a member that was missing later, may have lost it.
    pub(crate) may_be_lost: bool,
}

impl Block {
    pub(crate) const ZEROS: Self = Self {
        writes: Vec::new(),
        may_be_lost: false,
    };

    pub(crate) fn holds(write: u32) -> Self {
        Self {
            writes: vec![write],
            may_be_lost: false,
        }
    }

    pub(crate) fn may_hold(&self, write: u32) -> bool {
        match self.writes[..] {
            [] => write == 0,
            _ => self.writes.contains(&write),
        }
    }
}

/// Fills a block with the contents of a write: a pattern that identifies the write and the place.
pub(crate) fn fill(write: u32, block: usize, out: &mut [u8]) {
    if write == 0 {
        out.fill(0);
        return;
    }
    let place = u64::try_from(block).expect("small") << 32 | u64::from(write);
    for (at, word) in (0_u64..).zip(out.chunks_exact_mut(8)) {
        let value = (place ^ at << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        word.copy_from_slice(&value.to_le_bytes());
    }
}

/// Returns the number of the write that filled a block. The first word identifies the write; all
/// other words must match. `None` if no write matches.
pub(crate) fn write_of(block: usize, contents: &[u8], writes: u32) -> Option<u32> {
    let zeros = [0; 4096];
    if contents == &zeros[..contents.len()] {
        return Some(0);
    }
    let mut expected = [0; 4096];
    let expected = &mut expected[..contents.len()];
    (1..=writes).rev().find(|write| {
        fill(*write, block, &mut expected[..8]);
        expected[..8] == contents[..8] && {
            fill(*write, block, expected);
            expected == contents
        }
    })
}
