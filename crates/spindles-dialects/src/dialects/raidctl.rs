//! `RAIDframe`'s files with `START` sections, read by `raidctl -c` of NetBSD and OpenBSD.
//!
//! Data begins at sector 64 of each component, after the component label; all components count up
//! to the whole stripe units of the smallest.

use crate::commands::{refuse_commands, runs_first};
use crate::devices::{Devices, Use};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::{ALL_USED, MISSING, Part, SIZES_UNKNOWN, Smallest, Tree};
use crate::fault::Fault;
use crate::shape::{Shape, Unsayable, component, plain_word};
use crate::sizes::{SECTOR_BYTES, check_chunk, number};
use crate::text::{Grammar, Quotes, Statement, Word, statements};
use crate::writing::Writing;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use spindles_layout::Expression;

pub(super) static DIALECT: Dialect = Dialect {
    name: "raidctl",
    summary: "RAIDframe of NetBSD and OpenBSD",
    reads: "a file for raidctl -c, with its START sections",
    flavours: &[],
    recognises,
    read,
    write: Some(write),
};

/// The program that reads a file.
const PROGRAM: &str = "raidctl";

/// The sectors before the data of a component.
const LABEL_SECTORS: u64 = 64;

/// The lines of a section at most.
const LINES_MAX: usize = 4096;

const GRAMMAR: Grammar = Grammar {
    continuation: false,
    quotes: Quotes::None,
};

/// The name of a section of a file, and whether a file must have it.
const SECTIONS: [(&str, bool); 6] = [
    ("array", true),
    ("disks", true),
    ("spare", false),
    ("layout", true),
    ("queue", false),
    ("debug", false),
];

/// The meaning of a level letter.
enum Letter {
    /// A level of ours and its layout.
    Array(&'static str, &'static str),
    /// Stripes up to the end of the smallest component.
    Stripes,
    /// One mirror, or stripes over mirrored pairs.
    Pairs,
    /// Each chunk again on the next component, half a component further on.
    Chained,
    /// No level of ours.
    Refused,
}

/// The level letters with `RAIDframe`'s names.
const LETTERS: [(&str, &str, Letter); 14] = [
    ("0", "level 0", Letter::Stripes),
    ("1", "level 1", Letter::Pairs),
    ("4", "level 4", Letter::Array("raid4", "")),
    ("5", "level 5", Letter::Array("raid5", "")),
    ("6", "P+Q, level 6", Letter::Refused),
    ("C", "chained declustering", Letter::Chained),
    (
        "D",
        "parity declustering with distributed sparing",
        Letter::Refused,
    ),
    ("E", "EvenOdd", Letter::Refused),
    ("I", "interleaved declustering", Letter::Refused),
    ("L", "parity logging", Letter::Refused),
    ("Q", "declustered P+Q", Letter::Refused),
    ("R", "level 5 with rotated sparing", Letter::Refused),
    ("T", "parity declustering", Letter::Refused),
    ("e", "declustered EvenOdd", Letter::Refused),
];

fn recognises(text: &str) -> bool {
    has_sections(text) || runs_first(text, PROGRAM)
}

fn has_sections(text: &str) -> bool {
    let mut lines = statements(text, GRAMMAR).map_while(Result::ok);
    lines.any(|line| {
        let section = line.words.get(1).map(|word| &**word);
        &*line.words[0] == "START" && SECTIONS.iter().any(|(name, _)| section == Some(name))
    })
}

/// A section: its `START` line and the lines after it.
struct Section<'text> {
    name: &'static str,
    start: Statement<'text>,
    lines: Vec<Statement<'text>>,
}

impl<'text> Section<'text> {
    /// Returns its only line.
    fn line(&self, expected: &str) -> Result<&Statement<'text>, Fault> {
        if let Some(extra) = self.lines.get(1) {
            let message = format!("START {} has one line only", self.name);
            return Err(extra.words[0].fault(message));
        }
        let line = self.lines.first();
        line.ok_or_else(|| {
            Fault::new(
                self.start.end,
                format!("START {} lacks {expected}", self.name),
            )
        })
    }
}

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    if !has_sections(source.text) {
        let expected = "the file of raidctl, with START array, is expected here";
        refuse_commands(source.text, &[PROGRAM], expected)?;
    }
    let sections = sections(source.text)?;
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    for (name, needed) in SECTIONS {
        if needed && section(name).is_none() {
            return Err(Fault::new(
                source.text.len(),
                format!("START {name} is missing"),
            ));
        }
    }
    let needed = |name| section(name).expect("checked above");

    let mut draft = Draft::default();
    let counts = Counts::read(needed("array"))?;
    let mut devices = Devices::default();
    let components = components(needed("disks"), &counts, &mut devices, &mut draft)?;
    let spares = spares(section("spare"), &counts, &mut devices)?;
    if section("spare").is_none() && counts.spares > 0 {
        let text = format!(
            "{} announced, but START spare is missing: none",
            counts.spares
        );
        draft.note(needed("array").start.end, text);
    }
    let layout = Layout::read(needed("layout"), &mut draft)?;
    let (tree, is_uniform) = layout.tree(&components, source, &mut draft)?;
    for section in ["queue", "debug"].into_iter().filter_map(section) {
        let text = format!("START {} has no effect here", section.name);
        draft.note(section.start.words[0].at, text);
    }
    let at = needed("disks").start.words[0].at;
    let shape = Shape {
        spares,
        is_uniform,
        ..Shape::new(&tree, Some(layout.chunk_sectors * SECTOR_BYTES), at)?
    };
    draft.add(shape, &tree, at)?;
    Ok(draft)
}

fn sections(text: &str) -> Result<Vec<Section<'_>>, Fault> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for statement in statements(text, GRAMMAR) {
        let statement = statement?;
        let first = &statement.words[0];
        if &**first != "START" {
            let section = sections.last_mut();
            let section = section.ok_or_else(|| {
                first.fault(format!("START array is expected here, not '{}'", &**first))
            })?;
            if section.lines.len() == LINES_MAX {
                let message = format!("START {} has more than {LINES_MAX} lines", section.name);
                return Err(first.fault(message));
            }
            section.lines.push(statement);
            continue;
        }
        let word = statement.word(1, "the name of a section")?;
        let known = SECTIONS.iter().find(|(name, _)| **word == **name);
        let (name, _) = known.ok_or_else(|| {
            let names = SECTIONS.map(|(name, _)| name).join(", ");
            word.fault(format!("'{}' is no section: there are {names}", &**word))
        })?;
        if sections.iter().any(|section| section.name == *name) {
            return Err(first.fault(format!("START {name} is there twice")));
        }
        statement.at_most(2)?;
        sections.push(Section {
            name,
            start: statement,
            lines: Vec::new(),
        });
    }
    Ok(sections)
}

/// The numbers of `START array`.
struct Counts {
    components: u64,
    spares: u64,
}

impl Counts {
    /// Reads `columns spares`, or `rows columns spares` of files before NetBSD 7.
    fn read(section: &Section<'_>) -> Result<Self, Fault> {
        let line = section.line("the numbers of components and spares")?;
        line.at_most(3)?;
        let mut words = line.words.as_slice();
        if let [rows, rest @ ..] = words
            && rest.len() == 2
        {
            if number(rows, "a number of rows")? != 1 {
                let message = format!("an array of {} rows: there is only one of 1 row", &**rows);
                return Err(rows.fault(message));
            }
            words = rest;
        }
        line.word(1, "the number of spares")?;
        Ok(Self {
            components: number(&words[0], "a number of components")?,
            spares: number(&words[1], "a number of spares")?,
        })
    }
}

/// A component; its device is `missing` if absent.
struct Component {
    device: String,
    at: usize,
}

fn components(
    section: &Section<'_>,
    counts: &Counts,
    devices: &mut Devices,
    draft: &mut Draft,
) -> Result<Vec<Component>, Fault> {
    check_count(section, counts.components, "component")?;
    let mut components = Vec::new();
    for line in &section.lines {
        line.at_most(1)?;
        let word = &line.words[0];
        components.push(Component {
            device: match &**word {
                "absent" => MISSING.to_owned(),
                name if is_placeholder(name) => {
                    let text = format!(
                        "{name} is RAIDframe's name for a component that is not there: it is read \
                         as missing"
                    );
                    draft.note(word.at, text);
                    MISSING.to_owned()
                }
                name => {
                    if name.starts_with("NAME=") {
                        let text = format!("{name} is the name of a wedge: put its device here");
                        draft.note(word.at, text);
                    }
                    devices.add(word, Use::Member)?
                }
            },
            at: word.at,
        });
    }
    if components
        .iter()
        .all(|component| component.device == MISSING)
    {
        let message = "no component is there";
        return Err(Fault::new(section.start.words[0].at, message));
    }
    Ok(components)
}

/// Returns true for `component1`, as raidctl -G prints a component that is not there.
fn is_placeholder(name: &str) -> bool {
    let digits = name.strip_prefix("component").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn spares(
    section: Option<&Section<'_>>,
    counts: &Counts,
    devices: &mut Devices,
) -> Result<Vec<String>, Fault> {
    let Some(section) = section else {
        return Ok(Vec::new());
    };
    check_count(section, counts.spares, "spare")?;
    let lines = section.lines.iter();
    lines
        .map(|line| {
            line.at_most(1)?;
            devices.add(&line.words[0], Use::Spare)
        })
        .collect()
}

fn check_count(section: &Section<'_>, announced: u64, noun: &str) -> Result<(), Fault> {
    let named = section.lines.len();
    if u64::try_from(named) == Ok(announced) {
        return Ok(());
    }
    let plural = if announced == 1 { "" } else { "s" };
    let message = format!("{announced} {noun}{plural} announced, {named} named");
    Err(Fault::new(section.start.words[0].at, message))
}

/// The line of `START layout`.
struct Layout {
    chunk_sectors: u64,
    letter: &'static Letter,
    /// The offset of the letter.
    at: usize,
}

impl Layout {
    fn read(section: &Section<'_>, draft: &mut Draft) -> Result<Self, Fault> {
        let expected = "sectPerSU SUsPerParityUnit SUsPerReconUnit level";
        let first = section.lines.first();
        let line = first.ok_or_else(|| {
            let message = format!("START layout lacks its line: {expected}");
            Fault::new(section.start.end, message)
        })?;
        let chunk = line.word(0, "sectPerSU")?;
        let chunk_sectors = number(chunk, "sectPerSU, a number of sectors")?;
        let bytes = chunk_sectors.saturating_mul(SECTOR_BYTES);
        check_chunk(chunk, bytes, "a stripe unit")?;
        for (index, name) in [(1, "SUsPerParityUnit"), (2, "SUsPerReconUnit")] {
            let word = line.word(index, name)?;
            match number(word, name)? {
                0 => return Err(word.fault(format!("{name} can't be 0"))),
                1 => {}
                units => draft.note(word.at, format!("{name} {units} has no effect here")),
            }
        }
        let word = line.word(3, "the level")?;
        let letter = letter(word)?;
        line.at_most(4)?;
        // Only refused levels have further lines.
        section.line(expected)?;
        Ok(Self {
            chunk_sectors,
            letter,
            at: word.at,
        })
    }

    /// Returns the array; true if its members end at the smallest, unlike those of our level.
    fn tree(
        &self,
        components: &[Component],
        source: &Source<'_>,
        draft: &mut Draft,
    ) -> Result<(Tree, bool), Fault> {
        let units = self.units(components, source)?;
        let count = components.len();
        let (level, layout, units_used) = match *self.letter {
            Letter::Array(level, layout) => (level, layout, None),
            Letter::Stripes => ("raid0", "", self.stripes(&units, draft)),
            Letter::Pairs if count % 2 == 1 => {
                let message = format!("level 1 needs an even number of components, not {count}");
                return Err(Fault::new(self.at, message));
            }
            Letter::Pairs if count == 2 => ("raid1", "", None),
            Letter::Pairs => ("raid10", "", None),
            Letter::Chained => ("raid10", "far2", self.chained(count, &units, draft)?),
            Letter::Refused => unreachable!("refused when read"),
        };
        let parts = components.iter().map(|component| Part {
            device: component.device.clone(),
            start_sectors: LABEL_SECTORS,
            length_sectors: units_used.map(|units| units * self.chunk_sectors),
        });
        let is_uniform = level == "raid0" && Smallest::of(&units) != Smallest::Even;
        Ok((Tree::of(level, layout, parts), is_uniform))
    }

    /// Returns the whole stripe units of each component; `None` if its size is not known.
    fn units(
        &self,
        components: &[Component],
        source: &Source<'_>,
    ) -> Result<Vec<Option<u64>>, Fault> {
        let present = components
            .iter()
            .filter(|component| component.device != MISSING);
        let units = present.map(|component| {
            let Some(sectors) = source.sectors_of(&component.device) else {
                return Ok(None);
            };
            match sectors.saturating_sub(LABEL_SECTORS) / self.chunk_sectors {
                0 => {
                    let message = format!(
                        "{} has {sectors} sectors: too few for {LABEL_SECTORS} before the data \
                         and a stripe unit of {}",
                        component.device, self.chunk_sectors
                    );
                    Err(Fault::new(component.at, message))
                }
                units => Ok(Some(units)),
            }
        });
        units.collect()
    }

    /// Returns the stripe units of each component that level 0 uses, if some have more.
    fn stripes(&self, units: &[Option<u64>], draft: &mut Draft) -> Option<u64> {
        match Smallest::of(units) {
            Smallest::Even => None,
            Smallest::Uneven(units) => {
                draft.note_here(self.at, ALL_USED);
                Some(units)
            }
            Smallest::Unknown => {
                draft.note(self.at, SIZES_UNKNOWN);
                None
            }
        }
    }

    /// Returns the stripe units of each component that chained declustering uses, if some have
    /// more: it works in regions of `2 * (components - 1)`.
    fn chained(
        &self,
        components: usize,
        units: &[Option<u64>],
        draft: &mut Draft,
    ) -> Result<Option<u64>, Fault> {
        let region = u64::try_from(components.saturating_sub(1) * 2).expect("at most a text");
        let smallest = units.iter().flatten().min().copied().unwrap_or_default();
        if Smallest::of(units) == Smallest::Unknown || region == 0 {
            draft.note(self.at, SIZES_UNKNOWN);
            return Ok(None);
        }
        match smallest - smallest % region {
            0 => {
                let message = format!(
                    "chained declustering needs {region} stripe units of each component, and the \
                     smallest has {smallest}"
                );
                Err(Fault::new(self.at, message))
            }
            used => Ok((used != smallest).then_some(used)),
        }
    }
}

fn letter(word: &Word<'_>) -> Result<&'static Letter, Fault> {
    let known = LETTERS.iter().find(|(letter, ..)| **word == **letter);
    let (letter, name, meaning) = known.ok_or_else(|| {
        let message = format!("'{}' is no level of RAIDframe", &**word);
        word.fault(message)
    })?;
    match meaning {
        Letter::Refused => Err(word.fault(format!("{name}, {letter}: no level here is like it"))),
        meaning => Ok(meaning),
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
    let layout_name = layout.map(|layout| layout.to_string()).unwrap_or_default();
    let letter = match (level.name, layout_name.as_str(), members.len()) {
        ("raid0", "", _) => "0",
        ("raid1", "", 2) => "1",
        ("raid10", "" | "near 2", count) if count % 2 == 0 => "1",
        ("raid10", "far 2", _) => "C",
        ("raid4", "", _) => "4",
        ("raid5", "" | "left-symmetric", _) => "5",
        _ => return Err(Unsayable::array(level, *layout, members.len())),
    };
    shape.without_journal()?;
    if !writing.is_empty() {
        writing.note("a file describes one array: give each START array a file of its own");
    }
    writing.each_device_once(shape)?;
    let is_smaller = matches!(writing.smallest(members), Smallest::Uneven(_));
    if level.name == "raid0" && !shape.is_uniform && is_smaller {
        writing.note("RAIDframe ends level 0 at the smallest component: it holds less");
    }
    let chunk_sectors = shape.chunk_sectors(level)?;
    let mut text = shape.name_comment();
    let (components, spares) = (members.len(), shape.spares.len());
    writeln!(text, "START array\n{components} {spares}\nSTART disks").expect("a string");
    for member in members {
        let Expression::Leaf(device) = member else {
            return Err(Unsayable::new("an array as a component"));
        };
        let word = match device.as_str() {
            MISSING => "absent".to_owned(),
            "absent" => return Err(Unsayable::new("a device of the name 'absent'")),
            device => component(device, LABEL_SECTORS)?,
        };
        writeln!(text, "{word}").expect("a string");
    }
    if !shape.spares.is_empty() {
        writeln!(text, "START spare").expect("a string");
    }
    for spare in &shape.spares {
        writeln!(text, "{}", plain_word(spare)?).expect("a string");
    }
    writeln!(
        text,
        "START layout\n{chunk_sectors} 1 1 {letter}\nSTART queue\nfifo 100"
    )
    .expect("a string");
    Ok(text)
}
