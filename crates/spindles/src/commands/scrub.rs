//! `spindles scrub`: reads and compares everything, and repairs what is known to be wrong.

use super::Command;
use crate::arrays::ArrayArguments;
use crate::degraded::Degraded;
use crate::operation::{Operation, Scrub};
use crate::operations;
use crate::rate::Rate;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};

pub(crate) static COMMAND: Command = Command {
    name: "scrub",
    about: "Read and compare a whole array, and repair what is known to be wrong",
    details: "Finds silent damage: unreadable blocks, and blocks that hold other bytes than \
              were written. Reports each of them. Unreadable blocks are recomputed from the \
              rest. With checksums, the default of create, each corrupt block is identified \
              and also repaired from the rest.\n\n\
              Scrub also reads the metadata of every member: superblocks, bitmaps, the list of \
              bad blocks, checksums, and the stamp of a journal device. It rewrites metadata \
              that is corrupt or can't be read, and counts it apart from data.\n\n\
              Without checksums, three or more copies, or two or more parities, can identify \
              the corrupt block, and scrub repairs it. One parity, or two copies, can't: scrub \
              reports the place and changes nothing. Parity recomputed from corrupt data would \
              only hide the corruption, and destroy what could have restored the data. Restore \
              such a place from a backup, and scrub again.\n\n\
              Lost blocks of the array return errors until they are written. These are blocks \
              that recovery after a crash could not verify, because members were missing or a \
              block was corrupt. They are also corrupt blocks that the rest of their row could \
              not restore when another block of that row was written. Scrub reports lost blocks \
              too, and no scrub restores them.\n\n\
              After Ctrl-C, the next scrub continues at the same point, and its summary counts \
              both parts. With --check, scrub starts at the beginning each time. Exit status 1 \
              means that some damage could not be repaired, or that blocks are lost.\n\n\
              spindles scrub pool\n\
              spindles scrub a.img b.img c.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct Arguments {
    /// Begin at the start, not where the last scrub was stopped
    #[arg(long)]
    restart: bool,
    /// Report only, and change nothing; begins at the start
    #[arg(long, conflicts_with = "trust_data")]
    check: bool,
    /// If it is unknown which member is corrupt, trust the data, or the first copy, and make
    /// redundancy agree with it. If the data is corrupt, it can't be repaired afterwards
    #[arg(long)]
    trust_data: bool,
    /// Also open an array with parity that lacks devices and was not closed: data near interrupted
    /// writes may be wrong
    #[arg(long)]
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
    let found = arguments.array.find(&[], ui)?;
    let operation = Operation::Scrub(Scrub {
        restart: arguments.restart,
        check: arguments.check,
        trust_data: arguments.trust_data,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        rebuild_rate: Some(arguments.rate.bytes()),
    });
    operations::run(&operation, &found, ui)?;
    Ok(())
}
