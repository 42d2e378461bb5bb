//! Runs the test binaries of the workspace side by side: some wait for disks and servers while
//! others compute.

use crate::outcome::Outcome;
use crate::process::{self, Finished};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Binaries run at once.
const AT_ONCE: usize = 2;

/// The binaries that take longest begin first.
const LONGEST: &[&str] = &["program", "spindles_sim", "spindles_lab", "io"];

/// Binaries that run in two halves at the same time: the tests whose name has this text, and the
/// others. Tests begin in the order of their names, so the longest ones would otherwise run last,
/// and alone.
const HALVED: &[(&str, &str)] = &[("program", "torture::")];

/// Binaries whose times are printed.
const LINE: usize = 8;

/// A test binary, or a half of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Binary {
    /// The name of its target.
    name: String,
    /// The folder of its package.
    folder: String,
    path: String,
    /// The arguments that choose its tests.
    chosen: Vec<String>,
}

/// Builds and runs all test binaries and documentation tests. `limit` is the longest time of each
/// for `timeout`, and `threads` the number of test threads of all that run at once.
pub(crate) fn run(limit: &str, threads: usize) -> Outcome {
    let build = [
        "test",
        "--quiet",
        "--workspace",
        "--no-run",
        "--message-format",
    ];
    let build = [&build[..], &["json-render-diagnostics"]].concat();
    let started = Instant::now();
    let binaries = match process::capture(&process::cargo_program(), &build) {
        Ok(Finished { good: true, output }) => of_messages(&output),
        Ok(Finished { output, .. }) | Err(output) => {
            let lines = output.lines().filter(|line| !line.starts_with('{'));
            return Outcome::failed(lines.collect::<Vec<_>>().join("\n"));
        }
    };
    if binaries.is_empty() {
        return Outcome::failed("cargo built no test binary");
    }
    let seconds = started.elapsed().as_secs();
    let threads = format!("--test-threads={}", (threads / AT_ONCE).max(1));
    let times = Mutex::new(Vec::new());
    let queue = Mutex::new(binaries.into_iter());
    let next = || queue.lock().expect("no thread panics").next();
    let mut total = Outcome::default();
    thread::scope(|scope| {
        let run = || {
            let mut outcomes = Outcome::default();
            while let Some(binary) = next() {
                let began = Instant::now();
                outcomes.add(&binary.run(limit, &threads));
                let mut times = times.lock().expect("no thread panics");
                times.push((began.elapsed().as_secs(), binary.label()));
            }
            outcomes
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        for worker in workers {
            total.add(&worker.join().expect("it does not panic"));
        }
    });
    total.figures.push(longest(
        seconds,
        &mut times.into_inner().expect("no thread panics"),
    ));
    let examples = [
        "test",
        "--quiet",
        "--workspace",
        "--doc",
        "--",
        "--show-output",
    ];
    total.add(&tested(&process::cargo_program(), &examples));
    total
}

/// Returns a line with the seconds of the build and of the binaries that ran longest.
fn longest(built: u64, times: &mut [(u64, String)]) -> String {
    times.sort_by(|a, b| b.cmp(a));
    let longest = times.iter().take(LINE);
    let longest: Vec<String> = longest
        .map(|(seconds, name)| format!("{name} {seconds} s"))
        .collect();
    format!("built in {built} s; longest: {}", longest.join(", "))
}

/// Returns the test binaries in messages of cargo. Those of [`LONGEST`] come first.
fn of_messages(messages: &str) -> Vec<Binary> {
    let messages = messages.lines().filter(|line| line.starts_with('{'));
    let messages = messages.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut binaries: Vec<Binary> = messages
        .filter_map(|message| of_message(&message))
        .flat_map(Binary::halves)
        .collect();
    binaries.sort_by_key(|binary| {
        let place = LONGEST.iter().position(|name| *name == binary.name);
        place.unwrap_or(LONGEST.len())
    });
    binaries
}

fn of_message(message: &Value) -> Option<Binary> {
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some(Binary {
        name: message["target"]["name"].as_str()?.to_owned(),
        folder: folder.to_str()?.to_owned(),
        path: message["executable"].as_str()?.to_owned(),
        chosen: Vec::new(),
    })
}

impl Binary {
    /// Returns both halves if it is in [`HALVED`], otherwise the binary alone.
    fn halves(self) -> Vec<Self> {
        let Some((_, text)) = HALVED.iter().find(|(name, _)| *name == self.name) else {
            return vec![self];
        };
        let choose = |chosen: &[&str]| Self {
            chosen: chosen.iter().map(|text| (*text).to_owned()).collect(),
            ..self.clone()
        };
        vec![choose(&[text]), choose(&["--skip", text])]
    }

    /// Returns its name and the tests chosen.
    fn label(&self) -> String {
        let words = [&[self.name.clone()][..], &self.chosen].concat();
        words.join(" ")
    }

    /// Runs the binary as cargo does: in the folder of its package, which a variable names too.
    fn run(&self, limit: &str, threads: &str) -> Outcome {
        let variable = format!("CARGO_MANIFEST_DIR={}", self.folder);
        let mut arguments = vec![
            "--verbose",
            "--kill-after=10",
            limit,
            "env",
            "--chdir",
            &self.folder,
            &variable,
            &self.path,
            "--show-output",
            threads,
        ];
        arguments.extend(self.chosen.iter().map(String::as_str));
        let mut outcome = tested("timeout", &arguments);
        if outcome.failed > 0 {
            let name = &self.name;
            outcome.details = format!("{name}:\n{}", outcome.details);
        }
        outcome
    }
}

fn tested(program: &str, arguments: &[&str]) -> Outcome {
    match process::capture(program, arguments) {
        Ok(Finished { good, output }) => Outcome::of_tests(good, &output),
        Err(error) => Outcome::failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binaries_that_ran_longest_are_named() {
        let mut times = [(3, "io".to_owned()), (70, "program".to_owned())];
        let line = "built in 200 s; longest: program 70 s, io 3 s";
        assert_eq!(longest(200, &mut times), line);
    }

    #[test]
    fn binaries_are_found_among_messages_and_long_ones_begin() {
        let message = |name: &str, is_test: bool, path: &str| {
            format!(
                r#"{{"manifest_path":"/w/{name}/Cargo.toml","target":{{"name":"{name}"}},
                "profile":{{"test":{is_test}}},"executable":{path}}}"#
            )
            .replace('\n', "")
        };
        let messages = [
            message("a", true, r#""/t/a-1""#),
            message("b", false, r#""/t/b""#),
            message("c", true, "null"),
            "warning: text".to_owned(),
            message("program", true, r#""/t/program-1""#),
        ];
        let found = of_messages(&messages.join("\n"));
        let names: Vec<&str> = found.iter().map(|binary| binary.name.as_str()).collect();
        assert_eq!(names, ["program", "program", "a"]);
        assert_eq!(found[0].chosen, ["torture::"]);
        assert_eq!(found[1].chosen, ["--skip", "torture::"]);
        assert_eq!(
            (found[2].folder.as_str(), found[2].path.as_str()),
            ("/w/a", "/t/a-1")
        );
        assert!(found[2].chosen.is_empty());
    }
}
