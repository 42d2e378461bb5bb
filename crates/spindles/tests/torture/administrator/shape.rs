//! A model of the array, independent of the program: the devices that hold the last write, and the
//! fault tolerance of levels.

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
