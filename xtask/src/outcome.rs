//! The outcome of steps: counts, failures, and skipped tests with their reasons.

use std::fmt::Write as _;

/// The outcome of one step, or the sum of several.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Tests and checks that passed.
    pub(crate) passed: u64,
    /// Tests and checks that failed.
    pub(crate) failed: u64,
    /// Skipped tests and checks, as `NAME: REASON`.
    pub(crate) skipped: Vec<String>,
    /// Figures that tests counted, as `NAME: FIGURES`.
    pub(crate) figures: Vec<String>,
    /// The details of failures to print.
    pub(crate) details: String,
}

impl Outcome {
    /// The outcome of a check that passed.
    pub(crate) fn passed() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    /// The outcome of a check that failed.
    pub(crate) fn failed(details: impl Into<String>) -> Self {
        Self {
            failed: 1,
            details: details.into(),
            ..Self::default()
        }
    }

    /// The outcome of a check that could not run here.
    pub(crate) fn skipped(name: &str, reason: &str) -> Self {
        Self {
            skipped: vec![format!("{name}: {reason}")],
            ..Self::default()
        }
    }

    /// Parses the output of `cargo test -- --show-output`: the sums of all its test binaries, and
    /// the lines in which tests print `SKIPPED NAME: REASON` or `FIGURES NAME: WHAT THEY COUNTED`.
    pub(crate) fn of_tests(good: bool, output: &str) -> Self {
        let mut outcome = Self::default();
        let mut is_failure = false;
        let mut is_running = false;
        for line in output.lines() {
            is_running |= line.starts_with("running ");
            if let Some(counts) = line.strip_prefix("test result: ") {
                outcome.passed += count_before(counts, " passed");
                outcome.failed += count_before(counts, " failed");
                for _ in 0..count_before(counts, " ignored") {
                    outcome
                        .skipped
                        .push("a test: it is marked #[ignore]".to_owned());
                }
                (is_failure, is_running) = (false, false);
            }
            if let Some((_, what)) = line.split_once("SKIPPED") {
                let what = what.trim_start_matches([':', ' ']).trim().to_owned();
                if !what.is_empty() && !outcome.skipped.contains(&what) {
                    outcome.skipped.push(what);
                }
            }
            if let Some(figures) = line.strip_prefix("FIGURES ") {
                outcome.figures.push(figures.to_owned());
            }
            is_failure |= line == "failures:" || line.starts_with("error");
            is_failure &= !line.starts_with("running ") && line != "successes:";
            if is_failure && outcome.details.len() < 40_000 {
                writeln!(outcome.details, "{line}").expect("strings take everything");
            }
        }
        // A test binary that crashed or was stopped has no result. Its last lines name the tests
        // that were running.
        if !good && (outcome.failed == 0 || is_running) {
            outcome.failed += 1;
            let lines: Vec<&str> = output.lines().collect();
            let last = &lines[lines.len().saturating_sub(80)..];
            writeln!(outcome.details, "{}", last.join("\n")).expect("strings take everything");
        }
        outcome
    }

    /// Adds the outcome of another step.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.details += &other.details;
        self.figures.extend(other.figures.iter().cloned());
        for skip in &other.skipped {
            if !self.skipped.contains(skip) {
                self.skipped.push(skip.clone());
            }
        }
    }

    /// Returns the skips that are not in the list of expected ones. A line of the list is the
    /// beginning of a skip, two spaces or more, and the reason; `#` begins a comment.
    pub(crate) fn unexpected<'a>(&'a self, expected: &str) -> Vec<&'a String> {
        let expected: Vec<&str> = expected
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split("  ").next())
            .filter(|begins| !begins.is_empty())
            .collect();
        let is_expected = |skip: &str| expected.iter().any(|begins| skip.starts_with(begins));
        self.skipped
            .iter()
            .filter(|skip| !is_expected(skip))
            .collect()
    }
}

fn count_before(text: &str, word: &str) -> u64 {
    let Some((before, _)) = text.split_once(word) else {
        return 0;
    };
    let digits = before.rsplit([' ', ';']).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 2 tests\n\
        test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
        ---- loops stdout ----\nSKIPPED loop devices: not root\n\
        SKIPPED: loop devices: not root\n\
        FIGURES enumeration: 3 states\n\
        test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured\n";

    #[test]
    fn test_output_is_summed_up() {
        let outcome = Outcome::of_tests(false, OUTPUT);
        assert_eq!((outcome.passed, outcome.failed), (15, 2));
        let skips = ["loop devices: not root", "a test: it is marked #[ignore]"];
        assert_eq!(outcome.skipped, skips);
        assert_eq!(outcome.figures, ["enumeration: 3 states"]);
    }

    #[test]
    fn output_without_results_is_a_failure() {
        let outcome = Outcome::of_tests(false, "error: could not compile\n");
        assert_eq!(outcome.failed, 1);
        assert!(outcome.details.contains("could not compile"));
    }

    #[test]
    fn what_never_came_to_a_result_is_a_failure_and_is_named() {
        let hangs = "running 2 tests\ntest pulled_out has been running for over 60 seconds\n";
        let outcome = Outcome::of_tests(false, &format!("{OUTPUT}{hangs}"));
        assert_eq!((outcome.passed, outcome.failed), (15, 3));
        assert!(outcome.details.contains("test pulled_out has been running"));
    }

    #[test]
    fn skips_are_unexpected_until_listed() {
        let outcome = Outcome::skipped("no_std", "the target is not installed");
        assert_eq!(outcome.unexpected("# no_std\n").len(), 1);
        assert_eq!(outcome.unexpected("no_std:  needs a target\n").len(), 0);
        assert_eq!(outcome.unexpected("\n").len(), 1);
    }
}
