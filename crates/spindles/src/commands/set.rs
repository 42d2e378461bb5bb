//! `spindles set`: shows or changes the settings of an array.

use super::Command;
use crate::arrays::{self, ArrayArguments};
use crate::degraded::Degraded;
use crate::documents::changes::{Of, Settings};
use crate::operation::{Set, WriteBackMode};
use crate::operations::{self, Outcome, Perform, assembling};
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _, ValueEnum};
use spindles_admin::assemble::ArrayReport;
use spindles_admin::host::report_of;
use spindles_admin::scan::Given;
use spindles_admin::settings::{set_degraded_writes, set_write_back};
use spindles_admin::write_back::{Wanted, WriteBack};
use spindles_block::SizeBytes;

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
              --write-back on answers a small write on a level with parity as soon as it is in \
              the stage, a ring on the members, and writes it to its place later. It survives \
              the loss of as many members as the level does. --write-back auto does so for \
              writes that gain from it: a load that goes on for long is placed at once. Older \
              versions of Spindles refuse an array with a stage. --write-back off places what \
              is staged and takes the stage away; they open the array again then.\n\n\
              spindles set a.img b.img --degraded-writes allow\n\
              spindles set pool --write-back auto",

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
    /// Which small writes the array answers from its stage, before they are in their places
    #[arg(long, value_name = "WHAT")]
    write_back: Option<WriteBackMode>,
    /// The most bytes that the stage holds, in memory and on each member [default: as before, or
    /// 64M if the journal areas of the members have room]
    #[arg(long, value_name = "SIZE", requires = "write_back")]
    write_back_size: Option<SizeBytes>,
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
        write_back: arguments.write_back,
        write_back_size_bytes: arguments.write_back_size.map(|size| size.0),
        degraded: arguments.degraded.degraded,
    };
    operations::run(operation, &found, ui).map(drop)
}

impl Perform for Set {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<Settings>> {
        let names = arrays::names(&given.devices);
        let options = assembling(self.degraded, None);
        let mut report = None;
        // Some arrays refuse a stage: this setting comes first.
        if let Some(mode) = self.write_back {
            let wanted = Wanted {
                mode: mode.into(),
                memory_bytes: self.write_back_size_bytes,
            };
            let set = set_write_back(arrays::host(&names, ui), &options, wanted)?;
            show_write_back(&set, ui);
            report = Some(set);
        }
        if let Some(allowed) = self.degraded_writes {
            let host = arrays::host(&names, ui);
            let set = set_degraded_writes(host, &options, allowed)?;
            show_degraded_writes(&set.name, allowed, ui);
            report = Some(ArrayReport {
                degraded_writes: allowed,
                ..set
            });
        }
        let report = if let Some(report) = report {
            report
        } else {
            let report = report_of(&given.devices)?;
            show_degraded_writes(&report.name, report.degraded_writes, ui);
            show_write_back(&report, ui);
            report
        };
        Ok(Outcome::of(Settings {
            of: Of::from(&report),
            degraded_writes: report.degraded_writes,
            write_back: report.write_back.name().to_owned(),
            write_back_size_bytes: report.stage_bytes,
        }))
    }
}

fn show_degraded_writes(name: &str, allowed: bool, ui: &Ui) {
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
}

fn show_write_back(report: &ArrayReport, ui: &Ui) {
    let (name, size) = (&report.name, arrays::size(report.stage_bytes));
    ui.line(match report.write_back {
        WriteBack::Off => format!("array '{name}' places each write before it answers it"),
        WriteBack::On => {
            format!("array '{name}' answers small writes from a stage of {size}")
        }
        WriteBack::Auto => {
            format!("array '{name}' answers the small writes that gain most from a stage of {size}")
        }
    });
}
