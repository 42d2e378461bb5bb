//! Each crate has only its allowed dependencies: it can't contain a crate that it can't reach.
//! Dependencies of tests are not restricted.

use super::{Problem, Rule};
use crate::repo::Repo;
use serde_json::Value;

pub(crate) static RULE: Rule = Rule {
    name: "dependencies",
    check,
};

/// The allowed dependencies of each crate: of ours the part after `spindles-`, then others.
const ALLOWED: &[(&str, &[&str], &[&str])] = &[
    ("spindles-block", &[], &[]),
    ("spindles-parity", &[], &[]),
    ("spindles-layout", &["block"], &[]),
    ("spindles-dialects", &["block", "layout"], &[]),
    ("spindles-format", &["block"], &["crc-fast"]),
    ("spindles-engine", &["block", "layout", "format"], &[]),
    ("spindles-nbd", &[], &[]),
    (
        "spindles-device",
        &["block", "format", "layout", "model", "nbd"],
        &[
            "crc-fast",
            "humantime",
            "io-uring",
            "rustix",
            "rustls",
            "libc",
            "thiserror",
        ],
    ),
    (
        "spindles-array",
        &[
            "block", "device", "engine", "format", "layout", "model", "parity",
        ],
        &["thiserror"],
    ),
    (
        "spindles-admin",
        &[
            "array", "block", "device", "dialects", "engine", "format", "layout",
        ],
        &["libc", "rustix", "thiserror"],
    ),
    (
        "spindles-copy",
        &["admin", "array", "block", "device", "layout"],
        &["rustix", "thiserror"],
    ),
    (
        "spindles-ublk",
        &["block", "device"],
        &["io-uring", "libc", "rustix"],
    ),
    (
        "spindles-serve",
        &["admin", "array", "block", "device", "engine", "nbd", "ublk"],
        &[
            "landlock",
            "libc",
            "rustix",
            "rustls",
            "seccompiler",
            "serde",
            "serde_json",
            "thiserror",
        ],
    ),
    (
        "spindles-workload",
        &["block"],
        &["libm", "rand_chacha", "rand_core"],
    ),
    (
        "spindles-sim",
        &["block", "parity", "layout", "format", "engine", "workload"],
        &["rand_chacha", "rand_core"],
    ),
    (
        "spindles-model",
        &["block"],
        &["serde", "thiserror", "toml"],
    ),
    ("spindles-host", &["block", "workload"], &[]),
    (
        "spindles-measure",
        &[],
        &[
            "schemars",
            "serde",
            "serde_json",
            "hdrhistogram",
            "thiserror",
        ],
    ),
    (
        "spindles-report",
        &["measure"],
        &[
            "comfy-table",
            "humantime",
            "minijinja",
            "serde",
            "serde_json",
        ],
    ),
    (
        "spindles-lab",
        &[
            "admin", "array", "block", "device", "layout", "format", "engine", "workload",
            "measure", "model", "host",
        ],
        &[
            "serde",
            "serde_json",
            "tar",
            "toml",
            "rustix",
            "rand_chacha",
            "rand_core",
            "thiserror",
        ],
    ),
    (
        "spindles-lab-web",
        &["lab", "measure", "report"],
        &[
            "httparse",
            "percent-encoding",
            "rustix",
            "serde_json",
            "thiserror",
        ],
    ),
    (
        "spindles",
        &[
            "admin", "array", "block", "copy", "device", "dialects", "parity", "layout", "format",
            "engine", "workload", "sim", "measure", "model", "host", "report", "lab", "lab-web",
            "serve",
        ],
        &[
            "anyhow",
            "clap",
            "clap_complete",
            "clap_mangen",
            "ctrlc",
            "indicatif",
            "serde",
            "serde_json",
            "terminal_size",
        ],
    ),
    ("spindles-browser", &[], &["serde_json", "tempfile"]),
    ("xtask", &[], &["proc-macro2", "serde_json", "syn"]),
];

fn check(repo: &Repo) -> Vec<Problem> {
    repo.own_packages().flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<Problem> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some((_, ours, others)) = ALLOWED.iter().find(|row| row.0 == name) else {
        let what = "a new crate: say in xtask/src/rules/dependencies.rs what it may depend on";
        return vec![Problem::new(name, None, what)];
    };
    let dependencies = package["dependencies"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let kinds_checked = |dependency: &&Value| dependency["kind"].as_str() != Some("dev");
    let mut problems = Vec::new();
    for dependency in dependencies.iter().filter(kinds_checked) {
        let on = dependency["name"].as_str().unwrap_or_default();
        let is_allowed = match on.strip_prefix("spindles-") {
            Some(ours_name) => ours.contains(&ours_name),
            None => others.contains(&on),
        };
        if !is_allowed {
            problems.push(Problem::new(name, None, format!("may not depend on {on}")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn it_finds_a_dependency_that_is_not_allowed() {
        let depends = |on: &str, kind: Value| {
            json!({ "name": "spindles-engine", "source": null,
                    "dependencies": [{ "name": on, "kind": kind }] })
        };
        assert_eq!(check_package(&depends("spindles-layout", Value::Null)), []);
        assert_eq!(check_package(&depends("proptest", json!("dev"))), []);
        assert_eq!(
            check_package(&depends("spindles-admin", Value::Null)).len(),
            1
        );
        assert_eq!(check_package(&depends("anyhow", Value::Null)).len(), 1);
        let unknown = json!({ "name": "spindles-new", "dependencies": [] });
        assert_eq!(check_package(&unknown).len(), 1);
        let repo = Repo {
            files: Vec::new(),
            metadata: json!({ "packages": [depends("std-io", Value::Null)] }),
        };
        assert_eq!((RULE.check)(&repo).len(), 1);
    }
}
