//! Whole stripes that were being written when a crash came. Each member has any data and checksums
//! that a cache and a disk may leave. Journals are damaged, members are missing, and blocks are
//! corrupt.

use crate::public::replay::{flush, forget_checksums, last_header, place_of, wide};
use crate::public::world::{BLOCK, Kept, Rng, World};
use spindles_block::{MemberIndex, RequestError};
use spindles_format::JOURNAL_HEADER_BYTES;

const CHUNK: usize = 4 * BLOCK;

/// The state of a member's blocks in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Old,
    New,
    Torn,
}

/// A second loss of power, while the array recovers.
#[derive(Debug)]
struct Again {
    /// Steps of the recovery before it.
    steps: usize,
    /// How many of eight unflushed blocks are kept, on average.
    kept: u64,
    missing: Vec<usize>,
}

/// The writes of one case, and what a crash left of them.
#[derive(Debug)]
struct Case {
    level: &'static str,
    members: usize,
    tears: bool,
    /// Chunks written before by a small write; `flushed` if that was durable.
    small: Vec<usize>,
    flushed: bool,
    left: Vec<Left>,
    /// Members whose new checksums were written.
    summed: Vec<bool>,
    damaged: Vec<usize>,
    missing: Vec<usize>,
    rotten: Vec<usize>,
    again: Option<Again>,
    /// Determines the order in which operations complete.
    seed: u64,
    /// Members that go out in the end.
    out: Vec<usize>,
}

impl Case {
    fn draw(rng: &mut Rng) -> Self {
        let below = |rng: &mut Rng, bound: usize| {
            usize::try_from(rng.below(u64::try_from(bound).unwrap())).unwrap()
        };
        let arrays = [
            ("raid5", 3, 1),
            ("raid5", 4, 1),
            ("raid6", 4, 2),
            ("raid6", 5, 2),
        ];
        let (level, members, tolerance) = arrays[below(rng, arrays.len())];
        let data = members - tolerance;
        let tears = below(rng, 2) == 0;
        let small: Vec<usize> = (0..data).filter(|_| below(rng, 4) == 0).collect();
        let flushed = below(rng, 2) == 0;
        let all_old = below(rng, 4); // Often most blocks are alike.
        let left = |rng: &mut Rng| match (all_old, below(rng, 8)) {
            (0, 0..6) | (_, 0 | 1) => Left::Old,
            (1, 2..6) | (_, 2 | 3 | 7) => Left::New,
            (_, 6) if tears => Left::Torn,
            _ => Left::Old,
        };
        let left: Vec<Left> = (0..members).map(|_| left(rng)).collect();
        let summed = left.iter().map(|_| below(rng, 4) == 0).collect();
        let mut faults: Vec<(usize, usize)> = Vec::new();
        for _ in 0..below(rng, tolerance + 1) {
            // A torn block can't be distinguished from a corrupt one.
            faults.push((below(rng, members), below(rng, if tears { 2 } else { 3 })));
        }
        faults.sort_unstable();
        faults.dedup();
        let of = |kind| {
            faults
                .iter()
                .filter(move |fault| fault.1 == kind)
                .map(|fault| fault.0)
        };
        let missing: Vec<usize> = of(1).collect();
        let out = (0..tolerance).map(|_| below(rng, members)).collect();
        let again = (below(rng, 2) == 0).then(|| {
            let may = tolerance - faults.len();
            Again {
                steps: below(rng, 120),
                kept: rng.below(9),
                missing: (0..may).map(|_| below(rng, members)).collect(),
            }
        });
        Self {
            level,
            members,
            tears,
            small,
            flushed,
            left,
            summed,
            damaged: of(0).collect(),
            rotten: of(2).collect(),
            missing,
            again,
            seed: rng.below(1 << 32),
            out,
        }
    }

    /// The contents of the chunks at first, after the small write, and after the whole one.
    fn contents(&self) -> [Vec<u8>; 3] {
        let data = u8::try_from(self.members - if self.level == "raid6" { 2 } else { 1 }).unwrap();
        let first: Vec<u8> = (0..data).map(|chunk| 3 * chunk + 1).collect();
        let mut second = first.clone();
        for &chunk in &self.small {
            second[chunk] += 0x77;
        }
        let third = (0..data).map(|chunk| (0x42_u8 + 1).wrapping_mul(chunk + 5) ^ 0x1d);
        [first, second, third.collect()]
    }

    fn check(&self) {
        let mut setup = wide(self.level, self.members, true);
        setup.spec.member_blocks = vec![600; self.members];
        let [first, second, third] = self.contents();
        let stripe =
            |bytes: &[u8]| -> Vec<u8> { bytes.iter().flat_map(|&byte| [byte; CHUNK]).collect() };
        let mut world = setup.open().unwrap();
        world.write(0, &stripe(&first)).unwrap();
        let mut world = world.close_and_reopen(&setup);
        for &chunk in &self.small {
            let at = u64::try_from(4 * chunk).unwrap();
            world.write(at, &[second[chunk]; CHUNK]).unwrap();
        }
        if self.flushed {
            flush(&mut world);
        }
        let before = world.members.clone();
        world.write_and_no_more(0, &stripe(&third));
        if self.summed.contains(&true) {
            world.flush_and_no_more();
        }
        let at = place_of(&world, 0).1; // Parity has the same place.
        for member in 0..self.members {
            if !self.summed[member] {
                forget_checksums(&mut world, member, &before);
            }
            for at in (at..at + CHUNK).step_by(BLOCK) {
                let back = match self.left[member] {
                    Left::New => at..at,
                    Left::Old => at..at + BLOCK,
                    Left::Torn => at + BLOCK / 2..at + BLOCK,
                };
                world.members[member][back.clone()].copy_from_slice(&before[member][back]);
                if self.rotten.contains(&member) {
                    world.members[member][at + 7] ^= 0x5a;
                }
            }
        }
        for &member in &self.damaged {
            let Some((_, header)) = last_header(&world, member) else {
                continue; // Whole stripes are not logged.
            };
            world.members[member][header..header + JOURNAL_HEADER_BYTES].fill(0);
        }
        let mut again = setup.clone();
        (again.tears, again.seed) = (self.tears, self.seed);
        for &member in &self.missing {
            again.missing = again
                .missing
                .with(MemberIndex(u8::try_from(member).unwrap()));
        }
        let mut world = world.reopen(&again);
        if let Some(Again {
            steps,
            kept,
            missing,
        }) = &self.again
        {
            for _ in 0..*steps {
                if !world.idle() {
                    world.step();
                }
            }
            let torn = if self.tears {
                Kept::Segment
            } else {
                Kept::Nothing
            };
            world.lose_power(|rng| match rng.below(8) {
                at if at < *kept => Kept::All,
                7 => torn,
                _ => Kept::Nothing,
            });
            again.missing = missing.iter().fold(again.missing, |missing, &member| {
                missing.with(MemberIndex(u8::try_from(member).unwrap()))
            });
            world = world.reopen(&again);
        }
        world.run();
        let read = self.read(&mut world);
        let may_fail =
            !(self.damaged.is_empty() && again.missing.is_empty() && self.rotten.is_empty());
        for (chunk, read) in read.iter().enumerate() {
            let (member, _) = place_of(&world, u64::try_from(4 * chunk).unwrap());
            if self.rotten.contains(&member) {
                continue; // Corrupt blocks of a half-written chunk may be taken for new ones.
            }
            let Ok(bytes) = read else {
                assert!(may_fail, "chunk {chunk} is lost: {self:?}");
                continue;
            };
            let olds = [first[chunk], second[chunk]];
            let olds = &olds[usize::from(self.flushed)..];
            let old = |&byte: &u8| *bytes == [byte; BLOCK];
            let torn = |&byte: &u8| {
                self.tears && *bytes == [[third[chunk]; BLOCK / 2], [byte; BLOCK / 2]].concat()
            };
            let legal =
                *bytes == [third[chunk]; BLOCK] || olds.iter().any(|byte| old(byte) || torn(byte));
            assert!(
                legal,
                "chunk {chunk} is {} and {}: {self:?}",
                bytes[0],
                bytes[BLOCK - 1]
            );
        }
        let mut missing = again.missing;
        let tolerance = u32::from(self.level == "raid6") + 1;
        for &member in &self.out {
            let out = MemberIndex(u8::try_from(member).unwrap());
            if missing.count() < tolerance && !missing.contains(out) {
                missing = missing.with(out);
                world.fail(out.0);
            }
        }
        let later = self.read(&mut world);
        for (chunk, (read, later)) in read.iter().zip(later).enumerate() {
            let same = later.is_err() || *read == later;
            assert!(
                same,
                "chunk {chunk} was {:?} and is {:?}: {self:?}",
                read.as_ref().map(|b| b[0]),
                later.map(|b| b[0])
            );
        }
    }

    /// Reads a block of each chunk.
    fn read(&self, world: &mut World) -> Vec<Result<Vec<u8>, RequestError>> {
        let chunks = self.contents()[0].len();
        let blocks = (0..chunks).map(|chunk| u64::try_from(4 * chunk + 1).unwrap());
        blocks.map(|block| world.read(block, 1)).collect()
    }
}

/// Reads return no contents that were never there, nor older ones than were durable. They return
/// the same without further members.
#[test]
fn what_is_left_of_a_stripe_is_old_or_new() {
    let cases = std::env::var("SPINDLES_CASES").map_or(2000, |cases| cases.parse().unwrap());
    for case in 0..cases {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(case + 1) | 1);
        for _ in 0..4 {
            rng.below(2);
        }
        let case = Case::draw(&mut rng);
        case.check();
    }
}

/// Two members have no log. One holds a new block that fits its checksum. The block of the other
/// fits none, and is not recovered from that.
#[test]
fn what_has_no_log_is_made_of_what_has() {
    Case {
        level: "raid6",
        members: 4,
        tears: true,
        small: Vec::new(),
        flushed: false,
        left: vec![Left::Old, Left::New, Left::New, Left::Old],
        summed: vec![false, false, true, false],
        damaged: vec![1, 2],
        missing: Vec::new(),
        rotten: Vec::new(),
        again: None,
        seed: 0,
        out: vec![3, 0],
    }
    .check();
}
