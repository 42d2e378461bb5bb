//! The distributions of a trace, computed in bounded memory.

use spindles_measure::Histogram;
use spindles_workload::trace::{TraceOperation, TraceRequest, When};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Parts of the address range in which places are counted.
pub const TENTHS: usize = 10;
/// Different lengths that are counted exactly. Others count as the next power of two.
const SIZES_MAX: usize = 1024;
/// Ends of recent requests: a request that begins at one of them continues a sequence.
const RECENT: usize = 16;
/// Most requests in flight that are counted.
const DEPTH_MAX: usize = 1 << 16;
/// Most bins of places.
const BINS_MAX: usize = 4096;
/// Initial length of a bin.
const BIN_BYTES: u64 = 512;

/// The requests of one operation.
#[derive(Debug, Default)]
pub struct ClassProfile {
    /// Number of requests.
    pub requests: u64,
    /// Sum of the lengths.
    pub bytes: u64,
    /// Requests that begin where one of the last 16 of the trace ended.
    pub sequential: u64,
    /// Response times, where measured.
    pub responses: Histogram,
    /// Requests by length.
    sizes: BTreeMap<u64, u64>,
}

impl ClassProfile {
    /// Returns lengths and their counts, the most frequent first.
    pub fn sizes(&self) -> Vec<(u64, u64)> {
        let mut sizes: Vec<_> = self
            .sizes
            .iter()
            .map(|(size, count)| (*size, *count))
            .collect();
        sizes.sort_by_key(|(size, count)| (Reverse(*count), *size));
        sizes
    }

    /// Returns the length that this share of the requests does not exceed.
    pub fn size_at(&self, percent: u64) -> u64 {
        let mut seen = 0;
        for (size, count) in &self.sizes {
            seen += count;
            if u128::from(seen) * 100 >= u128::from(self.requests) * u128::from(percent) {
                return *size;
            }
        }
        0
    }

    fn count_size(&mut self, bytes: u64) {
        let is_known = self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&bytes);
        let size = if is_known {
            bytes
        } else {
            bytes.checked_next_power_of_two().unwrap_or(u64::MAX)
        };
        *self.sizes.entry(size).or_default() += 1;
    }
}

/// A place with many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotSpot {
    /// Its first byte.
    pub offset_bytes: u64,
    /// Its length.
    pub bytes: u64,
    /// Number of requests that begin in it.
    pub requests: u64,
}

/// Requests by place. Bins count reads and other requests, and grow with the range.
#[derive(Debug)]
struct Places {
    bin_bytes: u64,
    bins: Vec<[u64; 2]>,
}

impl Places {
    fn count(&mut self, offset_bytes: u64, is_read: bool) {
        while offset_bytes / self.bin_bytes >= u64::try_from(BINS_MAX).expect("small") {
            self.bin_bytes *= 2;
            let pairs = self.bins.chunks(2);
            let joined = pairs.map(|pair| {
                pair.iter().fold([0, 0], |[reads, others], [read, other]| {
                    [reads + read, others + other]
                })
            });
            self.bins = joined.collect();
        }
        let bin = usize::try_from(offset_bytes / self.bin_bytes).expect("few bins");
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, [0, 0]);
        }
        self.bins[bin][usize::from(!is_read)] += 1;
    }
}

/// The distributions of a trace.
#[derive(Debug)]
pub struct Profile {
    /// Number of requests.
    pub requests: u64,
    /// True if the trace is a closed loop with gaps after answers.
    pub has_gaps: bool,
    /// Time from the first request to the last; of gaps and known response times in a closed loop.
    pub span_ns: u64,
    /// The end of the highest request.
    pub end_bytes: u64,
    /// Gaps between requests, or after answers.
    pub gaps: Histogram,
    /// Requests in flight when one is sent, itself included. Empty without response times.
    pub depth: Histogram,
    classes: [ClassProfile; 5],
    places: Places,
    recent: [Option<u64>; RECENT],
    last_ns: Option<u64>,
    in_flight: BinaryHeap<Reverse<u64>>,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            requests: 0,
            has_gaps: false,
            span_ns: 0,
            end_bytes: 0,
            gaps: Histogram::new(),
            depth: Histogram::new(),
            classes: Default::default(),
            places: Places {
                bin_bytes: BIN_BYTES,
                bins: Vec::new(),
            },
            recent: [None; RECENT],
            last_ns: None,
            in_flight: BinaryHeap::new(),
        }
    }
}

impl Profile {
    /// Counts a request.
    pub fn add(&mut self, request: &TraceRequest) {
        self.requests += 1;
        match request.when {
            When::At(at_ns) => self.sent_at(at_ns, request.response_ns),
            When::After(gap_ns) => self.sent_after(gap_ns, request.response_ns),
        }
        let is_sequential = self.continues(request);
        let class = &mut self.classes[request.operation.index()];
        class.requests += 1;
        class.bytes = class.bytes.saturating_add(request.bytes);
        class.sequential += u64::from(is_sequential);
        if let Some(ns) = request.response_ns {
            class.responses.record(ns);
        }
        if request.operation != TraceOperation::Flush {
            class.count_size(request.bytes);
            self.end_bytes = self.end_bytes.max(request.end_bytes());
            let is_read = request.operation == TraceOperation::Read;
            self.places.count(request.offset_bytes, is_read);
        }
    }

    fn sent_at(&mut self, at_ns: u64, response_ns: Option<u64>) {
        if let Some(last_ns) = self.last_ns {
            self.gaps.record(at_ns - last_ns);
            self.span_ns += at_ns - last_ns;
        }
        self.last_ns = Some(at_ns);
        while self
            .in_flight
            .peek()
            .is_some_and(|Reverse(end_ns)| *end_ns <= at_ns)
        {
            self.in_flight.pop();
        }
        if let Some(ns) = response_ns {
            if self.in_flight.len() < DEPTH_MAX {
                self.in_flight.push(Reverse(at_ns.saturating_add(ns)));
            }
            self.depth
                .record(u64::try_from(self.in_flight.len()).expect("bounded"));
        }
    }

    fn sent_after(&mut self, gap_ns: u64, response_ns: Option<u64>) {
        self.has_gaps = true;
        // The first request follows no answer.
        if self.requests > 1 {
            self.gaps.record(gap_ns);
        }
        let until_answer_ns = gap_ns.saturating_add(response_ns.unwrap_or(0));
        self.span_ns = self.span_ns.saturating_add(until_answer_ns);
        self.depth.record(1);
    }

    /// Returns true if a request begins where a recent one ended.
    fn continues(&mut self, request: &TraceRequest) -> bool {
        if request.operation == TraceOperation::Flush {
            return false;
        }
        let begin = Some(request.offset_bytes);
        let found = self.recent.iter().position(|end| *end == begin);
        // The longest unused end comes first, and makes room.
        self.recent[found.unwrap_or(0)..].rotate_left(1);
        self.recent[RECENT - 1] = Some(request.end_bytes());
        found.is_some()
    }

    /// Returns the requests of an operation.
    pub fn class(&self, operation: TraceOperation) -> &ClassProfile {
        &self.classes[operation.index()]
    }

    /// Returns the operations that occur, with their requests.
    pub fn classes(&self) -> impl Iterator<Item = (TraceOperation, &ClassProfile)> {
        let all = TraceOperation::ALL.into_iter();
        let all = all.map(|operation| (operation, self.class(operation)));
        all.filter(|(_, class)| class.requests > 0)
    }

    /// Returns reads and other requests in each tenth of the address range. A bin across a border
    /// counts where its first byte lies.
    pub fn tenths(&self) -> [[u64; 2]; TENTHS] {
        let mut tenths = [[0, 0]; TENTHS];
        for (number, [reads, others]) in (0_u64..).zip(&self.places.bins) {
            let begin = u128::from(number) * u128::from(self.places.bin_bytes);
            let tenth = begin * 10 / u128::from(self.end_bytes.max(1));
            let tenth = usize::try_from(tenth).expect("few").min(TENTHS - 1);
            tenths[tenth][0] += reads;
            tenths[tenth][1] += others;
        }
        tenths
    }

    /// Returns the busiest places, the busiest first.
    pub fn hot_spots(&self, most: usize) -> Vec<HotSpot> {
        let bin_bytes = self.places.bin_bytes;
        let bins = (0_u64..).zip(&self.places.bins);
        let mut spots: Vec<_> = bins
            .map(|(number, [reads, others])| HotSpot {
                offset_bytes: number * bin_bytes,
                bytes: bin_bytes,
                requests: reads + others,
            })
            .filter(|spot| spot.requests > 0)
            .collect();
        spots.sort_by_key(|spot| (Reverse(spot.requests), spot.offset_bytes));
        spots.truncate(most);
        spots
    }

    /// Returns how many requests begin in the busiest places that make up this share of the
    /// address range, in permille of all requests with a place.
    pub fn busiest_permille(&self, percent: usize) -> u64 {
        let bins = &self.places.bins;
        let mut counts: Vec<u64> = bins.iter().map(|[reads, others]| reads + others).collect();
        counts.sort_unstable_by_key(|count| Reverse(*count));
        let all: u64 = counts.iter().sum();
        let most = (bins.len() * percent).div_ceil(100);
        let busiest: u64 = counts.iter().take(most).sum();
        busiest.saturating_mul(1000) / all.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(at: u64, operation: TraceOperation, offset: u64, bytes: u64) -> TraceRequest {
        TraceRequest {
            when: When::At(at),
            operation,
            offset_bytes: offset,
            bytes,
            client: 0,
            response_ns: Some(250),
        }
    }

    fn profile(requests: impl IntoIterator<Item = TraceRequest>) -> Profile {
        let mut profile = Profile::default();
        requests
            .into_iter()
            .for_each(|request| profile.add(&request));
        profile
    }

    /// Two interleaved readers in sequence, and writes at one place.
    #[test]
    fn sequences_depth_gaps_and_places_are_counted() {
        let all = (0..100).flat_map(|step| {
            let at = step * 300;
            [
                request(at, TraceOperation::Read, step * 4096, 4096),
                request(
                    at + 100,
                    TraceOperation::Read,
                    (1 << 30) + step * 8192,
                    8192,
                ),
                request(at + 200, TraceOperation::Write, 1 << 29, 512),
            ]
        });
        let profile = profile(all);
        let read = profile.class(TraceOperation::Read);
        assert_eq!((read.requests, read.sequential), (200, 198));
        assert_eq!(read.bytes, 100 * 12_288);
        assert_eq!((read.size_at(50), read.size_at(51)), (4096, 8192));
        let write = profile.class(TraceOperation::Write);
        assert_eq!((write.requests, write.sequential), (100, 0));
        assert_eq!(profile.span_ns, 99 * 300 + 200);
        assert_eq!((profile.gaps.total(), profile.gaps.max()), (299, 100));
        // Each takes 250 and the next comes after 100.
        assert_eq!(
            (profile.depth.max(), profile.depth.percentile(99.0)),
            (3, 3)
        );
        let tenths = profile.tenths();
        assert_eq!((tenths[0], tenths[9]), ([100, 0], [100, 0]));
        let middle: u64 = tenths[1..9]
            .iter()
            .map(|[reads, others]| reads + others)
            .sum();
        assert_eq!(middle, 100);
        let hot = profile.hot_spots(3);
        assert_eq!(hot[0].requests, 100);
        assert!(
            (hot[0].offset_bytes..hot[0].offset_bytes + hot[0].bytes).contains(&(1 << 29))
                || hot.iter().any(|spot| spot.offset_bytes <= 1 << 29)
        );
        assert_eq!(profile.busiest_permille(1), 1000);
    }

    #[test]
    fn equal_use_has_no_busy_places() {
        let all = (0..40_960).map(|step| {
            request(
                step,
                TraceOperation::Write,
                (step * 7919) % 40_960 * 512,
                512,
            )
        });
        let profile = profile(all);
        for percent in [1, 10, 50] {
            let permille = profile.busiest_permille(percent);
            let even = u64::try_from(percent * 10).unwrap();
            assert!(
                (even..=even + 10).contains(&permille),
                "{percent}: {permille}"
            );
        }
        for [reads, others] in profile.tenths() {
            assert!(reads == 0 && (4000..4200).contains(&others), "{others}");
        }
    }

    /// Memory is bounded, whatever the lengths, places and answers.
    #[test]
    fn the_profile_stays_small() {
        let all = (0..200_000_u64).map(|step| TraceRequest {
            when: When::At(step),
            operation: TraceOperation::Read,
            offset_bytes: step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1,
            bytes: step + 1,
            client: u32::try_from(step).unwrap(),
            response_ns: Some(u64::MAX / 2),
        });
        let profile = profile(all);
        let read = profile.class(TraceOperation::Read);
        assert!(read.sizes.len() < SIZES_MAX + 64);
        assert!(profile.in_flight.len() <= DEPTH_MAX && profile.places.bins.len() <= BINS_MAX);
        assert_eq!(read.sizes.values().sum::<u64>(), 200_000);
        let places = profile.places.bins.iter();
        assert_eq!(places.map(|[reads, _]| reads).sum::<u64>(), 200_000);
    }

    #[test]
    fn closed_loops_have_gaps_after_answers() {
        let profile = profile([100, 50, 50].map(|gap| TraceRequest {
            when: When::After(gap),
            ..request(0, TraceOperation::Read, 0, 512)
        }));
        assert!(profile.has_gaps);
        assert_eq!((profile.gaps.total(), profile.gaps.max()), (2, 50));
        assert_eq!(profile.span_ns, 200 + 3 * 250);
        assert_eq!(profile.depth.max(), 1);
    }
}
