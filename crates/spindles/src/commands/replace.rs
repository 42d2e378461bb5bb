//! `spindles replace`: copies a working member onto a device that takes its place.

use super::Command;
use crate::arrays::{self, Scan};
use crate::degraded::Degraded;
use crate::documents::changes;
use crate::failure::Usage;
use crate::operation::Replace;
use crate::operations::{self, Outcome, Perform, assembling};
use crate::rate::Rate;
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::examine;
use spindles_admin::replace::{ReplaceOptions, Replaced, replace};
use spindles_admin::scan::{self, Given, shell_word};
use spindles_format::Uuid;
use spindles_layout::Expression;

pub(crate) static COMMAND: Command = Command {
    name: "replace",
    about: "Copy a working member onto a device that takes its place",
    details: "Give the member, then the array or its other devices in any order, and the new \
              device with --onto. The member stays in the array until all of it is copied, so \
              redundancy never drops. The command reads the other members only for blocks that \
              it can't read from this member. The new device must be as large as the old one; \
              its previous contents are lost.\n\n\
              After Ctrl-C or a crash, the member is in the array as before, and the same \
              command starts over. Until then a crash leaves the new device as a spare of the \
              array. If the member fails during the copy, its place is rebuilt from the others \
              onto the new device. For a device that is already gone, use spindles rebuild.\n\n\
              Afterwards the old device is no longer a member, and its superblock is cleared; \
              its other contents stay.\n\n\
              spindles replace b.img pool --onto new.img\n\
              spindles replace b.img a.img c.img --onto new.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The member to replace
    #[arg(value_name = "OLD", required = true)]
    old: String,
    /// The array: its name, or its other devices in any order
    #[arg(value_name = "ARRAY|DEV")]
    devices: Vec<String>,
    /// The new device
    #[arg(long, value_name = "NEW", required = true)]
    onto: String,
    /// Overwrite what the new device holds
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    scan: Scan,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let (old, onto) = (&arguments.old, &arguments.onto);
    if let Expression::Array { .. } = arrays::expression(onto)? {
        return Err(Usage::error(format!(
            "--onto '{onto}': a member is copied onto a single device only; an array takes the \
             place of one that is missing: give a device, or leave {old} out and fill its place \
             from the others, as long as they are enough, with spindles rebuild --onto '{onto}'"
        )));
    }
    if arguments.devices.is_empty()
        && let Some(error) = lacks_array(&arguments)
    {
        return Err(error);
    }
    let apart = [arguments.old.as_str(), arguments.onto.as_str()];
    let found = arrays::find_apart(&apart, &arguments.devices, &arguments.scan, ui)?;
    let onto = found.new_device(onto);
    let operation = Replace {
        old: found.device(old)?,
        onto: onto.clone(),
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        job_rate: Some(arguments.rate.bytes()),
    };
    operations::run(operation, &found, ui)?;
    arguments.scan.note_out_of_sight(&[&onto], &found, ui);
    Ok(())
}

/// Returns the error if only the member was given, and its array counts on others.
fn lacks_array(arguments: &Arguments) -> Option<anyhow::Error> {
    let (old, onto) = (&arguments.old, &arguments.onto);
    let places = arguments.scan.places();
    if let Some(array) = scan::called(old, places) {
        let name = shell_word(old);
        return Some(Usage::error(format!(
            "{old} is an array, and the member that is to be replaced is missing: give one of {} \
             in front, as in `spindles replace DEV {name} --onto {}`",
            array.devices.join(", "),
            shell_word(onto)
        )));
    }
    let examined = examine(old).ok()?;
    let (record, _) = examined.found.record().ok()?;
    let active = record
        .members()
        .iter()
        .filter(|member| member.state.takes_part());
    if record.parent == Uuid::NIL && active.count() <= 1 {
        return None;
    }
    let array = scan::array_of(old, places).and_then(|array| array.name);
    let array = array.map_or_else(|| "ARRAY".to_owned(), |name| shell_word(&name).into_owned());
    Some(Usage::error(format!(
        "the array is missing: give its name, or its other devices, as in `spindles replace {} \
         {array} --onto {}`",
        shell_word(old),
        shell_word(onto),
    )))
}

impl Perform for Replace {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<changes::Replaced>> {
        let (old, onto) = (&self.old, &self.onto);
        let options = ReplaceOptions {
            assemble: assembling(self.degraded, self.job_rate),
            old: old.clone(),
            onto: onto.clone(),
            overwrite: self.force,
        };
        let mut on_progress = ui.until_interrupted("replace")?;
        let replaced = replace(
            arrays::host(&arrays::names(&given.devices), ui),
            &options,
            &mut on_progress,
        )?;
        drop(on_progress);
        for warning in words::report::warnings(&replaced.report) {
            ui.note(warning);
        }
        arrays::note_devices(
            &replaced.report.incidents,
            &[], // The report warns of them.
            &replaced.wiped,
            ui,
        );
        Ok(Outcome::of(report(&replaced, old, onto, ui)))
    }
}

/// Reports the replaced member, and a superblock left on the old device.
fn report(replaced: &Replaced, old: &str, onto: &str, ui: &Ui) -> changes::Replaced {
    if let Some(error) = &replaced.not_cleared {
        ui.note(format!(
            "{old} still has its superblock, which could not be cleared: {error}; never give it \
             alone, and clear it with spindles wipe when it can be written"
        ));
    }
    let how = if replaced.rebuilt {
        format!("{old} failed on the way, and its place was rebuilt from the others")
    } else {
        format!("{old} is no member any more")
    };
    ui.line(format!(
        "array '{}': member {} is {onto} now; {how}",
        replaced.array, replaced.member
    ));
    let (of, incidents) = changes::with_incidents(&replaced.report);
    changes::Replaced {
        of,
        incidents,
        array: replaced.array.clone(),
        member: replaced.member.0,
        old: old.to_owned(),
        new: onto.to_owned(),
        rebuilt: replaced.rebuilt,
        not_cleared: replaced.not_cleared.clone(),
    }
}
