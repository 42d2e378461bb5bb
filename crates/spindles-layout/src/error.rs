//! Why an array is impossible: the fact and the remedy.

use crate::level::{Level, Redundancy};
use alloc::string::String;
use core::fmt;
use spindles_block::{MEMBERS_MAX, MemberIndex};

/// Why an array is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// No level has this name.
    UnknownLevel {
        /// The name.
        name: String,
        /// All levels.
        levels: &'static [&'static Level],
    },
    /// The level has no layout of this name.
    UnknownLayout {
        /// The level.
        level: &'static Level,
        /// The name.
        name: String,
    },
    /// Fewer members than the level needs.
    TooFewMembers {
        /// The level.
        level: &'static Level,
        /// The number of members.
        members: u8,
    },
    /// More members than any array may have.
    TooManyMembers(usize),
    /// Fewer than two copies, or more than there are members.
    WrongCopies {
        /// The copies asked for.
        copies: u8,
        /// The number of members.
        members: u8,
    },
    /// A chunk of 0 bytes.
    ChunkZero,
    /// A chunk above the maximum.
    ChunkTooLarge,
    /// A chunk that is not a whole number of blocks.
    ChunkNotWholeBlocks {
        /// The chunk.
        chunk_bytes: u32,
        /// The block.
        block_bytes: u32,
    },
    /// A member too small for the level and the chunk.
    MemberTooSmall {
        /// The member.
        member: MemberIndex,
        /// The blocks it has room for.
        blocks: u64,
        /// The blocks it needs at least.
        blocks_min: u64,
    },
    /// All members together hold more than can be addressed.
    TooLarge,
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownLevel { name, levels } => {
                write!(f, "there is no level '{name}'; there are ")?;
                list(f, levels.iter().map(|level| level.name))
            }
            Self::UnknownLayout { level, name } => {
                write!(f, "{level} has no layout '{name}'; ")?;
                if level.layouts.len() == 1 {
                    return f.write_str("it has only one way to lie on its members");
                }
                f.write_str("it has ")?;
                let rows = level.layouts.iter().filter(|row| !row.name.is_empty());
                for (index, row) in rows.enumerate() {
                    f.write_str(if index == 0 { "" } else { ", " })?;
                    f.write_str(&level.written(row))?;
                }
                if level.redundancy == Redundancy::Copies {
                    f.write_str(" (N: a number of copies, as in 'far 3')")?;
                }
                Ok(())
            }
            Self::TooFewMembers { level, members } => write!(
                f,
                "{level} needs at least {} members, and there {} {members}: add members or take \
                 another level",
                level.members_min,
                if *members == 1 { "is" } else { "are" },
            ),
            Self::TooManyMembers(members) => write!(
                f,
                "{members} members are more than the {MEMBERS_MAX} that one array may have: nest \
                 arrays, as in raid0(raid5(..),raid5(..))"
            ),
            Self::WrongCopies { copies, members } => write!(
                f,
                "{copies} copies on {members} members: take at least 2 copies and at most as many \
                 as there are members"
            ),
            Self::ChunkZero => f.write_str("a chunk of 0 bytes: take at least one block"),
            Self::ChunkTooLarge => f.write_str("a chunk above 64M: take 64M or less"),
            Self::ChunkNotWholeBlocks {
                chunk_bytes,
                block_bytes,
            } => write!(
                f,
                "a chunk of {chunk_bytes} bytes is not a multiple of the block of {block_bytes} \
                 bytes: take a multiple of {block_bytes}"
            ),
            Self::MemberTooSmall {
                member,
                blocks,
                blocks_min,
            } => write!(
                f,
                "member {member} has room for {blocks} blocks and needs {blocks_min} at least: \
                 take a smaller chunk or a larger device"
            ),
            Self::TooLarge => {
                f.write_str("the members together hold more than 2^64 bytes: take fewer members")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

fn list<'a>(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'a str>) -> fmt::Result {
    for (index, name) in names.enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        write!(f, "{comma}{name}")?;
    }
    Ok(())
}
