//! Creates an array on zeroed nodes that vanish with this process. It is open at once, and no
//! superblock is written before the engine writes its first.

use super::options::CreateOptions;
use super::plan::{Member, Plan, Planner};
use super::writing::{put, shared_pages};
use crate::assemble;
use crate::errors::CreateError;
use crate::plain;
use spindles_array::{NodeId, Stack, Target, open_device};
use spindles_block::BlockIndex;
use spindles_device::{Backend, random};
use spindles_format::Uuid;
use spindles_layout::{Expression, MISSING};

/// Returns true if all devices of the expression vanish with the process.
#[must_use]
pub fn vanishes(expression: &Expression) -> bool {
    let mut devices = plain::devices(expression).into_iter();
    devices.all(|device| !Backend::facts_of(device).outlives_opening)
}

/// Creates the array and opens it: by default with superblocks, checksums and log. The devices must
/// hold zeros; their block size is the array's. Missing ones count as large as the smallest. An
/// expression without a level is the device itself.
///
/// # Errors
///
/// The device that can't be opened, or the array that can't be created.
pub fn fresh(
    expression: &Expression,
    options: &CreateOptions,
) -> Result<Box<dyn Target>, CreateError> {
    if let Expression::Leaf(name) = expression {
        return Ok(open_device(name, &options.open)?);
    }
    let mut stack = Stack::new(&options.open)?;
    let node = |name: &str| {
        let device = (name != MISSING).then(|| stack.add_device(name));
        device.transpose()
    };
    let leaves = expression.leaves().into_iter();
    let nodes = leaves.map(node).collect::<Result<Vec<_>, _>>()?;
    let options = CreateOptions {
        block_size: stack.block_size(),
        ..options.clone()
    };
    let block_bytes = u64::from(options.block_size.bytes());
    let sizes = nodes.iter();
    let sizes = sizes.map(|node| node.map(|node| stack.blocks(node) * block_bytes));
    let smallest = sizes.clone().flatten().min().unwrap_or(0);
    let sizes: Vec<u64> = sizes.map(|bytes| bytes.unwrap_or(smallest)).collect();
    let plan = Planner::new(&options, &sizes).array(expression, &options.name, Uuid::NIL, false)?;
    let root = open(&mut stack, &plan, &options, &mut nodes.into_iter())?;
    Ok(stack.into_target(root))
}

/// Opens the planned array, from the leaves up.
fn open(
    stack: &mut Stack,
    plan: &Plan,
    options: &CreateOptions,
    devices: &mut impl Iterator<Item = Option<NodeId>>,
) -> Result<NodeId, CreateError> {
    let block_bytes = u64::from(options.block_size.bytes());
    let pages = shared_pages(plan);
    let (mut nodes, mut records) = (Vec::new(), Vec::new());
    for ((member, record), name) in plan.members.iter().zip(&plan.records).zip(&plan.names) {
        let node = match member {
            Member::Device => devices.next().expect("a node for every leaf"),
            Member::Array(inner) => Some(open(stack, inner, options, devices)?),
        };
        if let Some(node) = node {
            for (kind, bytes) in &pages {
                let area = record.area(*kind).expect("a new member has all areas");
                let block = BlockIndex(area.offset_bytes / block_bytes);
                put(stack, node, block, bytes, name)?;
            }
        }
        nodes.push(node);
        records.push(node.map(|_| *record));
    }
    let mut array = plan.record.clone();
    array.clean = true; // All blocks hold zeros.
    let (geometry, policy) = (plan.geometry.clone(), plan.policy);
    let requests_max = options.open.requests_max;
    let nonce = random::nonce()?;
    let config = assemble::config(&array, records, geometry, policy, nonce, requests_max);
    let name = array.name.to_string();
    let node = stack.add_array(&name, config, &nodes);
    node.map_err(|source| CreateError::Engine { name, source })
}
