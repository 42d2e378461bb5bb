//! Replays a trace: places its requests on a target and computes when each is due. The caller
//! fetches the requests, sends them and reports answers; times are its nanoseconds since the begin.

use crate::trace::{TraceFacts, TraceRequest, When};
use alloc::string::String;
use core::fmt;

/// The name that users type.
pub const REPLAY: &str = "replay";

/// Description of the workload, one line.
pub const SUMMARY: &str = "the requests of a trace, at their times, after answers, or flat out";

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// At the recorded times, whether or not earlier requests were answered.
    Recorded,
    /// One at a time, each after the recorded gap since the answer before.
    Answered,
    /// At once, as many as may be in flight.
    FlatOut,
}

impl Timing {
    /// The words of users.
    pub const NAMES: [(&str, Self); 3] = [
        ("recorded", Self::Recorded),
        ("answered", Self::Answered),
        ("flat-out", Self::FlatOut),
    ];

    /// Returns the word of users.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut words = Self::NAMES.iter();
        let found = words.find(|(_, timing)| *timing == self);
        found.expect("each has a word").0
    }
}

/// The treatment of requests beyond the end of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// The replay does not start.
    Refuse,
    /// Addresses count modulo the size of the target.
    Wrap,
    /// All addresses shrink or grow so that the trace fills the target.
    Scale,
}

impl Beyond {
    /// The words of users.
    pub const NAMES: [(&str, Self); 3] = [
        ("refuse", Self::Refuse),
        ("wrap", Self::Wrap),
        ("scale", Self::Scale),
    ];
}

/// Thousandths of the recorded speed.
pub const SPEED_ONE: u64 = 1000;

/// How a trace is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// When requests are sent.
    pub timing: Timing,
    /// Speed in thousandths of the recorded one; above 0.
    pub speed_permille: u64,
    /// The treatment of requests beyond the end of the target.
    pub beyond: Beyond,
    /// Most requests in flight; above 0.
    pub in_flight_max: u32,
}

/// The blocks of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The size of a block.
    pub block_bytes: u32,
    /// The number of blocks.
    pub blocks: u64,
}

/// The blocks of a request on the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The first block.
    pub first_block: u64,
    /// The number of blocks.
    pub blocks: u64,
}

/// The reason why a trace can't be replayed on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayError {
    /// The trace reaches beyond the target.
    Beyond {
        /// The end of the trace.
        end_bytes: u64,
        /// The end of the target.
        target_bytes: u64,
    },
    /// A request is longer than the target.
    Longer {
        /// Its length.
        bytes: u64,
        /// The length of the target.
        target_bytes: u64,
    },
    /// The trace has gaps and lacks response times, so it has no recorded times.
    NoTimes,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beyond {
                end_bytes,
                target_bytes,
            } => write!(
                f,
                "the trace reaches to byte {end_bytes}, and the target holds {target_bytes}: take \
                 a larger target, or let addresses wrap or scale"
            ),
            Self::Longer {
                bytes,
                target_bytes,
            } => write!(
                f,
                "a request of the trace has {bytes} bytes, and the target holds {target_bytes}: \
                 take a larger target"
            ),
            Self::NoTimes => f.write_str(
                "the trace has gaps after answers and lacks response times, so recorded times are \
                 unknown: take the timing answered or flat-out",
            ),
        }
    }
}

impl core::error::Error for ReplayError {}

/// A replay in progress.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    plan: ReplayPlan,
    extent: Extent,
    trace_bytes: u64,
    /// Recorded time of the last request and of its answer.
    recorded: Option<(u64, u64)>,
    /// Recorded time of the first request.
    first_ns: u64,
    in_flight: u32,
    answered_ns: u64,
}

impl Replay {
    /// Starts a replay of a trace with these facts.
    ///
    /// # Errors
    /// If the trace does not fit the target or the timing.
    pub fn new(plan: ReplayPlan, facts: &TraceFacts, extent: Extent) -> Result<Self, ReplayError> {
        assert!(plan.speed_permille > 0 && plan.in_flight_max > 0);
        let target_bytes = extent.blocks.saturating_mul(extent.block_bytes.into());
        // A request that begins within a block may need one block more than its length.
        let unaligned = u64::from(extent.block_bytes) - 1;
        if facts.largest_bytes > target_bytes.saturating_sub(unaligned) {
            return Err(ReplayError::Longer {
                bytes: facts.largest_bytes,
                target_bytes,
            });
        }
        if plan.beyond == Beyond::Refuse && facts.end_bytes > target_bytes {
            return Err(ReplayError::Beyond {
                end_bytes: facts.end_bytes,
                target_bytes,
            });
        }
        let is_complete = facts.responses == facts.requests;
        if plan.timing == Timing::Recorded && facts.has_gaps && !is_complete {
            return Err(ReplayError::NoTimes);
        }
        Ok(Self {
            plan,
            extent,
            trace_bytes: facts.end_bytes,
            recorded: None,
            first_ns: 0,
            in_flight: 0,
            answered_ns: 0,
        })
    }

    /// Bounds the requests in flight further, as memory or the target do.
    #[must_use]
    pub fn with_in_flight(mut self, most: u32) -> Self {
        assert!(most > 0);
        self.plan.in_flight_max = self.plan.in_flight_max.min(most);
        self
    }

    /// Returns true if another request may be taken before the next answer.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let most = match self.plan.timing {
            Timing::Answered => 1,
            Timing::Recorded | Timing::FlatOut => self.plan.in_flight_max,
        };
        self.in_flight < most
    }

    /// Takes the next request of the trace. Returns when it is due.
    ///
    /// # Panics
    /// If `has_room` is false.
    pub fn take(&mut self, request: &TraceRequest) -> u64 {
        assert!(self.has_room());
        let (at_ns, gap_ns) = match (request.when, self.recorded) {
            (When::At(at_ns), None) => (at_ns, 0),
            (When::At(at_ns), Some((_, answered_ns))) => (at_ns, at_ns.saturating_sub(answered_ns)),
            (When::After(gap_ns), None) => (gap_ns, gap_ns),
            (When::After(gap_ns), Some((_, answered_ns))) => {
                (answered_ns.saturating_add(gap_ns), gap_ns)
            }
        };
        if self.recorded.is_none() {
            self.first_ns = at_ns;
        }
        let answered_ns = at_ns.saturating_add(request.response_ns.unwrap_or(0));
        self.recorded = Some((at_ns, answered_ns));
        self.in_flight += 1;
        match self.plan.timing {
            Timing::Recorded => self.hastened(at_ns - self.first_ns),
            Timing::Answered => self.answered_ns.saturating_add(self.hastened(gap_ns)),
            Timing::FlatOut => 0,
        }
    }

    /// Reports an answer.
    ///
    /// # Panics
    /// If nothing is in flight.
    pub fn answered(&mut self, now_ns: u64) {
        self.in_flight -= 1;
        self.answered_ns = now_ns;
    }

    /// Returns the blocks of a request: all that it touches, moved to lie within the target.
    #[must_use]
    pub fn place(&self, request: &TraceRequest) -> Placed {
        let block_bytes = u64::from(self.extent.block_bytes);
        let target_bytes = self.extent.blocks * block_bytes;
        let offset_bytes = match self.plan.beyond {
            Beyond::Refuse => request.offset_bytes,
            Beyond::Wrap => request.offset_bytes % target_bytes,
            Beyond::Scale => {
                let scaled = u128::from(request.offset_bytes) * u128::from(target_bytes)
                    / u128::from(self.trace_bytes.max(1));
                let scaled = u64::try_from(scaled).expect("within the target");
                // The place within a block stays, so that aligned requests stay aligned.
                scaled / block_bytes * block_bytes + request.offset_bytes % block_bytes
            }
        };
        let first_block = offset_bytes / block_bytes;
        let end_block = (offset_bytes + request.bytes).div_ceil(block_bytes);
        let blocks = end_block - first_block;
        Placed {
            first_block: first_block.min(self.extent.blocks - blocks),
            blocks,
        }
    }

    fn hastened(&self, ns: u64) -> u64 {
        let hastened =
            u128::from(ns) * u128::from(SPEED_ONE) / u128::from(self.plan.speed_permille);
        u64::try_from(hastened).unwrap_or(u64::MAX)
    }
}

/// Parses a speed such as `2` or `0.25`.
#[must_use]
pub fn speed_permille(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 3 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let mut digits = String::from(whole);
    digits += fraction;
    digits.extend(core::iter::repeat_n('0', 3 - fraction.len()));
    let permille = digits.parse().ok()?;
    (1..=SPEED_MAX).contains(&permille).then_some(permille)
}

/// The highest speed: a million times the recorded one.
const SPEED_MAX: u64 = SPEED_ONE * 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceOperation;
    use alloc::vec;
    use alloc::vec::Vec;

    const EXTENT: Extent = Extent {
        block_bytes: 4096,
        blocks: 256,
    };

    fn plan(timing: Timing, beyond: Beyond) -> ReplayPlan {
        ReplayPlan {
            timing,
            speed_permille: 2000,
            beyond,
            in_flight_max: 2,
        }
    }

    fn request(when: When, offset_bytes: u64, bytes: u64, response: Option<u64>) -> TraceRequest {
        TraceRequest {
            when,
            operation: TraceOperation::Read,
            offset_bytes,
            bytes,
            client: 0,
            response_ns: response,
        }
    }

    fn facts(requests: &[TraceRequest]) -> TraceFacts {
        let mut facts = TraceFacts::default();
        for request in requests {
            facts.add(request);
        }
        facts
    }

    /// Each request is answered 7 ns after it was due.
    fn dues(timing: Timing, requests: &[TraceRequest]) -> Vec<u64> {
        let plan = plan(timing, Beyond::Refuse);
        let mut replay = Replay::new(plan, &facts(requests), EXTENT).unwrap();
        let each = requests.iter().map(|request| {
            let due = replay.take(request);
            replay.answered(due + 7);
            due
        });
        each.collect()
    }

    /// At twice the speed.
    #[test]
    fn requests_are_due_by_the_clock_or_after_answers() {
        let times = [100, 120, 180].map(|at| request(When::At(at), 0, 512, Some(10)));
        assert_eq!(dues(Timing::Recorded, &times), [0, 10, 40]);
        assert_eq!(dues(Timing::Answered, &times), [0, 7 + 5, 12 + 7 + 25]);
        assert_eq!(dues(Timing::FlatOut, &times), [0, 0, 0]);
        let gaps = [0, 10, 50].map(|gap| request(When::After(gap), 0, 512, Some(10)));
        assert_eq!(dues(Timing::Recorded, &gaps), [0, 10, 40]);
        assert_eq!(dues(Timing::Answered, &gaps), [0, 7 + 5, 12 + 7 + 25]);
        // Overlapping requests have no gap.
        let close = [100, 101].map(|at| request(When::At(at), 0, 512, Some(10)));
        assert_eq!(dues(Timing::Answered, &close), [0, 7]);
    }

    #[test]
    fn the_timing_bounds_the_requests_in_flight() {
        let requests = vec![request(When::At(0), 0, 512, None); 3];
        for (timing, most) in [
            (Timing::Recorded, 2),
            (Timing::Answered, 1),
            (Timing::FlatOut, 2),
        ] {
            let plan = plan(timing, Beyond::Refuse);
            let mut replay = Replay::new(plan, &facts(&requests), EXTENT).unwrap();
            let mut taken = 0;
            while replay.has_room() {
                replay.take(&requests[0]);
                taken += 1;
            }
            assert_eq!(taken, most);
            replay.answered(0);
            assert!(replay.has_room());
        }
    }

    #[test]
    fn requests_lie_within_the_target() {
        let place = |beyond, offset, bytes| {
            let one = request(When::At(0), offset, bytes, None);
            let mut facts = facts(&[one]);
            facts.end_bytes = 4 << 20;
            let replay = Replay::new(plan(Timing::FlatOut, beyond), &facts, EXTENT);
            let placed = replay.unwrap().place(&one);
            (placed.first_block, placed.blocks)
        };
        // A request covers every block that it touches.
        assert_eq!(place(Beyond::Wrap, 4096, 4096), (1, 1));
        assert_eq!(place(Beyond::Wrap, 4095, 2), (0, 2));
        assert_eq!(place(Beyond::Wrap, 512, 512), (0, 1));
        assert_eq!(place(Beyond::Wrap, (1 << 20) + 8192, 4096), (2, 1));
        // The end of a request that wraps is not split off.
        assert_eq!(place(Beyond::Wrap, (1 << 20) - 4096, 8192), (254, 2));
        assert_eq!(place(Beyond::Scale, 2 << 20, 4096), (128, 1));
        assert_eq!(place(Beyond::Scale, (4 << 20) - 4096, 4096), (255, 1));
        for beyond in [Beyond::Wrap, Beyond::Scale] {
            for offset in (0..4 << 20).step_by(3584) {
                let (first, blocks) = place(beyond, offset, 9000);
                assert!(first + blocks <= EXTENT.blocks && blocks >= 3);
            }
        }
    }

    #[test]
    fn unfit_traces_are_refused() {
        let refused = |timing, beyond, request: TraceRequest| {
            Replay::new(plan(timing, beyond), &facts(&[request]), EXTENT).unwrap_err()
        };
        let far = request(When::At(0), 1 << 20, 512, None);
        let error = refused(Timing::FlatOut, Beyond::Refuse, far);
        assert!(matches!(error, ReplayError::Beyond { end_bytes, .. } if end_bytes > 1 << 20));
        let long = request(When::At(0), 0, (1 << 20) + 1, None);
        let error = refused(Timing::FlatOut, Beyond::Scale, long);
        assert!(matches!(error, ReplayError::Longer { .. }));
        let gap = request(When::After(0), 0, 512, None);
        let error = refused(Timing::Recorded, Beyond::Refuse, gap);
        assert_eq!(error, ReplayError::NoTimes);
    }

    #[test]
    fn speeds_have_three_decimals() {
        for (text, permille) in [
            ("1", Some(1000)),
            ("0.25", Some(250)),
            ("1000000", Some(1_000_000_000)),
            ("1000001", None),
            ("0", None),
            ("0.0001", None),
            ("-1", None),
            ("1e3", None),
            (".5", None),
            ("", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(speed_permille(text), permille, "{text}");
        }
    }
}
