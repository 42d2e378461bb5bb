//! Messages for an administrator with a wrong idea of an array: each explains the state, and the
//! next command.

use super::{MIB, POOL_SERVED, SOCKET, Served, array, serve, serve_by, serve_what};
use crate::world::World;
use spindles_admin::assemble::AssembleOptions;
use spindles_engine::Scrub;
use std::process::{Command, Stdio};

/// Waits until `status` contains this text.
fn until(pool: &World, wanted: &str) {
    pool.until(wanted, |pool| {
        pool.run("status pool").all().contains(wanted)
    });
}

/// A spare takes a member's place before anybody can remove the member, and commands do not refer
/// to each other in a circle.
#[test]
fn fail_names_the_spare_that_replaces_the_member() {
    let pool = array("raid5", "a,b,c", 16 * MIB);
    for (name, mib) in [("s", 20), ("r", 21)] {
        pool.make(name, mib << 20);
    }
    let mut served = serve(&pool, &[]);
    pool.run("spare add s --array pool");
    let spare = pool.full("s");
    let wanted = format!("{spare}, a spare, takes its place: `spindles status pool` shows");
    pool.run("fail b pool").warns(wanted);
    until(&pool, &format!("member 1: {spare}, active"));
    let (b, r) = (pool.path("b"), pool.path("r"));
    let (b, r) = (b.display(), r.display());
    let wanted = format!("has already released {b}: {spare} is member 1 in its place");
    pool.run("remove b pool")
        .prints(&wanted)
        .warns(format!("`spindles wipe {b}` makes a plain device"));
    // A spare that is added while a member is out is filled, without a warning.
    pool.run("fail c pool").warns("/c pool` takes it back");
    let wanted = format!("array 'pool': spare {r} takes the place of member 2");
    pool.run("spare add r --array pool")
        .warns(&wanted)
        .says_no("not safe");
    until(&pool, "healthy");
    // The log has all of these commands, also the refused one.
    pool.run("fail nosuch pool");
    for wanted in [
        "array 'pool': command done: spindles spare add s --array pool",
        "array 'pool': command done: spindles fail b pool",
        "array 'pool': command done: spindles remove b pool",
        "command ended with exit status 1: spindles fail nosuch pool: /",
    ] {
        served.server.says(wanted);
    }
    let said = served.server.said();
    assert!(!said.contains("spindles status"), "{said}");
    // No process has the array open: the spare is filled later.
    pool.run("stop pool");
    pool.run("spare add c --array pool --force")
        .prints("c is a spare of array 'pool'");
    let wanted =
        "c, a spare, takes its place as soon as the array is used: `spindles rebuild pool`";
    pool.run("fail a pool").warns(wanted);
    pool.run("rebuild pool").prints("member 0 is active again");
}

/// A refused growth leaves the array open as it was.
#[test]
fn a_refused_growth_keeps_the_array_open() {
    let pool = array("raid5", "a,b,c", 16 * MIB);
    let served = serve(&pool, &[]);
    pool.run("fail b pool");
    // Only a server with the device open can name it.
    let wanted = format!("member 1: {}, out: as a command asked", pool.full("b"));
    pool.run("status pool").prints(&wanted);
    for line in [
        "grow pool --chunk 128K",
        "grow pool --abort",
        "rename pool pool",
    ] {
        pool.run(line);
        pool.run("status pool").prints(&wanted);
    }
    pool.run("fail a pool")
        .warns("stays a member of array 'pool'")
        .warns("spindles replace");
    pool.run("stop pool");
    served.stop_has_come();
    let wanted = "member 1: out: as a command asked, in generation ";
    pool.run("status pool").prints(wanted);
}

/// For an unknown or ambiguous name, the error lists the served arrays and their devices.
#[test]
fn errors_for_unknown_names_list_the_served_arrays() {
    let one = array("raid1", "a,b", 8 * MIB);
    let other = one.namesake("c d", 8 << 20);
    other.does("create pool raid1(c,d)");
    let served = [serve(&one, &[]), serve(&other, &[])];
    let elsewhere = one.namesake("", 0);
    let devices = [one.full("a"), other.full("d")];
    // The list may include servers of other tests, even a server that is just ending.
    for (line, wanted) in [
        (
            "status pool",
            "give the UUID of the one you mean in place of the name\n  'pool' (",
        ),
        ("status no-such-array", "\nServed:\n  "),
        ("examine no-such-array", "\nServed:\n  "),
    ] {
        elsewhere.run(line).says(wanted).says(&devices);
    }
    for pool in [&one, &other] {
        pool.run("stop pool");
    }
    for served in served {
        served.stop_has_come();
    }
}

/// The error for a wrong or useless command says what to type.
#[test]
fn errors_for_useless_commands_say_what_to_type() {
    let pool = array("raid5", "a,b,c", 8 * MIB);
    pool.make("d", 16 << 20);
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
        pool.run(line).says(wanted);
    }
}

/// A server that no command finds is ended by a signal, and the error names it.
#[test]
fn stop_says_how_to_end_a_server_without_an_array() {
    let pool = array("raid1", "a,b", 8 * MIB);
    let fresh = "raid1(mem:7M,mem:9M)";
    let served = serve_what(&pool, &[fresh], "is served, and gone when this ends");
    let kill = |served: &Served<'_>| format!("`kill {}`", served.server.id());
    pool.run(&format!("stop {fresh}"))
        .warns(fresh)
        .warns(kill(&served));
    pool.run("stop mem:7M")
        .warns("no server that this user may see serves mem:7M");
    pool.run(&format!("status {fresh}"))
        .warns("describes a new array");
    served.stop();
    for (what, arguments) in [
        ("a", ["a", "--as-is"].as_slice()),
        ("pool", &["pool", "--control", "control"]),
    ] {
        let served = serve_what(&pool, arguments, "is served");
        pool.run(&format!("stop {what}")).warns(kill(&served));
        if what == "pool" {
            let by = format!("by this user, pid {}", served.server.id());
            pool.run("status --scan .").prints(by);
        }
        served.stop();
    }
}

/// Root sees that an array is served, even though its server does not answer root.
#[test]
fn another_users_server_is_listed() {
    const NAME: &str = "another_users_server_is_listed";
    let pool = array("raid1", "a,b", 8 * MIB);
    let program = pool.path("spindles");
    std::fs::copy(env!("CARGO_BIN_EXE_spindles"), &program).expect("it is copied");
    let folder = pool.folder();
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
    let served = serve_by(&pool, command, SOCKET, &["pool"], POOL_SERVED);
    let id = served.server.id();
    pool.run("status --scan .")
        .prints(format!("by user nobody, pid {id}"));
    let wanted = format!("in use by pid {id} of user nobody (");
    pool.run("status pool").prints(&wanted);
    for line in ["stop pool", "scrub pool", "fail b pool"] {
        pool.run(line)
            .warns("as with `sudo -u nobody`")
            .says_no("`spindles stop");
    }
    served.stop();
}

/// `status` of a served array shows that a scrub was stopped. The log says where the next one
/// begins, and that it read only the rest.
#[test]
fn a_served_array_reports_where_a_scrub_was_stopped() {
    let pool = array("raid5", "a,b,c", 48 * MIB);
    pool.put("in", vec![7; 90 * MIB]);
    pool.run("copy in array:pool");
    let paths = ["a", "b", "c"].map(|name| pool.full(name));
    let scrubbed = spindles_admin::scrub::scrub(
        &paths.each_ref().map(String::as_str),
        &AssembleOptions::default(),
        Scrub::default(),
        &mut |_| {},
        &mut |done, total| done * 2 < total,
    );
    assert!(!scrubbed.expect("it is there").through);
    let stopped = "; a scrub was stopped at ";
    let shown = || {
        let status = pool.run("status pool").out;
        let (_, rest) = status.split_once(stopped)?;
        Some(rest.split_once(" %, and goes on there")?.0.to_owned())
    };
    let percent = shown().expect("it was stopped");
    let mut served = serve(&pool, &[]);
    assert_eq!(shown().as_ref(), Some(&percent));
    pool.run("scrub pool")
        .prints(format!("goes on at {percent} %, "));
    let behind = format!("{percent} %, where an earlier one was stopped");
    served.server.says(&format!("a scrub begins at {behind}"));
    let rest = format!("it read only what follows {behind}");
    served
        .server
        .says(&format!("a scrub is done: nothing is wrong; {rest}"));
    assert_eq!(shown(), None);
    served.stop();
}

/// A command that reopens the array reports the members that are missing then, and so does the
/// server.
#[test]
fn reopening_an_array_reports_missing_members() {
    let pool = array("raid5", "a,b,c", 8 * MIB);
    let mut served = serve(&pool, &[]);
    pool.rename("b", "away");
    pool.run("status pool").prints("healthy");
    pool.run("set pool --degraded-writes ask").says([
        "member 1, ",
        "/b, is missing now",
        "degraded",
    ]);
    served.server.says("/b, is missing now");
    served.stop();
}
