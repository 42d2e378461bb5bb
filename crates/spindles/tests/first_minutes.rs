//! Runs the commands that the guide and the README ask readers to type.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Pages that must have commands to run.
const PAGES_WITH_COMMANDS: &[&str] = &[
    "administration.md",
    "first-array.md",
    "recovering.md",
    "serving.md",
];

/// A command that a page asks readers to type.
struct Step {
    /// The number of its line in the page.
    line: usize,
    /// The heading above it.
    heading: String,
    typed: String,
    /// The output that the page shows.
    shown: Vec<String>,
}

/// Returns the lines that begin with `$ ` in the console blocks of a page. Lines that begin with
/// `# ` are left out: they need root, disks, a network or minutes.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut heading, mut block) = ("", None);
    let mut is_shown = false;
    for (index, line) in page.lines().enumerate() {
        if let Some(language) = line.strip_prefix("```") {
            block = block.is_none().then_some(language);
            is_shown = false;
        } else if block.is_none() {
            let title = line.trim_start_matches('#');
            if title.len() < line.len() {
                heading = title.trim();
            }
        } else if block != Some("console") {
            // Text between sessions.
        } else if let Some(typed) = line.strip_prefix("$ ") {
            // A remark may follow the command.
            let typed = typed.split("  #").next().unwrap_or_default();
            steps.push(Step {
                line: index + 1,
                heading: heading.to_owned(),
                typed: typed.trim().to_owned(),
                shown: Vec::new(),
            });
            is_shown = true;
        } else if line.starts_with("# ") {
            is_shown = false;
        } else if let Some(step) = steps.last_mut().filter(|_| is_shown && !line.is_empty()) {
            step.shown.push(line.to_owned());
        }
    }
    steps
}

/// Runs the steps of a page in a folder that has only README.md and docs, as a checkout has them.
/// Returns what differs from the page.
fn run(page: &str, steps: &[Step]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    for name in ["bin", "out", "run", "tmp", "work"] {
        fs::create_dir(at.join(name)).expect("a folder");
    }
    fs::copy(env!("CARGO_BIN_EXE_spindles"), at.join("bin/spindles")).expect("a copy");
    let copied = Command::new("cp")
        .args(["-R", "README.md", "docs"])
        .arg(at.join("work"))
        .current_dir(CHECKOUT)
        .status();
    assert!(copied.expect("cp runs").success(), "a copy of the checkout");
    // Pages put sockets and other files into /tmp, where tests must not meet.
    let own = |text: &str| text.replace("/tmp/", &format!("{}/tmp/", at.display()));
    let run = Command::new("timeout")
        .arg("300")
        .args(ordinary_user(at))
        .args(["sh", "-c", &own(&script(steps))])
        .current_dir(at.join("work"))
        .env("TEST", at)
        .env("HOME", at)
        .env("XDG_RUNTIME_DIR", at.join("run"))
        .env("SPINDLES_SCAN", ".")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(at.join("log")).expect("a file"))
        .status();
    let is_done = run.expect("sh runs").success();
    let text = |name: &str| fs::read_to_string(at.join(name)).unwrap_or_default();
    let last = text("line").trim().parse().unwrap_or(0);
    let mut problems = Vec::new();
    for step in steps.iter().filter(|step| step.line <= last) {
        let out = text(&format!("out/{}", step.line));
        let at_line = format!("{page}:{}: {}", step.line, step.typed);
        if !is_done && step.line == last {
            problems.push(format!("{at_line}: it fails:\n{out}{}", text("log")));
            continue;
        }
        // In a log a time precedes the text.
        let is_printed = |shown: &str| out.lines().any(|line| line.ends_with(shown));
        for shown in step.shown.iter().filter(|shown| !is_printed(&own(shown))) {
            problems.push(format!(
                "{at_line}: it does not print {shown:?}, but:\n{out}"
            ));
        }
    }
    if !is_done && last == 0 {
        problems.push(format!("{page}: nothing runs:\n{}", text("log")));
    }
    problems
}

/// A script of the steps. It notes each line before it runs, and keeps each one's output.
fn script(steps: &[Step]) -> String {
    let mut script = "set -e\n\
                      PATH=\"$TEST/bin:$PATH:/usr/sbin:/sbin\"\n\
                      trap 'test $? = 0 || kill $servers 2> /dev/null' EXIT\n"
        .to_owned();
    for Step { line, typed, .. } in steps {
        let out = format!("\"$TEST/out/{line}\"");
        let command = match typed.strip_suffix(" &") {
            // A person waits for this message before typing the next line.
            Some(served) => format!(
                "{served} > {out} 2>&1 &\n\
                 servers=\"$servers $!\"\n\
                 until grep -qs 'is served' {out}; do kill -0 $!; sleep 0.1; done"
            ),
            // The array may be degraded.
            None if typed.starts_with("spindles status") => {
                format!("{typed} > {out} 2>&1 || test $? = 3")
            }
            None => format!("{{ {typed}\n}} > {out} 2>&1"),
        };
        writeln!(script, "echo {line} > \"$TEST/line\"\n{command}")
            .expect("strings take everything");
    }
    script
}

/// Returns the words before a command that runs it as an ordinary user. Root gives the folder to
/// that user; other users need no words.
fn ordinary_user(folder: &Path) -> &'static [&'static str] {
    const NOBODY: &[&str] = &[
        "setpriv",
        "--reuid=nobody",
        "--regid=nogroup",
        "--clear-groups",
    ];
    let does = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        let command = command.args(&words[1..]).current_dir(folder);
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !does(&[NOBODY, &["true"]].concat()) {
        return &[];
    }
    assert!(does(&["chown", "-R", "nobody:nogroup", "."]), "it is root");
    NOBODY
}

/// Returns why an ordinary user can't have an array as a file here.
fn no_fuse() -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let open = ["sh", "-c", ": <>/dev/fuse"];
    let words = [ordinary_user(folder.path()), &open].concat();
    let opened = Command::new(words[0]).args(&words[1..]).output();
    let opened = opened.expect("a shell is everywhere");
    if !opened.status.success() {
        return Some(String::from_utf8_lossy(&opened.stderr).into_owned());
    }
    let helper = Command::new("fusermount3").arg("-V").output();
    helper.err().map(|error| format!("fusermount3: {error}"))
}

#[test]
fn the_commands_to_try_by_hand_work() {
    let page = fs::read_to_string(Path::new(CHECKOUT).join("README.md")).expect("a page");
    let mut steps = steps(&page);
    steps.retain(|step| step.heading == "Try it by hand");
    // The program is built already.
    steps.retain(|Step { typed, .. }| !typed.starts_with("cargo ") && !typed.starts_with("alias "));
    assert!(steps.len() > 5);
    let problems = run("README.md", &steps);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_commands_of_the_guide_work() {
    let folder = fs::read_dir(Path::new(CHECKOUT).join("docs/guide")).expect("the guide");
    let mut pages: Vec<PathBuf> = folder.map(|page| page.expect("a page").path()).collect();
    pages.sort();
    let mut problems = Vec::new();
    for page in pages {
        let name = page.file_name().expect("a name").to_string_lossy();
        let steps = steps(&fs::read_to_string(&page).expect("a page"));
        let has_fuse = steps.iter().any(|step| step.typed.contains("--fuse"));
        if steps.is_empty() && PAGES_WITH_COMMANDS.contains(&&*name) {
            problems.push(format!("{name}: no line begins with `$ `"));
        } else if let Some(reason) = no_fuse().filter(|_| has_fuse) {
            println!("SKIPPED: the_commands_of_the_guide_work: {name}: {reason}");
        } else if !steps.is_empty() {
            problems.extend(run(&name, &steps));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
