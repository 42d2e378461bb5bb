//! Temporary arrays for benchmarks and tests: their data is gone when they are closed, or at least
//! not found again.

use crate::assemble::config::{job_rate, read_policy};
use crate::create::{self, CreateError, CreateOptions};
use spindles_array::{NodeId, Stack, Target, open_device};
use spindles_block::{BlockIndex, BlockSize, BufferId, MemberSet};
use spindles_device::{Backend, OpenError, OpenOptions};
use spindles_engine::{Config, Limits, Mutation, POLICIES};
use spindles_layout::{Expression, ExpressionError, Geometry, GeometryError, Spec, chunk_blocks};
use thiserror::Error;

/// The leaf that stands for a missing device.
pub const MISSING: &str = "missing";

/// Options of a scratch array.
#[derive(Clone, Debug, Default)]
pub struct ScratchOptions {
    /// Options for opening the devices.
    pub open: OpenOptions,
    /// The chunk size of every array in the expression; `None` for each level's default.
    pub chunk_bytes: Option<u64>,
}

/// Why a scratch array could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// A device could not be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// The expression is invalid.
    #[error("{source}")]
    Expression {
        /// What the user wrote.
        array: String,
        /// The error in it, and its position.
        source: ExpressionError,
    },
    /// The array is invalid.
    #[error("{array}: {source}")]
    Geometry {
        /// The array, as in the expression.
        array: String,
        /// The reason.
        source: GeometryError,
    },
    /// The engine refused it.
    #[error("{array}: {source}")]
    Engine {
        /// The array, as in the expression.
        array: String,
        /// The reason.
        source: spindles_engine::OpenError,
    },
    /// It could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A slice of an array does not fit.
    #[error("{slice} {why}: the array has {bytes} bytes in blocks of {block_bytes}")]
    Slice {
        /// The slice, as in the expression.
        slice: String,
        /// What is wrong.
        why: &'static str,
        /// The block size.
        block_bytes: u64,
        /// The size of the array.
        bytes: u64,
    },
    /// All members of an array are missing.
    #[error("{array} has no member that is there: name at least one device")]
    Empty {
        /// The array, as in the expression.
        array: String,
    },
}

/// Creates an array over devices as they are, without superblocks and without a resync. The
/// redundancy is assumed to agree with the data, as on devices full of zeros. Leaves are devices,
/// or `missing`. An expression without a level is the device itself.
///
/// # Errors
///
/// The device or array of the expression that is invalid, and the reason.
pub fn open(
    expression: &Expression,
    options: &ScratchOptions,
) -> Result<Box<dyn Target>, ScratchError> {
    let mut stack = Stack::new(&options.open)?;
    let root = add(&mut stack, expression, options)?;
    let root = root.ok_or_else(|| ScratchError::Empty {
        array: expression.to_string(),
    })?;
    Ok(stack.into_target(root))
}

/// Like `open`, but creates the array as `create` does: by default with superblocks, checksums and
/// log. The devices must hold zeros; their block size is the array's.
///
/// # Errors
///
/// As for `open`.
pub fn open_created(
    expression: &Expression,
    options: &CreateOptions,
) -> Result<Box<dyn Target>, ScratchError> {
    if let Expression::Leaf(name) = expression {
        return Ok(open_device(name, &options.open)?);
    }
    let mut stack = Stack::new(&options.open)?;
    let node = |name: &str| {
        (name != MISSING)
            .then(|| stack.add_device(name))
            .transpose()
    };
    let leaves = expression.leaves().into_iter();
    let nodes = leaves.map(node).collect::<Result<Vec<_>, _>>()?;
    let options = CreateOptions {
        block_size: stack.block_size(),
        ..options.clone()
    };
    let root = create::make(&mut stack, expression, &options, &nodes)?;
    Ok(stack.into_target(root))
}

/// Returns true if all devices of the expression vanish with the process.
#[must_use]
pub fn is_scratch(expression: &Expression) -> bool {
    let leaves = expression.leaves();
    let mut leaves = leaves.iter().filter(|leaf| **leaf != MISSING);
    leaves.all(|leaf| !Backend::facts_of(leaf).outlives_process)
}

/// Replaces every leaf of the expression with a new device of that kind, for example `mem:64M` for
/// each device of `raid5(4)`.
#[must_use]
pub fn on_each_leaf(expression: &Expression, device: &str) -> Expression {
    expression.with_leaves(&mut |name| if name == MISSING { name } else { device }.to_owned())
}

/// A member of an array: a node, or part of it.
struct Member {
    node: NodeId,
    start: BlockIndex,
    blocks: u64,
}

/// Adds the nodes of a member; `None` if it is missing.
fn member(
    stack: &mut Stack,
    expression: &Expression,
    options: &ScratchOptions,
) -> Result<Option<Member>, ScratchError> {
    let Some(node) = add(stack, expression.uncut(), options)? else {
        return Ok(None);
    };
    let has_blocks = stack.blocks(node);
    let Expression::Slice {
        start_bytes,
        length_bytes,
        ..
    } = expression
    else {
        return Ok(Some(Member {
            node,
            start: BlockIndex(0),
            blocks: has_blocks,
        }));
    };
    let block_bytes = u64::from(stack.block_size().bytes());
    let start = start_bytes / block_bytes;
    let blocks = match length_bytes {
        None => has_blocks.saturating_sub(start),
        Some(bytes) => bytes / block_bytes,
    };
    let why = if !start_bytes.is_multiple_of(block_bytes) {
        Some("does not begin at a block of the arrays")
    } else if blocks == 0 || start + blocks > has_blocks {
        Some("goes beyond the end of its array")
    } else {
        None
    };
    if let Some(why) = why {
        return Err(ScratchError::Slice {
            slice: expression.to_string(),
            why,
            block_bytes,
            bytes: has_blocks * block_bytes,
        });
    }
    let start = BlockIndex(start);
    Ok(Some(Member {
        node,
        start,
        blocks,
    }))
}

/// Adds the nodes of an expression, from the leaves up; expressions are at most eight arrays deep.
fn add(
    stack: &mut Stack,
    expression: &Expression,
    options: &ScratchOptions,
) -> Result<Option<NodeId>, ScratchError> {
    let (level, layout, members) = match expression {
        Expression::Leaf(name) if name == MISSING => return Ok(None),
        Expression::Leaf(name) => return Ok(Some(stack.add_device(name)?)),
        Expression::Slice { of, .. } => return add(stack, of, options),
        Expression::Array {
            level,
            layout,
            members,
        } => (*level, *layout, members),
    };
    let array = || expression.to_string();
    let members = members
        .iter()
        .map(|one| member(stack, one, options))
        .collect::<Result<Vec<_>, _>>()?;
    let sizes = members.iter().map(|it| it.as_ref().map(|it| it.blocks));
    let smallest = sizes
        .clone()
        .flatten()
        .min()
        .ok_or_else(|| ScratchError::Empty { array: array() })?;
    let spec = Spec {
        level,
        layout,
        chunk_blocks: chunk(options, level.chunk_bytes, stack.block_size()).map_err(|source| {
            ScratchError::Geometry {
                array: array(),
                source,
            }
        })?,
        member_blocks: sizes.map(|size| size.unwrap_or(smallest)).collect(),
    };
    let geometry = Geometry::new(&spec).map_err(|source| ScratchError::Geometry {
        array: array(),
        source,
    })?;
    let config = plain_config(geometry, &members, stack.block_size(), options);
    let nodes: Vec<_> = members
        .iter()
        .map(|member| member.as_ref().map(|it| it.node))
        .collect();
    stack
        .add_array(&array(), config, &nodes)
        .map(Some)
        .map_err(|source| ScratchError::Engine {
            array: array(),
            source,
        })
}

/// Returns the configuration of an array without superblocks, log or checksums.
fn plain_config(
    geometry: Geometry,
    members: &[Option<Member>],
    block_size: BlockSize,
    options: &ScratchOptions,
) -> Config {
    let missing: MemberSet = (0..geometry.members())
        .map(spindles_block::MemberIndex)
        .filter(|member| members[usize::from(member.0)].is_none())
        .collect();
    Config {
        block_size,
        missing,
        zeroes_without_moving_bytes: MemberSet::EMPTY,
        thin: MemberSet::EMPTY,
        data_start: members
            .iter()
            .map(|member| member.as_ref().map_or(BlockIndex(0), |it| it.start))
            .collect(),
        persistence: None,
        clean: true,
        read_only: options.open.read_only,
        look_only: false,
        beyond_tolerance: false,
        only_recovers: false,
        tears: false,
        force: false,
        consistency: POLICIES[0],
        read_policy: read_policy(&options.open),
        write_mostly: MemberSet::EMPTY,
        job_rate: job_rate(&options.open),
        faults: spindles_engine::FaultLimits::DEFAULT,
        limits: Limits::for_depth(options.open.requests_max, block_size),
        scratch: BufferId::NONE,
        metadata: BufferId::NONE,
        mutation: Mutation::None,
        geometry,
    }
}

fn chunk(
    options: &ScratchOptions,
    default_bytes: u32,
    block_size: BlockSize,
) -> Result<u32, GeometryError> {
    let bytes = options.chunk_bytes.unwrap_or(u64::from(default_bytes));
    chunk_blocks(bytes, block_size)
}
