//! md's words for levels, layouts and chunk sizes, and its limits.

use crate::dialect::Source;
use crate::expressions::Part;
use crate::fault::Fault;
use crate::shape::Unsayable;
use crate::sizes::{SECTORS_MAX, Suffixes, size};
use crate::text::Word;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use spindles_layout::{Level, Redundancy};

/// The chunk size of a new array.
pub(super) const CHUNK_BYTES: u64 = 512 << 10;

/// Sizes without a suffix are in KiB.
pub(super) const KIB: u64 = 1 << 10;

pub(super) const SUFFIXES: Suffixes = &[
    ("s", 512),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// md's words for levels, and ours.
const LEVELS: [(&str, &str); 15] = [
    ("linear", "concat"),
    ("raid0", "raid0"),
    ("0", "raid0"),
    ("stripe", "raid0"),
    ("raid1", "raid1"),
    ("1", "raid1"),
    ("mirror", "raid1"),
    ("raid4", "raid4"),
    ("4", "raid4"),
    ("raid5", "raid5"),
    ("5", "raid5"),
    ("raid6", "raid6"),
    ("6", "raid6"),
    ("raid10", "raid10"),
    ("10", "raid10"),
];

/// Levels of md that are no arrays of ours.
const LEVELS_REFUSED: [(&str, &str); 5] = [
    ("multipath", "multipath: paths to one device"),
    ("mp", "multipath: paths to one device"),
    ("faulty", "faulty: a device with errors for tests"),
    (
        "container",
        "container: the devices of several arrays of DDF or IMSM",
    ),
    ("-unknown-", "a level that mdadm does not know"),
];

/// Returns our level of a word.
pub(super) fn level(word: &Word<'_>) -> Result<&'static str, Fault> {
    if let Some((_, ours)) = LEVELS.iter().find(|(name, _)| **word == **name) {
        return Ok(ours);
    }
    let refused = LEVELS_REFUSED.iter().find(|(name, _)| **word == **name);
    Err(match refused {
        Some((_, what)) => {
            let message = format!("{what}; no array here is like it");
            word.fault(message).refusal()
        }
        None => word.fault(format!(
            "a level is expected here, as raid5, 5, mirror, stripe or linear, not '{}'",
            &**word
        )),
    })
}

/// The layouts of raid5, and of raid6 where ours has it.
const PARITY_LAYOUTS: [(&str, &str, Option<&str>); 20] = [
    ("default", "", Some("")),
    ("left-symmetric", "", Some("")),
    ("ls", "", Some("")),
    (
        "left-asymmetric",
        "left-asymmetric",
        Some("left-asymmetric"),
    ),
    ("la", "left-asymmetric", Some("left-asymmetric")),
    (
        "right-symmetric",
        "right-symmetric",
        Some("right-symmetric"),
    ),
    ("rs", "right-symmetric", Some("right-symmetric")),
    (
        "right-asymmetric",
        "right-asymmetric",
        Some("right-asymmetric"),
    ),
    ("ra", "right-asymmetric", Some("right-asymmetric")),
    ("parity-first", "parity-first", None),
    ("parity-last", "parity-last", None),
    ("ddf-zero-restart", "right-asymmetric", None),
    ("ddf-N-restart", "left-asymmetric", None),
    ("ddf-N-continue", "", None),
    ("left-symmetric-6", "?", None),
    ("left-asymmetric-6", "?", None),
    ("right-symmetric-6", "?", None),
    ("right-asymmetric-6", "?", None),
    ("parity-first-6", "?", None),
    ("preserve", "?", None),
];

/// Returns our layout of one of our levels on this many members, empty for the default.
pub(super) fn layout(
    level: &str,
    members: usize,
    word: &Word<'_>,
) -> Result<Cow<'static, str>, Fault> {
    let known = PARITY_LAYOUTS.iter().find(|(name, ..)| **word == **name);
    let expected = match (level, known) {
        ("raid5", Some((_, layout, _))) if *layout != "?" => return Ok(Cow::Borrowed(layout)),
        ("raid6", Some((_, _, Some(layout)))) => return Ok(Cow::Borrowed(layout)),
        ("raid6", Some(_)) => {
            let message = format!("{}: no raid6 here has this layout", &**word);
            return Err(word.fault(message).refusal());
        }
        ("raid5" | "raid6", _) => "a layout, as left-symmetric or ls,",
        ("raid0", _) => match &**word {
            "original" | "1" => return Ok(Cow::Borrowed("original")),
            "alternate" | "2" | "default" => return Ok(Cow::Borrowed("")),
            _ => "original or alternate",
        },
        ("raid10", _) => match copies(word) {
            Some((layout, copies)) if copies <= members => return Ok(layout),
            Some((_, copies)) => {
                let message = format!("{copies} copies need as many devices, not {members}");
                return Err(word.fault(message));
            }
            None => "a layout, as n2, o2 or f2,",
        },
        (level, _) => {
            let message = format!("{level} has no layouts, but '{}' is given", &**word);
            return Err(word.fault(message));
        }
    };
    Err(word.fault(format!("{expected} is expected here, not '{}'", &**word)))
}

/// Reads a layout of raid10 as in options (`n2`) and in output (`near=2`, `near=1, far=2`). Returns
/// our layout and the number of copies.
fn copies(word: &str) -> Option<(Cow<'static, str>, usize)> {
    let mut counts = [("near", 1), ("far", 1), ("offset", 1)];
    for part in word.split([',', ' ']).filter(|part| !part.is_empty()) {
        let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit());
        let name = part[..part.len() - digits.len()].trim_end_matches('=');
        let is = |full: &str| name == full || name == &full[..1];
        let (_, count) = counts.iter_mut().find(|(full, _)| is(full))?;
        *count = digits.parse::<u8>().ok().filter(|count| *count > 0)?;
    }
    let counts = counts.map(|(_, count)| count);
    let layout = match counts {
        [2, 1, 1] => Cow::Borrowed(""),
        [near, 1, 1] if near > 1 => Cow::Owned(format!("near{near}")),
        [1, far, 1] if far > 1 => Cow::Owned(format!("far{far}")),
        [1, 1, offset] if offset > 1 => Cow::Owned(format!("offset{offset}")),
        [near, far, 1] if near > 1 => Cow::Owned(format!("near{near}far{far}")),
        _ => return None,
    };
    Some((layout, counts.map(usize::from).iter().product()))
}

/// Reads a chunk size in bytes; without a suffix it is in KiB.
pub(super) fn chunk(level: &str, word: &Word<'_>) -> Result<u64, Fault> {
    let bytes = size(word, KIB, SUFFIXES, "a chunk size")?;
    let is_linear = level == "concat";
    if bytes == 0 && !is_linear {
        return Err(word.fault("a chunk size can't be 0"));
    }
    if !bytes.is_multiple_of(4 << 10) {
        return Err(word.fault("a chunk size is a multiple of 4K"));
    }
    if !is_linear && level != "raid0" && !bytes.is_power_of_two() {
        return Err(word.fault(format!("a chunk size of {level} is a power of two in md")));
    }
    Ok(bytes)
}

/// Returns an error if a part is empty or not within its device.
pub(super) fn check_part(part: &Part, word: &Word<'_>, source: &Source<'_>) -> Result<(), Fault> {
    let length = part.length_sectors.unwrap_or(1);
    let end = part.start_sectors.checked_add(length);
    let end = end.filter(|end| length > 0 && *end <= SECTORS_MAX);
    let sectors = source
        .sectors_of(&word.text)
        .or_else(|| source.sectors_of(&part.device));
    match (end, sectors) {
        (None, _) => Err(word.fault("there is no room for data on this device")),
        (Some(end), Some(sectors)) if end > sectors => {
            let message = format!(
                "{} ends at sector {sectors}, and its data at {end}",
                &**word
            );
            Err(word.fault(message))
        }
        _ => Ok(()),
    }
}

/// Returns true if the arrays of a level have chunks in md.
pub(super) fn has_chunks(level: &str) -> bool {
    !matches!(level, "concat" | "raid1")
}

/// Returns true if the arrays of a level can have a journal in md.
pub(super) fn has_journals(level: &str) -> bool {
    matches!(level, "raid4" | "raid5" | "raid6")
}

/// Returns true if an array of this level can lack members.
pub(super) fn is_redundant(level: &str) -> bool {
    Level::named(level).is_ok_and(|level| level.redundancy != Redundancy::None)
}

/// Returns the name of an array from its path: `/dev/md/home` and `host:home` are `home`.
pub(super) fn name_of(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit(':').next().unwrap_or(name)
}

/// Returns md's word for one of our layouts.
pub(super) fn written_layout(level: &str, layout: &str) -> Result<String, Unsayable> {
    let unsayable = || Unsayable::new(format!("{level} with the layout {layout}"));
    match level {
        "raid5" | "raid6" => {
            let name = PARITY_LAYOUTS.iter().map(|(name, ..)| *name);
            let mut name = name.filter(|name| *name == layout);
            name.next().map(ToOwned::to_owned).ok_or_else(unsayable)
        }
        "raid10" => {
            let mut parts = layout.split(' ');
            match (parts.next(), parts.next(), parts.next()) {
                (Some(name @ ("near" | "far" | "offset")), Some(copies), None) => {
                    Ok(format!("{}{copies}", &name[..1]))
                }
                _ => Err(unsayable()),
            }
        }
        "raid0" if layout == "original" => Ok("original".to_owned()),
        _ => Err(unsayable()),
    }
}
