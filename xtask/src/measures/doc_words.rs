//! Words of documentation.

use super::{Figure, Finding, Measure, Sources};

pub(super) static MEASURE: Measure = Measure {
    name: "doc_words",
    about: "words of documentation",
    figure: Figure::Sum,
    is_kept: false,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let files = sources.repo.files.iter().filter(|file| file.is_markdown());
    // Golden reports are output of the program.
    let files = files.filter(|file| !file.path.contains("/golden/"));
    files
        .map(|file| {
            let words = file.text().split_whitespace().count();
            Finding::new(file, 1, format!("{words} words")).weighing(words)
        })
        .collect()
}
