//! Linux md: `mdadm --create` and `--build`, `mdadm.conf`, and the output of
//! `mdadm --detail --scan` and `--examine`.

use crate::commands::{runs_first, written};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::MISSING;
use crate::fault::Fault;
use crate::shape::{Shape, Unsayable};
use crate::writing::Writing;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use spindles_layout::{Expression, Level};

mod command;
mod conf;
mod examine;
mod section;
mod words;

use words::{KIB, has_chunks, has_journals, is_redundant, name_of, written_layout};

pub(super) static DIALECT: Dialect = Dialect {
    name: "mdadm",
    summary: "md of Linux",
    reads: "mdadm --create and --build commands, mdadm.conf, the output of mdadm --detail --scan \
            and mdadm --examine",
    flavours: &[],
    recognises: |text| {
        runs_first(text, "mdadm") || conf::recognises(text) || examine::recognises(text)
    },
    read,
    write: Some(write),
};

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    if examine::recognises(source.text) {
        examine::read(source)
    } else if conf::recognises(source.text) {
        conf::read(source)
    } else {
        command::read(source)
    }
}

fn write(shape: &Shape, writing: &mut Writing<'_>) -> Result<String, Unsayable> {
    let Expression::Array {
        level,
        layout,
        members,
    } = &shape.expression
    else {
        return Err(Unsayable::new("a device without an array"));
    };
    let md_level = match level.name {
        "concat" => "linear",
        "raid0" | "raid1" | "raid4" | "raid5" | "raid6" | "raid10" => level.name,
        name => return Err(Unsayable::new(name)),
    };
    writing.each_device_once(shape)?;
    writing.note_uniform(shape, "md");
    let name = shape.name.clone().unwrap_or_else(|| writing.name("md"));
    let path = written_path(&name)?;
    let mut words = Vec::from(["mdadm".to_owned(), "--create".to_owned(), written(&path)?]);
    words.push(format!("--level={md_level}"));
    let layout = match (layout, level.name) {
        (Some(layout), _) => Some(written_layout(level.name, &layout.to_string())?),
        // Members of unequal size have another map with md's default, `original`.
        (None, "raid0") => Some("alternate".to_owned()),
        (None, _) => None,
    };
    words.extend(layout.map(|layout| format!("--layout={layout}")));
    if has_chunks(level.name) {
        let bytes = shape.chunk_bytes.unwrap_or(level.chunk_bytes.into());
        let is_said = !bytes.is_multiple_of(4 << 10) || bytes == 0;
        if is_said || level.name != "raid0" && !bytes.is_power_of_two() {
            let what = format!("a chunk of {bytes} bytes for {}", level.name);
            return Err(Unsayable::new(what));
        }
        words.push(format!("--chunk={}", bytes / KIB));
    }
    words.push(format!("--raid-devices={}", members.len()));
    if !shape.spares.is_empty() {
        if !is_redundant(level.name) {
            return Err(Unsayable::new(format!("spares of {}", level.name)));
        }
        words.push(format!("--spare-devices={}", shape.spares.len()));
    }
    if let Some(journal) = &shape.journal {
        if !has_journals(level.name) {
            return Err(Unsayable::new(format!("a journal of {}", level.name)));
        }
        words.push(format!("--write-journal={}", written(journal)?));
    }
    words.extend(written_members(level, members)?);
    for spare in &shape.spares {
        words.push(written(spare)?);
    }
    Ok(words.join(" ") + "\n")
}

/// Returns the path of an array.
fn written_path(name: &str) -> Result<String, Unsayable> {
    if name_of(name) != name || name.is_empty() {
        return Err(Unsayable::new(format!("the name '{name}'")));
    }
    let is_device = name.strip_prefix("md").is_some_and(is_number);
    let folder = if is_device { "/dev" } else { "/dev/md" };
    Ok(format!("{folder}/{name}"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the words for the members.
fn written_members(level: &Level, members: &[Expression]) -> Result<Vec<String>, Unsayable> {
    let is_missing = |member: &Expression| *member == Expression::Leaf(MISSING.to_owned());
    if members.iter().all(is_missing) {
        return Err(Unsayable::new("an array without a device"));
    }
    let words = members.iter().map(|member| {
        let Expression::Leaf(device) = member else {
            let what = "an array as a member: one command makes one array";
            return Err(Unsayable::new(what));
        };
        if !is_missing(member) {
            written(device)
        } else if is_redundant(level.name) {
            Ok(MISSING.to_owned())
        } else {
            let what = format!(
                "a missing member of {}, which has no redundancy",
                level.name
            );
            Err(Unsayable::new(what))
        }
    });
    words.collect()
}
