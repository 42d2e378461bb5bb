//! The output of `mdadm --examine`: the array where it lies, from the superblocks of its members.

use super::section::{BAD_BLOCKS, JOURNALED, RESHAPED, Section, first_word, sections};
use super::words::{check_part, chunk, has_chunks, is_redundant, layout, level, name_of};
use crate::devices::{Devices, Use, array_name};
use crate::dialect::{Draft, Source};
use crate::expressions::{MISSING, Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::{SECTOR_BYTES, number};
use crate::text::Word;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use spindles_block::MEMBERS_MAX;

/// The magic number of md's superblocks.
const MAGIC: &str = "a92b4efc";

pub(super) fn recognises(text: &str) -> bool {
    text.lines()
        .any(|line| line.trim_start().starts_with("Magic : "))
}

/// The role of a device in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Active(u64),
    Spare,
    Journal,
    /// Replaces a member that is still active.
    Replacement(u64),
}

/// A device of an array.
struct Member<'section> {
    section: &'section Section<'section>,
    role: Role,
    events: u64,
    part: Part,
}

pub(super) fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let mut draft = Draft::default();
    let sections = sections(source.text, &mut draft)?;
    let mut arrays: Vec<(&str, Vec<&Section<'_>>)> = Vec::new();
    for section in &sections {
        let Some(magic) = section.line(&["Magic"]) else {
            let text = format!("{} has no superblock of md", &*section.device);
            draft.note(section.device.at, text);
            continue;
        };
        if &**magic != MAGIC {
            let message = format!(
                "{}: not the magic of md's own metadata; that of DDF or IMSM says by itself where \
                 the array lies",
                &**magic
            );
            draft.skip_refused(Err(magic.fault(message).refusal()))?;
            continue;
        }
        let uuid = section
            .line(&["Array UUID", "UUID"])
            .map_or("", |uuid| uuid);
        match arrays.iter_mut().find(|(other, _)| *other == uuid) {
            Some((_, sections)) => sections.push(section),
            None => arrays.push((uuid, [section].into())),
        }
    }
    let mut known = Devices::default();
    for (_, sections) in &arrays {
        array(sections, source, &mut known, &mut draft)?;
    }
    let message = "the output of mdadm --examine of a member is missing here";
    draft.some_array(source.text.trim_end().len(), message)
}

/// Returns the active member with the most events, which knows the last state of the array.
fn newest_of<'all, 'section>(members: &'all [Member<'section>]) -> Option<&'all Member<'section>> {
    let active = members.iter().rev();
    let active = active
        .filter(|member| matches!(member.role, Role::Active(_)) && !member.section.is_damaged());
    active.max_by_key(|member| member.events)
}

/// Adds the array of the devices of one UUID.
fn array(
    sections: &[&Section<'_>],
    source: &Source<'_>,
    known: &mut Devices,
    draft: &mut Draft,
) -> Result<(), Fault> {
    check_events(sections)?;
    let members = sections.iter().map(|section| Member::read(section, source));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    let newest = newest_of(&members).ok_or_else(|| {
        let message =
            "no active member of this array is given with a correct checksum: output of its \
             other devices is needed";
        sections[0].device.fault(message)
    })?;
    let section = newest.section;
    refuse_reshape(section)?;
    let level_word = section.needed("Raid Level")?;
    let level = level(level_word)?;
    check_same(sections, section)?;
    let count = device_count(section, level_word)?;
    check_array_state(section, count)?;
    let chunk_bytes = chunk_bytes(section, level)?;
    let (mut parts, spares, journal) = places(&members, newest, count, known, draft)?;
    for (index, part) in parts.iter().enumerate() {
        if part.device == MISSING && !is_redundant(level) {
            let message = format!(
                "device {index} is missing, and {} has no redundancy",
                &**level_word
            );
            return Err(section.device.fault(message));
        }
    }
    if level == "concat" {
        round(&mut parts, chunk_bytes / SECTOR_BYTES);
        for part in &parts {
            let mut given = sections.iter();
            let given = given.find(|section| *section.device == *part.device);
            check_part(part, &given.unwrap_or(&section).device, source)?;
        }
    }
    let layout = array_layout(section, level, &parts, chunk_bytes)?;
    let mut is_unclean = note_journal(sections, draft)?;
    for section in sections {
        if parts.iter().any(|part| *part.device == *section.device) {
            is_unclean |= note_state(section, draft)?;
        }
    }
    let tree = Tree::of(level, layout, parts);
    let chunk_bytes = has_chunks(level).then_some(chunk_bytes);
    let name = section.line(&["Name"]).map(first_word);
    let name = name.map(|word| array_name(&word, name_of(&word)));
    let shape = Shape {
        name: name.transpose()?.flatten(),
        spares,
        journal,
        ..Shape::new(&tree, chunk_bytes, level_word.at)?
    };
    draft.add(shape, &tree, level_word.at)?;
    if let Some(array) = draft.arrays.last_mut() {
        array.unclean = is_unclean;
    }
    Ok(())
}

/// Checks that all sections have a number of events, or none.
fn check_events(sections: &[&Section<'_>]) -> Result<(), Fault> {
    let mut known = sections.iter();
    if known.any(|section| section.line(&["Events"]).is_some()) {
        for section in sections {
            section.needed("Events")?;
        }
    }
    Ok(())
}

fn device_count(section: &Section<'_>, level: &Word<'_>) -> Result<u8, Fault> {
    let count = u8::try_from(section.number("Raid Devices")?).ok();
    let count = count.filter(|count| *count <= MEMBERS_MAX && *count > 0);
    count.ok_or_else(|| {
        let message = format!("1 to {MEMBERS_MAX} devices are possible here");
        let word = section.line(&["Raid Devices"]).unwrap_or(level);
        word.fault(message)
    })
}

/// A reshape is two arrays at once, one before and one after its position.
fn refuse_reshape(section: &Section<'_>) -> Result<(), Fault> {
    let names = [
        "Reshape pos'n",
        "New Level",
        "New Layout",
        "New Chunksize",
        "Delta Devices",
    ];
    let mut word = section.line(&names);
    if section.features()? & RESHAPED != 0 {
        word = word.or(section.line(&["Feature Map"]));
    }
    match word {
        Some(word) => {
            Err(word.fault("a reshape is under way: the array has two layouts until it ends"))
        }
        None => Ok(()),
    }
}

/// Returns an error if the states of the devices are not those of this many.
fn check_array_state(section: &Section<'_>, count: u8) -> Result<(), Fault> {
    let Some(word) = section.line(&["Array State"]) else {
        return Ok(());
    };
    let states = first_word(word);
    if let Some(other) = states.chars().find(|state| !"A.R".contains(*state)) {
        return Err(word.fault(format!("'{other}' is no state of a device: A, . or R")));
    }
    if states.len() != usize::from(count) {
        let message = format!(
            "{} states of {count} devices: the two have to agree",
            states.len()
        );
        return Err(word.fault(message));
    }
    Ok(())
}

/// Returns an error if devices of one array disagree about it.
fn check_same(sections: &[&Section<'_>], newest: &Section<'_>) -> Result<(), Fault> {
    for name in ["Raid Level", "Raid Devices", "Layout", "Chunk Size"] {
        for section in sections {
            if let (Some(value), Some(expected)) = (section.line(&[name]), newest.line(&[name]))
                && **value != **expected
            {
                let message = format!(
                    "{name} '{}' of {} is '{}' of {}: these are not members of one array",
                    &**value, &*section.device, &**expected, &*newest.device
                );
                return Err(value.fault(message));
            }
        }
    }
    Ok(())
}

/// Returns the chunk size; for a linear array what its members are rounded to.
fn chunk_bytes(section: &Section<'_>, level: &str) -> Result<u64, Fault> {
    match section.line(&["Chunk Size", "Rounding"]) {
        Some(word) => chunk(level, &first_word(word)),
        None if has_chunks(level) => section.needed("Chunk Size").map(|_| 0),
        None => Ok(0),
    }
}

fn array_layout(
    section: &Section<'_>,
    level: &'static str,
    parts: &[Part],
    chunk_bytes: u64,
) -> Result<Cow<'static, str>, Fault> {
    let word = match level {
        "raid5" | "raid6" | "raid10" => Some(section.needed("Layout")?),
        _ => section.line(&["Layout"]),
    };
    if level != "raid0" {
        return word.map_or(Ok(Cow::Borrowed("")), |word| {
            layout(level, parts.len(), word)
        });
    }
    let chunk_sectors = chunk_bytes / SECTOR_BYTES;
    let mut chunks = parts
        .iter()
        .map(|part| part.length_sectors.map(|length| length / chunk_sectors));
    let first = chunks.next().flatten();
    let is_even = first.is_some() && chunks.all(|chunks| chunks == first);
    match word {
        Some(word) if !word.starts_with('-') && &**word != "dangerous" => {
            layout(level, parts.len(), word)
        }
        _ if is_even => Ok(Cow::Borrowed("")),
        _ => {
            let message = "its members differ in size, and the superblocks don't say whether the \
                           layout is original or alternate";
            Err(section.device.fault(message))
        }
    }
}

fn round(parts: &mut [Part], chunk_sectors: u64) {
    for part in parts.iter_mut().filter(|_| chunk_sectors > 0) {
        part.length_sectors = part
            .length_sectors
            .map(|length| length - length % chunk_sectors);
    }
}

/// Notes a journal. Returns true if a section has a journal.
fn note_journal(sections: &[&Section<'_>], draft: &mut Draft) -> Result<bool, Fault> {
    for section in sections {
        let role = section.line(&["Device Role"]);
        let journal = role.filter(|role| &***role == "Journal");
        let features = section.features()? & JOURNALED != 0;
        let feature = section.line(&["Feature Map"]).filter(|_| features);
        if let Some(word) = journal.or(feature) {
            let text = "md's journal is not read: it may hold the only copy of some data";
            draft.note(word.at, text);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes what an open array would have to know of a member. Returns true if redundancy may not
/// match the data.
fn note_state(section: &Section<'_>, draft: &mut Draft) -> Result<bool, Fault> {
    let device = &section.device;
    let state = section.line(&["State"]);
    let is_unclean = state.is_none_or(|state| &**state != "clean");
    match state {
        None => draft.note(
            device.at,
            format!(
                "{} has no line 'State :': redundancy may not match data",
                &**device
            ),
        ),
        Some(state) if is_unclean => {
            let text = format!(
                "the array is '{}': its redundancy may not match its data",
                &**state
            );
            draft.note(state.at, text);
        }
        Some(_) => {}
    }
    let log = section.line(&["Bad Block Log"]);
    let log = log.filter(|log| log.contains("bad blocks present"));
    let features = section.features()? & BAD_BLOCKS != 0;
    let feature = section.line(&["Feature Map"]).filter(|_| features);
    if let Some(word) = log.or(feature) {
        let text = format!(
            "{} has bad blocks in its log: they are read here, and their data may be wrong",
            &**device
        );
        draft.note(word.at, text);
    }
    let notes = [
        ("Internal Bitmap", "md's bitmap has no use here"),
        (
            "PPL",
            "md's partial parity log is not read: the array has to be clean",
        ),
    ];
    for (name, text) in notes {
        if let Some(word) = section.line(&[name]) {
            draft.note(word.at, format!("{name}: {text}"));
        }
    }
    Ok(is_unclean)
}

/// The members in their order, the spares and the journal.
type Places = (Vec<Part>, Vec<String>, Option<String>);

fn places(
    members: &[Member<'_>],
    newest: &Member<'_>,
    count: u8,
    known: &mut Devices,
    draft: &mut Draft,
) -> Result<Places, Fault> {
    let state = newest.section.line(&["Array State"]);
    let is_away = |index: usize| {
        state.is_some_and(|state| state[..].chars().nth(index) == Some('.'))
            || newest.section.table_lacks(index)
    };
    let missing = || Part::whole(MISSING.to_owned());
    let mut parts: Vec<Part> = (0..count).map(|_| missing()).collect();
    let (mut spares, mut journal) = (Vec::new(), None);
    for member in members {
        let device = &member.section.device;
        if member.section.is_damaged() {
            let text = format!(
                "the checksum of {}'s superblock is wrong: it is read as missing",
                &**device
            );
            let checksum = member.section.line(&["Checksum"]);
            draft.note(checksum.unwrap_or(device).at, text);
            continue;
        }
        match member.role {
            Role::Spare => spares.push(known.add(device, Use::Spare)?),
            Role::Journal => journal = Some(known.add(device, Use::Journal)?),
            Role::Replacement(index) => {
                let text = format!(
                    "{} replaces device {index}, which is still there",
                    &**device
                );
                draft.note(device.at, text);
            }
            Role::Active(index) => {
                let name = known.add(device, Use::Member)?;
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                let Some(place) = parts.get_mut(index) else {
                    let message = format!("{name} is device {index} of {count}");
                    return Err(device.fault(message));
                };
                if let Some((at, why)) = member.why_missing(is_away(index), newest.events)? {
                    draft.note(at, format!("{name} {why}: it is read as missing"));
                } else if place.device == MISSING {
                    *place = Part {
                        device: name,
                        ..member.part.clone()
                    };
                } else {
                    let message = format!("{} and {name} are both device {index}", place.device);
                    return Err(device.fault(message));
                }
            }
        }
    }
    for index in (0..parts.len()).filter(|index| parts[*index].device == MISSING) {
        let is_given = members.iter().any(|member| member.is_device(index));
        if !is_given && !is_away(index) {
            let text = format!("the output for device {index} is not here: it is read as missing");
            draft.note(newest.section.device.at, text);
        }
    }
    Ok((parts, spares, journal))
}

impl<'section> Member<'section> {
    fn is_device(&self, index: usize) -> bool {
        matches!(self.role, Role::Active(n) if usize::try_from(n) == Ok(index))
    }

    /// Returns why an active member does not count, and the place of the words that say so.
    fn why_missing(
        &self,
        is_away: bool,
        newest_events: u64,
    ) -> Result<Option<(usize, String)>, Fault> {
        let device = &self.section.device;
        Ok(if self.section.is_rebuilt()? {
            let word = self.section.line(&["Recovery Offset"]).unwrap_or(device);
            Some((word.at, "is being rebuilt".to_owned()))
        } else if self.events.saturating_add(1) < newest_events {
            let events = self.events;
            let why = format!("is stale, with {events} events of {newest_events}");
            Some((device.at, why))
        } else {
            is_away.then(|| (device.at, "is out, by the newest superblock".to_owned()))
        })
    }

    fn read(section: &'section Section<'_>, source: &Source<'_>) -> Result<Self, Fault> {
        let (role, part) = if section.is_old()? {
            (Self::old_role(section)?, Self::old_part(section, source)?)
        } else {
            (Self::role(section)?, Self::part(section)?)
        };
        check_part(&part, &section.device, source)?;
        Ok(Self {
            section,
            role,
            events: Self::events(section)?,
            part,
        })
    }

    /// The number of events; version 0.90 once printed its halves of 32 bits, as 0.17.
    fn events(section: &Section<'_>) -> Result<u64, Fault> {
        let Some(word) = section.line(&["Events"]) else {
            return Ok(0);
        };
        let word = first_word(word);
        let half = |word: &Word<'_>| number(word, "a number of events");
        let Some(dot) = word.find('.') else {
            return half(&word);
        };
        let (high, low) = (half(&word.from(0).until(dot))?, half(&word.from(dot + 1))?);
        let events = high
            .checked_mul(1 << 32)
            .and_then(|high| high.checked_add(low));
        events.ok_or_else(|| word.fault("a number of events is expected here"))
    }

    fn role(section: &Section<'_>) -> Result<Role, Fault> {
        let word = section.needed("Device Role")?;
        let number = |prefix: &str| {
            let digits = word.strip_prefix(prefix)?;
            digits.trim().parse::<u64>().ok()
        };
        if let Some(index) = number("Active device") {
            return Ok(Role::Active(index));
        }
        if let Some(index) = number("Replacement device") {
            return Ok(Role::Replacement(index));
        }
        match &**word {
            "spare" => Ok(Role::Spare),
            "Journal" => Ok(Role::Journal),
            _ => Err(word
                .fault("Active device N, Replacement device N, spare or Journal is expected here")),
        }
    }

    /// The line `this` of a table: number, major, minor, place and state.
    fn old_role(section: &Section<'_>) -> Result<Role, Fault> {
        let this = section.lines.iter().map(|(_, line)| line);
        let mut this = this.filter(|line| line.starts_with("this "));
        let this = this.next().ok_or_else(|| {
            let message = format!("the line 'this' of {} is missing", &*section.device);
            section.device.fault(message)
        })?;
        let words = this.split(&[' ', '\t']);
        let states: Vec<&str> = words.iter().skip(5).map(|word| &**word).collect();
        match words.get(4) {
            Some(index) if states.contains(&"active") => {
                Ok(Role::Active(number(index, "a device's number")?))
            }
            Some(_) if states.contains(&"spare") => Ok(Role::Spare),
            _ => Err(this.fault("this device has no place in the array")),
        }
    }

    /// Data is between its offset and the end of what is used.
    fn part(section: &Section<'_>) -> Result<Part, Fault> {
        let has = |name| section.line(&[name]).is_some();
        // Data at the start has no such line; the superblock of 1.1 and 1.2 is there.
        let start_sectors = if has("Data Offset") || &**section.needed("Version")? != "1.0" {
            section.number("Data Offset")?
        } else {
            0
        };
        let used = if has("Used Dev Size") {
            section.number("Used Dev Size")?
        } else {
            0
        };
        let length_sectors = match used {
            0 if has("Avail Dev Size") => Some(section.number("Avail Dev Size")?),
            0 => None,
            used => Some(used),
        };
        Ok(Part {
            device: MISSING.to_owned(),
            start_sectors,
            length_sectors,
        })
    }

    /// Data begins at the start; the superblock is in the last whole 64 KiB but one.
    fn old_part(section: &Section<'_>, source: &Source<'_>) -> Result<Part, Fault> {
        let used = match section.line(&["Used Dev Size", "Device Size"]) {
            Some(word) => number(&first_word(word), "a size in KiB")?,
            None => 0,
        };
        let device = &section.device;
        let length_sectors = match (used, source.sectors_of(device)) {
            (0, Some(sectors)) => (sectors - sectors % 128).checked_sub(128),
            (0, None) => None,
            (used, _) => used.checked_mul(2),
        };
        let length_sectors = length_sectors.filter(|length| *length > 0);
        let unknown = || {
            device.fault(format!(
                "the size of {} is needed: it has to be here",
                &**device
            ))
        };
        Ok(Part {
            device: MISSING.to_owned(),
            start_sectors: 0,
            length_sectors: Some(length_sectors.ok_or_else(unknown)?),
        })
    }
}
