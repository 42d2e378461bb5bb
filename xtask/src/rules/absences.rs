//! Things that crates must never contain, unless the compiler or lints check it already. Pure
//! crates are `no_std`, `unsafe` is confined to a few crates, the simulator doesn't touch the real
//! world, and the engine has no hash map and no `async`.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "absences",
    check,
};

/// Attributes of a crate without the standard library. Tests may use the standard library.
const NO_STD_ATTRIBUTES: [&str; 2] = ["#![no_std]", "#![cfg_attr(not(test), no_std)]"];
/// Crates without the standard library.
const NO_STD: &[&str] = &[
    "spindles-block",
    "spindles-dialects",
    "spindles-engine",
    "spindles-format",
    "spindles-host",
    "spindles-layout",
    "spindles-parity",
    "spindles-workload",
];

/// Crates that may use `unsafe`.
const UNSAFE: &[&str] = &[
    "spindles-parity",
    "spindles-device",
    "spindles-array",
    "spindles-ublk",
];

/// Names that the code of a crate must not use.
const NEVER: &[(&str, &[&str])] = &[
    (
        "spindles-engine",
        &[
            "HashMap",
            "HashSet",
            "async fn",
            "extern crate std",
            "Mutex",
        ],
    ),
    ("spindles-block", &["extern crate std"]),
    ("spindles-layout", &["extern crate std", "HashMap"]),
    ("spindles-dialects", &["extern crate std", "HashMap"]),
    ("spindles-format", &["extern crate std", "HashMap"]),
    ("spindles-workload", &["extern crate std", "HashMap"]),
    ("spindles-host", &["extern crate std", "HashMap"]),
    (
        "spindles-sim",
        &[
            "std::fs",
            "std::net",
            "std::time",
            "SystemTime",
            "HashMap",
            "HashSet",
        ],
    ),
    (
        "spindles-measure",
        &["std::process", "std::thread", "std::net"],
    ),
    (
        "spindles-model",
        &[
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
            "std::time",
            "HashMap",
        ],
    ),
    (
        "spindles-lab-web",
        &[
            "std::process",
            "OpenOptions",
            "fs::write",
            "create_dir",
            "File::create",
            "fs::rename",
            "remove_file",
            "remove_dir",
        ],
    ),
    (
        "spindles-report",
        &["std::process", "std::thread", "std::net"],
    ),
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in repo
        .files
        .iter()
        .filter(|file| file.is_rust() && !file.is_test())
    {
        let name = file.crate_name();
        let is_root = file.path == format!("crates/{name}/src/lib.rs");
        let has_std = || {
            !NO_STD_ATTRIBUTES
                .iter()
                .any(|attribute| file.text().contains(attribute))
        };
        if is_root && NO_STD.contains(&name) && has_std() {
            problems.push(Problem::new(
                &file.path,
                None,
                "add #![no_std]: the crate is pure",
            ));
        }
        let code = file.code();
        let never = NEVER.iter().filter(|(crate_name, _)| *crate_name == name);
        let mut before = "";
        for (index, line) in code.lines().enumerate() {
            let is_for_tests = before.trim() == "#[cfg(test)]";
            before = line;
            if is_for_tests {
                continue;
            }
            for word in never.clone().flat_map(|(_, words)| *words) {
                if line.contains(word) {
                    let what = format!("{name} must not contain {word}: see ARCHITECTURE.md");
                    problems.push(Problem::new(&file.path, index + 1, what));
                }
            }
            let lets = ["allow(unsafe_code", "expect(unsafe_code"];
            if !UNSAFE.contains(&name) && lets.iter().any(|text| line.contains(text)) {
                let what = format!("{name} must not contain unsafe code");
                problems.push(Problem::new(&file.path, index + 1, what));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_what_must_not_be_there() {
        let root = "crates/spindles-engine/src/lib.rs";
        let good = [(
            root,
            "#![no_std]\n// A HashMap in a comment.\nuse alloc::vec::Vec;",
        )];
        assert_finds(&RULE, &good, &[(root, "//! No such line.")], "no_std");
        let map = [(root, "#![no_std]\nuse x::HashMap;")];
        assert_finds(&RULE, &good, &map, "HashMap");
        let clock = [(
            "crates/spindles-sim/src/world.rs",
            "let now = std::time::Instant::now();",
        )];
        assert_finds(&RULE, &good, &clock, "std::time");
        let lets = [(
            "crates/spindles-lab/src/run.rs",
            "#![expect(unsafe_code, reason = \"x\")]",
        )];
        assert_finds(&RULE, &good, &lets, "unsafe");
    }
}
