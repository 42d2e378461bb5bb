//! Running other programs: cargo and the programs that steps need.

use std::path::Path;
use std::process::{Command, Stdio};

/// The output of a program, and whether it succeeded.
pub(crate) struct Finished {
    /// Exit status 0.
    pub(crate) good: bool,
    /// Standard output and standard error, in their order as far as possible.
    pub(crate) output: String,
}

/// Runs a program. Its output is not captured.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} {}: {status}", arguments.join(" ")))
    }
}

/// Runs a program and collects its output.
pub(crate) fn capture(program: &str, arguments: &[&str]) -> Result<Finished, String> {
    // One file for both streams keeps their order, and no pipe can fill up.
    let path = std::env::temp_dir().join(format!("xtask-{}.log", std::process::id()));
    let log = std::fs::File::create(&path).map_err(|error| format!("{error}"))?;
    let log_too = log.try_clone().map_err(|error| format!("{error}"))?;
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        .status();
    let output = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()));
    let removed = std::fs::remove_file(&path);
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    removed.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Finished {
        good: status.success(),
        output: String::from_utf8_lossy(&output?).into_owned(),
    })
}

/// The cargo that runs us.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// Runs cargo. Its output is not captured.
pub(crate) fn cargo(arguments: &[&str]) -> Result<(), String> {
    run(&cargo_program(), arguments)
}

/// Returns true if a program is found in `PATH`.
pub(crate) fn exists(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder: std::path::PathBuf| {
        let path: &Path = &folder.join(program);
        path.is_file()
    })
}
