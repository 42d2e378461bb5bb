//! `cargo xtask instructions`: the cost of a request in the engine, in instructions, and the member
//! I/O of a write. Unlike times, counts are the same on a busy machine.

use super::task::Task;
use crate::process;
use std::fmt::Write as _;

pub(crate) static TASK: Task = Task {
    name: "instructions",
    arguments: "[--check | --keep]",
    about: "counts instructions and member I/O per request; --check holds them to those kept, \
        --keep keeps",
    run,
};

/// The file of the kept counts: a case and its counts in each line.
const KEPT: &str = "crates/spindles-engine/instructions.txt";
const HEADER: &str = "\
# `cargo xtask instructions --keep` rewrites this file; docs/design/testing.md says how.

# Instructions per request through the engine and a driver that does nothing, one request at a time.
# The test command fails on an increase by more than 3 %.
";
const MEMBER_IO_HEADER: &str = "
# What a write asks of the members. Bytes and zeroed: for each byte of the client. Seeks:
# operations that do not begin where the last on that member ended. Rounds: of member I/O, until it
# is answered. Unmapped: new, on members that write zeros without moving bytes. The test command
# fails on any change.
";
/// The largest rise of a count that is not a regression.
const RISE_PERCENT_MAX: u64 = 3;

fn run(arguments: &[String]) -> Result<(), String> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (check, keep) = match arguments[..] {
        [] => (false, false),
        ["--check"] => (true, false),
        ["--keep"] => (false, true),
        _ => return Err("usage: cargo xtask instructions [--check | --keep]".to_owned()),
    };
    if !process::exists("valgrind") {
        return Err("valgrind is not installed (Debian: apt-get install valgrind)".to_owned());
    }
    let kept = std::fs::read_to_string(KEPT).unwrap_or_default();
    let example = build()?;
    let member_io = example_says(&example, &["member-io"])?;
    let counts = count(&example)?;
    print!(
        "{}\n{}",
        table(&counts, &kept),
        differences(&member_io, &kept)
    );
    if keep {
        let mut text = HEADER.to_owned();
        for (case, count) in &counts {
            writeln!(text, "{case:<32} {count:>6}").expect("strings take everything");
        }
        text.push_str(MEMBER_IO_HEADER);
        text.push_str(&member_io);
        std::fs::write(KEPT, text).map_err(|error| format!("{KEPT}: {error}"))?;
    }
    let risen = risen(&counts, &kept);
    if check && !risen.is_empty() {
        return Err(format!(
            "{}: more than {RISE_PERCENT_MAX} % above {KEPT}, or not in it. Mend the engine, or \
             keep the new counts with `cargo xtask instructions --keep` and say why",
            risen.join(", ")
        ));
    }
    let changed = member_io.lines().filter(|line| !is_kept(line, &kept));
    match changed.count() {
        count @ 1.. if check => Err(format!(
            "{count} counts of member I/O are other than in {KEPT}: lines with + above. Mend the \
             engine, or keep the new counts with `cargo xtask instructions --keep` and say why"
        )),
        _ => Ok(()),
    }
}

type Counts = Vec<(String, u64)>;

/// Builds the example that is counted, and returns its path.
fn build() -> Result<String, String> {
    process::cargo(&[
        "build",
        "--quiet",
        "--profile",
        "dist", // The kept counts are of this profile.
        "--package",
        "spindles-engine",
        "--example",
        "instructions",
    ])?;
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    Ok(format!("{folder}/dist/examples/instructions"))
}

fn example_says(example: &str, arguments: &[&str]) -> Result<String, String> {
    let finished = process::capture(example, arguments)?;
    if finished.good {
        Ok(finished.output)
    } else {
        Err(format!("{example}: {}", finished.output))
    }
}

/// Instructions per request of every case of the example.
fn count(example: &str) -> Result<Counts, String> {
    let cases = example_says(example, &[])?;
    let mut counts = Counts::new();
    for line in cases.lines() {
        let case = line.split_once(' ');
        let case = case.and_then(|(case, requests)| Some((case, requests.parse().ok()?)));
        let (case, requests) = case.ok_or_else(|| format!("{example}: {line}"))?;
        // Subtract a run from one with twice as many requests: the costs of starting and opening
        // cancel.
        let once = instructions(example, case, requests)?;
        let twice = instructions(example, case, 2 * requests)?;
        let per_request = twice.saturating_sub(once).div_ceil(requests);
        counts.push((case.to_owned(), per_request));
    }
    Ok(counts)
}

/// Instructions of one whole run under callgrind.
fn instructions(example: &str, case: &str, requests: u64) -> Result<u64, String> {
    let finished = process::capture(
        "valgrind",
        &[
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            example,
            case,
            &requests.to_string(),
        ],
    )?;
    let collected = collected(&finished.output);
    match collected.filter(|_| finished.good) {
        Some(count) => Ok(count),
        None => Err(format!("{case} under valgrind: {}", finished.output.trim())),
    }
}

/// Returns the count in callgrind's `==123== Collected : 456`.
fn collected(output: &str) -> Option<u64> {
    let (_, count) = output
        .lines()
        .find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

fn kept_count(kept: &str, case: &str) -> Option<u64> {
    let mut lines = kept.lines().filter_map(|line| line.split_once(' '));
    let (_, count) = lines.find(|(name, _)| *name == case)?;
    count.trim().parse().ok()
}

fn table(counts: &Counts, kept: &str) -> String {
    let mut text = format!("{:<32} {:>12} {:>8}\n", "request", "instructions", "kept");
    for (case, count) in counts {
        let kept = kept_count(kept, case).map_or("-".to_owned(), |kept| kept.to_string());
        writeln!(text, "{case:<32} {count:>12} {kept:>8}").expect("strings take everything");
    }
    text
}

fn is_kept(line: &str, kept: &str) -> bool {
    kept.lines().any(|kept| kept == line)
}

/// Returns all lines as a diff against the kept ones: `+` marks a new line, `-` the kept line it
/// replaces.
fn differences(lines: &str, kept: &str) -> String {
    // The first words identify the case.
    let case = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().take(5);
        words.map(str::to_owned).collect()
    };
    let mut text = String::new();
    for line in lines.lines() {
        let before = kept.lines().find(|kept| case(kept) == case(line));
        match before {
            Some(before) if before == line => writeln!(text, " {line}"),
            Some(before) => writeln!(text, "-{before}\n+{line}"),
            None => writeln!(text, "+{line}"),
        }
        .expect("strings take everything");
    }
    text
}

/// Returns the cases that cost notably more than the kept count, or have no kept count.
fn risen<'a>(counts: &'a Counts, kept: &str) -> Vec<&'a str> {
    let is_risen = |(case, count): &&(String, u64)| {
        kept_count(kept, case).is_none_or(|kept| count * 100 > kept * (100 + RISE_PERCENT_MAX))
    };
    counts
        .iter()
        .filter(is_risen)
        .map(|(case, _)| case.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_callgrind_prints() {
        let output = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n";
        assert_eq!(collected(output), Some(123_456));
        assert_eq!(collected("==7== no such luck\n"), None);
    }

    #[test]
    fn any_change_of_member_io_is_shown() {
        let kept = "# comment\nraid0(4) 4k none new 1 0.00 1.00\n";
        let line = "raid0(4) 4k none new 1 0.00 1.00";
        assert_eq!(differences(line, kept), format!(" {line}\n"));
        let fewer = "raid0(4) 4k none new 1 0.00 0.99";
        assert_eq!(differences(fewer, kept), format!("-{line}\n+{fewer}\n"));
        let other = "raid0(4) 4k none new 32 0.00 1.00";
        assert_eq!(differences(other, kept), format!("+{other}\n"));
        let lines = [line, fewer, other];
        assert_eq!(lines.map(|line| is_kept(line, kept)), [true, false, false]);
    }

    #[test]
    fn only_a_rise_beyond_the_noise_is_one() {
        let kept = "# comment\nread       1000\nwrite  2000\n";
        let counts = |read, write| vec![("read".to_owned(), read), ("write".to_owned(), write)];
        assert_eq!(risen(&counts(1030, 100), kept), [""; 0]);
        assert_eq!(risen(&counts(1031, 2000), kept), ["read"]);
        assert_eq!(risen(&vec![("new".to_owned(), 1)], kept), ["new"]);
    }
}
