//! `lab serve` while runs are going, end, and are killed.

use crate::world::spindles;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn text(path: &Path) -> &str {
    path.to_str().expect("our names are UTF-8")
}

fn started(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built")
}

/// Starts a server of `folder`. Returns it and its address.
fn server(folder: &Path) -> (Child, String) {
    let mut child = started(&["lab", "serve", text(folder), "--listen", "127.0.0.1:0"]);
    let mut line = String::new();
    let out = child.stdout.take().expect("it is ours");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let (_, rest) = line.split_once("http://").expect("a URL");
    let address = rest.trim_end().trim_end_matches('/').to_owned();
    (child, address)
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn wait_for(address: &str, path: &str, words: &str) {
    let begun = Instant::now();
    while !get(address, path).contains(words) {
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "{path} never says {words}: {}",
            get(address, path)
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn signal(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let killed = Command::new("kill").args([signal, &id]).status();
    assert!(killed.expect("there is a kill").success());
}

#[test]
fn runs_are_shown_while_running_and_afterwards() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    for name in ["files", "results"] {
        fs::create_dir(at(name)).expect("a new folder");
    }
    let experiment = format!(
        "name = \"small\"\nsize = \"1M\"\nblocks = 1000\nfolder = \"{}\"\n\
         [[system]]\ntarget = \"single\"\n[[workload]]\nkind = \"block-write\"\n",
        at("files").display()
    );
    fs::write(at("small.toml"), experiment).expect("a new file");
    let run = |name: &str, more: &[&str]| {
        let (file, out) = (at("small.toml"), at("results").join(name));
        started(&[&["lab", "run", text(&file), "--out", text(&out)][..], more].concat())
    };
    let (mut server, address) = server(&at("results"));
    assert!(get(&address, "/").contains("No runs yet"));

    // Both run at the same time; one is killed, the other interrupted.
    let (mut killed, mut interrupted) = (run("killed", &[]), run("asked", &[]));
    for name in ["killed", "asked"] {
        let state = format!("/runs/{name}/state");
        wait_for(&address, &state, "\"state\":\"running\"");
        wait_for(&address, &state, "of 2000 runs done");
        wait_for(&address, &format!("/runs/{name}/"), "id=\"overview\"");
    }
    assert!(get(&address, "/").contains("2 runs, 2 of them in progress"));
    signal(&killed, "-KILL");
    signal(&interrupted, "-INT");
    killed.wait().expect("it ends");
    interrupted.wait().expect("it ends");
    assert!(get(&address, "/runs/killed/state").contains("\"state\":\"cut_short\""));
    assert!(get(&address, "/runs/asked/state").contains("\"state\":\"interrupted\""));
    assert!(get(&address, "/runs/killed/").contains("killed, or the power failed"));

    let mut short = run("short", &["--blocks", "2"]);
    assert!(short.wait().expect("it ends").success());
    assert!(get(&address, "/runs/short/state").contains("\"state\":\"finished\""));
    assert!(get(&address, "/compare?run=short&run=asked").contains("Before and after"));

    spindles(&["lab", "serve", text(&at("results")), "--listen", &address])
        .fails(1, ["is in use already", "--listen"]);
    signal(&server, "-INT");
    let status = server.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn lab_serve_reports_who_can_read_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listen = ["lab", "serve", text(folder.path()), "--json", "--listen"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args([&listen[..], &["0.0.0.0:0"]].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    let mut line = String::new();
    let error = child.stderr.take().expect("it is ours");
    BufReader::new(error).read_line(&mut line).expect("a line");
    assert!(line.contains("everyone who reaches 0.0.0.0:"), "{line}");
    signal(&child, "-TERM");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(0));
    let json: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(json["schema"], "spindles.lab.serve");
    assert!(
        json["url"]
            .as_str()
            .is_some_and(|url| url.starts_with("http://0.0.0.0:"))
    );
}
