//! No level is named outside `levels/`. A level is a row of a table; code that checks for one by
//! name would have to be found and changed for the next level.

use super::{Problem, Rule};
use crate::repo::Repo;
use crate::source::{Keep, strip, without_tests};

pub(crate) static RULE: Rule = Rule {
    name: "level_names",
    check,
};

/// The crates that the rule covers. Elsewhere level names are texts for people: help, examples,
/// labels of measurements.
const CRATES: &[&str] = &[
    "spindles-block",
    "spindles-engine",
    "spindles-format",
    "spindles-admin",
    "spindles-array",
    "spindles-copy",
    "spindles-device",
    "spindles-host",
    "spindles-lab",
    "spindles-layout",
    "spindles-model",
    "spindles-parity",
    "spindles-sim",
    "spindles-workload",
];

/// The table itself.
const LEVELS: &str = "crates/spindles-layout/src/levels/";

/// A line with this marker may name a level; the reason follows.
const MARKER: &str = "// Names a level: ";

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in repo
        .files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test())
    {
        if !CRATES.contains(&file.crate_name()) || file.path.starts_with(LEVELS) {
            continue;
        }
        let source = without_tests(file.text());
        if !source.lines().any(|line| named_level(line).is_some()) {
            continue;
        }
        let code = strip(source, Keep::Strings);
        for ((index, line), original) in code.lines().enumerate().zip(source.lines()) {
            if let Some(name) = named_level(line)
                && !original.contains(MARKER)
            {
                let what = format!("{name} is named here: ask the level's row instead");
                problems.push(Problem::new(&file.path, index + 1, what));
            }
        }
    }
    problems
}

/// Returns the first level that a line names: as a word or part of an identifier (`Raid5`,
/// `is_raid5`) or, for levels whose name is an English word, as a string. Array expressions, in
/// which `(` follows a level, are examples in messages and don't count.
fn named_level(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    for (at, _) in lower.match_indices("raid") {
        let digits: String = lower[at + 4..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let after = lower[at + 4 + digits.len()..].chars().next();
        let is_in_a_word = lower[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_expression = after == Some('(') && !is_in_a_word;
        if !digits.is_empty() && !is_expression {
            return Some(format!("raid{digits}"));
        }
    }
    lower.contains("\"concat\"").then(|| "concat".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_a_level_by_name() {
        let path = "crates/spindles-engine/src/plan.rs";
        let good = "// As raid5 does.\nfail(\"as in raid1(a,b)\");\nlet all = [a, b].concat();\n\
                    let text = \"raid5\"; // Names a level: the test of the parser.\n\
                    #[cfg(test)]\nmod tests {\n    const LEVEL: &str = \"raid5\";\n}";
        for bad in [
            "if name == \"raid6\" {}",
            "enum L { Raid10 }",
            "fn is_raid0() {}",
            "\"concat\"",
        ] {
            assert_finds(&RULE, &[(path, good)], &[(path, bad)], "is named here");
        }
        let row = [("crates/spindles-layout/src/levels/raid5.rs", "\"raid5\"")];
        assert_finds(&RULE, &row, &[(path, "\"raid5\"")], "raid5");
    }
}
