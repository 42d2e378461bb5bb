//! The plan of a run, drawn from its seed: the array, the disks, the load, the faults. Each part
//! can be fixed by the caller; the rest still follows from the seed.

use crate::disks::{MODELS, Model};
use crate::faults::{FAULTS, Fault};
use crate::grow;
use crate::random::Random;
use crate::sizes::{self, DiskSize};
use spindles_block::{BlockSize, MemberSet};
use spindles_engine::{FaultLimits, POLICIES, Policy, READ_POLICIES, ReadPolicy, WriteHole};
use spindles_layout::{Covered, LEVELS, Level, Redundancy};
use spindles_workload::history::Initial;
use spindles_workload::{KINDS, Kind};
use std::fmt;

/// An array or one of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// A disk.
    Disk {
        /// Its size in bytes.
        bytes: u64,
    },
    /// An array.
    Array {
        /// Its level.
        level: &'static Level,
        /// Its layout's name; empty for the level's default.
        layout: String,
        /// The length of a chunk, in blocks.
        chunk_blocks: u32,
        /// Its members.
        members: Vec<Tree>,
    },
}

impl Tree {
    /// Returns the number of disks.
    pub fn disks(&self) -> usize {
        match self {
            Self::Disk { .. } => 1,
            Self::Array { members, .. } => members.iter().map(Self::disks).sum(),
        }
    }

    /// Returns true for an array that keeps checksums of its blocks. `around_keeps`: an array above
    /// already keeps them.
    pub fn keeps_checksums(&self, keepers: Keepers, around_keeps: bool) -> bool {
        let Self::Array { level, members, .. } = self else {
            return false;
        };
        match keepers {
            Keepers::None => false,
            Keepers::ArraysOfDisks => {
                (members.iter()).all(|member| matches!(member, Self::Disk { .. }))
            }
            Keepers::AsCreated => {
                level.keeps_checksums(members.iter().map(Self::covered), around_keeps)
            }
        }
    }

    fn covered(&self) -> Covered {
        match self {
            Self::Disk { .. } => Covered::Device,
            Self::Array { level, members, .. } => level.covered(members.iter().map(Self::covered)),
        }
    }

    /// Returns true if the array reads as zeros before its first write, whatever the disks hold.
    /// Assumes that arrays with redundancy or checksums have bitmaps.
    pub fn begins_with_zeros(&self, keepers: Keepers, around_keeps: bool) -> bool {
        match self {
            Self::Disk { .. } => false,
            Self::Array { level, members, .. } => {
                let keeps = self.keeps_checksums(keepers, around_keeps);
                let mut members = members.iter();
                level.redundancy != Redundancy::None
                    || keeps
                    || members.all(|member| member.begins_with_zeros(keepers, around_keeps))
            }
        }
    }

    /// Returns true if this array or one in it keeps parity.
    pub fn has_parity(&self) -> bool {
        let below = match self {
            Self::Disk { .. } => false,
            Self::Array { members, .. } => members.iter().any(Self::has_parity),
        };
        self.keeps_parity() || below
    }

    /// Returns true if the array keeps parity itself.
    pub fn keeps_parity(&self) -> bool {
        match self {
            Self::Disk { .. } => false,
            Self::Array { level, .. } => matches!(level.redundancy, Redundancy::Parity(_)),
        }
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { bytes } => write!(f, "{}K", bytes / 1024),
            Self::Array {
                level,
                layout,
                chunk_blocks,
                members,
            } => {
                write!(f, "{level}")?;
                if !layout.is_empty() {
                    write!(f, ":{layout}")?;
                }
                write!(f, "/{chunk_blocks}(")?;
                for (index, member) in members.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{member}")?;
                }
                f.write_str(")")
            }
        }
    }
}

/// Selects the arrays that keep checksums of their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keepers {
    /// None.
    None,
    /// Arrays of disks, but not arrays of arrays, as created by an earlier version.
    ArraysOfDisks,
    /// The arrays for which `create` selects them.
    AsCreated,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// The array is closed normally.
    Close,
    /// The process dies; disks keep their caches.
    ProcessCrash,
    /// Disks lose their caches, and writes in flight are torn.
    PowerLoss,
}

impl Ending {
    /// Returns its name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::ProcessCrash => "process crash",
            Self::PowerLoss => "power loss",
        }
    }
}

/// A session, from opening to ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Requests before it ends.
    pub requests: u32,
    /// How it ends.
    pub ending: Ending,
    /// Number of requests after which the clients pause for a while; `None` if they don't.
    pub quiet_after: Option<u32>,
    /// The faults, each with the number of requests after which it strikes.
    pub faults: Vec<(&'static Fault, u32)>,
}

/// The mix of client requests, as weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Reads.
    pub read: u32,
    /// Writes.
    pub write: u32,
    /// Flushes.
    pub flush: u32,
    /// Discards.
    pub discard: u32,
    /// Write-zeroes.
    pub write_zeroes: u32,
    /// Percent of the writes that must be durable when answered.
    pub fua_percent: u32,
    /// Percent of the requests that go to the same few blocks.
    pub hot_percent: u32,
}

/// All choices of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The seed of everything random.
    pub seed: u64,
    /// The array.
    pub tree: Tree,
    /// The disks, from left to right, if they differ from the tree.
    pub disks: Vec<DiskSize>,
    /// Block size of the array.
    pub block_size: BlockSize,
    /// Logical sector of the disks, in bytes: the unit that may tear.
    pub sector_bytes: u32,
    /// The disk model.
    pub model: &'static Model,
    /// Groups in a region of arrays with redundancy. 0: no bitmaps; 1: the choice of `create`.
    pub region_groups: u32,
    /// Contents of the disks before the first write.
    pub initial: Initial,
    /// Most requests in flight.
    pub depth: u32,
    /// Most requests that the engine accepts; below `depth`, it is busy now and then.
    pub limit_requests: u32,
    /// Number of the engine's stripe ranges.
    pub limit_columns: u32,
    /// Most reads that the engine hedges at once.
    pub limit_hedges: u32,
    /// Blocks of a stripe range of the engine.
    pub limit_column_blocks: u32,
    /// Set if blocks have checksums, in the arrays that keep them.
    pub checksums: bool,
    /// The arrays that keep them.
    pub checksums_kept_by: Keepers,
    /// Checksum pages in memory.
    pub checksum_pages: u32,
    /// Bytes of dirty regions on each disk, above which no region is marked ahead of writes.
    pub dirty_bytes: u64,
    /// Members of every array whose disks write zeros without moving bytes.
    pub zeroes_without_moving_bytes: MemberSet,
    /// Members of every array whose disks allocate space only for written blocks.
    pub thin: MemberSet,
    /// The longest request, in blocks.
    pub request_blocks_max: u32,
    /// The mix of client requests.
    pub mix: Mix,
    /// A workload that runs before the random requests; `None` for no workload.
    pub workload: Option<&'static Kind>,
    /// Selects the copy that reads use.
    pub read_policy: &'static ReadPolicy,
    /// The consistency policy; `None` for each level's default.
    pub consistency: Option<&'static Policy>,
    /// Guaranteed rate of jobs while clients are active, in bytes of each member per second.
    pub job_rate: u64,
    /// Limits on errors and slowness, above which the engine reacts.
    pub faults: FaultLimits,
    /// Blank disks that replace lost ones automatically.
    pub spares: u32,
    /// Set if the outermost array has a journal disk of its own, provided that it keeps a journal.
    pub journal_device: bool,
    /// Bytes reserved on each disk for growing.
    pub headroom_bytes: u64,
    /// Set if faults may exceed what the array survives. Requests may fail then, but wrong bytes
    /// are still findings.
    pub beyond: bool,
    /// The sessions. After them the array is opened once more and checked as a whole.
    pub sessions: Vec<Session>,
    /// A defect planted in the engine. Builds without its feature `canary` ignore it.
    pub mutation: spindles_engine::Mutation,
}

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
}

impl Options {
    /// Returns the contents of the array before the first write.
    pub fn contents(&self) -> Initial {
        if self.region_groups > 0 && self.tree.begins_with_zeros(self.keepers(), false) {
            return Initial::Zeros;
        }
        self.initial
    }

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
        grow::with_room(&mut tree, headroom_bytes);
        let disks = sizes::draw(seed, &mut tree, block_size, sector_bytes, fixed);
        let depth = fixed.depth.unwrap_or(*random.choose(&[1, 2, 4, 4, 8, 16]));
        let limit_requests = if random.percent(25) {
            random.between_u32(1, depth)
        } else {
            depth
        };
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
            zeroes_without_moving_bytes: MemberSet::from_bits(
                *Random::new(seed, "zeroes").choose(&[0, u64::MAX, u64::MAX]),
            ),
            thin: MemberSet::from_bits(*Random::new(seed, "thin").choose(&[0, u64::MAX, 0b101])),
            request_blocks_max: *random.choose(&[1, 4, 16, 64]),
            mix: mix(random),
            workload: random.percent(20).then(|| *random.choose(KINDS)),
            read_policy: *random.choose::<&ReadPolicy>(READ_POLICIES),
            consistency,
            job_rate: *random.choose(&[0, 1 << 20, 16 << 20, 1 << 40]),
            faults: fault_limits(random, hedging),
            spares: *random.choose(&[0, 0, 0, 1, 2]),
            journal_device: (tree.keeps_parity() || checksums)
                && fixed
                    .journal_device
                    .unwrap_or_else(|| Random::new(seed, "journal device").percent(30)),
            headroom_bytes,
            beyond,
            sessions,
            tree,
            mutation: spindles_engine::Mutation::None,
        }
    }
}

impl Options {
    /// Returns the policy of an array; `logs` is set if it keeps parity or checksums.
    pub(crate) fn policy(&self, logs: bool) -> &'static Policy {
        self.consistency
            .unwrap_or_else(|| Policy::default_for(logs))
    }

    /// Returns true if writes are logged in arrays that keep parity or checksums.
    fn logs(&self) -> bool {
        self.policy(true).write_hole == WriteHole::Closed
    }

    /// Returns which arrays keep checksums.
    pub(crate) fn keepers(&self) -> Keepers {
        if self.sums() {
            self.checksums_kept_by
        } else {
            Keepers::None
        }
    }

    /// Returns true if blocks have checksums. Without a log of the writes in flight, checksums are
    /// inexact after a crash; then only runs without crashes have them.
    pub(crate) fn sums(&self) -> bool {
        self.checksums && self.region_groups > 0 && (self.logs() || self.is_free_of_crashes())
    }

    /// Returns true if checksums are exact after a crash, or there are none.
    pub(crate) fn sums_exactly(&self) -> bool {
        !self.sums() || self.logs()
    }

    /// Returns true if every session is closed normally.
    pub(crate) fn is_free_of_crashes(&self) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.all(|session| session.ending == Ending::Close)
    }

    /// Returns true if disks may run out of space for unwritten blocks.
    pub(crate) fn may_run_out_of_space(&self) -> bool {
        let mut faults = self.sessions.iter().flat_map(|session| &session.faults);
        faults.any(|(fault, _)| fault.name == "no_space")
    }

    /// Returns true if parity may disagree with data after a crash. No member may be missing then.
    pub(crate) fn doubts_parity(&self) -> bool {
        self.tree.has_parity()
            && (self.policy(true).write_hole != WriteHole::Closed
                || self.initial == Initial::Unknown)
    }
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
            (fault, random.below_u32(requests.max(1)))
        };
        let mut faults: Vec<(&'static Fault, u32)> = if kinds.is_empty() {
            Vec::new()
        } else {
            (0..strikes).map(strike).collect()
        };
        if fixed.faults.is_none() {
            for (fault, own) in &mut apart {
                if own.percent(fault.percent) {
                    faults.push((*fault, own.below_u32(requests.max(1))));
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
    let layouts: Vec<String> = match level.redundancy {
        Redundancy::Copies => (level.layouts.iter())
            .flat_map(|row| (2..=members.min(3)).map(|k| format!("{} {k}", row.name)))
            .collect(),
        Redundancy::None | Redundancy::CopyOnEveryMember | Redundancy::Parity(_) => level
            .layouts
            .iter()
            .map(|row| row.name.to_owned())
            .collect(),
    };
    Tree::Array {
        level,
        layout: random.choose(&layouts).clone(),
        chunk_blocks: *random.choose(match block_size {
            BlockSize::B512 => &[1, 2, 3, 4, 4, 8],
            BlockSize::B4096 => &[1, 1, 2, 3],
        }),
        members: (0..members).map(|_| member(random)).collect(),
    }
}
