//! Commands on a served array: its server runs them, while fio writes to the array and verifies it.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::world::{Running, World, has, signal, until};
use serde_json::{Value, json};
use spindles_array::Target;
use spindles_engine::Member;
use spindles_format::{SLOT_BYTES, SUPERBLOCK_BYTES};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

impl World {
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
        let uri = self.uri();
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
}

/// fio, writing at random and reading back what it wrote.
fn writer(world: &World, block_bytes: u32, runtime_s: u32) -> Option<Running> {
    if Command::new("fio").arg("--version").output().is_err() {
        println!("SKIPPED commands during fio: it is not installed");
        return None;
    }
    // Without a backlog limit, fio would spend the whole run writing.
    let line = format!(
        "--name=writer --ioengine=nbd --rw=randwrite --bs={block_bytes} --iodepth=8 --size=16M \
         --time_based --verify=crc32c --verify_backlog=64 --verify_state_save=0 \
         --runtime={runtime_s} --uri={}",
        world.uri()
    );
    let mut fio = Command::new("fio");
    fio.args(line.split_whitespace())
        .current_dir(world.folder());
    Some(world.start(fio))
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
    let world = World::uneven("a b c d e f g", 24 << 20);
    world.does(&format!(
        "create pool raid5(a,b,c) --chunk 16K --block-size {block_size}"
    ));
    world.serve("");
    let Some(writer) = writer(&world, block_bytes, 6) else {
        return;
    };
    // A member goes out and comes back, and gets only the blocks it missed.
    world.until("the first write", |world| {
        world.json("status pool")["regions"]["written"] != json!(0)
    });
    world.does("fail b pool");
    assert_eq!(
        states(&world.json("status pool")),
        ["active", "missing", "active"]
    );
    world.ends("status pool", 3);
    world
        .run("status pool")
        .warns("to make array 'pool' safe again");
    world.run("fail a pool").warns("survive");
    world.does("add b pool").prints("member 1 is active again");
    world.ends("status pool", 0);
    // Pulled out and used otherwise: it is filled from scratch.
    world.does("fail c pool");
    world.run("wipe c --force").warns("in use");
    world.does("remove c pool");
    world.does("wipe c --force");
    world.does("add c pool --force");
    let scrubbed = world.does("scrub pool");
    assert_eq!(
        scrubbed.out,
        "array 'pool': nothing is wrong
"
    );
    world.does("replace a --onto d pool").prints("/d now");
    // A spare takes over automatically.
    world.does("spare add g --array pool");
    for line in ["wipe g --force", "spare remove g"] {
        let remedy = "`spindles spare remove g --array pool`";
        world.run(line).warns(remedy).ends(1);
    }
    world.does("fail b pool");
    world.until("the spare", |world| {
        world.json("status pool")["state"] == json!("healthy")
    });
    // Commands that close, change and reopen the array.
    world.does("journal add e --array pool --force");
    world.does("set pool --degraded-writes allow");
    let before = world.json("status pool")["bytes"].as_u64();
    world.does("grow pool --add f");
    // New clients see the new size, even after a rename.
    world.does("rename pool lake");
    world.is_as_its_handshake_says();
    let status = world.json("status lake");
    assert_eq!(status["degraded_writes"], json!(true));
    assert!(status["journal"]["device"].as_str().is_some());
    assert!(status["bytes"].as_u64() > before, "{status}");
    assert_eq!(states(&status), ["active"; 4]);
    world.does("resync lake");
    writer.end(None).ends(0);
    world.does("stop lake").prints("closed");
    let status = world.json("status lake");
    assert_eq!(
        (&status["clean"], &status["state"]),
        (&json!(true), &json!("healthy"))
    );
    world.does("scrub lake");
    world.server().end(None).ends(0);
}

/// The same for nested arrays: devices of inner arrays go and come, and an array replaces a member.
#[test]
fn nested_arrays_are_managed_during_writes() {
    let world = World::uneven("a b c d e f g h", 24 << 20);
    world.does("create pool raid1(raid5(a,b,c),d) --block-size 512");
    world.serve("");
    let Some(writer) = writer(&world, 512, 6) else {
        return;
    };
    world.until("the first write", |world| {
        world.json("status pool")["regions"]["written"] != json!(0)
    });
    world.does("fail b pool");
    world.ends("status pool", 3);
    world.does("add b pool").prints("is active again");
    world.does("replace a pool --onto e").prints("/e now");
    // A spare replaces a device of the inner array.
    world.does("spare add f --array pool");
    world.does("fail c pool");
    world.until("the spare", |world| {
        world.json("status pool")["state"] == json!("healthy")
    });
    // A member that is an array has no device to fail; the other member has one.
    world.run("fail --member 0 pool").warns("pool.0");
    world.does("fail --member 1 pool");
    world
        .does("rebuild pool --onto raid0(g,h)")
        .prints("'pool.1' (raid0) is recreated")
        .prints("member 1 is active again");
    world.ends("status pool", 0);
    let found = world.does("scrub pool").out;
    let is_good = |line: &str| line.ends_with("nothing is wrong");
    assert!(found.lines().all(is_good), "{found}");
    world.does("resync pool");
    world.does("set pool --degraded-writes allow");
    world.does("rename pool lake");
    writer.end(None).ends(0);
    world.does("stop lake").prints("closed");
    let found = world.does("scrub lake").out;
    assert!(found.lines().all(is_good), "{found}");
    world.ends("status lake", 0);
}

/// A growth that has moved nothing is given up while the array is served: without its new device,
/// which blocks the growth, with it, if the command is fast enough, and with a new device that the
/// other members do not know.
#[test]
fn a_growth_of_a_served_array_can_be_aborted() {
    for (new_is_there, is_recorded) in [(false, true), (true, true), (true, false)] {
        let world = World::uneven("a b c d", 24 << 20);
        world.does("create pool raid5(a,b,c) --chunk 16K");
        let new = world.path("d").display().to_string();
        begin_growth(&world, &new, is_recorded);
        if !new_is_there {
            world.remove("d");
        }
        world.serve("");
        let aborted = world.run("grow pool --abort");
        let is_late = ["can no longer be cancelled", "is not growing"];
        let is_late = is_late.iter().any(|late| aborted.error.contains(late));
        assert!(new_is_there || !is_late, "{aborted:?}");
        if !is_late {
            assert!(aborted.out.contains("is what it was before"), "{aborted:?}");
            let is_plain = aborted.out.contains("d is a plain device again");
            assert_eq!(is_plain, new_is_there, "{is_recorded} {aborted:?}");
            let status = world.json("status pool");
            assert_eq!(states(&status), ["active"; 3]);
            assert_eq!(status["growing"], Value::Null);
        }
        world.does("stop pool");
        world.does("scrub pool");
    }
}

/// A growth onto a slow device is given up by its server, which still has the device open. The
/// device gets slower until the command comes before the growth has ended.
#[test]
fn a_growth_onto_a_slow_device_of_a_served_array_can_be_aborted() {
    let delays_ms = [150, 600, 2400];
    assert!(delays_ms.into_iter().any(aborts_a_growth));
}

/// Returns true if the growth had not ended when the command to give it up came.
fn aborts_a_growth(delay_ms: u32) -> bool {
    let world = World::uneven("a b c d", 24 << 20);
    let socket = world.path("export").display().to_string();
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--filter=delay", "--unix", &socket, "file"]);
    nbdkit
        .arg(world.path("d"))
        .arg(format!("wdelay={delay_ms}ms"));
    let mut nbdkit = match nbdkit.spawn() {
        Ok(nbdkit) => nbdkit,
        Err(error) => {
            println!("SKIPPED a growth onto a slow device: {error}");
            return true;
        }
    };
    world.until("nbdkit", |_| UnixStream::connect(&socket).is_ok());
    world.does("create pool raid5(a,b,c) --chunk 16K");
    let new = format!("nbd+unix:///?socket={socket}");
    begin_growth(&world, &new, true);
    // Without the file of the export.
    world.serve(&format!(" --scan a --scan b --scan c --scan {new}"));
    let aborted = world.run("grow pool --abort");
    let is_in_time = !aborted.error.contains("is not growing");
    if is_in_time {
        aborted
            .ends(0)
            .prints("is what it was before")
            .prints(&*format!("{new} is a plain device again"));
    }
    world.does("stop pool");
    if is_in_time {
        world.does("scrub pool");
    }
    nbdkit.kill().expect("it runs");
    nbdkit.wait().expect("it ends");
    is_in_time
}

/// Begins a growth by the device `new`, which keeps its bytes in the file `d`, and stops it before
/// anything is moved. `is_recorded` says whether the other members record that it has joined.
fn begin_growth(world: &World, new: &str, is_recorded: bool) {
    let path = |name: &str| world.path(name).to_str().expect("UTF-8").to_owned();
    let devices = ["a", "b", "c"].map(path);
    let devices = devices.each_ref().map(String::as_str);
    let options = spindles_admin::assemble::AssembleOptions::default();
    let begun = spindles_admin::grow::begin(&devices, new, &options);
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
        let labelled = world.read("d");
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
        // The array may have written later records too. Only the first can be on `d` alone.
        let (mut array, device) = world.newest("d");
        array.generation = world.newest("a").0.generation + 1;
        for slot in SLOT_BYTES {
            world.write("d", slot, &[0; SUPERBLOCK_BYTES]);
        }
        world.put_superblock("d", &array, &device);
    }
}

/// The server does not keep devices open that it left out.
#[test]
fn left_out_devices_are_not_kept_open() {
    let world = World::uneven("a b c d", 16 << 20);
    world.does("create pool raid1(a,b,c)");
    // Outside of the folder that is searched.
    std::fs::create_dir(world.path("away")).expect("a folder");
    let away = world.path("away").join("c");
    std::fs::rename(world.path("c"), &away).expect("it is there");
    world.does("rebuild pool --onto d --degraded");
    std::fs::rename(&away, world.path("old")).expect("it is there");
    world.serve("");
    world.run("status pool").warns("old: replaced");
    let free = File::open(world.path("old")).expect("it is there");
    free.try_lock().expect("it is unlocked");
    drop(free);
    world.does("wipe old --force");
    assert_eq!(world.run("status pool").error, "");
    world.does("stop pool");
}

/// A copy of a member does not come back in its place: the two are indistinguishable.
#[test]
fn a_copy_of_a_member_is_a_new_device() {
    let world = World::uneven("a b c", 16 << 20);
    world.does("create pool raid1(a,b,c)");
    world.serve("");
    world.does("fail b pool");
    world.copy("b", "copy");
    world.run("add copy pool").warns("--force");
    world.does("add copy pool --force");
    let status = world.json("status pool");
    assert_eq!(states(&status), ["active"; 3]);
    // Served or not, the array is found by its name.
    world.does("stop pool");
    world.ends("status pool", 0);
    world.does("scrub pool");
}

/// An export that returns with other contents is a new device.
#[test]
fn an_export_with_other_contents_rejoins_as_a_new_device() {
    let world = World::uneven("a b", 16 << 20);
    let socket = world.path("export").display().to_string();
    let address = format!("nbd+unix:///?socket={socket}");
    let export = || {
        drop(std::fs::remove_file(&socket));
        let mut nbdkit = Command::new("nbdkit");
        let nbdkit = nbdkit.args(["--foreground", "--unix", &socket, "memory", "16M"]);
        nbdkit.spawn()
    };
    let listens = |_: &World| UnixStream::connect(&socket).is_ok();
    let mut nbdkit = match export() {
        Ok(nbdkit) => nbdkit,
        Err(error) => return println!("SKIPPED an export with other contents: {error}"),
    };
    world.until("nbdkit", listens);
    world.does(&format!("create pool raid1(a,b,{address})"));
    world.serve(&format!(" --scan . --scan {address}"));
    nbdkit.kill().expect("it runs");
    nbdkit.wait().expect("it ends");
    world.until("the loss", |world| {
        // The server notices the loss on the next access.
        world.run("scrub pool");
        world.json("status pool")["state"] == json!("degraded")
    });
    let mut nbdkit = export().expect("it ran before");
    world.until("nbdkit", listens);
    world
        .does(&format!("rebuild pool --onto {address}"))
        .prints("member 2 is active again");
    world.does("stop pool");
    // The lock file that stood for the export is removed.
    nbdkit.kill().expect("it runs");
    nbdkit.wait().expect("it ends");
}

/// A command that stops waiting reports what becomes of its work.
#[test]
fn an_interrupted_command_reports_that_the_server_continues() {
    let world = World::uneven("a b c d", 200 << 20);
    world.does("create pool raid5(a,b,c) --chunk 16K");
    world.put("data", vec![7; 200 << 20]);
    world.does("copy data array:pool");
    world.serve("");
    let command = world.begin("grow pool --add d");
    world.until("the beginning of the growth", |world| {
        let status = world.json("status pool");
        status["growing"] != Value::Null || states(&status).len() == 4
    });
    command.signal("INT");
    let ended = command.end(None);
    // The growth may have ended already.
    if ended.status > 0 {
        ended.ends(1).warns("goes on in the server");
    }
    world.until("the end of the growth", |world| {
        world.json("status pool")["growing"] == Value::Null
    });
    assert_eq!(states(&world.json("status pool")), ["active"; 4]);
    world.does("stop pool");
}

/// Commands do not wait for devices of another user's server, and name that user.
#[test]
fn another_users_server_is_named_immediately() {
    const NAME: &str = "another_users_server_is_named_immediately";
    let world = World::uneven("a b", 8 << 20);
    world.does("create pool raid1(a,b)");
    world.serve("");
    let program = world.path("program");
    std::fs::copy(env!("CARGO_BIN_EXE_spindles"), &program).expect("it is copied");
    let open = |path: PathBuf, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("it is ours");
    };
    open(world.path("."), 0o755);
    open(world.path("a"), 0o666);
    open(world.path("b"), 0o666);
    if Command::new("setpriv").arg("--version").output().is_err() {
        return println!("SKIPPED: {NAME}: there is no setpriv");
    }
    let pool = world.unique("pool");
    let other = |words: &[&str]| {
        let mut other = Command::new("setpriv");
        let user = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"];
        other.args(user).arg(&program).args(words);
        world.run_command(other.current_dir(world.folder())).error
    };
    let message = other(&["scrub", &pool]);
    if message.starts_with("setpriv") {
        return println!("SKIPPED: {NAME}: {message}");
    }
    assert!(message.contains("is in use by pid "), "{message}");
    assert!(
        message.contains(" of root (spindles serve pool"),
        "{message}"
    );
    assert!(!message.contains("waiting"), "{message}");
    for array in [["a", "b"].as_slice(), &[&pool]] {
        let message = other(&[&["stop"], array].concat());
        let server = world.with_server(|it| it.id());
        let wanted = format!("is served by root (pid {server}), ");
        assert!(message.contains(&wanted), "{array:?}: {message}");
        assert!(message.contains("as with `sudo -u root`"), "{message}");
    }
    world.does("stop pool");
}

/// A word names the file in the current folder; only without such a file does it name a device of
/// the array.
#[test]
fn a_device_is_never_confused_with_another_one() {
    let world = World::uneven("a b c", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let fail = |device: &str| {
        let mut command = world.command(&format!("fail {device} pool"));
        world.run_command(command.current_dir(elsewhere.path()))
    };
    let other = elsewhere.path().join("a");
    std::fs::write(&other, "of another user").expect("room");
    let named = format!("{} is no member", other.display());
    fail("a").ends(1).warns(named);
    fail("./b").ends(1);
    assert_eq!(states(&world.json("status pool")), ["active"; 3]);
    fail("b").ends(0);
    let status = world.json("status pool");
    assert_eq!(states(&status), ["active", "missing", "active"], "{status}");
    // A removed device no longer belongs to the server, but the array still knows it.
    for served_again in [false, true] {
        if served_again {
            world.does("stop pool");
            world.serve("");
        }
        for _ in 0..2 {
            world.does("remove b pool").prints("has released member 1");
        }
        let shown = world.run("status pool").out;
        assert_eq!(
            shown.contains("  member 1: removed; it was out: as a command asked"),
            !served_again,
            "{shown}"
        );
    }
    world.ends("remove a pool", 1);
    world.does("add b pool");
    assert_eq!(states(&world.json("status pool")), ["active"; 3]);
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
    let world = World::uneven("a b c d e f", 8 << 20);
    world.does("create pool raid1(a,b,c)");
    world.does("create other raid1(e,f)");
    let refusals = |world: &World| -> Vec<(i32, String)> {
        let refusals = lines.iter().map(|line| {
            let run = world.run(line);
            // The server uses absolute device names.
            let folder = world.folder().canonicalize().expect("it is there");
            let error = run.error.replace(&format!("{}/", folder.display()), "");
            let error = error.replace(" in this folder", "");
            (run.status, error)
        });
        refusals.collect()
    };
    let alone = refusals(&world);
    world.serve("");
    for (line, (alone, served)) in lines.iter().zip(alone.iter().zip(refusals(&world))) {
        assert_eq!(*alone, served, "{line}");
    }
    assert!(world.run("stop pool").status == 0);
    world.run("stop pool").warns("no server serves");
}

/// A command waits while the server runs its maximum of commands.
#[test]
fn many_concurrent_commands_all_complete() {
    let world = World::uneven("a b", 8 << 20);
    world.does("create pool raid1(a,b)");
    world.serve("");
    let commands = [(); 64].map(|()| world.begin("status pool"));
    for command in commands {
        command.end(None).ends(0);
    }
    // Both `status` and the list of all arrays show the addresses, even if the devices are not
    // found.
    let status = world.json("status pool");
    let address = &status["served"]["addresses"][0];
    let text = address.as_str().expect("an address");
    assert!(
        text.starts_with("nbd+unix:///pool?socket=") && text.ends_with("/socket"),
        "{text}"
    );
    let shown = format!("  clients find it at {text}\n");
    world.does("status pool").prints(&shown);
    let list = world.json("status --scan /proc/self/exe");
    let listed = list["arrays"].as_array().expect("a list").iter();
    let listed = { listed }.find(|it| it["uuid"] == status["uuid"]);
    let listed = listed.expect("it is listed");
    assert_eq!(listed["state"], "healthy");
    assert_eq!(listed["served"]["addresses"][0], *address);
    world.does("stop pool");
}

/// A member that `fail` put out stays out however the array is opened, until `add` takes it back.
#[test]
fn a_member_failed_by_command_stays_out_until_it_is_added() {
    let world = World::uneven("a b c in", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    let is_out = |world: &World| {
        let status = world.json("status pool");
        assert_eq!(states(&status), ["active", "missing", "active"], "{status}");
        assert_eq!(status["members"][1]["held_out"], json!(true));
    };
    for served in [false, true] {
        let bytes: Vec<u8> = (0..2_000_000_u32)
            .map(|at| at.to_le_bytes()[usize::from(served)])
            .collect();
        world.put("in", &bytes);
        if served {
            world.serve("");
        }
        let remedy = ["spindles add b pool`", "/b pool`"][usize::from(served)];
        world.run("fail b pool").warns(remedy);
        if served {
            world.does("stop pool");
        }
        is_out(&world);
        // Each opens the array for writing, with b listed first.
        world.does("copy in array:pool");
        world.does("resync pool");
        world.ends("rebuild pool", 1);
        world.serve("");
        is_out(&world);
        if !served {
            world.does("stop pool");
        }
        world.does("add b pool").prints("active again");
        assert_eq!(states(&world.json("status pool")), ["active"; 3]);
        if served {
            world.does("stop pool");
        }
        // b has caught up, and holds everything.
        world.does("fail a pool");
        world.does("copy array:pool out --force");
        let read = world.read("out");
        assert!(read.starts_with(&bytes));
        world.does("add a pool");
    }
}

/// A device that the server knows from before can become the journal device: a replaced member, or
/// a former journal device.
#[test]
fn a_known_device_becomes_the_journal_repeatedly() {
    let world = World::uneven("a b c d", 40 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    world.does("replace a pool --onto d");
    for _ in 0..2 {
        world.does("journal add a --array pool --force");
        world.does("journal remove --array pool");
    }
    world.does("stop pool");
}

/// A spare that another program has locked can't replace a member: `fail` says at once that none
/// does.
#[test]
fn fail_reports_a_busy_spare_immediately() {
    let world = World::uneven("a b c s", 8 << 20);
    world.does("create pool raid5(a,b,c) --spare s");
    world.serve("");
    let busy = File::open(world.path("s")).expect("it is there");
    busy.lock().expect("it is unlocked");
    world
        .run("fail a pool")
        .warns_no("takes its place")
        .warns("spindles add");
    world.does("stop pool");
}

/// A wiped device counts as new, even if the server knew it as a spare, or as a member that is out.
#[test]
fn a_wiped_device_counts_as_new() {
    let world = World::uneven("a b c s", 8 << 20);
    world.does("create pool raid5(a,b,c) --spare s");
    world.serve("");
    world.run("wipe a").prints("as by `spindles stop pool`");
    world.does("spare remove s --array pool");
    world.does("fail a pool");
    world.run("wipe a").prints("as by `spindles remove a pool`");
    world.does("add s pool");
    world.does("fail b pool");
    let bytes = std::fs::metadata(world.path("b"))
        .expect("it is there")
        .len();
    let file = File::create(world.path("b")).expect("it is there");
    file.set_len(bytes).expect("its length");
    world.does("spare add b --array pool");
    world.until("it is filled", |world| {
        states(&world.json("status pool")) == ["active"; 3]
    });
    world.does("stop pool");
}

/// The effect of an acknowledged command survives a kill of the server right after it.
#[test]
fn a_member_failed_by_command_is_out_after_a_kill() {
    for _ in 0..3 {
        let world = World::uneven("a b c in", 8 << 20);
        world.put("in", vec![5; 8 << 20]);
        world.does("create pool raid5(a,b,c)");
        world.serve("");
        let uri = world.uri();
        let copied = Command::new("nbdcopy")
            .args(["--flush", "in", &uri])
            .current_dir(world.folder())
            .status();
        match copied {
            Ok(status) => assert!(status.success(), "nbdcopy: {status}"),
            Err(error) => println!(
                "SKIPPED: a_member_failed_by_command_is_out_after_a_kill: earlier writes: \
                 nbdcopy: {error}"
            ),
        }
        let stream = UnixStream::connect(world.control()).expect("it listens");
        let fail = world.request(&json!({ "name": "fail", "device": world.path("a") }));
        writeln!(&stream, "{fail}").expect("it hears");
        let mut answers = BufReader::new(stream).lines().map_while(Result::ok);
        assert!(answers.any(|line| line.starts_with("{\"status\":0,")));
        world.server().kill();
        assert_eq!(
            states(&world.json("status pool")),
            ["missing", "active", "active"]
        );
    }
}

/// A command never runs on another array than the one it names, whatever the arrays were called
/// before.
#[test]
fn arrays_that_swap_names_are_not_confused() {
    // A folder without the devices.
    let elsewhere = World::new("x", 8 << 20);
    let worlds = ["crimson", "azure"].map(|name| {
        let world = elsewhere.namesake("a b", 8 << 20);
        world.does("create pool raid1(a,b)");
        world.serve("");
        world.does(&format!("rename pool {name}"));
        world
    });
    let [one, two] = &worlds;
    let uuid = |name: &str| elsewhere.json(&format!("status {name}"))["uuid"].clone();
    let uuids = [uuid("crimson"), uuid("azure")];
    assert_ne!(uuids[0], uuids[1]);
    one.does("rename crimson viridian");
    two.does("rename azure crimson");
    assert_eq!([uuid("viridian"), uuid("crimson")], uuids);
    let renamed = elsewhere.ends("status azure", 1);
    renamed.warns("'azure' is called 'crimson' now");
    // A command sent to the wrong server is refused.
    let socket = one.control_of("viridian");
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let stop = json!({ "version": 2, "array": uuids[1], "operation": { "name": "stop" } });
    writeln!(stream, "{stop}").expect("it hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let has = format!("this server has array '{}'", one.unique("viridian"));
    assert!(answer.contains(&has), "{answer}");
    assert_eq!([uuid("viridian"), uuid("crimson")], uuids);
    // A name that two arrays share selects neither.
    one.does("rename viridian crimson");
    elsewhere.ends("stop crimson", 1).warns("several arrays");
    for world in &worlds {
        world.does("stop a,b");
    }
}

#[test]
fn the_control_socket_is_private_and_answers_each_request() {
    let world = World::uneven("a b", 64 << 20);
    world.does("create pool raid1(a,b)");
    world.serve(" --rebuild-rate 1M");
    let (path, pool) = (world.control(), world.unique("pool"));
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
    let ask = |operation: Value| talk(&format!("{}\n", world.request(&operation)));
    let note = |answers: &[Value]| answers[0]["note"].as_str().expect("a note").to_owned();
    assert_eq!(status(&talk("what?\n")), Some(2));
    assert_eq!(status(&talk("{\"operation\":{}}\n")), Some(2));
    assert_eq!(status(&say(b"{\"arguments\":[\"\xff\"]}\n")), Some(2));
    // Clients before version 2 sent command lines.
    let old = talk("{\"arguments\":[\"status\",\"pool\"],\"folder\":\"/\"}\n");
    assert!(note(&old).contains("not the command lines"), "{old:?}");
    assert_eq!(status(&old), Some(2));
    let mut newer = world.request(&json!({ "name": "status" }));
    newer["version"] = json!(7);
    let newer = talk(&format!("{newer}\n"));
    assert!(
        note(&newer).contains("version 2 of the protocol, not 7"),
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
    world
        .run("status pool")
        .warns("already runs 32 commands")
        .ends(1);
    drop(quiet);
    world.until("room for a command", |world| {
        world.run("status pool").status == 0
    });
    for (operation, unknown) in [
        (json!({ "name": "shrink" }), "`shrink`"),
        (json!({ "name": "scrub", "dry": true }), "`dry`"),
        (json!({ "name": "fail", "device": 1 }), "integer `1`"),
        (
            json!({ "name": "add", "device": "b" }),
            "absolute device names",
        ),
        (json!({}), "`name`"),
    ] {
        let refused = ask(operation);
        assert!(note(&refused).contains(unknown), "{refused:?}");
        assert_eq!(status(&refused), Some(2));
    }
    let answers = ask(json!({ "name": "status" }));
    let document = &answers.last().expect("an answer")["document"];
    assert_eq!(document["name"], json!(pool));
    assert_eq!(status(&answers), Some(0));
    // Any input ends a scrub. The server does not buffer a line without an end. On a busy machine
    // the scrub may be done before the server sees the input.
    let scrub = world.request(&json!({ "name": "scrub" }));
    let is_ended_by_input = || {
        let mut stream = UnixStream::connect(&path).expect("it listens");
        let limit = Some(Duration::from_mins(1));
        stream.set_read_timeout(limit).expect("a limit");
        writeln!(stream, "{scrub}").expect("it hears");
        // A finished scrub has closed the connection.
        drop(stream.write_all(&[b'x'; 1000]));
        let answers = BufReader::new(stream).lines().map_while(Result::ok);
        let answers: Vec<String> = answers.collect();
        let last = answers.last().expect("an answer");
        last.starts_with("{\"status\":1,")
    };
    assert!((0..20).any(|_| is_ended_by_input()));
    // A hang-up ends a scrub, and nothing else.
    let mut stream = UnixStream::connect(&path).expect("it listens");
    let scrub = world.request(&json!({ "name": "scrub" }));
    writeln!(stream, "{scrub}").expect("it hears");
    drop(stream);
    world.until("the end of the scrub", |world| {
        world.run("scrub pool").status == 0
    });
    world.does("stop pool");
    assert!(!path.exists());
}

/// Members come and go in every way, and reports match what the server has open.
#[test]
fn devices_added_to_a_served_array_are_known() {
    let world = World::uneven("a b c d e f", 16 << 20);
    world.does("create pool raid1(a,b,c) --spare f");
    world.serve("");
    // Adding a spare again does not list it twice.
    world.does("add f pool");
    world.does("spare add f --array pool");
    world.does("set pool --degraded-writes allow");
    world.does("spare remove f --array pool");
    // A spare that replaces a member is no longer a spare.
    world.does("spare add d --array pool");
    world.does("replace a --onto d pool");
    world.ends("status pool", 0);
    // The server has released the replaced device.
    let replaced = File::open(world.path("a")).expect("it is there");
    replaced.try_lock().expect("it is unlocked");
    drop(replaced);
    // The server no longer opens a removed spare.
    world.does("spare add e --array pool");
    world.does("spare remove e --array pool");
    world.does("set pool --degraded-writes allow");
    // A member added later can go and come back like any other.
    world.does("fail b pool");
    world.does("add e pool --force");
    world.does("fail e pool");
    assert!(
        world.json("status pool")["refused"]
            .to_string()
            .contains("/e:")
    );
    world.does("add e pool");
    // The device of a replaced member is free.
    world.does("spare add f --array pool");
    world.does("fail c pool");
    world.until("the spare", |world| world.run("status pool").status == 0);
    world.does("add c pool --force").prints("spare");
    // A member keeps its place when its file is renamed.
    world.rename("d", "away");
    let status = world.json("status pool");
    assert_eq!(states(&status), ["active"; 3], "{status}");
    world.rename("away", "d");
    // From any folder; by the UUID, as other tests serve arrays of the same name.
    let uuid = status["uuid"].as_str().expect("a UUID");
    let mut elsewhere = world.command(&format!("status {uuid}"));
    let status = elsewhere.current_dir("/").output().expect("it runs");
    assert!(String::from_utf8_lossy(&status.stdout).contains(uuid));
    world.does("stop pool");
    world.does("scrub pool");
}

/// From every folder, devices have the same names in reports, and commands act on the same devices.
#[test]
fn devices_are_the_same_from_every_folder() {
    let world = World::uneven("a b c d e", 16 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    // A file with the name of a device.
    let elsewhere = World::uneven("a", 16 << 20);
    let uuid = world.json("status pool")["uuid"].clone();
    let uuid = uuid.as_str().expect("a UUID");
    world.does("spare add d --array pool");
    world.does("fail a pool");
    world.until("the spare", |world| world.run("status pool").status == 0);
    // Add the failed device by another path.
    std::fs::create_dir(world.path("sub")).expect("a folder");
    world.does("add sub/../a pool --force");
    world.does("journal add e --array pool --force");
    // The server reopens the array.
    elsewhere.does(&format!("set {uuid} --degraded-writes allow"));
    let whole = |name: &str| json!(world.path(name));
    for world in [&world, &elsewhere] {
        let status = world.json(&format!("status {uuid}"));
        let members = status["members"].as_array().expect("members").iter();
        let devices: Vec<_> = members.map(|members| &members["device"]).collect();
        assert_eq!(devices, [&whole("d"), &whole("b"), &whole("c")]);
        assert_eq!(status["journal"]["device"], whole("e"));
        assert_eq!(status["spares"][0]["device"], whole("a"), "{status}");
    }
    world.does("stop pool");
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
        let world = World::uneven("a b c d", 200 << 20);
        world.does("create pool raid5(a,b,c) --chunk 16K");
        world.put("data", vec![7; 100 << 20]);
        world.does("copy data array:pool");
        if line.starts_with("add") {
            world.does("fail a pool");
        }
        world.serve(" --rebuild-rate 1M");
        let mut command = world.begin(line);
        let has_job = || {
            let jobs = &world.json("status pool")["jobs"];
            jobs.as_array().is_some_and(|jobs| !jobs.is_empty())
        };
        until("the job of the command", || {
            command.has_ended() || has_job()
        });
        world.does("stop pool");
        let ended = command.end(None);
        // The command may have ended already, or have come while the array was being closed.
        if ended.status > 0 && !ended.error.contains("it is being closed") {
            ended.ends(1).warns(begun);
        }
        world.does("resync pool");
        world.does("scrub pool");
    }
}

/// A stopped server process is named, with its PID, and no command waits for it.
#[test]
fn an_unresponsive_server_is_named() {
    let world = World::uneven("a b c d", 16 << 20);
    let others = world.namesake("a b", 16 << 20);
    world.does("create mute raid1(a,b)");
    world.does("create tarn raid1(c,d)");
    others.does("create pond raid1(a,b)");
    // Other tests serve arrays called pool or lake.
    world.serve_named("mute", "");
    let pid = world.with_server(|it| it.id());
    signal(pid, "STOP");
    let list = world.run("status --scan .");
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
    world.run("status mute").warns(&remedy).prints("member 1: ");
    for (at, line) in [
        (&others, "status mute"),
        (&others, "status mut"),
        (&world, "fail a mute"),
        (&world, "stop mute"),
    ] {
        at.ends(line, 1).warns(&remedy);
    }
    signal(pid, "CONT");
    // It finds the refused commands in its socket, and skips them.
    for _ in 0..10 {
        let status = world.json("status mute");
        assert_eq!(states(&status), ["active"; 2], "{status}");
        assert!(status["served"]["addresses"].is_array(), "{status}");
    }
    world.does("stop mute");
}

/// If a server accepts nothing, the first SIGTERM ends a waiting `status` or `stop`.
#[test]
fn the_first_signal_ends_a_waiting_command() {
    let world = World::uneven("a b", 16 << 20);
    world.does("create pool raid1(a,b)");
    world.serve("");
    let path = world.control();
    world.does("stop pool");
    let listener = UnixListener::bind(&path).expect("it is free");
    for line in ["status pool", "stop pool"] {
        let mut command = world.begin(line);
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
        command.signal("TERM");
        until("its end", || command.has_ended());
        assert_eq!(
            command.status().and_then(|status| status.signal()),
            Some(15)
        );
    }
    std::fs::remove_file(path).expect("it is there");
}

/// A recording of a served array is a trace that `show` reads and `replay` replays. It ends with
/// Ctrl-C and is kept. An existing file is not overwritten.
#[test]
fn what_a_served_array_is_asked_is_recorded() {
    let world = World::new("a b c", 16 << 20);
    world.does("create pool raid5(@a,@b,@c)");
    world.serve("");
    let mut recorder = world.begin("trace record pool --out @day.trace --seconds 600");
    recorder.says("array 'pool' is recorded");
    world.refuses(
        "trace record pool --out @other.trace",
        1,
        &["being recorded already"],
    );
    assert!(!world.path("other.trace").exists());
    world.put("data", vec![7; 3 << 20]);
    let (data, uri) = (world.full("data"), world.uri());
    world.run_words(&["copy", &data, &uri, "--verify"]).ok();
    recorder.signal("INT");
    recorder.end(None).ok().prints("requests in");
    let shown = world.json("trace show @day.trace");
    let operations = shown["operations"].as_array().expect("a list");
    let bytes = |name: &str| {
        let mut of = operations.iter().filter(|it| it["operation"] == name);
        of.next().and_then(|it| it["bytes"].as_u64()).unwrap_or(0)
    };
    assert!(
        bytes("write") >= 3 << 20 && bytes("read") >= 3 << 20,
        "{shown}"
    );
    let trace = world.text("day.trace");
    assert!(
        trace.starts_with("# spindles trace 1\ntime_ns,operation,"),
        "{trace}"
    );
    // It holds no data, and every request has its response time.
    assert!(
        trace.lines().skip(2).all(|line| !line.ends_with(',')),
        "{trace}"
    );
    let on = "--on single --members model:exos-x18-18tb --timing flat-out";
    world
        .does(&format!("trace replay @day.trace {on}"))
        .prints("response");
    world.refuses(
        "trace record pool --out @day.trace",
        2,
        &["exists", "--force"],
    );
    world.refuses(
        "trace record pool --out @day.trace --seconds 1 --force",
        1,
        &["was asked nothing", "is not written"],
    );
    assert_eq!(world.text("day.trace"), trace);
}

/// `status` and `stop` name NBD clients; without --force, `stop` does not disconnect them.
#[test]
fn stop_names_clients_and_keeps_them_connected() {
    let world = World::uneven("a b", 16 << 20);
    world.does("create pool raid1(a,b)");
    world.serve("");
    assert_eq!(
        world.json("status pool")["served"]["client_list"],
        json!([])
    );
    let export = world.uri();
    // A second server exports the first server's export with `--as-is`, and stays connected.
    let client = world.served(&format!("{export} --as-is --nbd unix:second"));
    let peer = format!("pid {}, spindles", client.id());
    let status = world.json("status pool");
    let clients = status["served"]["client_list"].as_array().expect("a list");
    let named = clients.iter().find(|client| client["peer"] == json!(peer));
    let named = named.unwrap_or_else(|| panic!("{status}"));
    assert_eq!(named["transport"], json!("nbd"));
    assert!(named["since_s"].as_u64().is_some_and(|at| at > 0));
    world
        .does("status pool")
        .prints(format!("client {peer} over nbd since "));
    world.ends("stop pool", 1).warns(&peer).warns("--force");
    world.does("status pool");
    world.does("stop pool --force");
}

/// A scrub and a replacement are shown. They take a minute on a machine of any speed, because one
/// member and the replacement carry 1 MiB/s.
#[test]
fn status_shows_the_jobs_of_a_server() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("a b d", 64 << 20);
    let slow = |disk: &str| {
        let line = format!("nbdkit -f -U @ --filter=rate file %/{disk} rate=8M");
        world.peer(disk, &line)
    };
    world.does("create pool raid1(a,b)");
    world.put("data", vec![7; 48 << 20]);
    world.does("copy data array:pool");
    let (_b, _d) = (slow("b"), slow("d"));
    let [b, d] = ["b", "d"].map(|disk| world.url(disk, ""));
    let places = format!("{}:{b}", world.full("a"));
    let _served = world.serve_on("pool", &places, "");
    // The name finds the server: commands need not look for devices, which are slow.
    let begin = |line: &str| {
        let mut command = world.command(line);
        command.env("SPINDLES_SCAN", "none");
        world.start(command)
    };
    let job = |status: &Value, what: &str| -> Option<Value> {
        let mut jobs = status["jobs"].as_array().expect("jobs").iter();
        jobs.find(|job| job["what"] == what).cloned()
    };
    let status_with = |what: &str, is_there: &dyn Fn(&Value) -> bool| {
        let mut status = Value::Null;
        until(what, || {
            status = world.at("none", "status pool --json").json();
            is_there(&status)
        });
        status
    };
    let scrub = begin("scrub pool");
    let status = status_with("the scrub", &|status| job(status, "scrub").is_some());
    let shown = job(&status, "scrub").expect("it was there");
    assert_eq!(shown["array"], json!("pool"));
    assert!(
        shown["total_bytes"].as_u64() > shown["done_bytes"].as_u64(),
        "{status}"
    );
    assert!(!status["users"][0]["work"].is_null(), "{status}");
    assert!(
        status["members"][0]["counters"]["reads"].as_u64() > Some(0),
        "{status}"
    );
    let replace = begin(&format!("replace {b} pool --onto {d}"));
    // The scrub waits from a moment after the replacement began.
    let status = status_with("the replacement", &|status| {
        let waits = |scrub: Value| scrub["waits_for"] == "replace";
        job(status, "replace").is_some() && job(status, "scrub").is_some_and(waits)
    });
    assert_eq!(status["members"][1]["copied_onto"], json!(d), "{status}");
    drop((replace, scrub));
    world.at("none", "stop pool --force");
}

/// While a spare is filled, the array survives no loss, and only the job says how far it is.
#[test]
fn status_warns_of_the_risk_while_a_spare_is_filled() {
    let world = World::uneven("a b c d", 64 << 20);
    world.does("create pool raid5(a,b,c) --spare d");
    world.put("data", vec![7; 96 << 20]);
    world.does("copy data array:pool");
    world.serve(" --rebuild-rate 1M");
    // Only an array in use is rebuilt at this rate.
    let Some(writer) = writer(&world, 4096, 60) else {
        return;
    };
    world.until("the writer", |world| {
        world.json("status pool")["served"]["writes"].as_u64() > Some(100)
    });
    world.does("fail a pool");
    world.until("the rebuild", |world| {
        let jobs = &world.json("status pool")["jobs"];
        jobs[0]["what"] == "rebuild" && jobs[0]["done_bytes"] != 0
    });
    let risk = "member 0 of 3 not filled yet; it is not safe from further losses";
    let status = world.run("status pool").warns(risk);
    let percents = status.out.matches(" % done").count();
    assert!(
        percents == 1 && status.out.contains("/d, being rebuilt, "),
        "{}",
        status.out
    );
    drop(writer);
    world.does("stop --force pool");
}

/// Unreadable data makes the array degraded at once, not only after the next scrub.
#[test]
fn status_reports_unrecoverable_data() {
    const AT: u64 = 30 << 20;
    let world = World::uneven("a b c", 64 << 20);
    world.does("create pool raid5(a,b,c)");
    world.put("data", vec![7; 100 << 20]);
    world.does("copy data array:pool");
    for name in ["a", "b"] {
        world.write(name, AT, &vec![0x5a; 1 << 20]);
    }
    world.serve("");
    let uri = world.uri();
    match Command::new("nbdcopy").args([&uri, "null:"]).output() {
        Ok(copied) => assert!(!copied.status.success(), "it has lost blocks"),
        Err(error) => return println!("SKIPPED: what redundancy can't heal: nbdcopy: {error}"),
    }
    let expected = "was found wrong could not be repaired";
    world.ends("status pool", 3).prints(expected);
    world.does("stop pool");
    world.ends("status pool", 3);
    // A new write repairs the blocks, and a scrub confirms it.
    world.does("copy data array:pool");
    world.does("scrub pool");
    world.does("status pool");
}

/// A command that changes an array makes its server close the devices for a moment. Commands that
/// wait for a device don't take it then.
#[test]
fn waiting_commands_take_no_device_from_a_server() {
    let world = World::uneven("a b c", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    for allowed in ["allow", "ask", "allow", "ask"] {
        let mut wipe = world.begin("wipe b --force");
        wipe.says("waiting up to ");
        world.does(&format!("set pool --degraded-writes {allowed}"));
        wipe.end(None).ends(1);
        assert_eq!(states(&world.json("status pool")), ["active"; 3]);
    }
    world.does("stop pool");
    world.does("wipe b --force");
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
    let world = World::uneven("a b c d e f j", 48 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    let thief = Thief::of(["a", "b"].map(|name| world.path(name)).to_vec());
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
        world.does(line);
    }
    assert_eq!(thief.taken(), Vec::<PathBuf>::new());
    world.does("stop pool");
    let thief = Thief::of(vec![world.path("a")]);
    world.until("the lock", |_| {
        thief.thread.is_finished() || {
            File::open(world.path("a"))
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
    let world = World::uneven("a b c", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    for allowed in ["allow", "ask"] {
        let lines = ["add b pool --force", "spare add b --shared --force"];
        let concurrent = lines.iter().cycle().take(6).map(|line| world.begin(line));
        let concurrent: Vec<Running> = concurrent.collect();
        world.does(&format!("set pool --degraded-writes {allowed}"));
        for command in concurrent {
            command.end(None).ends(1);
        }
        assert_eq!(states(&world.json("status pool")), ["active"; 3]);
    }
    world.does("stop pool");
}

/// If the file of a member is deleted, the array stays whole while it is served, `status` warns,
/// and commands still know the member by its name.
#[test]
fn a_member_with_a_deleted_file_is_known() {
    let world = World::uneven("a b c d", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    world.remove("b");
    let warned = format!("{} was moved or deleted", world.path("b").display());
    world.does("status pool").warns(&warned);
    world.run("grow pool --add d").warns("/b: No such file");
    world.does("fail b pool");
    assert_eq!(world.json("status pool")["state"], json!("degraded"));
    world.does("rebuild pool --onto d");
    let status = world.run("status pool");
    assert_eq!(
        (status.status, status.error.as_str()),
        (0, ""),
        "{status:?}"
    );
    world.does("stop pool");
}

/// A server releases a shared spare like a dedicated one.
#[test]
fn a_server_releases_a_shared_spare() {
    let world = World::uneven("a b c", 8 << 20);
    world.does("create pool raid1(a,b)");
    world.does("spare add c --shared");
    world.serve_named("pool c", "");
    assert_eq!(world.json("status pool")["spares"][0]["shared"], true);
    let remedy = "`spindles spare remove c --array pool`";
    for line in [
        "wipe c --force",
        "spare remove c",
        "create other raid1(c,a) --force",
    ] {
        world.run(line).warns(remedy);
    }
    world.does("spare remove c --array pool");
    assert_eq!(world.json("status pool")["spares"], json!([]));
    world.does("scrub pool").prints("nothing is wrong");
    world.does("stop pool");
    world.ends("spare remove c", 1);
}

/// A device that went out because of read errors comes back by what it missed. The rest of it was
/// not read, and `add` says so.
#[test]
fn add_advises_a_scrub_of_a_member_that_was_unreadable() {
    const KEPT: u64 = 7 << 20;
    let world = World::uneven("a b c", 64 << 20);
    world.does("create pool raid5(a,b,c)");
    world.put("data", vec![7; 100 << 20]);
    world.does("copy data array:pool");
    world.serve("");
    let file = File::options().write(true).open(world.path("b"));
    let file = file.expect("a file");
    let bytes = file.metadata().expect("its length").len();
    file.set_len(KEPT).expect("it is truncated");
    let uri = world.uri();
    let copied = Command::new("nbdcopy").args([&uri, "null:"]).output();
    if let Err(error) = copied {
        return println!("SKIPPED: an unreadable member that comes back: nbdcopy: {error}");
    }
    let status = world.json("status pool");
    assert_eq!(states(&status), ["active", "missing", "active"], "{status}");
    file.set_len(bytes).expect("it is extended");
    let warning = "too much of it could not be read or written";
    world
        .does("add b pool")
        .warns(warning)
        .warns("`spindles scrub pool`");
    world.run("scrub pool").prints("repaired");
    world.does("scrub pool --check");
    // A member that `fail` put out was readable.
    world.does("fail c pool");
    world.run("add c pool").warns_no(warning);
    world.does("stop pool");
}

/// The errors of a device stay after a kill, and until they are cleared, served or not.
#[test]
fn errors_are_counted_per_device_until_cleared() {
    const AT: u64 = 4 << 20;
    let rot = |world: &World| {
        world.write("b", AT, &[0x5a; 8192]);
    };
    let errors = |world: &World, member: usize| {
        world.json("status pool")["members"][member]["errors"].clone()
    };
    let world = World::uneven("a b c", 16 << 20);
    world.does("create pool raid5(a,b,c)");
    world.put("data", vec![7; 24 << 20]);
    world.does("copy data array:pool");
    rot(&world);
    world.serve("");
    world.does("scrub pool");
    let found = errors(&world, 1);
    assert_eq!(found["corrupt_bytes"], 8192, "{found}");
    assert_eq!(found["repaired_bytes"], 8192, "{found}");
    assert_eq!(errors(&world, 0)["corrupt_bytes"], 0);
    world
        .does("status pool")
        .prints("    errors: 8 KiB corrupt, 8 KiB repaired\n");
    world.server().kill();
    let kept = errors(&world, 1);
    assert_eq!(kept["corrupt_bytes"], 8192, "{kept}");
    world
        .does("examine b")
        .prints("errors: 8 KiB corrupt, 8 KiB repaired");
    world
        .does("status --clear-errors b")
        .prints("member 1, b: cleared 8 KiB corrupt, 8 KiB repaired");
    assert_eq!(errors(&world, 1)["corrupt_bytes"], 0);
    rot(&world);
    world.serve("");
    world.does("scrub pool");
    assert_eq!(errors(&world, 1)["corrupt_bytes"], 8192);
    world.does("status --clear-errors b pool");
    assert_eq!(errors(&world, 1)["corrupt_bytes"], 0);
    world
        .ends("status --clear-errors data", 1)
        .warns("data is no member of an array");
    world.does("stop pool");
    assert_eq!(errors(&world, 1)["corrupt_bytes"], 0);
}

/// A command on a served array reports only its own findings, not earlier ones.
#[test]
fn commands_report_only_what_they_met() {
    let world = World::uneven("a b c", 16 << 20);
    world.does("create pool raid1(a,b)");
    world.put("data", vec![7; 6 << 20]);
    world.does("copy data array:pool");
    let rot = |world: &World, back: usize| {
        let bytes = world.read("a");
        let is_filled = |block: &[u8]| block.iter().all(|byte| *byte == 7);
        let blocks = (0..).step_by(4096).zip(bytes.chunks(4096));
        let filled = blocks.filter(|(_, block)| is_filled(block));
        let (offset, _) = filled
            .collect::<Vec<_>>()
            .into_iter()
            .nth_back(back)
            .expect("data");
        // Nothing else: the server may write to the file now.
        world.write("a", offset, &[0xee; 100]);
    };
    rot(&world, 1);
    world.serve("");
    world.does("scrub pool");
    world.does("fail b pool");
    world.does("add b pool").warns_no("rotten");
    world.does("fail b pool");
    world
        .does("rebuild pool --onto b --force")
        .warns_no("rotten");
    rot(&world, 9);
    let met = "member 0: 4 KiB found rotten";
    world.does("replace a pool --onto c").warns(met);
    world.does("stop pool");
}

/// A scrub repairs the damaged label of a spare, and leaves other contents alone.
#[test]
fn a_scrub_repairs_the_label_of_a_spare() {
    let put = |world: &World, bytes: &[u8], at: u64| {
        world.write("c", at, bytes);
    };
    let world = World::uneven("a b c", 8 << 20);
    world.does("create pool raid1(a,b) --spare c");
    let label = world.read("c");
    world.serve("");
    put(&world, b"rot", 4096 + 100);
    world.ends("scrub pool --check", 1);
    let found = "4096 bytes of metadata (label of a spare) at 4096";
    world.does("scrub pool").prints(found);
    assert!(world.read("c") == label);
    world.does("scrub pool");
    put(&world, &[0xee; 4096], 4096);
    let left = world.ends("scrub pool", 1).prints(found);
    let c = world.path("c").display().to_string();
    let remedy = format!("`spindles spare add {c} --array pool --force`");
    assert!(left.error.contains(&remedy), "{left:?}");
    let now = world.read("c");
    assert!(now[4096..8192] == [0xee; 4096]);
    world.does("spare add c --array pool --force");
    world.does("scrub pool").prints("nothing is wrong");
    world.does("stop pool");
}

/// A scrub restores the superblocks of an inner array that has no redundancy and no checksums.
#[test]
fn a_scrub_inspects_inner_arrays_that_compare_nothing() {
    for expression in [
        "raid1(raid0(a,b),raid0(c,d))",
        "raid5(raid0(a,b),concat(c,d),e)",
    ] {
        let world = World::uneven("a b c d e", 8 << 20);
        world.does(&format!("create pool {expression}"));
        world.serve("");
        for name in ["a", "c"] {
            // The server may write both superblocks just then, as after its start.
            world.until("a scrub finds the superblocks", |world| {
                for slot in [4096, 32768] {
                    world.write(name, slot, &[0xee; 512]);
                }
                world.does("scrub pool").out.contains("of metadata")
            });
            world.does("scrub pool").prints("nothing is wrong");
        }
        world.does("stop pool");
        world.does("status pool");
        world.does("scrub pool");
    }
}

/// A read-only server writes nothing.
#[test]
fn a_read_only_server_writes_nothing() {
    let world = World::uneven("a b c d", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    let before = world.read("d");
    world.serve(" --read-only");
    for line in [
        "grow pool --add d",
        "add d pool",
        "spare add d --array pool",
        "rename pool lake",
        "fail a pool",
    ] {
        world.run(line).warns("for reading only");
    }
    world.does("status pool");
    world.does("stop pool");
    assert_eq!(before, world.read("d"));
}

/// A server whose helper has ended refuses a command that would close the array, and serves on.
#[test]
fn a_server_without_its_helper_keeps_its_arrays_open() {
    let world = World::uneven("a b c", 8 << 20);
    world.does("create pool raid5(a,b,c)");
    world.serve("");
    let server = world.with_server(|it| it.id());
    let children = format!("/proc/{server}/task/{server}/children");
    let children = std::fs::read_to_string(children).expect("a list");
    let Some(helper) = children.split_whitespace().next() else {
        return println!("SKIPPED a_server_without_its_helper_keeps_its_arrays_open: no sandbox");
    };
    signal(helper.parse().expect("a number"), "KILL");
    for line in ["set pool --degraded-writes allow", "rename pool lake"] {
        world.ends(line, 1).warns("has ended or does not answer");
    }
    world.does("status pool");
    world.does("stop pool");
}

/// The stale socket of a killed server does not stop commands.
#[test]
fn commands_use_an_array_after_its_server_was_killed() {
    let world = World::uneven("a b", 8 << 20);
    world.does("create pool raid1(a,b)");
    world.serve("");
    let path = world.control();
    world.server().kill();
    assert!(path.exists());
    world.does("status pool");
    world.does("scrub pool");
    world.serve("");
    world.does("stop pool");
    assert!(!path.exists());
}
