//! Creates an array on zeroed nodes that vanish with this process. It is open at once, and no
//! superblock is written before the engine writes its first.

use super::options::CreateOptions;
use super::plan::{Member, Plan, Planner};
use super::writing::{put, shared_pages};
use crate::assemble;
use crate::errors::CreateError;
use spindles_array::{NodeId, Stack};
use spindles_block::BlockIndex;
use spindles_device::random;
use spindles_format::Uuid;
use spindles_layout::Expression;

/// Creates the array and opens it. `nodes` are its devices from left to right. Missing ones are
/// `None` and count as large as the smallest.
pub(crate) fn make(
    stack: &mut Stack,
    expression: &Expression,
    options: &CreateOptions,
    nodes: &[Option<NodeId>],
) -> Result<NodeId, CreateError> {
    let block_bytes = u64::from(options.block_size.bytes());
    let sizes = nodes.iter();
    let sizes = sizes.map(|node| node.map(|node| stack.blocks(node) * block_bytes));
    let smallest = sizes.clone().flatten().min().unwrap_or(0);
    let sizes: Vec<u64> = sizes.map(|bytes| bytes.unwrap_or(smallest)).collect();
    let plan = Planner::new(options, &sizes).array(expression, &options.name, Uuid::NIL, false)?;
    open(stack, &plan, options, &mut nodes.iter().copied())
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
