//! Arrays whose members are exports of NBD servers: nbdkit, qemu-nbd, and our own. Servers are
//! killed and return.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::serve::authority;

use crate::world::{Run, Running, World, fetch, has, pattern, until};
use authority::Authority;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

const MIB: usize = 1 << 20;

impl World {
    fn disk(&self, name: &str, bytes: usize) {
        self.make(name, u64::try_from(bytes).expect("64 bits"));
    }

    /// The address of an export on the socket of a disk.
    pub(crate) fn url(&self, disk: &str, export: &str) -> String {
        let export = self.named(export);
        format!("nbd+unix:///{export}?socket={}.sock", self.full(disk))
    }

    /// Starts a server that listens on the socket of a disk, and waits until it does.
    pub(crate) fn peer(&self, disk: &str, line: &str) -> Running {
        let socket = self.path(disk).with_extension("sock");
        drop(std::fs::remove_file(&socket));
        let line = line
            .replace('%', self.folder().to_str().expect("UTF-8"))
            .replace('@', socket.to_str().expect("UTF-8"));
        let peer = spawn(&line);
        until("it listens", || UnixStream::connect(&socket).is_ok());
        peer
    }

    fn nbdkit(&self, disk: &str) -> Running {
        self.peer(disk, &format!("nbdkit -f -U @ file %/{disk}"))
    }

    /// Starts our own server of an array that is found in these places, on the socket of that name.
    pub(crate) fn serve_on(&self, array: &str, places: &str, more: &str) -> Running {
        let mut command = self.command(&format!("serve {array} --nbd unix:{array}.sock{more}"));
        command.env("SPINDLES_SCAN", places);
        self.served_by(command)
    }

    /// Runs a command that searches these places for arrays.
    pub(crate) fn at(&self, places: &str, line: &str) -> Run {
        let mut command = self.command(line);
        self.run_command(command.env("SPINDLES_SCAN", places))
    }

    /// Runs a command that must succeed.
    pub(crate) fn done(&self, places: &str, line: &str) -> Run {
        self.at(places, line).ends(0)
    }

    fn fails(&self, line: &str) -> Run {
        self.at("", line).refused()
    }
}

fn spawn(line: &str) -> Running {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    Running::begin(command)
}

fn same(world: &World, one: &str, other: &str, bytes: usize) -> bool {
    world.read(one)[..bytes] == world.read(other)[..bytes]
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
    let world = World::new("", 0);
    world.disk("a", 24 * MIB);
    world.disk("c", 24 * MIB);
    let port = port();
    let _a = world.nbdkit("a");
    let _b = spawn(&format!("nbdkit -f -i 127.0.0.1 -p {port} memory 24M"));
    let line = "qemu-nbd -t --shared=4 -f raw -x data,1 -k @ %/c";
    let _c = world.peer("c", line);
    until("it listens", || {
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
        world
            .fails(&format!("create pool {twice}"))
            .warns("are the same device");
    }
    let places = [&a[..], &format!("{b}/"), &c].join(":");
    world.done("", &format!("create pool raid5({a},{b},{c})"));
    world.put("in", pattern(30 * MIB, 1));
    world.done(&places, "copy in array:pool --verify");
    // As a list too, also with quotes, and with threads instead of io_uring.
    let list = format!("array:{a},\"{b}\",{c}");
    let mut copy = world.command(&format!("copy {list} out"));
    world
        .run_command(copy.env("SPINDLES_IO", "threads"))
        .ends(0);
    assert!(same(&world, "in", "out", 30 * MIB));
    world.done(&places, "scrub pool").prints("nothing is wrong");
    world.done(&places, "status pool").prints([
        "healthy, clean",
        "1: nbd://LOCALHOST:",
        "data%2C1?socket=",
    ]);
    world.done(&places, "rename pool lake");
    // A single export is a device like any other: it is copied to, examined, made a spare and
    // wiped.
    world.disk("d", 24 * MIB);
    let _d = world.nbdkit("d");
    let d = world.url("d", "");
    let places = format!("{places}:{d}");
    world.done(&places, &format!("replace {a} --onto {d} lake"));
    world.done(&places, &format!("examine {d}")).says("'lake'");
    world.done(&places, &format!("spare add --array lake {a}"));
    world.done(&places, &format!("wipe {a} --force"));
    world.done(&places, "scrub lake").prints("nothing is wrong");
}

/// A copy onto the array continues while the server of a member is killed in the middle of it.
fn is_lost_in_a_copy(world: &World, places: &str, server: &mut Running) {
    // Another member shows the progress of the copy.
    let allocated = || std::fs::metadata(world.path("a")).expect("a file").blocks() * 512;
    let before = allocated();
    let mut copy = world.command("copy new array:pool --verify --force");
    copy.env("SPINDLES_SCAN", places);
    let copy = world.start(copy);
    until("the copy is in the middle", || {
        allocated() > before + (10 << 20)
    });
    server.kill();
    copy.end(None).ends(0).warns("it is given up");
}

/// The killed server of a member loses writes that were not flushed, like a device with a cache.
#[test]
fn a_killed_server_catches_up_on_missed_writes() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("", 0);
    for disk in ["a", "b", "c"] {
        world.disk(disk, 64 * MIB);
    }
    let _a = world.nbdkit("a");
    let _b = world.nbdkit("b");
    let cached =
        "nbdkit -f -U @ --filter=delay --filter=cache file %/c cache=writeback wdelay=10ms";
    let mut c = world.peer("c", cached);
    let urls = ["a", "b", "c"].map(|disk| world.url(disk, ""));
    let places = urls.join(":");
    let expression = format!("raid5({})", urls.join(","));
    world.done("", &format!("create pool {expression}"));
    world.put("old", pattern(20 * MIB, 1));
    world.put("new", pattern(100 * MIB, 2));
    world.done(&places, "copy old array:pool");
    is_lost_in_a_copy(&world, &places, &mut c);
    world.at(&places, "status pool").ends(3);
    world.done(&places, "copy array:pool out");
    assert!(same(&world, "new", "out", 100 * MIB));
    let _c = world.nbdkit("c");
    world
        .done(&places, "rebuild pool")
        .prints("is active again");
    world.done(&places, "scrub pool").prints("nothing is wrong");
    // Verify the rebuilt member's data: with member 0 wiped, all reads depend on that data.
    drop(world.at(&places, &format!("wipe {} --force", urls[0])));
    world.done(&places, "copy array:pool again");
    assert!(same(&world, "new", "again", 100 * MIB));
}

/// An idle array reports a lost connection, keeps the member, and continues when it is used.
#[test]
fn an_idle_array_reports_a_lost_connection() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("", 0);
    world.disk("a", 24 * MIB);
    world.disk("b", 24 * MIB);
    let _a = world.nbdkit("a");
    let b = world.nbdkit("b");
    let [a_url, b_url] = ["a", "b"].map(|disk| world.url(disk, ""));
    world.done("", &format!("create pool raid1({a_url},{b_url})"));
    let places = [&a_url[..], &b_url].join(":");
    let mut served = world.serve_on("pool", &places, "");
    world.done(&places, "status pool");
    drop(b);
    served.says(&format!(
        "{b_url}: the connection is lost (it ended the connection): the next request reconnects"
    ));
    world.done(&places, "status pool").prints("healthy");
    let _b = world.nbdkit("b");
    world.done(&places, "scrub pool");
    served.says(&format!("{b_url}: it is connected again"));
}

/// Three disks behind TLS on ports: two of nbdkit, and one of our own server, which is an array
/// there.
struct Encrypted {
    world: World,
    ports: [u16; 3],
}

impl Encrypted {
    fn new(bytes: usize) -> Self {
        let world = World::new("", 0);
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
        world.done("", "create disk raid1(c,d)");
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

    fn start(&self, disk: usize) -> Running {
        let port = self.ports[disk];
        let peer = if disk == 2 {
            self.world
                .begin(&format!("serve c d --tls server --nbd {port}"))
        } else {
            let name = ["a", "b"][disk];
            let folder = self.world.folder().display();
            spawn(&format!(
                "nbdkit -f -i 127.0.0.1 -p {port} --tls=require --tls-verify-peer \
                     --tls-certificates={folder}/server file {folder}/{name}"
            ))
        };
        until("it listens", || {
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
    world.put("old", pattern(20 * MIB, 1));
    world.put("new", pattern(100 * MIB, 2));
    for (url, why) in [
        (
            all.url(2, "nobody"),
            "requires a certificate from this side",
        ),
        (all.url(2, "stranger"), "not signed by an authority"),
        (all.url(2, "wary"), "revokes its certificate"),
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
        world.fails(&format!("copy old {url} --force")).warns(why);
    }
    let places = all.places();
    world.done("", &format!("create pool raid5({})", all.urls().join(",")));
    world.done(&places, "copy old array:pool --verify");
    is_lost_in_a_copy(world, &places, &mut c);
    let _c = all.start(2);
    world
        .done(&places, "rebuild pool")
        .prints("is active again");
    world.done(&places, "scrub pool").prints("nothing is wrong");
    world.done(&places, "copy array:pool out");
    assert!(same(world, "new", "out", 100 * MIB));
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
    world.done("", &format!("create pool raid0({})", all.urls().join(",")));
    world.put("in", pattern(40 * MIB, 3));
    world.done(&places, "copy in array:pool");
    let served = world.serve_on("pool", &places, "");
    let pool = world.url("pool", "pool");
    world.done("", &format!("copy {pool} out"));
    drop(peers);
    let _peers = [0, 1, 2].map(|disk| all.start(disk));
    world.done("", &format!("copy {pool} again"));
    // The server closes and reopens the array.
    world.done(&places, "rename pool lake");
    world.done("", &format!("copy {pool} at-last"));
    for out in ["out", "again", "at-last"] {
        assert!(same(world, "in", out, 40 * MIB), "{out}");
    }
    drop(served);
}

/// While nothing is in doubt, a server may restart while the array is in use.
#[test]
fn a_server_restart_between_requests_loses_no_member() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("", 0);
    world.disk("a", 24 * MIB);
    world.disk("b", 24 * MIB);
    let a = world.nbdkit("a");
    let b = world.nbdkit("b");
    let urls = ["a", "b"].map(|disk| world.url(disk, ""));
    let places = urls.join(":");
    world.done("", &format!("create pool raid0({})", urls.join(",")));
    world.put("in", pattern(40 * MIB, 3));
    world.done(&places, "copy in array:pool");
    let served = world.serve_on("pool", &places, "");
    let pool = world.url("pool", "pool");
    world.done("", &format!("copy {pool} out"));
    // Other processes on this machine can't take the exports meanwhile.
    world
        .fails(&format!("copy in {} --force", urls[0]))
        .warns("is in use");
    drop((a, b));
    let _a = world.nbdkit("a");
    let _b = world.nbdkit("b");
    world.done("", &format!("copy {pool} again"));
    for out in ["out", "again"] {
        assert!(same(&world, "in", out, 40 * MIB), "{out}");
    }
    drop(served);
}

/// While the array is served, the connection is closed cleanly, and a new one is made.
#[test]
fn a_member_of_a_served_array_disconnects_and_reconnects() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("", 0);
    world.disk("a", 24 * MIB);
    world.disk("b", 24 * MIB);
    let _peers = ["a", "b"].map(|disk| world.nbdkit(disk));
    let urls = ["a", "b"].map(|disk| world.url(disk, ""));
    let places = urls.join(":");
    world.done("", &format!("create pool raid1({})", urls.join(",")));
    let served = world.serve_on("pool", &places, "");
    let pool = world.url("pool", "pool");
    world.done(&places, &format!("fail {} pool", urls[1]));
    world.put("in", pattern(10 * MIB, 5));
    world.done("", &format!("copy in {pool}"));
    world.done(&places, &format!("remove {} pool", urls[1]));
    world
        .done(&places, &format!("add {} pool", urls[1]))
        .prints("is active again");
    // `add` returned after the member caught up, so the array can lose the other member.
    world.done(&places, &format!("fail {} pool", urls[0]));
    world.done("", &format!("copy {pool} out"));
    assert!(same(&world, "in", "out", 10 * MIB));
    world.done(&places, "stop pool");
    drop(served);
}

const DISKS: [&str; 3] = ["a", "b", "c"];

/// Three disks, with their servers and addresses.
fn three_disks() -> (World, [Option<Running>; 3], [String; 3]) {
    let world = World::new("", 0);
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
        world.done("", &format!("create fallen {array}"));
        let served = world.serve_on("fallen", &urls.join(":"), "");
        let pool = world.url("fallen", "fallen");
        // The name, which no other test uses, finds the server without the absent devices.
        let status = || world.at("none", "status fallen");
        status().ends(0);
        peers[..killed]
            .iter_mut()
            .for_each(|peer| drop(peer.take()));
        world.put("in", pattern(8 * MIB, 6));
        world.fails(&format!("copy in {pool}"));
        let check_report = || {
            status().ends(4).says([
                "failed, nothing more is written",
                "out: it does not answer any more",
                "then stop the server, and serve it again",
            ]);
        };
        let first_message = status().all();
        let says_why =
            first_message.contains("members 0 and 1 of 3 missing, more than raid5 survives");
        assert_eq!(says_why, level == "raid5", "{first_message}");
        check_report();
        let _back: Vec<Running> = DISKS[..killed]
            .iter()
            .map(|disk| world.nbdkit(disk))
            .collect();
        check_report();
        // No command could help now, and none is run.
        let refused = world.at("none", "rebuild fallen");
        refused.warns("has failed");
        // Closing it fails, but it is no longer served.
        world.at("none", "stop fallen");
        drop(served);
        let _served = world.serve_on("fallen", &urls.join(":"), "");
        status().ends(0);
        world.done("", &format!("copy in {pool} --verify"));
    }
}

/// The server of an array reopens it for a command while too many members are away. The array opens
/// once enough members are back.
#[test]
fn an_array_reopens_once_its_servers_return() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let (world, mut peers, urls) = three_disks();
    let places = urls.join(":");
    let array = format!("raid5({})", urls.join(","));
    world.done("", &format!("create patient {array}"));
    let served = world.serve_on("patient", &places, "");
    world.put("in", pattern(8 * MIB, 9));
    let pool = world.url("patient", "patient");
    world.done("", &format!("copy in {pool}"));
    // A member that is lost during a write is given up at once: serve it again, without writes.
    world.done("none", "stop patient");
    drop(served);
    let mut served = world.serve_on("patient", &places, "");
    peers[1..].iter_mut().for_each(|peer| drop(peer.take()));
    let mut set = world.command("set patient --degraded-writes allow");
    set.env("SPINDLES_SCAN", "none");
    let set = world.start(set);
    // The log names the first that it misses.
    served.says("trying again for");
    let _b = world.nbdkit("b");
    set.end(None);
    world.until("the degraded array", |world| {
        world.at("none", "status patient").status == 3
    });
    let _c = world.nbdkit("c");
    world.done("none", "rebuild patient");
    world.done("none", "status patient").prints("healthy");
    world.done("", &format!("copy in {pool} --verify"));
    world.done("none", "stop patient");
    drop(served);
}

/// Makes an array of this level on two raid5 arrays of three servers each. Returns the servers, and
/// where the members are found.
fn two_of_three(world: &World, name: &str, level: &str) -> ([Option<Running>; 6], String) {
    let disks = ["a", "b", "c", "d", "e", "f"];
    for disk in disks {
        world.disk(disk, 24 * MIB);
    }
    let peers = disks.map(|disk| Some(world.nbdkit(disk)));
    let urls = disks.map(|disk| world.url(disk, ""));
    let (low, high) = (urls[..3].join(","), urls[3..].join(","));
    let array = format!("{level}(raid5({low}),raid5({high}))");
    world.done("", &format!("create {name} {array}"));
    (peers, urls.join(":"))
}

/// If the level does not survive its failed inner arrays, the outer array has failed too. Its name
/// still finds it, and stops it.
#[test]
fn an_array_of_failed_arrays_is_reported_failed() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("", 0);
    let (mut peers, places) = two_of_three(&world, "stack", "raid0");
    let mut served = world.serve_on("stack", &places, " --metrics 0");
    let pool = world.url("stack", "stack");
    world.put("in", pattern(8 * MIB, 7));
    world.done("", &format!("copy in {pool}"));
    let failed = "spindles_array_state{array=\"stack\",state=\"failed\"} ";
    let url = served.says("has metrics: http://");
    let metrics = || world.plain(&fetch(&url));
    assert!(metrics().contains(&format!("{failed}0")));
    // One inner array fails before anything was written to it: all reports agree.
    for peer in &mut peers[..2] {
        drop(peer.take());
    }
    world.fails(&format!("copy {pool} out"));
    world.at("none", "status stack").ends(4);
    assert!(metrics().contains(&format!("{failed}1")));
    let scrub = world.at("none", "scrub stack");
    scrub.warns("'stack' has failed, so");
    // After writes, one inner array fails, then all.
    for (half, lost) in [("member 0 of 2 missing", 0..2), ("2 missing", 3..5)] {
        for peer in &mut peers[lost] {
            drop(peer.take());
        }
        world.fails(&format!("copy in {pool} --force"));
        let status = world.at("none", "status stack").ends(4);
        status.warns(["array 'stack' has failed", half]);
    }
    let stopped = world.at("none", "stop stack").all();
    assert!(stopped.contains("may not be durable"), "{stopped}");
    let status = world.at("none", "status stack");
    status.warns("'stack' is neither");
}

/// An inner array fails while both are scrubbed: this scrub ends, and so does the next one.
#[test]
fn a_scrub_ends_when_an_inner_array_fails() {
    if !has("nbdkit", "nbdkit") {
        return;
    }
    let world = World::new("", 0);
    let (mut peers, places) = two_of_three(&world, "nest", "raid1");
    let _served = world.serve_on("nest", &places, "");
    let pool = world.url("nest", "nest");
    world.put("in", pattern(8 * MIB, 7));
    world.done("", &format!("copy in {pool}"));
    for peer in &mut peers[..2] {
        drop(peer.take());
    }
    let scrub = world.at("none", "scrub nest");
    // The server sees its closed connections now and then before the scrub does.
    if !scrub.all().contains("member 0 of 2 missing") {
        scrub.says(["member 0 is out", "too many members are missing"]);
    }
    world.at("none", "scrub nest").prints("without member 0");
}

/// Our own servers, with an array of files on each machine, form an array of arrays.
#[test]
fn an_array_spans_our_own_servers() {
    let world = World::new("", 0);
    for array in ["one", "two"] {
        let disks = ["x", "y"].map(|disk| format!("{array}-{disk}"));
        for disk in &disks {
            world.disk(disk, 16 * MIB);
        }
        let expression = format!("raid0({})", disks.join(","));
        world.done("", &format!("create {array} {expression}"));
    }
    let _one = world.serve_on("one", "", "");
    let two = world.serve_on("two", "", "");
    let urls = ["one", "two"].map(|array| world.url(array, array));
    let places = urls.join(":");
    world.done("", &format!("create pool raid1({})", urls.join(",")));
    world.put("in", pattern(20 * MIB, 4));
    world.done(&places, "copy in array:pool --verify");
    world.done(&places, "scrub pool").prints("nothing is wrong");
    drop(two);
    let output = world.at(&places, "copy array:pool out").ends(0);
    output.warns("can't be reached");
    assert!(same(&world, "in", "out", 20 * MIB));
}

/// Our own server of a disk that is a member elsewhere is restarted, like after a reboot of its
/// machine.
#[test]
fn a_member_disk_can_be_served_as_is_again() {
    let world = World::new("", 0);
    for disk in ["a", "b"] {
        world.disk(disk, 16 * MIB);
    }
    let start = |disk: &str| {
        let program = env!("CARGO_BIN_EXE_spindles");
        let line = format!("{program} serve %/{disk} --as-is --nbd unix:@");
        world.peer(disk, &line)
    };
    let first = start("a");
    let _other = start("b");
    let urls = ["a", "b"].map(|disk| world.url(disk, ""));
    let (array, places) = (format!("raid1({})", urls.join(",")), urls.join(":"));
    world.done("", &format!("create remote {array}"));
    drop(first);
    let _again = start("a");
    world.put("in", pattern(4 * MIB, 8));
    world.done(&places, "copy in array:remote --verify");
    world.done(&places, "status remote").prints("healthy");
}

/// Addresses that are no devices, or the same device twice.
#[test]
fn errors_explain_invalid_addresses() {
    let world = World::new("", 0);
    let expressions = [
        ("raid1(nbd://h/x,nbd://H:10809/x)", "are the same device"),
        (
            "raid1(nbd+unix:///x?socket=s,nbd+unix:///x?socket=./s)",
            "can't be reached",
        ),
        ("raid1(nbds://h/x,b)", "its certificates are not given"),
        ("raid1(iscsi://h/x,b)", "its kind is unknown"),
        ("raid1(nbd://h/%,b)", "write %25 for it"),
        (
            "raid1(nbd+unix:///x,b)",
            "the path of the socket is not given",
        ),
    ];
    for (expression, expected) in expressions {
        world
            .fails(&format!("create pool {expression}"))
            .warns(expected);
    }
    world
        .fails("copy nbd+unix:///x?socket=s out")
        .warns("its server at s can't be reached")
        .warns("check that it runs, and the address");
    world
        .fails("status nowhere --scan nbd+unix:///x?socket=s")
        .warns("its server at s can't be reached");
    assert!(!world.path("nbd+unix:").exists(), "no file is made");
}
