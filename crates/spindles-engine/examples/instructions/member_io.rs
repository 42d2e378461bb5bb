//! Counts the member I/O of writes: the same on every machine, unlike times.

use crate::null::{Null, Pending, Promises, Setup};
use spindles_block::{Instant, MemberIo, MemberSet, Operation};
use spindles_engine::Command;
use spindles_layout::Level;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const MIB_BLOCKS: u32 = 256;
const WRITE: Operation = Operation::Write { fua: false };
/// The most requests in flight.
const DEPTH: u32 = 32;
/// The time that a round of member I/O takes on the array's clock, so that deferred work of the
/// engine runs.
const ROUND_NS: u64 = 100_000;
/// The part of the array that was written before, in blocks: 192 MiB, in whole stripes.
const WRITTEN_BLOCKS: u64 = 3 << 14;
/// Requests of the shorter of two runs; the longer has twice as many.
const REQUESTS_STEADY: u64 = 2048;
/// Requests of first touches anywhere, all in different regions.
const REQUESTS_FIRST: u64 = 256;
/// Requests of first touches in order: the number of regions made ready ahead no longer grows.
const REQUESTS_IN_ORDER: u64 = 1024;

/// The size and the order of writes.
#[derive(Clone, Copy)]
enum Size {
    /// Sequential writes of 1 MiB.
    Mib,
    /// Sequential writes of a stripe.
    Stripe,
    /// Writes of single blocks, at random places.
    Block,
}

static CASES: &[(&str, u8, &[Size])] = &[
    ("raid0", 4, &[Size::Mib, Size::Block]),
    ("raid1", 2, &[Size::Mib, Size::Block]),
    ("raid10", 4, &[Size::Mib, Size::Block]),
    ("raid5", 4, &[Size::Stripe, Size::Mib, Size::Block]),
    ("raid6", 6, &[Size::Stripe, Size::Mib, Size::Block]),
];

/// The state of the places that are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    /// Written before.
    Written,
    /// Never written, on members that have to write zeros.
    New,
    /// Never written, on members that write zeros without moving bytes.
    Unmapped,
}

/// A kind of write to a kind of array.
#[derive(Clone, Copy)]
struct Case {
    setup: Setup,
    size: Size,
    places: Places,
    depth: u64,
}

/// Returns a heading, and a line for each case: five words that name it, then the counts per
/// request.
pub(crate) fn table() -> String {
    let mut text = format!(
        "{:<10}{:<8}{:<10}{:<9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "# array",
        "write",
        "promises",
        "places",
        "in-flight",
        "flushes",
        "FUA",
        "writes",
        "bytes",
        "zeroed",
        "reads",
        "seeks",
        "rounds"
    );
    for (level, members, sizes) in CASES {
        let level = Level::by_name(level).expect("a level");
        for size in *sizes {
            for (promises, places) in [
                (Promises::None, Places::Written),
                (Promises::Default, Places::Written),
                (Promises::Default, Places::New),
                (Promises::Default, Places::Unmapped),
            ] {
                for depth in [1, DEPTH] {
                    let setup = Setup {
                        level,
                        members: *members,
                        chunk_blocks: level.chunk_bytes / 4096,
                        missing: MemberSet::EMPTY,
                        promises,
                        zeroes: places == Places::Unmapped,
                        depth: DEPTH,
                        member_blocks: 1 << 20,
                    };
                    let case = Case {
                        setup,
                        size: *size,
                        places,
                        depth: depth.into(),
                    };
                    writeln!(text, "{}", case.line()).expect("strings take everything");
                }
            }
        }
    }
    text
}

impl Case {
    fn line(&self) -> String {
        let (array, size) = (
            format!("{}({})", self.setup.level.name, self.setup.members),
            match self.size {
                Size::Mib => "1M",
                Size::Stripe => "stripe",
                Size::Block => "4k",
            },
        );
        let promises = match self.setup.promises {
            Promises::Default => "default",
            Promises::None | Promises::Scratch => "none",
        };
        let places = match self.places {
            Places::Written => "written",
            Places::New => "new",
            Places::Unmapped => "unmapped",
        };
        let mut line = format!(
            "{array:<10}{size:<8}{promises:<10}{places:<9}{:>9}",
            self.depth
        );
        for hundredths in self.per_request() {
            let count = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            write!(line, "{count:>9}").expect("strings take everything");
        }
        line
    }

    /// Returns counts in hundredths: flushes, FUA writes, writes, bytes written and bytes zeroed
    /// for each byte of the client, reads, seeks, and rounds of member I/O until all requests are
    /// answered. A seek is an operation that does not begin where the last one on that member
    /// ended.
    fn per_request(&self) -> [u64; 8] {
        let requests = match (self.places, self.size) {
            (Places::Written, _) => REQUESTS_STEADY,
            (_, Size::Block) => REQUESTS_FIRST,
            (_, Size::Mib | Size::Stripe) => REQUESTS_IN_ORDER,
        };
        // Twice as many requests minus once: the costs of opening, filling and closing cancel.
        let (once, twice) = (self.tally(requests), self.tally(2 * requests));
        let blocks = requests * u64::from(self.blocks());
        [
            (twice.flushes - once.flushes, requests),
            (twice.fua - once.fua, requests),
            (twice.writes - once.writes, requests),
            (twice.written_blocks - once.written_blocks, blocks),
            (twice.zeroed_blocks - once.zeroed_blocks, blocks),
            (twice.reads - once.reads, requests),
            (twice.seeks - once.seeks, requests),
            (twice.rounds - once.rounds, requests),
        ]
        .map(|(count, per)| (count * 100 + per / 2) / per)
    }

    fn blocks(&self) -> u32 {
        match self.size {
            Size::Mib => MIB_BLOCKS,
            Size::Stripe => {
                let data_chunks = self.setup.geometry().data_chunks();
                self.setup.chunk_blocks * u32::from(data_chunks)
            }
            Size::Block => 1,
        }
    }

    /// The place of a request, counted in requests.
    fn place(&self, request: u64) -> u64 {
        let blocks = if self.places == Places::Written {
            WRITTEN_BLOCKS
        } else {
            self.setup.geometry().blocks()
        };
        let places = blocks / u64::from(self.blocks());
        match self.size {
            Size::Mib | Size::Stripe => request % places,
            // By the golden section: all different, and none near the last ones.
            Size::Block => {
                let part = request.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let place = (u128::from(part) * u128::from(places)) >> 64;
                u64::try_from(place).expect("less than places")
            }
        }
    }

    /// Counts the member I/O up to the close of the array.
    fn tally(&self, requests: u64) -> Tally {
        let mut load = Load(self.setup.open());
        load.0.asked = Some(Vec::new());
        if self.places == Places::Written {
            let mib = u64::from(MIB_BLOCKS);
            for place in 0..WRITTEN_BLOCKS / mib {
                load.submit(place * mib, MIB_BLOCKS);
                load.run_until(place + 1);
            }
        }
        let before = load.0.replies;
        let begun = load.0.now;
        let blocks = self.blocks();
        for request in 0..requests {
            load.submit(self.place(request) * u64::from(blocks), blocks);
            // As many new requests come as a round answers.
            load.run_until(before + (request + 1).saturating_sub(self.depth - 1));
        }
        load.run_until(before + requests);
        let rounds = (load.0.now.0 - begun.0) / ROUND_NS;
        load.close();
        assert_eq!(load.0.errors, 0);
        Tally {
            rounds,
            ..Tally::of(&load.0.asked.expect("put there"))
        }
    }
}

/// An array whose member I/O goes in rounds: everything under way completes, then the engine
/// continues. Computations complete at once.
struct Load(Null);

impl Load {
    fn submit(&mut self, block: u64, blocks: u32) {
        let taken = self.0.submit(WRITE, block, blocks);
        taken.expect("no more in flight than the array takes");
        self.compute();
    }

    fn run_until(&mut self, replies: u64) {
        while self.0.replies < replies {
            self.round();
        }
    }

    fn close(&mut self) {
        let closing = self.0.engine.command(self.0.now, Command::Close);
        closing.expect("it was open");
        self.0.drain();
        while !self.0.pending.is_empty() {
            self.round();
        }
    }

    fn round(&mut self) {
        let under_way = std::mem::take(&mut self.0.pending);
        let next = Instant(self.0.now.0 + ROUND_NS);
        self.0.now = match self.0.engine.poll_timeout() {
            Some(wake) if under_way.is_empty() => wake.max(next),
            _ => next,
        };
        for io in under_way {
            self.0.complete(io, Ok(()));
            self.compute();
        }
        let wake = self.0.engine.poll_timeout();
        if wake.is_some_and(|wake| wake <= self.0.now) {
            self.0.engine.handle_timeout(self.0.now);
            self.0.drain();
            self.compute();
        }
    }

    fn compute(&mut self) {
        let is_step = |pending: &Pending| matches!(pending, Pending::Compute(_));
        while let Some(at) = self.0.pending.iter().position(is_step) {
            let step = self.0.pending.remove(at);
            self.0.complete(step, Ok(()));
        }
    }
}

/// Counts of member I/O.
#[derive(Default)]
struct Tally {
    flushes: u64,
    fua: u64,
    writes: u64,
    written_blocks: u64,
    zeroed_blocks: u64,
    reads: u64,
    seeks: u64,
    rounds: u64,
}

impl Tally {
    fn of(asked: &[MemberIo]) -> Self {
        let mut tally = Self::default();
        let mut ends = BTreeMap::new();
        for io in asked {
            let blocks = u64::from(io.blocks);
            match io.operation {
                Operation::Flush => {
                    tally.flushes += 1;
                    continue;
                }
                Operation::Read => tally.reads += 1,
                Operation::Write { fua } => {
                    tally.fua += u64::from(fua);
                    tally.writes += 1;
                    tally.written_blocks += blocks;
                }
                Operation::WriteZeroes { fua } => {
                    tally.fua += u64::from(fua);
                    tally.writes += 1;
                    tally.zeroed_blocks += blocks;
                }
                Operation::Discard => tally.writes += 1,
            }
            let end = ends.insert(io.member, io.block.0 + blocks);
            tally.seeks += u64::from(end != Some(io.block.0));
        }
        tally
    }
}
