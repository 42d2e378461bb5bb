//! What runs inside kernels of its own: a guest is booted, and a script of `tests/guest` in it. One is a user-mode kernel with
//! the host's root, read-only, the other an emulated machine with Debian's kernel and disks. How guests are built and booted
//! is no part of this repository.

use crate::process::{self, Finished};
use std::path::{Path, PathBuf};

/// The folder with the scripts that build and boot guests.
const FOLDER: &str = "SPINDLES_GUESTS";
const FOLDER_DEFAULT: &str = "../shared/guest";
/// The program that is tried, where it is not to be built.
const PROGRAM: &str = "SPINDLES";
/// A guest that hangs is ended after that time.
const SECONDS_MAX: &str = "3600";

/// Programs that the emulated machine is booted with, and those that it gets. Its folder of scripts says what else it has.
const TCG_HOST: &[&str] = &["qemu-system-x86_64", "cpio", "depmod", "mdadm", "strip"];
const TCG_GUEST: &[&str] = &[
    // With its libraries, where it has some.
    "busybox",
    "nbd-client",
    "mkfs.ext4",
    "e2fsck",
    "mkfs.xfs",
    "xfs_repair",
    "mkfs.btrfs",
    "btrfs",
];
/// Its disks, of different sizes.
const TCG_DISKS_MIB: [u64; 3] = [400, 420, 460];

/// What came of a guest.
pub(super) enum Guest {
    /// It was booted, and the script has ended.
    Finished(Finished),
    /// There is none here, and why.
    Skipped(String),
}

/// Tries all of `tests/guest/uml.sh` in a user-mode kernel.
pub(super) fn uml() -> Result<Guest, String> {
    let found = scripts(&["uml/uml-run.sh", "uml/build-uml.sh"]);
    let scripts = match found {
        Ok(scripts) => scripts,
        Err(reason) => return Ok(Guest::Skipped(reason)),
    };
    let (boot, build) = (&scripts[0], &scripts[1]);
    let program = program()?;
    let kernel = kernel();
    if !kernel.is_file() {
        println!("fleet: building {}: some ten minutes", kernel.display());
        process::run("bash", &[text(build)?])?;
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
    let arguments = [SECONDS_MAX, "bash", text(boot)?, text(&script)?];
    let finished = process::capture("timeout", &arguments);
    std::fs::remove_file(&script).map_err(failed)?;
    finished.map(Guest::Finished)
}

/// Tries `tests/guest/tcg.sh` in an emulated machine, which has the program and its libraries as copies.
pub(super) fn tcg() -> Result<Guest, String> {
    let boot = match scripts(&["tcg-guest.sh"]) {
        Ok(scripts) => scripts[0].clone(),
        Err(reason) => return Ok(Guest::Skipped(reason)),
    };
    let needed = || TCG_HOST.iter().chain(TCG_GUEST);
    let absent: Vec<&str> = needed()
        .copied()
        .filter(|it| !process::exists(it))
        .collect();
    if !absent.is_empty() {
        let absent = absent.join(", ");
        return Ok(Guest::Skipped(format!("not installed: {absent}")));
    }
    let program = program()?;
    let folder = std::env::temp_dir().join(format!("xtask-guest-{}", std::process::id()));
    let finished = share(&program, &folder.join("share"))
        .and_then(|()| disks(&folder))
        .and_then(|disks| {
            let share = format!("SHARE={}", text(&folder.join("share"))?);
            let extra = format!("EXTRA={}", TCG_GUEST.join(" "));
            let seconds = format!("TIMEOUT={SECONDS_MAX}");
            let script = absolute("tests/guest/tcg.sh")?;
            let mut arguments = vec![&*share, &*extra, &*seconds, "MEM=1536", "bash"];
            arguments.extend([text(&boot)?, text(&script)?]);
            for disk in &disks {
                arguments.push(text(disk)?);
            }
            process::capture("env", &arguments)
        });
    let removed = std::fs::remove_dir_all(&folder);
    let finished = finished?;
    removed.map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(Guest::Finished(finished))
}

/// A folder that the emulated machine gets: the program without what is for debuggers, and its libraries.
fn share(program: &Path, folder: &Path) -> Result<(), String> {
    let libraries = folder.join("lib");
    std::fs::create_dir_all(&libraries)
        .map_err(|error| format!("{}: {error}", libraries.display()))?;
    let copy = folder.join("spindles");
    process::run("strip", &["-o", text(&copy)?, text(program)?])?;
    let needed = process::capture("ldd", &[text(program)?])?.output;
    let paths = needed.lines().filter_map(|line| line.split(" => ").nth(1));
    for path in paths
        .filter_map(|path| path.split(' ').next())
        .map(Path::new)
    {
        let name = path.file_name().ok_or_else(|| format!("ldd: {needed}"))?;
        std::fs::copy(path, libraries.join(name))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Files that are the disks of the emulated machine.
fn disks(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let disks = TCG_DISKS_MIB.iter().enumerate().map(|(number, mib)| {
        let path = folder.join(format!("disk{number}.img"));
        let made = std::fs::File::create(&path).and_then(|file| file.set_len(mib << 20));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    });
    disks.collect()
}

/// Scripts of the folder that there has to be, or why there are no guests.
fn scripts(names: &[&str]) -> Result<Vec<PathBuf>, String> {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| PathBuf::from(FOLDER_DEFAULT));
    let scripts = names.iter().map(|name| {
        let script = folder.join(name);
        script.canonicalize().map_err(|error| {
            let script = script.display();
            format!(
                "{script}: {error}; {FOLDER} names the folder with the scripts that boot guests"
            )
        })
    });
    scripts.collect()
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
    fn a_guest_that_is_not_here_says_which_script_it_lacks() {
        let reason = scripts(&["no/such-guest.sh"]).expect_err("there is none");
        assert!(
            reason.contains("no/such-guest.sh") && reason.contains(FOLDER),
            "{reason}"
        );
    }

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(quoted(Path::new("/a b")).as_deref(), Ok("'/a b'"));
        assert_eq!(quoted(Path::new("it's")).as_deref(), Ok(r"'it'\''s'"));
    }
}
