//! The shape *server*: kills the server of an array at random moments, takes members away, and
//! serves the array again. Every acknowledged write is there, flushed or not; unacknowledged writes
//! are old or new, block by block; nothing else changes. Only with members away may reads fail, and
//! only in blocks that rule 5 of docs/design/consistency.md names: the test counts them.
//!
//! The seed decides what a round does, except for the timing of processes.

use crate::torture::client::{Client, Draw, Stop};
use crate::torture::ledger::Ledger;
use crate::torture::nbd::{BLOCK_BYTES, Nbd};
use crate::torture::random::Random;
use crate::torture::{number, seeds};
use crate::world::{Run, Running, World};
use std::thread;
use std::time::{Duration, Instant};

const CHUNK_BLOCKS: u64 = 4;
/// Blocks of the array that are used: few, so that writes overlap.
const BLOCKS: u64 = 768;
const MEMBER_BYTES: u64 = 16 << 20;
/// The size of members that have room for a stage.
const STAGED_MEMBER_BYTES: u64 = 256 << 20;
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
    /// Chunks of data in a stripe.
    data_chunks: u64,
    /// True with parity: writes of whole stripes are not logged, which may cause errors.
    parity: bool,
    journal: bool,
    /// True if small writes are answered from a stage.
    staged: bool,
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
        data_chunks,
        parity: false,
        journal: false,
        staged: false,
    }
}

const fn with_parity(shape: &Shape, journal: bool) -> Shape {
    Shape {
        parity: true,
        journal,
        ..*shape
    }
}

const fn with_stage(shape: &Shape) -> Shape {
    Shape {
        staged: true,
        ..with_parity(shape, false)
    }
}

/// Mirrors log nothing, so they have no journal device.
const SHAPES: [Shape; 8] = [
    shape("raid1", &["a", "b", "c"], 2, 1),
    shape("raid10", &["a", "b", "c", "d"], 1, 2),
    with_parity(&shape("raid5", &["a", "b", "c"], 1, 2), false),
    with_parity(&shape("raid5", &["a", "b", "c", "d"], 1, 3), true),
    with_parity(&shape("raid6", &["a", "b", "c", "d", "e"], 2, 3), false),
    with_parity(&shape("raid6", &["a", "b", "c", "d"], 2, 2), true),
    with_stage(&shape("raid5", &["a", "b", "c", "d"], 1, 3)),
    with_stage(&shape("raid6", &["a", "b", "c", "d", "e"], 2, 3)),
];

/// Totals over all rounds.
#[derive(Debug, Default)]
struct Tally {
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
    permitted_errors: usize,
}

/// The state of a round.
struct Round<'a> {
    place: World,
    shape: &'a Shape,
    random: Random,
    ledger: Ledger,
    /// Members that are present and not put out.
    left: Vec<&'static str>,
    journal: bool,
    /// Set once a file was taken away.
    lacks: bool,
    /// The output of the servers that have ended.
    said: String,
    tally: &'a mut Tally,
}

impl<'a> Round<'a> {
    fn new(seed: u64, tally: &'a mut Tally) -> Self {
        let mut random = Random::new(seed);
        let shape = &SHAPES[usize::try_from(seed % 8).expect("few")];
        let place = World::new("", 0);
        for device in shape
            .members
            .iter()
            .chain(shape.journal.then_some(&JOURNAL))
        {
            let bytes = if shape.staged {
                STAGED_MEMBER_BYTES
            } else {
                MEMBER_BYTES
            };
            place.make(device, bytes);
        }
        let expression = format!("{}({})", shape.level, shape.members.join(","));
        let journal = if shape.journal { " --journal j" } else { "" };
        let staged = if shape.staged { " --write-back on" } else { "" };
        let line = format!("create pool {expression} --chunk 16K{journal}{staged}");
        place.tries(&line).expect("an array");
        let mut ledger = Ledger::new(random.any(), BLOCK_BYTES);
        ledger.opened(BLOCKS, 1);
        Self {
            place,
            shape,
            random,
            ledger,
            left: shape.members.to_vec(),
            journal: shape.journal,
            lacks: false,
            said: String::new(),
            tally,
        }
    }

    fn serve(&self) -> Running {
        let whole = self.left.len() == self.shape.members.len();
        let degraded = if whole && self.journal == self.shape.journal {
            ""
        } else {
            " --degraded"
        };
        let line = format!("serve pool --nbd unix:socket{degraded}");
        self.place.begin(&line)
    }

    /// Serves the array, and connects. Retries if the devices are still in use: a process that a
    /// killed server was starting keeps its files until it executes its own program.
    fn serve_client(&mut self) -> Result<(Running, Nbd), String> {
        for _ in 0..50 {
            let mut server = self.serve();
            if server.ready().is_ok() {
                let link = Nbd::connect(&self.place.path("socket"), &self.place.unique("pool"));
                return Ok((server, link.map_err(|error| error.to_string())?));
            }
            let said = server.said();
            self.said.push_str(&said);
            let last = said.trim_end().lines().last();
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

    /// Puts out a member after a pause, or none.
    fn put_out(&mut self, pause: Duration) -> Option<thread::JoinHandle<Run>> {
        if self.tolerance() == 0 || !self.random.percent(25) {
            return None;
        }
        let device = self.left.remove(self.random.index(self.left.len()));
        // Resync first: what a crash left in doubt needs all members while they are present.
        let settle = self.place.command_of(&["resync", "pool"]);
        let fail = self.place.command_of(&["fail", device, "pool"]);
        Some(thread::spawn(move || {
            thread::sleep(pause);
            let settled = Running::begin(settle).end(None);
            if settled.status != 0 {
                return settled;
            }
            Running::begin(fail).end(None)
        }))
    }

    /// Writes until the server is killed, at a moment drawn before. A member may be put out first.
    fn write_until_killed(&mut self) -> Result<(), String> {
        let (mut server, link) = self.serve_client()?;
        let kill = Duration::from_micros(self.random.below(250_000));
        let put_out = self.put_out(kill / 2);
        let killer = thread::spawn(move || {
            thread::sleep(kill);
            server.kill();
            server
        });
        let draw = Draw {
            blocks: BLOCKS,
            longest: LONGEST,
            stripe: Some(self.shape.data_chunks * CHUNK_BLOCKS),
            hot: self.random.below(BLOCKS),
        };
        let depth = self.random.between(1, 16);
        let mut client = Client::new(link, &mut self.ledger);
        let mut stopped = client.work(&draw, &mut self.random, u64::MAX, depth);
        // Replies sent before the kill can still be read.
        while let Err(Stop::Gone(_)) = stopped {
            match client.hear(true) {
                Ok(_) => {}
                Err(Stop::Gone(_)) => break,
                Err(found) => stopped = Err(found),
            }
        }
        self.tally.unanswered += client.in_flight;
        self.tally.kills += 1;
        self.said
            .push_str(&killer.join().expect("it was killed").said());
        if let Some(put_out) = put_out {
            let run = put_out.join().expect("it ended");
            self.tally.put_out += u64::from(run.status == 0);
        }
        match stopped {
            Err(Stop::Found(what)) => Err(what),
            _ => Ok(()),
        }
    }

    /// Takes away devices that the array can lose, or none.
    fn take_away(&mut self) {
        let whole = self.left.len() == self.shape.members.len();
        // Losing the log together with a member is refused.
        if self.journal && whole && self.random.percent(40) {
            self.place.carry(JOURNAL, false);
            self.journal = false;
            self.tally.journals_away += 1;
            self.lacks = true;
        } else if self.journal == self.shape.journal {
            for _ in 0..self.random.index(self.tolerance() + 1) {
                let device = self.left.remove(self.random.index(self.left.len()));
                self.place.carry(device, false);
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
            server.kill();
            self.tally.kills += 1;
        }
        let (server, link) = self.serve_client()?;
        let mut client = Client::new(link, &mut self.ledger);
        let read = client
            .read_all(LONGEST)
            .and_then(|()| client.read_all(LONGEST));
        read?;
        server.signal("TERM");
        match server.end(None) {
            Run { status: 0, .. } => Ok(()),
            run => Err(format!("the server ends: {run:?}")),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for _ in 0..=self.random.below(2) {
            self.write_until_killed()?;
            self.ledger.crashed(false);
            self.tally.not_durable += self.ledger.not_durable();
            self.take_away();
            if self.lacks && self.shape.parity {
                self.ledger.lacks();
            }
            self.read_all()?;
        }
        self.tally.permitted_errors += self.ledger.failed_reads.len();
        Ok(())
    }
}

/// `SPINDLES_KILL_SEED=7` runs only that round; `SPINDLES_KILL_ROUNDS=200` runs this many rounds,
/// from `SPINDLES_KILL_FIRST` on.
#[test]
fn a_killed_server_loses_no_acknowledged_write() {
    let rounds = number("SPINDLES_KILL_ROUNDS").unwrap_or(ROUNDS);
    let seeds = seeds("SPINDLES_KILL_SEED", "SPINDLES_KILL_FIRST", rounds);
    let mut tally = Tally::default();
    let begin = Instant::now();
    for seed in seeds.clone() {
        let mut round = Round::new(seed, &mut tally);
        if let Err(found) = round.run() {
            let Round {
                shape, left, said, ..
            } = &round;
            panic!(
                "round of seed {seed}: {found}\n{shape:?}, {left:?} left\nservers said:\n{said}"
            );
        }
    }
    println!(
        "rounds of seeds {seeds:?} in {:?}: {tally:#?}",
        begin.elapsed()
    );
    assert!(tally.unanswered > 0, "no server was killed in the middle");
}
