//! Running other programs: cargo and the programs that steps need.

use std::cell::Cell;
use std::path::Path;
use std::process::{Command, Stdio};

/// The output of a program, and whether it succeeded.
pub(crate) struct Finished {
    /// Exit status 0.
    pub(crate) good: bool,
    /// Standard output and standard error, in their order as far as possible.
    pub(crate) output: String,
}

thread_local! {
    static IS_NICE: Cell<bool> = const { Cell::new(false) };
}

/// Gives processor time to all other work first: to programs that this thread starts from now on.
pub(crate) fn be_nice() {
    IS_NICE.set(true);
}

/// Returns a command without the variables that `cargo run` sets for xtask itself. Build scripts
/// such as that of `ring` depend on them, so cargo would build such crates again each time.
fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = if IS_NICE.get() {
        let mut nice = Command::new("nice");
        nice.arg(program);
        nice
    } else {
        Command::new(program)
    };
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a program. Its output is not captured.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let status = command(program, arguments)
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
    let (process, thread) = (std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(format!("xtask-{process}-{thread:?}.log"));
    let log = std::fs::File::create(&path).map_err(|error| format!("{error}"))?;
    let log_too = log.try_clone().map_err(|error| format!("{error}"))?;
    let status = command(program, arguments)
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

#[cfg(test)]
mod tests {
    use super::{be_nice, command};

    #[test]
    fn cargo_does_not_see_the_variables_of_this_crate() {
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let output = command("env", &[]).output().expect("env runs");
        let seen = String::from_utf8_lossy(&output.stdout);
        assert!(!seen.contains("CARGO_MANIFEST_DIR="), "{seen}");
    }

    #[test]
    fn programs_of_a_nice_thread_give_way() {
        let niceness = || {
            let output = command("nice", &[]).output().expect("nice runs");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let nice = std::thread::spawn(move || {
            be_nice();
            niceness()
        });
        assert_ne!(nice.join().expect("it does not panic"), niceness());
    }
}
