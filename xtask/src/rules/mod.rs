//! The rules of tidy: one file and one row each, with a test that sees the rule fail.

mod absences;
mod adr;
mod banned_words;
mod clocks;
mod dependencies;
mod examples;
mod fault_model;
mod figures;
mod file_sizes;
pub(crate) mod generated;
mod glossary;
mod headers;
mod level_names;
mod licences;
mod manifests;
mod markdown;
mod module_circles;
mod presets;
mod registries;
mod rooms;
mod walls;

pub(crate) use module_circles::{Imports, circles, imports};

use crate::repo::Repo;
pub(crate) use markdown::resolved;
use std::fmt;

/// One rule.
pub(crate) struct Rule {
    /// The name of its file.
    pub(crate) name: &'static str,
    check: fn(&Repo) -> Vec<Problem>,
}

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The file, from the root, or the package.
    path: String,
    /// The line; `None` for a problem of the whole file.
    line: Option<usize>,
    /// The problem and its remedy.
    what: String,
}

impl Problem {
    fn new(path: &str, line: impl Into<Option<usize>>, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: line.into(),
            what: what.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.what),
            None => write!(f, "{}: {}", self.path, self.what),
        }
    }
}

/// All rules.
pub(crate) static RULES: &[&Rule] = &[
    &absences::RULE,
    &adr::RULE,
    &banned_words::RULE,
    &clocks::RULE,
    &dependencies::RULE,
    &examples::RULE,
    &fault_model::RULE,
    &figures::RULE,
    &file_sizes::RULE,
    &generated::RULE,
    &glossary::RULE,
    &headers::RULE,
    &level_names::RULE,
    &licences::RULE,
    &manifests::RULE,
    &markdown::RULE,
    &module_circles::RULE,
    &presets::RULE,
    &registries::RULE,
    &rooms::RULE,
    &walls::RULE,
];

/// Returns every violation of a rule.
pub(crate) fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    for rule in RULES {
        for mut problem in (rule.check)(repo) {
            problem.what = format!("{} ({})", problem.what, rule.name);
            problems.push(problem);
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a rule finds nothing in the first files and just one problem in the second.
    pub(super) fn assert_finds(
        rule: &Rule,
        good: &[(&str, &str)],
        bad: &[(&str, &str)],
        what: &str,
    ) {
        assert_eq!((rule.check)(&Repo::of(good)), [], "{}: the good", rule.name);
        let problems = (rule.check)(&Repo::of(bad));
        assert_eq!(problems.len(), 1, "{}: {problems:?}", rule.name);
        assert!(
            problems[0].to_string().contains(what),
            "{}: {problems:?}",
            rule.name
        );
    }
}
