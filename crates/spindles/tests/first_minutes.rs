//! Runs the commands that the README asks readers to type.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The lines to type, and their output as shown, from the first block under a heading of the
/// README.
fn block(heading: &str) -> Vec<(String, Vec<String>)> {
    let page = include_str!("../../../README.md");
    let (_, section) = page
        .split_once(&format!("## {heading}\n"))
        .expect("a section");
    let (_, block) = section.split_once("```console\n").expect("a block");
    let (block, _) = block.split_once("```").expect("its end");
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.lines() {
        if let Some(typed) = line.strip_prefix("$ ") {
            let typed = typed.split("  #").next().expect("a part");
            lines.push((typed.trim().to_owned(), Vec::new()));
        } else {
            let (_, shown) = lines.last_mut().expect("a line before");
            shown.push(line.to_owned());
        }
    }
    lines
}

/// Types the lines in a folder that is laid out like a checkout.
fn types(lines: &[(String, Vec<String>)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::copy(checkout.join("README.md"), at.join("README.md")).expect("a copy");
    symlink(checkout.join("docs"), at.join("docs")).expect("a link");
    fs::create_dir(at.join("bin")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_spindles"), at.join("bin/spindles")).expect("a link");
    // Members that the README moves away go to a folder of this test.
    let mut script = "set -e\nexport PATH=\"$PWD/bin:/usr/sbin:/sbin:$PATH\"\n".to_owned();
    for (at, (typed, _)) in lines.iter().enumerate() {
        let typed = typed.replace("/tmp/away.img", "away/c.img");
        let line = match typed.strip_suffix(" &") {
            // A person waits for this message before typing the next line. Each server has a log of
            // its own, because an earlier server's log already contains the message.
            Some(served) => format!(
                "{served} 2> {at}.log & until grep -q 'is served' {at}.log; do sleep 0.1; done\n"
            ),
            // The README shows a degraded array here.
            None if typed.starts_with("spindles status") => {
                format!("{typed} > {at}.out || test $? = 3\n")
            }
            None => format!("{typed} > {at}.out\n"),
        };
        script.push_str(&line);
    }
    fs::create_dir(at.join("away")).expect("a folder");
    let log = File::create(at.join("log")).expect("a file");
    let run = Command::new("timeout")
        .args(["120", "sh", "-xc", &script])
        .current_dir(at)
        .stderr(log)
        .status();
    let log = fs::read_to_string(at.join("log")).expect("text");
    assert!(run.expect("sh runs").success(), "{log}");
    for (number, (typed, shown)) in lines.iter().enumerate() {
        let out = fs::read_to_string(at.join(format!("{number}.out"))).unwrap_or_default();
        let shown = shown.iter().all(|line| out.lines().any(|out| out == line));
        assert!(shown, "{typed}: {out}");
    }
}

#[test]
fn the_commands_to_try_by_hand_work() {
    let mut lines = block("Try it by hand");
    // The program is built already.
    lines.retain(|(typed, _)| !typed.starts_with("cargo ") && !typed.starts_with("alias "));
    assert!(lines.len() > 5);
    types(&lines);
}

#[test]
fn the_first_five_minutes_work() {
    let lines = block("The first five minutes");
    assert!(lines.len() > 8);
    if let Err(error) = File::options().write(true).open("/dev/fuse") {
        return println!("SKIPPED: the_first_five_minutes_work: /dev/fuse: {error}");
    }
    types(&lines);
}
