//! `cargo xtask test`: everything that must hold before a change lands.

use super::task::Task;
use crate::steps;

pub(crate) static TASK: Task = Task {
    name: "test",
    arguments: "",
    about: "formatting, lints, docs, tidy and all tests; what .ci/run calls",
    run: |arguments| {
        if let Some(unknown) = arguments.first() {
            return Err(format!("{unknown}: it takes no arguments"));
        }
        steps::run(steps::STEPS)
    },
};
