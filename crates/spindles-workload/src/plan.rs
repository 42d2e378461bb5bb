//! Turns a user's choices into the plan of a workload, with every default resolved.

use crate::issue::BlockWorkload;
use alloc::borrow::ToOwned as _;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;

/// A user's choices. `None` selects the kind's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Bytes of each target to work on, from its start.
    pub size_bytes: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Targets used at once, for kinds that work on several.
    pub streams: u32,
    /// Bytes per operation.
    pub chunk_bytes: Option<u32>,
    /// Most operations in flight.
    pub in_flight: Option<u32>,
    /// Total operations, for kinds that don't go through the whole size once.
    pub operations: Option<u64>,
    /// Set to run until the driver stops it.
    pub endless: bool,
    /// Percent of reads, for kinds that mix reads and writes.
    pub read_percent: Option<u32>,
}

impl Params {
    /// Returns the kind's own choices for one target.
    pub const fn new(size_bytes: u64, seed: u64) -> Self {
        Self {
            size_bytes,
            seed,
            streams: 1,
            chunk_bytes: None,
            in_flight: None,
            operations: None,
            endless: false,
            read_percent: None,
        }
    }
}

/// A workload of the table.
#[derive(Debug)]
pub struct Kind {
    /// The name that users type.
    pub name: &'static str,
    /// Returns one line that describes a plan of this kind.
    pub(crate) summary: fn(&Plan) -> String,
    /// The unit of its result.
    pub counted: Counted,
    /// True if the target's contents are lost.
    pub writes: bool,
    /// The number of its targets.
    pub streams: Streams,
    /// Default size of one operation.
    pub chunk_bytes: u32,
    /// Default number of operations in flight on one target.
    pub in_flight: u32,
    /// Default total of operations; `None`: once through the whole size.
    pub operations: Option<u64>,
    /// Default percent of reads; `None` if it does not mix reads and writes.
    pub read_percent: Option<u32>,
    pub(crate) start: fn(&Plan) -> Box<dyn BlockWorkload>,
}

impl Kind {
    /// Returns one line of help that describes the kind with its defaults.
    ///
    /// # Panics
    /// Never: every kind fits a gibibyte.
    pub fn summary(&'static self) -> String {
        let plan = self.plan(&Params::new(1 << 30, 0));
        plan.expect("a kind fits a gibibyte").summary()
    }

    /// Resolves every default and checks the choices.
    ///
    /// # Errors
    /// If the choices don't fit each other or the kind.
    pub fn plan(&'static self, params: &Params) -> Result<Plan, PlanError> {
        Plan::new(self, params)
    }
}

/// The number of targets of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// One target.
    One,
    /// The members of a target, each separately and all at once.
    Members,
}

/// The unit of a kind's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Bytes read, per second.
    ReadBytes,
    /// Bytes written, per second. A rewrite counts its bytes once, though they move twice.
    WrittenBytes,
    /// Reads, per second. A seek counts once, whether or not it writes back.
    Reads,
    /// Writes, per second.
    Writes,
    /// Reads and writes, per second.
    Operations,
}

/// A workload that can start.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The kind.
    pub kind: &'static Kind,
    /// The seed of everything random.
    pub seed: u64,
    /// Bytes of each target to work on: a multiple of the chunk.
    pub size_bytes: u64,
    /// Bytes per operation.
    pub chunk_bytes: u32,
    /// Targets used at once.
    pub streams: u32,
    /// Actors per target: the most operations in flight on a target.
    pub actors_per_stream: u32,
    /// Operations per target. The write-backs of `seeks` are not counted.
    pub operations: u64,
    /// Set to run until the driver stops it.
    pub endless: bool,
    /// Percent of reads, for kinds that mix reads and writes.
    pub read_percent: u32,
}

impl Plan {
    /// Refuses a size that is not a whole number of operations. Call it for a size that a user
    /// chose; other sizes are rounded down.
    ///
    /// # Errors
    /// The two nearest possible sizes.
    pub const fn check_size(&self, size_bytes: u64) -> Result<(), PlanError> {
        if size_bytes == self.size_bytes {
            return Ok(());
        }
        Err(PlanError::Uneven {
            size_bytes,
            chunk_bytes: self.chunk_bytes,
        })
    }

    pub(crate) fn new(kind: &'static Kind, params: &Params) -> Result<Self, PlanError> {
        let chunk_bytes = params.chunk_bytes.unwrap_or(kind.chunk_bytes);
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(512) {
            return Err(PlanError::Chunk { chunk_bytes });
        }
        let chunks = params.size_bytes / u64::from(chunk_bytes);
        if chunks == 0 {
            return Err(PlanError::Size {
                size_bytes: params.size_bytes,
                chunk_bytes,
            });
        }
        let in_flight = params.in_flight.unwrap_or(kind.in_flight);
        if !(1..=IN_FLIGHT_MAX).contains(&in_flight) {
            return Err(PlanError::InFlight { in_flight });
        }
        let streams = match kind.streams {
            Streams::One => 1,
            Streams::Members => params.streams,
        };
        if !(1..=STREAMS_MAX).contains(&streams) {
            return Err(PlanError::Streams { streams });
        }
        if kind.operations.is_none() && params.operations.is_some() {
            return Err(PlanError::Operations { kind: kind.name });
        }
        if params.endless && params.operations.is_some() {
            return Err(PlanError::Endless);
        }
        if params.operations == Some(0) {
            return Err(PlanError::NoOperations);
        }
        let read_percent = match (params.read_percent, kind.read_percent) {
            (Some(_), None) => return Err(PlanError::Mix { kind: kind.name }),
            (Some(percent), Some(_)) if percent > 100 => {
                return Err(PlanError::Percent { percent });
            }
            (chosen, own) => chosen.or(own).unwrap_or(0),
        };
        Ok(Self {
            kind,
            seed: params.seed,
            size_bytes: chunks * u64::from(chunk_bytes),
            chunk_bytes,
            streams,
            actors_per_stream: in_flight,
            operations: params.operations.or(kind.operations).unwrap_or(chunks),
            endless: params.endless,
            read_percent,
        })
    }

    /// Returns the actors of all streams: each needs a buffer of `chunk_bytes`.
    pub const fn actors(&self) -> u32 {
        self.streams * self.actors_per_stream
    }

    /// Returns the chunks in `size_bytes`.
    pub const fn chunks(&self) -> u64 {
        self.size_bytes / self.chunk_bytes as u64
    }

    /// Returns one line that describes the plan.
    pub fn summary(&self) -> String {
        (self.kind.summary)(self)
    }

    /// Returns the size of an operation, for summaries: `8 KiB`.
    pub(crate) fn chunk(&self) -> String {
        size_words(self.chunk_bytes.into())
    }

    /// Returns the number of operations in flight, for summaries.
    pub(crate) fn depth(&self) -> String {
        match self.actors_per_stream {
            1 => "one at a time".to_owned(),
            many => format!("{many} in flight"),
        }
    }

    /// For the summaries of sequential kinds: `8 KiB after 8 KiB, one at a time`.
    pub(crate) fn in_order(&self) -> String {
        let chunk = self.chunk();
        format!("{chunk} after {chunk}, {}", self.depth())
    }

    /// Starts the workload.
    pub fn start(&self) -> Box<dyn BlockWorkload> {
        (self.kind.start)(self)
    }
}

/// Returns a size in words: `8 KiB`.
pub(crate) fn size_words(bytes: u64) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// Most operations in flight on one target.
pub const IN_FLIGHT_MAX: u32 = 1024;
/// Most targets at once.
pub const STREAMS_MAX: u32 = 64;

/// The reason why a workload can't start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The chunk is not a possible size of an operation.
    Chunk {
        /// The requested chunk.
        chunk_bytes: u32,
    },
    /// The size does not hold a chunk.
    Size {
        /// The requested size.
        size_bytes: u64,
        /// The chunk that it must hold at least once.
        chunk_bytes: u32,
    },
    /// The size is not a whole number of operations.
    Uneven {
        /// The requested size: at least one chunk.
        size_bytes: u64,
        /// Bytes of an operation.
        chunk_bytes: u32,
    },
    /// A run without an operation has no result.
    NoOperations,
    /// Zero or too many operations in flight.
    InFlight {
        /// The requested number.
        in_flight: u32,
    },
    /// Zero or too many targets.
    Streams {
        /// The requested number.
        streams: u32,
    },
    /// Both a number of operations and an endless run were requested.
    Endless,
    /// The kind does not mix reads and writes.
    Mix {
        /// The kind's name.
        kind: &'static str,
    },
    /// The percentage is above 100.
    Percent {
        /// The requested percentage.
        percent: u32,
    },
    /// The kind goes through the whole size once.
    Operations {
        /// The kind's name.
        kind: &'static str,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunk { chunk_bytes } => write!(
                f,
                "a chunk of {chunk_bytes} bytes is not possible: choose a multiple of 512"
            ),
            Self::Size {
                size_bytes,
                chunk_bytes,
            } => write!(
                f,
                "a size of {size_bytes} bytes does not hold one chunk of {chunk_bytes} bytes: \
                 choose a larger size or a smaller chunk"
            ),
            Self::Uneven {
                size_bytes,
                chunk_bytes,
            } => {
                let chunk = u64::from(*chunk_bytes);
                let below = size_bytes / chunk * chunk;
                let above = below.saturating_add(chunk);
                write!(
                    f,
                    "a size of {size_bytes} bytes is not a multiple of an operation's \
                     {chunk_bytes} bytes: choose {below} or {above}"
                )
            }
            Self::NoOperations => {
                f.write_str("a run of 0 operations has no result: choose at least 1")
            }
            Self::InFlight { in_flight } => write!(
                f,
                "{in_flight} operations in flight are not possible: choose 1 to {IN_FLIGHT_MAX}"
            ),
            Self::Streams { streams } => write!(
                f,
                "{streams} targets at once are not possible: choose 1 to {STREAMS_MAX}"
            ),
            Self::Endless => f.write_str(
                "it can run for a time or for a number of operations: leave one of the two out",
            ),
            Self::Mix { kind } => write!(
                f,
                "{kind} does not mix reads and writes: take random-mixed, or leave the share of \
                 reads out"
            ),
            Self::Percent { percent } => {
                write!(f, "{percent} % of reads are not possible: choose 0 to 100")
            }
            Self::Operations { kind } => write!(
                f,
                "{kind} goes through the whole size once, so the number of operations can't be \
                 chosen: choose the size instead"
            ),
        }
    }
}

impl core::error::Error for PlanError {}
