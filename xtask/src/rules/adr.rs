//! Decisions in `docs/adr/` are numbered without gaps. Each has a status, the decision and its
//! shortcomings.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule { name: "adr", check };

fn check(repo: &Repo) -> Vec<Problem> {
    let folder = "docs/adr/";
    let mut problems = Vec::new();
    let decisions = repo
        .files
        .iter()
        .filter(|file| file.path.starts_with(folder));
    for (index, file) in decisions.enumerate() {
        let number = format!("{folder}{:04}-", index + 1);
        if !file.path.starts_with(&number) {
            let what = format!("decisions are numbered: the next is {number}");
            problems.push(Problem::new(&file.path, None, what));
        }
        let status = file
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("Status: "));
        let known = ["proposed", "accepted", "superseded by "];
        if !status.is_some_and(|status| known.iter().any(|known| status.starts_with(known))) {
            let what = "add a line `Status: proposed`, `accepted` or `superseded by NNNN`";
            problems.push(Problem::new(&file.path, None, what));
        }
        for heading in ["## Decision", "## Gaps"] {
            if !file.text().lines().any(|line| line == heading) {
                let what = format!("add the heading `{heading}`");
                problems.push(Problem::new(&file.path, None, what));
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
    fn it_finds_a_decision_without_a_status() {
        let good = "# X\n\nStatus: accepted\n\n## Decision\n\n## Gaps\n";
        let path = "docs/adr/0001-x.md";
        let bad = good.replace("accepted", "liked");
        assert_finds(&RULE, &[(path, good)], &[(path, &bad)], "Status");
        let bad = good.replace("## Gaps", "");
        assert_finds(&RULE, &[(path, good)], &[(path, &bad)], "Gaps");
        assert_finds(
            &RULE,
            &[(path, good)],
            &[("docs/adr/0002-x.md", good)],
            "numbered",
        );
    }
}
