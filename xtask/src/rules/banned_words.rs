//! Words that mean "not done" do not land.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "banned_words",
    check,
};

/// The words; in two halves, so that this file does not break its own rule.
const WORDS: &[(&str, &str)] = &[
    ("FIX", "ME"),
    ("XX", "X"),
    ("dbg", "!("),
    ("todo", "!("),
    ("unimplemented", "!("),
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in &repo.files {
        let is_checked = [".rs", ".toml", ".sh", ".js", ".html"];
        if !is_checked.iter().any(|end| file.path.ends_with(end)) {
            continue;
        }
        for (index, line) in file.text().lines().enumerate() {
            for (first, second) in WORDS {
                let word = format!("{first}{second}");
                if line.contains(&word) {
                    let what = format!("{word}: finish it or open an issue");
                    problems.push(Problem::new(&file.path, index + 1, what));
                }
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_each_word() {
        for (first, second) in WORDS {
            let bad = format!("fn f() {{}}\n// {first}{second}\n");
            assert_finds(&RULE, &[("a.rs", "fn f() {}")], &[("a.rs", &bad)], "a.rs:2");
        }
    }
}
