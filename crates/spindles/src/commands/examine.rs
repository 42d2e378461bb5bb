//! `spindles examine`: prints the superblocks, and every disagreement between them.

use super::Command;
use crate::arrays::{self, ArrayArguments, PLACES_MAX};
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::{Value, json};
use spindles_admin::assemble::{AssembleError, Examined, examine};
use spindles_device::OpenError;
use spindles_device::bad_pages::{BadPage, newest};
use spindles_format::{
    ArrayRecord, BadBlockKind, DecodeError, DeviceRecord, Found, MemberState, SpareRecord, Uuid,
    choose, lost_runs,
};
use spindles_layout::Level;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

pub(crate) static COMMAND: Command = Command {
    name: "examine",
    about: "Show the superblocks of devices, and where they disagree",
    details: "Writes nothing, and accepts devices that do not belong together. If a device is \
              not a member, the command shows what else it holds.\n\n\
              spindles examine pool\n\
              spindles examine a.img b.img c.img\n\
              spindles examine /dev/sd?",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Also show where each area lies on the devices
    #[arg(long)]
    areas: bool,
    #[command(flatten)]
    array: ArrayArguments,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let devices = arguments.array.devices(&[], ui)?;
    let looked: Vec<(&str, Result<Examined, OpenError>)> = arrays::names(&devices)
        .into_iter()
        .map(|device| (device, examine(device)))
        .collect();
    let mut documents = Vec::new();
    for (device, examined) in &looked {
        documents.push(match examined {
            Ok(examined) => describe(device, examined, arguments.areas, ui),
            Err(error) => {
                ui.line(format!("{device}: {error}"));
                json!({ "device": device, "error": error.to_string() })
            }
        });
    }
    let bad_blocks = describe_bad_blocks(&looked, ui);
    let found: Vec<&Found> = looked
        .iter()
        .filter_map(|(_, examined)| Some(&examined.as_ref().ok()?.found))
        .collect();
    let problems = disagreements(&found);
    for problem in &problems {
        ui.line(problem);
    }
    if problems.is_empty() && found.iter().any(|found| found.record().is_ok()) {
        ui.line("The superblocks agree.");
    }
    ui.json(&json!({
        "devices": documents,
        "bad_blocks": bad_blocks,
        "disagreements": problems,
    }));
    match looked.into_iter().find_map(|(_, examined)| examined.err()) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn describe(name: &str, examined: &Examined, areas: bool, ui: &Ui) -> Value {
    let found = &examined.found;
    let holds: Vec<&str> = examined
        .sightings
        .iter()
        .map(|sighting| sighting.what)
        .collect();
    let mut document = match found.record() {
        Ok((array, device)) => describe_member(name, array, device, areas, ui),
        Err(_) if let Some(spare) = found.spare() => describe_spare(name, spare, ui),
        Err(_) if let Some(journal) = found.journal_device() => {
            ui.line(format!("{name}: the journal of array {}", journal.array));
            json!({
                "device": name,
                "journal": true,
                "array": journal.array.to_string(),
                "device_uuid": journal.device_uuid.to_string(),
                "device_bytes": journal.device_bytes,
            })
        }
        Err(error) => {
            let is_none = matches!(error, DecodeError::NotOurs | DecodeError::Short { .. });
            let also = holds.first().filter(|_| is_none);
            let also = also
                .map(|what| format!("; it holds {what}"))
                .unwrap_or_default();
            ui.line(format!("{name}: {error}{also}"));
            json!({ "device": name, "error": error.to_string() })
        }
    };
    if found.record().is_ok() {
        if let Some(damage) = found.damage() {
            ui.line(format!("  one of the two slots is damaged: {damage}"));
            document["damage"] = json!(damage.to_string());
        }
        let bad = examined.bad_pages.iter().flat_map(|page| &page.runs);
        let bad = bad.map(|run| {
            let (kind, member) = match run.kind {
                BadBlockKind::Lost => ("lost", None),
                BadBlockKind::Unread(member) => ("unread", Some(member.0)),
            };
            json!({
                "kind": kind,
                "member": member,
                "start": run.start.0,
                "blocks": run.blocks,
            })
        });
        document["bad_blocks"] = json!(bad.collect::<Vec<_>>());
        for what in &holds {
            ui.line(format!("  also on this device: {what}"));
        }
    }
    document["bytes"] = json!(found.bytes);
    document["holds"] = json!(holds);
    document
}

/// Reports the lost blocks of each array, and the blocks that its members refused to write. Every
/// member lists these blocks; the report shows each block once.
fn describe_bad_blocks(looked: &[(&str, Result<Examined, OpenError>)], ui: &Ui) -> Vec<Value> {
    let mut arrays: BTreeMap<Uuid, (&ArrayRecord, Vec<&BadPage>)> = BTreeMap::new();
    for examined in looked
        .iter()
        .filter_map(|(_, examined)| examined.as_ref().ok())
    {
        if let Ok((array, _)) = examined.found.record() {
            let (_, pages) = arrays.entry(array.uuid).or_insert((array, Vec::new()));
            pages.extend(&examined.bad_pages);
        }
    }
    let mut documents = Vec::new();
    for (array, pages) in arrays.into_values() {
        let name = &array.name;
        let block_bytes = u64::from(array.block_size.bytes());
        let listed = newest(pages);
        let lost = lost_runs(&listed);
        if !lost.is_empty() {
            let blocks: u64 = lost.iter().map(|run| run.end.0 - run.start.0).sum();
            ui.line(format!(
                "array '{name}': {} lost; reads there fail until the data is \
                 rewritten from a backup:",
                arrays::size(blocks * block_bytes)
            ));
        }
        let refused = listed.iter().filter_map(|run| match run.kind {
            BadBlockKind::Lost => None,
            BadBlockKind::Unread(member) => Some((Some(member.0), run.start.0, run.blocks.into())),
        });
        let lost = lost.into_iter();
        let lost = lost.map(|run| (None, run.start.0, run.end.0 - run.start.0));
        let places: Vec<(Option<u8>, u64, u64)> = lost.chain(refused).collect();
        for (shown, &(member, start, blocks)) in places.iter().enumerate() {
            let (offset_bytes, bytes) = (start * block_bytes, blocks * block_bytes);
            if shown < PLACES_MAX {
                ui.line(match member {
                    None => format!("  {bytes} bytes at {offset_bytes}"),
                    Some(member) => format!(
                        "array '{name}': {bytes} bytes at {offset_bytes} of the data of member \
                         {member} hold nothing, and are not read"
                    ),
                });
            }
            documents.push(json!({
                "array": name.as_str(),
                "array_uuid": array.uuid.to_string(),
                "kind": if member.is_some() { "unread" } else { "lost" },
                "member": member,
                "offset_bytes": offset_bytes,
                "bytes": bytes,
            }));
        }
        if let Some(more) = arrays::more_places(places.len()) {
            ui.line(format!("  {more}"));
        }
    }
    documents
}

fn describe_spare(name: &str, spare: &SpareRecord, ui: &Ui) -> Value {
    let arrays = spare.arrays.iter().map(ToString::to_string);
    let arrays: Vec<String> = arrays.collect();
    ui.line(if spare.is_shared() {
        format!("{name}: a shared spare")
    } else {
        format!("{name}: a spare of array {}", arrays.join(", "))
    });
    json!({
        "device": name,
        "spare": true,
        "shared": spare.is_shared(),
        "arrays": arrays,
        "device_uuid": spare.device_uuid.to_string(),
        "device_bytes": spare.device_bytes,
    })
}

fn describe_member(
    name: &str,
    array: &ArrayRecord,
    device: &DeviceRecord,
    show_areas: bool,
    ui: &Ui,
) -> Value {
    let block_bytes = array.block_size.bytes();
    ui.line(format!(
        "{name}: member {} of array '{}' ({})",
        device.member, array.name, array.uuid
    ));
    show_array(array, ui);
    let members = describe_members(array, ui);
    if !device.errors.is_empty() {
        let errors = arrays::errors_text(&device.errors, block_bytes);
        ui.line(format!("  errors: {errors}"));
    }
    let areas = describe_areas(device, show_areas, ui);
    json!({
        "device": name,
        "array": array.name.as_str(),
        "array_uuid": array.uuid.to_string(),
        "parent_uuid": (array.parent != Uuid::NIL).then(|| array.parent.to_string()),
        "created_s": array.created_s,
        "last_written_s": array.last_written_s,
        "last_scrub_s": array.last_scrub_s,
        "scrub_left_blocks": array.scrub_left_blocks,
        "generation": array.generation,
        "clean": array.clean,
        "consistency": array.consistency.as_str(),
        "checksum": array.checksum.name(),
        "row_sums": array.row_sums,
        "level": array.level.as_str(),
        "layout": array.layout.as_str(),
        "chunk_bytes": chunk_bytes(array),
        "block_bytes": block_bytes,
        "member": device.member.0,
        "device_bytes": device.device_bytes,
        "features": {
            "ignorable": array.features.ignorable,
            "read_only": array.features.read_only,
            "refuse": array.features.refuse,
        },
        "members": members,
        "errors": arrays::errors_json(&device.errors, block_bytes),
        "areas": areas,
    })
}

/// Shows the array of a superblock: its shape, its policy, and whether it is clean.
fn show_array(array: &ArrayRecord, ui: &Ui) {
    if array.parent != Uuid::NIL {
        ui.line(format!("  the array is a member of array {}", array.parent));
    }
    ui.line(format!(
        "  {}",
        arrays::shape(
            array.level.as_str(),
            array.layout.as_str(),
            array.members.into(),
            chunk_bytes(array),
            array.block_size.bytes()
        )
    ));
    let clean = if array.clean { "clean" } else { "unclean" };
    let policy = array.consistency.as_str();
    let policy = Level::by_name(array.level.as_str())
        .map_or_else(|| policy.to_owned(), |level| arrays::policy(policy, level));
    let row_sums = if array.row_sums { ", row sums" } else { "" };
    ui.line(format!(
        "  generation {}, {clean}, consistency policy {}, checksums {}{row_sums}",
        array.generation,
        policy,
        array.checksum.name()
    ));
}

/// Returns the chunk size of an array.
fn chunk_bytes(array: &ArrayRecord) -> u64 {
    u64::from(array.chunk_blocks) * u64::from(array.block_size.bytes())
}

/// Shows the missing and rebuilding members of an array. Returns all members as JSON.
fn describe_members(array: &ArrayRecord, ui: &Ui) -> Vec<Value> {
    let block_bytes = u64::from(array.block_size.bytes());
    let members = array.members().iter().enumerate().map(|(index, member)| {
        let (state, out_since, mark) = match member.state {
            MemberState::Active => ("active", None, None),
            MemberState::Missing { out_since, .. } => ("missing", Some(out_since), None),
            MemberState::Rebuilding { mark, .. } => ("rebuilding", None, Some(mark.0)),
        };
        if let Some(since) = out_since {
            ui.line(format!(
                "  member {index} is missing since generation {since}"
            ));
        }
        if let Some(mark) = mark {
            let done = arrays::size(mark * block_bytes);
            ui.line(format!(
                "  member {index} is being rebuilt, and good below {done} of the array"
            ));
        }
        json!({
            "device_uuid": member.device_uuid.to_string(),
            "data_blocks": member.data_blocks,
            "state": state,
            "out_since": out_since,
            "mark": mark,
        })
    });
    members.collect()
}

/// Returns the areas of a device as JSON; with `is_shown` also shows them.
fn describe_areas(device: &DeviceRecord, is_shown: bool, ui: &Ui) -> Vec<Value> {
    let mut areas = Vec::new();
    for area in device.areas() {
        if is_shown {
            ui.line(format!(
                "  {:<14} {} at {}",
                area.kind.name(),
                arrays::size(area.length_bytes),
                area.offset_bytes
            ));
        }
        areas.push(json!({
            "kind": area.kind.name(),
            "version": area.version,
            "offset_bytes": area.offset_bytes,
            "length_bytes": area.length_bytes,
        }));
    }
    areas
}

/// Lists the members that assembling each array would refuse or leave out, and why.
fn disagreements(found: &[&Found]) -> Vec<String> {
    let mut arrays: Vec<Uuid> = Vec::new();
    for (array, _) in found.iter().filter_map(|found| found.record().ok()) {
        if !arrays.contains(&array.uuid) {
            arrays.push(array.uuid);
        }
    }
    let mut problems = Vec::new();
    for uuid in arrays {
        let members: Vec<Found> = found
            .iter()
            .filter(|found| found.record().is_ok_and(|(array, _)| array.uuid == uuid))
            .map(|found| (*found).clone())
            .collect();
        match choose(&members) {
            Err(error) => problems.push(words::errors::text(&AssembleError::from(error))),
            Ok(assembly) => {
                problems.extend(assembly.refused.iter().map(ToString::to_string));
                let lagging = assembly.lagging.iter().filter_map(|member| {
                    let found = assembly.devices[usize::from(member.0)]?;
                    Some(format!(
                        "{}: missed the last superblock write; it is brought up to date when the \
                         array is next used",
                        members[found].name
                    ))
                });
                problems.extend(lagging);
                // Members that the superblocks record as missing are no disagreement.
                let counted_on = assembly.missing.difference(assembly.array.missing());
                // The devices of an inner array do not record which member it is.
                let records = found.iter().filter_map(|found| found.record().ok());
                let inner = records.filter(|(inner, _)| inner.parent == uuid);
                let inner: BTreeSet<Uuid> = inner.map(|(inner, _)| inner.uuid).collect();
                if counted_on.iter().count() <= inner.len() {
                    continue;
                }
                for member in counted_on.iter() {
                    let refused = assembly.refused.iter().any(|r| r.member == Some(member));
                    if !refused {
                        problems.push(format!(
                            "member {member} of array '{}' is not among these devices",
                            assembly.array.name
                        ));
                    }
                }
            }
        }
    }
    problems
}
