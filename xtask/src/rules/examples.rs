//! Examples in documentation stand in crates that run them: a crate with `doctest = false` has
//! none.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "examples",
    check,
};

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    let files = repo.files.iter();
    for file in files.filter(|file| file.is_rust() && !file.is_test()) {
        let manifest = format!("crates/{}/Cargo.toml", file.crate_name());
        let manifest = repo.file(&manifest).map_or("", |manifest| manifest.text());
        if !manifest.contains("doctest = false") {
            continue;
        }
        let fences = file.text().lines().zip(1..).filter_map(|(line, number)| {
            let line = line.trim_start();
            let comment = line
                .strip_prefix("//!")
                .or_else(|| line.strip_prefix("///"));
            let fence = comment?.trim().strip_prefix("```")?;
            Some((fence.to_owned(), number))
        });
        // Every second fence ends a block.
        for (fence, number) in fences.step_by(2) {
            if !matches!(
                fence.as_str(),
                "text" | "ignore" | "toml" | "sh" | "console"
            ) {
                let what = "no test runs this example: take `doctest = false` out of Cargo.toml";
                problems.push(Problem::new(&file.path, number, what.to_owned()));
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
    fn it_finds_an_example_that_no_test_runs() {
        let (manifest, source) = ("crates/x/Cargo.toml", "crates/x/src/lib.rs");
        let off = (manifest, "[lib]\ndoctest = false\n");
        let drawing = "//! ```text\n//! a\n//! ```\n";
        let example = "//! ```text\n//! a\n//! ```\n/// ```\n/// f();\n/// ```\n";
        let good = [
            &[off, (source, drawing)][..],
            &[(manifest, "[lints]\n"), (source, example)],
        ];
        for good in good {
            assert_finds(&RULE, good, &[off, (source, example)], "no test runs");
        }
    }
}
