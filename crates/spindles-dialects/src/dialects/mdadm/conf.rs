//! `mdadm.conf`, and the output of `mdadm --detail --scan` and `mdadm --examine --scan`.

use super::words::{is_redundant, layout, level, name_of};
use crate::devices::{Devices, Use, array_name};
use crate::dialect::{Draft, Source};
use crate::expressions::{Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::number;
use crate::text::{Grammar, Quotes, Statement, Word, statements};
use alloc::format;
use alloc::vec::Vec;

const GRAMMAR: Grammar = Grammar {
    continuation: false,
    quotes: Quotes::Shell,
};

/// Words that begin a line, in lower case; three letters of one suffice.
const KEYWORDS: [&str; 15] = [
    "array",
    "device",
    "mailaddr",
    "mailfrom",
    "program",
    "create",
    "homehost",
    "homecluster",
    "auto",
    "policy",
    "part-policy",
    "sysfs",
    "monitordelay",
    "encryption_no_verify",
    "probing",
];

/// Keywords of arrays.
const ARRAYS: [&str; 2] = ["array", "inactive-array"];

fn keyword(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    if word == ARRAYS[1] {
        return Some("array");
    }
    let mut keywords = KEYWORDS.iter().copied();
    keywords.find(|keyword| word.len() >= 3 && keyword.starts_with(&word))
}

pub(super) fn recognises(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with(char::is_whitespace));
    lines.any(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        let is_array = ARRAYS
            .iter()
            .any(|keyword| word.eq_ignore_ascii_case(keyword));
        is_array || word == "DEVICE" || word == "DEV"
    })
}

pub(super) fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    let mut known = Devices::default();
    for line in lines(source.text)? {
        let first = &line.words[0];
        match keyword(first) {
            Some("array") => {
                let array = array(&line, &mut known, &mut draft);
                draft.skip_refused(array)?;
            }
            Some(_) => draft.note(first.at, format!("{} describes no array", &**first)),
            None => {
                let message = format!(
                    "ARRAY or another keyword is expected here, not '{}'",
                    &**first
                );
                return Err(first.fault(message));
            }
        }
    }
    draft.some_array(source.text.trim_end().len(), "a line ARRAY is missing here")
}

/// Returns the lines, each with those after it that begin with a blank.
fn lines(text: &str) -> Result<Vec<Statement<'_>>, Fault> {
    let mut lines: Vec<Statement<'_>> = Vec::new();
    for line in statements(text, GRAMMAR) {
        let line = line?;
        let at = line.words[0].at;
        let is_continued = text[..at].ends_with([' ', '\t']);
        match lines.last_mut() {
            Some(last) if is_continued => {
                last.words.extend(line.words);
                last.end = line.end;
            }
            _ => lines.push(line),
        }
    }
    Ok(lines)
}

/// The words of a line `ARRAY`.
#[derive(Default)]
struct Said<'line> {
    name: Option<&'line Word<'line>>,
    level: Option<Word<'line>>,
    layout: Option<Word<'line>>,
    count: Option<Word<'line>>,
    spares: Option<Word<'line>>,
    devices: Option<Word<'line>>,
}

impl<'line> Said<'line> {
    fn read(line: &'line Statement<'_>, draft: &mut Draft) -> Result<Self, Fault> {
        let mut said = Self::default();
        for word in &line.words[1..] {
            let Some(equals) = word.find('=') else {
                if said.name.replace(word).is_some() {
                    return Err(word.fault(format!("'{}' is one word too many", &**word)));
                }
                continue;
            };
            let value = word.from(equals + 1);
            let tag = word[..equals].to_ascii_lowercase();
            let place = match tag.as_str() {
                "level" => &mut said.level,
                "layout" => &mut said.layout,
                "num-devices" | "disks" => &mut said.count,
                "spares" => &mut said.spares,
                "devices" => &mut said.devices,
                "container" | "member" => {
                    let message = "an array in a container of DDF or IMSM: only their metadata \
                                   says where it lies";
                    return Err(word.fault(message).refusal());
                }
                "uuid" | "name" | "metadata" | "super-minor" | "auto" => continue,
                "bitmap" | "spare-group" => {
                    draft.note(word.at, format!("{tag}= has no meaning here"));
                    continue;
                }
                _ => return Err(word.fault(format!("ARRAY has no {tag}="))),
            };
            if place.replace(value).is_some() {
                return Err(word.fault(format!("{tag}= is given twice")));
            }
        }
        Ok(said)
    }

    /// Returns the members and the spares of an array of this level.
    fn parts(
        &self,
        level: &str,
        level_word: &Word<'_>,
        devices: &Word<'_>,
        known: &mut Devices,
    ) -> Result<(Vec<Part>, Vec<Part>), Fault> {
        let count = |word: &Word<'_>| number(word, "a number of devices");
        let spares = self.spares.as_ref().map_or(Ok(0), count)?;
        let mut parts = Vec::new();
        for word in devices.split(&[',']) {
            parts.push(Part::whole(known.add(&word, Use::Member)?));
        }
        let named = u64::try_from(parts.len()).expect("at most a text");
        let members = self
            .count
            .as_ref()
            .map_or(Ok(named.saturating_sub(spares)), count)?;
        if members.checked_add(spares) != Some(named) && members != named {
            let message = format!("{members} devices and {spares} spares announced, {named} named");
            return Err(devices.fault(message));
        }
        if members < named && !is_redundant(level) {
            let message = format!("{level} has no redundancy, so no use for spares");
            return Err(level_word.fault(message));
        }
        let spares = parts.split_off(usize::try_from(members).expect("at most the named"));
        Ok((parts, spares))
    }
}

/// Adds the array of a line; a line that does not say a shape is refused.
fn array(line: &Statement<'_>, known: &mut Devices, draft: &mut Draft) -> Result<(), Fault> {
    let first = &line.words[0];
    let said = Said::read(line, draft)?;
    let name = said.name.map_or("ARRAY", |word| word);
    let lacks = |what: &str| {
        let message = format!(
            "{name} has no {what}: this line can't say the shape of the array; give the output of \
             mdadm --examine of its members"
        );
        Err(first.fault(message).refusal())
    };
    let Some(level_word) = &said.level else {
        return lacks("level=");
    };
    let Some(devices) = &said.devices else {
        return lacks("devices=");
    };
    let level = level(level_word)?;
    let (parts, spares) = said.parts(level, level_word, devices, known)?;
    let layout = said
        .layout
        .as_ref()
        .map(|word| layout(level, parts.len(), word));
    let tree = Tree::of(level, layout.transpose()?.unwrap_or_default(), parts);
    let array = said.name.map(|word| array_name(word, name_of(word)));
    let shape = Shape {
        name: array.transpose()?.flatten(),
        spares: spares.into_iter().map(|part| part.device).collect(),
        ..Shape::new(&tree, None, level_word.at)?
    };
    let text = format!(
        "{name}: the line does not say the order of the devices, the chunk size or where the data \
         begins: for the array as it lies, give the output of mdadm --examine of its members"
    );
    draft.note(first.at, text);
    draft.add_shape(shape);
    Ok(())
}
