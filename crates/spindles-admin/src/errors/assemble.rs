//! Why devices could not be assembled.

use crate::write_back::CantStage;
use spindles_array::errors::AttachError;
use spindles_block::RequestError;
use spindles_device::clock::utc;
use spindles_device::errors::{CloseError, OpenError};
use spindles_device::identity::same;
use spindles_engine::PlanError;
use spindles_format::AssembleError as ChooseError;
use thiserror::Error;

/// Why the given devices could not be assembled.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// A server refuses to close its array for this change.
    #[error(transparent)]
    Attach(Box<AttachError>),
    /// An inner array has no space for repairs after a crash. The text names the place and the
    /// remedy.
    #[error("{0}")]
    NoSpace(String),
    /// Two names belong to one device.
    #[error("{}: leave one out", same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other name.
        second: String,
    },
    /// One of two devices with the same journal is a copy of the other.
    #[error(
        "{first} and {second} are both the device with the journal of one array{}: one is a copy \
         of the other; leave one out",
        older.as_ref().map(|older| format!(", and {older} is the older one")).unwrap_or_default()
    )]
    TwoJournals {
        /// One device.
        first: String,
        /// The other device.
        second: String,
        /// The one with the older stamp of its last use; `None` if the stamps are equal.
        older: Option<String>,
    },
    /// A device carries other data.
    #[error(
        "{device} has no Spindles superblock: it carries {what}; leave it out, or check that it is \
         the device you mean"
    )]
    SomethingElse {
        /// The device.
        device: String,
        /// The kind of data.
        what: &'static str,
    },
    /// No given device is a member.
    #[error(
        "{devices}: what is given are spares and devices of journals alone; give the members of \
         the array too"
    )]
    NoMembers {
        /// The devices given.
        devices: String,
    },
    /// The superblocks don't make an array.
    #[error("{}{}", .0, last_written(.0))]
    Choose(#[from] ChooseError),
    /// The superblocks name an unknown level, layout or policy.
    #[error("array '{array}': {what}: use a newer version of Spindles")]
    Unknown {
        /// The array.
        array: String,
        /// The unknown name.
        what: String,
    },
    /// More members are missing than the level survives.
    #[error(
        "array '{array}' can't be opened: {missing} of {members} missing, more than {survives}{}",
        because(refused)
    )]
    Incomplete {
        /// The array.
        array: String,
        /// What tolerates fewer losses: "raid5 survives".
        survives: String,
        /// The missing members.
        missing: String,
        /// The number of members.
        members: usize,
        /// Refused devices, each with the reason.
        refused: Vec<String>,
    },
    /// It was not closed in order, and members are missing, so parity can't identify the writes in
    /// flight.
    #[error(
        "array '{array}' was not closed in order and {missing} of {members} {} missing{}: \
         interrupted writes can't be distinguished from damage{}; {}bring the missing members \
         back, or use {} to open it all the same and check the data yourself",
        if missing.starts_with("members") { "are" } else { "is" },
        if *lacks_journal { ", and the device of its journal too" } else { "" },
        because(refused),
        if *lacks_journal { "give the device of its journal, which records them, or " } else { "" },
        if *asks { "--force --degraded" } else { "--force" }
    )]
    UncleanDegraded {
        /// The array.
        array: String,
        /// The missing members.
        missing: String,
        /// The number of members.
        members: usize,
        /// True if its journal, which identifies them, is on a device that was not given.
        lacks_journal: bool,
        /// True if opening it discards data of missing members, which takes `--degraded` too.
        asks: bool,
        /// Refused devices, each with the reason.
        refused: Vec<String>,
    },
    /// Missing members may be newer than those present.
    #[error(
        "array '{array}' lacks {missing} of {members}, which could have gone on alone and may be \
         newer than what is here (last written {}); what is written now can never be put together \
         with that{}: bring the missing members back, or go on without them by {}, or for \
         good by --degraded-writes allow{}",
        utc(*last_written_s),
        if *holds_last_writes {
            ", and blocks of the last writes before a crash that they alone may hold are lost"
        } else {
            ""
        },
        by_degraded(*forced),
        because(refused)
    )]
    MayBeNewer {
        /// The array.
        array: String,
        /// The missing members.
        missing: String,
        /// The number of members.
        members: usize,
        /// When the present members were last written, in seconds since 1970.
        last_written_s: u64,
        /// True if they alone may also hold blocks of the last writes before a crash.
        holds_last_writes: bool,
        /// True if `--force` is needed too, and was given.
        forced: bool,
        /// Refused devices, each with the reason.
        refused: Vec<String>,
    },
    /// Missing members alone may hold blocks of the last writes before a crash.
    #[error(
        "array '{array}' was not closed in order, and lacks {missing} of {members}, which it had \
         until then: blocks of the last writes that {missing} alone may hold are lost for good as \
         soon as the array is written; bring {missing} back; if that can't be, {} gives these \
         blocks up{}",
        by_degraded(*forced),
        because(refused)
    )]
    HoldsLastWrites {
        /// The array.
        array: String,
        /// The missing members.
        missing: String,
        /// The number of members.
        members: usize,
        /// True if `--force` is needed too, and was given.
        forced: bool,
        /// Refused devices, each with the reason.
        refused: Vec<String>,
    },
    /// It can't grow to that shape.
    #[error("array '{array}' can't grow that way: {reason}")]
    CantGrow {
        /// The array.
        array: String,
        /// The reason.
        reason: PlanError,
    },
    /// The array can't have such a stage.
    #[error("array '{array}': {reason}")]
    CantStage {
        /// The array.
        array: String,
        /// The reason.
        reason: CantStage,
    },
    /// Staged blocks can't be placed.
    #[error(
        "array '{array}': some staged writes can't be placed, so its stage stays as it is: bring \
         back the missing members, or repair what its status lists"
    )]
    StaysStaged {
        /// The array.
        array: String,
    },
    /// A part of the array has moved already, so the growth can't be aborted.
    #[error("array '{array}': a part of it has moved, so its growth can no longer be cancelled")]
    TooLate {
        /// The array.
        array: String,
    },
    /// Every inner array lacks too many members.
    #[error("{lost}")]
    NothingLeft {
        /// The inner arrays, each with the reason.
        lost: String,
    },
    /// The superblock of a lagging member could not be written.
    #[error(
        "{device}: its superblock can't be brought up to date: {source}; leave it out to assemble \
         the array without it"
    )]
    CatchUp {
        /// The device.
        device: String,
        /// The reason.
        source: RequestError,
    },
    /// A device stopped answering during assembly.
    #[error("{device}: it stopped answering while the array was opened: {why}")]
    Died {
        /// The device.
        device: String,
        /// Its last answer.
        why: String,
    },
    /// Another process wrote superblocks during the reading.
    #[error("the superblocks changed while they were read: try again")]
    Changed,
}

impl AssembleError {
    /// Adds devices that died earlier to the refused ones.
    pub(crate) fn without(mut self, died: Vec<String>) -> Self {
        if let Self::Incomplete { refused, .. }
        | Self::UncleanDegraded { refused, .. }
        | Self::MayBeNewer { refused, .. }
        | Self::HoldsLastWrites { refused, .. } = &mut self
        {
            refused.extend(died);
        }
        self
    }
}

/// Returns the options that discard data of missing members.
fn by_degraded(forced: bool) -> &'static str {
    if forced {
        "--force --degraded"
    } else {
        "--degraded"
    }
}

/// Describes when each side of a split brain was last written. This often decides which side to
/// keep.
fn last_written(error: &ChooseError) -> String {
    let ChooseError::SplitBrain { one, other, .. } = error else {
        return String::new();
    };
    let [one, other] = [one, other].map(|half| match half.last_written_s {
        0 => format!("{} at a time unknown", half.devices.join(", ")),
        seconds => format!("{} on {}", half.devices.join(", "), utc(seconds)),
    });
    format!("; last written: {one}; {other}")
}

fn because(refused: &[String]) -> String {
    let mut text = String::new();
    for refusal in refused {
        text.push_str("; ");
        text.push_str(refusal);
    }
    text
}
