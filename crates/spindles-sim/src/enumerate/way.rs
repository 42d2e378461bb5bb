//! The steps that led to a finding.

use super::media::Left;
use super::scenario::{ATOMS_PER_BLOCK, Event};
use spindles_block::{MemberIndex, MemberSet, Operation};
use std::fmt::Write as _;

/// A step that led to a finding.
#[derive(Clone)]
pub(super) enum WayStep {
    Event(Event),
    Done(MemberIndex, Operation, u64),
    Crash {
        power: bool,
        left: Vec<String>,
    },
    /// Opened without these members; the flag is set if the journal device is present.
    Open(MemberSet, bool),
    /// Opened read-only, and everything is read.
    Look,
    /// A block of a disk is corrupted.
    Rot(u8, u64),
    Again(MemberSet),
    Closed,
}

/// Describes what a crash left on a disk.
pub(super) fn describe_left(disk: u8, left: &Left) -> String {
    let mut text = format!("disk {disk}:");
    for (atom, content) in &left.durable {
        write!(text, " {atom}={content}").expect("a string takes everything");
    }
    for write in &left.cached {
        write!(text, " cached {}={:?}", write.first, write.atoms)
            .expect("a string takes everything");
    }
    text
}

impl WayStep {
    pub(super) fn describe(&self) -> String {
        let per_block = ATOMS_PER_BLOCK;
        match self {
            Self::Event(event) => event.to_string(),
            Self::Done(member, operation, block) => {
                format!("member {member}: {operation:?} at block {block} is done")
            }
            Self::Crash { power, left } => {
                let what = if *power {
                    "power loss"
                } else {
                    "process crash"
                };
                format!("{what}; {per_block} atoms a block: {}", left.join("; "))
            }
            Self::Open(missing, journal) => {
                let journal = if *journal { " with its journal" } else { "" };
                format!("opened{journal} without {missing:?}, everything is read")
            }
            Self::Look => "opened read only, everything is read".to_owned(),
            Self::Rot(disk, block) => format!("block {block} of disk {disk} rots"),
            Self::Again(missing) => format!("without {missing:?} everything is read again"),
            Self::Closed => "closed".to_owned(),
        }
    }
}
