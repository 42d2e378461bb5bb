//! The expressions that dialects build.

use crate::fault::Fault;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use spindles_block::{MEMBERS_MAX, MemberIndex, MemberSet};
use spindles_layout::{Expression, Geometry, GeometryError, Level, Slice, Spec};

/// The leaf of an absent member.
pub(crate) const MISSING: &str = "missing";

/// A member before it becomes an expression: a part of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) device: String,
    pub(crate) start_sectors: u64,
    /// `None` for all up to the device's end.
    pub(crate) length_sectors: Option<u64>,
}

impl Part {
    /// The whole of a device.
    pub(crate) fn whole(device: String) -> Self {
        Self {
            device,
            start_sectors: 0,
            length_sectors: None,
        }
    }

    /// The leaf of this part in place.
    pub(crate) fn leaf(&self) -> Expression {
        let Self {
            device,
            start_sectors,
            length_sectors,
        } = self;
        Expression::Leaf(match length_sectors {
            _ if device == MISSING => device.clone(),
            None if *start_sectors == 0 => device.clone(),
            length => Slice {
                device: device.clone(),
                start_bytes: start_sectors * Slice::SECTOR_BYTES,
                length_bytes: length.map(|sectors| sectors * Slice::SECTOR_BYTES),
            }
            .to_string(),
        })
    }
}

/// The note of an array that ends at its smallest member, if a size is not known.
pub(crate) const SIZES_UNKNOWN: &str = "the smallest member ends this array, and a size is \
                                        not known: members are taken to be of one size";

/// The note of an array whose members end at the smallest, unlike those of a new one.
pub(crate) const ALL_USED: &str = "this array ends at its smallest member; a new array of whole \
                                   devices uses all of each";

/// The members' usable lengths, for arrays that end at the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Smallest {
    /// A length is not known.
    Unknown,
    /// All are equal.
    Even,
    /// The smallest of different lengths.
    Uneven(u64),
}

impl Smallest {
    pub(crate) fn of(lengths: &[Option<u64>]) -> Self {
        let known: Option<Vec<u64>> = lengths.iter().copied().collect();
        let Some(known) = known else {
            return Self::Unknown;
        };
        match (known.iter().min(), known.iter().max()) {
            (Some(min), Some(max)) if min < max => Self::Uneven(*min),
            _ => Self::Even,
        }
    }
}

/// An array of parts before it becomes an expression in place and one over whole devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    Part(Part),
    Array {
        level: &'static str,
        /// Empty for the level's default.
        layout: Cow<'static, str>,
        members: Vec<Tree>,
    },
}

impl Tree {
    /// Creates an array of a level of our table.
    pub(crate) fn array(
        level: &'static str,
        layout: impl Into<Cow<'static, str>>,
        members: Vec<Tree>,
    ) -> Self {
        Self::Array {
            level,
            layout: layout.into(),
            members,
        }
    }

    /// Creates an array whose members are parts.
    pub(crate) fn of(
        level: &'static str,
        layout: impl Into<Cow<'static, str>>,
        parts: impl IntoIterator<Item = Part>,
    ) -> Self {
        Self::array(level, layout, parts.into_iter().map(Self::Part).collect())
    }

    /// The expression of the array where it lies.
    pub(crate) fn in_place(&self, at: usize) -> Result<Expression, Fault> {
        self.expression(at, 0, &Part::leaf)
    }

    /// The expression of a new array of this shape on whole devices.
    pub(crate) fn shape(&self, at: usize) -> Result<Expression, Fault> {
        self.expression(at, 0, &|part| Expression::Leaf(part.device.clone()))
    }

    /// Returns an error at `at` if our levels don't allow the array.
    fn expression(
        &self,
        at: usize,
        depth: usize,
        leaf: &dyn Fn(&Part) -> Expression,
    ) -> Result<Expression, Fault> {
        let (level, layout, members) = match self {
            Self::Part(part) => return Ok(leaf(part)),
            Self::Array {
                level,
                layout,
                members,
            } => (level, layout, members),
        };
        if depth == Expression::DEPTH_MAX {
            return Err(Fault::new(
                at,
                format!("this nests more than {depth} arrays"),
            ));
        }
        let wrong = |error: GeometryError| Fault::new(at, error.to_string());
        let level = Level::named(level).map_err(wrong)?;
        let count = u8::try_from(members.len()).unwrap_or(u8::MAX);
        if count > MEMBERS_MAX {
            return Err(wrong(GeometryError::TooManyMembers(members.len())));
        }
        if count < level.members_min {
            return Err(wrong(GeometryError::TooFewMembers {
                level,
                members: count,
            }));
        }
        let layout = match &**layout {
            "" => None,
            name => Some(level.layout(name).map_err(wrong)?),
        };
        let members = (members.iter()).map(|member| member.expression(at, depth + 1, leaf));
        Ok(Expression::Array {
            level,
            layout,
            members: members.collect::<Result<_, _>>()?,
        })
    }
}

/// Returns true if more members are missing than the levels survive.
pub(crate) fn is_lost(expression: &Expression) -> bool {
    let (level, layout, members) = match expression {
        Expression::Leaf(device) => return device == MISSING,
        Expression::Slice { of, .. } => return is_lost(of),
        Expression::Array {
            level,
            layout,
            members,
        } => (*level, *layout, members),
    };
    let missing: MemberSet = (0..)
        .map(MemberIndex)
        .zip(members)
        .filter(|(_, member)| is_lost(member))
        .map(|(index, _)| index)
        .collect();
    let geometry = Geometry::new(&Spec {
        level,
        layout,
        chunk_blocks: 1,
        // Enough for a period of each layout.
        member_blocks: vec![1 << 10; members.len()],
    });
    geometry.is_ok_and(|geometry| !geometry.survives(missing))
}

/// Returns an expression with other devices.
pub(crate) fn renamed(expression: &Expression, rename: &dyn Fn(&str) -> String) -> Expression {
    expression.with_leaves(&mut |name| match Slice::parse(name) {
        Ok(slice) if Slice::is_text(name) => Slice {
            device: rename(&slice.device),
            ..slice
        }
        .to_string(),
        _ => rename(name),
    })
}
