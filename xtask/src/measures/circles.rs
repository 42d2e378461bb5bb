//! Files that import each other in a circle.

use super::{Figure, Finding, Measure, Sources};
use crate::rules::{circles, imports};

pub(super) static MEASURE: Measure = Measure {
    name: "circles",
    about: "files that import each other, in the largest circle",
    figure: Figure::Largest,
    is_kept: true,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in sources.crates() {
        let mut of_crate =
            (sources.parsed.iter()).filter(|source| source.file.crate_name() == name);
        let file = of_crate.next().expect("it has files").file;
        let end = file.path.find("/src/").expect("sources are there") + "/src/".len();
        for circle in circles(&imports(sources.repo, &file.path[..end])) {
            let ties = circle.iter().map(|(from, to)| {
                let to: Vec<&str> = to.iter().map(|path| &path[end..]).collect();
                format!("\n  {} imports {}", &from[end..], to.join(", "))
            });
            let what = format!("{} files{}", circle.len(), ties.collect::<String>());
            let finding = Finding::new(file, 1, what).weighing(circle.len());
            findings.push(finding);
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn every_crate_is_looked_at() {
        let root = ("crates/spindles-sim/src/lib.rs", "mod a;\nmod b;");
        let up = (
            "crates/spindles-sim/src/a.rs",
            "use crate::b::B;\npub struct A;",
        );
        let down = (
            "crates/spindles-sim/src/b.rs",
            "use crate::a::A;\npub struct B;",
        );
        assert_eq!(figure(&MEASURE, &[root, up, down]), 2);
        assert_eq!(figure(&MEASURE, &[root, up]), 0);
    }
}
