//! Words that plain English avoids, in comments, strings and documents.

use super::comments::words;
use super::{Figure, Finding, Measure, Sources};

pub(super) static MEASURE: Measure = Measure {
    name: "word_list",
    about: "words that plain English avoids, in Rust files and documents",
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

fn find(sources: &Sources) -> Vec<Finding> {
    let files = sources.repo.files.iter();
    let mut findings = Vec::new();
    for file in files.filter(|file| file.is_rust() || file.is_markdown()) {
        // Skip the lists of these words.
        if file.path.starts_with("xtask/src/measures/") {
            continue;
        }
        for (number, line) in (1..).zip(file.text().lines()) {
            let words = words(line);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn each_hit_counts() {
        let text = "// Whoever is told, that is so.\nfn f() { told_of(\"so many\"); }\n";
        assert_eq!(
            figure(&MEASURE, &[("crates/spindles-admin/src/a.rs", text)]),
            5
        );
    }
}
