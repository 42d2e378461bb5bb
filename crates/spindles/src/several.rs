//! A command on several arrays, one after the other. Each runs in a process of its own, as if
//! typed.

use crate::documents::Several;
use crate::failure::{Answer, STATUS_FAILED};
use crate::ui::Ui;
use serde_json::Value;
use spindles_layout::quoted;
use std::process::{Child, Command, Stdio};

/// This program, even after another version replaced its file.
const PROGRAM: &str = "/proc/self/exe";

/// Runs the command for each of these arrays. The exit status is the highest one.
pub(crate) fn do_each(command: &[String], names: &[String], ui: &Ui) -> anyhow::Result<()> {
    let mut arrays = Vec::new();
    let mut highest = 0;
    for name in names {
        let mut one = Command::new(PROGRAM);
        one.args(command);
        if ui.wants_json() {
            one.arg("--json").stdout(Stdio::piped());
        }
        let done = one.arg("--").arg(quoted(name).as_ref()).spawn();
        // A failure does not stop the others.
        let status = match done.and_then(Child::wait_with_output) {
            Ok(done) => {
                arrays.extend(serde_json::from_slice::<Value>(&done.stdout).ok());
                done.status.code().and_then(|code| u8::try_from(code).ok())
            }
            Err(error) => {
                ui.note(format!("array '{name}' is left out: {error}"));
                None
            }
        };
        highest = highest.max(status.unwrap_or(STATUS_FAILED));
    }
    ui.json(&Several { arrays });
    match highest {
        0 => Ok(()),
        status => Err(Answer(status).into()),
    }
}
