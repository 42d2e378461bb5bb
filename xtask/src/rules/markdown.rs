//! A Markdown file has one title, and its links to files of the repository and to sections of
//! Markdown files resolve.

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
            || names_section(target) && !has_section(repo, file, target)
    };
    targets.filter(is_broken).collect()
}

/// Returns true if a link leads to a section of a file of the repository.
fn names_section(target: &str) -> bool {
    target.contains('#') && !target.contains("://") && !target.starts_with("mailto:")
}

/// Returns true if the Markdown file that a link leads to has the section that it names. Other
/// files are not looked into.
fn has_section(repo: &Repo, file: &File, target: &str) -> bool {
    let (path, section) = target.split_once('#').unwrap_or((target, ""));
    let path = match path {
        "" => file.path.clone(),
        path => resolved(&file.path, path),
    };
    let Some(page) = repo.files.iter().find(|page| page.path == path) else {
        return true;
    };
    let mut in_code = false;
    let headings = page.text().lines().filter(|line| {
        in_code ^= line.trim_start().starts_with("```");
        !in_code && line.starts_with('#')
    });
    !page.is_markdown() || headings.map(anchor).any(|anchor| anchor == section)
}

/// Returns the name that readers of Markdown give to a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

fn leads_somewhere(repo: &Repo, file: &File, target: &str) -> bool {
    let path = resolved(&file.path, target);
    let folder = format!("{path}/");
    let mut files = repo.files.iter();
    path.is_empty() || files.any(|file| file.path == path || file.path.starts_with(&folder))
}

/// Returns the path in the repository of the target of a link in a file.
pub(crate) fn resolved(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
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
                "# A\n\n```\n# not a title\n```\n[b](b.md#x-y) [c](../c.rs#e) [d](#a) [f](..)",
            ),
            ("docs/b.md", "# B\n\n## X, `y`\n"),
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
        let missing = [
            ("a.md", "# A\n[b](b.md#y)\n"),
            ("b.md", "# B\n```\n# y\n```\n"),
        ];
        assert_finds(&RULE, &good, &missing, "b.md#y leads nowhere");
    }
}
