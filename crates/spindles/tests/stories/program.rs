//! Runs the program as an administrator does.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The result of a command.
pub(crate) struct Run {
    /// The exit status; `None` for a command that was killed.
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) error: String,
}

/// Longest time for a command of a story, on the slowest machine.
const TIME_MAX: Duration = Duration::from_mins(2);

impl Run {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or(Value::Null)
    }
}

/// Runs a command in a folder; kills it after `kill_after` if it has not ended.
pub(crate) fn run(folder: &Path, arguments: &[String], kill_after: Option<Duration>) -> Run {
    // Files, because pipes without a reader could fill up.
    let outputs = ["stdout", "stderr"].map(|name| folder.join(".outputs").join(name));
    let file = |path: &Path| Stdio::from(std::fs::File::create(path).expect("a file"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(arguments)
        .current_dir(folder)
        .env("SPINDLES_SCAN", ".")
        .stdin(Stdio::null())
        .stdout(file(&outputs[0]))
        .stderr(file(&outputs[1]))
        .spawn()
        .expect("the binary was built");
    let started = Instant::now();
    let ended = loop {
        if let Some(status) = child.try_wait().expect("it is ours") {
            break status;
        }
        let elapsed = started.elapsed();
        if kill_after.is_some_and(|after| elapsed >= after) {
            child.kill().expect("it is ours");
            break child.wait().expect("it is ours");
        }
        if elapsed > TIME_MAX {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let text = |path: &Path| {
        let bytes = std::fs::read(path).expect("it was written");
        String::from_utf8(bytes).expect("commands print UTF-8")
    };
    Run {
        status: ended.code(),
        out: text(&outputs[0]),
        error: text(&outputs[1]),
    }
}
