//! Methods of the type with the most methods, over all files of its crate.

use super::{Figure, Finding, Measure, Sources, self_calls};
use std::collections::BTreeMap;

pub(super) static MEASURE: Measure = Measure {
    name: "methods",
    about: "methods of the type that has most",
    figure: Figure::Largest,
    is_kept: true,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in sources.crates() {
        let mut types: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (of, source, method) in self_calls::methods(sources, name) {
            let _ = method;
            types.entry(of).or_default().push(&source.file.path);
        }
        for (of, mut files) in types {
            let methods = files.len();
            files.dedup();
            let what = format!("{of} has {methods} methods in {} files", files.len());
            let source = sources
                .parsed
                .iter()
                .find(|source| source.file.path == files[0]);
            let file = source.expect("it was read there").file;
            findings.push(Finding::new(file, 1, what).weighing(methods));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn methods_in_all_files_count() {
        let files = [
            (
                "crates/spindles-admin/src/a.rs",
                "impl A { fn a(&self) {} fn b() {} }",
            ),
            (
                "crates/spindles-admin/src/b.rs",
                "impl A { fn c(&self) {} }\nimpl B { fn d() {} }",
            ),
            (
                "crates/spindles-admin/src/c.rs",
                "impl Clone for A { fn clone(&self) -> A { A } }",
            ),
        ];
        assert_eq!(figure(&MEASURE, &files), 3);
    }
}
