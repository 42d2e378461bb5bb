//! Server features for administrators: a program for events, metrics, systemd, late members, and
//! status.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest time to wait for an expected event.
const COMES_MAX: Duration = Duration::from_secs(10);

/// An array of files in a folder.
struct Pool(TempDir);

impl Pool {
    fn new(members: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for (at, name) in ["a", "b", "c", "spare"].iter().enumerate() {
            let file = fs::File::create(folder.path().join(name)).expect("a file");
            let bytes = u64::try_from(at).expect("few") * 300_000 + (8 << 20);
            file.set_len(bytes).expect("its length");
        }
        let pool = Self(folder);
        let created = pool.spindles(&[&["create", "pool", members], more].concat());
        assert!(created.status.success(), "{created:?}");
        pool
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self) -> Command {
        crate::program_in(self.0.path())
    }

    fn spindles(&self, arguments: &[&str]) -> Output {
        let output = self.command().args(arguments).output();
        output.expect("the command runs")
    }

    /// A program for events that logs its arguments.
    fn program(&self, script: &str) -> String {
        let path = self.path("on-event");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("it is written");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).expect("it may be run");
        path.to_str().expect("UTF-8").to_owned()
    }

    /// The address for clients while it is served.
    fn address(&self) -> String {
        format!("nbd+unix:///pool?socket={}", self.path("socket").display())
    }

    fn serve(&self, more: &[&str]) -> Served {
        self.serve_with(more, |_| {})
    }

    /// Serves it on a socket in its folder, and waits until it is served.
    fn serve_with(&self, more: &[&str], prepare: impl FnOnce(&mut Command)) -> Served {
        let address = format!("unix:{}", self.path("socket").display());
        let mut command = self.command();
        command
            .args(["serve", "pool", "--nbd", &address])
            .args(more);
        prepare(&mut command);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the command runs");
        let errors = BufReader::new(process.stderr.take().expect("it is piped"));
        let output: Arc<Mutex<String>> = Arc::default();
        let hears = Arc::clone(&output);
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let mut output = hears.lock().expect("no thread panicked");
                output.push_str(&line);
                output.push('\n');
            }
        });
        let served = Served { process, output };
        served.until(|| served.output().contains("is served: "));
        served
    }
}

struct Served {
    process: Child,
    output: Arc<Mutex<String>>,
}

impl Served {
    /// Standard error so far.
    fn output(&self) -> String {
        self.output.lock().expect("no thread panicked").clone()
    }

    fn until(&self, mut condition: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(
                begun.elapsed() < COMES_MAX,
                "it does not come: {}",
                self.output()
            );
            sleep(Duration::from_millis(10));
        }
    }

    /// Standard error from this text on, once it is there.
    fn after(&self, what: &str) -> String {
        self.until(|| self.output().contains(what));
        let output = self.output();
        let (_, rest) = output.split_once(what).expect("it was said");
        rest.lines().next().unwrap_or_default().to_owned()
    }

    /// Stops the server as an administrator does. Returns its standard error.
    fn stop(mut self) -> String {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(sent.expect("kill runs").success());
        let ended = self.process.wait().expect("it ends");
        assert!(ended.success(), "{ended}: {}", self.output());
        self.output()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn the_event_program_runs_for_each_event() {
    let pool = Pool::new("raid1(a,b)", &["--spare", "spare"]);
    let log = pool.path("log");
    let script = format!(
        "echo \"$1 $2 $3 member=$SPINDLES_MEMBER $SPINDLES_EVENT $SPINDLES_ARRAY\" >> {}\n\
         echo \"the program heard $1: $SPINDLES_MESSAGE\"",
        log.display()
    );
    let served = pool.serve(&["--on-event", &pool.program(&script)]);
    let failed = pool.spindles(&["fail", "b", "pool"]);
    assert!(failed.status.success(), "{failed:?}");
    let heard = || fs::read_to_string(&log).unwrap_or_default();
    served.until(|| heard().contains("SpareActive"));
    let output = served.stop();
    // Devices have absolute names, valid in any folder, and the spare is never confused with the
    // failed member.
    let (b, spare) = (pool.path("b"), pool.path("spare"));
    let (b, spare) = (b.display(), spare.display());
    let wanted = [
        format!("Fail pool {b} member=1 Fail pool"),
        format!("RebuildStarted pool {spare} member=1 RebuildStarted pool"),
        format!("SpareTaken pool {spare} member=1 SpareTaken pool"),
        format!("RebuildFinished pool {spare} member=1 RebuildFinished pool"),
        format!("SpareActive pool {spare} member=1 SpareActive pool"),
    ];
    let heard = heard();
    let mut heard: Vec<&str> = heard.lines().collect();
    let mut wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    assert_eq!(heard.first(), wanted.first());
    heard.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(heard, wanted);
    assert!(
        output.contains("the program heard Fail: array 'pool': member 1, "),
        "{output}"
    );
}

#[test]
fn a_hanging_event_program_does_not_delay_the_array() {
    let pool = Pool::new("raid1(a,b)", &[]);
    let served = pool.serve(&["--on-event", &pool.program("exec sleep 3")]);
    let failed = pool.spindles(&["fail", "b", "pool"]);
    assert!(failed.status.success(), "{failed:?}");
    let begun = Instant::now();
    let status = pool.spindles(&["status", "pool"]);
    assert_eq!(status.status.code(), Some(3), "{status:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "it waited");
    served.stop();
    assert!(
        begun.elapsed() > Duration::from_secs(1),
        "the program was not waited for"
    );
    let run = pool.spindles(&[
        "serve",
        "pool",
        "--nbd",
        "0",
        "--on-event",
        "/there/is/none",
    ]);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
}

/// A program that can't run is refused before anything is served.
#[test]
fn a_program_without_execute_permission_is_refused() {
    let pool = Pool::new("raid1(a,b)", &[]);
    let program = pool.program("true");
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(&program, mode).expect("it is ours");
    let run = pool.spindles(&["serve", "pool", "--nbd", "0", "--on-event", &program]);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    let output = String::from_utf8_lossy(&run.stderr);
    assert!(output.contains("may not execute it"), "{output}");
    assert!(
        output.contains(&format!("`chmod +x {program}`")),
        "{output}"
    );
}

/// The journal records the time itself; elsewhere each line has it.
#[test]
fn server_log_lines_have_a_timestamp() {
    let pool = Pool::new("raid1(a,b)", &[]);
    let first = |is_journal: bool| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let pipe =
            fs::metadata(format!("/proc/self/fd/{}", writer.as_raw_fd())).expect("it is open");
        let stream = format!("{}:{}", pipe.dev(), pipe.ino() + u64::from(!is_journal));
        let address = format!("unix:{}", pool.path("socket").display());
        let mut command = pool.command();
        let command = command.args(["serve", "pool", "--nbd", &address]);
        let command = command.env("JOURNAL_STREAM", stream).stderr(writer);
        let server = command.stdout(Stdio::null()).spawn().expect("it runs");
        let mut line = String::new();
        let read = BufReader::new(&mut reader).read_line(&mut line);
        read.expect("a line");
        let stopped = pool.spindles(&["stop", "pool"]);
        assert!(stopped.status.success(), "{stopped:?}");
        drop(Served {
            process: server,
            output: Arc::default(),
        });
        line
    };
    let line = first(true);
    assert!(
        line.starts_with("spindles: array 'pool' is served"),
        "{line}"
    );
    let line = first(false);
    let (time, message) = line.split_once(' ').expect("a time");
    assert!(
        message.starts_with("spindles: array 'pool' is served"),
        "{line}"
    );
    let digits = |char: char| if char.is_ascii_digit() { '9' } else { char };
    let form: String = time.chars().map(digits).collect();
    assert_eq!(form, "9999-99-99T99:99:99Z", "{line}");
}

/// Sends an HTTP request. Returns the status and the body.
fn ask(address: &str, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(request).expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it answers");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    let length = format!("\r\nContent-Length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    let status = head.strip_prefix("HTTP/1.1 ").expect("HTTP");
    (status[..3].parse().expect("a status"), body.to_owned())
}

/// Parses the page strictly by its format: the samples, by name and labels.
fn parse(page: &str) -> BTreeMap<String, u64> {
    let mut samples = BTreeMap::new();
    let (mut name, mut has_type, mut seen) = ("", true, Vec::new());
    for line in page.split_terminator('\n') {
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(has_type, "{name} has no type");
            (name, has_type) = (help.split_once(' ').expect("a text").0, false);
            assert!(!seen.contains(&name), "{name} comes twice");
            seen.push(name);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kind = kind.strip_prefix(name).expect("the type of the same");
            let expected = if name.ends_with("_total") {
                " counter"
            } else if name.ends_with("_latency_seconds") {
                " histogram"
            } else {
                " gauge"
            };
            assert_eq!(kind, expected, "{name}");
            has_type = true;
        } else {
            let rest = line.strip_prefix(name).expect("a sample of the same");
            let (part, labels) = rest.split_once('{').expect("labels");
            assert!(["", "_bucket", "_sum", "_count"].contains(&part), "{line}");
            let (labels, number) = labels.rsplit_once("} ").expect("a number");
            for label in labels.split("\",") {
                let (label, value) = label.split_once("=\"").expect("a value");
                assert!(
                    label.bytes().all(|byte| byte.is_ascii_lowercase()),
                    "{line}"
                );
                assert!(!value.trim_end_matches('"').contains(['"', '\\']), "{line}");
            }
            // Durations in seconds have a fraction.
            assert!(
                number.parse().is_ok_and(|value: f64| value >= 0.0),
                "{line}"
            );
            let whole = number.split('.').next().expect("one part");
            let whole = whole.parse().expect("a whole number");
            let before = samples.insert(format!("{name}{part}{{{labels}}}"), whole);
            assert_eq!(before, None, "{line} comes twice");
        }
    }
    assert!(page.ends_with('\n') && has_type);
    samples
}

#[test]
fn metrics_are_served_over_http() {
    let pool = Pool::new("raid5(a,b,c)", &[]);
    let served = pool.serve(&["--metrics", "0"]);
    let url = served.after("array 'pool' has metrics: http://");
    let address = url.strip_suffix("/metrics").expect("its path");
    let page = || {
        let (status, body) = ask(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status, 200);
        parse(&body)
    };
    let samples = page();
    let value = |samples: &BTreeMap<String, u64>, sample: &str| {
        let found = samples.get(sample);
        *found.unwrap_or_else(|| panic!("{sample} is not in {samples:#?}"))
    };
    let members = "spindles_array_members{array=\"pool\",state=";
    let healthy = "spindles_array_state{array=\"pool\",state=\"healthy\"}";
    let degraded = "spindles_array_state{array=\"pool\",state=\"degraded\"}";
    let connections = "spindles_server_connections_total{array=\"pool\"}";
    let active = samples
        .iter()
        .filter(|(name, _)| name.starts_with("spindles_member_active{"));
    assert_eq!(active.map(|(_, number)| number).sum::<u64>(), 3);
    assert_eq!(value(&samples, healthy), 1);
    assert_eq!(value(&samples, degraded), 0);
    assert_eq!(value(&samples, &format!("{members}\"active\"}}")), 3);
    assert_eq!(value(&samples, connections), 0);
    let reads = samples
        .keys()
        .find(|name| name.starts_with("spindles_device_reads_total"));
    let reads = reads.expect("reads of a device");
    let device = format!("member=\"0\",device=\"{}\"", pool.path("a").display());
    assert!(reads.contains(&device), "{reads}");
    // Clients that send nothing, half a request, and too much.
    let silent = TcpStream::connect(address).expect("it listens");
    let mut half = TcpStream::connect(address).expect("it listens");
    half.write_all(b"GET /metrics HTT").expect("it reads");
    let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &[b'a'; 9000]].concat();
    assert_eq!(ask(address, &long).0, 431);
    assert_eq!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").0, 405);
    assert_eq!(ask(address, b"GET / HTTP/1.1\r\n\r\n").0, 404);
    let failed = pool.spindles(&["fail", "c", "pool"]);
    assert!(failed.status.success(), "{failed:?}");
    let samples = page();
    assert_eq!(value(&samples, healthy), 0);
    assert_eq!(value(&samples, degraded), 1);
    assert_eq!(value(&samples, &format!("{members}\"missing\"}}")), 1);
    drop((silent, half));
    served.stop();
    let run = pool.spindles(&["serve", "pool", "--nbd", "0", "--metrics", "0.0.0.0:0"]);
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    let output = String::from_utf8_lossy(&run.stderr);
    assert!(output.contains("--allow-plaintext"), "{output}");
}

fn notification(listener: &UnixDatagram) -> String {
    let mut bytes = [0; 1024];
    let count = listener.recv(&mut bytes).expect("a notification");
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn systemd_is_notified_of_the_state() {
    let pool = Pool::new("raid5(a,b,c)", &[]);
    let path = pool.path("notify");
    let listener = UnixDatagram::bind(&path).expect("a socket");
    listener.set_read_timeout(Some(COMES_MAX)).expect("a limit");
    let served = pool.serve_with(&[], |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    let at = pool.address();
    assert_eq!(
        notification(&listener),
        format!("READY=1\nSTATUS=healthy, at {at}")
    );
    let failed = pool.spindles(&["fail", "c", "pool"]);
    assert!(failed.status.success(), "{failed:?}");
    assert_eq!(
        notification(&listener),
        format!("STATUS=degraded: without member 2, at {at}")
    );
    served.stop();
    assert_eq!(notification(&listener), "STOPPING=1");
    // A stale status would be taken for the current state.
    let mut refused = pool.command();
    refused
        .args(["serve", "nobody", "--nbd", "unix:socket"])
        .env("NOTIFY_SOCKET", &path);
    assert_eq!(refused.output().expect("it runs").status.code(), Some(1));
    let ended = notification(&listener);
    assert!(
        ended.starts_with("STATUS=ended: 'nobody' is neither"),
        "{ended}"
    );
}

/// Every level reports rot that a client met and nothing can repair: in the log, to the program for
/// events, and as a degraded array in `status`, in the metrics and to systemd.
#[test]
fn all_monitors_report_rot_that_a_client_met() {
    for members in ["raid5(a,b,c)", "raid0(a,b)", "concat(a,b)"] {
        let pool = Pool::new(members, &[]);
        fs::write(pool.path("data"), vec![7; 10 << 20]).expect("room");
        let filled = pool.spindles(&["copy", "data", "array:pool"]);
        assert!(filled.status.success(), "{filled:?}");
        let path = pool.path("notify");
        let listener = UnixDatagram::bind(&path).expect("a socket");
        listener.set_read_timeout(Some(COMES_MAX)).expect("a limit");
        let log = pool.path("log");
        let program = pool.program(&format!(
            "echo \"$1 $2 $SPINDLES_STATE\" >> {}",
            log.display()
        ));
        let served = pool.serve_with(&["--metrics", "0", "--on-event", &program], |command| {
            command.env("NOTIFY_SOCKET", &path);
        });
        assert!(notification(&listener).contains("STATUS=healthy"));
        for name in ["a", "b"] {
            let file = fs::OpenOptions::new().write(true).open(pool.path(name));
            let written = file.and_then(|file| file.write_all_at(&vec![0x5a; 64 << 10], 4 << 20));
            written.expect("it is written");
        }
        let read = pool.spindles(&["copy", &pool.address(), "back"]);
        assert_eq!(read.status.code(), Some(1), "{members}: {read:?}");
        served.after("rotten and not repaired, from block");
        let heard = || fs::read_to_string(&log).unwrap_or_default();
        served.until(|| heard().contains("RotFound pool degraded\n"));
        let status = pool.spindles(&["status", "pool", "--json"]);
        assert_eq!(status.status.code(), Some(3), "{members}: {status:?}");
        let json: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
        assert_eq!(json["state"], "degraded", "{members}: {json}");
        assert_eq!(json["scrub_left_bytes"], 4096, "{members}: {json}");
        let url = served.after("array 'pool' has metrics: http://");
        let address = url.strip_suffix("/metrics").expect("its path");
        let samples = parse(&ask(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").1);
        let of_array = |rest: &str| samples[&format!("spindles_{rest}}}")];
        for (sample, wanted) in [
            ("array_state{array=\"pool\",state=\"healthy\"", 0),
            ("array_state{array=\"pool\",state=\"degraded\"", 1),
            ("scrub_left_bytes{array=\"pool\"", 4096),
        ] {
            assert_eq!(of_array(sample), wanted, "{members}: {sample}");
        }
        let sent = notification(&listener);
        assert_eq!(sent, format!("STATUS=degraded, at {}", pool.address()));
        served.stop();
    }
}

/// A program that pairs the events of a rebuild by their device finds each pair.
#[test]
fn the_events_of_a_replacement_name_the_new_device() {
    let pool = Pool::new("raid1(a,b)", &[]);
    let log = pool.path("log");
    let program = pool.program(&format!("echo \"$1 $3\" >> {}", log.display()));
    let served = pool.serve(&["--on-event", &program]);
    let replaced = pool.spindles(&["replace", "b", "pool", "--onto", "c"]);
    assert!(replaced.status.success(), "{replaced:?}");
    let heard = || fs::read_to_string(&log).unwrap_or_default();
    served.until(|| heard().contains("SpareActive"));
    let output = served.stop();
    let (b, c) = (pool.path("b"), pool.path("c"));
    let (b, c) = (b.display(), c.display());
    for event in ["RebuildStarted", "RebuildFinished", "SpareActive"] {
        assert!(heard().contains(&format!("{event} {c}\n")), "{}", heard());
    }
    let message = format!("member 1, {b}, is being copied onto {c}");
    assert!(output.contains(&message), "{output}");
}

/// A service manager kills processes that outlive the main process, and reports that.
#[test]
fn helpers_end_before_the_server() {
    let pool = Pool::new("raid1(a,b)", &[]);
    let program = pool.program("exit 0");
    let folder = pool.0.path().to_str().expect("UTF-8");
    let helpers = || {
        let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
        let lines = processes.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
        let helpers = lines.filter(|line| line.contains("outside\0") && line.contains(folder));
        helpers.count()
    };
    // A helper without a wait often ends in time, hence several rounds.
    for _ in 0..10 {
        let served = pool.serve(&["--on-event", &program]);
        assert_eq!(helpers(), 2);
        served.stop();
        assert_eq!(helpers(), 0);
    }
}

#[test]
fn a_server_waits_for_late_members() {
    let pool = Pool::new("raid5(a,b,c)", &[]);
    let (here, away) = (pool.path("c"), pool.path("away/c"));
    fs::create_dir(pool.path("away")).expect("a folder");
    fs::rename(&here, &away).expect("it goes");
    let path = pool.path("notify");
    let listener = UnixDatagram::bind(&path).expect("a socket");
    listener.set_read_timeout(Some(COMES_MAX)).expect("a limit");
    let notify = |command: &mut Command| {
        command.env("NOTIFY_SOCKET", &path);
    };
    std::thread::scope(|scope| {
        let served = scope.spawn(|| pool.serve_with(&["--wait", "30"], notify));
        assert_eq!(
            notification(&listener),
            "STATUS=waiting: array 'pool' lacks member 2"
        );
        assert!(!pool.path("socket").exists(), "clients may come already");
        fs::rename(&away, &here).expect("it comes back");
        let ready = format!("READY=1\nSTATUS=healthy, at {}", pool.address());
        assert_eq!(notification(&listener), ready);
        served.join().expect("it serves").stop();
        assert_eq!(notification(&listener), "STOPPING=1");
    });
    fs::rename(&here, &away).expect("it goes");
    let log = pool.path("log");
    let program = pool.program(&format!("echo \"$1 $2\" >> {}", log.display()));
    let more = ["--wait", "1", "--on-event", &program];
    let begun = Instant::now();
    let served = pool.serve_with(&more, notify);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not wait");
    assert_eq!(
        notification(&listener),
        "STATUS=waiting: array 'pool' lacks member 2"
    );
    assert_eq!(
        notification(&listener),
        format!(
            "READY=1\nSTATUS=degraded: without member 2, at {}",
            pool.address()
        )
    );
    let output = served.stop();
    assert!(
        output.contains("array 'pool': it begins without member 2"),
        "{output}"
    );
    assert_eq!(
        fs::read_to_string(log).expect("it ran"),
        "DegradedArray pool\n"
    );
}

#[test]
fn status_shows_clients_and_repeats_with_watch() {
    let pool = Pool::new("raid1(a,b)", &[]);
    let served = pool.serve(&[]);
    let mut client = UnixStream::connect(pool.path("socket")).expect("it listens");
    client.read_exact(&mut [0; 18]).expect("it greets");
    let choice = [0, 0, 0, 3]
        .iter()
        .chain(b"IHAVEOPT")
        .chain(&[0, 0, 0, 1, 0, 0, 0, 4]);
    let choice: Vec<u8> = choice.chain(b"pool").copied().collect();
    client.write_all(&choice).expect("it reads");
    client.read_exact(&mut [0; 10]).expect("it answers");
    let json = || {
        let status = pool.spindles(&["status", "pool", "--json"]);
        let json = serde_json::from_slice::<serde_json::Value>(&status.stdout);
        json.expect("JSON")["served"].clone()
    };
    // The server registers a client shortly after the handshake.
    served.until(|| json()["clients"] == 1);
    assert_eq!(json()["connections"], 1);
    let mut command = pool.command();
    let command = command.args(["status", "pool", "--watch=1"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is piped")).lines();
    let mut shown = Vec::new();
    while shown
        .iter()
        .filter(|line: &&String| line.starts_with("array 'pool'"))
        .count()
        < 2
    {
        shown.push(lines.next().expect("it goes on").expect("text"));
    }
    watch.kill().expect("it runs");
    watch.wait().expect("it ends");
    let line = shown.iter().find(|line| line.contains("served since "));
    let line = line.expect("it says so");
    assert!(line.ends_with(": 1 client, 1 in all, 0 requests"), "{line}");
    assert!(
        !shown.concat().contains('\x1b'),
        "nothing is drawn where no terminal is"
    );
    served.stop();
    let gone = pool.spindles(&["status", "absent", "--watch"]);
    assert!(!gone.status.success(), "{gone:?}");
}

#[test]
fn systemd_accepts_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("SKIPPED units: systemd-analyze is not installed (Debian: systemd)");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd");
    let mut paths = Vec::new();
    for unit in fs::read_dir(units).expect("they are there") {
        let path = unit.expect("a file").path();
        let text = fs::read_to_string(&path).expect("text");
        // The test system need not have the program installed.
        let text = text.replace("/usr/bin/spindles", env!("CARGO_BIN_EXE_spindles"));
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("UTF-8");
        let copy = folder.path().join(name.replace('@', "@pool"));
        fs::write(folder.path().join(name), &text).expect("it is written");
        paths.push(copy);
    }
    assert_eq!(paths.len(), 3);
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no", "--recursive-errors=no"])
        .args(&paths)
        .output()
        .expect("it runs");
    let output = String::from_utf8_lossy(&verify.stderr);
    assert!(verify.status.success() && output.is_empty(), "{output}");
}
