//! How far the opening of an array has come.

use crate::{bitmaps::Loading, journal::replay::Replay};

/// How far the opening of an array has come. Requests wait until it serves.
///
/// ```text
///  Finding ──all is read, and flushed──▶ Replaying ──the log is carried out──▶ Recording ──▶ Serving
///     └─────────────────── there is no log ───────────────────────────────────▶   ▲             │
///                                                                                 └──a device───┘
///                                                                                   takes a position
/// ```
#[derive(Clone, Debug)]
pub(crate) enum Opening {
    /// What the members hold is flushed, and the bad-block list and the bitmaps are read.
    Finding {
        /// Flushes under way.
        flushes: u32,
        /// Reads of the bitmaps, until they are through.
        loading: Option<Loading>,
        /// What is to be replayed then.
        replay: Option<Replay>,
    },
    /// What the journals hold after a crash is carried out again.
    Replaying(Replay),
    /// What was decided is made durable: superblocks, bitmaps, the bad-block list, a new log.
    Recording,
    Serving,
}

impl Opening {
    /// Whether what was found is not known yet, or not durable.
    pub(crate) fn is_finding(&self) -> bool {
        matches!(self, Self::Finding { .. })
    }

    /// Whether everything of the opening is done.
    #[inline]
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self, Self::Serving)
    }

    /// So many flushes of what was found are begun.
    pub(crate) fn flushes_begin(&mut self, count: u32) {
        let Self::Finding { flushes, .. } = self else {
            panic!("what was found is flushed at the beginning");
        };
        *flushes += count;
    }

    /// One of them came back.
    pub(crate) fn flush_ended(&mut self) {
        let Self::Finding { flushes, .. } = self else {
            panic!("a flush of the opening came back late");
        };
        *flushes -= 1;
    }

    /// The reads of the bitmaps, while there are any.
    pub(crate) fn loading(&self) -> Option<Loading> {
        match self {
            Self::Finding { loading, .. } => *loading,
            Self::Replaying(_) | Self::Recording | Self::Serving => None,
        }
    }

    /// How far they have come; `None` when they are through.
    pub(crate) fn set_loading(&mut self, to: Option<Loading>) {
        let Self::Finding { loading, .. } = self else {
            panic!("bitmaps are read at the beginning");
        };
        *loading = to;
    }

    /// This is to be replayed when what was found is durable.
    pub(crate) fn will_replay(&mut self, log: Option<Replay>) {
        let Self::Finding { replay, .. } = self else {
            panic!("what is replayed is known at the beginning");
        };
        *replay = log;
    }

    /// Goes on when what was found is known and durable. Whether it does now.
    pub(crate) fn found(&mut self) -> bool {
        let Self::Finding {
            flushes: 0,
            loading: None,
            replay,
        } = self
        else {
            return false;
        };
        *self = match replay.take() {
            Some(replay) => Self::Replaying(replay),
            None => Self::Recording,
        };
        true
    }

    /// The replay that is due or under way.
    pub(crate) fn replay(&self) -> Option<&Replay> {
        match self {
            Self::Finding { replay, .. } => replay.as_ref(),
            Self::Replaying(replay) => Some(replay),
            Self::Recording | Self::Serving => None,
        }
    }

    /// The same, to go on with it.
    pub(crate) fn replay_mut(&mut self) -> Option<&mut Replay> {
        match self {
            Self::Finding { replay, .. } => replay.as_mut(),
            Self::Replaying(replay) => Some(replay),
            Self::Recording | Self::Serving => None,
        }
    }

    /// The log is carried out, or abandoned.
    pub(crate) fn replayed(&mut self) -> Replay {
        match core::mem::replace(self, Self::Recording) {
            Self::Replaying(replay) => replay,
            Self::Finding { .. } | Self::Recording | Self::Serving => {
                panic!("no replay is under way")
            }
        }
    }

    /// Whether all that is left is to make durable what was decided.
    pub(crate) fn is_recording(&self) -> bool {
        matches!(self, Self::Recording)
    }

    /// What was decided is durable.
    pub(crate) fn serve(&mut self) {
        assert!(self.is_recording(), "it serves when all is recorded");
        *self = Self::Serving;
    }

    /// A device takes a position: nothing is served until all members know.
    pub(crate) fn record_again(&mut self) {
        assert!(
            self.is_serving(),
            "devices take positions of arrays that serve"
        );
        *self = Self::Recording;
    }
}
