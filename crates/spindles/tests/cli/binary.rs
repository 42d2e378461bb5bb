//! Runs the binary as a user does.

use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How a run of the binary ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// The exit status.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) error: String,
}

impl Run {
    /// Panics unless the exit status is 0, or 3, which `status` has for a degraded array.
    pub(crate) fn ok(self) -> Self {
        assert!([0, 3].contains(&self.status), "{}{}", self.out, self.error);
        self
    }

    /// Parses standard output as the one JSON document that it must be.
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.out) {
            Ok(json) => json,
            Err(error) => panic!("{error} in:\n{}\n{}", self.out, self.error),
        }
    }

    /// Panics unless the command failed with this status and each of these texts in one error.
    pub(crate) fn fails(&self, status: i32, texts: &[&str]) {
        assert_eq!(self.status, status, "{}{}", self.out, self.error);
        assert!(self.error.starts_with("spindles: "), "{}", self.error);
        for text in texts {
            assert!(self.error.contains(text), "no {text:?} in: {}", self.error);
        }
    }
}

/// A process that is killed when dropped.
pub(crate) struct Background(pub(crate) Child);

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs `spindles` with these arguments and kills it after a while. Returns true if it had not
/// ended yet.
pub(crate) fn killed(arguments: &[String], after: Duration) -> bool {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(arguments)
        .env("SPINDLES_SCAN", ".")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built");
    std::thread::sleep(after);
    child.kill().expect("it is ours");
    child.wait().expect("it ended").code().is_none()
}

/// Runs `spindles` with these arguments and no standard input.
pub(crate) fn spindles(arguments: &[&str]) -> Run {
    spindles_in(".", &[], arguments)
}

/// Like `spindles`, in a folder and with these environment variables. Searches block devices only
/// if the variables say so: arrays on this machine's devices may have names that tests use.
pub(crate) fn spindles_in(folder: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(arguments)
        .current_dir(folder)
        .env("SPINDLES_SCAN", ".")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built");
    let text = |bytes| String::from_utf8(bytes).expect("commands print UTF-8");
    Run {
        status: output.status.code().expect("no signal ended it"),
        out: text(output.stdout),
        error: text(output.stderr),
    }
}
