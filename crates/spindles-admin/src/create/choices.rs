//! Lists the arrays that devices can become, with the same planning as `create`; writes nothing.

use super::look;
use super::options::CreateOptions;
use super::plan::Planner;
use crate::errors::CreateError;
use spindles_device::OpenOptions;
use spindles_format::Uuid;
use spindles_layout::{Expression, choices as expressions};

/// An array that devices can become.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The expression for `create`.
    pub expression: Expression,
    /// Its capacity.
    pub bytes: u64,
    /// The number of lost devices that the array survives, in any combination.
    pub survives: u64,
    /// Unused bytes of larger members, because other members are smaller.
    pub unused_bytes: u64,
    /// Most bytes written to replace one lost device; `None` if nothing can replace all of them.
    pub rebuild_bytes: Option<u64>,
}

/// Returns the size of a device that could be a member.
pub fn size_of(device: &str) -> Result<u64, CreateError> {
    Ok(look(device, &OpenOptions::default())?.bytes)
}

/// Returns the arrays that devices, given as names and sizes, can become with these options. The
/// safest come first, and of equally safe ones the largest. Omits levels that the devices are too
/// small for.
pub fn choices(
    devices: &[(String, u64)],
    options: &CreateOptions,
) -> Result<Vec<Choice>, CreateError> {
    let mut choices = Vec::new();
    let mut refused = None;
    for expression in expressions(devices) {
        match choice(expression, devices, options) {
            Ok(choice) => choices.push(choice),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    if let (true, Some(error)) = (choices.is_empty(), refused) {
        return Err(error);
    }
    choices.sort_by_key(|choice| std::cmp::Reverse((choice.survives, choice.bytes)));
    Ok(choices)
}

fn choice(
    expression: Expression,
    devices: &[(String, u64)],
    options: &CreateOptions,
) -> Result<Choice, CreateError> {
    let size = |name: &str| devices.iter().find(|device| device.0 == name);
    let leaves = expression.leaves().into_iter().filter_map(size);
    let sizes: Vec<u64> = leaves.map(|device| device.1).collect();
    let mut planner = Planner::new(options, &sizes);
    let plan = planner.array(&expression, &options.name, Uuid::NIL, false)?;
    Ok(Choice {
        bytes: plan.geometry.blocks() * u64::from(options.block_size.bytes()),
        survives: plan.losses_min() - 1,
        unused_bytes: plan.unused_bytes(),
        rebuild_bytes: plan.rebuild_bytes(),
        expression,
    })
}
