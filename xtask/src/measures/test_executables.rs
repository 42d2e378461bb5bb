//! Executables that the test command builds.

use super::{Figure, Finding, Measure, Sources};

pub(super) static MEASURE: Measure = Measure {
    name: "test_executables",
    about: "test executables",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in sources.repo.own_packages() {
        let name = package["name"].as_str().unwrap_or_default();
        let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
        for target in targets.iter().filter(|target| target["test"] == true) {
            findings.push(Finding {
                part: name.to_owned(),
                place: target["src_path"].as_str().unwrap_or_default().to_owned(),
                what: target["name"].as_str().unwrap_or_default().to_owned(),
                weight: 1,
            });
        }
    }
    findings
}
