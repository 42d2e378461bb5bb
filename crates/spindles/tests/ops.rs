//! Server features for administrators: a program for events, metrics, systemd, late members, and
//! status.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::serve::choose;
use crate::world::{Background, Running, Systemd, World, fetch, until};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Array 'pool' of this expression on some of four files.
fn array(expression: &str) -> World {
    let pool = World::uneven("a b c spare", 8 << 20);
    pool.does(&format!("create pool {expression}"));
    pool
}

/// A program for events.
fn program(pool: &World, script: &str) -> String {
    pool.put("on-event", format!("#!/bin/sh\n{script}\n"));
    let path = pool.full("on-event");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&path, mode).expect("it may be run");
    path
}

/// Serves it on a socket in its folder.
fn serve(pool: &World, more: &str) -> Running {
    pool.served(&format!("pool --nbd unix:socket{more}"))
}

/// Like `serve`, while systemd listens.
fn serve_with(systemd: &Systemd<'_>, pool: &World, more: &str) -> Running {
    let mut command = pool.command(&format!("serve pool --nbd unix:socket{more}"));
    systemd.hears(&mut command);
    pool.served_by(command)
}

#[test]
fn the_event_program_runs_for_each_event() {
    let pool = array("raid1(a,b) --spare spare");
    let script = format!(
        "echo \"$1 $2 $3 member=$SPINDLES_MEMBER $SPINDLES_EVENT $SPINDLES_ARRAY\" >> {}\n\
         echo \"the program heard $1: $SPINDLES_MESSAGE\"",
        pool.full("log")
    );
    let served = serve(&pool, &format!(" --on-event {}", program(&pool, &script)));
    pool.does("fail b pool");
    let heard = || pool.text("log");
    until("the event", || heard().contains("SpareActive"));
    let output = served.stop().error;
    // Devices have absolute names, valid in any folder, and the spare is never confused with the
    // failed member.
    let (b, spare) = (pool.full("b"), pool.full("spare"));
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
    let pool = array("raid1(a,b)");
    let program = program(&pool, "exec sleep 6");
    let served = serve(&pool, &format!(" --on-event {program}"));
    pool.does("fail b pool");
    let begun = Instant::now();
    pool.ends("status pool", 3);
    assert!(begun.elapsed() < Duration::from_secs(5), "it waited");
    served.stop();
    assert!(
        begun.elapsed() > Duration::from_secs(4),
        "the program was not waited for"
    );
    pool.ends("serve pool --nbd 0 --on-event /there/is/none", 2);
}

/// A program that can't run is refused before anything is served.
#[test]
fn a_program_without_execute_permission_is_refused() {
    let pool = array("raid1(a,b)");
    let program = program(&pool, "true");
    let mode = fs::Permissions::from_mode(0o644);
    fs::set_permissions(&program, mode).expect("it is ours");
    pool.run_words(&["serve", "pool", "--nbd", "0", "--on-event", &program])
        .ends(2)
        .warns("may not execute it")
        .warns(format!("`chmod +x {program}`"));
}

/// The journal records the time itself; elsewhere each line has it.
#[test]
fn server_log_lines_have_a_timestamp() {
    let pool = array("raid1(a,b)");
    let first = |is_journal: bool| {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let pipe =
            fs::metadata(format!("/proc/self/fd/{}", writer.as_raw_fd())).expect("it is open");
        let stream = format!("{}:{}", pipe.dev(), pipe.ino() + u64::from(!is_journal));
        let mut command = pool.command("serve pool --nbd unix:socket");
        let command = command.env("JOURNAL_STREAM", stream).stderr(writer);
        let server = command.stdout(Stdio::null()).spawn().expect("it runs");
        let mut line = String::new();
        let read = BufReader::new(&mut reader).read_line(&mut line);
        read.expect("a line");
        pool.does("stop pool");
        drop(Background(server));
        pool.plain(&line)
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
    let pool = array("raid5(a,b,c)");
    let mut served = serve(&pool, " --metrics 0");
    let url = served.says("array 'pool' has metrics: http://");
    let address = url.strip_suffix("/metrics").expect("its path");
    let page = || {
        let (status, body) = ask(address, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status, 200);
        parse(&pool.plain(&body))
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
    let device = format!("member=\"0\",device=\"{}\"", pool.full("a"));
    assert!(reads.contains(&device), "{reads}");
    // Clients that send nothing, half a request, and too much.
    let silent = TcpStream::connect(address).expect("it listens");
    let mut half = TcpStream::connect(address).expect("it listens");
    half.write_all(b"GET /metrics HTT").expect("it reads");
    let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &[b'a'; 9000]].concat();
    assert_eq!(ask(address, &long).0, 431);
    assert_eq!(ask(address, b"POST /metrics HTTP/1.1\r\n\r\n").0, 405);
    assert_eq!(ask(address, b"GET / HTTP/1.1\r\n\r\n").0, 404);
    pool.does("fail c pool");
    let samples = page();
    assert_eq!(value(&samples, healthy), 0);
    assert_eq!(value(&samples, degraded), 1);
    assert_eq!(value(&samples, &format!("{members}\"missing\"}}")), 1);
    drop((silent, half));
    served.stop();
    pool.ends("serve pool --nbd 0 --metrics 0.0.0.0:0", 2)
        .warns("--allow-plaintext");
}

#[test]
fn systemd_is_notified_of_the_state() {
    let pool = array("raid5(a,b,c)");
    let systemd = Systemd::new(&pool);
    let served = serve_with(&systemd, &pool, "");
    let at = pool.plain(&pool.uri());
    assert_eq!(systemd.heard(), format!("READY=1\nSTATUS=healthy, at {at}"));
    pool.does("fail c pool");
    assert_eq!(
        systemd.heard(),
        format!("STATUS=degraded: without member 2, at {at}")
    );
    served.stop();
    assert_eq!(systemd.heard(), "STOPPING=1");
    // A stale status would be taken for the current state.
    let mut refused = pool.command("serve absent --nbd unix:socket");
    systemd.hears(&mut refused);
    pool.run_command(&mut refused).ends(1);
    let ended = systemd.heard();
    assert!(
        ended.starts_with("STATUS=ended: 'absent' is neither"),
        "{ended}"
    );
}

/// Every level reports rot that a client met and nothing can repair: in the log, to the program for
/// events, and as a degraded array in `status`, in the metrics and to systemd.
#[test]
fn all_monitors_report_rot_that_a_client_met() {
    for members in ["raid5(a,b,c)", "raid0(a,b)", "concat(a,b)"] {
        let pool = array(members);
        pool.put("data", vec![7; 10 << 20]);
        pool.does("copy data array:pool");
        let systemd = Systemd::new(&pool);
        let log = pool.full("log");
        let program = program(&pool, &format!("echo \"$1 $2 $SPINDLES_STATE\" >> {log}"));
        let more = format!(" --metrics 0 --on-event {program}");
        let mut served = serve_with(&systemd, &pool, &more);
        assert!(systemd.heard().contains("STATUS=healthy"));
        for name in ["a", "b"] {
            pool.write(name, 4 << 20, &vec![0x5a; 64 << 10]);
        }
        let at = pool.plain(&pool.uri());
        pool.ends(&format!("copy {at} back"), 1);
        served.says("corrupt and not repaired, from block");
        let heard = || pool.text("log");
        until("the event", || heard().contains("RotFound pool degraded\n"));
        let json = pool.ends("status pool --json", 3).json();
        assert_eq!(json["state"], "degraded", "{members}: {json}");
        assert_eq!(json["scrub_left_bytes"], 4096, "{members}: {json}");
        let url = served.says("array 'pool' has metrics: http://");
        let samples = parse(&pool.plain(&fetch(&url)));
        let of_array = |rest: &str| samples[&format!("spindles_{rest}}}")];
        for (sample, wanted) in [
            ("array_state{array=\"pool\",state=\"healthy\"", 0),
            ("array_state{array=\"pool\",state=\"degraded\"", 1),
            ("scrub_left_bytes{array=\"pool\"", 4096),
        ] {
            assert_eq!(of_array(sample), wanted, "{members}: {sample}");
        }
        assert_eq!(systemd.heard(), format!("STATUS=degraded, at {at}"));
        served.stop();
    }
}

/// A program that pairs the events of a rebuild by their device finds each pair.
#[test]
fn the_events_of_a_replacement_name_the_new_device() {
    let pool = array("raid1(a,b)");
    let program = program(&pool, &format!("echo \"$1 $3\" >> {}", pool.full("log")));
    let served = serve(&pool, &format!(" --on-event {program}"));
    pool.does("replace b pool --onto c");
    let heard = || pool.text("log");
    until("the event", || heard().contains("SpareActive"));
    let (b, c) = (pool.full("b"), pool.full("c"));
    for event in ["RebuildStarted", "RebuildFinished", "SpareActive"] {
        assert!(heard().contains(&format!("{event} {c}\n")), "{}", heard());
    }
    let message = format!("member 1, {b}, is being copied onto {c}");
    served.stop().warns(message);
}

/// A service manager kills processes that outlive the main process, and reports that.
#[test]
fn helpers_end_before_the_server() {
    let pool = array("raid1(a,b)");
    let program = program(&pool, "exit 0");
    let folder = pool.folder().to_str().expect("UTF-8");
    let helpers = || {
        let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
        let lines =
            processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
        let helpers = lines.filter(|line| line.contains("outside\0") && line.contains(folder));
        helpers.count()
    };
    // A helper without a wait often ends in time, hence several rounds.
    for _ in 0..10 {
        let served = serve(&pool, &format!(" --on-event {program}"));
        // A helper has the name of the server until it is executed.
        until("both helpers", || helpers() == 2);
        served.stop();
        assert_eq!(helpers(), 0);
    }
}

#[test]
fn a_server_waits_for_late_members() {
    let pool = array("raid5(a,b,c)");
    let (here, away) = (pool.path("c"), pool.path("away/c"));
    fs::create_dir(pool.path("away")).expect("a folder");
    fs::rename(&here, &away).expect("it goes");
    let systemd = Systemd::new(&pool);
    let at = pool.plain(&pool.uri());
    std::thread::scope(|scope| {
        let served = scope.spawn(|| serve_with(&systemd, &pool, " --wait 30"));
        assert_eq!(
            systemd.heard(),
            "STATUS=waiting: array 'pool' lacks member 2"
        );
        assert!(!pool.path("socket").exists(), "clients may come already");
        fs::rename(&away, &here).expect("it comes back");
        let ready = format!("READY=1\nSTATUS=healthy, at {at}");
        assert_eq!(systemd.heard(), ready);
        served.join().expect("it serves").stop();
        assert_eq!(systemd.heard(), "STOPPING=1");
    });
    fs::rename(&here, &away).expect("it goes");
    let program = program(&pool, &format!("echo \"$1 $2\" >> {}", pool.full("log")));
    let begun = Instant::now();
    let more = format!(" --wait 1 --on-event {program}");
    let served = serve_with(&systemd, &pool, &more);
    assert!(begun.elapsed() >= Duration::from_secs(1), "it did not wait");
    assert_eq!(
        systemd.heard(),
        "STATUS=waiting: array 'pool' lacks member 2"
    );
    assert_eq!(
        systemd.heard(),
        format!("READY=1\nSTATUS=degraded: without member 2, at {at}")
    );
    served
        .stop()
        .warns("array 'pool': serving begins without member 2");
    assert_eq!(pool.text("log"), "DegradedArray pool\n");
}

#[test]
fn status_shows_clients_and_repeats_with_watch() {
    let pool = array("raid1(a,b)");
    let served = serve(&pool, "");
    let mut client = UnixStream::connect(pool.path("socket")).expect("it listens");
    choose(&mut client);
    let json = || pool.json("status pool")["served"].clone();
    // The server registers a client shortly after the handshake.
    until("the event", || json()["clients"] == 1);
    assert_eq!(json()["connections"], 1);
    let watch = pool.begin("status pool --watch=1");
    until("the second status", || {
        watch.output().matches("array 'pool'").count() > 1
    });
    let shown = watch.output();
    let line = shown.lines().find(|line| line.contains("served since "));
    let line = line.expect("it says so");
    assert!(line.ends_with(": 1 client, 1 in all, 0 requests"), "{line}");
    assert!(!shown.contains('\x1b'), "drawn without a terminal");
    served.stop();
    pool.run("status absent --watch").refused();
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
