//! Words that plain English avoids, in comments, strings and documents.

use super::comments::{without_code, words};
use super::{Figure, Finding, Measure, Sources};
use crate::repo::File;
use crate::source::{Keep, strip};

pub(super) static MEASURE: Measure = Measure {
    name: "word_list",
    about: "words that plain English avoids, in comments, strings and documents",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

/// Each entry is a sequence of words.
const AVOIDED: &[&[&str]] = &[
    &["told"],
    &["anew"],
    &["whoever"],
    &["whomever"],
    &["so", "many"],
    &["so", "long", "as"],
    &["that", "is", "so"],
    &["looked", "out", "for"],
    &["is", "said"],
    &["nobody"],
    &["somebody"],
    &["of", "which", "there", "are"],
    &["what", "was"],
    &["beside"],
    &["vouch"],
    &["vouches"],
    &["newcomer"],
    &["mishap"],
];

/// The files with lists of these words.
const LISTS: &[&str] = &["xtask/src/measures/", "xtask/src/rules/glossary.rs"];

/// The user `nobody`, and the key and phase `beside` of workloads.
const NAMES: &[&str] = &[
    "\"nobody\"",
    "=nobody",
    "user nobody",
    "-u nobody",
    "chown nobody",
    "nobody:",
    "\"beside\"",
    "\"mixed beside\"",
    "beside =",
    "beside=",
];

fn find(sources: &Sources) -> Vec<Finding> {
    let files = sources.repo.files.iter();
    let mut findings = Vec::new();
    for file in files.filter(|file| file.is_rust() || file.is_markdown()) {
        if LISTS.iter().any(|list| file.path.starts_with(list)) {
            continue;
        }
        for ((number, line), prose) in (1..).zip(file.text().lines()).zip(prose(file)) {
            let words = words(&prose);
            for avoided in AVOIDED {
                let hits = words
                    .windows(avoided.len())
                    .filter(|found| found == avoided);
                for _ in hits {
                    let what = format!("{}: {}", avoided.join(" "), line.trim());
                    findings.push(Finding::new(file, number, what));
                }
            }
        }
    }
    findings
}

/// Returns the lines of a document, or the comments and strings of a Rust file: without names, code
/// in backquotes and the arguments of formats.
fn prose(file: &File) -> Vec<String> {
    let mut text = file.text().to_owned();
    for name in NAMES {
        text = text.replace(name, "NAME");
    }
    let code = if file.is_rust() {
        strip(&text, Keep::CodeOnly)
    } else {
        "\n".repeat(text.lines().count())
    };
    let lines = text.lines().zip(code.lines());
    let prose = lines.map(|(line, code)| {
        let code = code.chars().chain(std::iter::repeat(' '));
        let kept = line.chars().zip(code);
        let kept = kept.map(|(c, code)| if code == ' ' { c } else { ' ' });
        without_arguments(&without_code(kept.collect()))
    });
    prose.collect()
}

/// Removes the names after each `{`.
fn without_arguments(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let parts = text.split('{').enumerate();
    let parts = parts.map(|(index, part)| match index {
        0 => part,
        _ => part.trim_start_matches(is_part),
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn each_hit_counts() {
        let text = "// Whoever is told, that is so.\nfn f() { g(\"so many\", \"told\"); }\n";
        let of = |path, text| figure(&MEASURE, &[(path, text)]);
        assert_eq!(of("crates/spindles-admin/src/a.rs", text), 5);
        assert_eq!(of("docs/a.md", "# A key beside `another` is said"), 2);
    }

    #[test]
    fn names_do_not_count() {
        let text = "/// See `what_was` of `what was`.\nfn nobody_waits(beside: u8) {\n\
                    \x20   let told = format!(\"{told}: {beside:?}, beside=in-place\");\n\
                    \x20   run(\"nobody\", \"setpriv --reuid=nobody\", \"beside\");\n}\n";
        let of = |path, text| figure(&MEASURE, &[(path, text)]);
        assert_eq!(of("crates/spindles-admin/src/a.rs", text), 0);
        assert_eq!(of("docs/a.md", "`beside` and\n# beside = \"rebuild\"\n"), 0);
    }
}
