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
    // Those that tests compare are output.
    let files = files.filter(|file| !file.path.components().any(|part| part.as_os_str() == "golden"));
    files
        .map(|file| {
            let words = file.text().split_whitespace().count();
            Finding::new(file, 1, format!("{words} words")).weighing(words)
        })
        .collect()
}
