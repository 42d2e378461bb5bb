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
mod tls;
mod ublk;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MIB: usize = 1 << 20;

/// An array of files in a folder.
struct Pool(TempDir);

impl Pool {
    fn new(level: &str, members: &str, bytes: usize) -> Self {
        Self::with(level, members, bytes, &[])
    }

    fn with(level: &str, members: &str, bytes: usize, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // All lengths differ.
        for (at, member) in members.split(',').enumerate() {
            let file = std::fs::File::create(folder.path().join(member)).expect("a file");
            let bytes = u64::try_from(bytes + at * 300_000).expect("64 bits");
            file.set_len(bytes).expect("its length");
        }
        let pool = Self(folder);
        let expression = format!("{level}({members})");
        let created = pool.spindles(&[&["create", "pool", &expression], more].concat());
        assert!(created.status.success(), "{created:?}");
        pool
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn spindles(&self, arguments: &[&str]) -> Output {
        let mut command = crate::program_in(self.0.path());
        command.args(arguments).output().expect("the command runs")
    }

    /// Serves it on a socket in its folder.
    fn serve(&self, more: &[&str]) -> Served<'_> {
        let socket = self.path("socket");
        self.serve_at(&format!("unix:{}", socket.display()), more)
    }

    /// Like `serve`, with this I/O backend for its members.
    fn serve_with(&self, io: &str, more: &[&str]) -> Served<'_> {
        let address = format!("unix:{}", self.path("socket").display());
        let mut command = crate::program_in(self.0.path());
        command.env("SPINDLES_IO", io);
        self.serve_by(command, &address, &[&["pool"], more].concat(), POOL_SERVED)
    }

    /// Serves it at this address.
    fn serve_at(&self, address: &str, more: &[&str]) -> Served<'_> {
        let command = crate::program_in(self.0.path());
        self.serve_by(command, address, &[&["pool"], more].concat(), POOL_SERVED)
    }

    /// Serves another target on a socket in its folder; `ready` is part of the line that reports it
    /// ready.
    fn serve_what(&self, arguments: &[&str], ready: &str) -> Served<'_> {
        let command = crate::program_in(self.0.path());
        let address = format!("unix:{}", self.path("socket").display());
        self.serve_by(command, &address, arguments, ready)
    }

    fn serve_by(
        &self,
        mut command: Command,
        address: &str,
        arguments: &[&str],
        ready: &str,
    ) -> Served<'_> {
        let command = command.args(["serve", "--nbd", address]).args(arguments);
        let spawned = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut process = spawned.expect("the command runs");
        let lines = BufReader::new(process.stderr.take().expect("it is piped"));
        // Stops the server with the test, even if the output is unexpected.
        let mut served = Served {
            pool: self,
            server: Some(process),
            lines,
            uri: String::new(),
        };
        let line = served.line();
        assert!(line.contains(ready), "{line}");
        let start = line.find("nbd").expect("a URI");
        line[start..].trim_end().clone_into(&mut served.uri);
        served
    }
}

/// Part of the line that reports the array ready.
const POOL_SERVED: &str = "array 'pool' is served: nbd";

struct Served<'a> {
    pool: &'a Pool,
    server: Option<Child>,
    lines: BufReader<std::process::ChildStderr>,
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
    fn run(&self, line: &str) -> Output {
        let run = self.try_run(line);
        assert!(
            run.status.success(),
            "{line}: {}{}{}",
            run.status,
            String::from_utf8_lossy(&run.stdout),
            String::from_utf8_lossy(&run.stderr)
        );
        run
    }

    /// Like `run`, but the program may fail.
    fn try_run(&self, line: &str) -> Output {
        let folder = self.pool.0.path().to_str().expect("UTF-8");
        let words = line
            .split(' ')
            .map(|word| word.replace('%', folder).replace('@', &self.uri));
        let words: Vec<String> = words.collect();
        let limit = ["--kill-after=5", "100"];
        let mut command = Command::new("timeout");
        let command = command.args(limit).args(&words).current_dir(folder);
        command.output().expect("the program runs")
    }

    /// The next line of its output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).expect("text");
        assert!(read > 0, "it says nothing more");
        line
    }

    /// Stops the server with SIGTERM, as an administrator does. Returns its output.
    fn stop(self) -> String {
        signal(self.server.as_ref().expect("it was not stopped"), "TERM");
        self.stop_has_come()
    }

    /// Waits until the server exits by itself. Returns its output.
    fn stop_has_come(mut self) -> String {
        let server = self.server.take().expect("it was not stopped");
        let output = server.wait_with_output().expect("it ends");
        let mut message = String::new();
        self.lines.read_to_string(&mut message).expect("text");
        assert!(output.status.success(), "{message}");
        String::from_utf8(output.stdout).expect("text")
    }

    fn kill(mut self) {
        let mut server = self.server.take().expect("it was not stopped");
        server.kill().expect("it runs");
        server.wait().expect("it ends");
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

fn signal(process: &Child, name: &str) {
    let id = process.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &id]).status();
    assert!(sent.expect("kill runs").success());
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

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("it can be read")
}

#[test]
fn libnbd_describes_and_copies() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = Pool::new("raid5", "a,b,c", 24 * MIB);
    let served = pool.serve(&[]);
    let info = served.run("nbdinfo @");
    let info = String::from_utf8(info.stdout).expect("text");
    for expected in [
        "using structured packets",
        "description: raid5 of 3",
        "can_multi_conn: true",
        "can_fua: true",
        "base:allocation",
        "is_read_only: false",
    ] {
        assert!(info.contains(expected), "{expected}: {info}");
    }
    let list = served.run(&format!(
        "nbdinfo --list nbd+unix:///?socket={}",
        pool.path("socket").display()
    ));
    assert!(String::from_utf8_lossy(&list.stdout).contains("export=\"pool\""));
    let bytes = pattern(40 * MIB, 1);
    std::fs::write(pool.path("in"), &bytes).expect("it is written");
    served.run("nbdcopy --flush %/in @");
    served.run("nbdcopy --connections=4 --requests=64 @ %/out");
    assert!(
        read(&pool.path("out")).starts_with(&bytes),
        "the copy differs"
    );
    let output = served.stop();
    assert!(output.contains("array 'pool' is closed"), "{output}");
    // The clients' data is there, and the array was closed cleanly.
    let copied = pool.spindles(&["copy", "array:pool", "back", "--bytes", "40M"]);
    assert!(copied.status.success(), "{copied:?}");
    assert!(read(&pool.path("back")) == bytes, "the copy differs");
    let status = pool.spindles(&["status", "pool"]);
    assert!(status.status.success(), "{status:?}");
}

#[test]
fn payload_is_received_without_a_copy() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    let pool = Pool::new("raid1", "a,b", 24 * MIB);
    let served = pool.serve(&["--json"]);
    std::fs::write(pool.path("in"), pattern(16 * MIB, 2)).expect("it is written");
    served.run("nbdcopy --connections=1 --requests=16 %/in @");
    let output = served.stop();
    let json: serde_json::Value = serde_json::from_str(&output).expect("JSON");
    assert_eq!(json["payload_bytes"], 16 * MIB);
    assert_eq!(json["copied_bytes"], 0, "{output}");
}

#[test]
fn qemu_converts_compares_and_checks_patterns() {
    if !has("qemu-img", "qemu-utils") {
        return;
    }
    let pool = Pool::with("raid6", "a,b,c,d", 24 * MIB, &["--block-size", "512"]);
    let served = pool.serve(&[]);
    std::fs::write(pool.path("in"), pattern(32 * MIB, 3)).expect("it is written");
    served.run("qemu-img convert -n -f raw -O raw %/in @");
    served.run("qemu-img compare -f raw -F raw %/in @");
    let script = [
        "-c",
        "write -P 0x5a 1M 64k",
        "-c",
        "write -z 1100k 9k",
        "-c",
        "write -P 7 -f 3000001 777",
        "-c",
        "discard 2M 512k",
        "-c",
        "flush",
        "-c",
        "read -P 0x5a 1M 64k",
        "-c",
        "read -P 0 1100k 9k",
        "-c",
        "read -P 7 3000001 777",
    ];
    let run = Command::new("qemu-io")
        .args(["-f", "raw"])
        .args(script)
        .arg(&served.uri)
        .output();
    let run = run.expect("qemu-io runs");
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success() && !output.contains("failed") && !output.contains("error"),
        "{output}"
    );
    served.stop();
}

#[test]
fn fio_verifies_the_writes_of_four_connections() {
    if !has("fio", "fio") {
        return;
    }
    let pool = Pool::new("raid5", "a,b,c,d", 16 * MIB);
    let served = pool.serve(&[]);
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
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    let served = pool.serve(&[]);
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
    std::fs::write(pool.path("odd.py"), script).expect("it is written");
    served.run("env PATH=/usr/bin:/bin nbdsh -u @ -c exec(open('%/odd.py').read())");
    served.stop();
}

#[test]
fn a_read_only_export_is_not_written() {
    if !has("nbdinfo", "libnbd-bin") {
        return;
    }
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    let before = read(&pool.path("a"));
    let served = pool.serve(&["--read-only"]);
    let info = served.run("nbdinfo @");
    assert!(String::from_utf8_lossy(&info.stdout).contains("is_read_only: true"));
    served.stop();
    assert!(read(&pool.path("a")) == before, "it was written to");
}

/// While it is served no other process gets it, and writes acknowledged by a flush survive a kill.
#[test]
fn devices_without_an_array_are_served_and_reported_as_such() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    let pool = Pool::new("raid1", "a,b", 24 * MIB);
    let bytes = pattern(8 * MIB, 7);
    std::fs::write(pool.path("in"), &bytes).expect("it is written");
    std::fs::write(pool.path("raw disk"), pattern(8 * MIB, 8)).expect("it is written");
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
        let served = pool.serve_what(what, ready);
        served.run("nbdcopy --flush %/in @");
        served.run("nbdcopy @ %/out");
        assert!(read(&pool.path("out")).starts_with(&bytes), "{what:?}");
        let output = served.stop();
        assert!(output.contains(" is closed: "), "{output}");
    }
    assert!(read(&pool.path("raw disk")) == bytes, "it is another file");
    // Nothing is overwritten by mistake, and nothing is created for a name that must be an array.
    let cases: [(&[&str], &str); 3] = [
        (&["raw disk"], "has no Spindles superblock"),
        (&["raid1(a,b)"], "make it with spindles create"),
        (&["pool", "--checksum", "none"], "is for a fresh array"),
    ];
    for (what, error) in cases {
        let refused = pool.spindles(&[&["serve", "--nbd", "unix:socket"], what].concat());
        let message = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{what:?}");
        assert!(message.contains(error), "{what:?}: {message}");
        assert!(!pool.path("socket").exists(), "{what:?}");
    }
    let read_only = &["a", "--as-is", "--read-only"];
    pool.serve_what(read_only, "a is served as it is").stop();
}

#[test]
fn a_killed_server_loses_no_flushed_write() {
    if !has("nbdcopy", "libnbd-bin") {
        return;
    }
    let pool = Pool::new("raid5", "a,b,c", 24 * MIB);
    let served = pool.serve(&[]);
    let bytes = pattern(24 * MIB, 4);
    std::fs::write(pool.path("in"), &bytes).expect("it is written");
    served.run("nbdcopy --flush %/in @");
    let second = pool.spindles(&["serve", "pool", "--nbd", "0"]);
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    let other = pool.path("other");
    let second = pool.spindles(&[
        "serve",
        "pool",
        "--nbd",
        &format!("unix:{}", other.display()),
    ]);
    assert!(!other.exists(), "a socket is left where nothing is served");
    assert!(
        String::from_utf8_lossy(&second.stderr).contains("in use"),
        "{second:?}"
    );
    served.kill();
    // The stale socket is replaced.
    let served = pool.serve(&[]);
    served.run("nbdcopy @ %/out");
    assert!(
        read(&pool.path("out")).starts_with(&bytes),
        "the flushed data differs"
    );
    served.stop();
}

#[test]
fn a_public_address_requires_allow_plaintext() {
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    let run = pool.spindles(&["serve", "pool", "--nbd", "0.0.0.0:0"]);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    assert!(
        String::from_utf8_lossy(&run.stderr).contains("--allow-plaintext"),
        "{run:?}"
    );
    let run = pool.spindles(&["serve", "pool", "--nbd", "unix:"]);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
}

/// The handshake, and the selection of the export.
fn choose(stream: &mut UnixStream) {
    choose_export(stream, "pool");
}

fn choose_export(stream: &mut UnixStream, name: &str) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).expect("it greets");
    stream.write_all(&3_u32.to_be_bytes()).expect("it reads");
    let mut option = b"IHAVEOPT".to_vec();
    option.extend(1_u32.to_be_bytes());
    let bytes = u32::try_from(name.len()).expect("it is short");
    option.extend(bytes.to_be_bytes());
    option.extend(name.as_bytes());
    stream.write_all(&option).expect("it reads");
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
    let pool = Pool::new("raid1", "a,b", 8 * MIB);
    let served = pool.serve_what(&["mem:16M"], "mem:16M is served");
    let connect = || {
        let mut stream = served.connect();
        choose_export(&mut stream, "");
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
