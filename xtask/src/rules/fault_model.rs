//! The tests, canaries and checkers that `docs/design/fault-model.md` names exist.

use super::{Problem, Rule};
use crate::repo::Repo;
use std::collections::BTreeSet;

pub(crate) static RULE: Rule = Rule {
    name: "fault_model",
    check,
};

const PAGE: &str = "docs/design/fault-model.md";

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn check(repo: &Repo) -> Vec<Problem> {
    let Some(page) = repo.file(PAGE) else {
        return Vec::new();
    };
    let sources = repo.files.iter().filter(|file| file.is_rust());
    let known: BTreeSet<&str> = sources
        .flat_map(|file| file.text().split(|letter| !is_of_name(letter)))
        .collect();
    let mut problems = Vec::new();
    for (line, text) in (1..).zip(page.text().lines()) {
        let quoted = text.split('`').skip(1).step_by(2);
        let names = quoted.filter(|quoted| quoted.chars().all(is_of_name));
        for name in names.filter(|name| !known.contains(name)) {
            let what = format!("{name} is in no source: name what shows it now");
            problems.push(Problem::new(PAGE, line, what));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_names_that_nothing_has() {
        let source = ("crates/x/tests/a.rs", "fn a_mirror() {}");
        let good = [source, (PAGE, "survived (`a_mirror`, `tests/a.rs`)")];
        let bad = [source, (PAGE, "survived (`two_mirrors`)")];
        assert_finds(&RULE, &good, &bad, "two_mirrors is in no source");
    }
}
