//! `spindles man`: the manual pages.

use super::Command;
use crate::documents::tools::{ManPage, ManPages};
use crate::failure::Usage;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::{self, Stdio};

pub(crate) static COMMAND: Command = Command {
    name: "man",
    about: "Show the manual page of a command, or write all pages to a folder",
    details: "Shows the page of a command, or of spindles itself; writes roff source to a pipe \
              or a file. With --out each command gets a page below man1 or man8 of the folder: \
              man1/spindles.1, man1/spindles-lab-run.1, man8/spindles-create.8 and so on.\n\n\
              spindles man serve\n\
              spindles man lab run\n\
              spindles man --out /usr/local/share/man",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The command, such as serve or lab run
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// The folder for the pages of all commands; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Commands for every user, in section 1. Commands that manage arrays are in section 8.
const FOR_USERS: [&str; 7] = [
    "bench",
    "completions",
    "copy",
    "lab",
    "layout",
    "man",
    "sim",
];

const EXIT_STATUS: &str = "0: done\n1: failed\n2: wrong usage";
const EXIT_STATUS_OF_STATUS: &str = "0: done, and all arrays are healthy\n1: failed\n2: wrong \
    usage\n3: an array is degraded\n4: an array has failed";

/// Files and environment variables of the commands on arrays.
const FILES: [(&str, &str); 5] = [
    (
        "/etc/spindles/NAME.conf",
        "options of the systemd units for the array NAME",
    ),
    (
        "/usr/lib/systemd/system/spindles-serve@.service",
        "serves an array from boot",
    ),
    (
        "/usr/lib/systemd/system/spindles-scrub@.timer",
        "scrubs an array once a month",
    ),
    (
        "/run/spindles",
        "sockets through which commands reach the servers of root",
    ),
    (
        "/usr/share/doc/spindles",
        "documents: start with administration.md",
    ),
];

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let mut root = super::command_line();
    root.build();
    let Some(out) = arguments.out else {
        return show(&page(find(&root, &arguments.command)?)?.text, ui);
    };
    let mut written = Vec::new();
    for Page {
        name,
        section,
        text,
    } in pages(&root)?
    {
        let folder = out.join(format!("man{section}"));
        fs::create_dir_all(&folder)
            .with_context(|| format!("{}: can't be made", folder.display()))?;
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{}: can't be written", path.display()))?;
        ui.line(path.display());
        written.push(path.display().to_string());
    }
    ui.json(&ManPages { pages: written });
    Ok(())
}

/// A page: its file name, section and text.
struct Page {
    name: String,
    section: &'static str,
    text: String,
}

/// Finds the command with these names below another.
fn find<'a>(root: &'a clap::Command, names: &[String]) -> anyhow::Result<&'a clap::Command> {
    names.iter().try_fold(root, |command, name| {
        let below = command.get_subcommands().find(|it| it.get_name() == name);
        below.ok_or_else(|| {
            Usage::error(format!(
                "there is no command '{name}'; `{} --help` lists them",
                command.get_bin_name().unwrap_or("spindles")
            ))
        })
    })
}

/// Shows a page with man(1) on a terminal; prints the source elsewhere.
fn show(page: &str, ui: &Ui) -> anyhow::Result<()> {
    if ui.wants_json() || !io::stdout().is_terminal() {
        ui.text(page, &ManPage { page });
        return Ok(());
    }
    let man = process::Command::new("man")
        .args(["-l", "-"])
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut man) = man else {
        ui.text(page, &ManPage { page }); // man-db is not installed.
        return Ok(());
    };
    if let Some(mut input) = man.stdin.take() {
        input.write_all(page.as_bytes()).ok(); // man may close it before the end.
    }
    man.wait().context("man: can't be waited for")?;
    Ok(())
}

/// The pages of a command and of all commands below it.
fn pages(command: &clap::Command) -> anyhow::Result<Vec<Page>> {
    let mut all = vec![page(command)?];
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        all.extend(pages(below)?);
    }
    Ok(all)
}

/// Returns true for a paragraph of command lines, of spindles and of other programs.
fn is_example(paragraph: &str) -> bool {
    let is_sentence = |line: &str| line.ends_with(['.', ':', ';']);
    let runs = |line: &str| line.starts_with("spindles ");
    paragraph.lines().any(runs) && !paragraph.lines().any(is_sentence)
}

/// The section of a command's pages, decided by its first word.
fn section_of(first: Option<&str>) -> &'static str {
    match first {
        Some(name) if !FOR_USERS.contains(&name) => "8",
        _ => "1",
    }
}

/// Lists the pages of the commands below this one.
fn subcommands(command: &clap::Command, roff: &mut Roff) {
    let own = command.get_bin_name().unwrap_or("spindles").to_owned();
    roff.control("SH", ["SUBCOMMANDS"]);
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        let words = format!("{own} {}", below.get_name());
        let section = section_of(words.split(' ').nth(1));
        roff.control("TP", []);
        roff.text([roman(format!("{}({section})", words.replace(' ', "-")))]);
        let about = below.get_about().map(ToString::to_string);
        roff.text([roman(about.unwrap_or_default())]);
    }
}

fn page(command: &clap::Command) -> anyhow::Result<Page> {
    let words = command.get_bin_name().unwrap_or("spindles").split(' ');
    let section = section_of(words.clone().nth(1));
    let manages = section == "8";
    // Help after the options is rendered here, to keep tables and examples line by line.
    let after = command.get_after_help().map(ToString::to_string);
    let man = Man::new(command.clone().after_help(""))
        .source(concat!("Spindles ", env!("CARGO_PKG_VERSION")))
        .manual("Spindles")
        .section(section);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    synopsis(command).to_writer(&mut page)?;
    man.render_description_section(&mut page)?;
    let (examples, details): (Vec<_>, Vec<_>) = (after.as_deref().unwrap_or_default())
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
        .partition(|paragraph| is_example(paragraph));
    let mut roff = Roff::default();
    for paragraph in details {
        roff.control("PP", []);
        add(&mut roff, paragraph);
    }
    roff.to_writer(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut roff = Roff::default();
    if command.has_subcommands() {
        subcommands(command, &mut roff);
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for paragraph in examples {
        roff.control("PP", []);
        add(&mut roff, paragraph);
    }
    exit_status(command, &mut roff);
    if manages {
        files(&mut roff);
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(if words.count() > 1 {
        "spindles(1)"
    } else {
        "spindles-create(8), spindles-serve(8), spindles-status(8), spindles-lab(1)"
    })]);
    roff.to_writer(&mut page)?;
    Ok(Page {
        name: man.get_filename(),
        section,
        text: String::from_utf8(page)?,
    })
}

/// The synopsis: the command line with its options and their values.
fn synopsis(command: &clap::Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["SYNOPSIS"]);
    let mut line = vec![bold(command.get_bin_name().unwrap_or("spindles"))];
    for argument in command.get_arguments().filter(|it| !it.is_hide_set()) {
        let values = argument.get_value_names().unwrap_or_default();
        let takes_values = argument.get_action().takes_values();
        let open = if argument.is_required_set() {
            " "
        } else {
            " ["
        };
        line.push(roman(open));
        if let Some(long) = argument.get_long() {
            line.push(bold(format!("--{long}")));
            if takes_values {
                line.push(roman(" "));
            }
        } else if let Some(short) = argument.get_short() {
            line.push(bold(format!("-{short}")));
        }
        if takes_values {
            let values: Vec<_> = values.iter().map(clap::builder::Str::as_str).collect();
            line.push(italic(values.join(" ")));
        }
        let is_many = argument
            .get_num_args()
            .is_some_and(|count| count.max_values() > values.len().max(1));
        if is_many || matches!(argument.get_action(), ArgAction::Append) {
            line.push(roman("..."));
        }
        if !argument.is_required_set() {
            line.push(roman("]"));
        }
    }
    if command.has_subcommands() {
        line.push(roman(" "));
        line.push(italic("COMMAND"));
    }
    roff.text(line);
    roff
}

fn exit_status(command: &clap::Command, roff: &mut Roff) {
    roff.control("SH", ["EXIT STATUS"]);
    let is_status = command.get_name() == super::status::COMMAND.name;
    let rows = if is_status {
        EXIT_STATUS_OF_STATUS
    } else {
        EXIT_STATUS
    };
    for (status, meaning) in rows.lines().filter_map(|row| row.split_once(": ")) {
        roff.control("TP", []);
        roff.text([bold(status)]);
        roff.text([roman(meaning)]);
    }
}

fn files(roff: &mut Roff) {
    roff.control("SH", ["FILES"]);
    for (file, about) in FILES {
        roff.control("TP", []);
        roff.text([italic(file)]);
        roff.text([roman(about)]);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    roff.control("TP", []);
    roff.text([bold("SPINDLES_SCAN")]);
    roff.text([roman("where to search for arrays by name: PATH:PATH")]);
}

/// Adds a paragraph. Keeps the line breaks of indented lines and command lines.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Without these sections a page makes its reader guess.
    #[test]
    fn every_page_has_examples_and_exit_statuses() {
        let mut root = crate::commands::command_line();
        root.build();
        for page in pages(&root).expect("they can be written") {
            for section in ["SYNOPSIS", "EXAMPLES", "EXIT STATUS"] {
                let is_root = page.name == "spindles.1" && section == "EXAMPLES";
                let has = page.text.contains(&format!(".SH {section}"))
                    || page.text.contains(&format!(".SH \"{section}\""));
                assert!(has || is_root, "{} has no {section}", page.name);
            }
        }
    }
}
