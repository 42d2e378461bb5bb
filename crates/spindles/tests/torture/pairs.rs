//! The shape *pairs*: every ordered pair of management commands on a served array, while a client
//! writes to it: the second begins as soon as the first was accepted, in its middle, or when it has
//! ended. A command refused after the first has ended changes no byte of devices outside of the
//! array. At the end, the client's data is there, also without any one member, and a scrub finds
//! nothing.
//!
//! By default, the test tries part of the pairs. `SPINDLES_PAIRS=all` tries every pair, and
//! `SPINDLES_PAIRS=17` only pair 17.

use crate::torture::client::{Client, Stop};
use crate::torture::ledger::{Ledger, Wish};
use crate::torture::nbd::{BLOCK_BYTES, Nbd};
use crate::torture::random::Random;
use crate::world::{Running, World};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Blocks of the array that the client writes: few, so that the client overwrites blocks often.
const BLOCKS: u64 = 1536;
const MEMBER_BYTES: u64 = 12 << 20;
/// Size of devices for future members, somewhat larger.
const NEW_BYTES: u64 = 13 << 20;
/// Difference in length between a device and the next.
const UNLIKE_BYTES: u64 = 150_000;
const MEMBERS: [&str; 3] = ["a", "b", "c"];
const OTHERS: [&str; 3] = ["d", "e", "j"];
/// Longest time for all jobs.
const JOBS_TIMEOUT: Duration = Duration::from_mins(3);
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

/// Writes until it is stopped or the connection ends, and reads back every fourth block.
fn write_until(link: Nbd, mut ledger: Ledger, is_over: &AtomicBool) -> Result<Ledger, String> {
    let mut random = Random::new(1);
    let mut client = Client::new(link, &mut ledger);
    while !is_over.load(Ordering::Relaxed) {
        let wish = if random.one_in(5) {
            Wish::Read
        } else {
            Wish::Write { fua: false }
        };
        let block = random.below(BLOCKS);
        match client.ask_now(wish, block..block + 1) {
            Ok(_) => {}
            Err(Stop::Gone(_)) => break,
            Err(Stop::Found(what)) => return Err(format!("the client: {what}")),
        }
    }
    Ok(ledger)
}

/// A place with an array, and its server.
struct Pair {
    place: World,
    /// The name in commands: the UUID once known, because commands may rename the array.
    name: String,
    export: String,
    server: Option<Running>,
}

impl Pair {
    fn new(number: usize, array: &str) -> Result<Self, String> {
        let place = World::new("", 0);
        for (at, name) in (0..).zip(MEMBERS.iter().chain(&OTHERS)) {
            let bytes = if MEMBERS.contains(name) {
                MEMBER_BYTES
            } else {
                NEW_BYTES
            };
            // All lengths differ.
            place.make(name, bytes + at * UNLIKE_BYTES);
        }
        let name = format!("pairs-{number}-{}", std::process::id());
        let mut world = Self {
            place,
            export: name.clone(),
            name,
            server: None,
        };
        world.does(&format!("create ARRAY {array}"))?;
        let status = world.status()?;
        let uuid = status["uuid"].as_str().ok_or("no UUID")?;
        uuid.clone_into(&mut world.name);
        world.serve("")?;
        Ok(world)
    }

    fn line(&self, line: &str) -> String {
        line.replace("ARRAY", &self.export)
    }

    fn begin(&self, line: &str) -> Running {
        self.place.begin(&self.line(line))
    }

    fn end(line: &str, command: Running) -> Result<(i32, String), String> {
        let run = command.end(None);
        match run.status {
            code @ 0..=4 => Ok((code, run.error)),
            status => Err(format!("{line}: {status:?}: {}", run.error)),
        }
    }

    fn run(&self, line: &str) -> Result<(i32, String), String> {
        Self::end(line, self.begin(line))
    }

    fn does(&self, line: &str) -> Result<(), String> {
        self.place.tries(&self.line(line)).map(drop)
    }

    fn status(&self) -> Result<Value, String> {
        let run = self.place.run(&format!("status {} --json", self.name));
        match run.json() {
            Value::Null => Err(format!("status: {}", run.error)),
            status => Ok(status),
        }
    }

    fn serve(&mut self, more: &str) -> Result<(), String> {
        let line = format!("serve {} --nbd unix:socket{more}", self.name);
        let server = self.server.insert(self.place.begin(&line));
        server.ready()
    }

    fn stop(&mut self) -> Result<(), String> {
        self.does(&format!("stop {} --force", self.name))?;
        self.server_ended()
    }

    fn server_ended(&mut self) -> Result<(), String> {
        let run = self.server.take().expect("it is served").end(None);
        match run.status {
            0 => Ok(()),
            status => Err(format!("the server: {status:?}: {}", run.error)),
        }
    }

    fn is_served(&mut self) -> bool {
        self.server
            .as_mut()
            .is_some_and(|server| !server.has_ended())
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
        let others = others.filter(|other| !used.iter().any(|used| used == other));
        others
            .map(|other| {
                (
                    other,
                    fs::read(self.place.path(other)).expect("it is there"),
                )
            })
            .collect()
    }

    fn come_to(&self, stage: Stage, first: &mut Running) {
        let is_there = |done: Option<f64>| match stage {
            Stage::Accepted => done.is_some(),
            Stage::Middle => done.is_some_and(|done| done >= 0.5),
            Stage::Ended => false,
        };
        while !first.has_ended() && !is_there(self.jobs_done()) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn verify(&self, ledger: &mut Ledger) -> Result<(), String> {
        let export = self.status()?["name"].as_str().unwrap_or("").to_owned();
        let socket = self.place.path("socket");
        let found = Nbd::connect(&socket, &export);
        // An export keeps the name with which serving began.
        let found = found.or_else(|_| Nbd::connect(&socket, &self.export));
        let link = found.map_err(|error| format!("a new client: {error}"))?;
        Ok(Client::new(link, ledger).read_all(1)?)
    }

    fn writer(&self, is_over: &Arc<AtomicBool>) -> Result<Writer, String> {
        let link = Nbd::connect(&self.place.path("socket"), &self.export);
        let link = link.map_err(|error| format!("the client: {error}"))?;
        let is_over = Arc::clone(is_over);
        let mut ledger = Ledger::new(1, BLOCK_BYTES);
        ledger.opened(BLOCKS, 1);
        Ok(thread::spawn(move || write_until(link, ledger, &is_over)))
    }

    fn wait_for_jobs(&self) -> Result<(), String> {
        let began = Instant::now();
        while self.jobs_done().is_some() {
            if began.elapsed() > JOBS_TIMEOUT {
                return Err(format!("a job does not end: {}", self.status()?));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Checks all guarantees at the end.
    fn judge(&mut self, ledger: &mut Ledger) -> Result<(), String> {
        if !self.is_served() {
            self.server_ended()?;
            ledger.crashed(false);
            self.serve(" --degraded")?;
        }
        self.wait_for_jobs()?;
        self.verify(ledger)?;
        // A growth that was refused or given up must not have happened.
        self.does(&format!("scrub {} --restart", self.name))?;
        let status = self.status()?;
        let members = status["members"].as_array().ok_or("no members")?;
        let is_healthy = members.iter().all(|member| member["state"] == "active");
        self.stop()?;
        if !is_healthy {
            self.serve(" --degraded")?;
            let verified = self.verify(ledger);
            verified.map_err(|error| format!("served again: {error}"))?;
            return self.stop();
        }
        for member in members {
            let device = member["device"].as_str();
            let device = device.ok_or_else(|| format!("a member without a device: {status}"))?;
            let device = device.rsplit('/').next().unwrap_or(device);
            self.place.carry(device, false);
            let why = |error| format!("without {device}: {error}");
            self.serve(" --degraded --read-only").map_err(why)?;
            self.verify(ledger).map_err(why)?;
            self.stop()?;
            self.place.carry(device, true);
        }
        Ok(())
    }
}

type Writer = JoinHandle<Result<Ledger, String>>;

/// Tries one pair, and returns the exit statuses of both commands.
fn try_pair(
    number: usize,
    array: &str,
    first: &First,
    second: &str,
    stage: Stage,
) -> Result<[i32; 2], String> {
    let mut world = Pair::new(number, array)?;
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
    let (first_status, first_message) = Pair::end(first.line, command)?;
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
    let mut ledger = writer.join().expect("no panic")?;
    world.judge(&mut ledger)?;
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
