//! The commands. Each command is one file and one row of the table. Help, completions, the manual
//! page and the tests of the command line are loops over the table.

mod add;
mod bench;
mod completions;
mod copy;
mod create;
mod examine;
mod fail;
mod grow;
mod help;
mod journal;
mod lab;
mod layout;
mod man;
mod model;
mod outside;
mod rebuild;
mod remove;
mod rename;
mod replace;
mod resync;
mod scrub;
mod serve;
mod serve_watch;
mod set;
mod sim;
mod spare;
mod status;
mod stop;
mod trace;
mod translate;
mod wipe;

use crate::arrays;
use crate::failure::{self, Answer, STATUS_DONE, STATUS_FAILED, STATUS_USAGE};
use crate::output;
use crate::plain;
use crate::ui::Ui;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches};
use std::error::Error as _;
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

/// A command: its name, arguments and function.
#[derive(Debug)]
pub(crate) struct Command {
    /// The name on the command line.
    pub name: &'static str,
    /// One line for the list of commands, without a full stop: what the command does, and to what.
    pub about: &'static str,
    /// The rest of `--help`: when to use it, with examples. May be empty.
    pub details: &'static str,
    /// True to leave it out of the list of commands.
    pub hidden: bool,
    /// Adds the arguments: usually `Arguments::augment_args` of a `#[derive(clap::Args)]`.
    pub arguments: fn(clap::Command) -> clap::Command,
    /// Runs the command. Returns `Usage::error` for an invalid command line (exit status 2), and
    /// any other error for a failure (exit status 1). Errors name the device, the fault and the
    /// next step.
    pub run: fn(&ArgMatches, &Ui) -> anyhow::Result<()>,
}

/// All commands, in the order in which help lists them.
pub(crate) static COMMANDS: &[&Command] = &[
    &lab::COMMAND,
    &create::COMMAND,
    &copy::COMMAND,
    &serve::COMMAND,
    &serve_watch::COMMAND,
    &stop::COMMAND,
    &status::COMMAND,
    &examine::COMMAND,
    &fail::COMMAND,
    &remove::COMMAND,
    &add::COMMAND,
    &rebuild::COMMAND,
    &replace::COMMAND,
    &spare::COMMAND,
    &journal::COMMAND,
    &grow::COMMAND,
    &rename::COMMAND,
    &wipe::COMMAND,
    &resync::COMMAND,
    &scrub::COMMAND,
    &set::COMMAND,
    &layout::COMMAND,
    &translate::COMMAND,
    &bench::COMMAND,
    &trace::COMMAND,
    &sim::COMMAND,
    &model::COMMAND,
    &completions::COMMAND,
    &man::COMMAND,
    &outside::COMMAND,
    &help::COMMAND,
];

/// Adds the commands of a table as subcommands of `parent`. `bench`, `journal`, `lab`, `model`,
/// `spare` and `trace` have such tables of their own.
pub(crate) fn with_commands(parent: clap::Command, table: &[&Command]) -> clap::Command {
    table.iter().fold(parent, |parent, row| {
        let command = clap::Command::new(row.name)
            .about(row.about)
            .after_help(row.details)
            .hide(row.hidden);
        parent.subcommand((row.arguments)(command))
    })
}

/// Runs the given subcommand; `None` if it is not in the table.
pub(crate) fn run_one_of(
    table: &[&Command],
    matches: &ArgMatches,
    ui: &Ui,
) -> Option<anyhow::Result<()>> {
    let (name, matches) = matches.subcommand()?;
    let row = table.iter().find(|row| row.name == name)?;
    Some((row.run)(matches, ui))
}

/// The whole command line.
pub(crate) fn command_line() -> clap::Command {
    let json = Arg::new("json")
        .long("json")
        .global(true)
        .action(ArgAction::SetTrue)
        .help("Print the result as JSON on standard output");
    let root = clap::Command::new("spindles")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Software RAID in user space, with the lab that proves it")
        .after_help(
            "Sizes take K, M, G and T, in powers of 1024, and s, sectors of 512 bytes. No command \
             writes to a device that holds \
             data without --force.\nExit status: 0 done, 1 failed, 2 wrong usage; of status also 3 \
             for a degraded array, 4 for a failed one.",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .max_term_width(100)
        .arg(json);
    with_negative_values(with_commands(root, COMMANDS))
}

/// Passes negative values to their options, which explain what they accept. Otherwise clap would
/// take them for unknown options.
fn with_negative_values(command: clap::Command) -> clap::Command {
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values() && !arg.is_positional();
        let names = arg.get_value_names().unwrap_or_default();
        let is_size = takes_values && names.iter().any(|name| name == "SIZE");
        arg.allow_hyphen_values(is_size)
            .allow_negative_numbers(takes_values)
    });
    command.mut_subcommands(with_negative_values)
}

/// Parses and runs a command line. Returns the exit status.
pub(crate) fn execute(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let status = do_here(arguments);
    if output::is_result_lost() {
        return STATUS_FAILED;
    }
    status
}

fn do_here(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = match command_line().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            let json = arguments.iter().any(|argument| argument == "--json");
            return refuse(&Ui::new(json, "spindles"), &error);
        }
    };
    let ui = Ui::new(matches.get_flag("json"), &schema(&matches));
    spindles_device::report_waits(output::report_waits);
    let words = arguments.iter().filter_map(|word| word.to_str());
    let taken = plain::refuse(matches.subcommand_name().unwrap_or_default(), words);
    taken
        .and_then(|()| run_parsed(&matches, &ui))
        .unwrap_or_else(|error| failed(&error, &ui))
}

/// Runs a parsed command. Returns its exit status if it succeeded and printed all of its result.
fn run_parsed(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<u8> {
    let result =
        run_one_of(COMMANDS, matches, ui).expect("clap lets no other than our commands through");
    let Err(error) = result else {
        return Ok(STATUS_DONE);
    };
    let error = arrays::instead_of_device(&error, &places(matches)).unwrap_or(error);
    match error.downcast_ref::<Answer>() {
        Some(answer) => Ok(answer.0),
        None => Err(error),
    }
}

/// Reports an error. Returns the exit status.
fn failed(error: &anyhow::Error, ui: &Ui) -> u8 {
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        return refuse(ui, error);
    }
    let (status, text) = failure::describe(error);
    ui.error(status, &text);
    status
}

/// The paths in which the given command searches for arrays.
fn places(matches: &ArgMatches) -> Vec<String> {
    let mut below = Some(matches);
    while let Some(matches) = below {
        if let Ok(Some(places)) = matches.try_get_many::<String>("places") {
            return places.cloned().collect();
        }
        below = matches.subcommand().map(|(_, matches)| matches);
    }
    Vec::new()
}

/// The name of the JSON document of the given command: `spindles.lab.run`.
fn schema(matches: &ArgMatches) -> String {
    let mut name = "spindles".to_owned();
    let mut below = matches.subcommand();
    while let Some((word, matches)) = below {
        name = format!("{name}.{word}");
        below = matches.subcommand();
    }
    name
}

/// Returns true if a refused `create` lacks the array, or has it in other words, as `--level`.
fn lacks_array(error: &clap::Error) -> bool {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, _) => true,
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word))) => {
            word == "--level" || !word.starts_with('-')
        }
        _ => false,
    }
}

/// Prints the requested help, or else what is wrong with the command line.
fn refuse(ui: &Ui, error: &clap::Error) -> u8 {
    let mut text = error.render().to_string();
    if let Some(why) = error
        .source()
        .and_then(|why| why.downcast_ref::<ParseIntError>())
    {
        let wanted = match why.kind() {
            IntErrorKind::PosOverflow => "this number is too large",
            _ => "give a whole number, from 0 on",
        };
        text = text.replace(&why.to_string(), wanted);
    }
    if text.contains("Usage: spindles create ") && lacks_array(error) {
        text += "\nThe name comes first, then level and members as one word: spindles create pool \
                 'raid5(a.img,b.img,c.img)'\n";
    }
    if !error.use_stderr() {
        ui.help(&text);
        return STATUS_DONE;
    }
    match text.strip_prefix("error: ") {
        Some(what) => ui.error(STATUS_USAGE, what.trim_end()),
        None => ui.remark(&text), // The help, printed because no command was given.
    }
    STATUS_USAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn names_are_unique_and_abouts_are_one_line() {
        for (index, row) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..index].iter().all(|other| other.name != row.name));
            assert!(
                !row.about.is_empty() && !row.about.contains('\n'),
                "{}",
                row.name
            );
            assert!(!row.about.ends_with('.'), "{}", row.name);
        }
    }

    /// Splits a line like a shell: at blanks outside quotes, up to a redirection, a pipe or `&`.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quote) = (vec![String::new()], None);
        for letter in line.chars() {
            match (letter, quote) {
                ('\'' | '"', None) => quote = Some(letter),
                (end, Some(open)) if end == open => quote = None,
                (' ', None) => words.push(String::new()),
                _ => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        let end = words
            .iter()
            .position(|word| matches!(&**word, "&" | "&&" | "|" | "||" | ">" | "<" | "#"));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    /// The snapshot of all help.
    const HELP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help.txt");

    /// Examples in the documents are valid command lines.
    #[test]
    fn every_example_is_a_valid_command_line() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let mut pages = vec![std::path::PathBuf::from(docs).join("../README.md")];
        pages.push(std::path::PathBuf::from(HELP));
        for folder in ["guide", "reference", "design"] {
            let folder = std::fs::read_dir(std::path::Path::new(docs).join(folder)).unwrap();
            pages.extend(folder.map(|entry| entry.unwrap().path()));
        }
        pages.retain(|page| {
            page.extension()
                .is_some_and(|extension| extension == "md" || extension == "txt")
        });
        let mut tried = 0;
        for page in &pages {
            let text = std::fs::read_to_string(page).unwrap();
            let is_help = page.ends_with("help.txt");
            for line in text.lines() {
                let line = line.strip_prefix("$ ").or(is_help.then_some(line));
                let line = line.filter(|line| {
                    line.starts_with("spindles ") && !line.contains(['\\', '$', '…'])
                });
                // A remark may follow the command.
                let line = line.and_then(|line| line.split("  ").next());
                let Some(line) = line else { continue };
                let parsed = command_line().try_get_matches_from(words(line));
                if let Err(error) = parsed {
                    let shown = error.use_stderr();
                    assert!(!shown, "{}: {line}: {error}", page.display());
                }
                tried += 1;
            }
        }
        assert!(tried > 100, "{tried} examples");
    }

    /// Every command's `--help`, as a document: a snapshot for review and for readers.
    /// `SPINDLES_UPDATE=1 cargo test -p spindles` rewrites it.
    #[test]
    fn the_help_matches_its_document() {
        let mut page = "# Commands\n\nWhat `--help` prints, for every command. Rewritten by \
                        `SPINDLES_UPDATE=1 cargo test -p spindles`.\n"
            .to_owned();
        let mut root = command_line().term_width(100);
        root.build();
        add_help(&root, &mut page);
        let path = HELP;
        if std::env::var_os("SPINDLES_UPDATE").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let differs = kept
            .lines()
            .zip(page.lines())
            .find(|(kept, made)| kept != made);
        assert!(
            kept == page,
            "tests/help.txt is stale, first at {differs:?}: run with SPINDLES_UPDATE=1"
        );
    }

    fn add_help(command: &clap::Command, page: &mut String) {
        let name = command.get_bin_name().unwrap_or(command.get_name());
        page.extend(["\n## ", name, "\n\n```text\n"]);
        let help = command.clone().render_long_help().to_string();
        for line in help.trim_end().lines() {
            page.push_str(line.trim_end());
            page.push('\n');
        }
        page.push_str("```\n");
        for subcommand in command.get_subcommands() {
            if !subcommand.is_hide_set() {
                add_help(subcommand, page);
            }
        }
    }
}
