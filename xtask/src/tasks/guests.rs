//! Tests that run inside other kernels: a guest is booted, and runs a script of `tests/guest`. The
//! first guest is a user-mode kernel with the host's root, read-only. The second is the same kernel
//! with its own Debian, its systemd and our package. The third is an emulated machine with Debian's
//! kernel and disks. The scripts that build and boot kernels are not part of this repository.

use super::deb;
use crate::process::{self, Finished};
use std::path::{Path, PathBuf};

/// The folder with the scripts that build and boot guests.
const FOLDER: &str = "SPINDLES_GUESTS";
const FOLDER_DEFAULT: &str = "../shared/guest";
/// The scripts that run in guests.
const SCRIPTS: &str = "tests/guest";
/// The variable with the program to test, if it is not to be built.
const PROGRAM: &str = "SPINDLES";
/// A guest that hangs is killed after this time.
const SECONDS_MAX: &str = "3600";

/// Programs needed to boot the emulated machine, and programs copied into it. Its folder of scripts
/// lists the rest.
const TCG_HOST: &[&str] = &["qemu-system-x86_64", "cpio", "depmod", "mdadm", "strip"];
const TCG_GUEST: &[&str] = &[
    // Copied together with its shared libraries, if any.
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
const TCG_DISKS_MIB: &[u64] = &[400, 420, 460];

/// Programs needed to make a Debian with systemd, and its packages besides the minimal ones.
const SYSTEMD_HOST: &[&str] = &["mmdebstrap", "mke2fs"];
const SYSTEMD_RELEASE: &str = "bookworm";
const SYSTEMD_PACKAGES: &str =
    "systemd-sysv,udev,dbus,e2fsprogs,kmod,libnbd-bin,nbd-client,python3-minimal";
/// The files that the script needs there.
const SYSTEMD_FILES: &[&str] = &["systemd.sh", "words.sh", "attach_nbd.py"];
/// The size of its root disk.
const SYSTEMD_ROOT: &str = "2G";
/// The disks of the array: a third one comes and goes.
const SYSTEMD_DISKS_MIB: &[u64] = &[400, 420];

/// The result of a guest.
pub(super) enum Guest {
    /// The guest was booted, and the script has ended.
    Finished(Finished),
    /// No guest is available here, with the reason.
    Skipped(String),
}

/// Runs all of `tests/guest/uml.sh` in a user-mode kernel.
pub(super) fn uml() -> Result<Guest, String> {
    let boot = match user_mode()? {
        Ok(boot) => boot,
        Err(reason) => return Ok(Guest::Skipped(reason)),
    };
    let program = program()?;
    let tests = absolute(SCRIPTS)?;
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
    finished.map(Guest::Finished)
}

/// Runs all of `tests/guest/systemd.sh` in a Debian that a user-mode kernel boots, with our
/// package.
pub(super) fn systemd() -> Result<Guest, String> {
    let boot = match user_mode()? {
        Ok(boot) => boot,
        Err(reason) => return Ok(Guest::Skipped(reason)),
    };
    if let Some(reason) = absent(SYSTEMD_HOST) {
        return Ok(Guest::Skipped(reason));
    }
    let package = deb::build("debug", deb::Talk::Not)?;
    in_folder(|folder| {
        let root = debian(folder, &package)?;
        let disks = disks(folder, SYSTEMD_DISKS_MIB)?;
        // Later kernel arguments override earlier ones.
        let append =
            "APPEND=root=/dev/ubda rootfstype=ext4 rootflags=errors=continue rw init=/sbin/init";
        let mut arguments = vec![append, "timeout", SECONDS_MAX, "bash", text(&boot)?];
        // Its own systemd starts the script.
        arguments.extend(["/dev/null", text(&root)?]);
        for disk in &disks {
            arguments.push(text(disk)?);
        }
        process::capture("env", &arguments)
    })
}

/// Makes a disk with a Debian that has our package at hand and runs the script after it has booted.
fn debian(folder: &Path, package: &Path) -> Result<PathBuf, String> {
    let root = folder.join("root");
    let include = format!("--include={SYSTEMD_PACKAGES}");
    let made = process::capture(
        "mmdebstrap",
        &["--variant=minbase", &include, SYSTEMD_RELEASE, text(&root)?],
    )?;
    if !made.good {
        return Err(format!("mmdebstrap: {}", made.output));
    }
    let own = root.join("root/guest");
    let units = root.join("etc/systemd/system");
    let wanted = units.join("multi-user.target.wants");
    for made in [&own, &wanted] {
        std::fs::create_dir_all(made).map_err(|error| format!("{}: {error}", made.display()))?;
    }
    copy(package, &own.join("spindles.deb"))?;
    for name in SYSTEMD_FILES {
        copy(&Path::new(SCRIPTS).join(name), &own.join(name))?;
    }
    let unit = "guest.service";
    copy(
        &Path::new(SCRIPTS).join("systemd.service"),
        &units.join(unit),
    )?;
    std::os::unix::fs::symlink(Path::new("..").join(unit), wanted.join(unit))
        .map_err(|error| format!("{unit}: {error}"))?;
    let disk = folder.join("root.img");
    let arguments = [
        "-q",
        "-t",
        "ext4",
        "-d",
        text(&root)?,
        text(&disk)?,
        SYSTEMD_ROOT,
    ];
    process::run("mke2fs", &arguments)?;
    Ok(disk)
}

/// Returns the script that boots a user-mode kernel, and builds the kernel if there is none. The
/// inner error is the reason why there are no guests.
fn user_mode() -> Result<Result<PathBuf, String>, String> {
    let scripts = match scripts(&["uml/uml-run.sh", "uml/build-uml.sh"]) {
        Ok(scripts) => scripts,
        Err(reason) => return Ok(Err(reason)),
    };
    let kernel = kernel();
    if !kernel.is_file() {
        println!("fleet: building {}: some ten minutes", kernel.display());
        process::run("bash", &[text(&scripts[1])?])?;
    }
    Ok(Ok(scripts[0].clone()))
}

/// Calls `act` with a temporary folder.
fn in_folder(act: impl Fn(&Path) -> Result<Finished, String>) -> Result<Guest, String> {
    let folder = std::env::temp_dir().join(format!("xtask-guest-{}", std::process::id()));
    let failed = |error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let finished = act(&folder);
    let removed = std::fs::remove_dir_all(&folder);
    let finished = finished?;
    removed.map_err(failed)?;
    Ok(Guest::Finished(finished))
}

/// Lists the programs among these that are not installed; `None` if all are.
fn absent(names: &[&str]) -> Option<String> {
    let names = names.iter().copied();
    let absent: Vec<&str> = names.filter(|name| !process::exists(name)).collect();
    (!absent.is_empty()).then(|| format!("not installed: {}", absent.join(", ")))
}

/// Runs `tests/guest/tcg.sh` in an emulated machine, with copies of the program and its libraries.
pub(super) fn tcg() -> Result<Guest, String> {
    let boot = match scripts(&["tcg-guest.sh"]) {
        Ok(scripts) => scripts[0].clone(),
        Err(reason) => return Ok(Guest::Skipped(reason)),
    };
    if let Some(reason) = absent(&[TCG_HOST, TCG_GUEST].concat()) {
        return Ok(Guest::Skipped(reason));
    }
    let program = program()?;
    in_folder(|folder| {
        let shared = folder.join("share");
        share(&program, &shared)?;
        let disks = disks(folder, TCG_DISKS_MIB)?;
        let share = format!("SHARE={}", text(&shared)?);
        let extra = format!("EXTRA={}", TCG_GUEST.join(" "));
        let seconds = format!("TIMEOUT={SECONDS_MAX}");
        let script = absolute("tests/guest/tcg.sh")?;
        let mut arguments = vec![&*share, &*extra, &*seconds, "MEM=1536", "bash"];
        arguments.extend([text(&boot)?, text(&script)?]);
        for disk in &disks {
            arguments.push(text(disk)?);
        }
        process::capture("env", &arguments)
    })
}

/// Makes a folder for the emulated machine: the stripped program, its libraries, and the files that
/// scripts share.
fn share(program: &Path, folder: &Path) -> Result<(), String> {
    let libraries = folder.join("lib");
    std::fs::create_dir_all(&libraries)
        .map_err(|error| format!("{}: {error}", libraries.display()))?;
    let stripped = folder.join("spindles");
    process::run("strip", &["-o", text(&stripped)?, text(program)?])?;
    let needed = process::capture("ldd", &[text(program)?])?.output;
    let paths = needed.lines().filter_map(|line| line.split(" => ").nth(1));
    for path in paths
        .filter_map(|path| path.split(' ').next())
        .map(Path::new)
    {
        let name = path.file_name().ok_or_else(|| format!("ldd: {needed}"))?;
        copy(path, &libraries.join(name))?;
    }
    copy(
        &Path::new(SCRIPTS).join("words.sh"),
        &folder.join("words.sh"),
    )
}

/// Makes files that serve as the disks of a guest.
fn disks(folder: &Path, sizes_mib: &[u64]) -> Result<Vec<PathBuf>, String> {
    let disks = sizes_mib.iter().enumerate().map(|(number, mib)| {
        let path = folder.join(format!("disk{number}.img"));
        let made = std::fs::File::create(&path).and_then(|file| file.set_len(mib << 20));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    });
    disks.collect()
}

/// Returns required scripts of the folder, or the reason why there are no guests.
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

/// Returns the program's path in the guest. The guest's root is the host's, except `/tmp`, `/run`,
/// `/mnt` and `/dev`.
fn program() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return Ok(program.into());
    }
    process::cargo(&["build", "--package", "spindles"])?;
    absolute("target/debug/spindles")
}

/// Returns the path at which the build script puts the kernel.
fn kernel() -> PathBuf {
    let named = std::env::var_os("UML").map(PathBuf::from);
    named.unwrap_or_else(|| std::env::temp_dir().join("build/uml/linux-uml"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let copied = std::fs::copy(from, to);
    copied.map_err(|error| format!("{}: {error}", from.display()))?;
    Ok(())
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

/// Quotes a path for a shell.
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
