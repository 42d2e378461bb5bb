//! `cargo xtask check`: the checks worth running before each commit, in under 90 seconds after a
//! recent build.

use super::task::Task;
use crate::steps::{self, PURE_TESTS, Step};

pub(crate) static TASK: Task = Task {
    name: "check",
    arguments: "",
    about: "fmt, tidy, clippy and the tests of crates without I/O: a minute, before each commit",
    run,
};

fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        return Err("it takes nothing".to_owned());
    }
    let is_quick = |step: &&&Step| matches!(step.name, "fmt" | "tidy" | "clippy");
    let mut chosen: Vec<&Step> = steps::STEPS.iter().filter(is_quick).copied().collect();
    chosen.push(&PURE_TESTS);
    steps::run(&chosen)
}
