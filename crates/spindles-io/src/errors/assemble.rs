//! Why no array came of devices.

use super::attach::AttachError;
use super::open::{CloseError, OpenError};
use crate::clock::utc;
use crate::identity::same;
use crate::shell::shell_word;
use spindles_block::RequestError;
use spindles_engine::PlanError;
use spindles_format::AssembleError as ChooseError;
use thiserror::Error;

/// Why no array came of the devices given.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// Its devices are being changed.
    #[error(transparent)]
    Attach(Box<AttachError>),
    /// An array inside it has no space for what a crash left: where, and what to do.
    #[error("{0}")]
    NoSpace(String),
    /// Two names for one device.
    #[error("{}: leave one out", same(first, second))]
    SameDevice {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// One of two devices with the same journal is a copy of the other.
    #[error(
        "{first} and {second} are both the device with the journal of one array{}: one is a copy of the other; leave one \
         out, or make the copy a plain device: `spindles wipe {}`",
        older.as_ref().map(|older| format!(", and {older} is the older one")).unwrap_or_default(),
        shell_word(older.as_ref().unwrap_or(second))
    )]
    TwoJournals {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// The one that was logged on last longer ago, where their stamps differ.
        older: Option<String>,
    },
    /// A device carries something else.
    #[error(
        "{device} has no Spindles superblock: it carries {what}; leave it out, or check that it is the device you mean"
    )]
    SomethingElse {
        /// The device.
        device: String,
        /// What it carries.
        what: &'static str,
    },
    /// None of the devices is a member.
    #[error(
        "{devices}: what is given are spares and devices of journals alone; give the members of the array too"
    )]
    NoMembers {
        /// What was given.
        devices: String,
    },
    /// The superblocks don't make an array.
    #[error("{}{}", .0, last_written(.0))]
    Choose(#[from] ChooseError),
    /// The superblocks name a level, layout or policy that there is not.
    #[error("array '{array}': {what}: use a newer version of Spindles")]
    Unknown {
        /// The array.
        array: String,
        /// What is not known.
        what: String,
    },
    /// More is missing than the level survives.
    #[error(
        "array '{array}' can't be opened: {missing} of {members} missing, more than {survives}{}",
        because(refused)
    )]
    Incomplete {
        /// The array.
        array: String,
        /// What survives less: "raid5 survives".
        survives: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// It was not closed, and with members missing parity can't show what was in flight.
    #[error(
        "array '{array}' was not closed in order and {missing} of {members} {} missing{}: what was being written then can't be told from damage{}; {}bring the missing members back, or use {} to open it all the same and check the data yourself",
        if missing.starts_with("members") { "are" } else { "is" },
        if *lacks_journal { ", and the device of its journal too" } else { "" },
        because(refused),
        if *lacks_journal { "give the device of its journal, which tells that, or " } else { "" },
        if *asks { "--force --degraded" } else { "--force" }
    )]
    UncleanDegraded {
        /// The array.
        array: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// What was in flight lies on a device of its own, which was not given.
        lacks_journal: bool,
        /// Opening it so gives up what is away, which takes leave of its own.
        asks: bool,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// What is away may be newer than what is here.
    #[error(
        "array '{array}' lacks {missing} of {members}, which could have gone on alone and may be newer than \
         what is here (last written {}); what is written now can never be put together with that{}: bring \
         the missing back, or go on without them by {}, or for good by spindles set {} \
         --degraded-writes allow --degraded{}",
        utc(*last_written_s),
        if *holds_last_writes {
            ", and blocks of the last writes before a crash that they alone may hold are lost"
        } else {
            ""
        },
        by_degraded(*forced),
        shell_word(array),
        because(refused)
    )]
    MayBeNewer {
        /// The array.
        array: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// When what is here was last written, in seconds since 1970.
        last_written_s: u64,
        /// They may also alone hold blocks of the last writes before a crash.
        holds_last_writes: bool,
        /// It takes force too, which was given.
        forced: bool,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// What is away may alone hold blocks of the last writes before a crash.
    #[error(
        "array '{array}' was not closed in order, and lacks {missing} of {members}, which it had until then: \
         blocks of the last writes that {missing} alone may hold are lost for good as soon as the array is \
         written; bring {missing} back; meanwhile spindles copy reads what is here, and changes nothing; if \
         {missing} can't come back, {} gives these blocks up; spindles set {} --degraded-writes allow \
         --degraded does so from now on without a question{}",
        by_degraded(*forced),
        shell_word(array),
        because(refused)
    )]
    HoldsLastWrites {
        /// The array.
        array: String,
        /// Which members.
        missing: String,
        /// Of how many.
        members: usize,
        /// It takes force too, which was given.
        forced: bool,
        /// What was refused, and why.
        refused: Vec<String>,
    },
    /// It can't become what it shall.
    #[error("array '{array}' can't grow that way: {reason}{}", match reason {
        PlanError::Degraded => format!("; `spindles status {}` says how", shell_word(array)),
        PlanError::Unclean => format!(", with `spindles resync {}`", shell_word(array)),
        _ => String::new(),
    })]
    CantGrow {
        /// The array.
        array: String,
        /// Why.
        reason: PlanError,
    },
    /// It has begun to become that.
    #[error(
        "array '{array}': a part of it is moved already, so its growth can't be given up any more; `spindles grow` with its devices alone goes on with it"
    )]
    TooLate {
        /// The array.
        array: String,
    },
    /// Every inner array lacks too much.
    #[error("{lost}")]
    NothingLeft {
        /// Each of them, and why.
        lost: String,
    },
    /// A superblock could not be written to a member that lags.
    #[error(
        "{device}: its superblock can't be brought up to date: {source}; leave it out to assemble the array without it"
    )]
    CatchUp {
        /// The device.
        device: String,
        /// Why.
        source: RequestError,
    },
    /// A device answered at first, and does not any more.
    #[error("{device}: it stopped answering while the array was opened: {why}")]
    Died {
        /// The device.
        device: String,
        /// What it answered.
        why: String,
    },
    /// Somebody wrote superblocks while we looked.
    #[error("the superblocks changed while they were read: try again")]
    Changed,
}

impl AssembleError {
    /// The same where these devices died before.
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

/// The options that give up what is away.
fn by_degraded(forced: bool) -> &'static str {
    if forced {
        "--degraded beside --force"
    } else {
        "--degraded"
    }
}

/// When each of two halves was last written, which often decides who is to be kept.
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

pub(crate) fn because(refused: &[String]) -> String {
    let mut text = String::new();
    for refusal in refused {
        text.push_str("; ");
        text.push_str(refusal);
    }
    text
}
