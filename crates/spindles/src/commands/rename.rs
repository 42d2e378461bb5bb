//! `spindles rename`: gives an array another name.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::operation::{Operation, Rename};
use crate::operations;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::scan;

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
    let operation = Operation::Rename(Rename { to: to.clone() });
    let renamed = operations::run(&operation, &found, ui)?;
    if let Some(uuid) = renamed["uuid"]
        .as_str()
        .filter(|_| renamed["name_before"] != **to)
    {
        arrays::note_hidden_by_file(to, uuid, ui);
    }
    Ok(())
}
