//! Every ordered pair of changes to an array's devices. The second change comes right after the
//! first was accepted, in its middle, or after its end, while a client writes. A refused change
//! changes no byte. In the end the contents, the redundancy and the superblocks are right.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::common::{self, place};
use spindles_admin::assemble::{AssembleOptions, assemble};
use spindles_admin::create::{CreateOptions, create};
use spindles_admin::grow;
use spindles_admin::spare::{self, For};
use spindles_array::{PlaceWanted, Target};
use spindles_block::{BufferId, Operation};
use spindles_device::{Examined, OpenOptions};
use spindles_engine::{ArrayState, Member, Repair, Scrub};
use spindles_format::ChecksumKind;
use spindles_layout::Expression;
use std::collections::BTreeMap;
use std::fs::{self, File};

const MEMBER_BYTES: u64 = 3 << 20;
const NEW_BYTES: u64 = 4 << 20;
/// The number of blocks read at once.
const BLOCKS_MAX: u32 = 64;
const ALL: [&str; 5] = ["m0", "m1", "m2", "x", "y"];

/// An array with two devices that don't belong to it.
struct World {
    folder: tempfile::TempDir,
    target: Option<Box<dyn Target>>,
    buffer: Option<BufferId>,
    /// The byte that fills each block.
    model: Vec<u8>,
    drawn: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Replace,
    Rebuild,
    Return,
    Spare,
    Grow,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Accepted,
    Middle,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    Fail(&'static str),
    LetGo(&'static str),
    BringBack(&'static str),
    Attach(&'static str),
    Replace(&'static str, &'static str),
    Spare(&'static str),
    Restructure(&'static str),
    Close,
}

fn seconds() -> Vec<Second> {
    let mut all = Vec::new();
    for device in ALL {
        all.extend([
            Second::Fail(device),
            Second::LetGo(device),
            Second::BringBack(device),
            Second::Attach(device),
            Second::Replace("m0", device),
            Second::Replace("m1", device),
            Second::Replace(device, "y"),
            Second::Spare(device),
            Second::Restructure(device),
        ]);
    }
    all.push(Second::Close);
    all
}

impl World {
    fn new(level: &str, checksum: ChecksumKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ALL {
            let bytes = if name.starts_with('m') {
                MEMBER_BYTES
            } else {
                NEW_BYTES
            };
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_len(bytes).unwrap();
        }
        let mut world = Self {
            folder,
            target: None,
            buffer: None,
            model: Vec::new(),
            drawn: 1,
        };
        let members = if level == "raid5" { 3 } else { 2 };
        let members: Vec<String> = ALL[..members].iter().map(|name| world.path(name)).collect();
        let expression = Expression::parse(&format!("{level}({})", members.join(","))).unwrap();
        let options = CreateOptions {
            checksum: Some(checksum),
            // The headroom of small members has room for one window of growth.
            chunk_bytes: (level != "raid1").then_some(4096),
            ..CreateOptions::new("pool")
        };
        create(&expression, &options, &mut |_, _| true).unwrap();
        world.open(&members);
        world
    }

    fn path(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        path.to_str().unwrap().to_owned()
    }

    fn open(&mut self, devices: &[String]) {
        let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
        let options = AssembleOptions {
            degraded: true,
            ..AssembleOptions::default()
        };
        self.begin(assemble(&devices, &options).unwrap().target);
    }

    fn begin(&mut self, mut target: Box<dyn Target>) {
        self.buffer = Some(target.allocate(BLOCKS_MAX));
        let blocks = usize::try_from(target.facts().blocks).unwrap();
        self.model.resize(blocks.max(self.model.len()), 0);
        self.target = Some(target);
    }

    fn target(&mut self) -> &mut dyn Target {
        self.target.as_mut().unwrap().as_mut()
    }

    fn run(&mut self, operation: Operation, block: usize, blocks: u32) {
        let buffer = place(self.buffer.unwrap());
        let block = u64::try_from(block).unwrap();
        let done = common::run(self.target(), operation, block, blocks, buffer);
        assert_eq!(done, Ok(()));
    }

    /// Writes some blocks.
    fn write(&mut self, count: u32) {
        // Growth may have ended and added blocks.
        let blocks = u64::try_from(self.model.len()).unwrap();
        for _ in 0..count {
            self.drawn = self
                .drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let block = usize::try_from((self.drawn >> 33) % blocks).unwrap();
            let byte = u8::try_from(self.drawn >> 56).unwrap();
            let buffer = self.buffer.unwrap();
            self.target().buffer_mut(buffer).fill(byte);
            self.run(Operation::Write { fua: false }, block, 1);
            self.model[block] = byte;
        }
    }

    fn verify(&mut self, why: &str) {
        let all = self.model.clone();
        for (at, bytes) in (0..).zip(all.chunks(usize::try_from(BLOCKS_MAX).unwrap())) {
            let first = at * usize::try_from(BLOCKS_MAX).unwrap();
            self.run(Operation::Read, first, u32::try_from(bytes.len()).unwrap());
            let buffer = self.buffer.unwrap();
            let blocks = self.target().buffer(buffer).chunks(4096);
            for (block, (held, byte)) in (first..).zip(blocks.zip(bytes)) {
                assert!(held == [*byte; 4096], "block {block} is wrong: {why}");
            }
        }
    }

    fn is_under_way(&mut self) -> bool {
        let growing = self.target().status().unwrap().growth.is_some();
        self.target().rebuild_progress().is_some() || growing
    }

    fn run_to_the_end(&mut self) {
        while self.is_under_way() && self.target().work() {}
        while self.target().next_event().is_some() {}
    }

    /// Starts the first change, from the state that it needs.
    fn first(&mut self, first: First) {
        let [m1, x] = ["m1", "x"].map(|name| self.path(name));
        self.write(200);
        match first {
            First::Replace => {
                self.target().replace(&m1, &x, Examined::default()).unwrap();
            }
            First::Rebuild => {
                self.target().fail(&m1).unwrap();
                self.write(20);
                self.target()
                    .attach(&x, PlaceWanted::First, Examined::default())
                    .unwrap();
            }
            First::Return => {
                self.target().fail(&m1).unwrap();
                self.write(100);
                self.target().let_go(&m1).unwrap();
                self.target().bring_back(&m1).unwrap();
            }
            First::Spare => {
                spare::add(&[&x], For::All, false).unwrap();
                assert!(self.target().provide_spare(&x).unwrap().is_none());
                self.target().fail(&m1).unwrap();
                self.target().work();
            }
            First::Grow => {
                self.target.take().unwrap().close().unwrap();
                let devices = ["m0", "m1", "m2"].map(|name| self.path(name));
                let devices = devices.each_ref().map(String::as_str);
                let target = grow::begin(&devices, &x, &AssembleOptions::default()).unwrap();
                self.begin(target);
            }
            First::Fail => {
                self.target().fail(&m1).unwrap();
            }
        }
    }

    fn come_to(&mut self, stage: Stage) {
        match stage {
            Stage::Accepted => {}
            Stage::Middle => {
                self.write(3);
                while self.is_under_way() && !self.is_half_done() && self.target().work() {}
            }
            Stage::Ended => self.run_to_the_end(),
        }
    }

    fn is_half_done(&mut self) -> bool {
        let growth = self.target().status().unwrap().growth;
        let done = growth.map(|growth| (growth.done_bytes, growth.total_bytes));
        let filled = self.target().rebuild_progress();
        let done = done.or(filled.map(|filled| (filled.done_bytes, filled.total_bytes)));
        done.is_some_and(|(done, total)| done * 2 >= total)
    }

    /// Requests the second change. Returns true if the array accepted it.
    fn second(&mut self, second: Second) -> bool {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let target = self.target.as_mut().unwrap();
        let seen = Examined::default();
        match second {
            Second::Fail(device) => target.fail(&path(device)).is_ok(),
            Second::LetGo(device) => target.let_go(&path(device)).is_ok(),
            Second::BringBack(device) => target.bring_back(&path(device)).is_ok(),
            Second::Attach(device) => {
                let attached = target.attach(&path(device), PlaceWanted::First, seen);
                attached.is_ok()
            }
            Second::Replace(old, device) => target.replace(&path(old), &path(device), seen).is_ok(),
            Second::Spare(device) => target.provide_spare(&path(device)).is_ok(),
            Second::Restructure(device) => {
                // Permission alone changes nothing.
                let _may = target.may_restructure(Some(&path(device)), true).is_ok();
                false
            }
            Second::Close => {
                let devices = target.devices();
                self.target.take().unwrap().close().unwrap();
                self.open(&devices);
                true
            }
        }
    }

    /// The bytes of all devices that the array does not use.
    fn others(&mut self) -> BTreeMap<&'static str, Vec<u8>> {
        let used = self.used();
        let others = ALL
            .into_iter()
            .filter(|name| !used.contains(&self.path(name)));
        let others: Vec<&str> = others.collect();
        let read = |name| (name, fs::read(self.folder.path().join(name)).unwrap());
        others.into_iter().map(read).collect()
    }

    /// The devices that are open for writing.
    fn used(&mut self) -> Vec<String> {
        let facts = self.target().facts().devices.clone();
        let open: Vec<String> = facts.into_iter().map(|device| device.name).collect();
        [open, self.target().devices()].concat()
    }

    /// Checks the array as a whole, and from each sufficient set of members.
    fn check(&mut self, why: &str) {
        self.write(20);
        self.run_to_the_end();
        self.verify(why);
        let scrub = Scrub {
            repair: Repair::Nothing,
            anew: true,
        };
        if self.target().begin_scrub(scrub).is_ok() {
            while self.target().scrub_progress().going && self.target().work() {}
            let found = self.target().scrub_progress().found;
            assert_eq!((found.disagreements, found.left_blocks), (0, 0), "{why}");
        }
        let status = self.target().status().unwrap();
        assert_ne!(status.state, ArrayState::Failed, "{why}");
        let active = status.members.iter();
        let active = active
            .filter(|active| active.state == Member::Active)
            .count();
        let devices = self.target().devices();
        self.target.take().unwrap().close().unwrap();
        self.open(&devices);
        self.verify(&format!("{why}, opened again"));
        let again = self.target().status().unwrap();
        let members = again.members.iter();
        let now = members
            .filter(|member| member.state == Member::Active)
            .count();
        // A spare may have replaced a member.
        assert!(now >= active, "{why}: {again:?}");
        self.run_to_the_end();
        let is_redundant = self.target().facts().array.as_ref().unwrap().redundancy > 0;
        let is_healthy = self.target().status().unwrap().state == ArrayState::Healthy;
        let devices = self.target().devices();
        self.target.take().unwrap().close().unwrap();
        if !is_healthy || !is_redundant {
            return;
        }
        for without in &devices {
            let left = devices.iter().filter(|device| *device != without);
            let left: Vec<&str> = left.map(String::as_str).collect();
            let options = AssembleOptions {
                degraded: true,
                open: OpenOptions {
                    read_only: true,
                    ..OpenOptions::default()
                },
                ..AssembleOptions::default()
            };
            let found = assemble(&left, &options);
            self.begin(found.unwrap().target);
            self.verify(&format!("{why}, without {without}"));
            self.target.take().unwrap().close().unwrap();
        }
    }
}

fn run(level: &str, checksum: ChecksumKind, first: First, stage: Stage) -> usize {
    // Growth takes long. Right after its start and its end the test tries every seventh change, in
    // the middle all changes.
    let every = match (first, stage) {
        (First::Grow, Stage::Accepted | Stage::Ended) => 7,
        _ => 1,
    };
    let seconds: Vec<Second> = seconds().into_iter().step_by(every).collect();
    let (mut from, mut taken) = (0, 0);
    // Refused changes are tried one after another on the same array; an accepted one ends with that
    // array.
    while from < seconds.len() {
        let mut world = World::new(level, checksum);
        world.first(first);
        world.come_to(stage);
        let mut why = format!("{level}, {checksum:?}: {first:?} {stage:?}");
        while from < seconds.len() {
            let second = seconds[from];
            let before = world.others();
            from += 1;
            if world.second(second) {
                taken += 1;
                why = format!("{why}, then {second:?}");
                break;
            }
            let after = world.others();
            for (name, bytes) in &before {
                let is_same = after.get(name).is_none_or(|now| now == bytes);
                assert!(is_same, "{why}: {second:?} was refused and changed {name}");
                assert!(after.contains_key(name), "{why}: {second:?} keeps {name}");
            }
        }
        world.check(&why);
    }
    taken
}

const STAGES: [Stage; 3] = [Stage::Accepted, Stage::Middle, Stage::Ended];

#[test]
fn a_replacement_and_any_other_change() {
    for (level, checksum) in [
        ("raid5", ChecksumKind::None),
        ("raid1", ChecksumKind::Crc32c),
        ("raid0", ChecksumKind::None),
    ] {
        for stage in STAGES {
            assert!(run(level, checksum, First::Replace, stage) > 0);
        }
    }
}

#[test]
fn a_rebuild_and_any_other_change() {
    for (level, checksum) in [
        ("raid5", ChecksumKind::Crc32c),
        ("raid1", ChecksumKind::None),
    ] {
        for stage in STAGES {
            run(level, checksum, First::Rebuild, stage);
        }
    }
}

#[test]
fn a_returning_member_and_any_other_change() {
    for stage in STAGES {
        run("raid5", ChecksumKind::None, First::Return, stage);
    }
}

#[test]
fn a_spare_and_any_other_change() {
    for stage in STAGES {
        run("raid5", ChecksumKind::None, First::Spare, stage);
    }
}

#[test]
fn a_growth_and_any_other_change() {
    for stage in STAGES {
        run("raid5", ChecksumKind::Crc32c, First::Grow, stage);
    }
}

#[test]
fn a_member_put_out_and_any_other_change() {
    for stage in [Stage::Accepted, Stage::Ended] {
        run("raid1", ChecksumKind::Crc32c, First::Fail, stage);
    }
}
