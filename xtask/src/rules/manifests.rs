//! Every crate takes version, edition, licence, lints and the versions of its dependencies from the
//! workspace, and has a one-line description.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "manifests",
    check,
};

/// Lines that every manifest has.
const LINES: &[&str] = &[
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "publish.workspace = true",
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    let is_ours = |path: &str| path.starts_with("crates/") || path.starts_with("xtask/");
    for file in &repo.files {
        if !file.path.ends_with("/Cargo.toml") || !is_ours(&file.path) || file.is_test() {
            continue;
        }
        let mut report = |line: Option<usize>, what: String| {
            problems.push(Problem::new(&file.path, line, what));
        };
        let text = file.text();
        for line in LINES {
            if !text.lines().any(|found| found == *line) {
                report(None, format!("add `{line}`"));
            }
        }
        if !text.contains("[lints]\nworkspace = true") {
            report(None, "add `[lints]` with `workspace = true`".to_owned());
        }
        if !text
            .lines()
            .any(|line| line.starts_with("description = \""))
        {
            report(
                None,
                "add a `description`: ARCHITECTURE.md shows it".to_owned(),
            );
        }
        let mut is_dependencies = false;
        for (index, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                is_dependencies = line.contains("dependencies");
            } else if is_dependencies && line.contains("version = ") {
                let what = "versions are in the workspace's Cargo.toml: `workspace = true`";
                report(Some(index + 1), what.to_owned());
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
    fn it_finds_what_a_manifest_lacks() {
        let path = "crates/x/Cargo.toml";
        let good = format!(
            "[package]\ndescription = \"X\"\n{}\n[dependencies]\nlibc.workspace = true\n\
             [lints]\nworkspace = true\n",
            LINES.join("\n")
        );
        for (there, instead, what) in [
            ("edition.workspace = true", "edition = \"2024\"", "edition"),
            ("[lints]", "[lint]", "[lints]"),
            ("description", "about", "description"),
            (
                "libc.workspace = true",
                "libc = { version = \"1\" }",
                "versions are",
            ),
        ] {
            let bad = good.replace(there, instead);
            assert_finds(&RULE, &[(path, &good)], &[(path, &bad)], what);
        }
    }
}
