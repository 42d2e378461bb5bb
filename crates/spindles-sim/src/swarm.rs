//! Draws the plan of a run from its seed. Each part can be fixed by the caller; the rest still
//! follows from the seed.

use crate::disks::{MODELS, Model};
use crate::faults::{FAULTS, Fault};
use crate::options::{Ending, Keepers, Mix, Options, Session, Tree, with_room};
use crate::planted::Planted;
use crate::random::Random;
use crate::sizes;
use spindles_block::{BlockSize, MemberSet};
use spindles_engine::{FaultLimits, POLICIES, Policy, READ_POLICIES, ReadPolicy, WriteHole};
use spindles_layout::{LEVELS, Layout, Level};
use spindles_workload::history::Initial;
use spindles_workload::{KINDS, Kind};

/// The most copies of each chunk in usual layouts.
const COPIES_MAX: u8 = 3;
/// How often an array has a layout of other systems, if its level has one.
const RARE_PERCENT: u32 = 10;

/// The parts of a run that the caller fixes.
#[derive(Clone, Debug, Default)]
pub struct Fixed {
    /// The level of a single array.
    pub level: Option<&'static Level>,
    /// Only arrays of arrays.
    pub nested: bool,
    /// The number of its members.
    pub members: Option<u8>,
    /// The disk model.
    pub model: Option<&'static Model>,
    /// Requests per session.
    pub requests: Option<u32>,
    /// Most requests in flight.
    pub depth: Option<u32>,
    /// The only faults that may strike; an empty list allows none.
    pub faults: Option<Vec<&'static Fault>>,
    /// The consistency policy.
    pub consistency: Option<&'static Policy>,
    /// How sessions end.
    pub ending: Option<Ending>,
    /// Whether blocks have checksums.
    pub checksums: Option<bool>,
    /// Whether the outermost array has a journal disk of its own, if it can.
    pub journal_device: Option<bool>,
    /// Whether disks differ in size and sector size.
    pub sizes: Option<bool>,
    /// Whether faults may exceed what the array survives.
    pub beyond: Option<bool>,
    /// True if arrays with parity and a log have a stage.
    pub staged: bool,
}

impl Options {
    /// Draws the run of that seed.
    pub fn swarm(seed: u64, fixed: &Fixed) -> Self {
        let random = &mut Random::new(seed, "options");
        let block_size = [BlockSize::B512, BlockSize::B4096][random.weighted(&[3, 1])];
        let sector_bytes = match block_size {
            BlockSize::B4096 if random.percent(50) => 4096,
            BlockSize::B512 | BlockSize::B4096 => 512,
        };
        let mut tree = tree(random, block_size, fixed);
        let headroom_bytes = headroom(seed, &tree, fixed);
        with_room(&mut tree, headroom_bytes);
        let stage_bytes = stage(seed, &tree, fixed);
        with_room(&mut tree, stage_bytes);
        let disks = sizes::draw(seed, &mut tree, block_size, sector_bytes, fixed.sizes);
        let depth = fixed.depth.unwrap_or(*random.choose(&[1, 2, 4, 4, 8, 16]));
        let limit_requests = limit_requests(random, depth);
        let beyond = random.percent(8);
        let beyond = fixed.beyond.unwrap_or(beyond);
        let consistency = consistency(random, fixed);
        let sessions = sessions(seed, random, &tree, fixed);
        let hedging = &mut Random::new(seed, "hedges");
        let checksums = Random::new(seed, "checksums").percent(50);
        let checksums = fixed.checksums.unwrap_or(checksums);
        Self {
            seed,
            disks,
            block_size,
            sector_bytes,
            model: fixed.model.unwrap_or(MODELS[random.weighted(&[6, 1, 1])]),
            region_groups: *Random::new(seed, "regions").choose(&[0, 1, 1, 2, 4, 16]),
            initial: [Initial::Zeros, Initial::Unknown][random.weighted(&[3, 1])],
            depth,
            limit_requests,
            limit_columns: *random.choose(&[1, 2, 4, 32]),
            limit_hedges: *hedging.choose(&[0, 1, 2, 8]),
            limit_column_blocks: *random.choose(&[1, 3, 8, 16]),
            checksums,
            checksums_kept_by: if Random::new(seed, "nested checksums").percent(25) {
                Keepers::ArraysOfDisks
            } else {
                Keepers::AsCreated
            },
            checksum_pages: *Random::new(seed, "checksum pages").choose(&[0, 8, 1000]),
            dirty_bytes: *Random::new(seed, "dirty").choose(&[0, 64 << 10, 1 << 30]),
            fua_bytes_max: *Random::new(seed, "fua").choose(&[0, 8 << 10, 1 << 20, 1 << 20]),
            zeroes_without_moving_bytes: MemberSet::from_bits(
                *Random::new(seed, "zeroes").choose(&[0, u64::MAX, u64::MAX]),
            ),
            thin: MemberSet::from_bits(*Random::new(seed, "thin").choose(&[0, u64::MAX, 0b101])),
            request_blocks_max: *random.choose(&[1, 4, 16, 64]),
            mix: mix(random),
            workload: random.percent(20).then(|| workload(seed, random)),
            read_policy: *random.choose::<&ReadPolicy>(READ_POLICIES),
            consistency,
            job_rate: *random.choose(&[0, 1 << 20, 16 << 20, 1 << 40]),
            faults: fault_limits(random, hedging),
            spares: *random.choose(&[0, 0, 0, 1, 2]),
            journal_device: (tree.keeps_parity() || checksums)
                && fixed
                    .journal_device
                    .unwrap_or_else(|| Random::new(seed, "journal device").percent(30)),
            stage_bytes,
            staged_blocks: *Random::new(seed, "staged").choose(&[8, 32, 128]),
            headroom_bytes,
            beyond,
            sessions,
            tree,
            planted: Planted::None,
        }
    }
}

fn limit_requests(random: &mut Random, depth: u32) -> u32 {
    if random.percent(25) {
        random.between_u32(1, depth)
    } else {
        depth
    }
}

/// Workloads at the beginning of the table that share one draw. A row after them has a stream of
/// its own, so that a new row leaves the seeds that do not draw it as they were.
const FIRST_KINDS: usize = 11;

fn workload(seed: u64, random: &mut Random) -> &'static Kind {
    let (first, later) = KINDS.split_at(FIRST_KINDS);
    let drawn = random.choose(first);
    let mut later = later.iter();
    let is_drawn = |kind: &&&'static Kind| Random::new(seed, kind.name).percent(10);
    later.find(is_drawn).unwrap_or(drawn)
}

/// Draws the consistency policy from those that promise something; `None` for the default.
fn consistency(random: &mut Random, fixed: &Fixed) -> Option<&'static Policy> {
    let promising = POLICIES
        .iter()
        .filter(|policy| policy.write_hole != WriteHole::Open);
    let promising: Vec<_> = promising.copied().collect();
    let drawn = random.percent(30).then(|| *random.choose(&promising));
    fixed.consistency.or(drawn)
}

/// Draws the mix of client requests.
fn mix(random: &mut Random) -> Mix {
    Mix {
        read: random.below_u32(6),
        write: 1 + random.below_u32(8),
        flush: random.below_u32(3),
        discard: random.below_u32(2),
        write_zeroes: random.below_u32(2),
        fua_percent: *random.choose(&[0, 10, 50]),
        hot_percent: *random.choose(&[0, 30, 90]),
    }
}

/// Draws the limits on errors and slowness; those of hedged reads come from their own stream.
fn fault_limits(random: &mut Random, hedging: &mut Random) -> FaultLimits {
    FaultLimits {
        errors_max: *random.choose(&[0, 0, 0, 2, 5]),
        errors_window_ns: *random.choose(&[1_000_000, u64::MAX]),
        slow_factor: *random.choose(&[0, 2, 5]),
        slow_min_ns: 0,
        slow_after_ns: *random.choose(&[0, 1_000_000]),
        around_max: *random.choose(&[0, 1, 8]),
        stall_factor: *hedging.choose(&[0, 2, 4, 10]),
        stall_min_ns: *hedging.choose(&[0, 1_000_000]),
        hedge_share: *hedging.choose(&[1, 5, 20]),
    }
}

/// Returns true if the array may grow. Drawn from its own stream, so that other runs stay the same.
fn may_grow(seed: u64, tree: &Tree, fixed: &Fixed) -> bool {
    let Tree::Array { members, .. } = tree else {
        return false;
    };
    let nested = members.iter().any(|member| member.disks() > 1);
    let fault = Fault::by_name("grow").expect("a row of the table");
    !nested
        && match &fixed.faults {
            None => Random::new(seed, "grow").percent(fault.percent),
            Some(named) => named.contains(&fault),
        }
}

fn headroom(seed: u64, tree: &Tree, fixed: &Fixed) -> u64 {
    if !may_grow(seed, tree, fixed) {
        return 0;
    }
    *Random::new(seed, "headroom").choose(&[16, 32, 96]) << 10
}

/// Draws the length of the stage on each disk, in bytes.
fn stage(seed: u64, tree: &Tree, fixed: &Fixed) -> u64 {
    let Tree::Array { members, .. } = tree else {
        return 0;
    };
    let is_nested = members.iter().any(|member| member.disks() > 1);
    if !fixed.staged || is_nested || !tree.keeps_parity() {
        return 0;
    }
    // Pages in front, then eight segments.
    let pages = *Random::new(seed, "stage").choose(&[2, 3, 5, 9]);
    (4 + 8 * pages) << 12
}

fn sessions(seed: u64, random: &mut Random, tree: &Tree, fixed: &Fixed) -> Vec<Session> {
    // Swarm testing: a run enables a random subset of the kinds of faults.
    let kinds: Vec<_> = FAULTS
        .iter()
        .copied()
        .filter(|fault| match &fixed.faults {
            _ if fault.name == "grow" => may_grow(seed, tree, fixed),
            None => !fault.own_stream && random.percent(fault.percent),
            Some(named) => named.iter().any(|named| named.name == fault.name),
        })
        .collect();
    let endings: &[Ending] = match random.below(4) {
        0 => &[Ending::Close],
        1 => &[Ending::Close, Ending::ProcessCrash],
        2 => &[Ending::Close, Ending::PowerLoss, Ending::PowerLoss],
        _ => &[Ending::Close, Ending::ProcessCrash, Ending::PowerLoss],
    };
    let count = random.between(1, 4);
    let mut quiet = Random::new(seed, "quiet");
    let apart = FAULTS.iter().filter(|fault| fault.own_stream);
    let mut apart: Vec<_> = apart
        .map(|fault| (*fault, Random::new(seed, fault.name)))
        .collect();
    let disks = u32::try_from(tree.disks()).expect("few disks");
    let mut session = |_| {
        let requests = random.between_u32(1, 70);
        let requests = fixed.requests.unwrap_or(requests);
        let strikes = random.below_u32(1 + disks.min(4));
        let strike = |_| {
            let fault = *random.choose(&kinds);
            (fault.name, random.below_u32(requests.max(1)))
        };
        let mut faults: Vec<(&'static str, u32)> = if kinds.is_empty() {
            Vec::new()
        } else {
            (0..strikes).map(strike).collect()
        };
        if fixed.faults.is_none() {
            for (fault, own) in &mut apart {
                if own.percent(fault.percent) {
                    faults.push((fault.name, own.below_u32(requests.max(1))));
                }
            }
        }
        faults.sort_by_key(|&(_, at)| at);
        Session {
            requests,
            quiet_after: quiet.percent(25).then(|| quiet.below_u32(requests.max(1))),
            ending: fixed.ending.unwrap_or(*random.choose(endings)),
            faults,
        }
    };
    (0..count).map(&mut session).collect()
}

/// Draws a disk of `bytes_min` bytes plus some blocks.
fn disk(random: &mut Random, block_size: BlockSize, bytes_min: u64) -> Tree {
    let blocks = match block_size {
        BlockSize::B512 => random.between(0, 160),
        BlockSize::B4096 => random.between(0, 24),
    };
    Tree::Disk {
        bytes: bytes_min + blocks * u64::from(block_size.bytes()),
    }
}

fn tree(random: &mut Random, block_size: BlockSize, fixed: &Fixed) -> Tree {
    let nested = fixed.level.is_none() && (random.percent(10) || fixed.nested);
    if !nested {
        let level = fixed.level.unwrap_or(*random.choose(LEVELS));
        return array(random, block_size, level, fixed.members, &mut |random| {
            disk(random, block_size, 128 << 10) // The smallest possible member.
        });
    }
    let inner_level = *random.choose(LEVELS);
    let outer_level = *random.choose(LEVELS);
    let members = Some(outer_level.members_min.max(2));
    let inner_members = Some(inner_level.members_min.max(2));
    array(random, block_size, outer_level, members, &mut |random| {
        array(
            random,
            block_size,
            inner_level,
            inner_members,
            &mut |random| {
                disk(random, block_size, 272 << 10) // So that the inner array can be a member.
            },
        )
    })
}

fn array(
    random: &mut Random,
    block_size: BlockSize,
    level: &'static Level,
    members: Option<u8>,
    member: &mut dyn FnMut(&mut Random) -> Tree,
) -> Tree {
    let more = u8::try_from(random.weighted(&[4, 3, 2, 1])).expect("below 4");
    let least = level.members_min.max(2);
    let members = members.unwrap_or(least + more).max(level.members_min);
    let layouts = level.layouts_on(members);
    let (usual, rare): (Vec<Layout>, Vec<Layout>) = layouts.partition(Layout::is_usual);
    let usual: Vec<Layout> = (usual.into_iter())
        .filter(|layout| layout.copies() <= COPIES_MAX)
        .collect();
    // Drawn apart, so that recorded seeds keep their other draws.
    let mut apart = random.clone();
    let usual = *random.choose(&usual);
    let is_rare = !rare.is_empty() && apart.percent(RARE_PERCENT);
    let layout = if is_rare { *apart.choose(&rare) } else { usual };
    Tree::Array {
        level,
        layout: layout.to_string(),
        chunk_blocks: *random.choose(match block_size {
            BlockSize::B512 => &[1, 2, 3, 4, 4, 8],
            BlockSize::B4096 => &[1, 1, 2, 3],
        }),
        members: (0..members).map(|_| member(random)).collect(),
    }
}
