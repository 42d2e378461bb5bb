//! Commands on a served array: its server runs them, while fio writes to the array and verifies it.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use serde_json::{Value, json};
use spindles_array::Target;
use spindles_engine::Member;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder with files of different lengths, and a server of an array on some of them.
struct Place {
    folder: TempDir,
    server: Option<Child>,
}

/// The output of a command, and its exit status.
#[derive(Debug)]
struct Run {
    out: String,
    error: String,
    status: i32,
}

impl Place {
    fn new(files: &str, bytes: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (at, name) in (0..).zip(files.split(' ')) {
            let file = File::create(folder.path().join(name)).expect("a file");
            file.set_len(bytes + at * 200_000).expect("its length");
        }
        Self {
            folder,
            server: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = crate::program_in(self.folder.path());
        command.args(line.split(' '));
        command
    }

    fn run(&self, line: &str) -> Run {
        let Output {
            stdout,
            stderr,
            status,
        } = self.command(line).output().expect("the command runs");
        Run {
            out: String::from_utf8(stdout).expect("text"),
            error: String::from_utf8(stderr).expect("text"),
            status: status.code().expect("it ends by itself"),
        }
    }

    /// Runs a command that must end with this exit status. Returns its standard output.
    fn ends(&self, line: &str, status: i32) -> String {
        let run = self.run(line);
        assert_eq!(run.status, status, "{line}: {run:?}");
        run.out
    }

    fn does(&self, line: &str) -> String {
        self.ends(line, 0)
    }

    fn json(&self, line: &str) -> Value {
        let run = self.run(&format!("{line} --json"));
        serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{line}: {run:?}"))
    }

    fn serve(&mut self, more: &str) {
        self.serve_named("pool", more);
    }

    /// Starts a server. Returns the output with which it began.
    fn serve_named(&mut self, name: &str, more: &str) -> String {
        let line = format!("serve {name} --nbd unix:socket{more}");
        let mut command = self.command(&line);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = command.spawn().expect("the command runs");
        let mut lines = BufReader::new(server.stderr.take().expect("it is piped"));
        self.server = Some(server);
        let mut output = String::new();
        let name = name.split(' ').next().expect("a name");
        while !output.contains(&format!("array '{name}' is served")) {
            let read = lines.read_line(&mut output).expect("a line");
            assert!(read > 0, "{output}");
        }
        // Drains the rest of its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        output
    }

    fn control(&self) -> PathBuf {
        self.control_of("pool")
    }

    /// The control socket of the array with this name, after a rename.
    fn control_of(&self, name: &str) -> PathBuf {
        let status = self.json(&format!("status {name}"));
        let socket = format!("array-{}.sock", status["uuid"].as_str().expect("a UUID"));
        let own = std::env::var_os("XDG_RUNTIME_DIR").map(|it| PathBuf::from(it).join("spindles"));
        let folders = [PathBuf::from("/run/spindles")].into_iter().chain(own);
        let user = Command::new("id").arg("-u").output().expect("id");
        let user = String::from_utf8(user.stdout).expect("a number");
        let last = PathBuf::from(format!("/tmp/spindles-{}", user.trim()));
        let mut sockets = folders.chain([last]).map(|folder| folder.join(&socket));
        sockets.find(|path| path.exists()).expect("it listens")
    }

    /// The request for an operation on the array 'pool'.
    fn request(&self, operation: &Value) -> Value {
        let array = &self.json("status pool")["uuid"];
        json!({ "version": 2, "array": array, "operation": operation })
    }

    /// Checks that the NBD handshake gives libnbd the right size and description of the array.
    fn is_as_its_handshake_says(&self) {
        let uri = format!("nbd+unix:///pool?socket={}", self.path("socket").display());
        let output = match Command::new("nbdinfo").args(["--json", &uri]).output() {
            Ok(output) => String::from_utf8(output.stdout).expect("text"),
            Err(error) => return println!("SKIPPED the handshake: {error}"),
        };
        let handshake: Value = serde_json::from_str(&output).expect("JSON");
        let export = &handshake["exports"][0];
        let status = self.json("status lake");
        assert_eq!(export["export-size"], status["bytes"]);
        let members = status["members"].as_array().expect("a list").len();
        let level = status["level"].as_str().expect("a level");
        assert_eq!(export["description"], format!("{level} of {members}"));
    }

    /// Waits until the condition holds.
    fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let end = Instant::now() + Duration::from_mins(1);
        while !condition(self) {
            assert!(Instant::now() < end, "{what} takes too long");
            sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// fio, writing at random and reading back what it wrote.
struct Writer(Child);

impl Writer {
    fn begin(place: &Place, block_bytes: u32, runtime_s: u32) -> Option<Self> {
        let uri = format!("nbd+unix:///pool?socket={}", place.path("socket").display());
        let mut fio = Command::new("fio");
        let fio = fio.args([
            "--name=writer",
            "--ioengine=nbd",
            "--rw=randwrite",
            &format!("--bs={block_bytes}"),
            "--iodepth=8",
            "--size=16M",
            "--time_based",
            "--verify=crc32c",
            // Without a backlog limit, fio would spend the whole run writing.
            "--verify_backlog=64",
            "--verify_state_save=0",
            &format!("--runtime={runtime_s}"),
            &format!("--uri={uri}"),
        ]);
        let fio = fio.current_dir(place.folder.path());
        let fio = fio.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        match fio {
            Ok(fio) => Some(Self(fio)),
            Err(error) => {
                println!("SKIPPED commands during fio: {error}");
                None
            }
        }
    }

    fn end(self) {
        let output = self.0.wait_with_output().expect("it ends");
        let message = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "fio: {message}{error}");
    }
}

fn states(status: &Value) -> Vec<String> {
    let members = status["members"].as_array().expect("members");
    let state = |member: &Value| member["state"].as_str().expect("a state").to_owned();
    members.iter().map(state).collect()
}

#[test]
fn an_array_is_managed_during_writes() {
    for (block_size, block_bytes) in [("4K", 4096), ("512", 512)] {
        is_managed(block_size, block_bytes);
    }
}

fn is_managed(block_size: &str, block_bytes: u32) {
    let mut place = Place::new("a b c d e f g", 24 << 20);
    place.does(&format!(
        "create pool raid5(a,b,c) --chunk 16K --block-size {block_size}"
    ));
    place.serve("");
    let Some(writer) = Writer::begin(&place, block_bytes, 6) else {
        return;
    };
    // A member goes out and comes back, and gets only the blocks it missed.
    place.until("the first write", |place| {
        place.json("status pool")["regions"]["written"] != json!(0)
    });
    place.does("fail b pool");
    assert_eq!(
        states(&place.json("status pool")),
        ["active", "missing", "active"]
    );
    place.ends("status pool", 3);
    let message = place.run("status pool").error;
    assert!(
        message.contains("to make array 'pool' safe again"),
        "{message}"
    );
    assert!(place.run("fail a pool").error.contains("survive"));
    let added = place.does("add b pool");
    assert!(added.contains("member 1 is active again"), "{added}");
    place.ends("status pool", 0);
    // Pulled out and used otherwise: it is filled from scratch.
    place.does("fail c pool");
    assert!(place.run("wipe c --force").error.contains("in use"));
    place.does("remove c pool");
    place.does("wipe c --force");
    place.does("add c pool --force");
    assert_eq!(
        place.does("scrub pool").trim(),
        "array 'pool': nothing is wrong"
    );
    let replaced = place.does("replace a --onto d pool");
    assert!(replaced.contains("/d now"), "{replaced}");
    // A spare takes over automatically.
    place.does("spare add g --array pool");
    for line in ["wipe g --force", "spare remove g"] {
        let refused = place.run(line);
        let remedy = "`spindles spare remove g --array pool`";
        assert!(refused.error.contains(remedy), "{refused:?}");
        assert_eq!(refused.status, 1);
    }
    place.does("fail b pool");
    place.until("the spare", |place| {
        place.json("status pool")["state"] == json!("healthy")
    });
    // Commands that close, change and reopen the array.
    place.does("journal add e --array pool --force");
    place.does("set pool --degraded-writes allow");
    let before = place.json("status pool")["bytes"].as_u64();
    place.does("grow pool --add f");
    // New clients see the new size, even after a rename.
    place.does("rename pool lake");
    place.is_as_its_handshake_says();
    let status = place.json("status lake");
    assert_eq!(status["degraded_writes"], json!(true));
    assert!(status["journal"]["device"].as_str().is_some());
    assert!(status["bytes"].as_u64() > before, "{status}");
    assert_eq!(states(&status), ["active"; 4]);
    place.does("resync lake");
    writer.end();
    assert!(place.does("stop lake").contains("closed"));
    let status = place.json("status lake");
    assert_eq!(
        (&status["clean"], &status["state"]),
        (&json!(true), &json!("healthy"))
    );
    place.does("scrub lake");
    let ended = place.server.take().expect("it ran").wait();
    assert!(ended.expect("it ended").success());
}

/// The same for nested arrays: devices of inner arrays go and come, and an array replaces a member.
#[test]
fn nested_arrays_are_managed_during_writes() {
    let mut place = Place::new("a b c d e f g h", 24 << 20);
    place.does("create pool raid1(raid5(a,b,c),d) --block-size 512");
    place.serve("");
    let Some(writer) = Writer::begin(&place, 512, 6) else {
        return;
    };
    place.until("the first write", |place| {
        place.json("status pool")["regions"]["written"] != json!(0)
    });
    place.does("fail b pool");
    place.ends("status pool", 3);
    assert!(place.does("add b pool").contains("is active again"));
    let replaced = place.does("replace a pool --onto e");
    assert!(replaced.contains("/e now"), "{replaced}");
    // A spare replaces a device of the inner array.
    place.does("spare add f --array pool");
    place.does("fail c pool");
    place.until("the spare", |place| {
        place.json("status pool")["state"] == json!("healthy")
    });
    // A member that is an array has no device to fail; the other member has one.
    assert!(place.run("fail --member 0 pool").error.contains("pool.0"));
    place.does("fail --member 1 pool");
    let made = place.does("rebuild pool --onto raid0(g,h)");
    assert!(made.contains("'pool.1' (raid0) is recreated"), "{made}");
    assert!(made.contains("member 1 is active again"), "{made}");
    place.ends("status pool", 0);
    let found = place.does("scrub pool");
    let is_good = |line: &str| line.ends_with("nothing is wrong");
    assert!(found.lines().all(is_good), "{found}");
    place.does("resync pool");
    place.does("set pool --degraded-writes allow");
    place.does("rename pool lake");
    writer.end();
    assert!(place.does("stop lake").contains("closed"));
    let found = place.does("scrub lake");
    assert!(found.lines().all(is_good), "{found}");
    place.ends("status lake", 0);
}

/// A growth that has moved nothing is given up while the array is served: without its new device,
/// which blocks the growth, with it, if the command is fast enough, and with a new device that the
/// other members do not know.
#[test]
fn a_growth_of_a_served_array_can_be_aborted() {
    for (new_is_there, is_recorded) in [(false, true), (true, true), (true, false)] {
        let mut place = Place::new("a b c d", 24 << 20);
        place.does("create pool raid5(a,b,c) --chunk 16K");
        begin_growth(&place, is_recorded);
        if !new_is_there {
            std::fs::remove_file(place.path("d")).expect("it is there");
        }
        let served = place.serve_named("pool", "");
        let aborted = place.run("grow pool --abort");
        let is_late = ["can't be given up any more", "is not growing"];
        let is_late = is_late.iter().any(|late| aborted.error.contains(late));
        assert!(new_is_there || !is_late, "{aborted:?}");
        if !is_late {
            assert!(aborted.out.contains("is what it was before"), "{aborted:?}");
            let is_plain = aborted.out.contains("d is a plain device again");
            assert_eq!(is_plain, new_is_there, "{is_recorded} {aborted:?} {served}");
            let status = place.json("status pool");
            assert_eq!(states(&status), ["active"; 3]);
            assert_eq!(status["growing"], Value::Null);
        }
        place.does("stop pool");
        place.does("scrub pool");
    }
}

/// Begins a growth by the device `d`, and stops it before anything is moved. `is_recorded` says
/// whether the other members record that `d` has joined.
fn begin_growth(place: &Place, is_recorded: bool) {
    let path = |name: &str| place.path(name).to_str().expect("UTF-8").to_owned();
    let devices = ["a", "b", "c"].map(path);
    let devices = devices.each_ref().map(String::as_str);
    let options = spindles_device::OpenOptions::default();
    let begun = spindles_admin::grow::begin(&devices, &path("d"), &options);
    let mut begun = begun.expect("it begins");
    let has_joined = |target: &dyn Target| {
        let status = target.status().expect("an array");
        !matches!(status.members[3].state, Member::Missing { .. })
    };
    while !has_joined(&*begun) {
        assert!(begun.work(), "it has something to do");
    }
    let before = devices.map(|device| std::fs::read(device).expect("a file"));
    // Each device has got its next superblock, and the new device its first one.
    let is_begun = || {
        let labelled = std::fs::read(place.path("d")).expect("a file");
        let now = devices.map(|device| std::fs::read(device).expect("a file"));
        let is_labelled = [4096, 32768].map(|at| labelled[at..].starts_with(b"SPINDLES"));
        is_labelled.contains(&true) && now.iter().zip(&before).all(|(now, before)| now != before)
    };
    while !is_begun() {
        assert!(begun.work(), "it has something to do");
    }
    drop(begun);
    if !is_recorded {
        for (device, bytes) in devices.iter().zip(before) {
            std::fs::write(device, bytes).expect("room");
        }
    }
}

/// The server does not keep devices open that it left out.
#[test]
fn left_out_devices_are_not_kept_open() {
    let mut place = Place::new("a b c d", 16 << 20);
    place.does("create pool raid1(a,b,c)");
    // Outside of the folder that is searched.
    std::fs::create_dir(place.path("away")).expect("a folder");
    let away = place.path("away").join("c");
    std::fs::rename(place.path("c"), &away).expect("it is there");
    place.does("rebuild pool --onto d --degraded");
    std::fs::rename(&away, place.path("old")).expect("it is there");
    place.serve("");
    let message = place.run("status pool").error;
    assert!(message.contains("old: replaced"), "{message}");
    let free = File::open(place.path("old")).expect("it is there");
    free.try_lock().expect("it is unlocked");
    drop(free);
    place.does("wipe old --force");
    assert_eq!(place.run("status pool").error, "");
    place.does("stop pool");
}

/// A copy of a member does not come back in its place: the two are indistinguishable.
#[test]
fn a_copy_of_a_member_is_a_new_device() {
    let mut place = Place::new("a b c", 16 << 20);
    place.does("create pool raid1(a,b,c)");
    place.serve("");
    place.does("fail b pool");
    std::fs::copy(place.path("b"), place.path("copy")).expect("it is copied");
    let message = place.run("add copy pool").error;
    assert!(message.contains("--force"), "{message}");
    place.does("add copy pool --force");
    let status = place.json("status pool");
    assert_eq!(states(&status), ["active"; 3]);
    // Served or not, the array is found by its name.
    place.does("stop pool");
    place.ends("status pool", 0);
    place.does("scrub pool");
}

/// An export that returns with other contents is a new device.
#[test]
fn an_export_with_other_contents_rejoins_as_a_new_device() {
    let mut place = Place::new("a b", 16 << 20);
    let socket = place.path("export").display().to_string();
    let address = format!("nbd+unix:///?socket={socket}");
    let export = || {
        drop(std::fs::remove_file(&socket));
        let mut nbdkit = Command::new("nbdkit");
        let nbdkit = nbdkit.args(["--foreground", "--unix", &socket, "memory", "16M"]);
        nbdkit.spawn()
    };
    let listens = |_: &Place| UnixStream::connect(&socket).is_ok();
    let mut nbdkit = match export() {
        Ok(nbdkit) => nbdkit,
        Err(error) => return println!("SKIPPED an export with other contents: {error}"),
    };
    place.until("nbdkit", listens);
    place.does(&format!("create pool raid1(a,b,{address})"));
    place.serve(&format!(" --scan . --scan {address}"));
    nbdkit.kill().expect("it runs");
    nbdkit.wait().expect("it ends");
    place.until("the loss", |place| {
        // The server notices the loss on the next access.
        place.run("scrub pool");
        place.json("status pool")["state"] == json!("degraded")
    });
    let mut nbdkit = export().expect("it ran before");
    place.until("nbdkit", listens);
    let rebuilt = place.does(&format!("rebuild pool --onto {address}"));
    assert!(rebuilt.contains("member 2 is active again"), "{rebuilt}");
    place.does("stop pool");
    // The lock file that stood for the export is removed.
    nbdkit.kill().expect("it runs");
    nbdkit.wait().expect("it ends");
}

/// A command that stops waiting reports what becomes of its work.
#[test]
fn an_interrupted_command_reports_that_the_server_continues() {
    let mut place = Place::new("a b c d", 200 << 20);
    place.does("create pool raid5(a,b,c) --chunk 16K");
    std::fs::write(place.path("data"), vec![7; 200 << 20]).expect("a file");
    place.does("copy data array:pool");
    place.serve("");
    let mut command = place.command("grow pool --add d");
    let command = command.stderr(Stdio::piped());
    let command = command.spawn().expect("it runs");
    place.until("the beginning of the growth", |place| {
        let status = place.json("status pool");
        status["growing"] != Value::Null || states(&status).len() == 4
    });
    let id = command.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.expect("kill runs").success());
    let ended = command.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&ended.stderr);
    // The growth may have ended already.
    let is_reported = ended.status.code() == Some(1) && message.contains("goes on in the server");
    assert!(is_reported || ended.status.success(), "{message}");
    place.until("the end of the growth", |place| {
        place.json("status pool")["growing"] == Value::Null
    });
    assert_eq!(states(&place.json("status pool")), ["active"; 4]);
    place.does("stop pool");
}

/// Commands do not wait for devices of another user's server, and name that user.
#[test]
fn another_users_server_is_named_immediately() {
    const NAME: &str = "another_users_server_is_named_immediately";
    let mut place = Place::new("a b", 8 << 20);
    place.does("create pool raid1(a,b)");
    place.serve("");
    let program = place.path("program");
    std::fs::copy(env!("CARGO_BIN_EXE_spindles"), &program).expect("it is copied");
    let open = |path: PathBuf, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("it is ours");
    };
    open(place.path("."), 0o755);
    open(place.path("a"), 0o666);
    open(place.path("b"), 0o666);
    let begun = Instant::now();
    let mut other = Command::new("setpriv");
    let other = other.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
    let other = other.arg(&program).args(["scrub", "pool"]);
    let other = other.current_dir(place.folder.path()).output();
    let message = match other {
        Ok(other) => String::from_utf8_lossy(&other.stderr).into_owned(),
        Err(error) => return println!("SKIPPED: {NAME}: setpriv: {error}"),
    };
    if message.starts_with("setpriv") {
        return println!("SKIPPED: {NAME}: {message}");
    }
    assert!(message.contains("is in use by pid "), "{message}");
    assert!(
        message.contains(" of root (spindles serve pool"),
        "{message}"
    );
    assert!(begun.elapsed() < Duration::from_secs(4), "it waited");
    for array in [["a", "b"].as_slice(), &["pool"]] {
        let mut other = Command::new("setpriv");
        let other = other.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
        let other = other.arg(&program).arg("stop").args(array);
        let other = other.current_dir(place.folder.path()).output();
        let message = String::from_utf8(other.expect("it runs").stderr).expect("text");
        let server = place.server.as_ref().expect("it runs").id();
        let wanted = format!("is served by root (pid {server}), ");
        assert!(message.contains(&wanted), "{array:?}: {message}");
        assert!(message.contains("as with `sudo -u root`"), "{message}");
    }
    place.does("stop pool");
}

/// A word names the file in the current folder; only without such a file does it name a device of
/// the array.
#[test]
fn a_device_is_never_confused_with_another_one() {
    let mut place = Place::new("a b c", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    let elsewhere = tempfile::tempdir().expect("a folder");
    // Other tests serve arrays of the same name.
    let uuid = place.json("status pool")["uuid"].clone();
    let uuid = uuid.as_str().expect("a UUID").to_owned();
    let fails = |device: &str| {
        let mut command = place.command(&format!("fail {device} {uuid}"));
        let run = command.current_dir(elsewhere.path()).output();
        let run = run.expect("the command runs");
        (
            run.status.code(),
            String::from_utf8_lossy(&run.stderr).into_owned(),
        )
    };
    let other = elsewhere.path().join("a");
    std::fs::write(&other, "of another user").expect("room");
    let (code, message) = fails("a");
    assert_eq!(code, Some(1), "{message}");
    let named = format!("{} is no member", other.display());
    assert!(message.contains(&named), "{message}");
    assert_eq!(fails("./b").0, Some(1));
    assert_eq!(states(&place.json("status pool")), ["active"; 3]);
    let (code, message) = fails("b");
    assert_eq!(code, Some(0), "{message}");
    let status = place.json("status pool");
    assert_eq!(states(&status), ["active", "missing", "active"], "{status}");
    // A removed device no longer belongs to the server, but the array still knows it.
    for served_again in [false, true] {
        if served_again {
            place.does("stop pool");
            place.serve("");
        }
        for _ in 0..2 {
            let removed = place.does("remove b pool");
            assert!(removed.contains("has let go of member 1"), "{removed}");
        }
        let shown = place.run("status pool").out;
        assert_eq!(
            shown.contains("  member 1: removed; it was out: as a command asked"),
            !served_again,
            "{shown}"
        );
    }
    assert_eq!(place.run("remove a pool").status, 1);
    place.does("add b pool");
    assert_eq!(states(&place.json("status pool")), ["active"; 3]);
}

/// Refusals have the same text and exit status whether the array is served or not.
#[test]
fn refusals_are_the_same_for_served_and_unserved_arrays() {
    let lines = [
        "fail absent pool",
        "fail d pool",
        "remove a pool",
        "replace a --onto b pool",
        "rebuild pool --onto d",
        "rebuild pool",
        "rebuild pool --onto raid0(d,d)",
        "rebuild pool --onto raid0(d,absent)",
        "grow pool",
        "grow pool --abort",
        "fail pool a",
        "fail --member 9 pool",
        "journal remove --array pool",
        "rename pool a/b",
        "set pool --degraded-writes perhaps",
        "spare add a --array pool",
        "scrub pool --no-such",
        // Extra arguments after the array are not ignored.
        "scrub pool d",
        "rebuild d pool",
        "scrub pool other",
        "rename pool other tank",
        "fail --member 1 pool other",
    ];
    let mut place = Place::new("a b c d e f", 8 << 20);
    place.does("create pool raid1(a,b,c)");
    place.does("create other raid1(e,f)");
    let refusals = |place: &Place| -> Vec<(i32, String)> {
        let refusals = lines.iter().map(|line| {
            let run = place.run(line);
            // The server uses absolute device names.
            let folder = place.folder.path().canonicalize().expect("it is there");
            let error = run.error.replace(&format!("{}/", folder.display()), "");
            let error = error.replace(" in this folder", "");
            (run.status, error)
        });
        refusals.collect()
    };
    let alone = refusals(&place);
    place.serve("");
    for (line, (alone, served)) in lines.iter().zip(alone.iter().zip(refusals(&place))) {
        assert_eq!(*alone, served, "{line}");
    }
    assert!(place.run("stop pool").status == 0);
    assert!(place.run("stop pool").error.contains("no server serves"));
}

/// A command waits while the server runs its maximum of commands.
#[test]
fn many_concurrent_commands_all_complete() {
    let mut place = Place::new("a b", 8 << 20);
    place.does("create pool raid1(a,b)");
    place.serve("");
    let mut command = place.command("status pool");
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let commands = [(); 64].map(|()| command.spawn().expect("it runs"));
    for command in commands {
        let ended = command.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{ended:?}");
    }
    // Both `status` and the list of all arrays show the addresses, even if the devices are not
    // found.
    let status = place.json("status pool");
    let address = &status["served"]["addresses"][0];
    let text = address.as_str().expect("an address");
    assert!(
        text.starts_with("nbd+unix:///pool?socket=") && text.ends_with("/socket"),
        "{text}"
    );
    let shown = format!("  clients find it at {text}\n");
    assert!(place.does("status pool").contains(&shown));
    let list = place.json("status --scan /proc/self/exe");
    let listed = list["arrays"].as_array().expect("a list").iter();
    let listed = { listed }.find(|it| it["uuid"] == status["uuid"]);
    let listed = listed.expect("it is listed");
    assert_eq!(listed["state"], "healthy");
    assert_eq!(listed["served"]["addresses"][0], *address);
    place.does("stop pool");
}

/// A member that `fail` put out stays out however the array is opened, until `add` takes it back.
#[test]
fn a_member_failed_by_command_stays_out_until_it_is_added() {
    let mut place = Place::new("a b c in", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    let is_out = |place: &Place| {
        let status = place.json("status pool");
        assert_eq!(states(&status), ["active", "missing", "active"], "{status}");
        assert_eq!(status["members"][1]["held_out"], json!(true));
    };
    for served in [false, true] {
        let bytes: Vec<u8> = (0..2_000_000_u32)
            .map(|at| at.to_le_bytes()[usize::from(served)])
            .collect();
        std::fs::write(place.path("in"), &bytes).expect("room");
        if served {
            place.serve("");
        }
        let failed = place.run("fail b pool");
        let device = if served {
            "/b pool`"
        } else {
            "spindles add b pool`"
        };
        assert!(failed.error.contains(device), "{failed:?}");
        if served {
            place.does("stop pool");
        }
        is_out(&place);
        // Each opens the array for writing, with b listed first.
        place.does("copy in array:pool");
        place.does("resync pool");
        assert_eq!(place.run("rebuild pool").status, 1);
        place.serve("");
        is_out(&place);
        if !served {
            place.does("stop pool");
        }
        let added = place.does("add b pool");
        assert!(added.contains("active again"), "{added}");
        assert_eq!(states(&place.json("status pool")), ["active"; 3]);
        if served {
            place.does("stop pool");
        }
        // b has caught up, and holds everything.
        place.does("fail a pool");
        place.does("copy array:pool out --force");
        let read = std::fs::read(place.path("out")).expect("it is there");
        assert!(read.starts_with(&bytes));
        place.does("add a pool");
    }
}

/// A device that the server knows from before can become the journal device: a replaced member, or
/// a former journal device.
#[test]
fn a_known_device_becomes_the_journal_repeatedly() {
    let mut place = Place::new("a b c d", 40 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    place.does("replace a pool --onto d");
    for _ in 0..2 {
        place.does("journal add a --array pool --force");
        place.does("journal remove --array pool");
    }
    place.does("stop pool");
}

/// A spare that another program has locked can't replace a member: `fail` says at once that none
/// does.
#[test]
fn fail_reports_a_busy_spare_immediately() {
    let mut place = Place::new("a b c s", 8 << 20);
    place.does("create pool raid5(a,b,c) --spare s");
    place.serve("");
    let busy = File::open(place.path("s")).expect("it is there");
    busy.lock().expect("it is unlocked");
    let message = place.run("fail a pool").error;
    assert!(!message.contains("takes its place"), "{message}");
    assert!(message.contains("spindles add"), "{message}");
    place.does("stop pool");
}

/// A wiped device counts as new, even if the server knew it as a spare, or as a member that is out.
#[test]
fn a_wiped_device_counts_as_new() {
    let mut place = Place::new("a b c s", 8 << 20);
    place.does("create pool raid5(a,b,c) --spare s");
    place.serve("");
    let message = place.run("wipe a").out;
    assert!(message.contains("as by `spindles stop pool`"), "{message}");
    place.does("spare remove s --array pool");
    place.does("fail a pool");
    let message = place.run("wipe a").out;
    assert!(
        message.contains("as by `spindles remove a pool`"),
        "{message}"
    );
    place.does("add s pool");
    place.does("fail b pool");
    let bytes = std::fs::metadata(place.path("b"))
        .expect("it is there")
        .len();
    let file = File::create(place.path("b")).expect("it is there");
    file.set_len(bytes).expect("its length");
    place.does("spare add b --array pool");
    place.until("it is filled", |place| {
        states(&place.json("status pool")) == ["active"; 3]
    });
    place.does("stop pool");
}

/// The effect of an acknowledged command survives a kill of the server right after it.
#[test]
fn a_member_failed_by_command_is_out_after_a_kill() {
    for _ in 0..3 {
        let mut place = Place::new("a b c in", 8 << 20);
        std::fs::write(place.path("in"), vec![5; 8 << 20]).expect("room");
        place.does("create pool raid5(a,b,c)");
        place.serve("");
        let uri = format!("nbd+unix:///pool?socket={}", place.path("socket").display());
        let copied = Command::new("nbdcopy")
            .args(["--flush", "in", &uri])
            .current_dir(place.folder.path())
            .status();
        match copied {
            Ok(status) => assert!(status.success(), "nbdcopy: {status}"),
            Err(error) => println!(
                "SKIPPED: a_member_failed_by_command_is_out_after_a_kill: earlier writes: \
                 nbdcopy: {error}"
            ),
        }
        let mut server = place.server.take().expect("it runs");
        let stream = UnixStream::connect(place.control()).expect("it listens");
        let fail = place.request(&json!({ "name": "fail", "device": place.path("a") }));
        writeln!(&stream, "{fail}").expect("it hears");
        let mut answers = BufReader::new(stream).lines().map_while(Result::ok);
        assert!(answers.any(|line| line.starts_with("{\"status\":0,")));
        server.kill().expect("it is killed");
        server.wait().expect("it ends");
        assert_eq!(
            states(&place.json("status pool")),
            ["missing", "active", "active"]
        );
    }
}

/// A command never runs on another array than the one it names, whatever the arrays were called
/// before.
#[test]
fn arrays_that_swap_names_are_not_confused() {
    let places = ["crimson", "azure"].map(|name| {
        let mut place = Place::new("a b", 8 << 20);
        place.does("create pool raid1(a,b)");
        place.serve("");
        place.does(&format!("rename pool {name}"));
        place
    });
    let [one, two] = &places;
    // In a folder without the devices.
    let elsewhere = Place::new("x", 8 << 20);
    let uuid = |name: &str| elsewhere.json(&format!("status {name}"))["uuid"].clone();
    let uuids = [uuid("crimson"), uuid("azure")];
    assert_ne!(uuids[0], uuids[1]);
    one.does("rename crimson viridian");
    two.does("rename azure crimson");
    assert_eq!([uuid("viridian"), uuid("crimson")], uuids);
    let renamed = elsewhere.run("status azure");
    let is_reported = renamed.error.contains("'azure' is called 'crimson' now");
    assert!(renamed.status == 1 && is_reported, "{renamed:?}");
    // A command sent to the wrong server is refused.
    let socket = one.control_of("viridian");
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let stop = json!({ "version": 2, "array": uuids[1], "operation": { "name": "stop" } });
    writeln!(stream, "{stop}").expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(
        answer.contains("this server has array 'viridian'"),
        "{answer}"
    );
    assert_eq!([uuid("viridian"), uuid("crimson")], uuids);
    // A name that two arrays share selects neither.
    one.does("rename viridian crimson");
    let several = elsewhere.run("stop crimson");
    assert!(
        several.status == 1 && several.error.contains("several arrays"),
        "{several:?}"
    );
    for place in &places {
        place.does("stop a,b");
    }
}

#[test]
fn the_control_socket_is_private_and_answers_each_request() {
    let mut place = Place::new("a b", 64 << 20);
    place.does("create pool raid1(a,b)");
    place.serve(" --rebuild-rate 1M");
    let path = place.control();
    let mode = path.metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let say = |says: &[u8]| -> Vec<Value> {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        // The server neither reads an overlong line to its end, nor waits for the client to send
        // it.
        drop(stream.write_all(says));
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let lines = lines.map(|line| serde_json::from_str(&line));
        lines.map(|line| line.expect("JSON")).collect()
    };
    let talk = |says: &str| say(says.as_bytes());
    let status = |answers: &[Value]| answers.last().expect("an answer")["status"].as_u64();
    let ask = |operation: Value| talk(&format!("{}\n", place.request(&operation)));
    let note = |answers: &[Value]| answers[0]["note"].as_str().expect("a note").to_owned();
    assert_eq!(status(&talk("what?\n")), Some(2));
    assert_eq!(status(&talk("{\"operation\":{}}\n")), Some(2));
    assert_eq!(status(&say(b"{\"arguments\":[\"\xff\"]}\n")), Some(2));
    // Clients before version 2 sent command lines.
    let old = talk("{\"arguments\":[\"status\",\"pool\"],\"folder\":\"/\"}\n");
    assert!(note(&old).contains("no command lines"), "{old:?}");
    assert_eq!(status(&old), Some(2));
    let mut newer = place.request(&json!({ "name": "status" }));
    newer["version"] = json!(7);
    let newer = talk(&format!("{newer}\n"));
    assert!(
        note(&newer).contains("version 2 of the protocol, and not 7"),
        "{newer:?}"
    );
    assert_eq!(status(&newer), Some(2));
    let long = say(&vec![b' '; (64 << 10) + 100]);
    assert!(
        long[0]["note"]
            .as_str()
            .is_some_and(|note| note.contains("longer than")),
        "{long:?}"
    );
    assert_eq!(status(&long), Some(2));
    // A client that waited in vain is notified, even if it was refused before it sent anything.
    let quiet = [(); 32].map(|()| UnixStream::connect(&path).expect("it listens"));
    let refused = talk("{}\n");
    assert!(
        refused[0]["note"]
            .as_str()
            .is_some_and(|note| note.contains("try again")),
        "{refused:?}"
    );
    assert_eq!(status(&refused), Some(1));
    let refused = place.run("status pool");
    assert!(
        refused.error.contains("does 32 commands at once"),
        "{refused:?}"
    );
    assert_eq!(refused.status, 1);
    drop(quiet);
    place.until("room for a command", |place| {
        place.run("status pool").status == 0
    });
    for (operation, unknown) in [
        (json!({ "name": "shrink" }), "`shrink`"),
        (json!({ "name": "scrub", "dry": true }), "`dry`"),
        (json!({ "name": "fail", "device": 1 }), "integer `1`"),
        (json!({ "name": "add", "device": "b" }), "absolute names"),
        (json!({}), "`name`"),
    ] {
        let refused = ask(operation);
        assert!(note(&refused).contains(unknown), "{refused:?}");
        assert_eq!(status(&refused), Some(2));
    }
    let answers = ask(json!({ "name": "status" }));
    let document = &answers.last().expect("an answer")["document"];
    assert_eq!(document["name"], json!("pool"));
    assert_eq!(status(&answers), Some(0));
    // Any input ends a scrub. The server does not buffer a line without an end.
    let mut stream = UnixStream::connect(&path).expect("it listens");
    let limit = Some(Duration::from_mins(1));
    stream.set_read_timeout(limit).expect("a limit");
    let scrub = place.request(&json!({ "name": "scrub" }));
    writeln!(stream, "{scrub}").expect("it hears");
    stream.write_all(&[b'x'; 1000]).expect("it hears");
    let answers = BufReader::new(stream).lines().map_while(Result::ok);
    let answers: Vec<String> = answers.collect();
    let last = answers.last().expect("an answer");
    assert!(last.starts_with("{\"status\":1,"), "{answers:?}");
    // A hang-up ends a scrub, and nothing else.
    let mut stream = UnixStream::connect(&path).expect("it listens");
    let scrub = place.request(&json!({ "name": "scrub" }));
    writeln!(stream, "{scrub}").expect("it hears");
    drop(stream);
    place.until("the end of the scrub", |place| {
        place.run("scrub pool").status == 0
    });
    place.does("stop pool");
    assert!(!path.exists());
}

/// Members come and go in every way, and reports match what the server has open.
#[test]
fn devices_added_to_a_served_array_are_known() {
    let mut place = Place::new("a b c d e f", 16 << 20);
    place.does("create pool raid1(a,b,c) --spare f");
    place.serve("");
    // Adding a spare again does not list it twice.
    place.does("add f pool");
    place.does("spare add f --array pool");
    place.does("set pool --degraded-writes allow");
    place.does("spare remove f --array pool");
    // A spare that replaces a member is no longer a spare.
    place.does("spare add d --array pool");
    place.does("replace a --onto d pool");
    place.ends("status pool", 0);
    // The server has released the replaced device.
    let replaced = File::open(place.path("a")).expect("it is there");
    replaced.try_lock().expect("it is unlocked");
    drop(replaced);
    // The server no longer opens a removed spare.
    place.does("spare add e --array pool");
    place.does("spare remove e --array pool");
    place.does("set pool --degraded-writes allow");
    // A member added later can go and come back like any other.
    place.does("fail b pool");
    place.does("add e pool --force");
    place.does("fail e pool");
    assert!(
        place.json("status pool")["refused"]
            .to_string()
            .contains("/e:")
    );
    place.does("add e pool");
    // The device of a replaced member is free.
    place.does("spare add f --array pool");
    place.does("fail c pool");
    place.until("the spare", |place| place.run("status pool").status == 0);
    assert!(place.does("add c pool --force").contains("spare"));
    // A member keeps its place when its file is renamed.
    std::fs::rename(place.path("d"), place.path("away")).expect("it is there");
    let status = place.json("status pool");
    assert_eq!(states(&status), ["active"; 3], "{status}");
    std::fs::rename(place.path("away"), place.path("d")).expect("it is there");
    // From any folder; by the UUID, as other tests serve arrays of the same name.
    let uuid = status["uuid"].as_str().expect("a UUID");
    let mut elsewhere = place.command(&format!("status {uuid}"));
    let status = elsewhere.current_dir("/").output().expect("it runs");
    assert!(String::from_utf8_lossy(&status.stdout).contains(uuid));
    place.does("stop pool");
    place.does("scrub pool");
}

/// From every folder, devices have the same names in reports, and commands act on the same devices.
#[test]
fn devices_are_the_same_from_every_folder() {
    let mut place = Place::new("a b c d e", 16 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    // A file with the name of a device.
    let elsewhere = Place::new("a", 16 << 20);
    let uuid = place.json("status pool")["uuid"].clone();
    let uuid = uuid.as_str().expect("a UUID");
    place.does("spare add d --array pool");
    place.does("fail a pool");
    place.until("the spare", |place| place.run("status pool").status == 0);
    // Add the failed device by another path.
    std::fs::create_dir(place.path("sub")).expect("a folder");
    place.does("add sub/../a pool --force");
    place.does("journal add e --array pool --force");
    // The server reopens the array.
    elsewhere.does(&format!("set {uuid} --degraded-writes allow"));
    let whole = |name: &str| json!(place.path(name));
    for place in [&place, &elsewhere] {
        let status = place.json(&format!("status {uuid}"));
        let members = status["members"].as_array().expect("members").iter();
        let devices: Vec<_> = members.map(|it| &it["device"]).collect();
        assert_eq!(devices, [&whole("d"), &whole("b"), &whole("c")]);
        assert_eq!(status["journal"]["device"], whole("e"));
        assert_eq!(status["spares"][0]["device"], whole("a"), "{status}");
    }
    place.does("stop pool");
}

/// Commands whose server stops while they wait report it, and the work resumes when the array is
/// used again.
#[test]
fn stopping_a_server_ends_its_waiting_commands() {
    for (line, begun) in [
        ("grow pool --add d", "the growth was stopped"),
        ("add d pool", "not filled yet"),
        ("replace a --onto d pool", "stopped"),
        ("scrub pool", "stopped"),
    ] {
        let mut place = Place::new("a b c d", 200 << 20);
        place.does("create pool raid5(a,b,c) --chunk 16K");
        std::fs::write(place.path("data"), vec![7; 100 << 20]).expect("a file");
        place.does("copy data array:pool");
        if line.starts_with("add") {
            place.does("fail a pool");
        }
        place.serve(" --rebuild-rate 1M");
        let mut command = place.command(line);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let command = command.spawn().expect("it runs");
        // By then some commands are running and some have ended, depending on the machine.
        sleep(Duration::from_millis(300));
        place.does("stop pool");
        let ended = command.wait_with_output().expect("it ends");
        let message = String::from_utf8_lossy(&ended.stderr);
        // The command may have ended already, or have come while the array was being closed.
        let is_reported = [begun, "it is being closed"]
            .iter()
            .any(|text| message.contains(text));
        let is_reported = ended.status.code() == Some(1) && is_reported;
        assert!(is_reported || ended.status.success(), "{line}: {message}");
        place.does("resync pool");
        place.does("scrub pool");
    }
}

/// A stopped server process is named, with its PID, and no command waits for it.
#[test]
fn an_unresponsive_server_is_named() {
    let mut place = Place::new("a b c d", 16 << 20);
    let others = Place::new("a b", 16 << 20);
    place.does("create mute raid1(a,b)");
    place.does("create tarn raid1(c,d)");
    others.does("create pond raid1(a,b)");
    // Other tests serve arrays called pool or lake.
    place.serve_named("mute", "");
    let pid = place.server.as_ref().expect("it runs").id();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &pid.to_string()]).status();
        assert!(sent.expect("kill").success());
    };
    signal("-STOP");
    let list = place.run("status --scan .");
    let of = |name: &str| list.out.lines().find(|line| line.starts_with(name));
    let listed = of("mute").unwrap_or_else(|| panic!("{list:?}"));
    let tarn = of("tarn").unwrap_or_else(|| panic!("{list:?}"));
    assert!(
        listed.ends_with(&format!("does not answer, pid {pid}")),
        "{list:?}"
    );
    assert!(tarn.contains("healthy") && tarn.ends_with("no"), "{list:?}");
    let remedy =
        format!("the server (pid {pid}) is stopped and does not answer: `kill -CONT {pid}`");
    assert!(list.error.contains(&remedy), "{list:?}");
    // `status` reports the superblocks. From another folder, the devices are not found.
    let status = place.run("status mute");
    assert!(status.error.contains(&remedy), "{status:?}");
    assert!(status.out.contains("member 1: "), "{status:?}");
    for (at, line) in [
        (&others, "status mute"),
        (&others, "status mut"),
        (&place, "fail a mute"),
        (&place, "stop mute"),
    ] {
        let refused = at.run(line);
        assert_eq!(refused.status, 1, "{line}: {refused:?}");
        assert!(refused.error.contains(&remedy), "{line}: {refused:?}");
    }
    signal("-CONT");
    // It finds the refused commands in its socket, and skips them.
    for _ in 0..10 {
        let status = place.json("status mute");
        assert_eq!(states(&status), ["active"; 2], "{status}");
        assert!(status["served"]["addresses"].is_array(), "{status}");
    }
    place.does("stop mute");
}

/// If a server accepts nothing, the first SIGTERM ends a waiting `status` or `stop`.
#[test]
fn the_first_signal_ends_a_waiting_command() {
    let mut place = Place::new("a b", 16 << 20);
    place.does("create pool raid1(a,b)");
    place.serve("");
    let path = place.control();
    place.does("stop pool");
    let listener = UnixListener::bind(&path).expect("it is free");
    for line in ["status pool", "stop pool"] {
        let command = place.command(line).stderr(Stdio::null()).spawn();
        let mut command = command.expect("it runs");
        // It connects several times to check for a listener, and sends the command on one
        // connection.
        let message = listener.incoming().find_map(|stream| {
            let mut message = String::new();
            let mut lines = BufReader::new(stream.ok()?);
            lines.read_line(&mut message).ok()?;
            // Commands of other tests ask every socket that listens.
            message.contains("\"alive\":true").then_some(lines)
        });
        let _kept = message.expect("it speaks");
        let pid = command.id().to_string();
        let sent = Command::new("kill").arg(pid).status();
        assert!(sent.expect("kill").success());
        let ended = command.wait().expect("it ends");
        assert_eq!(ended.signal(), Some(15), "{line}: {ended:?}");
    }
    std::fs::remove_file(path).expect("it is there");
}

/// `status` and `stop` name NBD clients; without --force, `stop` does not disconnect them.
#[test]
fn stop_names_clients_and_keeps_them_connected() {
    let mut place = Place::new("a b", 16 << 20);
    place.does("create pool raid1(a,b)");
    place.serve("");
    assert_eq!(
        place.json("status pool")["served"]["client_list"],
        json!([])
    );
    let export = format!("nbd+unix:///pool?socket={}", place.path("socket").display());
    // A second server exports the first server's export with `--as-is`, and stays connected.
    let line = format!("serve {export} --as-is --nbd unix:second");
    let mut client = place.command(&line);
    let client = client.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut client = client.expect("it runs");
    let pid = client.id();
    let mut lines = BufReader::new(client.stderr.take().expect("it is piped"));
    let mut output = String::new();
    while !output.contains("is served") {
        let read = lines.read_line(&mut output).expect("a line");
        assert!(read > 0, "{output}");
    }
    let peer = format!("pid {pid}, spindles");
    let status = place.json("status pool");
    let clients = status["served"]["client_list"].as_array().expect("a list");
    let named = clients.iter().find(|it| it["peer"] == json!(peer));
    let named = named.unwrap_or_else(|| panic!("{status}"));
    assert_eq!(named["transport"], json!("nbd"));
    assert!(named["since_s"].as_u64().is_some_and(|at| at > 0));
    let shown = place.does("status pool");
    assert!(
        shown.contains(&format!("client {peer} over nbd since ")),
        "{shown}"
    );
    let refused = place.run("stop pool");
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(
        refused.error.contains(&peer) && refused.error.contains("--force"),
        "{refused:?}"
    );
    place.does("status pool");
    place.does("stop pool --force");
    client.kill().expect("it runs");
    client.wait().expect("it ends");
}

/// Jobs without a waiting command are shown, in every format.
#[test]
fn status_shows_the_jobs_of_a_server() {
    let mut place = Place::new("a b c d", 64 << 20);
    place.does("create pool raid1(a,b) --spare c");
    std::fs::write(place.path("data"), vec![7; 48 << 20]).expect("a file");
    place.does("copy data array:pool");
    place.serve(" --rebuild-rate 1M");
    // Only an array in use scrubs at this rate.
    let Some(mut writer) = Writer::begin(&place, 4096, 60) else {
        return println!("SKIPPED: status_shows_the_jobs_of_a_server: fio is not installed");
    };
    place.until("the writer", |place| {
        place.json("status pool")["served"]["writes"].as_u64() > Some(100)
    });
    let begin = || {
        let mut scrub = place.command("scrub pool");
        let scrub = scrub.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        scrub.expect("it runs")
    };
    let mut scrub = begin();
    let mut status = place.json("status pool");
    let end = Instant::now() + Duration::from_mins(1);
    while status["jobs"][0]["what"] != "scrub" {
        assert!(Instant::now() < end, "{status}");
        // The scrub runs fast while the writer has to wait for a CPU.
        if scrub.try_wait().expect("it runs").is_some() {
            scrub = begin();
        }
        status = place.json("status pool");
    }
    let job = &status["jobs"][0];
    assert_eq!(job["array"], json!("pool"));
    assert!(
        job["total_bytes"].as_u64() > job["done_bytes"].as_u64(),
        "{status}"
    );
    assert!(!status["users"][0]["work"].is_null(), "{status}");
    assert!(
        status["members"][0]["counters"]["reads"].as_u64() > Some(0),
        "{status}"
    );
    let mut replace = place.command("replace b pool --onto d");
    let replace = replace.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut replace = replace.expect("it runs");
    while status["members"][1]["copied_onto"].is_null() {
        assert!(Instant::now() < end, "{status}");
        if replace.try_wait().expect("it runs").is_some() {
            break; // The replacement ended between two looks.
        }
        status = place.json("status pool");
    }
    if let Some(onto) = status["members"][1]["copied_onto"].as_str() {
        assert!(onto.ends_with("/d"), "{status}");
        let jobs = status["jobs"].as_array().expect("jobs").iter();
        for scrub in jobs.filter(|job| job["what"] == "scrub") {
            assert_eq!(scrub["waits_for"], "replace", "{status}");
        }
    }
    drop(replace.kill());
    replace.wait().expect("it ends");
    drop(scrub.kill());
    scrub.wait().expect("it ends");
    writer.0.kill().expect("it runs");
    writer.0.wait().expect("it ends");
    place.does("stop --force pool");
}

/// While a spare is filled, the array survives no loss, and only the job says how far it is.
#[test]
fn status_warns_of_the_risk_while_a_spare_is_filled() {
    let mut place = Place::new("a b c d", 64 << 20);
    place.does("create pool raid5(a,b,c) --spare d");
    std::fs::write(place.path("data"), vec![7; 96 << 20]).expect("a file");
    place.does("copy data array:pool");
    place.serve(" --rebuild-rate 1M");
    // Only an array in use is rebuilt at this rate.
    let Some(mut writer) = Writer::begin(&place, 4096, 60) else {
        return;
    };
    place.until("the writer", |place| {
        place.json("status pool")["served"]["writes"].as_u64() > Some(100)
    });
    place.does("fail a pool");
    place.until("the rebuild", |place| {
        let jobs = &place.json("status pool")["jobs"];
        jobs[0]["what"] == "rebuild" && jobs[0]["done_bytes"] != 0
    });
    let status = place.run("status pool");
    let risk = "member 0 of 3 not filled yet; it is not safe from further losses";
    assert!(status.error.contains(risk), "{}", status.error);
    let percents = status.out.matches(" % done").count();
    assert!(
        percents == 1 && status.out.contains("/d, being rebuilt, "),
        "{}",
        status.out
    );
    writer.0.kill().expect("it runs");
    writer.0.wait().expect("it ends");
    place.does("stop --force pool");
}

/// Unreadable data makes the array degraded at once, not only after the next scrub.
#[test]
fn status_reports_unrecoverable_data() {
    const AT: u64 = 30 << 20;
    let mut place = Place::new("a b c", 64 << 20);
    place.does("create pool raid5(a,b,c)");
    std::fs::write(place.path("data"), vec![7; 100 << 20]).expect("a file");
    place.does("copy data array:pool");
    for name in ["a", "b"] {
        let file = File::options().write(true).open(place.path(name));
        let written = file.expect("a file").write_all_at(&vec![0x5a; 1 << 20], AT);
        written.expect("it is written");
    }
    place.serve("");
    let uri = format!("nbd+unix:///pool?socket={}", place.path("socket").display());
    match Command::new("nbdcopy").args([&uri, "null:"]).output() {
        Ok(copied) => assert!(!copied.status.success(), "it has lost blocks"),
        Err(error) => return println!("SKIPPED: what redundancy can't heal: nbdcopy: {error}"),
    }
    let status = place.run("status pool");
    assert_eq!(status.status, 3, "{status:?}");
    let expected = "was found wrong could not be repaired";
    assert!(status.out.contains(expected), "{status:?}");
    place.does("stop pool");
    assert_eq!(place.run("status pool").status, 3);
    // A new write repairs the blocks, and a scrub confirms it.
    place.does("copy data array:pool");
    place.does("scrub pool");
    assert_eq!(place.run("status pool").status, 0);
}

/// A command that changes an array makes its server close the devices for a moment. Commands that
/// wait for a device don't take it then.
#[test]
fn waiting_commands_take_no_device_from_a_server() {
    let mut place = Place::new("a b c", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    for allowed in ["allow", "ask", "allow", "ask"] {
        let mut wipe = place.command("wipe b --force");
        let wipe = wipe.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut wipe = wipe.expect("it runs");
        let mut output = BufReader::new(wipe.stderr.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        assert!(line.contains("waiting up to "), "{line}");
        place.does(&format!("set pool --degraded-writes {allowed}"));
        output.read_to_string(&mut line).expect("text");
        assert_eq!(wipe.wait().expect("it ends").code(), Some(1), "{line}");
        assert_eq!(states(&place.json("status pool")), ["active"; 3]);
    }
    place.does("stop pool");
    place.does("wipe b --force");
}

/// A thread that tries to lock these files again and again, until stopped.
struct Thief {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<Vec<PathBuf>>,
}

impl Thief {
    fn of(files: Vec<PathBuf>) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let is_over = std::sync::Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut taken = Vec::new();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                for path in &files {
                    let file = File::open(path).expect("a file");
                    if file.try_lock().is_ok() {
                        taken.push(path.clone());
                    }
                }
            }
            taken
        });
        Self { stop, thread }
    }

    fn taken(self) -> Vec<PathBuf> {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.join().expect("it ends")
    }
}

/// Commands for which a server closes its array and opens it again never release its devices.
#[test]
fn a_server_keeps_its_devices_while_it_reopens_them() {
    let mut place = Place::new("a b c d e f j", 48 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    let thief = Thief::of(["a", "b"].map(|name| place.path(name)).to_vec());
    for line in [
        "set pool --degraded-writes allow",
        "rename pool lake",
        "journal add j --array lake",
        "journal remove --array lake",
        "grow lake --add f",
        "fail c lake",
        "rebuild lake --onto raid0(d,e)",
        "rename lake pool",
    ] {
        place.does(line);
    }
    assert_eq!(thief.taken(), Vec::<PathBuf>::new());
    place.does("stop pool");
    let thief = Thief::of(vec![place.path("a")]);
    place.until("the lock", |_| {
        thief.thread.is_finished() || {
            File::open(place.path("a"))
                .expect("a file")
                .try_lock()
                .is_ok()
        }
    });
    drop(thief.taken());
}

/// A command that opens a member in the server itself is refused while another command has the
/// array closed.
#[test]
fn a_server_takes_no_member_of_its_own_array() {
    let mut place = Place::new("a b c", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    for allowed in ["allow", "ask"] {
        let lines = ["add b pool --force", "spare add b --shared --force"];
        let concurrent = lines.iter().cycle().take(6).map(|line| {
            let mut command = place.command(line);
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("it runs")
        });
        let concurrent: Vec<Child> = concurrent.collect();
        place.does(&format!("set pool --degraded-writes {allowed}"));
        for mut command in concurrent {
            assert_eq!(command.wait().expect("it ends").code(), Some(1));
        }
        assert_eq!(states(&place.json("status pool")), ["active"; 3]);
    }
    place.does("stop pool");
}

/// If the file of a member is deleted, the array stays whole while it is served, `status` warns,
/// and commands still know the member by its name.
#[test]
fn a_member_with_a_deleted_file_is_known() {
    let mut place = Place::new("a b c d", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    std::fs::remove_file(place.path("b")).expect("it is ours");
    let status = place.run("status pool");
    assert_eq!(status.status, 0, "{status:?}");
    let warned = format!("{} was moved or deleted", place.path("b").display());
    assert!(status.error.contains(&warned), "{status:?}");
    let grow = place.run("grow pool --add d");
    assert!(grow.error.contains("/b: No such file"), "{grow:?}");
    place.does("fail b pool");
    assert_eq!(place.json("status pool")["state"], json!("degraded"));
    place.does("rebuild pool --onto d");
    let status = place.run("status pool");
    assert_eq!(
        (status.status, status.error.as_str()),
        (0, ""),
        "{status:?}"
    );
    place.does("stop pool");
}

/// A server releases a shared spare like a dedicated one.
#[test]
fn a_server_releases_a_shared_spare() {
    let mut place = Place::new("a b c", 8 << 20);
    place.does("create pool raid1(a,b)");
    place.does("spare add c --shared");
    place.serve_named("pool c", "");
    assert_eq!(place.json("status pool")["spares"][0]["shared"], true);
    let remedy = "`spindles spare remove c --array pool`";
    for line in [
        "wipe c --force",
        "spare remove c",
        "create other raid1(c,a) --force",
    ] {
        let refused = place.run(line);
        assert!(refused.error.contains(remedy), "{refused:?}");
    }
    place.does("spare remove c --array pool");
    assert_eq!(place.json("status pool")["spares"], json!([]));
    assert!(place.does("scrub pool").contains("nothing is wrong"));
    place.does("stop pool");
    assert_eq!(place.run("spare remove c").status, 1);
}

/// A device that went out because of read errors comes back by what it missed. The rest of it was
/// not read, and `add` says so.
#[test]
fn add_advises_a_scrub_of_a_member_that_was_unreadable() {
    const KEPT: u64 = 7 << 20;
    let mut place = Place::new("a b c", 64 << 20);
    place.does("create pool raid5(a,b,c)");
    std::fs::write(place.path("data"), vec![7; 100 << 20]).expect("a file");
    place.does("copy data array:pool");
    place.serve("");
    let file = File::options().write(true).open(place.path("b"));
    let file = file.expect("a file");
    let bytes = file.metadata().expect("its length").len();
    file.set_len(KEPT).expect("it is truncated");
    let uri = format!("nbd+unix:///pool?socket={}", place.path("socket").display());
    let copied = Command::new("nbdcopy").args([&uri, "null:"]).output();
    if let Err(error) = copied {
        return println!("SKIPPED: an unreadable member that comes back: nbdcopy: {error}");
    }
    let status = place.json("status pool");
    assert_eq!(states(&status), ["active", "missing", "active"], "{status}");
    file.set_len(bytes).expect("it is extended");
    let added = place.run("add b pool");
    assert_eq!(added.status, 0, "{added:?}");
    let warning = "too much of it could not be read or written";
    assert!(added.error.contains(warning), "{added:?}");
    assert!(added.error.contains("`spindles scrub pool`"), "{added:?}");
    let scrub = place.run("scrub pool");
    assert!(scrub.out.contains("repaired"), "{scrub:?}");
    assert_eq!(place.run("scrub pool --check").status, 0);
    // A member that `fail` put out was readable.
    place.does("fail c pool");
    let added = place.run("add c pool");
    assert!(!added.error.contains(warning), "{added:?}");
    place.does("stop pool");
}

/// The errors of a device stay after a kill, and until they are cleared, served or not.
#[test]
fn errors_are_counted_per_device_until_cleared() {
    const AT: u64 = 4 << 20;
    let rot = |place: &Place| {
        let file = File::options().write(true).open(place.path("b"));
        let written = file.expect("a file").write_all_at(&[0x5a; 8192], AT);
        written.expect("it is written");
    };
    let errors = |place: &Place, member: usize| {
        place.json("status pool")["members"][member]["errors"].clone()
    };
    let mut place = Place::new("a b c", 16 << 20);
    place.does("create pool raid5(a,b,c)");
    std::fs::write(place.path("data"), vec![7; 24 << 20]).expect("a file");
    place.does("copy data array:pool");
    rot(&place);
    place.serve("");
    place.does("scrub pool");
    let found = errors(&place, 1);
    assert_eq!(found["corrupt_bytes"], 8192, "{found}");
    assert_eq!(found["repaired_bytes"], 8192, "{found}");
    assert_eq!(errors(&place, 0)["corrupt_bytes"], 0);
    let shown = place.does("status pool");
    assert!(
        shown.contains("    errors: 8 KiB corrupt, 8 KiB repaired\n"),
        "{shown}"
    );
    let mut server = place.server.take().expect("it runs");
    server.kill().expect("it is killed");
    server.wait().expect("it ends");
    let kept = errors(&place, 1);
    assert_eq!(kept["corrupt_bytes"], 8192, "{kept}");
    let examined = place.does("examine b");
    assert!(
        examined.contains("errors: 8 KiB corrupt, 8 KiB repaired"),
        "{examined}"
    );
    let cleared = place.does("status --clear-errors b");
    assert!(
        cleared.contains("member 1, b: cleared 8 KiB corrupt, 8 KiB repaired"),
        "{cleared}"
    );
    assert_eq!(errors(&place, 1)["corrupt_bytes"], 0);
    rot(&place);
    place.serve("");
    place.does("scrub pool");
    assert_eq!(errors(&place, 1)["corrupt_bytes"], 8192);
    place.does("status --clear-errors b pool");
    assert_eq!(errors(&place, 1)["corrupt_bytes"], 0);
    let stranger = place.run("status --clear-errors data");
    assert_eq!(stranger.status, 1);
    assert!(
        stranger.error.contains("data is no member of an array"),
        "{stranger:?}"
    );
    place.does("stop pool");
    assert_eq!(errors(&place, 1)["corrupt_bytes"], 0);
}

/// A command on a served array reports only its own findings, not earlier ones.
#[test]
fn commands_report_only_what_they_met() {
    let mut place = Place::new("a b c", 16 << 20);
    place.does("create pool raid1(a,b)");
    std::fs::write(place.path("data"), vec![7; 6 << 20]).expect("a file");
    place.does("copy data array:pool");
    let rot = |place: &Place, back: usize| {
        let mut bytes = std::fs::read(place.path("a")).expect("a file");
        let filled = |block: &[u8]| block.iter().all(|byte| *byte == 7);
        let mut block = bytes.chunks_mut(4096).rev().filter(|it| filled(it));
        block.nth(back).expect("data")[..100].fill(0xee);
        std::fs::write(place.path("a"), bytes).expect("a file");
    };
    rot(&place, 1);
    place.serve("");
    place.does("scrub pool");
    place.does("fail b pool");
    let added = place.run("add b pool");
    assert_eq!(added.status, 0, "{added:?}");
    assert!(!added.error.contains("rotten"), "{added:?}");
    place.does("fail b pool");
    let rebuilt = place.run("rebuild pool --onto b --force");
    assert_eq!(rebuilt.status, 0, "{rebuilt:?}");
    assert!(!rebuilt.error.contains("rotten"), "{rebuilt:?}");
    rot(&place, 9);
    let replaced = place.run("replace a pool --onto c");
    assert_eq!(replaced.status, 0, "{replaced:?}");
    let met = "member 0: 4 KiB found rotten";
    assert!(replaced.error.contains(met), "{replaced:?}");
    place.does("stop pool");
}

/// A scrub repairs the damaged label of a spare, and leaves other contents alone.
#[test]
fn a_scrub_repairs_the_label_of_a_spare() {
    let put = |place: &Place, bytes: &[u8], at: u64| {
        let file = File::options().write(true).open(place.path("c"));
        let written = file.expect("a file").write_all_at(bytes, at);
        written.expect("it is written");
    };
    let mut place = Place::new("a b c", 8 << 20);
    place.does("create pool raid1(a,b) --spare c");
    let label = std::fs::read(place.path("c")).expect("a file");
    place.serve("");
    put(&place, b"rot", 4096 + 100);
    let checked = place.run("scrub pool --check");
    assert_eq!(checked.status, 1, "{checked:?}");
    let found = "4096 bytes of metadata (label of a spare) at 4096";
    let scrubbed = place.run("scrub pool");
    assert_eq!(scrubbed.status, 0, "{scrubbed:?}");
    assert!(scrubbed.out.contains(found), "{scrubbed:?}");
    assert!(std::fs::read(place.path("c")).expect("a file") == label);
    place.does("scrub pool");
    put(&place, &[0xee; 4096], 4096);
    let left = place.run("scrub pool");
    assert_eq!(left.status, 1, "{left:?}");
    assert!(left.out.contains(found), "{left:?}");
    let c = place.path("c").display().to_string();
    let remedy = format!("`spindles spare add {c} --array pool --force`");
    assert!(left.error.contains(&remedy), "{left:?}");
    let now = std::fs::read(place.path("c")).expect("a file");
    assert!(now[4096..8192] == [0xee; 4096]);
    place.does("spare add c --array pool --force");
    assert!(place.does("scrub pool").contains("nothing is wrong"));
    place.does("stop pool");
}

/// A scrub restores the superblocks of an inner array that has no redundancy and no checksums.
#[test]
fn a_scrub_inspects_inner_arrays_that_compare_nothing() {
    for expression in [
        "raid1(raid0(a,b),raid0(c,d))",
        "raid5(raid0(a,b),concat(c,d),e)",
    ] {
        let mut place = Place::new("a b c d e", 8 << 20);
        place.does(&format!("create pool {expression}"));
        place.serve("");
        for name in ["a", "c"] {
            let file = File::options().write(true).open(place.path(name));
            let file = file.expect("a file");
            for slot in [4096, 32768] {
                file.write_all_at(&[0xee; 512], slot)
                    .expect("it is written");
            }
            let scrubbed = place.run("scrub pool");
            assert_eq!(scrubbed.status, 0, "{expression}: {scrubbed:?}");
            let found = scrubbed.out.contains("of metadata");
            assert!(found, "{expression}, {name}: {scrubbed:?}");
            assert!(place.does("scrub pool").contains("nothing is wrong"));
        }
        place.does("stop pool");
        place.does("status pool");
        place.does("scrub pool");
    }
}

/// A read-only server writes nothing.
#[test]
fn a_read_only_server_writes_nothing() {
    let mut place = Place::new("a b c d", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    let before = std::fs::read(place.path("d")).expect("a file");
    place.serve(" --read-only");
    for line in [
        "grow pool --add d",
        "add d pool",
        "spare add d --array pool",
        "rename pool lake",
        "fail a pool",
    ] {
        assert!(place.run(line).error.contains("for reading only"), "{line}");
    }
    place.does("status pool");
    place.does("stop pool");
    assert_eq!(before, std::fs::read(place.path("d")).expect("a file"));
}

/// A server whose helper has ended refuses a command that would close the array, and serves on.
#[test]
fn a_server_without_its_helper_keeps_its_arrays_open() {
    let mut place = Place::new("a b c", 8 << 20);
    place.does("create pool raid5(a,b,c)");
    place.serve("");
    let server = place.server.as_ref().expect("it runs").id();
    let children = format!("/proc/{server}/task/{server}/children");
    let children = std::fs::read_to_string(children).expect("a list");
    let Some(helper) = children.split_whitespace().next() else {
        return println!("SKIPPED a_server_without_its_helper_keeps_its_arrays_open: no sandbox");
    };
    let kill = Command::new("kill").args(["-KILL", helper]).status();
    assert!(kill.expect("kill runs").success());
    for line in ["set pool --degraded-writes allow", "rename pool lake"] {
        let run = place.run(line);
        assert_eq!(run.status, 1, "{line}: {run:?}");
        assert!(
            run.error.contains("has ended or does not answer"),
            "{line}: {run:?}"
        );
    }
    place.does("status pool");
    place.does("stop pool");
}

/// The stale socket of a killed server does not stop commands.
#[test]
fn commands_use_an_array_after_its_server_was_killed() {
    let mut place = Place::new("a b", 8 << 20);
    place.does("create pool raid1(a,b)");
    place.serve("");
    let path = place.control();
    let mut server = place.server.take().expect("it runs");
    server.kill().expect("it is killed");
    server.wait().expect("it ends");
    assert!(path.exists());
    place.does("status pool");
    place.does("scrub pool");
    place.serve("");
    place.does("stop pool");
    assert!(!path.exists());
}
