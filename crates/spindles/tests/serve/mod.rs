//! `spindles serve` with common clients: libnbd's tools, QEMU and fio; and with hostile clients.

#![allow(clippy::print_stdout, reason = "what is skipped")]
#![allow(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

mod advice;
pub(crate) mod authority;
mod exports;
mod extended;
mod holes;
mod hostile;
mod restart;
mod sandbox;
mod slices;
mod tls;
mod ublk;
mod write_back;

use crate::world::{Run, Running, World, has, pattern};
use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Array 'pool' of these files.
fn array(level: &str, members: &str, bytes: usize) -> World {
    let bytes = u64::try_from(bytes).expect("64 bits");
    let pool = World::uneven(&members.replace(',', " "), bytes);
    pool.does(&format!("create pool {level}({members})"));
    pool
}

/// Serves array 'pool' on a socket in its folder.
fn serve<'a>(pool: &'a World, more: &[&str]) -> Served<'a> {
    serve_at(pool, SOCKET, more)
}

/// Like `serve`, with this I/O backend for its members.
fn serve_with<'a>(pool: &'a World, io: &str, more: &[&str]) -> Served<'a> {
    let mut command = crate::program_in(pool.folder());
    command.env("SPINDLES_IO", io);
    serve_by(
        pool,
        command,
        SOCKET,
        &[&["pool"], more].concat(),
        POOL_SERVED,
    )
}

/// Serves it at this address.
fn serve_at<'a>(pool: &'a World, address: &str, more: &[&str]) -> Served<'a> {
    let command = crate::program_in(pool.folder());
    serve_by(
        pool,
        command,
        address,
        &[&["pool"], more].concat(),
        POOL_SERVED,
    )
}

/// Serves another target on a socket in its folder; `ready` is part of the line that reports it
/// ready.
fn serve_what<'a>(pool: &'a World, arguments: &[&str], ready: &str) -> Served<'a> {
    let command = crate::program_in(pool.folder());
    serve_by(pool, command, SOCKET, arguments, ready)
}

fn serve_by<'a>(
    pool: &'a World,
    mut command: Command,
    address: &str,
    arguments: &[&str],
    ready: &str,
) -> Served<'a> {
    let address = address.replace('%', pool.folder().to_str().expect("UTF-8"));
    command.args(["serve", "--nbd", &address]);
    command.args(arguments.iter().map(|word| pool.named(word)));
    let server = pool.served_by(command);
    let said = server.said();
    let line = said.lines().find(|line| line.contains(ready));
    let line = line.unwrap_or_else(|| panic!("no {ready:?} in {said}"));
    let uri = &line[line.find("nbd").expect("a URI")..];
    Served {
        uri: pool.named(uri),
        pool,
        server,
    }
}

/// Part of the line that reports the array ready.
const POOL_SERVED: &str = "array 'pool' is served: nbd";
/// A socket in the folder.
const SOCKET: &str = "unix:%/socket";

struct Served<'a> {
    pool: &'a World,
    server: Running,
    /// The address that it printed.
    uri: String,
}

impl Served<'_> {
    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.pool.path("socket")).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a limit");
        stream
    }

    /// Runs a program on it; `@` in an argument stands for its URI, `%` for the folder.
    fn run(&self, line: &str) -> Run {
        self.try_run(line).ends(0)
    }

    /// Like `run`, but the program may fail.
    fn try_run(&self, line: &str) -> Run {
        let folder = self.pool.folder().to_str().expect("UTF-8");
        let line = self.pool.named(line);
        let words = line.split(' ');
        let words = words.map(|word| word.replace('%', folder).replace('@', &self.uri));
        let mut command = Command::new("timeout");
        let command = command.args(["--kill-after=5", "100"]).args(words);
        self.pool.run_command(command.current_dir(folder))
    }

    /// Stops the server with SIGTERM, as an administrator does.
    fn stop(self) -> Run {
        self.server.stop()
    }

    /// Waits until the server exits by itself.
    fn stop_has_come(self) -> Run {
        self.server.end(None).ends(0)
    }

    fn kill(mut self) {
        self.server.kill();
    }
}

#[test]
fn libnbd_describes_and_copies() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = array("raid5", "a,b,c", 24 * MIB);
    let served = serve(&pool, &[]);
    served.run("nbdinfo @").prints([
        "using structured packets",
        "description: raid5 of 3",
        "can_multi_conn: true",
        "can_fua: true",
        "base:allocation",
        "is_read_only: false",
    ]);
    served
        .run("nbdinfo --list nbd+unix:///?socket=%/socket")
        .prints("export=\"pool\"");
    let bytes = pattern(40 * MIB, 1);
    pool.put("in", &bytes);
    served.run("nbdcopy --flush %/in @");
    served.run("nbdcopy --connections=4 --requests=64 @ %/out");
    assert!(pool.read("out").starts_with(&bytes), "the copy differs");
    served.stop().prints("array 'pool' is closed");
    // The clients' data is there, and the array was closed cleanly.
    pool.does("copy array:pool back --bytes 40M");
    assert!(pool.read("back") == bytes, "the copy differs");
    pool.does("status pool");
}

#[test]
fn payload_is_received_without_a_copy() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    let pool = array("raid1", "a,b", 24 * MIB);
    let served = serve(&pool, &["--json"]);
    pool.put("in", pattern(16 * MIB, 2));
    served.run("nbdcopy --connections=1 --requests=16 %/in @");
    let json = served.stop().json();
    assert_eq!(json["payload_bytes"], 16 * MIB);
    assert_eq!(json["copied_bytes"], 0, "{json}");
}

#[test]
fn qemu_converts_compares_and_checks_patterns() {
    if !has("qemu-img", "qemu-utils") {
        return;
    }
    let pool = World::uneven("a b c d", 24 << 20);
    pool.does("create pool raid6(a,b,c,d) --block-size 512");
    let served = serve(&pool, &[]);
    pool.put("in", pattern(32 * MIB, 3));
    served.run("qemu-img convert -n -f raw -O raw %/in @");
    served.run("qemu-img compare -f raw -F raw %/in @");
    let script = [
        "write -P 0x5a 1M 64k",
        "write -z 1100k 9k",
        "write -P 7 -f 3000001 777",
        "discard 2M 512k",
        "flush",
        "read -P 0x5a 1M 64k",
        "read -P 0 1100k 9k",
        "read -P 7 3000001 777",
    ];
    let mut qemu = Command::new("qemu-io");
    qemu.args(["-f", "raw"]);
    qemu.args(script.iter().flat_map(|line| ["-c", line]));
    let run = pool.run_command(qemu.arg(&served.uri)).ends(0);
    run.prints_no(["failed", "error"]);
    served.stop();
}

#[test]
fn fio_verifies_the_writes_of_four_connections() {
    if !has("fio", "fio") {
        return;
    }
    let pool = array("raid5", "a,b,c,d", 16 * MIB);
    let served = serve(&pool, &[]);
    let line = "fio --name=v --ioengine=nbd --uri=@ --rw=randwrite --bs=4k --iodepth=32 \
        --numjobs=4 --offset_increment=8M --size=8M --verify=crc32c --verify_fatal=1 --do_verify=1 \
        --group_reporting";
    served.run(&line.split_whitespace().collect::<Vec<_>>().join(" "));
    served.stop();
}

#[test]
fn unusual_requests_are_answered() {
    // Debian's Python has the module; another Python need not have it.
    let python = ["PATH=/usr/bin:/bin", "python3", "-c", "import nbd"];
    let found = Command::new("env").args(python).output();
    if !found.is_ok_and(|found| found.status.success()) {
        println!("skipped: nbdsh is not installed (Debian: python3-libnbd)");
        return;
    }
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = serve(&pool, &[]);
    let script = r#"
import errno
size = h.get_size()
def fails(code, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == code, error
    else:
        raise AssertionError("it should fail")
h.set_strict_mode(0)
fails(errno.EINVAL, lambda: h.pread(4096, size - 100))
fails(errno.ENOSPC, lambda: h.pwrite(b"x" * 4096, size - 100))
fails(errno.EINVAL, lambda: h.trim(4096, size))
h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO)
h.zero(0, size, nbd.CMD_FLAG_FAST_ZERO)
h.pwrite(b"abc" * 1000, 511, nbd.CMD_FLAG_FUA)
assert h.pread(3000, 511) == b"abc" * 1000
assert h.pread(511, 0) == bytes(511)
fails(errno.ENOTSUP, lambda: h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO))
h.zero(1000, 600, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(1000, 600) == bytes(1000)
h.zero(size, 0)
h.trim(size, 0)
h.pwrite(b"t" * 4096, 8192)
h.trim(4096, 8192, nbd.CMD_FLAG_FUA)
h.cache(4096, 0)
assert h.pread(min(size, 32 * 1024 * 1024), 0, nbd.CMD_FLAG_DF) == bytes(size)
h.flush()
"#;
    pool.put("odd.py", script);
    served.run("env PATH=/usr/bin:/bin nbdsh -u @ -c exec(open('%/odd.py').read())");
    served.stop();
}

#[test]
fn a_read_only_export_is_not_written() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = array("raid1", "a,b", 8 * MIB);
    let before = pool.read("a");
    let served = serve(&pool, &["--read-only"]);
    served.run("nbdinfo @").prints("is_read_only: true");
    served.stop();
    assert!(pool.read("a") == before, "it was written to");
}

/// While it is served no other process gets it, and writes acknowledged by a flush survive a kill.
#[test]
fn devices_without_an_array_are_served_and_reported_as_such() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    let pool = array("raid1", "a,b", 24 * MIB);
    let bytes = pattern(8 * MIB, 7);
    pool.put("in", &bytes);
    pool.put("raw disk", pattern(8 * MIB, 8));
    for (what, ready) in [
        (
            &["mem:16M"][..],
            "mem:16M is served, and gone when this ends: nbd+unix:///mem:16M?",
        ),
        (
            &["raid5(mem:16M,mem:16M,mem:16M)"],
            "mem:16M) is served, and gone when this ends: nbd+unix:///raid5?",
        ),
        (
            &["raid0(mem:16M,mem:16M)", "--checksum", "none"],
            "mem:16M) is served, and gone when this ends: nbd+unix:///raid0?",
        ),
        (
            &["raw disk", "--as-is"],
            "raw disk is served as it is, without an array: nbd+unix:///raw%20disk?",
        ),
    ] {
        let served = serve_what(&pool, what, ready);
        served.run("nbdcopy --flush %/in @");
        served.run("nbdcopy @ %/out");
        assert!(pool.read("out").starts_with(&bytes), "{what:?}");
        served.stop().prints(" is closed: ");
    }
    assert!(pool.read("raw disk") == bytes, "it is another file");
    // Nothing is overwritten by mistake, and nothing is created for a name that must be an array.
    let cases: [(&[&str], &str); 3] = [
        (&["raw disk"], "has no Spindles superblock"),
        (&["raid1(a,b)"], "use spindles create"),
        (&["pool", "--checksum", "none"], "is for a fresh array"),
    ];
    for (what, error) in cases {
        pool.run_words(&[&["serve", "--nbd", "unix:socket"], what].concat())
            .refused()
            .warns(error);
        assert!(!pool.path("socket").exists(), "{what:?}");
    }
    let read_only = &["a", "--as-is", "--read-only"];
    serve_what(&pool, read_only, "a is served as it is").stop();
}

#[test]
fn a_killed_server_loses_no_flushed_write() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    let pool = array("raid5", "a,b,c", 24 * MIB);
    let served = serve(&pool, &[]);
    let bytes = pattern(24 * MIB, 4);
    pool.put("in", &bytes);
    served.run("nbdcopy --flush %/in @");
    pool.ends("serve pool --nbd 0", 1);
    pool.run("serve pool --nbd unix:other").warns("in use");
    let other = pool.path("other");
    assert!(!other.exists(), "a socket is left where nothing is served");
    served.kill();
    // The stale socket is replaced.
    let served = serve(&pool, &[]);
    served.run("nbdcopy @ %/out");
    assert!(
        pool.read("out").starts_with(&bytes),
        "the flushed data differs"
    );
    served.stop();
}

#[test]
fn a_public_address_requires_allow_plaintext() {
    let pool = array("raid1", "a,b", 8 * MIB);
    pool.ends("serve pool --nbd 0.0.0.0:0", 2)
        .warns("--allow-plaintext");
    pool.ends("serve pool --nbd unix:", 2);
}

/// The handshake, and the selection of the only export, which needs no name.
pub(crate) fn choose(stream: &mut UnixStream) {
    stream.read_exact(&mut [0; 18]).expect("it greets");
    let choice = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0";
    stream.write_all(choice).expect("it reads");
    stream.read_exact(&mut [0; 10]).expect("it answers");
}

fn request(command: u16, cookie: u64, offset: u64, bytes: u32) -> Vec<u8> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend([0, 0]);
    request.extend(command.to_be_bytes());
    request.extend(cookie.to_be_bytes());
    request.extend(offset.to_be_bytes());
    request.extend(bytes.to_be_bytes());
    request
}

/// Reads 4 KiB as a correct client does.
fn is_served(stream: &mut UnixStream) {
    stream
        .write_all(&request(0, 77, 0, 4096))
        .expect("it reads");
    let mut reply = [0; 16 + 4096];
    stream.read_exact(&mut reply).expect("it answers");
    assert_eq!(reply[4..16], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77]);
}

#[test]
fn a_quiet_client_is_served_next_to_busy_clients() {
    let pool = array("raid1", "a,b", 8 * MIB);
    let served = serve_what(&pool, &["mem:16M"], "mem:16M is served");
    let connect = || {
        let mut stream = served.connect();
        choose(&mut stream);
        stream
    };
    let mut quiet = connect();
    is_served(&mut quiet);
    let busy = [(); 3].map(|()| connect());
    std::thread::scope(|scope| {
        for stream in &busy {
            // Requests arrive faster than they are answered: the server is never idle.
            let many: Vec<u8> = (0..512).flat_map(|at| request(3, at, 0, 0)).collect();
            scope.spawn(move || {
                let mut stream = stream;
                while stream.write_all(&many).is_ok() {}
            });
            scope.spawn(move || {
                let mut stream = stream;
                let mut replies = vec![0; 512 * 16];
                while stream.read_exact(&mut replies).is_ok() {}
            });
        }
        let begin = Instant::now();
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(30));
            is_served(&mut quiet);
        }
        let took = begin.elapsed();
        for stream in &busy {
            stream.shutdown(Shutdown::Both).expect("it is open");
        }
        assert!(took < Duration::from_secs(8), "it waited for {took:?}");
    });
}
