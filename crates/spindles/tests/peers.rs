//! Arrays whose members are exports of NBD servers: nbdkit, qemu-nbd, and our own. Servers are
//! killed and return.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::serve::authority;

use authority::Authority;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// A folder with the disks and sockets of some servers.
struct World(TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn disk(&self, name: &str, bytes: usize) {
        let file = std::fs::File::create(self.path(name)).expect("a file");
        file.set_len(u64::try_from(bytes).expect("64 bits"))
            .expect("its length");
    }

    /// The address of an export on the socket of a disk.
    fn url(&self, disk: &str, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.path(disk).display()) + ".sock"
    }

    /// Starts a server that listens on the socket of a disk, and waits until it does.
    fn start(&self, disk: &str, line: &str) -> Peer {
        let socket = self.path(disk).with_extension("sock");
        drop(std::fs::remove_file(&socket));
        let line = line
            .replace('%', self.0.path().to_str().expect("UTF-8"))
            .replace('@', socket.to_str().expect("UTF-8"));
        let peer = Peer::spawn(&line);
        await_that("it listens", || UnixStream::connect(&socket).is_ok());
        peer
    }

    fn nbdkit(&self, disk: &str) -> Peer {
        self.start(disk, &format!("nbdkit -f -U @ file %/{disk}"))
    }

    /// Starts our own server of an array, on the socket of that name.
    fn serve(&self, array: &str) -> Peer {
        self.serve_on(array, "")
    }

    /// Like `serve`, for an array that is found in these places.
    fn serve_on(&self, array: &str, places: &str) -> Peer {
        self.serve_with(array, places, &[])
    }

    fn serve_with(&self, array: &str, places: &str, more: &[&str]) -> Peer {
        let socket = self.path(array).with_extension("sock");
        let address = format!("unix:{}", socket.display());
        let mut command = self.command(places, &["serve", array, "--nbd", &address]);
        command.args(more);
        let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        lines.read_line(&mut line).expect("a line");
        assert!(line.contains("is served"), "{line}");
        let log = self.path(array).with_extension("log");
        let mut log = std::fs::File::create(log).expect("a file");
        std::thread::spawn(move || std::io::copy(&mut lines, &mut log));
        Peer(child)
    }

    /// The current metrics of an array's server.
    fn metrics(&self, array: &str) -> String {
        let log = std::fs::read_to_string(self.path(array).with_extension("log")).expect("a log");
        let (_, url) = log.split_once("has metrics: http://").expect("its address");
        let address = url.split_once('/').expect("and path").0;
        let mut stream = TcpStream::connect(address).expect("it answers");
        let request = b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("text");
        page
    }

    /// A command of ours that searches these places for arrays.
    fn command(&self, places: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("SPINDLES_SCAN", places);
        command
    }

    fn spindles(&self, places: &str, arguments: &[&str]) -> Output {
        self.command(places, arguments).output().expect("it runs")
    }

    /// Runs a command that must succeed. Returns its output.
    fn done(&self, places: &str, arguments: &[&str]) -> String {
        let output = self.spindles(places, arguments);
        let message = message(&output);
        assert!(output.status.success(), "{arguments:?}: {message}");
        message
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.spindles("", arguments);
        assert!(!output.status.success(), "{arguments:?}");
        message(&output)
    }
}

fn message(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(text).expect("text")
}

/// A server, killed when dropped.
struct Peer(Child);

impl Peer {
    fn spawn(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().expect("a program"));
        let command = command.args(words).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_mins(2);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a program is installed; reports what is skipped if not.
fn has(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed (Debian: {package})");
    }
    found
}

/// Bytes that depend on their offset.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let words = u64::try_from(bytes / 8).expect("64 bits");
    let word = |at: u64| {
        (at + seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes()
    };
    (0..words).flat_map(word).collect()
}

fn same(one: &Path, other: &Path, bytes: usize) -> bool {
    let read = |path| std::fs::read(path).expect("it can be read");
    read(one)[..bytes] == read(other)[..bytes]
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

#[test]
fn an_array_spans_servers_of_different_kinds() {
    if !has("nbdkit", "nbdkit") || !has("qemu-nbd", "qemu-utils") {
        return;
    }
    let world = World::new();
    world.disk("a", 24 * MIB);
    world.disk("c", 24 * MIB);
    let port = port();
    let _a = world.nbdkit("a");
    let _b = Peer::spawn(&format!("nbdkit -f -i 127.0.0.1 -p {port} memory 24M"));
    let line = "qemu-nbd -t --shared=4 -f raw -x data,1 -k @ %/c";
    let _c = world.start("c", line);
    await_that("it listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let (a, b, c) = (
        world.url("a", ""),
        format!("nbd://LOCALHOST:{port}"),
        world.url("c", "data%2C1"),
    );
    // The same disk by two addresses.
    for twice in [
        format!("raid1({a},{c},a)"),
        format!("raid1({b},nbd://127.0.0.1:{port})"),
    ] {
        let message = world.refused(&["create", "pool", &twice]);
        assert!(message.contains("are the same device"), "{message}");
    }
    let places = [&a[..], &format!("{b}/"), &c].join(":");
    world.done("", &["create", "pool", &format!("raid5({a},{b},{c})")]);
    std::fs::write(world.path("in"), pattern(30 * MIB, 1)).expect("room");
    world.done(&places, &["copy", "in", "array:pool", "--verify"]);
    // As a list too, also with quotes, and with threads instead of io_uring.
    let list = format!("array:{a},\"{b}\",{c}");
    let copied = world
        .command("", &["copy", &list, "out"])
        .env("SPINDLES_IO", "threads")
        .output();
    let copied = copied.expect("it runs");
    assert!(copied.status.success(), "{}", message(&copied));
    assert!(same(&world.path("in"), &world.path("out"), 30 * MIB));
    assert!(
        world
            .done(&places, &["scrub", "pool"])
            .contains("nothing is wrong")
    );
    let status = world.done(&places, &["status", "pool"]);
    for expected in ["healthy, clean", "1: nbd://LOCALHOST:", "data%2C1?socket="] {
        assert!(status.contains(expected), "{expected}: {status}");
    }
    world.done(&places, &["rename", "pool", "lake"]);
    // A single export is a device like any other: it is copied to, examined, made a spare and
    // wiped.
    world.disk("d", 24 * MIB);
    let _d = world.nbdkit("d");
    let d = world.url("d", "");
    let places = format!("{places}:{d}");
    world.done(&places, &["replace", &a, "--onto", &d, "lake"]);
    let examined = world.done(&places, &["examine", &d]);
    assert!(examined.contains("'lake'"), "{examined}");
    world.done(&places, &["spare", "add", "--array", "lake", &a]);
    world.done(&places, &["wipe", &a, "--force"]);
    assert!(
        world
            .done(&places, &["scrub", "lake"])
            .contains("nothing is wrong")
    );
}

/// A copy onto the array continues while the server of a member is killed in the middle of it.
fn is_lost_in_a_copy(world: &World, places: &str, server: &mut Peer) {
    // Another member shows the progress of the copy.
    let allocated = || std::fs::metadata(world.path("a")).expect("a file").blocks() * 512;
    let before = allocated();
    let line = ["copy", "new", "array:pool", "--verify", "--force"];
    let mut copy = world.command(places, &line);
    let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let copy = copy.expect("it starts");
    await_that("the copy is in the middle", || {
        allocated() > before + (10 << 20)
    });
    server.0.kill().expect("it runs");
    server.0.wait().expect("it ends");
    let copied = copy.wait_with_output().expect("it ends");
    let message = message(&copied);
    assert!(copied.status.success(), "{message}");
    assert!(message.contains("it is given up"), "{message}");
}

/// The killed server of a member loses writes that were not flushed, like a device with a cache.
#[test]
fn a_killed_server_catches_up_on_missed_writes() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new();
    for disk in ["a", "b", "c"] {
        world.disk(disk, 64 * MIB);
    }
    let _a = world.nbdkit("a");
    let _b = world.nbdkit("b");
    let cached =
        "nbdkit -f -U @ --filter=delay --filter=cache file %/c cache=writeback wdelay=10ms";
    let mut c = world.start("c", cached);
    let urls = ["a", "b", "c"].map(|disk| world.url(disk, ""));
    let places = urls.join(":");
    let expression = format!("raid5({})", urls.join(","));
    world.done("", &["create", "pool", &expression]);
    std::fs::write(world.path("old"), pattern(20 * MIB, 1)).expect("room");
    std::fs::write(world.path("new"), pattern(100 * MIB, 2)).expect("room");
    world.done(&places, &["copy", "old", "array:pool"]);
    is_lost_in_a_copy(&world, &places, &mut c);
    let status = world.spindles(&places, &["status", "pool"]);
    assert_eq!(status.status.code(), Some(3), "{}", message(&status));
    world.done(&places, &["copy", "array:pool", "out"]);
    assert!(same(&world.path("new"), &world.path("out"), 100 * MIB));
    let _c = world.nbdkit("c");
    let rebuilt = world.done(&places, &["rebuild", "pool"]);
    assert!(rebuilt.contains("is active again"), "{rebuilt}");
    assert!(
        world
            .done(&places, &["scrub", "pool"])
            .contains("nothing is wrong")
    );
    // Verify the rebuilt member's data: with member 0 wiped, all reads depend on that data.
    drop(world.spindles(&places, &["wipe", &urls[0], "--force"]));
    world.done(&places, &["copy", "array:pool", "again"]);
    assert!(same(&world.path("new"), &world.path("again"), 100 * MIB));
}

/// An idle array reports a lost connection, keeps the member, and continues when it is used.
#[test]
fn an_idle_array_reports_a_lost_connection() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new();
    world.disk("a", 24 * MIB);
    world.disk("b", 24 * MIB);
    let _a = world.nbdkit("a");
    let b = world.nbdkit("b");
    let [a_url, b_url] = ["a", "b"].map(|disk| world.url(disk, ""));
    world.done("", &["create", "pool", &format!("raid1({a_url},{b_url})")]);
    let places = [&a_url[..], &b_url].join(":");
    let _served = world.serve_on("pool", &places);
    let log = || std::fs::read_to_string(world.path("pool.log")).unwrap_or_default();
    world.done(&places, &["status", "pool"]);
    drop(b);
    let tells = |what: &str| {
        let expected = format!("{b_url}: {what}");
        let until = Instant::now() + Duration::from_secs(20);
        while !log().contains(&expected) {
            assert!(Instant::now() < until, "{expected} is not in: {}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    tells(
        "the connection is lost (it ended the connection): it is made again when something is \
         asked",
    );
    let status = world.done(&places, &["status", "pool"]);
    assert!(status.contains("healthy"), "{status}");
    let _b = world.nbdkit("b");
    world.done(&places, &["scrub", "pool"]);
    tells("it is connected again");
}

/// Three disks behind TLS on ports: two of nbdkit, and one of our own server, which is an array
/// there.
struct Encrypted {
    world: World,
    ports: [u16; 3],
}

impl Encrypted {
    fn new(bytes: usize) -> Self {
        let world = World::new();
        let authority = Authority::new();
        authority.sign(&world.path("server"), "server", 1);
        authority.sign(&world.path("client"), "client", 2);
        authority.certify(&world.path("nobody"));
        authority.sign(&world.path("wary"), "client", 4);
        authority.revoke(&world.path("wary"), 1);
        Authority::new().sign(&world.path("stranger"), "client", 3);
        for disk in ["a", "b", "c", "d"] {
            world.disk(disk, bytes);
        }
        world.done("", &["create", "disk", "raid1(c,d)"]);
        let ports = [(); 3].map(|()| port());
        Self { world, ports }
    }

    /// The address of a disk, with these certificates.
    fn url(&self, disk: usize, by: &str) -> String {
        let folder = self.world.path(by);
        let folder = folder.display();
        let port = self.ports[disk];
        let export = ["", "", "disk"][disk];
        format!("nbds://localhost:{port}/{export}?tls-certificates={folder}")
    }

    fn urls(&self) -> [String; 3] {
        [0, 1, 2].map(|disk| self.url(disk, "client"))
    }

    fn places(&self) -> String {
        self.urls().join(":")
    }

    fn start(&self, disk: usize) -> Peer {
        let port = self.ports[disk];
        let peer = if disk == 2 {
            let port = port.to_string();
            let line = ["serve", "c", "d", "--tls", "server", "--nbd", &port];
            let mut command = self.world.command("", &line);
            let command = command.stdout(Stdio::null()).stderr(Stdio::null());
            Peer(command.spawn().expect("it starts"))
        } else {
            let name = ["a", "b"][disk];
            let folder = self.world.0.path().display();
            Peer::spawn(&format!(
                "nbdkit -f -i 127.0.0.1 -p {port} --tls=require --tls-verify-peer \
                     --tls-certificates={folder}/server file {folder}/{name}"
            ))
        };
        await_that("it listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        peer
    }
}

#[test]
fn an_array_spans_servers_with_tls() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let all = Encrypted::new(64 * MIB);
    let world = &all.world;
    let _a = all.start(0);
    let _b = all.start(1);
    let mut c = all.start(2);
    // Servers verify clients, and clients verify servers.
    let port = all.ports[2];
    std::fs::write(world.path("old"), pattern(20 * MIB, 1)).expect("room");
    std::fs::write(world.path("new"), pattern(100 * MIB, 2)).expect("room");
    for (url, why) in [
        (all.url(2, "nobody"), "wants a certificate of this side"),
        (all.url(2, "stranger"), "not signed by an authority"),
        (all.url(2, "wary"), "is taken back"),
        (all.url(2, "elsewhere"), "can't read"),
        (
            format!("{}&tls-hostname=other.example", all.url(2, "client")),
            "not valid for name",
        ),
        (
            format!("nbds://localhost:{port}"),
            "its certificates are not given",
        ),
        (format!("nbd://localhost:{port}"), "TLS"),
    ] {
        let message = world.refused(&["copy", "old", &url, "--force"]);
        assert!(message.contains(why), "{url}: {message}");
    }
    let places = all.places();
    world.done(
        "",
        &[
            "create",
            "pool",
            &format!("raid5({})", all.urls().join(",")),
        ],
    );
    world.done(&places, &["copy", "old", "array:pool", "--verify"]);
    is_lost_in_a_copy(world, &places, &mut c);
    let _c = all.start(2);
    let rebuilt = world.done(&places, &["rebuild", "pool"]);
    assert!(rebuilt.contains("is active again"), "{rebuilt}");
    let scrubbed = world.done(&places, &["scrub", "pool"]);
    assert!(scrubbed.contains("nothing is wrong"), "{scrubbed}");
    world.done(&places, &["copy", "array:pool", "out"]);
    assert!(same(&world.path("new"), &world.path("out"), 100 * MIB));
}

/// Reconnects inside the sandbox: the certificates were read before.
#[test]
fn a_tls_server_restart_loses_no_member() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let all = Encrypted::new(24 * MIB);
    let world = &all.world;
    let peers = [0, 1, 2].map(|disk| all.start(disk));
    let places = all.places();
    world.done(
        "",
        &[
            "create",
            "pool",
            &format!("raid0({})", all.urls().join(",")),
        ],
    );
    std::fs::write(world.path("in"), pattern(40 * MIB, 3)).expect("room");
    world.done(&places, &["copy", "in", "array:pool"]);
    let served = world.serve_on("pool", &places);
    let pool = world.url("pool", "pool");
    world.done("", &["copy", &pool, "out"]);
    drop(peers);
    let _peers = [0, 1, 2].map(|disk| all.start(disk));
    world.done("", &["copy", &pool, "again"]);
    // The server closes and reopens the array.
    world.done(&places, &["rename", "pool", "lake"]);
    world.done("", &["copy", &pool, "at last"]);
    for out in ["out", "again", "at last"] {
        assert!(same(&world.path("in"), &world.path(out), 40 * MIB), "{out}");
    }
    drop(served);
}

/// While nothing is in doubt, a server may restart while the array is in use.
#[test]
fn a_server_restart_between_requests_loses_no_member() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new();
    world.disk("a", 24 * MIB);
    world.disk("b", 24 * MIB);
    let a = world.nbdkit("a");
    let b = world.nbdkit("b");
    let urls = ["a", "b"].map(|disk| world.url(disk, ""));
    let places = urls.join(":");
    world.done(
        "",
        &["create", "pool", &format!("raid0({})", urls.join(","))],
    );
    std::fs::write(world.path("in"), pattern(40 * MIB, 3)).expect("room");
    world.done(&places, &["copy", "in", "array:pool"]);
    let served = world.serve_on("pool", &places);
    let pool = world.url("pool", "pool");
    world.done("", &["copy", &pool, "out"]);
    // Other processes on this machine can't take the exports meanwhile.
    let message = world.refused(&["copy", "in", &urls[0], "--force"]);
    assert!(message.contains("is in use"), "{message}");
    drop((a, b));
    let _a = world.nbdkit("a");
    let _b = world.nbdkit("b");
    world.done("", &["copy", &pool, "again"]);
    for out in ["out", "again"] {
        assert!(same(&world.path("in"), &world.path(out), 40 * MIB), "{out}");
    }
    drop(served);
}

/// While the array is served, the connection is closed cleanly, and a new one is made.
#[test]
fn a_member_of_a_served_array_disconnects_and_reconnects() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new();
    world.disk("a", 24 * MIB);
    world.disk("b", 24 * MIB);
    let _peers = ["a", "b"].map(|disk| world.nbdkit(disk));
    let urls = ["a", "b"].map(|disk| world.url(disk, ""));
    let places = urls.join(":");
    world.done(
        "",
        &["create", "pool", &format!("raid1({})", urls.join(","))],
    );
    let served = world.serve_on("pool", &places);
    let pool = world.url("pool", "pool");
    world.done(&places, &["fail", &urls[1], "pool"]);
    std::fs::write(world.path("in"), pattern(10 * MIB, 5)).expect("room");
    world.done("", &["copy", "in", &pool]);
    world.done(&places, &["remove", &urls[1], "pool"]);
    let added = world.done(&places, &["add", &urls[1], "pool"]);
    assert!(added.contains("is active again"), "{added}");
    // `add` returned after the member caught up, so the array can lose the other member.
    world.done(&places, &["fail", &urls[0], "pool"]);
    world.done("", &["copy", &pool, "out"]);
    assert!(same(&world.path("in"), &world.path("out"), 10 * MIB));
    world.done(&places, &["stop", "pool"]);
    drop(served);
}

const DISKS: [&str; 3] = ["a", "b", "c"];

/// Three disks, with their servers and addresses.
fn three_disks() -> (World, [Option<Peer>; 3], [String; 3]) {
    let world = World::new();
    for disk in DISKS {
        world.disk(disk, 24 * MIB);
    }
    let peers = DISKS.map(|disk| Some(world.nbdkit(disk)));
    let urls = DISKS.map(|disk| world.url(disk, ""));
    (world, peers, urls)
}

/// Too many servers of a served array are killed: its superblocks stay unchanged, yet `status`
/// reports the failure, even after the servers return.
#[test]
fn an_array_with_too_many_lost_servers_is_reported_failed() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    for (level, killed) in [("raid5", 2), ("raid1", 3)] {
        let (world, mut peers, urls) = three_disks();
        let array = format!("{level}({})", urls.join(","));
        world.done("", &["create", "fallen", &array]);
        let served = world.serve_on("fallen", &urls.join(":"));
        let pool = world.url("fallen", "fallen");
        // The name, which no other test uses, finds the server without the absent devices.
        let status = || world.spindles("none", &["status", "fallen"]);
        assert_eq!(status().status.code(), Some(0));
        peers[..killed]
            .iter_mut()
            .for_each(|peer| drop(peer.take()));
        std::fs::write(world.path("in"), pattern(8 * MIB, 6)).expect("room");
        world.refused(&["copy", "in", &pool]);
        let check_report = |is_back: bool| {
            let output = status();
            let message = message(&output);
            assert_eq!(
                output.status.code(),
                Some(4),
                "{level}, {killed}, {is_back}: {message}"
            );
            assert!(
                message.contains("failed, nothing more is written"),
                "{message}"
            );
            assert!(
                message.contains("out: it does not answer any more"),
                "{message}"
            );
            assert!(
                message.contains("then stop the server, and serve it again"),
                "{message}"
            );
        };
        let first_message = message(&status());
        let says_why =
            first_message.contains("members 0 and 1 of 3 missing, more than raid5 survives");
        assert_eq!(says_why, level == "raid5", "{first_message}");
        check_report(false);
        let _back: Vec<Peer> = DISKS[..killed]
            .iter()
            .map(|disk| world.nbdkit(disk))
            .collect();
        check_report(true);
        // No command could help now, and none is run.
        let refused = world.spindles("none", &["rebuild", "fallen"]);
        assert!(
            message(&refused).contains("has failed"),
            "{}",
            message(&refused)
        );
        // Closing it fails, but it is no longer served.
        world.spindles("none", &["stop", "fallen"]);
        drop(served);
        let _served = world.serve_on("fallen", &urls.join(":"));
        assert_eq!(status().status.code(), Some(0), "{level}, {killed}");
        world.done("", &["copy", "in", &pool, "--verify"]);
    }
}

/// The server of an array reopens it for a command while too many members are away. The array opens
/// once the members are back.
#[test]
fn an_array_reopens_once_its_servers_return() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let (world, mut peers, urls) = three_disks();
    let places = urls.join(":");
    let array = format!("raid5({})", urls.join(","));
    world.done("", &["create", "patient", &array]);
    let served = world.serve_on("patient", &places);
    std::fs::write(world.path("in"), pattern(8 * MIB, 9)).expect("room");
    let pool = world.url("patient", "patient");
    world.done("", &["copy", "in", &pool]);
    peers[1..].iter_mut().for_each(|peer| drop(peer.take()));
    let mut set = world.command("none", &["set", "patient", "--degraded-writes", "allow"]);
    let mut set = set
        .stderr(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it runs");
    let log = world.path("patient").with_extension("log");
    await_that("it asks them while they are away", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.contains("trying again for") // One of them: the log names the first it misses.
    });
    let _back = ["b", "c"].map(|disk| world.nbdkit(disk));
    set.wait().expect("it ends");
    let status = world.done("none", &["status", "patient"]);
    assert!(status.contains("healthy"), "{status}");
    world.done("", &["copy", "in", &pool, "--verify"]);
    world.done("none", &["stop", "patient"]);
    drop(served);
}

/// Makes an array of this level on two raid5 arrays of three servers each. Returns the servers, and
/// where the members are found.
fn two_of_three(world: &World, name: &str, level: &str) -> ([Option<Peer>; 6], String) {
    let disks = ["a", "b", "c", "d", "e", "f"];
    for disk in disks {
        world.disk(disk, 24 * MIB);
    }
    let peers = disks.map(|disk| Some(world.nbdkit(disk)));
    let urls = disks.map(|disk| world.url(disk, ""));
    let (low, high) = (urls[..3].join(","), urls[3..].join(","));
    let array = format!("{level}(raid5({low}),raid5({high}))");
    world.done("", &["create", name, &array]);
    (peers, urls.join(":"))
}

/// If the level does not survive its failed inner arrays, the outer array has failed too. Its name
/// still finds it, and stops it.
#[test]
fn an_array_of_failed_arrays_is_reported_failed() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new();
    let (mut peers, places) = two_of_three(&world, "stack", "raid0");
    let _served = world.serve_with("stack", &places, &["--metrics", "0"]);
    let pool = world.url("stack", "stack");
    std::fs::write(world.path("in"), pattern(8 * MIB, 7)).expect("room");
    world.done("", &["copy", "in", &pool]);
    let failed = "spindles_array_state{array=\"stack\",state=\"failed\"} ";
    assert!(world.metrics("stack").contains(&format!("{failed}0")));
    // One inner array fails before anything was written to it: all reports agree.
    for peer in &mut peers[..2] {
        drop(peer.take());
    }
    world.refused(&["copy", &pool, "out"]);
    let status = world.spindles("none", &["status", "stack"]);
    assert_eq!(status.status.code(), Some(4), "{}", message(&status));
    let metrics = world.metrics("stack");
    assert!(metrics.contains(&format!("{failed}1")), "{metrics}");
    let scrub = world.spindles("none", &["scrub", "stack"]);
    assert!(
        message(&scrub).contains("'stack' has failed, and"),
        "{}",
        message(&scrub)
    );
    // After writes, one inner array fails, then all.
    for (half, lost) in [("member 0 of 2 missing", 0..2), ("2 missing", 3..5)] {
        for peer in &mut peers[lost] {
            drop(peer.take());
        }
        world.refused(&["copy", "in", &pool, "--force"]);
        let status = world.spindles("none", &["status", "stack"]);
        let message = message(&status);
        assert_eq!(status.status.code(), Some(4), "{message}");
        assert!(
            message.contains("array 'stack' has failed") && message.contains(half),
            "{message}"
        );
    }
    let stopped = message(&world.spindles("none", &["stop", "stack"]));
    assert!(stopped.contains("may not be durable"), "{stopped}");
    let status = world.spindles("none", &["status", "stack"]);
    assert!(
        message(&status).contains("'stack' is neither"),
        "{}",
        message(&status)
    );
}

/// An inner array fails while both are scrubbed: this scrub ends, and so does the next one.
#[test]
fn a_scrub_ends_when_an_inner_array_fails() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new();
    let (mut peers, places) = two_of_three(&world, "twofold", "raid1");
    let _served = world.serve_on("twofold", &places);
    let pool = world.url("twofold", "twofold");
    std::fs::write(world.path("in"), pattern(8 * MIB, 7)).expect("room");
    world.done("", &["copy", "in", &pool]);
    // Members are gone, which no request has noticed yet.
    for peer in &mut peers[..2] {
        drop(peer.take());
    }
    let meets = message(&world.spindles("none", &["scrub", "twofold"]));
    assert!(
        meets.contains("member 0 is out") && meets.contains("too many members are lost"),
        "{meets}"
    );
    let again = message(&world.spindles("none", &["scrub", "twofold"]));
    assert!(again.contains("without member 0"), "{again}");
}

/// Our own servers, with an array of files on each machine, form an array of arrays.
#[test]
fn an_array_spans_our_own_servers() {
    let world = World::new();
    for array in ["one", "two"] {
        let disks = ["x", "y"].map(|disk| format!("{array}-{disk}"));
        for disk in &disks {
            world.disk(disk, 16 * MIB);
        }
        let expression = format!("raid0({})", disks.join(","));
        world.done("", &["create", array, &expression]);
    }
    let _one = world.serve("one");
    let two = world.serve("two");
    let urls = ["one", "two"].map(|array| world.url(array, array));
    let places = urls.join(":");
    world.done(
        "",
        &["create", "pool", &format!("raid1({})", urls.join(","))],
    );
    std::fs::write(world.path("in"), pattern(20 * MIB, 4)).expect("room");
    world.done(&places, &["copy", "in", "array:pool", "--verify"]);
    assert!(
        world
            .done(&places, &["scrub", "pool"])
            .contains("nothing is wrong")
    );
    drop(two);
    let output = world.spindles(&places, &["copy", "array:pool", "out"]);
    assert!(output.status.success(), "{}", message(&output));
    assert!(
        message(&output).contains("can't be reached"),
        "{}",
        message(&output)
    );
    assert!(same(&world.path("in"), &world.path("out"), 20 * MIB));
}

/// Our own server of a disk that is a member elsewhere is restarted, like after a reboot of its
/// machine.
#[test]
fn a_member_disk_can_be_served_as_is_again() {
    let world = World::new();
    for disk in ["a", "b"] {
        world.disk(disk, 16 * MIB);
    }
    let start = |disk: &str| {
        let program = env!("CARGO_BIN_EXE_spindles");
        world.start(
            disk,
            &format!("{program} serve %/{disk} --as-is --nbd unix:@"),
        )
    };
    let first = start("a");
    let _other = start("b");
    let urls = ["a", "b"].map(|disk| world.url(disk, ""));
    let (array, places) = (format!("raid1({})", urls.join(",")), urls.join(":"));
    world.done("", &["create", "remote", &array]);
    drop(first);
    let _again = start("a");
    std::fs::write(world.path("in"), pattern(4 * MIB, 8)).expect("room");
    world.done(&places, &["copy", "in", "array:remote", "--verify"]);
    assert!(
        world
            .done(&places, &["status", "remote"])
            .contains("healthy")
    );
}

/// Addresses that are no devices, or the same device twice.
#[test]
fn errors_explain_invalid_addresses() {
    let world = World::new();
    let expressions = [
        ("raid1(nbd://h/x,nbd://H:10809/x)", "are the same device"),
        (
            "raid1(nbd+unix:///x?socket=s,nbd+unix:///x?socket=./s)",
            "can't be reached",
        ),
        ("raid1(nbds://h/x,b)", "its certificates are not given"),
        ("raid1(iscsi://h/x,b)", "of a kind that is not known"),
        ("raid1(nbd://h/%,b)", "write %25 for it"),
        (
            "raid1(nbd+unix:///x,b)",
            "the path of the socket is not given",
        ),
    ];
    for (expression, expected) in expressions {
        let message = world.refused(&["create", "pool", expression]);
        assert!(message.contains(expected), "{expression}: {message}");
    }
    let message = world.refused(&["copy", "nbd+unix:///x?socket=s", "out"]);
    assert!(
        message.contains("its server at s can't be reached"),
        "{message}"
    );
    let message = world.refused(&["status", "nowhere", "--scan", "nbd+unix:///x?socket=s"]);
    assert!(
        message.contains("its server at s can't be reached"),
        "{message}"
    );
    assert!(!world.path("nbd+unix:").exists(), "no file is made");
}
