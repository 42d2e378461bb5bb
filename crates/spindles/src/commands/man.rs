//! `spindles man`: the manual page, for packagers.

use super::Command;
use crate::ui::Ui;
use clap::ArgMatches;

pub(crate) static COMMAND: Command = Command {
    name: "man",
    about: "Print the manual page",
    details: "",
    hidden: true,
    arguments: |command| command,
    run,
};

fn run(_matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(super::command_line()).render(&mut page)?;
    let page = String::from_utf8(page)?;
    ui.text("page", &page);
    Ok(())
}
