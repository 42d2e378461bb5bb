//! `zpool create` of a shape.

use super::{CLASSES, NO_PARITY, PARITY, check_name, has_parity, kind};
use crate::commands::{self, shell_word};
use crate::shape::{Shape, Unsayable};
use crate::text::Word;
use crate::writing::Writing;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use spindles_layout::{Expression, Layout, Level};

/// Writes a shape as a pool.
pub(super) fn write(shape: &Shape, writing: &mut Writing<'_>) -> Result<String, Unsayable> {
    writing.each_device_once(shape)?;
    writing.note_uniform(shape, "ZFS");
    if shape.journal.is_some() && !has_parity(&shape.expression) {
        return Err(Unsayable::new(format!("a journal: {NO_PARITY}")));
    }
    if has_parity(&shape.expression) {
        writing.note("the stripes of raidz vary in width: chunk and places of parity are not kept");
    } else if shape.chunk_bytes.is_some() {
        writing.note("ZFS has no chunk: it chooses places by itself");
    }
    let name = shape.name.clone().unwrap_or_else(|| writing.name("pool"));
    let mut words: Vec<String> = ["zpool", "create"].map(ToOwned::to_owned).into();
    let named = Word {
        text: Cow::Borrowed(&name),
        at: 0,
    };
    check_name(&named)
        .map_err(|fault| Unsayable::new(format!("the name '{name}': {}", fault.message)))?;
    words.push(shell_word(&name).into());
    match &shape.expression {
        Expression::Array {
            level,
            members,
            layout: None,
        } if level.name == "raid0" => write_groups(members, &mut words)?,
        Expression::Array {
            level,
            layout,
            members,
        } if is_pairs(level, *layout, members) => {
            for pair in members.chunks(2) {
                words.push("mirror".to_owned());
                write_devices(pair, &mut words)?;
            }
        }
        array => write_group(array, &mut words)?,
    }
    for (keyword, devices) in [
        ("spare", &shape.spares[..]),
        ("log", shape.journal.as_slice()),
    ] {
        if !devices.is_empty() {
            words.push(keyword.to_owned());
        }
        for device in devices {
            words.push(written(device)?);
        }
    }
    Ok(words.join(" ") + "\n")
}

/// Writes the groups of a pool. A disk after a group would be a device of the group.
fn write_groups(members: &[Expression], words: &mut Vec<String>) -> Result<(), Unsayable> {
    let is_disk = |member: &&Expression| matches!(member, Expression::Leaf(_));
    let disks = members.iter().take_while(is_disk).count();
    if members.len() == 1 && disks == 0 {
        return Err(Unsayable::new("a raid0 over one array"));
    }
    if members[disks..].iter().any(|member| is_disk(&member)) {
        let what = "a disk after a group: it would be a device of the group";
        return Err(Unsayable::new(what));
    }
    for member in members {
        if let Expression::Leaf(device) = member {
            words.push(written(device)?);
        } else {
            write_group(member, words)?;
        }
    }
    Ok(())
}

/// Writes a redundant group.
fn write_group(array: &Expression, words: &mut Vec<String>) -> Result<(), Unsayable> {
    let Expression::Array {
        level,
        layout,
        members,
    } = array
    else {
        return Err(Unsayable::new(format!("{array}")));
    };
    let parity = PARITY.iter().position(|name| *name == level.name);
    let keyword = match (level.name, parity) {
        ("raid1", _) => "mirror".to_owned(),
        (_, Some(parity)) => format!("raidz{}", parity + 1),
        (name, None) => return Err(Unsayable::new(name)),
    };
    if let Some(layout) = layout {
        return Err(Unsayable::new(format!("the layout {layout}")));
    }
    words.push(keyword);
    write_devices(members, words)
}

/// Returns true if the array stripes over mirrored pairs.
fn is_pairs(level: &'static Level, layout: Option<Layout>, members: &[Expression]) -> bool {
    let layout = layout.unwrap_or_else(|| level.layout_default()).to_string();
    level.name == "raid10" && layout == "near 2" && members.len().is_multiple_of(2)
}

fn write_devices(members: &[Expression], words: &mut Vec<String>) -> Result<(), Unsayable> {
    for member in members {
        let Expression::Leaf(device) = member else {
            return Err(Unsayable::new("a group of groups"));
        };
        words.push(written(device)?);
    }
    Ok(())
}

/// Returns the word of a device.
fn written(device: &str) -> Result<String, Unsayable> {
    let word = Word {
        text: device.into(),
        at: 0,
    };
    let is_keyword = CLASSES.iter().any(|(name, _)| *name == device);
    if is_keyword || kind(&word) != Ok(None) {
        let what = format!("the device name '{device}', which has another meaning: write its path");
        return Err(Unsayable::new(what));
    }
    commands::written(device)
}
