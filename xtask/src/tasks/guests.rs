//! What runs inside kernels of its own: a guest is booted with the host's root, read-only, and a script of
//! `tests/guest` in it. How guests are built and booted is no part of this repository.

use crate::process::{self, Finished};
use std::path::{Path, PathBuf};

/// The folder with the scripts that build and boot guests.
const FOLDER: &str = "SPINDLES_GUESTS";
const FOLDER_DEFAULT: &str = "../shared/guest";
/// The program that is tried, where it is not to be built.
const PROGRAM: &str = "SPINDLES";
/// A guest that hangs is ended after that time.
const SECONDS_MAX: &str = "3600";

/// Tries all of `tests/guest/uml.sh` in a user-mode kernel.
pub(super) fn uml() -> Result<Finished, String> {
    let scripts = folder()?.join("uml");
    let (boot, build) = (scripts.join("uml-run.sh"), scripts.join("build-uml.sh"));
    for script in [&boot, &build] {
        if !script.is_file() {
            let script = script.display();
            return Err(format!(
                "{script}: there is no such script, so no guest; {FOLDER} names another folder"
            ));
        }
    }
    let program = program()?;
    let kernel = kernel();
    if !kernel.is_file() {
        println!("fleet: building {}: some ten minutes", kernel.display());
        process::run("bash", &[text(&build)?])?;
    }
    let tests = absolute("tests/guest")?;
    let inside = format!(
        "export SPINDLES={}\nexec bash {}/uml.sh {}\n",
        quoted(&program)?,
        quoted(&tests)?,
        quoted(&tests)?
    );
    let script = std::env::temp_dir().join(format!("xtask-guest-{}.sh", std::process::id()));
    let failed = |error| format!("{}: {error}", script.display());
    std::fs::write(&script, inside).map_err(failed)?;
    let arguments = [SECONDS_MAX, "bash", text(&boot)?, text(&script)?];
    let finished = process::capture("timeout", &arguments);
    std::fs::remove_file(&script).map_err(failed)?;
    finished
}

fn folder() -> Result<PathBuf, String> {
    let named = std::env::var_os(FOLDER).map(PathBuf::from);
    let folder = named.unwrap_or_else(|| PathBuf::from(FOLDER_DEFAULT));
    folder.canonicalize().map_err(|error| {
        let folder = folder.display();
        format!(
            "{folder}: {error}: there are no guests here; {FOLDER} names the folder with the scripts that boot them"
        )
    })
}

/// As the guest finds it, whose root is the host's, but for `/tmp`, `/run`, `/mnt` and `/dev`.
fn program() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    process::cargo(&["build", "--package", "spindles"])?;
    absolute("target/debug/spindles")
}

/// Where the script that builds the kernel puts it.
fn kernel() -> PathBuf {
    let named = std::env::var_os("UML").map(PathBuf::from);
    named.unwrap_or_else(|| std::env::temp_dir().join("build/uml/linux-uml"))
}

fn absolute(path: &str) -> Result<PathBuf, String> {
    let path = Path::new(path);
    path.canonicalize()
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path) -> Result<&str, String> {
    path.to_str()
        .ok_or_else(|| format!("{}: no text", path.display()))
}

/// For a shell.
fn quoted(path: &Path) -> Result<String, String> {
    Ok(format!("'{}'", text(path)?.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted(Path::new("/a b")).as_deref(), Ok("'/a b'"));
        assert_eq!(quoted(Path::new("it's")).as_deref(), Ok(r"'it'\''s'"));
    }
}
