//! `spindles man`: the manual pages, for packagers.

use super::Command;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::{ArgMatches, Args, FromArgMatches as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

pub(crate) static COMMAND: Command = Command {
    name: "man",
    about: "Print the manual page, or write those of all commands to a folder",
    details: "Without --out the page of spindles itself is printed. With it each command gets a \
              page: spindles.1, spindles-create.1, spindles-lab-run.1 and so on.\n\n\
              spindles man | man -l -\n\
              spindles man --out /usr/local/share/man/man1",
    hidden: false,
    forwards: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The folder for the pages of all commands; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let mut root = super::command_line();
    root.build();
    let Some(out) = arguments.out else {
        ui.text("page", &page(&root)?.1);
        return Ok(());
    };
    fs::create_dir_all(&out).with_context(|| format!("{}: can't be made", out.display()))?;
    let mut written = Vec::new();
    for (name, page) in pages(&root)? {
        let path = out.join(name);
        fs::write(&path, page).with_context(|| format!("{}: can't be written", path.display()))?;
        ui.line(path.display());
        written.push(path.display().to_string());
    }
    ui.json(&json!({ "pages": written }));
    Ok(())
}

/// The pages of a command and of all below it: the names of their files, and what is in them.
fn pages(command: &clap::Command) -> anyhow::Result<Vec<(String, String)>> {
    let mut all = vec![page(command)?];
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        all.extend(pages(below)?);
    }
    Ok(all)
}

fn page(command: &clap::Command) -> anyhow::Result<(String, String)> {
    // What follows the options is printed here, line by line where it is a table or an example.
    let after = command.get_after_help().map(ToString::to_string);
    let man = Man::new(command.clone().after_help(""))
        .source(concat!("Spindles ", env!("CARGO_PKG_VERSION")))
        .manual("Spindles");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    let (examples, details): (Vec<_>, Vec<_>) = (after.as_deref().unwrap_or_default())
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
        .partition(|paragraph| paragraph.lines().all(|line| line.starts_with("spindles ")));
    let mut roff = Roff::default();
    for paragraph in details {
        roff.control("PP", []);
        add(&mut roff, paragraph);
    }
    roff.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::default();
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for paragraph in examples {
        roff.control("PP", []);
        add(&mut roff, paragraph);
    }
    roff.to_writer(&mut page)?;
    Ok((man.get_filename(), String::from_utf8(page)?))
}

/// Adds a paragraph; lines that stand for themselves stay lines.
fn add(roff: &mut Roff, paragraph: &str) {
    let stands_alone = |line: &str| line.starts_with([' ', '\t']) || line.starts_with("spindles ");
    let mut filling = true;
    for line in paragraph.lines() {
        if filling && stands_alone(line) {
            roff.control("RS", ["4"]);
            roff.control("nf", []);
        } else if !filling && !stands_alone(line) {
            roff.control("fi", []);
            roff.control("RE", []);
        }
        filling = !stands_alone(line);
        roff.text([roman(line)]);
    }
    if !filling {
        roff.control("fi", []);
        roff.control("RE", []);
    }
}
