//! What devices can become, worked out as for `create`; nothing is written.

use super::look;
use super::options::CreateOptions;
use super::plan::Planner;
use crate::OpenOptions;
use crate::errors::CreateError;
use spindles_format::Uuid;
use spindles_layout::{Expression, choices as expressions};

/// An array that devices can become.
#[derive(Clone, Debug)]
pub struct Choice {
    /// As `create` takes it.
    pub expression: Expression,
    /// What it holds.
    pub bytes: u64,
    /// How many lost devices it survives, whichever they are.
    pub survives: u64,
    /// What it can't use of its members, because others are smaller.
    pub unused_bytes: u64,
    /// The most that is written to replace one lost device; `None` if nothing can replace all of them.
    pub rebuild_bytes: Option<u64>,
}

/// The size of a device that could be a member.
///
/// # Errors
///
/// It is none, or can't be looked at.
pub fn size_of(device: &str) -> Result<u64, CreateError> {
    Ok(look(device, &OpenOptions::default())?.bytes)
}

/// The arrays that devices can become, names and sizes, with these options: the safest first, and of these the largest.
/// Levels that the devices are too small for are left out.
///
/// # Errors
///
/// None of them can be made.
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
