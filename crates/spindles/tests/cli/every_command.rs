//! Requirements for every command: help, exit statuses, JSON, errors.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::world::{MIB, World, spindles, spindles_in};
use std::path::Path;
use std::process::{Command, Stdio};

/// Every command in the help, as `["lab", "run"]`.
pub(crate) fn commands() -> Vec<Vec<String>> {
    let page = include_str!("../help.txt");
    let headings = page
        .lines()
        .filter_map(|line| line.strip_prefix("## spindles "));
    headings
        .map(|words| words.split(' ').map(str::to_owned).collect())
        .collect()
}

fn with<'a>(command: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let words = command.iter().map(String::as_str);
    words.chain(more.iter().copied()).collect()
}

#[test]
fn every_command_has_help() {
    assert!(commands().len() >= 2);
    for command in commands() {
        let usage = format!("Usage: spindles {}", command.join(" "));
        let run = spindles(&with(&command, &["--help"]))
            .ends(0)
            .prints(&usage)
            .prints("--json");
        assert_eq!(run.error, "", "{command:?}");
    }
}

#[test]
fn every_command_refuses_unknown_arguments() {
    for command in commands() {
        let run = spindles(&with(&command, &["--no-such-option"])).ends(2);
        assert!(
            run.error.starts_with("spindles: "),
            "{command:?}: {}",
            run.error
        );
        assert!(
            run.error.contains("--no-such-option"),
            "{command:?}: {}",
            run.error
        );
        assert_eq!(run.out, "", "{command:?}");

        let run = spindles(&with(&command, &["--no-such-option", "--json"])).ends(2);
        let json = run.json();
        assert_eq!(json["status"], 2, "{command:?}");
        let text = json["error"].as_str().expect("a text");
        assert!(text.contains("--no-such-option"), "{command:?}: {text}");
    }
}

#[test]
fn a_missing_command_prints_help_and_fails() {
    let run = spindles(&[]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.error.contains("Usage: spindles"), "{}", run.error);
    spindles(&["mdadm"]).fails(2, ["unrecognized subcommand 'mdadm'", "--help"]);
    assert_eq!(spindles(&["--version"]).status, 0);
}

#[test]
fn the_help_command_prints_the_same_as_the_help_option() {
    for command in commands() {
        let words = command.iter().map(String::as_str);
        let help: Vec<&str> = ["help"].into_iter().chain(words).collect();
        let asked = spindles(&help).ok().out;
        assert_eq!(asked, spindles(&with(&command, &["--help"])).out);
    }
    assert_eq!(spindles(&["help"]).ok().out, spindles(&["--help"]).out);
    spindles(&["help", "lab", "nothing"]).fails(2, ["unrecognized subcommand 'nothing'", "--help"]);
}

/// Every command has a manual page, and groff reports nothing about it.
#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("man");
    let out = out.to_str().expect("our names are UTF-8");
    spindles(&["man", "--out", out]).ok();
    let groff = Command::new("groff").arg("--version").output().is_ok();
    if !groff {
        println!("SKIPPED the lint of the manual pages: groff is not installed");
    }
    let roots = [Vec::new()].into_iter();
    for command in roots.chain(commands()) {
        let name = [&["spindles".to_owned()][..], &command].concat().join("-");
        let pages = [1, 8].map(|section| format!("{out}/man{section}/{name}.{section}"));
        let page = pages.into_iter().find(|page| Path::new(page).exists());
        let page = page.unwrap_or_else(|| panic!("{name} has no page"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("{page} is missing"));
        for section in ["SYNOPSIS", "EXIT STATUS"] {
            assert!(text.contains(section), "{page} lacks {section}");
        }
        let options = spindles(&with(&command, &["--help"])).out;
        let options = options
            .split_whitespace()
            .filter(|word| word.starts_with("--"));
        for option in options.filter(|option| {
            option
                .trim_start_matches("--")
                .chars()
                .all(|c| c.is_ascii_lowercase())
        }) {
            let option = option.replace('-', "\\-");
            assert!(text.contains(&option), "{page} lacks {option}");
        }
        if groff {
            let lint = Command::new("groff")
                .args(["-man", "-ww", "-rCHECKSTYLE=3", "-Tutf8", "-z", &page])
                .output()
                .expect("it is installed");
            let message = String::from_utf8_lossy(&lint.stderr);
            assert!(lint.status.success() && message.is_empty(), "{message}");
        }
    }
}

/// A single page is shown by name. It has a synopsis with the values of options, and the files of
/// an array.
#[test]
fn man_shows_the_page_of_one_command() {
    spindles(&["man", "serve"]).ok().prints([
        ".TH spindles-serve 8 ",
        "\\fB\\-\\-nbd\\fR \\fI",
        "EXIT STATUS",
        "/etc/spindles/NAME.conf",
    ]);
    spindles(&["man", "lab", "run"])
        .ok()
        .prints(".TH spindles-lab-run 1 ");
    spindles(&["man", "lab", "nothing"]).fails(2, ["no command 'nothing'", "spindles lab --help"]);
}

/// Completion scripts can list the names of arrays.
#[test]
fn completions_offer_array_names() {
    let folder = World::outside("a b", 16 * MIB);
    folder.ok("create home raid1(@a,@b)");
    let run = spindles_in(&folder.full(""), &[], &["completions", "arrays"]).ok();
    assert!(run.out.lines().any(|name| name == "home"), "{}", run.out);
    for shell in ["bash", "zsh", "fish"] {
        spindles(&["completions", shell])
            .ok()
            .prints("spindles completions arrays");
    }
}

/// Every shell offers the values of options.
#[test]
fn completions_offer_option_values() {
    for shell in ["bash", "zsh", "fish"] {
        let script = spindles(&["completions", shell]).ok().out;
        let words = [
            "raid10",
            "left-symmetric",
            "far2",
            "resync",
            "crc32c",
            "random-write",
            "quickstart",
            "your-devices",
            "dropout",
        ];
        for word in words {
            assert!(script.contains(word), "{shell} does not offer {word}");
        }
    }
}

#[test]
fn two_output_formats_at_once_are_refused() {
    for arguments in [
        &["lab", "report", "nothing", "--format", "csv", "--json"][..],
        &["--json", "lab", "compare", "one", "two", "--format", "json"],
    ] {
        spindles(arguments).fails(2, ["--format", "--json", "leave one out"]);
    }
}

#[test]
fn completions_and_the_manual_page_name_every_command() {
    let script = spindles(&["completions", "bash"]).ok().out;
    let page = spindles(&["man"]).ok().out;
    let json = spindles(&["completions", "bash", "--json"]).ok().json();
    assert_eq!(json["script"].as_str(), Some(script.as_str()));
    for command in commands() {
        assert!(script.contains(&command[0]), "{command:?}");
        assert!(
            page.contains(&command[0].replace('-', "\\-")),
            "{command:?}"
        );
    }
}

/// A full disk loses the result: the exit status says so. A reader that closes the pipe lost
/// nothing.
#[test]
fn a_result_lost_to_a_full_disk_is_a_failure() {
    let run = |arguments: &[&str], out: Stdio| {
        let command = Command::new(env!("CARGO_BIN_EXE_spindles"))
            .args(arguments)
            .stdout(out)
            .output();
        let output = command.expect("the binary was built");
        let error = String::from_utf8(output.stderr).expect("text");
        (output.status.code(), error)
    };
    for arguments in [
        &["lab", "list"][..],
        &["lab", "list", "--json"],
        &["layout", "raid5(4)"],
        &["--help"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let (status, error) = run(arguments, full.expect("it is there").into());
        assert_eq!(status, Some(1), "{arguments:?}: {error}");
        assert!(
            error.contains("standard output: No space left on device"),
            "{error}"
        );
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(run(arguments, writer.into()), (Some(0), String::new()));
    }
}
