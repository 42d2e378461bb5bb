//! Every source file begins with a comment on its purpose.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "headers",
    check,
};

fn check(repo: &Repo) -> Vec<Problem> {
    let begins_well = |text: &str| {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        lines
            .find(|line| !line.starts_with("#!["))
            .is_some_and(|line| line.starts_with("//! "))
    };
    let files = repo.files.iter().filter(|file| file.is_rust());
    files
        .filter(|file| !begins_well(file.text()))
        .map(|file| Problem::new(&file.path, 1, "begin with `//! ` and what the file is for"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_a_file_without_a_header() {
        let good = [
            ("a.rs", "//! Good.\n"),
            ("b.rs", "#![no_main]\n//! Good too.\n"),
        ];
        assert_finds(
            &RULE,
            &good,
            &[("a.rs", "use std::fmt;\n//! Late.")],
            "begin with",
        );
    }
}
