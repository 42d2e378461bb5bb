//! Measures the engine and its driver on one core: a closed loop over members that cost nothing
//! (`null`) or only memory accesses (`mem`). On memory, arrays without metadata are compared with
//! arrays as they are created by default.

use spindles_admin::create::{self, CreateOptions};
use spindles_admin::plain::{self, PlainError, PlainOptions};
use spindles_array::{Target, open_device};
use spindles_block::{BlockIndex, BufferId, BufferSlice, Operation, Request};
use spindles_device::OpenOptions;
use spindles_device::clock::thread_time;
use spindles_layout::{Expression, MISSING};

/// The arrays to measure, unless the user names some.
pub(crate) const ARRAYS: &[&str] = &[
    DEVICE,
    "concat(4)",
    "raid0(4)",
    "raid1(2)",
    "raid10(4)",
    "raid4(4)",
    "raid5(4)",
    "raid6(6)",
    "raid7(7)",
];

/// A single device, without an engine: what remains is the driver.
pub(crate) const DEVICE: &str = "device";

/// Answers between two readings of the clock, each of which costs as much as a few requests.
const ANSWERS_PER_LOOK: u64 = 256;
/// The most requests in flight.
const DEPTH_MAX: u32 = 32;

/// The kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Random reads of 4 KiB.
    Read,
    /// Random writes of 4 KiB.
    Write,
    /// Sequential writes of whole stripes, or of 64 KiB if the level has no stripes.
    Stripes,
}

impl RequestKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Stripes];

    /// Returns the name for tables and records.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read 4 KiB",
            Self::Write => "write 4 KiB",
            Self::Stripes => "write stripes",
        }
    }
}

/// The members under the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// Nothing is stored.
    Null,
    /// Members lie in the memory of this process.
    Mem,
}

impl Members {
    /// All kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Null, Self::Mem];

    /// Returns the name for tables and records.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Mem => "mem",
        }
    }

    fn device(self, member_bytes: u64) -> String {
        match self {
            Self::Null => format!("null:{member_bytes}"),
            Self::Mem => format!("mem:{member_bytes}"),
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// The array, such as `raid5(4)`, or [`DEVICE`].
    pub array: String,
    /// The kind of its members.
    pub members: Members,
    /// True if its first member is missing.
    pub degraded: bool,
    /// True for an array as created by default, with checksums and log. Otherwise it has neither,
    /// and no superblocks.
    pub promises: bool,
    /// Requests in flight.
    pub depth: u32,
    /// The kind of requests.
    pub work: RequestKind,
}

impl Case {
    fn same_devices(&self, other: &Self) -> bool {
        self.array == other.array
            && self.members == other.members
            && self.degraded == other.degraded
            && self.promises == other.promises
    }

    /// Returns true if the two differ at most in `promises`.
    #[must_use]
    pub(crate) fn is_same_but_promises(&self, other: &Self) -> bool {
        let promises = other.promises;
        *other
            == Self {
                promises,
                ..self.clone()
            }
    }
}

/// The size and duration of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// Member size.
    pub member_bytes: u64,
    /// Duration of each slice of a case.
    pub slice_ns: u64,
    /// Number of slices; the median counts.
    pub slices: u32,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            member_bytes: 128 << 20,
            slice_ns: 40_000_000,
            slices: 3,
        }
    }
}

/// The result of one measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figure {
    /// The measured case.
    pub case: Case,
    /// Request size.
    pub request_bytes: u32,
    /// Requests answered per second of processor time: the median over the slices.
    pub requests_per_s: u64,
    /// The rates of the slowest and the fastest slice.
    pub requests_per_s_range: (u64, u64),
}

impl Figure {
    /// Returns the bytes moved per second.
    #[must_use]
    pub(crate) fn bytes_per_s(&self) -> u64 {
        self.requests_per_s
            .saturating_mul(u64::from(self.request_bytes))
    }
}

/// Returns the cases for an array: all members, depths and kinds of work. Includes degraded ones if
/// the array survives that.
///
/// # Errors
///
/// If the array is invalid.
pub(crate) fn cases(array: &str) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for members in Members::ALL {
        for degraded in [false, true] {
            if degraded && array == DEVICE {
                continue;
            }
            let case = |promises, depth, work| Case {
                array: array.to_owned(),
                members,
                degraded,
                promises,
                depth,
                work,
            };
            let small = Effort {
                member_bytes: 1 << 20,
                ..Effort::default()
            };
            match open(&case(false, 1, RequestKind::Read), &small) {
                Ok(_) => {}
                Err(error) if degraded && error.is::<PlainError>() => continue,
                Err(error) => return Err(error),
            }
            // Checksums and log need members that store data.
            let can_promise = members == Members::Mem && array != DEVICE;
            for promises in [false, true] {
                if promises && !can_promise {
                    continue;
                }
                let each = RequestKind::ALL
                    .into_iter()
                    .flat_map(|work| [1, DEPTH_MAX].map(|depth| (depth, work)));
                cases.extend(each.map(|(depth, work)| case(promises, depth, work)));
            }
        }
    }
    Ok(cases)
}

/// Opens the array of a case.
fn open(case: &Case, effort: &Effort) -> anyhow::Result<Box<dyn Target>> {
    let open = OpenOptions {
        requests_max: DEPTH_MAX,
        ..OpenOptions::default()
    };
    let device = case.members.device(effort.member_bytes);
    if case.array == DEVICE {
        return Ok(open_device(&device, &open)?);
    }
    let mut is_lost = case.degraded;
    let counted = Expression::parse_counted(&case.array).map_err(PlainError::from)?;
    let expression = counted.with_leaves(&mut |_| {
        let device = if is_lost { MISSING } else { &device };
        is_lost = false;
        device.to_owned()
    });
    let chunk_bytes = Some(64 << 10);
    if case.promises {
        let options = CreateOptions {
            chunk_bytes,
            open,
            ..CreateOptions::new("bench")
        };
        return Ok(create::fresh(&expression, &options)?);
    }
    let options = PlainOptions {
        open,
        chunk_bytes,
        ..PlainOptions::default()
    };
    Ok(plain::open(&expression, &options)?.target)
}

/// Writes every block once.
fn fill(target: &mut dyn Target) {
    let blocks = 1 << 8;
    let buffer = target.allocate(blocks);
    for (seed, bytes) in (0_u64..).zip(target.buffer_mut(buffer).chunks_mut(8)) {
        bytes.copy_from_slice(&seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
    for start in 0..target.facts().blocks / u64::from(blocks) {
        let request = Request {
            token: 0,
            operation: Operation::Write { fua: false },
            block: BlockIndex(start * u64::from(blocks)),
            blocks,
            buffer: BufferSlice {
                buffer,
                first_block: 0,
            },
        };
        target.submit(request).expect("one in flight");
        target.poll(true);
    }
}

/// A target under load.
struct Load {
    target: Box<dyn Target>,
    buffer: BufferId,
    work: RequestKind,
    blocks: u32,
    /// The number of different places for a request.
    places: u64,
    next: u64,
    random: u64,
}

impl Load {
    fn new(mut target: Box<dyn Target>, case: &Case) -> Self {
        let facts = target.facts();
        let block_bytes = facts.block_size.bytes();
        let blocks = match (case.work, &facts.array) {
            (RequestKind::Read | RequestKind::Write, _) => 4096 / block_bytes,
            (RequestKind::Stripes, Some(array)) => {
                array.chunk_blocks * u32::from(array.data_chunks)
            }
            (RequestKind::Stripes, None) => (64 << 10) / block_bytes,
        };
        let places = facts.blocks / u64::from(blocks);
        let buffer = target.allocate(blocks * case.depth);
        Self {
            target,
            buffer,
            work: case.work,
            blocks,
            places,
            next: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    #[inline]
    fn request(&mut self, token: u64) -> Request {
        let place = match self.work {
            RequestKind::Read | RequestKind::Write => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                // The high half of the product spreads over the places without a division.
                let high = (u128::from(self.random) * u128::from(self.places)) >> 64;
                u64::try_from(high).expect("less than places")
            }
            RequestKind::Stripes => {
                self.next = if self.next + 1 < self.places {
                    self.next + 1
                } else {
                    0
                };
                self.next
            }
        };
        let first_block = u32::try_from(token).expect("less than depth") * self.blocks;
        Request {
            token,
            operation: match self.work {
                RequestKind::Read => Operation::Read,
                RequestKind::Write | RequestKind::Stripes => Operation::Write { fua: false },
            },
            block: BlockIndex(place * u64::from(self.blocks)),
            blocks: self.blocks,
            buffer: BufferSlice {
                buffer: self.buffer,
                first_block,
            },
        }
    }

    fn submit(&mut self, token: u64) {
        let request = self.request(token);
        self.target.submit(request).expect("depth is reserved");
    }

    fn answer(&mut self) -> u64 {
        let reply = self.target.poll(true).expect("in flight");
        assert!(reply.result.is_ok(), "the members have no errors");
        reply.token
    }

    /// Measures the requests per second of processor time over one slice. The loop never waits, so
    /// this is the rate of a dedicated core.
    fn slice(&mut self, depth: u32, slice_ns: u64) -> u64 {
        let start = thread_time();
        (0..u64::from(depth)).for_each(|token| self.submit(token));
        let mut answers = 0_u64;
        loop {
            for _ in 0..ANSWERS_PER_LOOK {
                let token = self.answer();
                self.submit(token);
            }
            answers += ANSWERS_PER_LOOK;
            let passed = thread_time().ns_since(start);
            if passed >= slice_ns {
                for _ in 0..depth {
                    self.answer();
                }
                let rate = u128::from(answers) * 1_000_000_000 / u128::from(passed);
                return u64::try_from(rate).expect("64 bits");
            }
        }
    }
}

/// Measures cases. Consecutive cases with the same array and members share them, because filling
/// memory takes longer than measuring.
pub(crate) struct Bench {
    effort: Effort,
    open: Option<(Case, Box<dyn Target>)>,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bench with {:?}", self.effort)
    }
}

impl Bench {
    /// Creates a bench without measurements.
    #[must_use]
    pub(crate) fn new(effort: Effort) -> Self {
        Self { effort, open: None }
    }

    /// Measures one case.
    ///
    /// # Errors
    ///
    /// If the array is invalid.
    pub(crate) fn measure(&mut self, case: &Case) -> anyhow::Result<Figure> {
        let target = match self.open.take() {
            Some((open, target)) if case.same_devices(&open) => target,
            other => {
                drop(other); // Frees memory that `open` may need.
                let mut target = open(case, &self.effort)?;
                if case.members == Members::Mem {
                    fill(target.as_mut());
                }
                target
            }
        };
        let mut load = Load::new(target, case);
        load.slice(case.depth, self.effort.slice_ns / 4);
        let mut rates: Vec<u64> = (0..self.effort.slices.max(1))
            .map(|_| load.slice(case.depth, self.effort.slice_ns))
            .collect();
        rates.sort_unstable();
        let request_bytes = load.blocks * load.target.facts().block_size.bytes();
        self.open = Some((case.clone(), load.target));
        Ok(Figure {
            case: case.clone(),
            request_bytes,
            requests_per_s: rates[rates.len() / 2],
            requests_per_s_range: (rates[0], rates[rates.len() - 1]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_can_be_measured() {
        let effort = Effort {
            member_bytes: 2 << 20,
            slice_ns: 10_000,
            slices: 1,
        };
        for array in ARRAYS.iter().copied().chain(["raid0(raid1(2),raid1(2))"]) {
            let cases = cases(array).unwrap();
            let degraded = cases.iter().any(|case| case.degraded);
            let redundant = !matches!(array, DEVICE | "concat(4)" | "raid0(4)");
            assert_eq!(degraded, redundant, "{array}");
            let mut bench = Bench::new(effort);
            for case in cases {
                let figure = bench.measure(&case).unwrap();
                assert!(figure.requests_per_s > 0, "{case:?}");
                assert!(figure.bytes_per_s() >= figure.requests_per_s * 4096);
                let (open, target) = bench.open.as_ref().unwrap();
                let status = target.status();
                let is_kept = status.is_some_and(|status| status.generation > 0);
                assert_eq!(is_kept, open.promises, "{open:?}");
            }
        }
        assert!(cases("raid6(2)").is_err());
        assert!(cases("raid5(").is_err());
    }
}
