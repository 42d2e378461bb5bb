//! `spindles completions`: a completion script for a shell.

use super::Command;
use crate::documents::tools::Script;
use crate::overview;
use crate::ui::Ui;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches, Args, FromArgMatches as _, ValueEnum as _, ValueHint};
use clap_complete::Shell;
use spindles_engine::POLICIES;
use spindles_format::ChecksumKind;
use spindles_lab::builtin::BUILTINS;
use spindles_layout::LEVELS;
use spindles_sim::disks::MODELS;
use spindles_sim::faults::FAULTS;
use spindles_workload::KINDS;

pub(crate) static COMMAND: Command = Command {
    name: "completions",
    about: "Print a completion script for your shell",
    details: "The script completes names of arrays: it searches for arrays in the same places \
              as commands do.\n\n\
              spindles completions bash > /etc/bash_completion.d/spindles",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The shell to write the script for
    #[arg(value_parser = shells())]
    shell: String,
}

/// The scripts pass this word to get the names of arrays.
const ARRAYS: &str = "arrays";

fn shells() -> PossibleValuesParser {
    let shells = Shell::value_variants().iter();
    let shells = shells.filter_map(Shell::to_possible_value);
    PossibleValuesParser::new(shells.chain([PossibleValue::new(ARRAYS).hide(true)]))
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let Ok(shell) = Shell::from_str(&arguments.shell, false) else {
        for name in overview::names() {
            ui.line(name);
        }
        return Ok(());
    };
    let mut script = Vec::new();
    let mut command = with_words(super::command_line());
    clap_complete::generate(shell, &mut command, "spindles", &mut script);
    let mut script = String::from_utf8(script)?;
    match shell {
        Shell::Bash => script.push_str(ARRAYS_IN_BASH),
        Shell::Zsh => offer_arrays_to_zsh(&mut script),
        Shell::Fish => offer_to_fish(&with_words(super::command_line()), &mut script),
        _ => {}
    }
    ui.text(&script, &Script { script: &script });
    Ok(())
}

/// Offers names of arrays, and files, for commands that manage arrays.
const ARRAYS_IN_BASH: &str = r#"
_spindles_with_arrays() {
    _spindles "$@"
    local word="${COMP_WORDS[COMP_CWORD]}"
    if [[ ${COMP_CWORD} -gt 1 && "${word}" != -* ]]; then
        case "${COMP_WORDS[1]}" in
            bench|completions|help|lab|layout|man|sim) ;;
            *)
                local arrays="$(spindles completions arrays 2>/dev/null)"
                COMPREPLY+=( $(compgen -W "${arrays}" -- "${word}") $(compgen -f -- "${word}") )
                ;;
        esac
    fi
}
complete -F _spindles_with_arrays -o nosort -o bashdefault -o default spindles
"#;

/// Offers names of arrays, and files, in place of the hint that marks them.
fn offer_arrays_to_zsh(script: &mut String) {
    const FUNCTION: &str = r#"_spindles_arrays() {
    local -a names
    names=(${(f)"$(spindles completions arrays 2>/dev/null)"})
    compadd -a names
    _files
}

"#;
    *script = script.replace(":_users", ":_spindles_arrays");
    let end = script
        .rfind("if [ \"$funcstack[1]\"")
        .unwrap_or(script.len());
    script.insert_str(end, FUNCTION);
}

/// Words that a shell offers for an argument, by the argument's name.
struct Words {
    arguments: &'static [&'static str],
    words: fn() -> Vec<&'static str>,
}

/// Only for completions. Commands check values themselves, with better messages, and layouts and
/// experiments have more values than can be listed.
static WORDS: &[Words] = &[
    Words {
        arguments: &["level", "expression"],
        words: || LEVELS.iter().map(|level| level.name).collect(),
    },
    Words {
        arguments: &["layout"],
        words: layouts,
    },
    Words {
        arguments: &["consistency"],
        words: || POLICIES.iter().map(|policy| policy.name).collect(),
    },
    Words {
        arguments: &["checksum"],
        words: || ChecksumKind::NAMES.iter().map(|(_, name)| *name).collect(),
    },
    Words {
        arguments: &["workload"],
        words: || KINDS.iter().map(|kind| kind.name).collect(),
    },
    Words {
        arguments: &["experiment", "show"],
        words: || BUILTINS.iter().map(|builtin| builtin.name).collect(),
    },
    Words {
        arguments: &["disk"],
        words: || MODELS.iter().map(|model| model.name).collect(),
    },
    Words {
        arguments: &["fault"],
        words: || FAULTS.iter().map(|fault| fault.name).collect(),
    },
    Words {
        arguments: &["command"],
        words: || super::COMMANDS.iter().map(|command| command.name).collect(),
    },
];

/// Layouts of all levels; layouts with a number of copies are listed with two.
fn layouts() -> Vec<&'static str> {
    let mut all = Vec::new();
    for level in LEVELS {
        for row in level.layouts.iter().filter(|row| !row.name.is_empty()) {
            let name = level.written(row).replace(" N", "2").replace(' ', "");
            if !all.contains(&name.as_str()) {
                all.push(name.leak()); // Once per process.
            }
        }
    }
    all
}

/// Adds to the command line the words that shells offer.
fn with_words(command: clap::Command) -> clap::Command {
    command.mut_args(offer).mut_subcommands(with_words)
}

/// Marks arguments that take the name of an array; no argument takes the name of a user.
const ARRAY_HINT: ValueHint = ValueHint::Username;

fn offer(argument: Arg) -> Arg {
    let id = argument.get_id().as_str();
    if let Some(row) = WORDS.iter().find(|row| row.arguments.contains(&id)) {
        return argument.value_parser(PossibleValuesParser::new((row.words)()));
    }
    let name = argument.get_value_names().and_then(<[_]>::first);
    match name.map(clap::builder::Str::as_str) {
        Some("ARRAY" | "ARRAY|DEV" | "ARRAY|DEV,..") => argument.value_hint(ARRAY_HINT),
        Some("DEV" | "PATH" | "DEV,.." | "OLD" | "NEW" | "FROM" | "TO" | "TARGET") => {
            argument.value_hint(ValueHint::AnyPath)
        }
        Some("DIR" | "BEFORE" | "AFTER") => argument.value_hint(ValueHint::DirPath),
        _ => argument,
    }
}

/// Completes positional arguments, which the script for fish leaves out.
fn offer_to_fish(command: &clap::Command, script: &mut String) {
    for argument in command.get_positionals() {
        let words = argument.get_possible_values();
        let mut words: Vec<&str> = words.iter().map(PossibleValue::get_name).collect();
        if argument.get_value_hint() == ARRAY_HINT {
            words.push("(spindles completions arrays 2>/dev/null)");
        }
        if !words.is_empty() {
            let (name, words) = (command.get_name(), words.join(" "));
            script.extend([
                "complete -c spindles -n \"__fish_seen_subcommand_from ",
                name,
                "\" -a \"",
                words.as_str(),
                "\"\n",
            ]);
        }
    }
    *script = script.replace(
        "(__fish_complete_users)",
        "(spindles completions arrays 2>/dev/null)",
    );
    for below in command.get_subcommands() {
        offer_to_fish(below, script);
    }
}
