//! `spindles rebuild`: fills a device that replaces a missing one.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::documents::changes::{self, Made, Position};
use crate::failure::Usage;
use crate::operation::{Onto, Rebuild};
use crate::operations::{self, Outcome, Perform, assembling};
use crate::rate::Rate;
use crate::ui::Ui;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::MemberReport;
use spindles_admin::rebuild::{RebuildOptions, Rebuilt, rebuild};
use spindles_admin::scan::{self, Given};
use spindles_array::Incident;
use spindles_block::{MemberIndex, counted};
use spindles_format::ChecksumKind;
use spindles_layout::Expression;

pub(crate) static COMMAND: Command = Command {
    name: "rebuild",
    about: "Fill a new device in place of a missing member",
    details: "Give the name of the array, or its remaining devices in any order, and the new \
              device with --onto. The command computes the missing member's data from the \
              other members. The new device must be as large as the missing one; its previous \
              contents are lost. Until it is filled completely, the array is as unsafe as \
              before. Blocks that can't be computed, because other members can't be read there \
              either, are not filled. They return errors until they are written, or can be \
              read again.\n\n\
              After Ctrl-C or a crash, the rebuild continues at the same point as soon as the \
              array is used with its new device. Any program that writes to the array \
              continues it. So does this command, with or without --onto. Without --onto the \
              command also waits for spares that are given with the devices and take places \
              automatically (spindles spare). It also waits for members that returned and \
              receive the writes that they missed.\n\n\
              If an inner array has lost more than it survives, it is made again from its \
              remaining devices and the new device, and filled completely. The same happens if \
              --onto names an array: any level, on new devices or on those left of the old \
              array. A single device as large as the whole inner array takes its place alone, \
              if the remaining devices of the inner array are not given. If an array keeps \
              copies of redundant arrays, only these have checksums. Such a single device has \
              none: 'concat(new.img)' has them.\n\n\
              spindles rebuild pool --onto new.img\n\
              spindles rebuild a.img c.img --onto new.img\n\
              spindles rebuild c.img d.img --onto 'raid0(new.img,other.img)'",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The new device, or the new array: 'raid0(DEV,DEV)'
    #[arg(long, value_name = "DEV|ARRAY")]
    onto: Option<String>,
    /// The position to take if several members are missing; otherwise the first
    #[arg(long, value_name = "N", requires = "onto")]
    member: Option<u8>,
    /// Overwrite what the new device holds
    #[arg(long, requires = "onto")]
    force: bool,
    #[command(flatten)]
    array: ArrayArguments,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let onto = arguments.onto.as_deref().map(arrays::expression);
    let onto = onto.transpose()?;
    let new = onto.as_ref().map_or(Vec::new(), Expression::leaves);
    let found = arguments.array.find(&new, ui)?;
    let onto = onto.as_ref().map(|onto| found.new_devices(onto));
    let operation = Rebuild {
        onto: onto.as_ref().map(Onto::from),
        member: arguments.member,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        job_rate: Some(arguments.rate.bytes()),
    };
    operations::run(operation, &found, ui)?;
    let new = onto.as_ref().map_or(Vec::new(), Expression::leaves);
    arguments.array.scan.note_out_of_sight(&new, &found, ui);
    Ok(())
}

impl Perform for Rebuild {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<changes::RebuildResult>> {
        let onto = self.onto.as_ref().map(Onto::expression);
        let options = RebuildOptions {
            assemble: assembling(self.degraded, self.job_rate),
            onto: onto.transpose().map_err(Usage::error)?,
            member: self.member.map(MemberIndex),
            overwrite: self.force,
        };
        let mut on_progress = ui.until_interrupted("rebuild")?;
        let rebuilt = rebuild(
            arrays::host(&arrays::names(&given.devices), ui),
            &options,
            &mut on_progress,
        )?;
        drop(on_progress);
        arrays::note_devices(
            &rebuilt.report.incidents,
            &rebuilt.report.taken,
            &rebuilt.wiped,
            ui,
        );
        show_members(&rebuilt, options.onto.is_some(), ui);
        if is_filled(&rebuilt) {
            show_missing(&rebuilt, ui);
        }
        let document = document(&rebuilt);
        let end = check_filled(&rebuilt, ui);
        Ok(Outcome::of(document).ending(end))
    }
}

/// Returns true if the rebuild finished and filled everything that could be computed.
fn is_filled(rebuilt: &Rebuilt) -> bool {
    rebuilt.through && rebuilt.failed == 0
}

/// Shows the inner array that was created, and the members that are active again.
fn show_members(rebuilt: &Rebuilt, is_onto_given: bool, ui: &Ui) {
    if let Some(made) = &rebuilt.made {
        let end = if is_filled(rebuilt) {
            ", and filled"
        } else {
            ""
        };
        ui.line(format!(
            "array '{}': the inner array '{}' ({}) is recreated from {}{end}",
            rebuilt.report.name,
            made.name,
            made.level,
            made.devices.join(", ")
        ));
    }
    for (array, member) in &rebuilt.members {
        let what = if is_onto_given && lacks_checksums(rebuilt, array) {
            ", a single device among arrays: reads do not detect its corruption, since the \
             outer array has no checksums (--onto 'concat(DEV)' has them)"
        } else {
            ""
        };
        ui.line(format!(
            "array '{array}': member {member} is active again{what}"
        ));
    }
}

/// Returns true if the new member is a single device next to arrays, in an array without checksums.
fn lacks_checksums(rebuilt: &Rebuilt, array: &str) -> bool {
    let around = rebuilt.report.arrays();
    let around = around.iter().find(|report| report.name == array);
    let is_array = |member: &MemberReport| matches!(member, MemberReport::Array(_));
    rebuilt.made.is_none()
        && around.is_some_and(|report| {
            report.checksum == ChecksumKind::None.name() && report.members.iter().any(is_array)
        })
}

/// Shows that there was nothing to rebuild, and notes the members that are still missing.
fn show_missing(rebuilt: &Rebuilt, ui: &Ui) {
    let name = &rebuilt.report.name;
    if rebuilt.members.is_empty() {
        for refused in &rebuilt.report.refused {
            ui.note(format!("left out: {refused}"));
        }
        ui.line(format!(
            "array '{name}' lacks no member: there is nothing to rebuild"
        ));
    }
    for (array, missing) in rebuilt.still_missing() {
        ui.note(format!(
            "array '{array}' is still degraded: {missing} missing; `spindles status {}` says what \
             can be done",
            scan::shell_word(name)
        ));
    }
}

/// Returns the bytes of the new device that could not be computed.
fn unfilled_bytes(rebuilt: &Rebuilt) -> u64 {
    let incidents = rebuilt.report.incidents.iter();
    incidents.map(Incident::unfilled_bytes).sum()
}

/// Returns the JSON document of a rebuild.
fn document(rebuilt: &Rebuilt) -> changes::RebuildResult {
    let (of, incidents) = changes::with_incidents(&rebuilt.report);
    let members = rebuilt.members.iter();
    let members = members.map(|(array, member)| Position {
        array: array.clone(),
        member: member.0,
    });
    changes::RebuildResult {
        of,
        incidents,
        made: rebuilt.made.as_ref().map(|made| Made {
            array: made.name.clone(),
            level: made.level.to_owned(),
            devices: made.devices.clone(),
        }),
        rebuilt: members.collect(),
        through: is_filled(rebuilt),
        unreadable: rebuilt.failed,
        unfilled_bytes: unfilled_bytes(rebuilt),
    }
}

/// Returns an error if the new device is not filled completely.
fn check_filled(rebuilt: &Rebuilt, ui: &Ui) -> anyhow::Result<()> {
    let name = &rebuilt.report.name;
    if rebuilt.failed > 0 {
        bail!(
            "array '{name}': {} could not be read, so the new device is not active yet; restore \
             the data there from a backup",
            counted(rebuilt.failed, "place")
        );
    }
    let unfilled_bytes = unfilled_bytes(rebuilt);
    if unfilled_bytes > 0 {
        bail!(
            "array '{name}': {} of the new device can't be filled, since other members can't be \
             read there either; the rest is filled; `spindles scrub {}` names the places: \
             restore them from a backup",
            arrays::size(unfilled_bytes),
            scan::shell_word(name)
        );
    }
    if !rebuilt.through {
        let what = ui.what_becomes_of_it("was stopped, and goes on there next time");
        bail!("array '{name}': the rebuild {what}");
    }
    Ok(())
}
