//! Lines of Rust, tests included.

use super::{Figure, Finding, Measure, Sources};

pub(super) static MEASURE: Measure = Measure {
    name: "lines",
    about: "lines of Rust, tests included",
    figure: Figure::Sum,
    is_kept: false,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let files = sources.rust_files();
    files
        .map(|file| Finding::new(file, 1, "").weighing(file.text().lines().count()))
        .collect()
}
