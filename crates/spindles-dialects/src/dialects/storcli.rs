//! storcli and perccli: virtual drives of RAID controllers. The shape only: a controller keeps to
//! itself how it lays data on drives.

use crate::commands::{Command, commands, foreign_or_end};
use crate::devices::{Devices, Use, array_name};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::{Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::{BINARY, number, size};
use crate::text::Word;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) static DIALECT: Dialect = Dialect {
    name: "storcli",
    summary: "RAID controllers of Broadcom and Dell",
    reads: "storcli /cX add vd commands",
    flavours: &[],
    recognises: |text| {
        PROGRAMS
            .iter()
            .any(|program| crate::commands::runs_first(text, program))
    },
    read,
    write: None,
};

const PROGRAMS: [&str; 6] = [
    "storcli",
    "storcli64",
    "storcli2",
    "perccli",
    "perccli64",
    "perccli2",
];

/// The most drives of a range.
const DRIVES_MAX: u64 = 256;

/// Words without a value that have no meaning here.
const FLAGS: [&str; 14] = [
    "wt",
    "wb",
    "awb",
    "fwb",
    "ra",
    "nora",
    "direct",
    "cached",
    "cachedbadbbu",
    "nocachedbadbbu",
    "sed",
    "pi",
    "force",
    "exclusiveaccess",
];

/// Names of values without effect here.
const VALUES: [&str; 11] = [
    "pdcache",
    "ds",
    "dimmerswitch",
    "aftervd",
    "emulationtype",
    "cbsize",
    "cbmode",
    "unmap",
    "nofrag",
    "init",
    "blocksize",
];

/// A level: the one of a span, drives that a span needs, and whether spans are striped.
struct Kind {
    name: &'static str,
    span: &'static str,
    drives_min: usize,
    is_striped: bool,
}

const fn kind(name: &'static str, span: &'static str, drives_min: usize, is_striped: bool) -> Kind {
    Kind {
        name,
        span,
        drives_min,
        is_striped,
    }
}

static KINDS: [Kind; 8] = [
    kind("0", "raid0", 1, false),
    kind("1", "raid1", 2, false),
    kind("5", "raid5", 3, false),
    kind("6", "raid6", 3, false),
    kind("00", "raid0", 1, true),
    kind("10", "raid1", 2, true),
    kind("50", "raid5", 3, true),
    kind("60", "raid6", 3, true),
];

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let commands = commands(source.text)?;
    let mut draft = Draft::default();
    let mut taken = Devices::default();
    let mut spares = Vec::new();
    for command in &commands {
        let words: Vec<String> = command
            .words
            .iter()
            .map(|word| word.to_ascii_lowercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (PROGRAMS.contains(&&*command.program), &words[..]) {
            (true, [controller, "add", "vd", ..]) if controller.starts_with("/c") => {
                drive(command, &mut taken, &mut draft)?;
            }
            (true, [path, "add", "hotsparedrive", ..]) => {
                let name = spare(path, &command.words[0], &mut taken)?;
                spares.push((command.words[0].at, name));
            }
            (true, _) => draft.note(
                command.program.at,
                command.skipped("makes no virtual drive"),
            ),
            _ => draft.note(command.program.at, command.skipped("is not storcli")),
        }
    }
    match &mut draft.arrays[..] {
        [] => {
            let message = "storcli /cX add vd type=raidN drives=E:S-S is missing here";
            let at = foreign_or_end(&commands, &PROGRAMS, source.text);
            return Err(Fault::new(at, message));
        }
        [one] => one
            .shape
            .spares
            .extend(spares.into_iter().map(|(_, name)| name)),
        _ => {
            for (at, name) in spares {
                draft.note(
                    at,
                    format!("{name} is a spare of several arrays: it is left out"),
                );
            }
        }
    }
    Ok(draft)
}

/// Returns the drive of a path, `/c0/e252/s4`.
fn spare(path: &str, word: &Word<'_>, taken: &mut Devices) -> Result<String, Fault> {
    let mut parts = path.split('/').skip(2);
    let is = |part: &str, letter| {
        let digits = part.strip_prefix(letter);
        digits
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(enclosure), Some(slot), None) if is(enclosure, 'e') && is(slot, 's') => {
            format!("{enclosure}:{slot}")
        }
        (Some(slot), None, None) if is(slot, 's') => slot.to_owned(),
        _ => return Err(word.fault("one drive, as /c0/e252/s4, is expected here")),
    };
    taken.add(
        &Word {
            text: Cow::Owned(name),
            at: word.at,
        },
        Use::Spare,
    )
}

/// The values of `add vd`.
#[derive(Default)]
struct Values<'word> {
    kind: Option<(&'static Kind, Word<'word>)>,
    drives: Option<Word<'word>>,
    per_span: Option<Word<'word>>,
    chunk: Option<Word<'word>>,
    name: Option<Word<'word>>,
    spares: Option<Word<'word>>,
    is_each: bool,
}

impl<'word> Values<'word> {
    fn read(command: &'word Command<'_>, draft: &mut Draft) -> Result<Self, Fault> {
        let mut values = Self::default();
        for word in &command.own_words()?[3..] {
            let lower = word.to_ascii_lowercase();
            let Some((name, _)) = lower.split_once('=') else {
                values.flag(&lower, word, draft)?;
                continue;
            };
            let value = word.from(name.len() + 1);
            let place = match name {
                "type" | "raid" => {
                    values.take_kind(&value)?;
                    continue;
                }
                "drives" => &mut values.drives,
                "pdperarray" => &mut values.per_span,
                "strip" | "stripsize" => &mut values.chunk,
                "name" | "names" => &mut values.name,
                "spares" => &mut values.spares,
                "size" if value.contains(',') => {
                    let message = "several virtual drives on the same drives: an array here uses \
                                   whole drives";
                    return Err(value.fault(message));
                }
                "size" => {
                    if !value.eq_ignore_ascii_case("all") {
                        let text = format!("size={}: a new array here uses whole drives", &*value);
                        draft.note(word.at, text);
                    }
                    continue;
                }
                name if VALUES.contains(&name) => {
                    draft.note(word.at, format!("'{}' has no meaning here", &**word));
                    continue;
                }
                _ => return Err(word.fault(format!("add vd has no {name}="))),
            };
            if place.replace(value).is_some() {
                return Err(word.fault(format!("{name}= is given twice")));
            }
        }
        Ok(values)
    }

    /// Takes a word without a value.
    fn flag(&mut self, lower: &str, word: &'word Word<'_>, draft: &mut Draft) -> Result<(), Fault> {
        let digits = lower
            .strip_prefix("raid")
            .or_else(|| lower.strip_prefix('r'));
        if digits.is_some_and(|digits| {
            digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.is_empty()
        }) {
            return self.take_kind(&word.from(0));
        }
        match lower {
            "each" => self.is_each = true,
            "cc" | "cachecade" => {
                return Err(word.fault("a cache of SSDs: an array here has none"));
            }
            lower if FLAGS.contains(&lower) => {
                draft.note(word.at, format!("'{}' has no meaning here", &**word));
            }
            _ => return Err(word.fault(format!("'{}' is no word of add vd", &**word))),
        }
        Ok(())
    }

    fn take_kind(&mut self, word: &Word<'word>) -> Result<(), Fault> {
        let lower = word.to_ascii_lowercase();
        let digits = lower.trim_start_matches("raid").trim_start_matches('r');
        let kind = KINDS
            .iter()
            .find(|kind| kind.name == digits)
            .ok_or_else(|| {
                let message = format!(
                    "a level, as raid5, r5 or raid10, is expected here, not '{}'",
                    &**word
                );
                word.fault(message)
            })?;
        match self.kind.replace((kind, word.clone())) {
            None => Ok(()),
            Some(_) => Err(word.fault("the level is given twice")),
        }
    }
}

/// Adds the array of a virtual drive.
fn drive(command: &Command<'_>, taken: &mut Devices, draft: &mut Draft) -> Result<(), Fault> {
    let values = Values::read(command, draft)?;
    let missing = |what: &str| Fault::new(command.end, format!("{what} is missing here"));
    let (kind, kind_word) = values.kind.as_ref().ok_or_else(|| missing("type=raidN"))?;
    let word = values
        .drives
        .as_ref()
        .ok_or_else(|| missing("drives=E:S-S"))?;
    let mut parts = Vec::new();
    for name in drives(word)? {
        parts.push(Part::whole(taken.add(&name, Use::Member)?));
    }
    let text = "eE:sS is the drive in enclosure E, slot S: put the device's own name in its place";
    draft.note(word.at, text);
    let mut spares = Vec::new();
    for name in values.spares.as_ref().map_or(Ok(Vec::new()), drives)? {
        spares.push(taken.add(&name, Use::Spare)?);
    }
    let chunk_bytes = values.chunk.as_ref().map(|word| {
        let bytes = size(word, 1 << 10, BINARY, "a strip size in KiB")?;
        if bytes.is_power_of_two() && (8 << 10..=1 << 20).contains(&bytes) {
            Ok(bytes)
        } else {
            Err(word.fault("a strip is 8, 16, 32, 64, 128, 256, 512 or 1024 KiB"))
        }
    });
    let chunk_bytes = chunk_bytes.transpose()?;
    let text = format!(
        "raid{}: the controller alone decides where data and parity lie",
        kind.name
    );
    draft.note(kind_word.at, text);
    let name = values.name.as_ref().map(|word| array_name(word, word));
    let name = name.transpose()?.flatten();
    let groups = match values.is_each {
        true if kind.name == "0" => parts.into_iter().map(|part| [part].into()).collect(),
        true => return Err(kind_word.fault("each drive on its own is raid0")),
        false => Vec::from([parts]),
    };
    for parts in groups {
        let tree = tree(kind, kind_word, &parts, values.per_span.as_ref(), draft)?;
        let is_mirror = matches!(&tree, Tree::Array { level: "raid1", .. });
        let shape = Shape {
            name: name.clone(),
            spares: spares.clone(),
            ..Shape::new(&tree, chunk_bytes.filter(|_| !is_mirror), kind_word.at)?
        };
        draft.add_shape(shape);
    }
    Ok(())
}

fn tree(
    kind: &Kind,
    word: &Word<'_>,
    parts: &[Part],
    per_span: Option<&Word<'_>>,
    draft: &mut Draft,
) -> Result<Tree, Fault> {
    let count = parts.len();
    let given = per_span.filter(|word| !word.eq_ignore_ascii_case("auto"));
    let per_span = match given {
        Some(word) => {
            let drives = number(word, "a number of drives, or auto,")?;
            usize::try_from(drives).unwrap_or(usize::MAX)
        }
        None if !kind.is_striped => count,
        None => {
            let spans = if kind.name == "10" { count / 2 } else { 2 };
            let spans = (spans..=count).find(|spans| *spans > 1 && count.is_multiple_of(*spans));
            let per_span = spans.map_or(count, |spans| count / spans);
            let text = format!("pdperarray is the controller's choice: read as {per_span}");
            draft.note(word.at, text);
            per_span
        }
    };
    if !kind.is_striped {
        return match given {
            Some(given) if per_span != count => {
                Err(given.fault(format!("raid{} has one span", kind.name)))
            }
            _ => span(kind, word, parts),
        };
    }
    let spans = count.checked_div(per_span).unwrap_or(0);
    if spans < 2 || !count.is_multiple_of(per_span) || per_span < kind.drives_min {
        let message = format!(
            "raid{} needs two or more spans of {} or more drives: {count} drives can't be spans of \
             {per_span}",
            kind.name, kind.drives_min
        );
        return Err(given.unwrap_or(word).fault(message));
    }
    let spans = parts.chunks(per_span).map(|parts| span(kind, word, parts));
    Ok(Tree::array("raid0", "", spans.collect::<Result<_, _>>()?))
}

/// The array of a span. A mirror of more than two drives is striped pairs.
fn span(kind: &Kind, word: &Word<'_>, parts: &[Part]) -> Result<Tree, Fault> {
    let count = parts.len();
    if count < kind.drives_min {
        let message = format!(
            "raid{} needs {} drives, not {count}",
            kind.name, kind.drives_min
        );
        return Err(word.fault(message));
    }
    let level = match (kind.span, count) {
        ("raid1", 2) => "raid1",
        ("raid1", count) if count % 2 == 1 => {
            return Err(word.fault(format!("pairs need an even number of drives, not {count}")));
        }
        ("raid1", _) => "raid10",
        (level, _) => level,
    };
    Ok(Tree::of(level, "", parts.iter().cloned()))
}

/// Reads drives: `252:0-3,5,253:1` are slots of enclosures.
fn drives<'word>(word: &'word Word<'_>) -> Result<Vec<Word<'word>>, Fault> {
    let mut names = Vec::new();
    let mut enclosure = String::new();
    for part in word.split(&[',']) {
        let colon = part.find(':');
        if let Some(colon) = colon {
            let of = part.until(colon);
            enclosure = match colon {
                0 => String::new(),
                _ => format!("e{}:", number(&of, "the number of an enclosure")?),
            };
        }
        let slots = part.from(colon.map_or(0, |colon| colon + 1));
        let dash = slots.find('-');
        let first = number(
            &slots.until(dash.unwrap_or(slots.len())),
            "the number of a slot",
        )?;
        let last = dash.map(|dash| number(&slots.from(dash + 1), "the number of a slot"));
        let last = last.transpose()?.unwrap_or(first);
        if last < first || last - first >= DRIVES_MAX {
            return Err(slots.fault(format!("slots {first} to {last} are no range of drives")));
        }
        for slot in first..=last {
            let text = Cow::Owned(format!("{enclosure}s{slot}"));
            names.push(Word { text, at: part.at });
        }
    }
    if names.is_empty() {
        Err(word.fault("drives, as 252:0-3, are expected here"))
    } else {
        Ok(names)
    }
}
