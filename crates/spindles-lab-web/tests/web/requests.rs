//! Requests of every kind, including malformed and hostile ones.

use crate::public::folder::{Results, begun, records, serve};
use crate::public::http::{connected, get, read, sent};
use spindles_lab_web::{Limits, ServeError, Server};
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn the_loopback_server_answers_only_to_local_host_names() {
    let results = Results::new();
    results.ended("mine", &records(1, 0));
    let local = results.serve();
    let public = serve(&results.root(), "0.0.0.0:0", Limits::default());
    let ask = |address, host: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        sent(address, request.as_bytes())
    };
    for host in ["localhost:1", "127.0.0.1", "[::1]:80"] {
        ask(local, host).says(200, &["mine"]);
    }
    for host in [
        "evil.example",
        "evil.example:7118",
        "10.0.0.1",
        "localhost.evil.example",
        "",
    ] {
        let answer = ask(local, host);
        answer.says(403, &["localhost"]);
        assert!(!answer.body.contains("mine"), "{host}");
    }
    let local_name = format!("127.0.0.1:{}", public.port());
    ask(local_name.parse().unwrap(), "server.example").says(200, &["mine"]);
}

/// Names are looked up in the listing: no spelling of a path reaches anything else.
#[test]
fn no_path_escapes_the_folder() {
    let results = Results::new();
    results.ended("mine", &records(1, 0));
    let secret = results.root().parent().unwrap().join("secret");
    drop(begun(&secret, &records(1, 0)));
    std::fs::write(results.root().join("mine/notes.txt"), "private").unwrap();
    let address = results.serve();
    get(address, "/runs/mine/").says(200, &[]);
    for path in [
        "/runs/../secret/",
        "/runs/..%2fsecret/",
        "/runs/%2e%2e/secret/records.jsonl",
        "/runs/..%5csecret/",
        "/runs/mine/../../secret/records.jsonl",
        "/runs/mine/%2e%2e%2f%2e%2e%2fsecret%2frecords.jsonl",
        "/runs/mine/..%00/records.jsonl",
        "/../secret/records.jsonl",
        "/secret/records.jsonl",
        "/runs//records.jsonl",
        "/runs//etc/passwd",
        "/runs/%2fetc/passwd",
        "/runs/mine/state.json",
        "/runs/mine/notes.txt",
        "/runs/mine/records.jsonl/",
        "/runs/./mine/",
        "/runs/mine%",
        "/runs/%ff/",
        "/runs/",
        "/runs",
        "//",
        "/favicon.ico",
    ] {
        let answer = get(address, path);
        assert_eq!(answer.status, 404, "{path}: {}", answer.head);
    }
}

#[test]
fn the_server_accepts_only_reading_methods() {
    let results = Results::new();
    results.ended("mine", &records(1, 0));
    let address = results.serve();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "BREW"] {
        let head =
            format!("{method} / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
        let mut stream = connected(address);
        stream.write_all(head.as_bytes()).unwrap();
        // The answer arrives before the ignored body, which must not destroy it.
        std::thread::sleep(Duration::from_millis(20));
        for _ in 0..10 {
            stream.write_all(&[b'x'; 10_000]).unwrap();
        }
        let answer = read(&mut stream);
        answer.says(405, &["read-only"]);
        assert_eq!(answer.field("allow"), Some("GET, HEAD"), "{method}");
    }
    let whole = get(address, "/runs/mine/records.jsonl");
    let head = sent(
        address,
        b"HEAD /runs/mine/records.jsonl HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(
        head.field("content-length"),
        Some(&*whole.body.len().to_string())
    );
}

#[test]
fn pages_allow_only_their_own_script_and_style() {
    let results = Results::new();
    results.ended("mine", &records(1, 0));
    let address = results.serve();
    let mut nonces = Vec::new();
    for path in ["/", "/runs/mine/", "/compare", "/nothing"] {
        let answer = get(address, path);
        let policy = answer.field("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'nonce-"),
            "{policy}"
        );
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        let (_, rest) = policy.split_once("script-src 'nonce-").unwrap();
        let (nonce, _) = rest.split_once('\'').unwrap();
        assert_eq!(answer.body.matches("<script").count(), 1, "{path}");
        assert!(
            answer.body.contains(&format!("<script nonce=\"{nonce}\">")),
            "{path}"
        );
        assert!(
            answer.body.contains(&format!("<style nonce=\"{nonce}\">")),
            "{path}"
        );
        nonces.push(nonce.to_owned());
    }
    nonces.dedup();
    assert_eq!(nonces.len(), 4, "a nonce came twice");
    let file = get(address, "/runs/mine/report.html");
    assert!(
        file.field("content-security-policy")
            .unwrap()
            .contains("sandbox")
    );
    assert!(
        file.field("content-disposition")
            .unwrap()
            .starts_with("attachment")
    );
}

#[test]
fn invalid_requests_are_answered_or_dropped() {
    let results = Results::new();
    let limits = Limits {
        head: Duration::from_millis(300),
        ..Limits::default()
    };
    let address = serve(&results.root(), "127.0.0.1:0", limits);
    let many = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        "A: b\r\n".repeat(1000)
    );
    let large = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n",
        "b".repeat(5 << 20)
    );
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(100_000)
    );
    for (request, status) in [
        ("\u{16}\u{3}\u{1}\u{2}\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n\r\n", 400),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
            400,
        ),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            400,
        ),
        ("GET / HTTP/3.0\r\nHost: localhost\r\n\r\n", 400),
        (&many, 431),
        (&long, 431),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\n",
            200,
        ),
        ("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n", 200),
        // An incomplete request times out without an answer.
        ("GET / HTTP/1.1\r\nHo", 0),
        ("", 0),
    ] {
        let start: String = request.chars().take(60).collect();
        assert_eq!(
            sent(address, request.as_bytes()).status,
            status,
            "{start:?}"
        );
    }
    // More than the server reads: the connection may end before the client has sent the whole
    // request.
    let mut stream = connected(address);
    drop(stream.write_all(large.as_bytes()));
    drop(stream);
    get(address, "/").says(200, &["No runs yet"]);
}

/// Browsers open connections ahead of need.
#[test]
fn idle_connections_do_not_block_requests() {
    let results = Results::new();
    let address = results.serve();
    let idle: Vec<_> = (0..100).map(|_| connected(address)).collect();
    let begun = Instant::now();
    get(address, "/").says(200, &["No runs yet"]);
    assert!(
        begun.elapsed() < Limits::default().head,
        "it waited for them"
    );
    drop(idle);
}

#[test]
fn idle_connections_are_closed_for_new_clients() {
    let results = Results::new();
    let limits = Limits {
        connections: 16,
        head: Duration::from_millis(200),
        ..Limits::default()
    };
    let address = serve(&results.root(), "127.0.0.1:0", limits);
    let idle: Vec<_> = (0..48).map(|_| connected(address)).collect();
    let begun = Instant::now();
    get(address, "/").says(200, &["No runs yet"]);
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    drop(idle);
    // A client that disconnects in the middle frees its seat.
    for _ in 0..32 {
        let mut stream = connected(address);
        stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    }
    get(address, "/").says(200, &["No runs yet"]);
}

#[test]
fn a_slow_client_gets_no_extra_time() {
    let results = Results::new();
    let limits = Limits {
        head: Duration::from_millis(300),
        ..Limits::default()
    };
    let address = serve(&results.root(), "127.0.0.1:0", limits);
    let mut stream = connected(address);
    let begun = Instant::now();
    // Each byte arrives in time, the whole request does not.
    for byte in b"GET / HTTP/1.1\r\nHost: localhost" {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        stream
            .write_all(b"\r\n\r\n")
            .map_or(0, |()| read(&mut stream).status),
        0
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_server_reports_why_it_can_not_start() {
    let results = Results::new();
    let address = results.serve();
    let bind = |folder: &Path, address: SocketAddr| {
        let error = Server::bind(folder, address, Limits::default(), |_| None);
        error.unwrap_err()
    };
    let taken = bind(&results.root(), address);
    assert!(matches!(taken, ServeError::InUse { .. }));
    let taken = taken.to_string();
    assert!(
        taken.contains("choose another port with --listen"),
        "{taken}"
    );
    let any = "127.0.0.1:0".parse().unwrap();
    let none = bind(&results.root().join("none"), any).to_string();
    assert!(none.contains("name a folder of results"), "{none}");
    // An address that no machine has (TEST-NET-1).
    let elsewhere = bind(&results.root(), "192.0.2.1:0".parse().unwrap()).to_string();
    assert!(elsewhere.contains("such as 127.0.0.1:7118"), "{elsewhere}");
    let open = Server::bind(
        &results.root(),
        "0.0.0.0:0".parse().unwrap(),
        Limits::default(),
        |_| None,
    );
    assert!(open.unwrap().is_public());
}
