//! Several arrays on one server: each is a separate export, and events of one do not affect the
//! others.

use super::{MIB, Pool, Served, has, pattern, read};
use crate::loop_devices::Loop;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// For a block device: exclusive use. From `asm-generic/fcntl.h` of Linux.
const O_EXCL: i32 = 0o200;

/// Array 'pool', and another array, 'music'.
fn two() -> Pool {
    let pool = Pool::new("raid5", "a,b,c", 24 * MIB);
    make(&pool, &["d", "e"]);
    created(&pool, "music", "raid1(d,e)");
    pool
}

fn make(pool: &Pool, files: &[&str]) {
    for name in files {
        let file = File::create(pool.path(name)).expect("a file");
        let bytes = u64::try_from(24 * MIB).expect("64 bits");
        file.set_len(bytes).expect("its length");
    }
}

fn created(pool: &Pool, name: &str, expression: &str) {
    let created = pool.spindles(&["create", name, expression]);
    assert!(created.status.success(), "{created:?}");
}

fn serve<'a>(pool: &'a Pool, more: &[&str]) -> Served<'a> {
    let what = [&["pool", "music"], more].concat();
    pool.serve_what(&what, super::POOL_SERVED)
}

fn listed(served: &Served<'_>) -> String {
    let socket = served.pool.path("socket");
    let line = format!("nbdinfo --list nbd+unix:///?socket={}", socket.display());
    String::from_utf8(served.run(&line).stdout).expect("text")
}

/// Runs a command on an array. Returns its exit status and output.
fn status_of(pool: &Pool, line: &str) -> (Option<i32>, String) {
    let run = pool.spindles(&line.split(' ').collect::<Vec<_>>());
    let output = [run.stdout, run.stderr].concat();
    (
        run.status.code(),
        String::from_utf8_lossy(&output).into_owned(),
    )
}

fn fio(served: &Served<'_>, export: &str) -> Child {
    let uri = served.uri.replace("/pool?", &format!("/{export}?"));
    let line = format!(
        "60 fio --name={export} --ioengine=nbd --uri={uri} --rw=randwrite --bs=4k --iodepth=16 \
         --size=16M --loops=2 --verify=crc32c --verify_fatal=1"
    );
    let mut command = Command::new("timeout");
    let command = command.args(line.split_whitespace());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
        .current_dir(served.pool.0.path())
        .spawn()
        .expect("it runs")
}

fn ended_well(process: Child) {
    let output = process.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn each_array_is_an_export_with_its_own_description() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = two();
    let served = serve(&pool, &[]);
    let list = listed(&served);
    for expected in [
        "export=\"pool\"",
        "raid5 of 3",
        "export=\"music\"",
        "raid1 of 2",
    ] {
        assert!(list.contains(expected), "{expected}: {list}");
    }
    let music = served.uri.replace("/pool?", "/music?");
    let sizes = ["@", &music].map(|uri| served.run(&format!("nbdinfo --size {uri}")).stdout);
    assert_ne!(sizes[0], sizes[1]);
    // Without a name, no export is selected.
    let nameless = served.uri.replace("/pool?", "/?");
    let refused = served.try_run(&format!("nbdinfo {nameless}"));
    assert!(!refused.status.success(), "{refused:?}");
    std::fs::write(pool.path("in"), pattern(8 * MIB, 1)).expect("it is written");
    served.run(&format!("nbdcopy --flush %/in {music}"));
    served.run("nbdcopy @ %/out");
    assert!(read(&pool.path("out")).iter().all(|byte| *byte == 0));
    // Stopping one leaves the other, which is not served to clients without a name either.
    let (code, output) = status_of(&pool, "stop pool");
    assert_eq!(code, Some(0), "{output}");
    let list = listed(&served);
    assert!(!list.contains("export=\"pool\""), "{list}");
    assert!(list.contains("export=\"music\""), "{list}");
    let refused = served.try_run(&format!("nbdinfo {nameless}"));
    assert!(!refused.status.success(), "{refused:?}");
    served.run(&format!("nbdcopy {music} %/out"));
    assert!(read(&pool.path("out")).starts_with(&pattern(8 * MIB, 1)));
    let (code, output) = status_of(&pool, "stop music");
    assert_eq!(code, Some(0), "{output}");
    let output = served.stop_has_come();
    for closed in ["array 'pool' is closed", "array 'music' is closed"] {
        assert!(output.contains(closed), "{output}");
    }
    assert!(!pool.path("socket").exists(), "the socket is left");
}

/// Arrays named together are handled one after the other, even if one of them fails.
#[test]
fn one_command_shows_or_stops_several_arrays() {
    let pool = two();
    let served = serve(&pool, &[]);
    let (code, output) = status_of(&pool, "fail d music");
    assert_eq!(code, Some(0), "{output}");
    let (code, output) = status_of(&pool, "status pool music");
    assert_eq!(code, Some(3), "{output}");
    for array in ["array 'pool' (", "array 'music' ("] {
        assert!(output.contains(array), "{output}");
    }
    let run = pool.spindles(&["status", "pool", "music", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let states = [&json["arrays"][0]["state"], &json["arrays"][1]["state"]];
    assert_eq!(states, ["healthy", "degraded"], "{json}");
    let (code, output) = status_of(&pool, "status pool music a");
    assert_eq!(code, Some(2), "{output}");
    let (code, output) = status_of(&pool, "stop pool absent music");
    assert_eq!(code, Some(1), "{output}");
    for words in [
        "'pool' is not served any more",
        "'absent' is neither",
        "'music' is not served any more",
    ] {
        assert!(output.contains(words), "{output}");
    }
    served.stop_has_come();
}

#[test]
fn commands_on_one_array_do_not_disturb_another() {
    if !has("fio", "fio") {
        return;
    }
    let pool = two();
    let served = serve(&pool, &[]);
    let writers = ["pool", "music"].map(|export| fio(&served, export));
    std::thread::sleep(Duration::from_millis(300));
    for (line, wanted) in [
        ("fail a pool", Some(0)),
        ("status pool", Some(3)),
        ("status music", Some(0)),
        ("scrub music", Some(0)),
        ("remove a pool", Some(0)),
        ("add a pool --force", Some(0)),
        ("status pool", Some(0)),
    ] {
        let (code, output) = status_of(&pool, line);
        assert_eq!(code, wanted, "{line}: {output}");
    }
    for writer in writers {
        ended_well(writer);
    }
    // The same while another array stops being served.
    let writer = fio(&served, "pool");
    let (code, output) = status_of(&pool, "stop music");
    assert_eq!(code, Some(0), "{output}");
    ended_well(writer);
    served.stop();
    for line in ["status pool", "scrub pool", "status music", "scrub music"] {
        let (code, output) = status_of(&pool, line);
        assert_eq!(code, Some(0), "{line}: {output}");
        assert!(
            !line.starts_with("status") || output.contains(" clean,"),
            "{output}"
        );
    }
}

/// An export name that clients know is not given to another array, even after its own array was
/// renamed.
#[test]
fn a_served_export_name_is_not_given_to_another_array() {
    let pool = two();
    let served = serve(&pool, &[]);
    for (line, wanted) in [
        ("rename music jazz", Some(0)),
        ("rename pool music", Some(1)),
        ("status pool", Some(0)),
        // Its own name is free for it.
        ("rename jazz music", Some(0)),
        ("rename music jazz", Some(0)),
        ("stop jazz", Some(0)),
        ("rename pool music", Some(0)),
    ] {
        let (code, output) = status_of(&pool, line);
        assert_eq!(code, wanted, "{line}: {output}");
        assert_eq!(
            output.contains("find another array by"),
            code == Some(1),
            "{output}"
        );
    }
    let output = served.stop();
    for closed in ["array 'jazz' is closed", "array 'music' is closed"] {
        assert!(output.contains(closed), "{output}");
    }
}

/// The status line of systemd and the metrics page name the arrays.
#[test]
fn systemd_and_metrics_name_each_array() {
    let pool = two();
    let notify = UnixDatagram::bind(pool.path("notify")).expect("a socket");
    let limit = Some(Duration::from_secs(10));
    notify.set_read_timeout(limit).expect("it can be set");
    let mut command = crate::program_in(pool.0.path());
    command.env("NOTIFY_SOCKET", pool.path("notify"));
    let address = format!("unix:{}", pool.path("socket").display());
    let what = ["pool", "music", "--metrics", "0"];
    let mut served = pool.serve_by(command, &address, &what, super::POOL_SERVED);
    let heard = || {
        let mut bytes = [0; 512];
        let count = notify.recv(&mut bytes).expect("a notification");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let at = |name: &str| format!("nbd+{address}").replace(":/", &format!(":///{name}?socket=/"));
    assert_eq!(
        heard(),
        format!(
            "READY=1\nSTATUS=array 'pool': healthy, at {}; array 'music': healthy, at {}",
            at("pool"),
            at("music")
        )
    );
    let (code, output) = status_of(&pool, "fail d music");
    assert_eq!(code, Some(0), "{output}");
    let now = heard();
    let wanted = format!(
        "STATUS=array 'pool': healthy, at {}; array 'music': degraded: without member 0, at {}",
        at("pool"),
        at("music")
    );
    assert_eq!(now, wanted);
    let url = loop {
        if let Some((_, url)) = served.line().split_once("has metrics: http://") {
            break url.trim_end().to_owned();
        }
    };
    let (host, _) = url.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("it listens");
    let ask = b"GET /metrics HTTP/1.1\r\n\r\n";
    stream.write_all(ask).expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("text");
    for line in [
        "spindles_array_state{array=\"pool\",state=\"healthy\"} 1\n",
        "spindles_array_state{array=\"music\",state=\"healthy\"} 0\n",
        "spindles_server_clients{array=\"music\"} 0\n",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert_eq!(page.matches("spindles_build_info{").count(), 1, "{page}");
    let (code, output) = status_of(&pool, "stop pool");
    assert_eq!(code, Some(0), "{output}");
    assert!(heard().starts_with("STATUS=array 'pool': closed; array 'music': degraded"));
    served.stop();
    assert_eq!(heard(), "STOPPING=1");
}

#[test]
fn conflicting_arrays_are_refused_as_a_whole() {
    let pool = two();
    make(&pool, &["f", "g", "h"]);
    created(&pool, "lacking", "raid5(f,g,h)");
    for name in ["g", "h"] {
        std::fs::remove_file(pool.path(name)).expect("it is there");
    }
    // An array of the same name, distinguished only by its devices.
    std::fs::create_dir(pool.path("other")).expect("a folder");
    make(&pool, &["other/a", "other/b"]);
    let mut command = crate::program_in(&pool.path("other"));
    let namesake = command.args(["create", "pool", "raid1(a,b)"]).output();
    let namesake = namesake.expect("the command runs");
    assert!(namesake.status.success(), "{namesake:?}");
    let cases: [(&[&str], i32, &str); 7] = [
        (
            &["a", "b", "c", "other/a", "other/b"],
            2,
            "two of these are called 'pool'",
        ),
        (&["pool", "lacking"], 1, "lacking"),
        (&["mem:8M", "mem:8M"], 2, "two of these are called 'mem:8M'"),
        (
            &["pool", "d", "e", "--control", "x"],
            2,
            "--control is a socket for commands on one array",
        ),
        (
            &["pool", "music", "--fuse", "x"],
            2,
            "give it once for each of the 2",
        ),
        (
            &["pool", "d", "raid1(a,b)"],
            2,
            "make it with spindles create",
        ),
        (
            &["pool", "mem:8M", "--checksum", "none"],
            2,
            "is for a fresh array",
        ),
    ];
    for (what, code, error) in cases {
        let refused = pool.spindles(&[&["serve", "--nbd", "unix:socket"], what].concat());
        let message = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(code), "{what:?}: {message}");
        assert!(message.contains(error), "{what:?}: {message}");
        assert!(
            !pool.path("socket").exists() && !pool.path("x").exists(),
            "{what:?}"
        );
        let (code, output) = status_of(&pool, "status pool");
        assert!(
            code == Some(0) && output.contains(" clean,"),
            "{what:?}: {output}"
        );
    }
    // A refused array has not changed, nor have the others: 'pool' would lack a member.
    for gone in ["c", "e"] {
        std::fs::remove_file(pool.path(gone)).expect("it is there");
    }
    let names = ["a", "b", "d", "other/a", "other/b"];
    let before = names.map(|name| read(&pool.path(name)));
    for (what, error) in [
        (["a", "b", "d"].as_slice(), "array 'music' lacks member 1"),
        (&["a", "b", "other/a", "other/b"], "two of these are called"),
        (&["a", "b", "mem:1"], "mem:1"),
    ] {
        let refused = pool.spindles(&[&["serve", "--nbd", "unix:socket"], what].concat());
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(
            !refused.status.success() && message.contains(error),
            "{message}"
        );
        let after = names.map(|name| read(&pool.path(name)));
        assert!(before == after, "{what:?} changed something");
    }
}

/// Refused because another process has the other array, or a device of it: no array has changed.
fn is_refused_as_busy(pool: &Pool, other: &str, busy: &str) {
    let names = ["a", "b", "c", "d", "e"];
    let contents = || names.map(|name| read(&pool.path(name)));
    let before = contents();
    let refused = pool.spindles(&["serve", "pool", other, "--nbd", "unix:other"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(
        message.contains(&format!("{busy} is in use by")),
        "{message}"
    );
    assert!(before == contents(), "something changed");
    assert!(!pool.path("other").exists());
    // It was not even opened and closed.
    let (_, status) = status_of(pool, "status pool");
    assert!(status.contains("clean, generation 1\n"), "{status}");
}

#[test]
fn serve_refuses_all_arrays_if_another_server_has_one() {
    let pool = two();
    let other = pool.serve_what(&["music"], "array 'music' is served: nbd");
    is_refused_as_busy(&pool, "music", "d");
    other.stop();
    serve(&pool, &[]).stop();
}

/// Like a mounted device: opened exclusively.
#[test]
fn serve_refuses_all_arrays_if_a_device_is_busy() {
    let pool = Pool::new("raid5", "a,b,c", 24 * MIB);
    make(&pool, &["d", "e"]);
    created(&pool, "held", "raid1(d,e)");
    let test = "serve_refuses_all_arrays_if_a_device_is_busy";
    let device = match Loop::with(&pool.path("d"), &[]) {
        Ok(device) => device,
        Err(reason) => return println!("SKIPPED: {test}: {reason}"),
    };
    let holder = pool.serve_what(&[&device.0, "--as-is"], "is served as it is");
    is_refused_as_busy(&pool, "held", "/d");
    holder.stop();
    drop(device);
    pool.serve_what(&["pool", "held"], super::POOL_SERVED)
        .stop();
}

/// After a growth new clients get the new size of the export.
#[test]
fn new_clients_see_a_growth() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = Pool::new("raid5", "a,b,c", 40 * MIB);
    let new = File::create(pool.path("d")).expect("a file");
    new.set_len(40 << 20).expect("its length");
    let served = pool.serve_what(&["pool"], super::POOL_SERVED);
    let size = || -> u64 {
        let output = Command::new("nbdinfo")
            .args(["--size", &served.uri])
            .output();
        let output = String::from_utf8(output.expect("it runs").stdout).expect("text");
        output.trim().parse().expect("a number")
    };
    let before = size();
    let grown = pool.spindles(&["grow", "pool", "--add", "d"]);
    assert!(grown.status.success(), "{grown:?}");
    assert!(size() * 2 > before * 3 - (2 << 20), "{before}");
    served.stop();
}

/// `grow` rejects a device whose underlying device is in use: the array would lose the new member.
#[test]
fn grow_refuses_a_busy_device() {
    let pool = Pool::new("raid5", "a,b,c", 40 * MIB);
    let new = File::create(pool.path("d")).expect("a file");
    new.set_len(40 << 20).expect("its length");
    let device = match Loop::with(&pool.path("d"), &[]) {
        Ok(device) => device,
        Err(reason) => return println!("SKIPPED: grow_refuses_a_busy_device: {reason}"),
    };
    // Like a mounted file system.
    let held = File::options()
        .read(true)
        .custom_flags(O_EXCL)
        .open(&device.0);
    let held = held.expect("it is unlocked");
    let refused = pool.spindles(&["grow", "pool", "--add", "d", "--force"]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{message}");
    assert!(message.contains("d is in use by"), "{message}");
    let (code, status) = status_of(&pool, "status pool");
    assert_eq!(code, Some(0), "{status}");
    assert!(status.contains("clean, generation 1\n"), "{status}");
    drop(held);
}

#[test]
fn a_device_given_twice_is_refused() {
    let pool = two();
    std::os::unix::fs::symlink("a", pool.path("link")).expect("a link");
    for (other, error) in [
        ("a", "a is given twice"),
        ("./link", "a and ./link are the same device"),
    ] {
        let line = [
            "serve",
            "a",
            other,
            "--as-is",
            "--read-only",
            "--nbd",
            "unix:socket",
        ];
        let begun = std::time::Instant::now();
        let refused = pool.spindles(&line);
        let message = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.contains(error), "{message}");
        assert!(begun.elapsed() < Duration::from_secs(2), "it waited");
    }
}

#[test]
fn devices_are_grouped_by_their_arrays() {
    let pool = two();
    // In any order; an array named twice is one export.
    let what = ["d", "pool", "e", "a", "mem:8M"];
    let mut served = pool.serve_what(&what, "array 'music' is served: nbd");
    for export in ["array 'pool'", "mem:8M is served"] {
        let line = served.line();
        assert!(line.contains(export), "{line}");
    }
    served.stop();
}

/// One spare for several arrays of a server: the first array that needs it takes it, and the others
/// lose it.
#[test]
fn a_shared_spare_is_taken_once() {
    for shared in [
        &["spare add s --shared"][..],
        &["spare add s --array pool", "spare add s --array music"],
    ] {
        let pool = two();
        make(&pool, &["s", "t", "log"]);
        let does = |line: &str, wanted: i32| {
            let (code, output) = status_of(&pool, line);
            assert_eq!(code, Some(wanted), "{line}: {output}");
            output
        };
        for line in shared {
            does(line, 0);
        }
        // A spare that is not shared is found automatically.
        let more = if shared.len() == 1 { &["s"][..] } else { &[] };
        let served = serve(&pool, more);
        for array in ["pool", "music"] {
            assert!(does(&format!("status {array}"), 0).contains("  spare: "));
        }
        let output = does("fail e music", 0);
        assert!(output.contains("s, a spare, takes its place"), "{output}");
        assert!(!does("status pool", 0).contains("  spare: "));
        does("fail a pool", 0);
        let output = does("status pool", 3);
        assert!(output.contains("when it is added again"), "{output}");
        // Commands that reopen an array do without it too.
        does("journal add log --array pool", 0);
        does("stop pool music", 0);
        served.stop_has_come();
        // The array opened first takes it at once.
        does("spare add t --shared", 0);
        does("fail d music", 0);
        let served = pool.serve_what(&["pool", "music", "t", "--degraded"], super::POOL_SERVED);
        let has_taken = || status_of(&pool, "status pool").1.contains("/t, active");
        assert!((0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            has_taken()
        }));
        does("status music", 3);
        does("stop pool music", 0);
        served.stop_has_come();
    }
}

/// A device that one array released becomes a member of the other: the first no longer counts on
/// it.
#[test]
fn a_device_moves_from_one_array_to_another() {
    let pool = two();
    let larger = File::create(pool.path("f")).expect("a file");
    larger.set_len(32 << 20).expect("its length");
    let served = serve(&pool, &[]);
    let does = |line: &str| {
        let (code, output) = status_of(&pool, line);
        assert_eq!(code, Some(0), "{line}: {output}");
        output
    };
    for line in [
        "fail c pool",
        "remove c pool",
        "rebuild pool --onto f",
        "wipe c --force",
        "fail e music",
        "rebuild music --onto c",
    ] {
        does(line);
    }
    assert!(does("status music").contains("/c, active"));
    let output = does("status pool");
    assert!(!output.contains("left out"), "{output}");
    does("grow pool --size max");
    does("rename pool ocean");
    does("stop ocean music");
    served.stop_has_come();
}

/// All members are replaced, and the array is reopened so often that no record mentions the first
/// ones any longer: the server does not count on them.
#[test]
fn replaced_devices_are_forgotten() {
    let pool = Pool::new("raid5", "a,b,c", 24 * MIB);
    for name in ["d", "e", "f"] {
        let larger = File::create(pool.path(name)).expect("a file");
        larger.set_len(32 << 20).expect("its length");
    }
    let served = pool.serve_what(&["pool"], super::POOL_SERVED);
    let does = |line: &str| {
        let (code, output) = status_of(&pool, line);
        assert_eq!(code, Some(0), "{line}: {output}");
    };
    for (old, new) in [("a", "d"), ("b", "e"), ("c", "f")] {
        does(&format!("fail {old} pool"));
        does(&format!("rebuild pool --onto {new}"));
    }
    for _ in 0..4 {
        does("set pool --degraded-writes allow");
        does("set pool --degraded-writes ask");
    }
    does("grow pool --size max");
    does("rename pool ocean");
    does("stop ocean");
    served.stop_has_come();
}
