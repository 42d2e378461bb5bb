//! A Markdown file has one title, and its links to files of the repository resolve.

use super::{Problem, Rule};
use crate::repo::{File, Repo};

pub(crate) static RULE: Rule = Rule {
    name: "markdown",
    check,
};

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in repo.files.iter().filter(|file| file.is_markdown()) {
        let mut in_code = false;
        let mut titles = 0;
        for (index, line) in file.text().lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            if in_code {
                continue;
            }
            titles += usize::from(line.starts_with("# "));
            for target in broken_links(repo, file, line) {
                let what = format!("the link to {target} leads nowhere");
                problems.push(Problem::new(&file.path, index + 1, what));
            }
        }
        if titles != 1 {
            let what = format!("{titles} lines begin with `# `: a file has one title");
            problems.push(Problem::new(&file.path, None, what));
        }
    }
    problems
}

fn broken_links<'a>(repo: &Repo, file: &File, line: &'a str) -> Vec<&'a str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|after| after.split(')').next());
    let is_broken = |target: &&str| {
        let path = target.split('#').next().unwrap_or_default();
        let is_elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
        !is_elsewhere && !leads_somewhere(repo, file, path)
    };
    targets.filter(is_broken).collect()
}

fn leads_somewhere(repo: &Repo, file: &File, target: &str) -> bool {
    let mut parts: Vec<&str> = file.path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let folder = format!("{path}/");
    let mut files = repo.files.iter();
    path.is_empty() || files.any(|file| file.path == path || file.path.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_second_titles_and_broken_links() {
        let good = [
            (
                "docs/a.md",
                "# A\n\n```\n# not a title\n```\n[b](b.md#x) [c](../c.rs) [d](#e) [f](..)",
            ),
            ("docs/b.md", "# B\n"),
            ("c.rs", ""),
        ];
        assert_finds(&RULE, &good, &[("a.md", "# A\n# B\n")], "2 lines");
        assert_finds(&RULE, &good, &[("a.md", "A\n")], "0 lines");
        assert_finds(
            &RULE,
            &good,
            &[("a.md", "# A\n[b](b.md)\n")],
            "b.md leads nowhere",
        );
    }
}
