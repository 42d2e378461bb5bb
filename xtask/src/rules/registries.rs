//! A registry is a folder whose `mod.rs` holds a table: every file of the folder has its `mod` line
//! and its row, and every row its file.

use super::{Problem, Rule};
use crate::repo::{File, Repo};
use crate::source::without_tests;
use std::collections::BTreeSet;

pub(crate) static RULE: Rule = Rule {
    name: "registries",
    check,
};

/// A `mod` line with this marker names a helper of the rows; the reason follows.
const MARKER: &str = "// Not a row: ";

/// Folders that must be registries: a missing or unrecognised table there is a problem.
const ALWAYS: &[&str] = &[
    "/levels/mod.rs",
    "/dialects/mod.rs",
    "/codes/mod.rs",
    "/kernels/mod.rs",
    "/consistency/mod.rs",
    "/engine/jobs/mod.rs",
    "/versions/mod.rs",
    "/kinds/mod.rs",
    "/disks/mod.rs",
    "/faults/mod.rs",
    "/checkers/mod.rs",
    "/backends/mod.rs",
    "/targets/mod.rs",
    "/sections/mod.rs",
    "/charts/mod.rs",
    "/outputs/mod.rs",
    "/commands/mod.rs",
    "/rules/mod.rs",
    "/tasks/mod.rs",
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems: Vec<Problem> = registries(repo)
        .flat_map(|file| check_registry(repo, file))
        .collect();
    for file in &repo.files {
        if ALWAYS.iter().any(|end| file.path.ends_with(end)) && table(file).is_none() {
            let what = "there is no table `static NAME: &[&Row] = &[...]` in it";
            problems.push(Problem::new(&file.path, None, what));
        }
    }
    problems
}

/// The `mod.rs` of every registry.
pub(crate) fn registries(repo: &Repo) -> impl Iterator<Item = &File> {
    let files = repo
        .files
        .iter()
        .filter(|file| file.path.ends_with("/mod.rs"));
    files.filter(|file| !file.is_test() && table(file).is_some())
}

/// The rows of a registry: the names of their modules, in the order of the table.
fn rows(file: &File) -> Vec<String> {
    let table = table(file).unwrap_or_default();
    let mut rows: Vec<String> = Vec::new();
    for (at, _) in table.match_indices("::") {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let word = table[..at]
            .rsplit(|c: char| !is_part(c))
            .next()
            .unwrap_or_default();
        if !word.is_empty() && !rows.iter().any(|row| row == word) {
            rows.push(word.to_owned());
        }
    }
    rows
}

/// The text between the brackets of `static NAME: &[&Row] = &[...]`.
fn table(file: &File) -> Option<String> {
    let code = file.code();
    let (head, after) = code.split_once("] = &[")?;
    let declaration = head.rsplit(';').next().unwrap_or_default();
    let is_table = declaration.contains("static ") && declaration.contains(": &[");
    let (table, _) = after.split_once("];")?;
    is_table.then(|| table.to_owned())
}

fn check_registry(repo: &Repo, registry: &File) -> Vec<Problem> {
    let folder = registry
        .path
        .strip_suffix("mod.rs")
        .expect("it was found by its name");
    let files: BTreeSet<String> = repo
        .files
        .iter()
        .filter_map(|file| file.path.strip_prefix(folder))
        .filter(|path| !matches!(*path, "mod.rs" | "tests.rs") && path.contains(".rs"))
        .map(|path| {
            path.split('/')
                .next()
                .unwrap_or_default()
                .trim_end_matches(".rs")
                .to_owned()
        })
        .filter(|name| name != "tests")
        .collect();
    let source = without_tests(registry.text());
    let mut modules = BTreeSet::new();
    let mut helpers = BTreeSet::new();
    for line in source.lines() {
        let line = line.trim_start();
        let line = match line.split_once(") ") {
            Some((visibility, rest)) if visibility.starts_with("pub(") => rest,
            _ => line.strip_prefix("pub ").unwrap_or(line),
        };
        let name = line
            .strip_prefix("mod ")
            .and_then(|rest| rest.split_once(';'));
        if let Some((name, comment)) = name {
            let set = if comment.contains(MARKER) {
                &mut helpers
            } else {
                &mut modules
            };
            set.insert(name.to_owned());
        }
    }
    modules.remove("tests");
    let rows: BTreeSet<String> = rows(registry).into_iter().collect();
    let mut problems = Vec::new();
    for name in &files {
        if !modules.contains(name) && !helpers.contains(name) {
            let what = format!("{folder}{name} has no line `mod {name};` here");
            problems.push(Problem::new(&registry.path, None, what));
        }
    }
    for name in &modules {
        if !rows.contains(name) {
            let what = format!("{name} has no row in the table; a helper says `{MARKER}why`");
            problems.push(Problem::new(&registry.path, None, what));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_files_without_rows() {
        let table = "//! T.\nmod a;\npub(crate) mod b;\nmod help; // Not a row: shared.\n\
                     pub static ROWS: &[&Row] = &[\n    &a::ROW, // First.\n    &b::ROW,\n];\n";
        let [a, b] = ["x/a.rs", "x/b/mod.rs"];
        let good = [
            ("x/mod.rs", table),
            (a, ""),
            (b, ""),
            ("x/help.rs", ""),
            ("x/tests.rs", ""),
        ];
        let unlisted = [&good[..], &[("x/c.rs", "")]].concat();
        assert_finds(&RULE, &good, &unlisted, "x/c has no line");
        let rowless = table.replace("&b::ROW,", "");
        assert_finds(
            &RULE,
            &good,
            &[("x/mod.rs", &rowless), (a, ""), (b, "")],
            "b has no row",
        );
        assert_eq!(rows(&Repo::of(&good).files[0]), ["a", "b"]);
        let lost = [("x/levels/mod.rs", "//! T.\npub fn levels() {}")];
        assert_finds(&RULE, &good, &lost, "no table");
        let plain = [
            ("x/mod.rs", "mod a;\npub struct Plain;"),
            ("x/unlisted.rs", ""),
        ];
        assert_finds(&RULE, &plain, &unlisted, "x/c has no line");
    }
}
