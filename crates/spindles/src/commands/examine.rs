//! `spindles examine`: prints the superblocks, and every disagreement between them.

use super::Command;
use crate::arrays::{self, ArrayArguments, PLACES_MAX};
use crate::documents::array::{DeviceErrors, FillState};
use crate::documents::examine::{
    self as documents, Area, BadKind, BadPlace, BadRun, Contents, ExaminedDevice as Device,
    ExaminedJournal, ExaminedMember, ExaminedSpare, Features, InnerErrors, Labelled, OtherDevice,
    RecordedPosition,
};
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::{AssembleError, Examined, examine};
use spindles_admin::settings::{ClearedErrors, errors_of_inner};
use spindles_device::OpenError;
use spindles_device::bad_pages::{BadPage, newest};
use spindles_format::{
    ArrayRecord, BadBlockKind, DecodeError, DeviceRecord, Found, MemberRecord, MemberState,
    SpareRecord, Uuid, choose, lost_runs,
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
    let devices_given = arguments.array.devices(&[], ui)?;
    let looked: Vec<(&str, Result<Examined, OpenError>)> = arrays::names(&devices_given)
        .into_iter()
        .map(|device| (device, examine(device)))
        .collect();
    let mut devices = Vec::new();
    for (device, examined) in &looked {
        devices.push(match examined {
            Ok(examined) => describe(device, examined, arguments.areas, ui),
            Err(error) => {
                ui.line(format!("{device}: {error}"));
                Device::Other(OtherDevice {
                    device,
                    error: error.to_string(),
                    contents: None,
                })
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
    let inner = errors_of_inner(&devices_given);
    for place in &inner {
        let errors = arrays::errors_text(&place.errors, place.block_bytes);
        let (array, member) = (&place.array, place.member);
        ui.line(format!(
            "array '{array}': member {member}, an array: {errors}"
        ));
    }
    if problems.is_empty() && found.iter().any(|found| found.record().is_ok()) {
        ui.line("The superblocks agree.");
    }
    ui.json(&documents::Examined {
        devices,
        bad_blocks,
        inner_errors: inner.iter().map(inner_errors).collect(),
        disagreements: &problems,
    });
    match looked.into_iter().find_map(|(_, examined)| examined.err()) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn inner_errors(place: &ClearedErrors) -> InnerErrors<'_> {
    InnerErrors {
        array: &place.array,
        member: place.member.0,
        errors: DeviceErrors::new(&place.errors, place.block_bytes),
    }
}

/// Shows a device. Returns it as in the JSON document.
fn describe<'a>(device: &'a str, examined: &'a Examined, show_areas: bool, ui: &Ui) -> Device<'a> {
    let found = &examined.found;
    let holds = examined.sightings.iter();
    let contents = Contents {
        bytes: found.bytes,
        holds: holds.map(|sighting| sighting.what).collect(),
    };
    match found.record() {
        Ok((array, record)) => {
            show_member(device, array, record, show_areas, ui);
            if let Some(damage) = found.damage() {
                ui.line(format!("  one of the two slots is damaged: {damage}"));
            }
            for what in &contents.holds {
                ui.line(format!("  also on this device: {what}"));
            }
            Device::Member(Box::new(ExaminedMember {
                damage: found.damage().map(|damage| damage.to_string()),
                bad_blocks: bad_runs(&examined.bad_pages),
                ..member(device, array, record, contents)
            }))
        }
        Err(_) if let Some(spare) = found.spare() => {
            Device::Spare(describe_spare(device, spare, contents, ui))
        }
        Err(_) if let Some(journal) = found.journal_device() => {
            ui.line(format!("{device}: the journal of array {}", journal.array));
            Device::Journal(ExaminedJournal {
                label: Labelled {
                    device,
                    device_uuid: journal.device_uuid.to_string(),
                    device_bytes: journal.device_bytes,
                    contents,
                },
                journal: true,
                array: journal.array.to_string(),
            })
        }
        Err(error) => {
            let is_none = matches!(error, DecodeError::NotOurs | DecodeError::Short { .. });
            let also = contents.holds.first().filter(|_| is_none);
            let also = also.map(|what| format!("; it holds {what}"));
            ui.line(format!("{device}: {error}{}", also.unwrap_or_default()));
            Device::Other(OtherDevice {
                device,
                error: error.to_string(),
                contents: Some(contents),
            })
        }
    }
}

/// Reports the lost blocks of each array, and the blocks that its members refused to write. Every
/// member lists these blocks; the report shows each block once.
fn describe_bad_blocks<'a>(
    looked: &'a [(&str, Result<Examined, OpenError>)],
    ui: &Ui,
) -> Vec<BadPlace<'a>> {
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
            documents.push(BadPlace {
                array: name.as_str(),
                array_uuid: array.uuid.to_string(),
                kind: member.map_or(BadKind::Lost, |_| BadKind::Unread),
                member,
                offset_bytes,
                bytes,
            });
        }
        if let Some(more) = arrays::more_places(places.len()) {
            ui.line(format!("  {more}"));
        }
    }
    documents
}

/// Converts the entries of a list of bad blocks.
fn bad_runs(pages: &[BadPage]) -> Vec<BadRun> {
    let runs = pages.iter().flat_map(|page| &page.runs);
    let runs = runs.map(|run| {
        let (kind, member) = match run.kind {
            BadBlockKind::Lost => (BadKind::Lost, None),
            BadBlockKind::Unread(member) => (BadKind::Unread, Some(member.0)),
        };
        BadRun {
            kind,
            member,
            start: run.start.0,
            blocks: run.blocks,
        }
    });
    runs.collect()
}

fn describe_spare<'a>(
    device: &'a str,
    spare: &SpareRecord,
    contents: Contents,
    ui: &Ui,
) -> ExaminedSpare<'a> {
    let arrays = spare.arrays.iter().map(ToString::to_string);
    let arrays: Vec<String> = arrays.collect();
    ui.line(if spare.is_shared() {
        format!("{device}: a shared spare")
    } else {
        format!("{device}: a spare of array {}", arrays.join(", "))
    });
    ExaminedSpare {
        label: Labelled {
            device,
            device_uuid: spare.device_uuid.to_string(),
            device_bytes: spare.device_bytes,
            contents,
        },
        spare: true,
        shared: spare.is_shared(),
        arrays,
    }
}

fn show_member(name: &str, array: &ArrayRecord, device: &DeviceRecord, show_areas: bool, ui: &Ui) {
    ui.line(format!(
        "{name}: member {} of array '{}' ({})",
        device.member, array.name, array.uuid
    ));
    show_array(array, ui);
    show_members(array, ui);
    if !device.errors.is_empty() {
        let errors = arrays::errors_text(&device.errors, array.block_size.bytes());
        ui.line(format!("  errors: {errors}"));
    }
    for area in device.areas().iter().filter(|_| show_areas) {
        ui.line(format!(
            "  {:<14} {} at {}",
            area.kind.name(),
            arrays::size(area.length_bytes),
            area.offset_bytes
        ));
    }
}

/// Returns a member as in the JSON document, without damage and bad blocks.
fn member<'a>(
    name: &'a str,
    array: &'a ArrayRecord,
    device: &DeviceRecord,
    contents: Contents,
) -> ExaminedMember<'a> {
    let areas = device.areas().iter().map(|area| Area {
        kind: area.kind.name(),
        version: area.version,
        offset_bytes: area.offset_bytes,
        length_bytes: area.length_bytes,
    });
    ExaminedMember {
        device: name,
        device_bytes: device.device_bytes,
        contents,
        array: array.name.as_str(),
        array_uuid: array.uuid.to_string(),
        parent_uuid: (array.parent != Uuid::NIL).then(|| array.parent.to_string()),
        created_s: array.created_s,
        last_written_s: array.last_written_s,
        last_scrub_s: array.last_scrub_s,
        scrub_left_blocks: array.scrub_left_blocks,
        errors: DeviceErrors::new(&device.errors, array.block_size.bytes()),
        generation: array.generation,
        clean: array.clean,
        consistency: array.consistency.as_str(),
        checksum: array.checksum.name(),
        row_sums: array.row_sums,
        stage_bytes: array.shared.stage_bytes,
        staged: array.staged,
        level: array.level.as_str(),
        layout: array.layout.as_str(),
        chunk_bytes: chunk_bytes(array),
        block_bytes: array.block_size.bytes(),
        member: device.member.0,
        damage: None,
        features: Features {
            ignorable: array.features.ignorable,
            read_only: array.features.read_only,
            refuse: array.features.refuse,
        },
        members: array.members().iter().map(position).collect(),
        areas: areas.collect(),
        bad_blocks: Vec::new(),
    }
}

/// Returns a position as in the JSON document.
fn position(member: &MemberRecord) -> RecordedPosition {
    let (state, out_since, mark) = match member.state {
        MemberState::Active => (FillState::Active, None, None),
        MemberState::Missing { out_since, .. } => (FillState::Missing, Some(out_since), None),
        MemberState::Rebuilding { mark, .. } => (FillState::Rebuilding, None, Some(mark.0)),
    };
    RecordedPosition {
        device_uuid: member.device_uuid.to_string(),
        data_blocks: member.data_blocks,
        state,
        out_since,
        mark,
    }
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
    if array.has_stage() {
        let holds = if array.staged {
            "which may hold writes that are not placed"
        } else {
            "which is empty"
        };
        let size = arrays::size(array.shared.stage_bytes.into());
        ui.line(format!("  a stage of {size}, {holds}"));
    }
}

/// Returns the chunk size of an array.
fn chunk_bytes(array: &ArrayRecord) -> u64 {
    u64::from(array.chunk_blocks) * u64::from(array.block_size.bytes())
}

/// Shows the missing and rebuilding members of an array.
fn show_members(array: &ArrayRecord, ui: &Ui) {
    let block_bytes = u64::from(array.block_size.bytes());
    for (index, member) in array.members().iter().enumerate() {
        match member.state {
            MemberState::Active => {}
            MemberState::Missing { out_since, .. } => ui.line(format!(
                "  member {index} is missing since generation {out_since}"
            )),
            MemberState::Rebuilding { mark, .. } => ui.line(format!(
                "  member {index} is being rebuilt, and good below {} of the array",
                arrays::size(mark.0 * block_bytes)
            )),
        }
    }
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
