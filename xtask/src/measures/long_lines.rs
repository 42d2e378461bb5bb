//! Lines over 100 columns, code and comments.

use super::{Figure, Finding, Measure, Sources};

pub(super) static MEASURE: Measure = Measure {
    name: "long_lines",
    about: "lines over 100 columns",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

const COLUMNS_MAX: usize = 100;

fn find(sources: &Sources) -> Vec<Finding> {
    let lines = sources
        .rust_files()
        .flat_map(|file| (1..).zip(file.text().lines()).map(move |line| (file, line)));
    lines
        .filter(|(_, (_, line))| line.chars().count() > COLUMNS_MAX)
        .map(|(file, (number, line))| Finding::new(file, number, line.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn columns_are_counted_in_characters() {
        let of = |columns: usize| {
            let text = format!("// {}\n", "ä".repeat(columns - 3));
            figure(&MEASURE, &[("crates/spindles-admin/src/a.rs", &text)])
        };
        assert_eq!((of(100), of(101)), (0, 1));
    }
}
