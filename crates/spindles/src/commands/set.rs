//! `spindles set`: shows or changes the settings of an array.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::documents::changes::{Of, Settings};
use crate::operation::Set;
use crate::operations::{self, Outcome, Perform, assembling};
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};
use spindles_admin::host::report_of;
use spindles_admin::scan::Given;
use spindles_admin::settings::set_degraded_writes;

pub(crate) static COMMAND: Command = Command {
    name: "set",
    about: "Show or change a setting in the superblocks of an array",
    details: "--degraded-writes decides what happens if absent members may hold data that a \
              write without them discards. There are two such cases. Members that could have \
              continued alone, such as one half of a mirror, may have been written since. Data \
              written here then can't be merged with theirs. The other case is an array with \
              parity that was not closed cleanly. Members that it had until then may alone \
              hold blocks of the last writes. These blocks are lost for good as soon as the \
              array is written without those members, even if the members return later.\n\n\
              With ask, the default, such an array is only read, unless a command that writes \
              is given --degraded. With allow, it is written without a question. Use allow for \
              machines that start unattended and never exchange devices with other machines. \
              They must tolerate losing the last writes before a power loss if a device is \
              late. Once such an array was written, it knows that the other members are out of \
              date, and no further question follows.\n\n\
              spindles set a.img b.img --degraded-writes allow",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// Policy for writes while absent members may hold data that these writes discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DegradedWrites {
    /// Commands that write need --degraded
    Ask,
    /// Commands write without a question
    Allow,
}

impl DegradedWrites {
    /// Returns true if the array allows such writes.
    pub(crate) fn allowed(self) -> bool {
        self == Self::Allow
    }
}

#[derive(Args)]
struct Arguments {
    /// Whether commands may write while members are absent that may be newer, or alone hold blocks
    /// of the last writes before a crash
    #[arg(long, value_name = "WHAT")]
    degraded_writes: Option<DegradedWrites>,
    #[command(flatten)]
    array: ArrayArguments,
    #[command(flatten)]
    degraded: Degraded,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let found = arguments.array.find(&[], ui)?;
    let operation = Set {
        degraded_writes: arguments.degraded_writes.map(DegradedWrites::allowed),
        degraded: arguments.degraded.degraded,
    };
    operations::run(operation, &found, ui).map(drop)
}

impl Perform for Set {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Settings>> {
        let (report, allowed) = if let Some(allowed) = self.degraded_writes {
            let names = arrays::names(&given.devices);
            let options = assembling(self.degraded, None);
            let set = set_degraded_writes(arrays::host(&names, ui), &options, allowed);
            (set?, allowed)
        } else {
            let report = report_of(&given.devices)?;
            let allowed = report.degraded_writes;
            (report, allowed)
        };
        let name = &report.name;
        ui.line(if allowed {
            format!(
                "array '{name}' is written without a question while members are away that may be \
                 newer, or alone hold blocks of the last writes before a crash"
            )
        } else {
            format!(
                "array '{name}' is written only with --degraded while members are away that may be \
                 newer, or alone hold blocks of the last writes before a crash"
            )
        });
        Ok(Outcome::of(Settings {
            of: Of::from(&report),
            degraded_writes: allowed,
        }))
    }
}
