//! Every ordered pair of management commands on a served array, while a client writes to it: the
//! second begins as soon as the first was accepted, in its middle, or when it has ended. A command
//! refused after the first has ended changes no byte of devices outside of the array. At the end,
//! the client's data is there, also without any one member, and a scrub finds nothing.
//!
//! By default, the test tries part of the pairs. `SPINDLES_PAIRS=all` tries every pair, and
//! `SPINDLES_PAIRS=17` only pair 17.

#![allow(clippy::print_stdout, reason = "what is tried")]
#![allow(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// Blocks of the array that the client writes: few, so that the client overwrites blocks often.
const BLOCKS: u64 = 1536;
const MEMBER_BYTES: u64 = 12 << 20;
/// Size of devices for future members, somewhat larger.
const NEW_BYTES: u64 = 13 << 20;
/// Difference in length between a device and the next.
const UNLIKE_BYTES: u64 = 150_000;
const MEMBERS: [&str; 3] = ["a", "b", "c"];
const OTHERS: [&str; 3] = ["d", "e", "j"];
/// Longest time for any command.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(3);
/// By default, every 149th pair is tried. As the number is prime, all commands take part.
const STRIDE: usize = 149;
/// Exit statuses of refused commands.
const REFUSED: [i32; 2] = [1, 2];

/// The arrays with parity first: only they have a journal.
const ARRAYS: [&str; 5] = [
    "raid5(a,b,c) --checksum none --chunk 16K",
    "raid5(a,b,c) --chunk 4K",
    "raid5(a,b,c) --chunk 8K --block-size 512",
    "raid1(a,b,c)",
    "raid10(a,b,c) --chunk 16K",
];
const WITH_PARITY: usize = 3;

/// A command with `ARRAY` in place of the name, and the commands that must run before it.
struct First {
    before: &'static [&'static str],
    line: &'static str,
}

const fn first(before: &'static [&'static str], line: &'static str) -> First {
    First { before, line }
}

const FIRSTS: [First; 18] = [
    first(&[], "replace b ARRAY --onto d"),
    first(&[], "fail b ARRAY"),
    first(&["fail b ARRAY"], "remove b ARRAY"),
    first(&["fail b ARRAY"], "add b ARRAY"),
    first(&["fail b ARRAY"], "rebuild ARRAY --onto d"),
    first(&["fail b ARRAY", "remove b ARRAY"], "add d ARRAY"),
    first(&[], "spare add d --array ARRAY"),
    first(&["spare add d --array ARRAY"], "fail b ARRAY"),
    first(
        &["spare add d --array ARRAY"],
        "spare remove d --array ARRAY",
    ),
    first(&[], "grow ARRAY --add d"),
    first(&[], "journal add j --array ARRAY"),
    first(
        &["journal add j --array ARRAY"],
        "journal remove --array ARRAY",
    ),
    first(&[], "scrub ARRAY"),
    first(&[], "resync ARRAY"),
    first(&[], "rename ARRAY ARRAY-2"),
    first(&[], "set ARRAY --degraded-writes allow"),
    first(&[], "status ARRAY --clear-errors b"),
    first(&[], "stop ARRAY --force"),
];

const SECONDS: [&str; 39] = [
    "fail a ARRAY",
    "fail b ARRAY",
    "fail d ARRAY",
    "remove b ARRAY",
    "remove d ARRAY",
    "add b ARRAY",
    "add d ARRAY",
    "add e ARRAY",
    "rebuild ARRAY",
    "rebuild ARRAY --onto b",
    "rebuild ARRAY --onto d",
    "rebuild ARRAY --onto e",
    "replace b ARRAY --onto d",
    "replace b ARRAY --onto e",
    "replace a ARRAY --onto d",
    "replace a ARRAY --onto e",
    "replace a ARRAY --onto b",
    "replace d ARRAY --onto e",
    "spare add b --array ARRAY",
    "spare add d --array ARRAY",
    "spare add e --array ARRAY",
    "spare remove d --array ARRAY",
    "spare remove d",
    "grow ARRAY",
    "grow ARRAY --add d",
    "grow ARRAY --add e",
    "grow ARRAY --size max",
    "grow ARRAY --abort",
    "journal add d --array ARRAY",
    "journal add e --array ARRAY",
    "journal remove --array ARRAY",
    "scrub ARRAY",
    "scrub ARRAY --check",
    "resync ARRAY",
    "rename ARRAY ARRAY-3",
    "set ARRAY --degraded-writes ask",
    "wipe b --force",
    "wipe d --force",
    "stop ARRAY",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Accepted,
    Middle,
    Ended,
}

const STAGES: [Stage; 3] = [Stage::Accepted, Stage::Middle, Stage::Ended];

/// The writes of the client: the last acknowledged stamp of each block, and one more that may be
/// there if the connection ended before the reply.
#[derive(Debug, Default)]
struct Written {
    acknowledged: BTreeMap<u64, u64>,
    in_doubt: Option<(u64, u64)>,
    error: Option<String>,
}

/// A client of the export.
struct Client(UnixStream);

impl Client {
    fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(COMMAND_TIMEOUT))?;
        let mut choice = 3_u32.to_be_bytes().to_vec();
        choice.extend(b"IHAVEOPT\0\0\0\x01");
        choice.extend(u32::try_from(export.len()).expect("short").to_be_bytes());
        choice.extend(export.as_bytes());
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&choice)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(Self(stream))
    }

    /// Sends a request for one block. Returns the error number of the reply, or 0.
    fn ask(&mut self, command: u16, block: u64, data: &[u8]) -> io::Result<u32> {
        let offset = block * u64::try_from(BLOCK_BYTES).expect("64 bits");
        let bytes = u32::try_from(BLOCK_BYTES).expect("few");
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(0_u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(block.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(bytes.to_be_bytes());
        request.extend(data);
        self.0.write_all(&request)?;
        let mut head = [0; 16];
        self.0.read_exact(&mut head)?;
        assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes(), "a simple reply");
        Ok(u32::from_be_bytes(head[4..8].try_into().expect("4 bytes")))
    }

    fn write(&mut self, block: u64, stamp: u64) -> io::Result<u32> {
        let data: Vec<u8> = stamp.to_le_bytes().repeat(BLOCK_BYTES / size_of::<u64>());
        self.ask(1, block, &data)
    }

    fn read(&mut self, block: u64) -> io::Result<Result<Vec<u8>, u32>> {
        let error = self.ask(0, block, &[])?;
        if error > 0 {
            return Ok(Err(error));
        }
        let mut data = vec![0; BLOCK_BYTES];
        self.0.read_exact(&mut data)?;
        Ok(Ok(data))
    }
}

impl Written {
    /// Checks a block that was read.
    fn check(&self, block: u64, data: &[u8]) -> Result<(), String> {
        let stamp = u64::from_le_bytes(data[..8].try_into().expect("8 bytes"));
        let is_whole = data.chunks(8).all(|it| it == stamp.to_le_bytes());
        let wanted = self.acknowledged.get(&block).copied().unwrap_or(0);
        if is_whole && (stamp == wanted || self.in_doubt == Some((block, stamp))) {
            return Ok(());
        }
        Err(format!(
            "block {block} holds {stamp} (whole: {is_whole}), and {wanted} was acknowledged"
        ))
    }

    /// Writes until it is stopped or the connection ends, and reads back every fourth block.
    fn write_until(mut self, mut client: Client, is_over: &AtomicBool) -> Self {
        let mut drawn = 1_u64;
        for stamp in 1.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let block = (drawn >> 33) % BLOCKS;
            match client.write(block, stamp) {
                Ok(0) => drop(self.acknowledged.insert(block, stamp)),
                Ok(error) => {
                    self.error = Some(format!("a write of block {block}: error {error}"));
                    break;
                }
                Err(_) => {
                    self.in_doubt = Some((block, stamp));
                    break;
                }
            }
            let read = (stamp % 4 == 0).then(|| client.read((drawn >> 13) % BLOCKS));
            match read {
                Some(Ok(Ok(data))) => self.error = self.check((drawn >> 13) % BLOCKS, &data).err(),
                Some(Ok(Err(error))) => self.error = Some(format!("a read: error {error}")),
                Some(Err(_)) => break,
                None => {}
            }
            if self.error.is_some() {
                break;
            }
        }
        self
    }
}

/// A folder with devices, and a server.
struct World {
    folder: tempfile::TempDir,
    name: String,
    /// The UUID, which identifies the array even after `rename`.
    uuid: String,
    server: Option<Child>,
}

impl World {
    fn new(number: usize, array: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (at, name) in (0..).zip(MEMBERS.iter().chain(&OTHERS)) {
            let bytes = if MEMBERS.contains(name) {
                MEMBER_BYTES
            } else {
                NEW_BYTES
            };
            // All lengths differ.
            let bytes = bytes + at * UNLIKE_BYTES;
            let file = File::create(folder.path().join(name)).expect("a file");
            file.set_len(bytes).expect("its length");
        }
        let mut world = Self {
            folder,
            name: format!("pairs-{number}-{}", std::process::id()),
            uuid: String::new(),
            server: None,
        };
        world.does(&format!("create ARRAY {array}"))?;
        let status = world.status()?;
        status["uuid"]
            .as_str()
            .ok_or("no UUID")?
            .clone_into(&mut world.uuid);
        world.serve("")?;
        Ok(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn begin(&self, line: &str) -> Child {
        // The output of a command fits into a pipe.
        let mut command = crate::program_in(self.folder.path());
        let line = line.replace("ARRAY", &self.name);
        let command = command.args(line.split(' ')).stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it runs")
    }

    fn end(line: &str, mut command: Child) -> Result<(i32, String), String> {
        let began = Instant::now();
        while command.try_wait().expect("it is ours").is_none() {
            if began.elapsed() > COMMAND_TIMEOUT {
                drop(command.kill());
                let Output { stderr, .. } = command.wait_with_output().expect("it ends");
                let message = String::from_utf8_lossy(&stderr).into_owned();
                return Err(format!("{line} hangs: {message}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        let output = command.wait_with_output().expect("it ended");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        match output.status.code() {
            Some(code @ 0..=4) => Ok((code, message)),
            _ => Err(format!("{line}: {}: {message}", output.status)),
        }
    }

    fn run(&self, line: &str) -> Result<(i32, String), String> {
        Self::end(line, self.begin(line))
    }

    fn does(&self, line: &str) -> Result<(), String> {
        match self.run(line)? {
            (0, _) => Ok(()),
            (status, message) => Err(format!("{line}: exit status {status}: {message}")),
        }
    }

    fn status(&self) -> Result<Value, String> {
        // Use the UUID once known, because commands may rename the array.
        let which = if self.uuid.is_empty() {
            &self.name
        } else {
            &self.uuid
        };
        let line = format!("status {which} --json");
        let output = self.begin(&line).wait_with_output().expect("it ends");
        serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("status: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn serve(&mut self, more: &str) -> Result<(), String> {
        let which = if self.uuid.is_empty() {
            self.name.clone()
        } else {
            self.uuid.clone()
        };
        drop(fs::remove_file(self.path("socket")));
        let mut server = self.begin(&format!("serve {which} --nbd unix:socket{more}"));
        let mut lines = BufReader::new(server.stderr.take().expect("it is piped"));
        self.server = Some(server);
        let mut message = String::new();
        while !message.contains("' is served") {
            if lines.read_line(&mut message).expect("a line") == 0 {
                return Err(format!("it is not served: {message}"));
            }
        }
        // Drain the output: the server must not wait for a reader.
        thread::spawn(move || lines.read_to_string(&mut String::new()));
        Ok(())
    }

    fn stop(&mut self) -> Result<(), String> {
        self.does(&format!("stop {} --force", self.uuid))?;
        self.server_ended()
    }

    fn server_ended(&mut self) -> Result<(), String> {
        let mut server = self.server.take().expect("it is served");
        let status = server.wait().expect("it is ours");
        if status.success() {
            return Ok(());
        }
        Err(format!("the server: {status}"))
    }

    fn is_served(&mut self) -> bool {
        let server = self.server.as_mut();
        server.is_some_and(|it| it.try_wait().expect("it is ours").is_none())
    }

    /// Progress of the furthest job, from 0 to 1; `None` without jobs.
    fn jobs_done(&self) -> Option<f64> {
        let status = self.status().ok()?;
        let jobs = status["jobs"].as_array()?;
        let part = |job: &Value| {
            let [done, total] = ["done_bytes", "total_bytes"].map(|it| job[it].as_f64());
            done.unwrap_or(0.0) / total.unwrap_or(1.0).max(1.0)
        };
        jobs.iter().map(part).reduce(f64::max)
    }

    /// The devices that the array uses.
    fn used(&self) -> Vec<String> {
        let Ok(status) = self.status() else {
            return MEMBERS
                .iter()
                .chain(&OTHERS)
                .map(ToString::to_string)
                .collect();
        };
        let text = status.to_string();
        let is_named = |it: &&&str| text.contains(&format!("/{it}\""));
        let names = MEMBERS.iter().chain(&OTHERS).filter(is_named);
        names.map(ToString::to_string).collect()
    }

    fn contents(&self, used: &[String]) -> BTreeMap<&'static str, Vec<u8>> {
        let others = MEMBERS.into_iter().chain(OTHERS);
        let others = others.filter(|it| !used.iter().any(|used| used == it));
        others
            .map(|it| (it, fs::read(self.path(it)).expect("it is there")))
            .collect()
    }

    fn come_to(&self, stage: Stage, first: &mut Child) {
        let is_there = |done: Option<f64>| match stage {
            Stage::Accepted => done.is_some(),
            Stage::Middle => done.is_some_and(|it| it >= 0.5),
            Stage::Ended => false,
        };
        while first.try_wait().expect("it is ours").is_none() && !is_there(self.jobs_done()) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn verify(&self, written: &Written) -> Result<(), String> {
        let export = self.status()?["name"].as_str().unwrap_or("").to_owned();
        let found = Client::connect(&self.path("socket"), &export);
        // An export keeps the name with which serving began.
        let found = found.or_else(|_| Client::connect(&self.path("socket"), &self.name));
        let mut client = found.map_err(|error| format!("a new client: {error}"))?;
        for block in 0..BLOCKS {
            match client.read(block) {
                Ok(Ok(data)) => written.check(block, &data)?,
                other => return Err(format!("block {block} can't be read: {other:?}")),
            }
        }
        Ok(())
    }

    fn writer(&self, is_over: &Arc<AtomicBool>) -> Result<JoinHandle<Written>, String> {
        let client = Client::connect(&self.path("socket"), &self.name);
        let client = client.map_err(|error| format!("the client: {error}"))?;
        let is_over = Arc::clone(is_over);
        Ok(thread::spawn(move || {
            Written::default().write_until(client, &is_over)
        }))
    }

    fn wait_for_jobs(&self) -> Result<(), String> {
        let began = Instant::now();
        while self.jobs_done().is_some() {
            if began.elapsed() > COMMAND_TIMEOUT {
                return Err(format!("a job does not end: {}", self.status()?));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Checks all guarantees at the end.
    fn judge(&mut self, written: &Written) -> Result<(), String> {
        if !self.is_served() {
            self.server_ended()?;
            self.serve(" --degraded")?;
        }
        self.wait_for_jobs()?;
        self.verify(written)?;
        // A growth that was refused or given up must not have happened.
        self.does(&format!("scrub {} --restart", self.uuid))?;
        let status = self.status()?;
        let members = status["members"].as_array().ok_or("no members")?;
        let is_healthy = members.iter().all(|it| it["state"] == "active");
        self.stop()?;
        if !is_healthy {
            self.serve(" --degraded")?;
            self.verify(written)
                .map_err(|error| format!("served again: {error}"))?;
            return self.stop();
        }
        let without = members.iter().filter_map(|it| it["device"].as_str());
        let without: Vec<PathBuf> = without.map(|it| self.path(it)).collect();
        if without.len() != members.len() {
            return Err(format!("members without a device: {status}"));
        }
        for device in without {
            let away = self.path("away");
            fs::create_dir_all(&away).expect("a folder");
            let aside = away.join("device");
            fs::rename(&device, &aside).expect("it is ours");
            let why = |error| format!("without {}: {error}", device.display());
            self.serve(" --degraded --read-only").map_err(why)?;
            self.verify(written).map_err(why)?;
            self.stop()?;
            fs::rename(&aside, &device).expect("it is ours");
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            drop(server.kill());
            drop(server.wait());
        }
    }
}

/// Tries one pair, and returns the exit statuses of both commands.
fn try_pair(
    number: usize,
    array: &str,
    first: &First,
    second: &str,
    stage: Stage,
) -> Result<[i32; 2], String> {
    let mut world = World::new(number, array)?;
    for line in first.before {
        world.does(line)?;
    }
    world.wait_for_jobs()?;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = world.writer(&is_over)?;
    let mut command = world.begin(first.line);
    world.come_to(stage, &mut command);
    let used_before = world.used();
    let before = world.contents(&used_before);
    let (second_status, second_message) = world.run(second)?;
    let mut used = world.used();
    let (first_status, first_message) = World::end(first.line, command)?;
    if REFUSED.contains(&second_status) && stage == Stage::Ended {
        used.extend(used_before);
        for (name, contents) in world.contents(&used) {
            if before.get(name).is_some_and(|it| *it != contents) {
                return Err(format!(
                    "{second} was refused and changed {name}: {second_message}"
                ));
            }
        }
    }
    if first_status != 0 && stage == Stage::Ended {
        return Err(format!("{} alone: {first_message}", first.line));
    }
    is_over.store(true, Ordering::Relaxed);
    let written = writer.join().expect("no panic");
    if let Some(error) = &written.error {
        return Err(format!("the client: {error}"));
    }
    world.judge(&written)?;
    Ok([first_status, second_status])
}

fn pairs(stage: Stage) {
    let wanted = std::env::var("SPINDLES_PAIRS").ok();
    let (mut number, mut tried, mut taken) = (0, 0, 0);
    let mut findings = Vec::new();
    for first in &FIRSTS {
        for second in SECONDS {
            for at in STAGES {
                number += 1;
                // Members of this size set aside too little for copies to grow.
                let needs_parity =
                    first.line.starts_with("journal") || first.line.contains("grow ARRAY --add");
                let arrays = &ARRAYS[..if needs_parity {
                    WITH_PARITY
                } else {
                    ARRAYS.len()
                }];
                let array = arrays[number % arrays.len()];
                let is_wanted = match wanted.as_deref() {
                    None => number % STRIDE == 0,
                    Some("all") => true,
                    Some(one) => one.parse() == Ok(number),
                };
                if at != stage || !is_wanted {
                    continue;
                }
                tried += 1;
                match try_pair(number, array, first, second, stage) {
                    Ok([0, 0]) => taken += 1,
                    Ok(_) => {}
                    Err(error) => {
                        let pair = format!("{:?}, {}, then {second}", first.before, first.line);
                        let finding = format!("{number}: {array}: {pair} ({stage:?}): {error}");
                        println!("{finding}");
                        findings.push(finding);
                    }
                }
            }
        }
    }
    println!("FIGURES pairs, {stage:?}: {tried} tried, {taken} with both commands done");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn the_second_command_begins_when_the_first_was_accepted() {
    pairs(Stage::Accepted);
}

#[test]
fn the_second_command_begins_in_the_middle_of_the_first() {
    pairs(Stage::Middle);
}

#[test]
fn the_second_command_begins_when_the_first_has_ended() {
    pairs(Stage::Ended);
}
