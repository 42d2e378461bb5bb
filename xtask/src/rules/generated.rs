//! Generated parts of documents are up to date. `cargo xtask tidy --fix` rewrites the text between
//! `<!-- generated: NAME -->` and `<!-- end -->`.

use super::{Problem, Rule, registries};
use crate::predictions;
use crate::repo::Repo;
use serde_json::Value;
use std::fmt::Write as _;

pub(crate) static RULE: Rule = Rule {
    name: "generated",
    check,
};

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// Generates a part.
type Make = fn(&Repo) -> String;

/// The parts that can be generated.
static PARTS: &[(&str, Make)] = &[
    ("crates", crates),
    ("registries", folders),
    ("summary of 1996", |repo| predictions::summary(repo, "1996")),
    ("rows of 1996", |repo| predictions::measured(repo, "1996")),
    ("summary of 2000", |repo| predictions::summary(repo, "2000")),
    ("rows of 2000", |repo| predictions::measured(repo, "2000")),
    ("summary of 2005", |repo| predictions::summary(repo, "2005")),
    ("rows of 2005", |repo| predictions::measured(repo, "2005")),
    ("figures of 2008", |repo| predictions::figures(repo, "2008")),
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in repo.files.iter().filter(|file| file.is_markdown()) {
        match fresh(repo, file.text()) {
            Ok(text) if text == file.text() => {}
            Ok(_) => {
                let what = "a generated part is stale: run `cargo xtask tidy --fix`";
                problems.push(Problem::new(&file.path, None, what));
            }
            Err(what) => problems.push(Problem::new(&file.path, None, what)),
        }
    }
    problems
}

/// Rewrites the generated parts of all documents.
pub(crate) fn fix() -> Result<(), String> {
    let repo = Repo::load()?;
    for file in repo.files.iter().filter(|file| file.is_markdown()) {
        let text = fresh(&repo, file.text()).map_err(|what| format!("{}: {what}", file.path))?;
        if text != file.text() {
            std::fs::write(&file.path, text).map_err(|error| format!("{}: {error}", file.path))?;
            println!("{}: rewritten", file.path);
        }
    }
    Ok(())
}

/// Returns the document with its generated parts rewritten.
fn fresh(repo: &Repo, text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, old) = after.split_once(" -->\n").ok_or("an open generated part")?;
        let (_, later) = old
            .split_once(END)
            .ok_or("a generated part without an end")?;
        let part = PARTS.iter().find(|(part, _)| *part == name);
        let (_, make) = part.ok_or_else(|| format!("nothing generates {name}"))?;
        write!(out, "{before}{BEGIN}{name} -->\n{}{END}", make(repo))
            .expect("strings take everything");
        rest = later;
    }
    out.push_str(rest);
    Ok(out)
}

/// The crates and their descriptions, from their manifests.
fn crates(repo: &Repo) -> String {
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let mut rows: Vec<[String; 2]> = repo
        .own_packages()
        .map(|package| [text(package, "name"), text(package, "description")])
        .collect();
    rows.sort();
    rows.into_iter().fold(String::new(), |mut list, row| {
        writeln!(list, "- `{}`: {}", row[0], row[1]).expect("strings take everything");
        list
    })
}

/// The folders of the registries, one line for each package. Rows are left out, so that a new row
/// changes no third place.
fn folders(repo: &Repo) -> String {
    let mut lines = String::new();
    let mut last = "";
    for file in registries::registries(repo) {
        let folder = file.path.strip_suffix("/mod.rs").unwrap_or(&file.path);
        let (package, folder) = folder.split_once("/src/").unwrap_or(("", folder));
        if package == last {
            write!(lines, ", `{folder}`").expect("strings take everything");
        } else {
            let end = if lines.is_empty() { "" } else { "\n" };
            write!(lines, "{end}- `{package}`: `{folder}`").expect("strings take everything");
        }
        last = package;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_stale_parts() {
        let row = "//! The Xs:\n//! all. One file each.\nmod a;\npub static T: &[&R] = &[&a::R];\n";
        let page = |rows: &str| {
            format!("# A\n\n<!-- generated: registries -->\n{rows}<!-- end -->\nafter")
        };
        let good = page("- `x`: `y`, `z`\n");
        let files = [
            ("a.md", good.as_str()),
            ("x/src/y/mod.rs", row),
            ("x/src/y/a.rs", ""),
            ("x/src/z/mod.rs", row),
            ("x/src/z/a.rs", ""),
        ];
        for (bad, what) in [
            (page("- `x`: `y`\n"), "stale"),
            (
                good.replace("registries", "poems"),
                "nothing generates poems",
            ),
            (good.replace("<!-- end -->", ""), "without an end"),
        ] {
            let mut found = files;
            found[0].1 = &bad;
            assert_finds(&RULE, &files, &found, what);
        }
        let repo = Repo::of(&files);
        assert_eq!(fresh(&repo, &page("old\n")), Ok(good));
    }
}
