//! Nested arrays: reports about them are true, and advice works, whether they are served or not.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// Size of each file in bytes.
const BYTES: u64 = 16 << 20;

/// Six files in a folder, an array on them, and perhaps its server.
struct Nest {
    folder: TempDir,
    server: Option<Child>,
    /// The address of the server's metrics.
    metrics: String,
}

/// The output of a command, and its exit status.
#[derive(Debug)]
struct Run {
    output: String,
    status: i32,
}

impl Nest {
    /// Creates array 'nest' from this expression, on files a to f.
    fn new(expression: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let nest = Self {
            folder,
            server: None,
            metrics: String::new(),
        };
        for name in ["a", "b", "c", "d", "e", "f"] {
            nest.make(name);
        }
        nest.ends(&format!("create nest {expression}"), 0);
        nest
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes an empty file.
    fn make(&self, name: &str) {
        let file = File::create(self.path(name)).expect("a file");
        file.set_len(BYTES).expect("its length");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = crate::program_in(self.folder.path());
        command.args(line.split(' '));
        command
    }

    fn run(&self, line: &str) -> Run {
        let Output {
            stdout,
            stderr,
            status,
        } = self.command(line).output().expect("the command runs");
        Run {
            output: String::from_utf8([stdout, stderr].concat()).expect("text"),
            status: status.code().expect("it ends by itself"),
        }
    }

    /// Runs a command that must end with this exit status. Returns its output.
    fn ends(&self, line: &str, status: i32) -> String {
        let run = self.run(line);
        assert_eq!(run.status, status, "{line}: {}", run.output);
        run.output
    }

    fn serve(&mut self) {
        self.serve_with("");
    }

    fn serve_with(&mut self, more: &str) {
        let line = format!("serve nest --nbd unix:socket --metrics 0 --degraded{more}");
        let mut command = self.command(&line);
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = command.spawn().expect("the command runs");
        let mut lines = BufReader::new(server.stderr.take().expect("it is piped"));
        self.server = Some(server);
        let mut output = String::new();
        while !output.contains("'nest' has metrics: ") {
            assert!(
                lines.read_line(&mut output).expect("a line") > 0,
                "{output}"
            );
        }
        let (_, url) = output.split_once("http://").expect("its address");
        url.split_once('/')
            .expect("a path")
            .0
            .clone_into(&mut self.metrics);
        // Drains the rest of its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
    }

    fn stop(&mut self) {
        self.ends("stop nest", 0);
        let mut server = self.server.take().expect("it ran");
        assert!(server.wait().expect("it ends").success());
    }

    /// The state of an array in the metrics; `None` if they do not list it.
    fn state(&self, array: &str) -> Option<String> {
        let mut stream = TcpStream::connect(&self.metrics).expect("it listens");
        let request = b"GET /metrics HTTP/1.0\r\nHost: a\r\n\r\n";
        stream.write_all(request).expect("it reads");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("text");
        let sample = format!("spindles_array_state{{array=\"{array}\",state=\"");
        let mut states = page.lines().filter_map(|line| line.strip_prefix(&sample));
        let state = states.find_map(|rest| rest.strip_suffix("\"} 1"));
        state.map(str::to_owned)
    }

    /// Writes part of the array.
    fn write(&self) {
        let bytes: Vec<u8> = (0..6 << 20)
            .map(|at: u32| at.to_le_bytes()[2] ^ 0x5a)
            .collect();
        std::fs::write(self.path("in"), bytes).expect("room");
        self.ends("copy in nbd+unix:///nest?socket=socket", 0);
    }

    /// Damages the last block of a file that `write` filled.
    fn rot(&self, name: &str) {
        let mut bytes = std::fs::read(self.path(name)).expect("it is there");
        let is_data = |block: &[u8]| block[0] != 0 && block.iter().all(|byte| *byte == block[0]);
        let blocks = bytes.chunks_mut(4096);
        let last = blocks.rev().find(|block| is_data(block)).expect("data");
        last[100..200].fill(0xee);
        std::fs::write(self.path(name), bytes).expect("room");
    }

    /// Damages both superblocks of a file.
    fn lose_superblocks(&self, name: &str) {
        let file = OpenOptions::new().write(true).open(self.path(name));
        let file = file.expect("it is ours");
        for slot in [4096, 32768] {
            file.write_all_at(&[0xee; 512], slot).expect("room");
        }
    }

    /// The corrupt and the repaired bytes that `status` shows for each member of the array.
    fn errors(&self) -> Vec<[u64; 2]> {
        let output = self.ends("status nest --json", 0);
        let document: serde_json::Value = serde_json::from_str(&output).expect("JSON");
        let members = document["members"].as_array().expect("a list").iter();
        let of = |member: &serde_json::Value, what| member["errors"][what].as_u64().expect(what);
        let errors = members.map(|it| [of(it, "corrupt_bytes"), of(it, "repaired_bytes")]);
        errors.collect()
    }

    /// Empties these files. Returns their contents.
    fn cut(&self, files: &[&str]) -> Vec<Vec<u8>> {
        let cut = files.iter().map(|name| {
            let bytes = std::fs::read(self.path(name)).expect("it is there");
            let file = OpenOptions::new().write(true).open(self.path(name));
            file.and_then(|file| file.set_len(0)).expect("it is ours");
            bytes
        });
        cut.collect()
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// Metrics report the same state as `status`.
#[test]
fn a_degraded_inner_array_degrades_the_outer_array() {
    let mut nest = Nest::new("raid1(raid5(a,b,c),raid5(d,e,f))");
    nest.serve();
    assert_eq!(nest.state("nest").as_deref(), Some("healthy"));
    nest.ends("fail b nest", 0);
    nest.ends("status nest", 3);
    for (array, state) in [
        ("nest", "degraded"),
        ("nest.0", "degraded"),
        ("nest.1", "healthy"),
    ] {
        assert_eq!(nest.state(array).as_deref(), Some(state), "{array}");
    }
    nest.ends("add b nest", 0);
    assert_eq!(nest.state("nest").as_deref(), Some("healthy"));
    nest.stop();
}

/// What the outer array finds wrong on an inner one without checksums is shown at that member, in
/// the event with the device, and can be cleared by a device or for all members.
#[test]
fn corruption_below_an_inner_array_is_shown_and_cleared() {
    let mut nest = Nest::new("raid1(raid0(a,b),raid0(c,d))");
    let script = "#!/bin/sh\necho \"$1 $2 $3\" >> \"$(dirname \"$0\")/events\"\n";
    std::fs::write(nest.path("tell"), script).expect("room");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(nest.path("tell"), executable).expect("it is ours");
    nest.serve_with(" --on-event ./tell");
    nest.write();
    nest.rot("c");
    nest.ends("scrub nest", 0);
    assert_eq!(nest.errors(), [[0, 0], [4096, 4096]]);
    let output = nest.ends("status nest", 0);
    let shown = "  member 1: an array, healthy\n    errors: 4 KiB corrupt, 4 KiB repaired\n";
    assert!(output.contains(shown), "{output}");
    let output = nest.ends("status --clear-errors c nest", 0);
    let cleared = "array 'nest': member 1, an array: cleared 4 KiB corrupt, 4 KiB repaired\n";
    assert!(output.contains(cleared), "{output}");
    assert_eq!(nest.errors(), [[0, 0], [0, 0]]);
    nest.stop();
    let events = std::fs::read_to_string(nest.path("events")).expect("events");
    let device = nest.path("c").canonicalize().expect("it is there");
    let event = format!("RotRepaired nest {}\n", device.display());
    assert!(events.contains(&event), "{events}");
    // Not the two copies of one block.
    nest.rot("a");
    nest.rot("d");
    nest.ends("scrub nest", 0);
    assert_eq!(nest.errors(), [[4096, 4096], [4096, 4096]]);
    let output = nest.ends("status --clear-errors nest", 0);
    assert_eq!(
        output.matches(": cleared 4 KiB corrupt").count(),
        2,
        "{output}"
    );
    assert_eq!(nest.errors(), [[0, 0], [0, 0]]);
    let output = nest.ends("status --clear-errors nest", 0);
    assert!(output.contains("nest: no member had errors"), "{output}");
}

/// An inner array without which the outer one continues no longer counts: neither its findings nor
/// its state affect the outer array, with redundancy of its own or without.
#[test]
fn an_abandoned_inner_array_is_not_scrubbed() {
    for (inside, cut) in [("raid1", &["a", "b"][..]), ("raid0", &["b"])] {
        let mut nest = Nest::new(&format!("raid5({inside}(a,b),{inside}(c,d),{inside}(e,f))"));
        nest.serve();
        nest.write();
        nest.cut(cut);
        let found = nest.ends("scrub nest", 0);
        assert!(found.contains("array 'nest': member 0 is out"), "{found}");
        assert!(!found.contains("not repaired"), "{found}");
        nest.ends("status nest", 3);
        assert_eq!(nest.state("nest").as_deref(), Some("degraded"));
        assert_eq!(nest.state("nest.0"), None);
        nest.stop();
    }
}

/// A failed inner array that the server still has open comes back by the command that `status`
/// names, or by any of its devices.
#[test]
fn a_failed_inner_array_returns_to_a_served_array() {
    for (inside, cut, back) in [
        ("raid1", &["a", "b"][..], "add b nest"),
        ("raid0", &["b"], "rebuild nest"),
    ] {
        let mut nest = Nest::new(&format!("raid5({inside}(a,b),{inside}(c,d),{inside}(e,f))"));
        nest.serve();
        nest.write();
        let held = nest.cut(cut);
        nest.ends("scrub nest", 0);
        for (name, mut bytes) in cut.iter().zip(held) {
            // Keeps the superblocks that the scrub wrote: with older ones the file is an old copy.
            let now = std::fs::read(nest.path(name)).expect("it is there");
            let superblocks = &now[..now.len().min(36 << 10)];
            bytes[..superblocks.len()].copy_from_slice(superblocks);
            std::fs::write(nest.path(name), bytes).expect("room");
        }
        let output = nest.ends("status nest", 3);
        let advice = "`spindles rebuild nest` brings array 'nest.0' up to date";
        assert!(output.contains(advice), "{output}");
        let output = nest.ends(back, 0);
        let done = "array 'nest': member 0 is active again";
        assert!(output.contains(done), "{output}");
        // What the first scrub left in the inner array counts until another has found it good.
        nest.ends("scrub nest", 0);
        assert_eq!(nest.state("nest").as_deref(), Some("healthy"));
        nest.ends("copy --force nbd+unix:///nest?socket=socket out", 0);
        let read = |name| std::fs::read(nest.path(name)).expect("it is there");
        assert!(read("out").starts_with(&read("in")));
        nest.stop();
        let output = nest.ends("scrub nest", 0);
        assert!(
            output.contains("array 'nest': nothing is wrong"),
            "{output}"
        );
    }
}

/// After the file of an inner member is moved, `status` and `scrub` report what the server knows.
#[test]
fn an_inner_member_with_a_moved_file_is_known() {
    let mut nest = Nest::new("raid5(raid0(a,b),c,d)");
    nest.serve();
    std::fs::rename(nest.path("a"), nest.path("away")).expect("it is ours");
    let output = nest.ends("status nest", 0);
    assert!(output.contains("member 0: an array, healthy"), "{output}");
    assert!(output.contains("/a was moved or deleted"), "{output}");
    assert!(
        !output.contains("missing") && !output.contains("left out"),
        "{output}"
    );
    let output = nest.ends("scrub nest", 0);
    assert!(
        output.contains("array 'nest': nothing is wrong"),
        "{output}"
    );
    std::fs::rename(nest.path("away"), nest.path("a")).expect("it is ours");
    nest.stop();
}

/// A served array whose inner array is lost on the disks has no redundancy left: the next server
/// finds no such member.
#[test]
fn an_inner_array_lost_on_the_disks_is_not_relied_on() {
    let mut nest = Nest::new("raid1(raid0(a,b),raid0(c,d))");
    nest.serve();
    nest.write();
    nest.lose_superblocks("a");
    let output = nest.ends("status nest", 3);
    assert!(output.contains("member 0: not there"), "{output}");
    assert!(
        output.contains("it is not safe from further losses"),
        "{output}"
    );
    let json = nest.ends("status nest --json", 3);
    assert!(json.contains("\"survives_more\": 0"), "{json}");
}

/// A scrub of a served array repairs that, and reports the array as it is then.
#[test]
fn a_scrub_shows_an_inner_array_on_the_disks_again() {
    let mut nest = Nest::new("raid1(raid0(a,b),raid0(c,d))");
    nest.serve();
    nest.write();
    nest.lose_superblocks("a");
    let output = nest.ends("scrub nest", 0);
    let repaired = "8 KiB of metadata, or without good checksums, repaired";
    assert!(output.contains(repaired), "{output}");
    assert!(
        !output.contains("degraded") && !output.contains("without member"),
        "{output}"
    );
    nest.ends("status nest", 0);
    nest.stop();
}

/// An inner array whose place another device took is left over: it limits the outer array in
/// nothing.
#[test]
fn a_replaced_inner_array_does_not_limit_the_outer_array() {
    let mut nest = Nest::new("raid5(concat(a,b),c,d) --chunk 16K");
    let file = OpenOptions::new().write(true).open(nest.path("e"));
    file.and_then(|file| file.set_len(3 * BYTES))
        .expect("it is ours");
    let away = tempfile::tempdir_in(nest.folder.path()).expect("a folder");
    std::fs::rename(nest.path("a"), away.path().join("a")).expect("it is ours");
    nest.serve();
    nest.ends("rebuild nest --onto e", 0);
    nest.stop();
    let output = nest.ends("status nest", 0);
    assert!(!output.contains("not in the current folder"), "{output}");
    std::fs::rename(away.path().join("a"), nest.path("a")).expect("it is ours");
    let output = nest.ends("grow nest --add f", 0);
    assert!(output.contains("on 4 members now"), "{output}");
}

/// If an inner array was absent when serving began, its devices are added one after the other:
/// incomplete ones are kept, and no data is reported as overwritten.
#[test]
fn devices_of_an_absent_inner_array_are_added() {
    for inside in ["raid0", "raid1"] {
        let mut nest = Nest::new(&format!("raid5({inside}(a,b),{inside}(c,d),{inside}(e,f))"));
        let away = tempfile::tempdir_in(nest.folder.path()).expect("a folder");
        for name in ["a", "b"] {
            std::fs::rename(nest.path(name), away.path().join(name)).expect("it is ours");
        }
        nest.serve();
        nest.write();
        for (name, status) in [("b", 1), ("a", 0)] {
            std::fs::rename(away.path().join(name), nest.path(name)).expect("it is ours");
            let output = nest.ends(&format!("add {name} nest"), status);
            assert!(!output.contains("or take another"), "{output}");
        }
        nest.ends("status nest", 0);
        nest.stop();
        let output = nest.ends("scrub nest", 0);
        assert!(
            output.contains("array 'nest': nothing is wrong"),
            "{output}"
        );
    }
}

/// Commands accept the outermost array, and no text advises another one.
#[test]
fn commands_accept_only_the_outermost_array() {
    let mut nest = Nest::new("raid1(raid5(a,b,c),raid5(d,e,f))");
    for is_served in [false, true] {
        if is_served {
            nest.serve();
        }
        let output = nest.ends("fail b nest", 0);
        assert!(output.contains("b nest` takes it back"), "{output}");
        let output = nest.ends("fail c nest", 1);
        assert!(output.contains(" nest --onto DEV`"), "{output}");
        for line in ["status nest.0", "add b nest.0", "scrub nest.0"] {
            let output = nest.ends(line, 1);
            assert!(
                output.contains("'nest.0' is an array inside 'nest' "),
                "{output}"
            );
        }
        nest.ends("add b nest", 0);
    }
    nest.stop();
}
