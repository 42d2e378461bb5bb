//! Kills the server of an array at random moments, takes members away, and serves the array again.
//! Every acknowledged write is there, flushed or not; unacknowledged writes are old or new, block
//! by block; nothing else changes. Only with members away may reads fail, and only in blocks that
//! rule 5 of docs/design/consistency.md names: the test counts them.
//!
//! The seed decides what a round does, except for the timing of processes.

#![allow(clippy::print_stdout, reason = "the figures")]
#![allow(clippy::big_endian_bytes, reason = "the byte order of the protocol")]

use spindles_workload::history::{
    Contents, FlushToken, History, Initial, ReadToken, Violation, WriteToken,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BLOCK_BYTES: u32 = 4096;
const CHUNK_BLOCKS: u64 = 4;
/// Blocks of the array that are used: few, so that writes overlap.
const BLOCKS: u64 = 768;
const MEMBER_BYTES: u64 = 16 << 20;
/// The longest request, in blocks.
const LONGEST: u64 = 48;
/// Rounds without `SPINDLES_KILL_ROUNDS`.
const ROUNDS: u64 = 20;
/// The name of the device for the journal.
const JOURNAL: &str = "j";

/// The array of a round.
#[derive(Debug)]
struct Shape {
    level: &'static str,
    members: &'static [&'static str],
    /// Maximum number of absent members.
    tolerance: usize,
    /// Blocks of data in a stripe.
    stripe: u64,
    /// True with parity: writes of whole stripes are not logged, which may cause errors.
    parity: bool,
    journal: bool,
}

const fn shape(
    level: &'static str,
    members: &'static [&'static str],
    tolerance: usize,
    data_chunks: u64,
) -> Shape {
    Shape {
        level,
        members,
        tolerance,
        stripe: data_chunks * CHUNK_BLOCKS,
        parity: false,
        journal: false,
    }
}

const fn with_parity(shape: &Shape, journal: bool) -> Shape {
    Shape {
        parity: true,
        journal,
        ..*shape
    }
}

/// Mirrors log nothing, so they have no journal device.
const SHAPES: [Shape; 6] = [
    shape("raid1", &["a", "b", "c"], 2, 1),
    shape("raid10", &["a", "b", "c", "d"], 1, 2),
    with_parity(&shape("raid5", &["a", "b", "c"], 1, 2), false),
    with_parity(&shape("raid5", &["a", "b", "c", "d"], 1, 3), true),
    with_parity(&shape("raid6", &["a", "b", "c", "d", "e"], 2, 3), false),
    with_parity(&shape("raid6", &["a", "b", "c", "d"], 2, 2), true),
];

/// A small random number generator with a fixed algorithm.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("64 bits");
        usize::try_from(self.below(bound)).expect("below a length")
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Read,
    Write { fua: bool },
    Zeroes { fua: bool },
    Flush,
}

impl Wish {
    fn random(random: &mut Random) -> Self {
        let fua = random.percent(15);
        match random.below(100) {
            0..10 => Self::Read,
            10..84 => Self::Write { fua },
            84..92 => Self::Zeroes { fua },
            _ => Self::Flush,
        }
    }

    /// The number and flags of the request in the protocol.
    fn command(&self) -> (u16, u16) {
        match self {
            Self::Read => (0, 0),
            Self::Write { fua } => (1, (*fua).into()),
            Self::Flush => (3, 0),
            Self::Zeroes { fua } => (6, (*fua).into()),
        }
    }
}

/// A request in flight.
#[derive(Debug)]
enum Asked {
    Read(ReadToken, Range<u64>),
    Write(WriteToken, Range<u64>, bool),
    Flush(FlushToken),
}

/// Totals over all rounds.
#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    kills: u64,
    /// Requests in flight when the server was killed.
    unanswered: u64,
    /// Blocks with acknowledged writes that were not durable then.
    not_durable: u64,
    members_away: u64,
    journals_away: u64,
    /// Servers started again because devices of a killed one were still in use.
    started_again: u64,
    /// Members that a running server put out on command.
    put_out: u64,
    /// Reads of a block that failed as rule 5 permits: each block is read twice.
    permitted_errors: u64,
    /// Failed writes to arrays with such blocks.
    failed_writes: u64,
}

/// The expected state of the array.
struct Ledger {
    history: History,
    /// Blocks whose reads may fail until the next write.
    may_fail: BTreeSet<u64>,
}

/// A client that keeps several requests in flight.
struct Client {
    stream: UnixStream,
    in_flight: BTreeMap<u64, Asked>,
    next: u64,
}

impl Client {
    /// Connects once a server listens, and selects the export; `None` if the server ends first.
    fn connect(socket: &Path, server: &mut Child) -> Option<Self> {
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            // The socket may still belong to a server that has just died.
            if let Ok(stream) = Self::choose(socket) {
                return Some(Self {
                    stream,
                    in_flight: BTreeMap::new(),
                    next: 0,
                });
            }
            if server.try_wait().expect("it is ours").is_some() {
                return None;
            }
            assert!(Instant::now() < end, "no server listens");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn choose(socket: &Path) -> io::Result<UnixStream> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let mut choice = 3_u32.to_be_bytes().to_vec();
        choice.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\x04pool");
        stream.read_exact(&mut [0; 18])?;
        stream.write_all(&choice)?;
        stream.read_exact(&mut [0; 10])?;
        Ok(stream)
    }

    fn ask(&mut self, wish: &Wish, blocks: Range<u64>, history: &mut History) -> io::Result<()> {
        let (first, count) = (blocks.start, blocks.end - blocks.start);
        let bytes = u32::try_from(count).expect("few") * BLOCK_BYTES;
        let mut payload = Vec::new();
        let asked = match *wish {
            Wish::Read => Asked::Read(history.read(first, count), blocks),
            Wish::Write { fua } => {
                let token = history.write(first, count, Contents::Stamps);
                payload.resize(usize::try_from(bytes).expect("64 bits"), 0);
                history.fill(token, &mut payload);
                Asked::Write(token, blocks, fua)
            }
            Wish::Zeroes { fua } => {
                let token = history.write(first, count, Contents::Zeros);
                Asked::Write(token, blocks, fua)
            }
            Wish::Flush => Asked::Flush(history.flush()),
        };
        let (command, flags) = wish.command();
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.next.to_be_bytes());
        request.extend((first * u64::from(BLOCK_BYTES)).to_be_bytes());
        request.extend(bytes.to_be_bytes());
        request.extend(payload);
        self.in_flight.insert(self.next, asked);
        self.next += 1;
        self.stream.write_all(&request)
    }

    /// Receives one reply: the request, whether it succeeded, and the data.
    fn hear(&mut self) -> io::Result<(Asked, bool, Vec<u8>)> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(head[..4], 0x6744_6698_u32.to_be_bytes());
        let cookie = u64::from_be_bytes(head[8..].try_into().expect("8 bytes"));
        let done = head[4..8] == [0; 4];
        let bytes = match &self.in_flight[&cookie] {
            Asked::Read(_, blocks) if done => blocks.end - blocks.start,
            _ => 0,
        };
        let bytes = usize::try_from(bytes * u64::from(BLOCK_BYTES)).expect("64 bits");
        let mut data = vec![0; bytes];
        self.stream.read_exact(&mut data)?;
        let asked = self.in_flight.remove(&cookie).expect("it was asked");
        Ok((asked, done, data))
    }
}

impl Ledger {
    /// Records a reply, and judges it.
    fn answered(
        &mut self,
        answer: (Asked, bool, Vec<u8>),
        tally: &mut Tally,
    ) -> Result<(), String> {
        tally.answered += 1;
        let any_may_fail = |of: &Self, blocks: &Range<u64>| {
            blocks.clone().any(|block| of.may_fail.contains(&block))
        };
        match answer {
            (Asked::Read(token, _), true, data) => {
                let judged = self.history.read_answered(token, &data);
                judged.map_err(|error: Violation| error.to_string())?;
            }
            (Asked::Read(token, blocks), false, _) => {
                self.history.read_failed(token);
                if !any_may_fail(self, &blocks) {
                    return Err(format!("a read of {blocks:?} answers an error"));
                }
                if blocks.end - blocks.start == 1 {
                    tally.permitted_errors += 1;
                }
            }
            (Asked::Write(token, blocks, fua), true, _) => {
                self.history.write_answered(token, true, fua);
                self.may_fail.retain(|block| !blocks.contains(block));
            }
            (Asked::Write(token, blocks, _), false, _) => {
                self.history.write_answered(token, false, false);
                if self.may_fail.is_empty() {
                    return Err(format!("a write to {blocks:?} answers an error"));
                }
                tally.failed_writes += 1;
            }
            (Asked::Flush(token), true, _) => {
                self.history.flush_answered(token);
            }
            (Asked::Flush(_), false, _) => return Err("a flush answers an error".to_owned()),
        }
        Ok(())
    }

    /// Records the death of the server. Returns the blocks with writes that were not durable.
    fn killed(&mut self) -> BTreeSet<u64> {
        let in_doubt = self.history.in_doubt(true).into_iter().collect();
        self.history.process_crashed();
        in_doubt
    }
}

/// The state of a round.
struct Round<'a> {
    folder: TempDir,
    shape: &'a Shape,
    random: Random,
    ledger: Ledger,
    /// Members that are present and not put out.
    left: Vec<&'static str>,
    journal: bool,
    /// Set once a file was taken away.
    lacks: bool,
    tally: &'a mut Tally,
}

impl<'a> Round<'a> {
    fn new(seed: u64, tally: &'a mut Tally) -> Self {
        let shapes = u64::try_from(SHAPES.len()).expect("few");
        let shape = &SHAPES[usize::try_from(seed % shapes).expect("few")];
        let folder = tempfile::tempdir().expect("a folder");
        let journal = shape.journal.then_some(JOURNAL);
        for device in shape.members.iter().chain(&journal) {
            let file = File::create(folder.path().join(device)).expect("a file");
            file.set_len(MEMBER_BYTES).expect("its length");
        }
        std::fs::create_dir(folder.path().join("away")).expect("a folder");
        let round = Self {
            folder,
            shape,
            random: Random(seed),
            ledger: Ledger {
                history: History::new(seed, BLOCK_BYTES, BLOCKS, Initial::Zeros),
                may_fail: BTreeSet::new(),
            },
            left: shape.members.to_vec(),
            journal: shape.journal,
            lacks: false,
            tally,
        };
        let expression = format!("{}({})", shape.level, shape.members.join(","));
        let mut create = vec!["create", "pool", &expression, "--chunk", "16K"];
        create.extend(journal.iter().flat_map(|device| ["--journal", device]));
        let created = round.command(&create).output().expect("it runs");
        assert!(created.status.success(), "{created:?}");
        round
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spindles"));
        command
            .args(arguments)
            .env("SPINDLES_SCAN", ".")
            .current_dir(self.folder.path());
        command
    }

    fn serve(&self) -> Child {
        let address = format!("unix:{}", self.path("socket").display());
        let mut options = File::options();
        let log = options.append(true).create(true).open(self.path("log"));
        let mut serve = self.command(&["serve", "pool", "--nbd", &address]);
        if self.left.len() < self.shape.members.len() || self.journal != self.shape.journal {
            serve.arg("--degraded");
        }
        let serve = serve.stdout(Stdio::null()).stderr(log.expect("a log"));
        serve.spawn().expect("it runs")
    }

    /// Serves the array, and connects. Retries if the devices are still in use: a process that a
    /// killed server was starting keeps its files until it executes its own program.
    fn serve_client(&mut self) -> Result<(Child, Client), String> {
        for _ in 0..50 {
            let mut server = self.serve();
            if let Some(client) = Client::connect(&self.path("socket"), &mut server) {
                return Ok((server, client));
            }
            let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            let last = log.trim_end().lines().last();
            if !last.is_some_and(|line| line.contains("in use")) {
                break;
            }
            self.tally.started_again += 1;
            thread::sleep(Duration::from_millis(20));
        }
        Err("the server does not serve".to_owned())
    }

    /// Number of further members that the array can lose.
    fn tolerance(&self) -> usize {
        self.shape.tolerance - (self.shape.members.len() - self.left.len())
    }

    /// Some blocks: one, a few, whole stripes, or many.
    fn blocks(&mut self) -> Range<u64> {
        let random = &mut self.random;
        let stripe = self.shape.stripe;
        let (first, count) = match random.below(4) {
            0 => (random.below(BLOCKS), 1),
            1 => (random.below(BLOCKS), 1 + random.below(8)),
            2 => {
                let stripes = 1 + random.below(LONGEST / stripe);
                (random.below(BLOCKS / stripe) * stripe, stripes * stripe)
            }
            _ => (random.below(BLOCKS), 1 + random.below(LONGEST)),
        };
        first..BLOCKS.min(first + count)
    }

    /// Writes until the server is killed, at a moment drawn before. A member may be put out first.
    fn write_until_killed(&mut self) -> Result<(), String> {
        let (mut server, mut client) = self.serve_client()?;
        let kill_us = self.random.below(250_000);
        let put_out = (self.tolerance() > 0 && self.random.percent(25)).then(|| {
            let at = self.random.index(self.left.len());
            let device = self.left.remove(at);
            // Resync first: what a crash left in doubt needs all members while they are present.
            let mut settle = self.command(&["resync", "pool"]);
            let mut command = self.command(&["fail", device, "pool"]);
            let pause = Duration::from_micros(kill_us / 2);
            thread::spawn(move || {
                thread::sleep(pause);
                let settled = settle.output().expect("it runs");
                if !settled.status.success() {
                    return settled;
                }
                command.output().expect("it runs")
            })
        });
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_micros(kill_us));
            server.kill().expect("SIGKILL");
            server.wait().expect("it ended");
        });
        let depth = 1 + self.random.index(16);
        while client.in_flight.len() < depth {
            let wish = Wish::random(&mut self.random);
            let blocks = self.blocks();
            if client.ask(&wish, blocks, &mut self.ledger.history).is_err() {
                break;
            }
            if client.in_flight.len() == depth {
                let Ok(answer) = client.hear() else {
                    break;
                };
                self.ledger.answered(answer, self.tally)?;
            }
        }
        // Replies sent before the kill can still be read.
        while let Ok(answer) = client.hear() {
            self.ledger.answered(answer, self.tally)?;
        }
        killer.join().expect("it was killed");
        if let Some(put_out) = put_out {
            let output: Output = put_out.join().expect("it ended");
            self.tally.put_out += u64::from(output.status.success());
        }
        self.tally.kills += 1;
        self.tally.unanswered += u64::try_from(client.in_flight.len()).expect("few");
        Ok(())
    }

    /// Takes away devices that the array can lose, or none.
    fn take_away(&mut self) {
        let take = |device: &str, folder: &Path| {
            let away = folder.join("away").join(device);
            std::fs::rename(folder.join(device), away).expect("it is there");
        };
        let folder = self.folder.path();
        let whole = self.left.len() == self.shape.members.len();
        // Losing the log together with a member is refused.
        if self.journal && whole && self.random.percent(40) {
            take(JOURNAL, folder);
            self.journal = false;
            self.tally.journals_away += 1;
            self.lacks = true;
        } else if self.journal == self.shape.journal {
            let gone = self.random.index(self.tolerance() + 1);
            for _ in 0..gone {
                let device = self.left.remove(self.random.index(self.left.len()));
                take(device, folder);
                self.tally.members_away += 1;
                self.lacks = true;
            }
        }
    }

    /// Reads everything twice: the first read must not change the result.
    fn read_all(&mut self) -> Result<(), String> {
        // Recovery may be killed too.
        for _ in 0..self.random.below(3) {
            let mut server = self.serve();
            thread::sleep(Duration::from_micros(self.random.below(80_000)));
            server.kill().expect("it is ours");
            server.wait().expect("it ended");
            self.tally.kills += 1;
        }
        let (mut server, mut client) = self.serve_client()?;
        let mut all = (0..2).flat_map(|_| (0..BLOCKS / LONGEST).map(|part| part * LONGEST));
        let read = all.try_for_each(|first| self.read(&mut client, first..first + LONGEST));
        if read.is_err() {
            server.kill().expect("it is ours");
            server.wait().expect("it ended");
            return read;
        }
        let id = server.id().to_string();
        let stopped = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(stopped.expect("kill runs").success());
        let ended = server.wait().expect("it ends");
        if ended.success() {
            return Ok(());
        }
        Err(format!("the server ends with {ended}"))
    }

    /// Reads blocks with one request, or one by one if that fails.
    fn read(&mut self, client: &mut Client, blocks: Range<u64>) -> Result<(), String> {
        let history = &mut self.ledger.history;
        let asked = client.ask(&Wish::Read, blocks.clone(), history);
        let heard = asked.and_then(|()| client.hear());
        let answer = heard.map_err(|error| format!("the server is gone: {error}"))?;
        let failed = !answer.1;
        self.ledger.answered(answer, self.tally)?;
        if failed && blocks.end - blocks.start > 1 {
            for block in blocks {
                self.read(client, block..block + 1)?;
            }
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..=self.random.below(2) {
            self.write_until_killed()?;
            let in_doubt = self.ledger.killed();
            self.tally.not_durable += u64::try_from(in_doubt.len()).expect("few");
            self.take_away();
            if self.lacks && self.shape.parity {
                self.ledger.may_fail.extend(in_doubt);
            }
            self.read_all()?;
        }
        Ok(())
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let number = std::env::var(name).ok()?;
    Some(number.parse().expect("a number"))
}

/// `SPINDLES_KILL_SEED=7` runs only that round; `SPINDLES_KILL_ROUNDS=200` runs this many rounds,
/// from `SPINDLES_KILL_FIRST` on.
#[test]
fn a_killed_server_loses_no_acknowledged_write() {
    let first = number("SPINDLES_KILL_FIRST").unwrap_or(0);
    let rounds = number("SPINDLES_KILL_ROUNDS").unwrap_or(ROUNDS);
    let only = number("SPINDLES_KILL_SEED").map(|seed| seed..seed + 1);
    let seeds = only.unwrap_or(first..first + rounds);
    let mut tally = Tally::default();
    let begin = Instant::now();
    for seed in seeds.clone() {
        let mut round = Round::new(seed, &mut tally);
        if let Err(found) = round.run() {
            let log = std::fs::read_to_string(round.path("log")).unwrap_or_default();
            let (shape, left) = (round.shape, &round.left);
            panic!("round of seed {seed}: {found}\n{shape:?}, {left:?} left\nservers said:\n{log}");
        }
    }
    println!(
        "rounds of seeds {seeds:?} in {:?}: {tally:#?}",
        begin.elapsed()
    );
    assert!(tally.unanswered > 0, "no server was killed in the middle");
}
