//! The doors that are asked for: an option for each transport.

use crate::failure::Usage;
use crate::ui::Ui;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};
use spindles_serve::{Door, DoorError, DoorOptions, TRANSPORTS, Transport};

/// An option for each transport; at least one has to be given.
pub(super) fn with_options(command: clap::Command) -> clap::Command {
    let option = |transport: &&Transport| {
        Arg::new(transport.name)
            .long(transport.name)
            .value_name(transport.value)
            .help(transport.help)
            .action(ArgAction::Append)
    };
    let names = TRANSPORTS.iter().map(|transport| transport.name);
    let one = ArgGroup::new("transports").args(names);
    let command = command.args(TRANSPORTS.iter().map(option));
    command.group(one.multiple(true).required(true))
}

/// The doors that are asked for.
pub(super) fn bind(
    matches: &ArgMatches,
    options: &DoorOptions,
) -> anyhow::Result<Vec<Box<dyn Door>>> {
    let of = |transport: &&'static Transport| {
        let values = matches.get_many::<String>(transport.name);
        let bind = transport.bind;
        let values = values.into_iter().flatten();
        let doors = values.map(|value| bind(value, options));
        doors.collect::<Vec<_>>()
    };
    let doors: Result<Vec<_>, _> = TRANSPORTS.iter().flat_map(of).collect();
    doors.map_err(refused)
}

pub(super) fn refused(error: DoorError) -> anyhow::Error {
    match error {
        DoorError::Usage(what) => Usage::error(what),
        DoorError::Refused(_) => error.into(),
    }
}

/// The server has ended, or never began.
pub(super) fn close(doors: &mut [Box<dyn Door>], ui: &Ui) {
    for told in doors.iter_mut().filter_map(|door| door.close()) {
        ui.note(told);
    }
}
