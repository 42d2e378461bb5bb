//! `spindles rename`: gives an array another name.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::documents::changes::{Of, Renamed};
use crate::operation::Rename;
use crate::operations::{self, Outcome, Perform};
use crate::serving::Serving;
use crate::ui::Ui;
use crate::words;
use anyhow::bail;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::rename::rename;
use spindles_admin::scan::{self, Given};
use spindles_format::Uuid;

pub(crate) static COMMAND: Command = Command {
    name: "rename",
    about: "Rename an array",
    details: "Give the array by its name, or all its devices in any order, and the new name \
              last. Inner arrays are named after the array, so they get new names too. The \
              command refuses the name of another array, and that of another export of the \
              server that has the array open. An array that was not closed cleanly is \
              recovered first. The command refuses if the array counts on a device that is not \
              given; a lost member that is already out does not matter.\n\n\
              spindles rename pool archive\n\
              spindles rename a.img b.img c.img archive",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    array: ArrayArguments,
    /// The new name
    #[arg(value_name = "NEWNAME", required = true)]
    name: String,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let found = arguments.array.find(&[], ui)?;
    let to = &arguments.name;
    scan::refuse_taken(to, arguments.array.scan.places(), |array| found.is(array))?;
    let renamed = operations::run(Rename { to: to.clone() }, &found, ui)?;
    if let Some(renamed) = renamed.filter(|renamed| renamed.name_before != *to) {
        arrays::note_hidden_by_file(to, &renamed.of.uuid, ui);
    }
    Ok(())
}

impl Perform for Rename {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Renamed>> {
        let to = &self.to;
        if ui
            .serving()
            .is_some_and(|serving| serving.is_other_export(to))
        {
            bail!(
                "clients of this server find another array by the name '{to}', even if that was \
                 renamed: choose another name, or stop serving that array first"
            );
        }
        let mut on_progress = ui.until_interrupted("rename")?;
        let devices = arrays::names(&given.devices);
        let report = rename(arrays::host(&devices, ui), to, &mut on_progress)?;
        drop(on_progress);
        for warning in words::report::warnings(&report) {
            ui.note(warning);
        }
        let from = &report.name;
        if from == to {
            ui.line(format!("array '{from}' already has that name"));
            return Ok(Outcome::of(document(from, to, report.uuid)));
        }
        ui.line(format!("array '{from}' is called '{to}' now"));
        // Renaming leaves the path of a file or block device unchanged.
        let by_nbd = |serving: &&Serving| serving.addresses().len() > serving.files().count();
        if let Some(serving) = ui.serving().filter(by_nbd) {
            ui.note(format!(
            "until it is served again, NBD clients find it as export '{}', and another array of \
             that name is another export",
            serving.handle().export()
        ));
        }
        Ok(Outcome::of(document(from, to, report.uuid)))
    }
}

fn document(from: &str, to: &str, uuid: Uuid) -> Renamed {
    let (name, uuid) = (to.to_owned(), uuid.to_string());
    Renamed {
        of: Of { name, uuid },
        name_before: from.to_owned(),
    }
}
