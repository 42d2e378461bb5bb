//! Messages for an administrator with a wrong idea of an array: each explains the state, and the
//! next command.

use super::{MIB, POOL_SERVED, Pool, Served};
use spindles_admin::assemble::AssembleOptions;
use spindles_engine::Scrub;
use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// All output of a command.
fn all(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    format!("{out}{}", String::from_utf8_lossy(&output.stderr))
}

impl Pool {
    fn output(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        all(&self.spindles(&words))
    }

    /// Like `output`, from another folder.
    fn output_in(folder: &TempDir, line: &str) -> String {
        let mut command = crate::program_in(folder.path());
        let command = command.args(line.split(' '));
        all(&command.output().expect("the command runs"))
    }
}

impl Served<'_> {
    /// Reads its output up to a line with this text. Returns that line.
    fn says(&mut self, wanted: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(wanted) {
                return line;
            }
        }
    }
}

/// Waits until `status` contains this text.
fn until(pool: &Pool, wanted: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let status = pool.output("status pool");
        if status.contains(wanted) {
            return;
        }
        assert!(Instant::now() < end, "{status}");
        sleep(Duration::from_millis(50));
    }
}

/// A spare takes a member's place before anybody can remove the member, and commands do not refer
/// to each other in a circle.
#[test]
fn fail_names_the_spare_that_replaces_the_member() {
    let pool = Pool::new("raid5", "a,b,c", 16 * MIB);
    for (name, mib) in [("s", 20), ("r", 21)] {
        let file = std::fs::File::create(pool.path(name)).expect("a file");
        file.set_len(mib << 20).expect("its length");
    }
    let mut served = pool.serve(&[]);
    pool.output("spare add s --array pool");
    let output = pool.output("fail b pool");
    let spare = pool.path("s").display().to_string();
    let wanted = format!("{spare}, a spare, takes its place: `spindles status pool` shows");
    assert!(output.contains(&wanted), "{output}");
    until(&pool, &format!("member 1: {spare}, active"));
    let output = pool.output("remove b pool");
    let b = pool.path("b").display().to_string();
    let wanted = format!("let go of {b} already: {spare} is member 1 in its place");
    assert!(output.contains(&wanted), "{output}");
    let wanted = format!("`spindles wipe {b}` makes a plain device");
    assert!(output.contains(&wanted), "{output}");
    // A spare that is added while a member is out is filled, without a warning.
    let output = pool.output("fail c pool");
    assert!(output.contains("/c pool` takes it back"), "{output}");
    let output = pool.output("spare add r --array pool");
    let r = pool.path("r").display().to_string();
    let wanted = format!("array 'pool': spare {r} takes the place of member 2");
    assert!(
        output.contains(&wanted) && !output.contains("not safe"),
        "{output}"
    );
    until(&pool, "healthy");
    // The log has all of these commands, also the refused one.
    pool.output("fail nosuch pool");
    for wanted in [
        "array 'pool': command done: spindles spare add s --array pool",
        "array 'pool': command done: spindles fail b pool",
        "array 'pool': command done: spindles remove b pool",
        "command ended with exit status 1: spindles fail nosuch pool: /",
    ] {
        let line = served.says(wanted);
        assert!(
            !line.contains("status pool"),
            "what only looks is not noted: {line}"
        );
    }
    // No process has the array open: the spare is filled later.
    pool.output("stop pool");
    let output = pool.output("spare add c --array pool --force");
    assert!(output.contains("c is a spare of array 'pool'"), "{output}");
    let output = pool.output("fail a pool");
    let wanted =
        "c, a spare, takes its place as soon as the array is used: `spindles rebuild pool`";
    assert!(output.contains(wanted), "{output}");
    assert!(
        pool.output("rebuild pool")
            .contains("member 0 is active again")
    );
}

/// A refused growth leaves the array open as it was.
#[test]
fn a_refused_growth_keeps_the_array_open() {
    let pool = Pool::new("raid5", "a,b,c", 16 * MIB);
    let served = pool.serve(&[]);
    pool.output("fail b pool");
    let status = pool.output("status pool");
    let device = pool.path("b").display().to_string();
    // Only a server with the device open can name it.
    let wanted = format!("member 1: {device}, out: as a command asked");
    assert!(status.contains(&wanted), "{status}");
    for line in [
        "grow pool --chunk 128K",
        "grow pool --abort",
        "rename pool pool",
    ] {
        pool.output(line);
        let status = pool.output("status pool");
        assert!(status.contains(&wanted), "{line}: {status}");
    }
    let output = pool.output("fail a pool");
    assert!(
        output.contains("stays a member of array 'pool'"),
        "{output}"
    );
    assert!(output.contains("spindles replace"), "{output}");
    pool.output("stop pool");
    served.stop_has_come();
    let status = pool.output("status pool");
    let wanted = "member 1: out: as a command asked, in generation ";
    assert!(status.contains(wanted), "{status}");
}

/// For an unknown or ambiguous name, the error lists the served arrays and their devices.
#[test]
fn errors_for_unknown_names_list_the_served_arrays() {
    let (one, other) = (
        Pool::new("raid1", "a,b", 8 * MIB),
        Pool::new("raid1", "c,d", 8 * MIB),
    );
    let served = [one.serve(&[]), other.serve(&[])];
    let elsewhere = tempfile::tempdir().expect("a folder");
    let devices = [(&one, "a"), (&other, "d")].map(|(pool, name)| pool.path(name));
    // The list may include servers of other tests, even a server that is just ending.
    for (line, wanted) in [
        (
            "status pool",
            "give the UUID of the one you mean in place of the name\n  'pool' (",
        ),
        ("status no-such-array", "\nServed:\n  "),
        ("examine no-such-array", "\nServed:\n  "),
    ] {
        let output = Pool::output_in(&elsewhere, line);
        assert!(output.contains(wanted), "{line}: {output}");
        for device in &devices {
            assert!(
                output.contains(device.to_str().expect("UTF-8")),
                "{line}: {output}"
            );
        }
    }
    for pool in [&one, &other] {
        pool.output("stop pool");
    }
    for served in served {
        served.stop_has_come();
    }
}

/// The error for a wrong or useless command says what to type.
#[test]
fn errors_for_useless_commands_say_what_to_type() {
    let pool = Pool::new("raid5", "a,b,c", 8 * MIB);
    let file = File::create(pool.path("d")).expect("a file");
    file.set_len(16 << 20).expect("its length");
    for (line, wanted) in [
        ("serve pool --nbd /run/s", "give unix:/run/s for a socket"),
        ("serve pool --nbd 99999", "a PORT up to 65535"),
        ("serve pool --fuse /no/p", "there is no such folder"),
        (
            "journal remove d --array pool",
            "`spindles journal remove --array pool`",
        ),
        ("set pool", "array 'pool' is written only with --degraded"),
        ("stop pool", "no server serves pool"),
        ("fail b pool", "`spindles add b pool` takes it back"),
        (
            "grow pool --add d",
            "rebuild the array first; `spindles status pool` says how",
        ),
        ("remove b pool", "nothing was changed: array 'pool' is not"),
        ("remove b pool", "`spindles add b pool` takes it back"),
        ("add b pool", "member 1 is active again"),
        ("replace b pool --onto d", "member 1 is d now"),
        ("replace b pool --onto d", "d is member 1 of array 'pool'"),
    ] {
        let output = pool.output(line);
        assert!(output.contains(wanted), "{line}: {output}");
    }
}

/// A server that no command finds is ended by a signal, and the error names it.
#[test]
fn stop_says_how_to_end_a_server_without_an_array() {
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    let fresh = "raid1(mem:7M,mem:9M)";
    let served = pool.serve_what(&[fresh], "is served, and gone when this ends");
    let kill = |served: &Served<'_>| {
        let process = served.server.as_ref().expect("it runs");
        format!("`kill {}`", process.id())
    };
    let output = pool.output(&format!("stop {fresh}"));
    assert!(
        output.contains(fresh) && output.contains(&kill(&served)),
        "{output}"
    );
    assert!(
        pool.output("stop mem:7M")
            .contains("no server that this user may see serves mem:7M")
    );
    let output = pool.output(&format!("status {fresh}"));
    assert!(
        output.contains("describes an array that is to be made"),
        "{output}"
    );
    served.stop();
    for (what, arguments) in [
        ("a", ["a", "--as-is"].as_slice()),
        ("pool", &["pool", "--control", "%"]),
    ] {
        let socket = pool.path("control").display().to_string();
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|it| if *it == "%" { socket.as_str() } else { *it })
            .collect();
        let served = pool.serve_what(&arguments, "is served");
        let output = pool.output(&format!("stop {what}"));
        assert!(output.contains(&kill(&served)), "{output}");
        if what == "pool" {
            let listed = pool.output("status --scan .");
            let id = served.server.as_ref().expect("it runs").id();
            assert!(
                listed.contains(&format!("by this user, pid {id}")),
                "{listed}"
            );
        }
        served.stop();
    }
}

/// Root sees that an array is served, even though its server does not answer root.
#[test]
fn another_users_server_is_listed() {
    const NAME: &str = "another_users_server_is_listed";
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    let program = pool.path("spindles");
    std::fs::copy(env!("CARGO_BIN_EXE_spindles"), &program).expect("it is copied");
    let folder = pool.0.path();
    let owned = Command::new("chown")
        .args(["-R", "nobody:"])
        .arg(folder)
        .stderr(Stdio::null())
        .status();
    if !owned.is_ok_and(|owned| owned.success()) {
        return println!("SKIPPED {NAME}: only root can give files away");
    }
    let mut command = Command::new("setpriv");
    let words = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];
    command
        .args(words)
        .arg(&program)
        .current_dir(folder)
        .env("XDG_RUNTIME_DIR", folder);
    if Command::new("setpriv").arg("--version").output().is_err() {
        return println!("SKIPPED {NAME}: there is no setpriv");
    }
    let address = format!("unix:{}", pool.path("socket").display());
    let served = pool.serve_by(command, &address, &["pool"], POOL_SERVED);
    let id = served.server.as_ref().expect("it runs").id();
    let listed = pool.output("status --scan .");
    assert!(
        listed.contains(&format!("by user nobody, pid {id}")),
        "{listed}"
    );
    let output = pool.output("status pool");
    let wanted = format!("in use by pid {id} of user nobody (");
    assert!(output.contains(&wanted), "{output}");
    for line in ["stop pool", "scrub pool", "fail b pool"] {
        let output = pool.output(line);
        assert!(
            output.contains("as with `sudo -u nobody`"),
            "{line}: {output}"
        );
        assert!(!output.contains("`spindles stop"), "{line}: {output}");
    }
    served.stop();
}

/// `status` of a served array shows that a scrub was stopped. The log says where the next one
/// begins, and that it read only the rest.
#[test]
fn a_served_array_reports_where_a_scrub_was_stopped() {
    let pool = Pool::new("raid5", "a,b,c", 48 * MIB);
    std::fs::write(pool.path("in"), vec![7; 90 * MIB]).expect("room");
    pool.output("copy in array:pool");
    let paths = ["a", "b", "c"].map(|name| pool.path(name).display().to_string());
    let scrubbed = spindles_admin::scrub::scrub(
        &paths.each_ref().map(String::as_str),
        &AssembleOptions::default(),
        Scrub::default(),
        &mut |_| {},
        &mut |done, total| done * 2 < total,
    );
    assert!(!scrubbed.expect("it is there").through);
    let stopped = "; a scrub was stopped at ";
    let shown = |status: &str| {
        let (_, rest) = status.split_once(stopped)?;
        Some(rest.split_once(" %, and goes on there")?.0.to_owned())
    };
    let percent = shown(&pool.output("status pool")).expect("it was stopped");
    let mut served = pool.serve(&[]);
    assert_eq!(shown(&pool.output("status pool")).as_ref(), Some(&percent));
    let output = pool.output("scrub pool");
    assert!(
        output.contains(&format!("goes on at {percent} %, ")),
        "{output}"
    );
    let behind = format!("{percent} %, where an earlier one was stopped");
    served.says(&format!("a scrub begins at {behind}"));
    let rest = format!("it read only what follows {behind}");
    served.says(&format!("a scrub is done: nothing is wrong; {rest}"));
    assert_eq!(shown(&pool.output("status pool")), None);
    served.stop();
}

/// A command that reopens the array reports the members that are missing then, and so does the
/// server.
#[test]
fn reopening_an_array_reports_missing_members() {
    let pool = Pool::new("raid5", "a,b,c", 8 * MIB);
    let mut served = pool.serve(&[]);
    std::fs::rename(pool.path("b"), pool.path("away")).expect("it is moved");
    assert!(pool.output("status pool").contains("healthy"));
    let output = pool.output("set pool --degraded-writes ask");
    for wanted in ["member 1, ", "/b, is not there any more", "degraded"] {
        assert!(output.contains(wanted), "{output}");
    }
    served.says("/b, is not there any more");
    served.stop();
}
