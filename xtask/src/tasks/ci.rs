//! `cargo xtask ci JOB`: one part of `cargo xtask test`, for a laptop or one CI job.

use super::task::Task;
use crate::steps::{self, Step};

pub(crate) static TASK: Task = Task {
    name: "ci",
    arguments: "STEP...",
    about: "some steps of `test` alone; without a step, lists them",
    run,
};

fn run(names: &[String]) -> Result<(), String> {
    if names.is_empty() {
        for step in steps::STEPS {
            println!("{:<14} {}", step.name, step.about);
        }
        return Ok(());
    }
    let chosen: Vec<&Step> = names
        .iter()
        .map(|name| {
            let mut steps = steps::STEPS.iter().copied();
            steps
                .find(|step| step.name == name)
                .ok_or_else(|| format!("there is no step {name}: `cargo xtask ci` lists them"))
        })
        .collect::<Result<_, _>>()?;
    steps::run(&chosen)
}
