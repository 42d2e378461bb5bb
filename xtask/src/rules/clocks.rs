//! Only listed files of the path of requests read the real clock. Runs on modelled devices take
//! their time from the clock of the target.

use super::{Problem, Rule};
use crate::repo::Repo;
use crate::source::{Keep, strip, without_tests};

pub(crate) static RULE: Rule = Rule {
    name: "clocks",
    check,
};

/// The crates between a workload and its devices.
const CRATES: &[&str] = &[
    "spindles-admin",
    "spindles-array",
    "spindles-device",
    "spindles-host",
    "spindles-lab",
    "spindles-model",
    "spindles-workload",
];

/// Ways to read the real clock.
const WORDS: &[&str] = &["Instant::now", "SystemTime::now"];

/// Files and folders that may read it, and why.
const MAY: &[(&str, &str)] = &[
    (
        "spindles-admin/src/membership.rs",
        "waits for devices to be released",
    ),
    ("spindles-admin/src/scan.rs", "limits the time of a scan"),
    (
        "spindles-array/src/core/space.rs",
        "looks at the space of real file systems now and then",
    ),
    (
        "spindles-array/src/members.rs",
        "waits for real devices to be closed",
    ),
    ("spindles-device/src/backends/nbd.rs", "waits for a server"),
    (
        "spindles-device/src/backends/opening.rs",
        "waits for busy devices",
    ),
    (
        "spindles-device/src/clock.rs",
        "is the real clock of real targets",
    ),
    (
        "spindles-device/src/notice.rs",
        "dates notices of real devices",
    ),
    (
        "spindles-device/src/paced.rs",
        "keeps real devices to the pace of a model",
    ),
    ("spindles-device/src/peer/", "waits for servers"),
    (
        "spindles-device/src/positioned.rs",
        "limits retries on real devices",
    ),
    ("spindles-device/src/queues/", "waits for real devices"),
    ("spindles-lab/src/machine/", "measures the machine"),
    ("spindles-lab/src/measure/tool.rs", "times programs"),
    ("spindles-lab/src/nodes/", "waits for nodes"),
    ("spindles-lab/src/run/calibrate.rs", "measures real members"),
    (
        "spindles-lab/src/run/mod.rs",
        "limits the time of an experiment",
    ),
    (
        "spindles-lab/src/run/trials.rs",
        "times trials on real members",
    ),
    (
        "spindles-lab/src/systems/claims.rs",
        "waits for real devices",
    ),
    ("spindles-lab/src/systems/export.rs", "waits for servers"),
    (
        "spindles-lab/src/systems/undo.rs",
        "limits the time of commands",
    ),
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    let files = repo.files.iter();
    let files = files.filter(|file| file.is_rust() && !file.is_test());
    for file in files.filter(|file| CRATES.contains(&file.crate_name())) {
        let path = file.path.strip_prefix("crates/").unwrap_or(&file.path);
        if MAY.iter().any(|(begin, _)| path.starts_with(begin)) {
            continue;
        }
        let code = strip(without_tests(file.text()), Keep::CodeOnly);
        for (line, number) in code.lines().zip(1..) {
            if let Some(word) = WORDS.iter().find(|word| line.contains(**word)) {
                let what = format!(
                    "{word}: take the time from the target's clock, or list the file in \
                     xtask/src/rules/clocks.rs"
                );
                problems.push(Problem::new(&file.path, number, what));
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
    fn it_finds_a_reader_of_the_real_clock() {
        let good = (
            "crates/spindles-lab/src/machine/clock.rs",
            "Instant::now();\n",
        );
        for path in [
            "crates/spindles-lab/src/measure/execute.rs",
            "crates/spindles-array/src/x.rs",
        ] {
            for word in WORDS {
                let bad = format!("fn f() {{ {word}(); }}\n");
                assert_finds(&RULE, &[good], &[(path, &bad)], word);
            }
        }
    }
}
