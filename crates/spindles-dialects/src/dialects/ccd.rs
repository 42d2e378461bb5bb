//! `ccd.conf`, read by `ccdconfig -C` of FreeBSD, NetBSD and OpenBSD: a line per concatenated disk.
//!
//! FreeBSD keeps 16 sectors at the start of each component, the others none.

use crate::commands::{Command, commands, runs_first};
use crate::devices::{Devices, Use};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::{ALL_USED, MISSING, Part, SIZES_UNKNOWN, Smallest, Tree};
use crate::fault::Fault;
use crate::shape::{Shape, Unsayable, component};
use crate::sizes::{SECTOR_BYTES, check_chunk, number};
use crate::text::{Grammar, Quotes, Statement, Word, statements};
use crate::writing::Writing;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use spindles_layout::{Expression, Level};

pub(super) static DIALECT: Dialect = Dialect {
    name: "ccd",
    summary: "the concatenated disk driver of FreeBSD, NetBSD and OpenBSD",
    reads: "ccd.conf, for ccdconfig -C, and ccdconfig commands",
    flavours: &[FREEBSD, NETBSD],
    recognises,
    read,
    write: Some(write),
};

/// The program that takes a line as its words.
const PROGRAM: &str = "ccdconfig";

const FREEBSD: &str = "freebsd";
const NETBSD: &str = "netbsd";

/// The sectors that FreeBSD keeps at the start of each component, for a disklabel.
const LABEL_SECTORS: u64 = 16;

/// The note on a text that does not tell the system.
const KEPT: &str = "FreeBSD keeps 16 sectors at the start of each component, and they are left \
                    out; NetBSD and OpenBSD keep none";

const GRAMMAR: Grammar = Grammar {
    continuation: true,
    quotes: Quotes::None,
};

const SWAP: u64 = 0x01;
const UNIFORM: u64 = 0x02;
const MIRROR: u64 = 0x04;
const PARITY: u64 = 0x100;
const NO_OFFSET: u64 = 0x08;
const LINUX: u64 = 0x10;
const NO_LABEL: u64 = 0x200;
/// The flags that may be a number: those of FreeBSD.
const NUMBERED: u64 = SWAP | UNIFORM | MIRROR | NO_OFFSET | LINUX;
/// The numbers that mean the same in NetBSD and OpenBSD.
const NUMBERED_ALIKE: u64 = SWAP | UNIFORM;

const FLAGS: [(&str, u64); 14] = [
    ("none", 0),
    ("CCDF_SWAP", SWAP),
    ("CCDF_UNIFORM", UNIFORM),
    ("uniform", UNIFORM),
    ("CCDF_MIRROR", MIRROR),
    ("mirror", MIRROR),
    ("CCDF_PARITY", PARITY),
    ("parity", PARITY),
    ("CCDF_LINUX", LINUX),
    ("linux", LINUX),
    ("CCDF_NO_OFFSET", NO_OFFSET),
    ("no_offset", NO_OFFSET),
    ("CCDF_NOLABEL", NO_LABEL),
    ("nolabel", NO_LABEL),
];

fn recognises(text: &str) -> bool {
    if runs_first(text, PROGRAM) {
        return true;
    }
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = lines.next().unwrap_or_default();
    let first = line.split_whitespace().next().unwrap_or_default();
    // A path by itself is a device.
    ccd_name(first).is_some() && (first != line || !line.contains('/'))
}

/// Returns `ccd0` of `ccd0`, `/dev/ccd0`, `/dev/rccd0c`.
fn ccd_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix("/dev/").unwrap_or(word);
    let name = name.strip_prefix('r').unwrap_or(name);
    let unit = name.strip_prefix("ccd")?;
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    let partition = &unit[digits..];
    let is_partition = partition.is_empty()
        || partition.len() == 1 && partition.bytes().all(|byte| byte.is_ascii_lowercase());
    (digits > 0 && is_partition).then(|| &name[.."ccd".len() + digits])
}

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let mut reader = Reader {
        source,
        keeps_label: source.flavour != Some(NETBSD),
        devices: Devices::default(),
        names: BTreeSet::new(),
        stacked: Vec::new(),
        draft: Draft::default(),
    };
    if runs_first(source.text, PROGRAM) {
        for command in commands(source.text)? {
            reader.command(&command)?;
        }
    } else {
        for line in statements(source.text, GRAMMAR) {
            reader.line(&line?)?;
        }
    }
    let Reader {
        names,
        stacked,
        mut draft,
        ..
    } = reader;
    if draft.arrays.is_empty() {
        let message = "a line such as 'ccd0 16 none /dev/da0e /dev/da1e' is missing";
        return Err(Fault::new(source.text.len(), message));
    }
    for (at, name) in stacked {
        if names.contains(&name) {
            let text = format!("this component lies on {name}, an array of this text: serve that");
            draft.note(at, text);
        }
    }
    Ok(draft)
}

struct Reader<'a> {
    source: &'a Source<'a>,
    keeps_label: bool,
    devices: Devices,
    names: BTreeSet<String>,
    /// Components that look like a ccd, and their offsets.
    stacked: Vec<(usize, String)>,
    draft: Draft,
}

impl Reader<'_> {
    fn command(&mut self, command: &Command<'_>) -> Result<(), Fault> {
        if &*command.program != PROGRAM {
            let text = command.skipped("is not ccdconfig");
            self.draft.note(command.program.at, text);
            return Ok(());
        }
        let mut words = command.own_words()?.to_vec();
        let end = command.end;
        let options = words.iter().take_while(|word| word.starts_with('-'));
        let options = options.count();
        for option in words.drain(..options) {
            if !option.bytes().skip(1).all(|letter| b"cv".contains(&letter)) {
                let message = format!(
                    "ccdconfig {} describes no ccd: give the file that it reads",
                    &*option
                );
                return Err(option.fault(message));
            }
        }
        if words.is_empty() {
            return Err(Fault::new(end, "a ccd such as ccd0 is missing here"));
        }
        self.line(&Statement::new(words, end))
    }

    fn line(&mut self, line: &Statement<'_>) -> Result<(), Fault> {
        let word = &line.words[0];
        let name = ccd_name(word).ok_or_else(|| {
            let message = format!("a ccd such as ccd0 is expected here, not '{}'", &**word);
            word.fault(message)
        })?;
        if !self.names.insert(name.to_owned()) {
            return Err(word.fault(format!("{name} is there twice")));
        }
        let interleave = line.word(1, "the interleave, a number of sectors")?;
        let mut sectors = number(interleave, "an interleave in sectors")?;
        let third = line.word(2, "a component")?;
        // Flags may be omitted before a single component only.
        let has_flags = line.words.len() > 3;
        if !has_flags && is_flags(third) {
            line.word(3, "a component")?;
        }
        let mut flags = 0;
        if has_flags {
            flags = self.flags(&line.words[2])?;
        }
        if flags & LINUX != 0 {
            sectors = sectors.saturating_mul(2);
        }
        if sectors > 0 {
            let bytes = sectors.saturating_mul(SECTOR_BYTES);
            check_chunk(interleave, bytes, "an interleave")?;
        }
        let components = &line.words[if has_flags { 3 } else { 2 }..];
        let is_mirror = flags & MIRROR != 0 && sectors > 0;
        if flags & MIRROR != 0 && sectors == 0 {
            let text = "ccd disables CCDF_MIRROR if the interleave is 0: a concatenation";
            self.draft.note(line.words[2].at, text);
        }
        if is_mirror && components.len() % 2 == 1 {
            let count = components.len();
            let message = format!("a mirror needs an even number of components, not {count}");
            return Err(line.words[2].fault(message));
        }
        if is_mirror && flags & LINUX != 0 && components.len() != 2 {
            let message = "a mirror with CCDF_LINUX has exactly two components";
            return Err(line.words[2].fault(message));
        }
        let parts = self.parts(components, sectors, flags)?;
        let tree = tree(parts, sectors, is_mirror);
        let chunk_bytes = (sectors > 0).then(|| sectors * SECTOR_BYTES);
        let shape = Shape {
            name: Some(name.to_owned()),
            is_uniform: flags & UNIFORM != 0 && !is_mirror,
            no_offset: flags & (NO_OFFSET | LINUX) != 0,
            ..Shape::new(&tree, chunk_bytes, components[0].at)?
        };
        self.draft.add(shape, &tree, components[0].at)
    }

    /// Reads a number, or names with commas or bars between them.
    fn flags(&mut self, word: &Word<'_>) -> Result<u64, Fault> {
        let mut flags = 0;
        if let Some(value) = flags_number(word) {
            if value & !NUMBERED != 0 {
                return Err(word.fault(format!("{} is no number of flags of ccd", &**word)));
            }
            if value & !NUMBERED_ALIKE != 0 {
                if !self.keeps_label {
                    let message = format!(
                        "{} is a number of other flags in NetBSD than in OpenBSD: write the names",
                        &**word
                    );
                    return Err(word.fault(message));
                }
                if self.source.flavour.is_none() {
                    let text = format!("{} is read as a number of FreeBSD's flags", &**word);
                    self.draft.note(word.at, text);
                }
            }
            flags = value;
        } else {
            for part in word.split(&[',', '|']) {
                let known = FLAGS.iter().find(|(name, _)| *part == **name);
                let (_, flag) = known.ok_or_else(|| {
                    let names = FLAGS.map(|(name, _)| name).join(", ");
                    part.fault(format!("'{}' is no flag of ccd: there are {names}", &*part))
                })?;
                flags |= flag;
            }
        }
        if flags & PARITY != 0 {
            let message = "CCDF_PARITY, parity: ccd left its place out and never wrote it; no \
                           level here is like it";
            return Err(word.fault(message));
        }
        for (flag, name) in [(SWAP, "CCDF_SWAP"), (NO_LABEL, "CCDF_NOLABEL")] {
            if flags & flag != 0 {
                self.draft
                    .note(word.at, format!("{name} has no effect here"));
            }
        }
        Ok(flags)
    }

    fn parts(
        &mut self,
        components: &[Word<'_>],
        interleave: u64,
        flags: u64,
    ) -> Result<Vec<Part>, Fault> {
        let is_mirror = flags & MIRROR != 0 && interleave > 0;
        let keeps_label = self.keeps_label && flags & (LINUX | NO_OFFSET) == 0;
        if keeps_label && self.source.flavour.is_none() {
            self.draft.note(components[0].at, KEPT);
        }
        let start_sectors = if keeps_label { LABEL_SECTORS } else { 0 };
        let unit = interleave.max(1);
        let mut parts = Vec::new();
        let mut lengths = Vec::new();
        for word in components {
            let device = self.devices.add(word, Use::Member)?;
            if let Some(name) = ccd_name(&device) {
                self.stacked.push((word.at, name.to_owned()));
            }
            let sectors = self.source.sectors_of(&device);
            let length = sectors.map(|sectors| {
                let usable = sectors.saturating_sub(start_sectors);
                usable - usable % unit
            });
            if length == Some(0) {
                let message = format!(
                    "{device} has {} sectors: too few for {start_sectors} before the data and \
                     an interleave of {interleave}",
                    sectors.unwrap_or_default()
                );
                return Err(word.fault(message));
            }
            lengths.push(length);
            parts.push(Part {
                device,
                start_sectors,
                length_sectors: None,
            });
        }
        if flags & UNIFORM != 0 || is_mirror {
            match Smallest::of(&lengths) {
                Smallest::Even => {}
                Smallest::Uneven(length) => {
                    for part in &mut parts {
                        part.length_sectors = Some(length);
                    }
                    if !is_mirror {
                        self.draft.note_here(components[0].at, ALL_USED);
                    }
                }
                Smallest::Unknown => self.draft.note(components[0].at, SIZES_UNKNOWN),
            }
        }
        Ok(parts)
    }
}

fn tree(mut parts: Vec<Part>, interleave: u64, is_mirror: bool) -> Tree {
    if interleave == 0 {
        return Tree::of("concat", "", parts);
    }
    if !is_mirror {
        return Tree::of("raid0", "", parts);
    }
    if parts.len() == 2 {
        return Tree::of("raid1", "", parts);
    }
    let second = parts.split_off(parts.len() / 2);
    let halves = [parts, second].map(|half| Tree::of("raid0", "", half));
    Tree::array("raid1", "", halves.into())
}

/// Returns true for a word that says flags and names no device.
fn is_flags(word: &str) -> bool {
    flags_number(word).is_some() || FLAGS.iter().any(|(name, _)| *name == word)
}

/// Reads a number in decimal, in octal after `0`, or in hexadecimal after `0x`.
fn flags_number(word: &str) -> Option<u64> {
    let hexadecimal = word.strip_prefix("0x").or(word.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, word.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        (None, _) => (word, 10),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| is_number)
}

fn write(shape: &Shape, writing: &mut Writing<'_>) -> Result<String, Unsayable> {
    shape.without_spares()?;
    shape.without_journal()?;
    writing.each_device_once(shape)?;
    let (devices, is_mirror, level) = components(&shape.expression)?;
    let interleave = match level.name {
        "concat" => 0,
        _ => shape.chunk_sectors(level)?,
    };
    let flags = [
        (is_mirror, "CCDF_MIRROR"),
        (shape.is_uniform, "CCDF_UNIFORM"),
        (shape.no_offset, "CCDF_NO_OFFSET"),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
    let flags: Vec<&str> = flags.map(|(_, name)| name).collect();
    let flags = match flags.as_slice() {
        [] => "none".to_owned(),
        flags => flags.join(","),
    };
    let (comment, name) = match shape.name.as_deref() {
        Some(name) if ccd_name(name) == Some(name) => (String::new(), name.to_owned()),
        _ => (shape.name_comment(), writing.name("ccd")),
    };
    Ok(format!(
        "{comment}{name} {interleave} {flags} {}\n",
        devices.join(" ")
    ))
}

/// Returns the components, true if they are a mirror, and the level that has the chunks.
fn components(expression: &Expression) -> Result<(Vec<String>, bool, &'static Level), Unsayable> {
    let Expression::Array {
        level,
        layout,
        members,
    } = expression
    else {
        return Err(Unsayable::new("a device without an array"));
    };
    if level.name != "raid1" {
        if !["raid0", "concat"].contains(&level.name) || layout.is_some() {
            return Err(Unsayable::array(level, *layout, members.len()));
        }
        return Ok((leaves(members)?, false, level));
    }
    let [first, second] = members.as_slice() else {
        return Err(Unsayable::new(format!(
            "{} copies: ccd makes two",
            members.len()
        )));
    };
    if let (Expression::Leaf(_), Expression::Leaf(_)) = (first, second) {
        return Ok((leaves(members)?, true, level));
    }
    let mut level = *level;
    let mut devices = Vec::new();
    let mut counts = Vec::new();
    for half in members {
        match half {
            Expression::Array {
                level: striped,
                layout: None,
                members,
            } if striped.name == "raid0" => {
                level = striped;
                devices.extend(leaves(members)?);
                counts.push(members.len());
            }
            _ => return Err(Unsayable::new("a mirror of anything but raid0")),
        }
    }
    if counts[0] != counts[1] {
        return Err(Unsayable::new(
            "a mirror of halves with unequal numbers of components",
        ));
    }
    Ok((devices, true, level))
}

fn leaves(members: &[Expression]) -> Result<Vec<String>, Unsayable> {
    let names = members.iter().map(|member| match member {
        Expression::Leaf(name) if name == MISSING => Err(Unsayable::new("a missing component")),
        Expression::Leaf(name) => component(name, LABEL_SECTORS),
        Expression::Array { .. } | Expression::Slice { .. } => {
            Err(Unsayable::new("an array as a component"))
        }
    });
    names.collect()
}
