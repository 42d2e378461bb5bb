//! Every number and switch of a preset says how it is known and from where.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "presets",
    check,
};

const FOLDER: &str = "crates/spindles-model/presets/";

/// Keys that say nothing about time.
const PLAIN: &[&str] = &["name", "kind", "year"];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    let presets = repo.files.iter();
    for file in presets.filter(|file| file.path.starts_with(FOLDER)) {
        for (line, number) in file.text().lines().zip(1..) {
            if let Some((key, value)) = line.split_once(" = ")
                && !line.starts_with('#')
                && !PLAIN.contains(&key)
                && !(value.contains("how = \"") && value.contains("source = \""))
            {
                let what = format!("{key}: add how = \"...\" and source = \"...\"");
                problems.push(Problem::new(&file.path, number, what));
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
    fn it_finds_a_number_without_a_source() {
        let path = "crates/spindles-model/presets/x.toml";
        let good = "name = \"x\"\nrpm = { value = 7200, how = \"sheet\", source = \"p. 3\" }\n";
        for bad in [
            good.replace("how", "who"),
            good.replace("source", "from"),
            "rpm = 7200\n".to_owned(),
        ] {
            assert_finds(&RULE, &[(path, good)], &[(path, &bad)], "rpm");
        }
    }
}
