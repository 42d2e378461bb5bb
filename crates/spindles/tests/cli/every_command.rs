//! What holds for every command: help, exit statuses, JSON, errors.

use crate::binary::spindles;

/// Every command line that help knows, as `["lab", "run"]`.
fn commands() -> Vec<Vec<String>> {
    let page = include_str!("../../../../docs/commands.md");
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
        let run = spindles(&with(&command, &["--help"]));
        assert_eq!(run.status, 0, "{command:?}");
        let usage = format!("Usage: spindles {}", command.join(" "));
        assert!(run.out.contains(&usage), "{command:?}: {}", run.out);
        assert!(run.out.contains("--json"), "{command:?}: {}", run.out);
        assert_eq!(run.error, "", "{command:?}");
    }
}

#[test]
fn every_command_refuses_what_it_does_not_know() {
    for command in commands() {
        let run = spindles(&with(&command, &["--no-such-option"]));
        assert_eq!(run.status, 2, "{command:?}");
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

        let run = spindles(&with(&command, &["--no-such-option", "--json"]));
        assert_eq!(run.status, 2, "{command:?}");
        let json = run.json();
        assert_eq!(json["status"], 2, "{command:?}");
        let text = json["error"].as_str().expect("a text");
        assert!(text.contains("--no-such-option"), "{command:?}: {text}");
    }
}

#[test]
fn without_a_command_there_is_help_and_a_failure() {
    let run = spindles(&[]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.error.contains("Usage: spindles"), "{}", run.error);
    spindles(&["mdadm"]).fails(2, &["unrecognized subcommand 'mdadm'", "--help"]);
    assert_eq!(spindles(&["--version"]).status, 0);
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
