//! Progress of the opening of an array.

use crate::{durable::Loading, log::replay::Replay};
use spindles_format::AreaKind;

/// Progress of the opening of an array. Requests wait until it serves.
///
/// ```text
///  Finding ──all read and flushed──▶ Replaying ──log replayed──▶ Recording ──▶ Serving
///     └───────────────────── no log ───────────────────────────▶     ▲            │
///                                                                    └──a device──┘
///                                                                    takes a position
/// ```
#[derive(Clone, Debug)]
pub(crate) enum Opening {
    /// Flushing the members, and reading the bad-block list and the bitmaps.
    Finding {
        /// The reads of the bad-block list and the bitmaps; `None` when they are done.
        loading: Option<Loading>,
        /// The replay that follows.
        replay: Option<Replay>,
    },
    /// Carrying out the writes that the journals hold after a crash.
    Replaying(Replay),
    /// Making the results durable: superblocks, bitmaps, the bad-block list, a new log.
    Recording,
    Serving,
}

impl Opening {
    /// Returns true until everything on the members is read and flushed.
    pub(crate) fn is_finding(&self) -> bool {
        matches!(self, Self::Finding { .. })
    }

    /// Returns true if the opening is complete.
    #[inline]
    pub(crate) fn is_serving(&self) -> bool {
        matches!(self, Self::Serving)
    }

    /// Returns the state of the reads. `None` when the list and the bitmaps are read.
    pub(crate) fn loading(&self) -> Option<Loading> {
        match self {
            Self::Finding { loading, .. } => *loading,
            Self::Replaying(_) | Self::Recording | Self::Serving => None,
        }
    }

    /// Sets the state of the reads; `None` when they are done.
    pub(crate) fn set_loading(&mut self, to: Option<Loading>) {
        let Self::Finding { loading, .. } = self else {
            panic!("areas are read at the beginning");
        };
        *loading = to;
    }

    /// Sets the replay that begins after `Finding`.
    pub(crate) fn will_replay(&mut self, log: Option<Replay>) {
        let Self::Finding { replay, .. } = self else {
            panic!("what is replayed is known at the beginning");
        };
        *replay = log;
    }

    /// Leaves `Finding` once everything is read, if everything is flushed. Returns true if it does
    /// now.
    pub(crate) fn found(&mut self) -> bool {
        let Self::Finding {
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

    /// Returns the replay that is due or under way.
    pub(crate) fn replay(&self) -> Option<&Replay> {
        match self {
            Self::Finding { replay, .. } => replay.as_ref(),
            Self::Replaying(replay) => Some(replay),
            Self::Recording | Self::Serving => None,
        }
    }

    /// Like `replay`, mutable.
    pub(crate) fn replay_mut(&mut self) -> Option<&mut Replay> {
        match self {
            Self::Finding { replay, .. } => replay.as_mut(),
            Self::Replaying(replay) => Some(replay),
            Self::Recording | Self::Serving => None,
        }
    }

    /// Ends the replay, which was carried out or abandoned.
    pub(crate) fn replayed(&mut self) -> Replay {
        match core::mem::replace(self, Self::Recording) {
            Self::Replaying(replay) => replay,
            Self::Finding { .. } | Self::Recording | Self::Serving => {
                panic!("no replay is under way")
            }
        }
    }

    /// Returns true if the results only have to be made durable.
    pub(crate) fn is_recording(&self) -> bool {
        matches!(self, Self::Recording)
    }

    /// Begins to serve: the results are durable.
    pub(crate) fn serve(&mut self) {
        assert!(self.is_recording(), "it serves when all is recorded");
        *self = Self::Serving;
    }

    /// Goes back to `Recording`, because a device takes a position: no requests are served until
    /// all superblocks say so.
    pub(crate) fn record_again(&mut self) {
        assert!(
            self.is_serving(),
            "devices take positions of arrays that serve"
        );
        *self = Self::Recording;
    }

    /// Returns true while that area is read.
    pub(crate) fn is_reading(&self, area: AreaKind) -> bool {
        let loading = self.loading();
        loading.is_some_and(|loading| loading.area == area)
    }

    /// Returns the replay that is under way.
    pub(crate) fn replay_under_way(&mut self) -> &mut Replay {
        self.replay_mut().expect("a replay is under way")
    }
}
