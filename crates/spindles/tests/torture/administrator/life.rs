//! One life of an array: its devices, the expected state, and the checks.

use crate::torture::administrator::shape::{Current, Shape};
use crate::torture::administrator::steps;
use crate::torture::ledger::{Ledger, Wish};
use crate::torture::random::Random;
use crate::world::{Run, World};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

pub(crate) const MIB: u64 = 1 << 20;

/// A file that serves as a disk.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// True in the folder, false if it was taken away.
    pub(crate) here: bool,
}

/// A member of the array, at its position.
pub(crate) struct Member {
    pub(crate) device: usize,
    pub(crate) current: Current,
}

#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of the array by itself"
)]
pub(crate) struct Life {
    pub(crate) random: Random,
    /// The commands and their results.
    pub(crate) story: Vec<String>,
    pub(crate) taken: BTreeMap<&'static str, u32>,
    pub(crate) place: World,
    pub(crate) devices: Vec<Device>,
    pub(crate) shape: Shape,
    pub(crate) members: Vec<Member>,
    pub(crate) spares: Vec<usize>,
    pub(crate) journal: Option<usize>,
    pub(crate) block_bytes: u32,
    pub(crate) policy: &'static str,
    pub(crate) checksums: bool,
    /// Set if a single device has replaced an array: the outer array keeps no checksums.
    pub(crate) has_bare: bool,
    /// Set if the array may be written while present members may be older than absent ones.
    pub(crate) writes_degraded: bool,
    /// Set if a scrub left corruption in an inner array, at a place where it has no data of the
    /// outer one.
    pub(crate) rot_left: bool,
    /// Set for members of tens to hundreds of MiB, large enough for their metadata to differ.
    large: bool,
    pub(crate) ledger: Ledger,
    /// Set if a copy into the array was killed, and the array was not resynced since.
    pub(crate) crashed: bool,
}

const LEVELS: &[(&str, &str, usize, usize)] = &[
    ("concat", "", 1, 4),
    ("raid0", "", 2, 4),
    ("raid1", "", 2, 4),
    ("raid10", "", 2, 5),
    ("raid10", ":far2", 2, 4),
    ("raid10", ":offset2", 3, 5),
    ("raid4", "", 3, 5),
    ("raid5", "", 3, 5),
    ("raid5", ":right-asymmetric", 3, 5),
    ("raid6", "", 4, 6),
    ("raid7", "", 5, 6),
];

impl Life {
    pub(crate) fn begin(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shape = if random.one_in(6) {
            nested(&mut random)
        } else {
            let (level, layout, least, most) = *random.choose(LEVELS);
            let members = least + random.index(most - least + 1);
            Shape::flat(level, layout, members)
        };
        let policy = *random.choose(&["journal", "journal", "journal", "resync"]);
        let block_bytes = *random.choose(&[4096, 4096, 512]);
        Self {
            checksums: policy == "journal" && !random.one_in(3),
            has_bare: false,
            writes_degraded: false,
            rot_left: false,
            policy,
            large: random.one_in(8),
            block_bytes,
            random,
            story: Vec::new(),
            taken: BTreeMap::new(),
            place: World::new("", 0),
            devices: Vec::new(),
            shape,
            members: Vec::new(),
            spares: Vec::new(),
            journal: None,
            ledger: Ledger::new(seed, block_bytes),
            crashed: false,
        }
    }

    /// Runs until the life ends, or panics with the fault.
    pub(crate) fn live(&mut self) {
        self.create();
        self.check();
        for _ in 0..4 + self.random.below(8) {
            let step = steps::draw(&mut self.random);
            self.story.push(format!("-- {}", step.name));
            if (step.run)(self) {
                *self.taken.entry(step.name).or_default() += 1;
                self.check();
            }
        }
    }

    /// Adds a device: a sparse file of this many bytes.
    pub(crate) fn buy(&mut self, bytes: u64) -> usize {
        let number = self.devices.len();
        let name = *self.random.choose(&["disk", "d isk", "loop-0.", "Ä"]);
        self.devices.push(Device {
            name: format!("{name}{number}.img"),
            bytes,
            here: true,
        });
        self.place.make(&self.name(number), bytes);
        number
    }

    /// Draws a size for a member: most arrays have members of different sizes.
    pub(crate) fn member_bytes(&mut self) -> u64 {
        if self.large {
            return MIB * (16 + self.random.below(8) * self.random.below(12));
        }
        match self.random.below(4) {
            0 => MIB,
            1 => 3 * MIB,
            2 => MIB + 4096 * self.random.below(1000),
            _ => MIB << self.random.below(6),
        }
    }

    fn create(&mut self) {
        let equal = self.random.one_in(3).then(|| self.member_bytes());
        for _ in 0..self.shape.places() {
            let bytes = equal.unwrap_or_else(|| self.member_bytes());
            let device = self.buy(bytes);
            self.members.push(Member {
                device,
                current: Current::Yes,
            });
        }
        let names: Vec<String> = self
            .members
            .iter()
            .map(|member| self.name(member.device))
            .collect();
        let expression = self.shape.expression(&mut names.iter().map(String::as_str));
        let chunk = *self.random.choose(&["4K", "16K", "64K"]);
        let checksum = if self.checksums { "crc32c" } else { "none" };
        self.writes_degraded = self.random.one_in(2);
        let degraded = if self.writes_degraded { "allow" } else { "ask" };
        let mut command = words("create ark");
        command.push(expression);
        command.extend(words(&format!(
            "--chunk {chunk} --consistency {} --checksum {checksum} --block-size {} \
             --degraded-writes {degraded} --json",
            self.policy, self.block_bytes,
        )));
        if self.policy == "journal" && !self.shape.is_nested() && self.random.one_in(6) {
            let journal = self.buy(4 * MIB);
            command.extend(["--journal".to_owned(), self.name(journal)]);
            self.journal = Some(journal);
        }
        let run = self.run(&command);
        if run.status != 0 && self.journal.take().is_some() {
            // `create` rejects a journal device if the array would log no writes there.
            let at = command.len() - 2;
            command.truncate(at);
            self.expect_ok(&command);
        } else if run.status != 0 {
            self.wrong("an array should be created", &run);
        }
        let bytes = self.status().json()["bytes"].as_u64();
        self.resize(bytes.expect("the size of the array"));
    }

    /// Records the new size of the array; new blocks hold zeros.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let blocks = bytes / u64::from(self.block_bytes);
        if blocks < self.ledger.blocks() {
            self.fail("the array has become smaller");
        }
        self.ledger.opened(blocks, 1);
    }

    /// The size of the array.
    pub(crate) fn bytes(&self) -> u64 {
        self.ledger.blocks() * u64::from(self.block_bytes)
    }

    /// Takes over the array's new size, which must not be smaller than before.
    pub(crate) fn follow_size(&mut self) {
        let mut command = words("status --json");
        command.extend(self.given());
        let run = self.expect_ok(&command);
        self.resize(run.json()["bytes"].as_u64().expect("its size"));
    }

    pub(crate) fn name(&self, device: usize) -> String {
        self.devices[device].name.clone()
    }

    /// Returns the arguments that name the array: either its name, so that the command searches the
    /// folder for devices, or all its devices in the folder, in any order.
    pub(crate) fn given(&mut self) -> Vec<String> {
        let devices = self.devices_here();
        if !devices.is_empty() && self.random.one_in(3) {
            return vec!["ark".to_owned()];
        }
        devices
    }

    /// All devices of the array that are in the folder, in any order.
    pub(crate) fn devices_here(&mut self) -> Vec<String> {
        let members = self.members.iter().map(|member| member.device);
        let others = self.spares.iter().copied().chain(self.journal);
        let mut names: Vec<String> = members
            .chain(others)
            .filter(|device| self.devices[*device].here)
            .map(|device| self.name(device))
            .collect();
        self.random.shuffle(&mut names);
        names
    }

    /// The array as a target of `copy`.
    pub(crate) fn target(&mut self) -> String {
        format!("array:{}", self.given().join(","))
    }

    /// Takes a device out of the folder, or brings it back.
    pub(crate) fn carry(&mut self, device: usize, here: bool) {
        let name = self.name(device);
        self.place.carry(&name, here);
        let where_to = if here { "is back" } else { "is taken away" };
        self.story.push(format!("   {name} {where_to}"));
        self.devices[device].here = here;
    }

    /// Returns true if devices that are here and meet `holds` suffice for all data.
    pub(crate) fn survives(&self, holds: impl Fn(Current) -> bool) -> bool {
        let good = |it: &Member| self.devices[it.device].here && holds(it.current);
        self.shape.survives(&mut self.members.iter().map(good))
    }

    /// Returns true if all data is certainly readable.
    pub(crate) fn is_readable(&self) -> bool {
        self.survives(|current| current == Current::Yes)
    }

    /// Returns true if all devices are here and hold the last write.
    pub(crate) fn is_whole(&self) -> bool {
        let whole = |it: &Member| self.devices[it.device].here && it.current == Current::Yes;
        self.members.iter().all(whole)
    }

    /// Returns the positions of members whose device is in the folder, or of the absent ones.
    pub(crate) fn places(&self, here: bool) -> Vec<usize> {
        let places = 0..self.members.len();
        places
            .filter(|place| self.devices[self.members[*place].device].here == here)
            .collect()
    }

    /// Returns true if an array with parity and missing members is refused: after a crash, this
    /// policy leaves the write hole open.
    pub(crate) fn may_be_refused(&self) -> bool {
        let open = self.policy == "resync" || self.journal.is_some();
        self.crashed && open && self.has_parity() && !self.is_whole()
    }

    pub(crate) fn has_parity(&self) -> bool {
        fn parity(shape: &Shape) -> bool {
            matches!(shape, Shape::Array { level, parts, .. }
                if ["raid4", "raid5", "raid6", "raid7"].contains(level) || parts.iter().any(parity))
        }
        parity(&self.shape)
    }

    pub(crate) fn run(&mut self, arguments: &[String]) -> Run {
        self.run_until(arguments, None)
    }

    pub(crate) fn run_until(&mut self, arguments: &[String], kill: Option<Duration>) -> Run {
        let quoted = arguments.iter().map(|argument| {
            if argument.contains([' ', '(']) {
                format!("'{argument}'")
            } else {
                argument.clone()
            }
        });
        let quoted: Vec<String> = quoted.collect();
        let run = self.place.start(self.place.command_of(arguments)).end(kill);
        let ended = match run.status {
            0 => String::new(),
            -1 => format!("    # killed after {kill:?}"),
            status => format!("    # exit status {status}"),
        };
        let line = format!("$ spindles {}{ended}", quoted.join(" "));
        self.story.push(line);
        self.story
            .extend(run.error.lines().map(|line| format!("   {line}")));
        let crashed = !(0..=100).contains(&run.status) && kill.is_none();
        // Commands print UTF-8.
        let is_text = !format!("{}{}", run.out, run.error).contains('\u{fffd}');
        if crashed || run.error.contains("panicked") || !is_text {
            self.wrong("the program ended in an unexpected way", &run);
        }
        run
    }

    pub(crate) fn expect_ok(&mut self, arguments: &[String]) -> Run {
        let run = self.run(arguments);
        if run.status != 0 {
            self.wrong("this should work", &run);
        }
        run
    }

    pub(crate) fn wrong(&mut self, what: &str, run: &Run) -> ! {
        let text = format!("{what}: {:?}\n{}", run.status, run.out);
        self.fail(&text)
    }

    pub(crate) fn fail(&mut self, what: &str) -> ! {
        self.story.push(format!("WRONG: {what}"));
        panic!("{what}")
    }

    fn status(&mut self) -> Run {
        let mut command = words("status --json");
        command.extend(self.given());
        self.run(&command)
    }

    /// Reads and compares the whole array, and the output of `status`.
    pub(crate) fn check(&mut self) {
        self.check_status();
        self.check_contents();
    }

    fn check_status(&mut self) {
        if self.given().is_empty() {
            return;
        }
        let run = self.status();
        let state = run.json()["state"].as_str().unwrap_or("").to_owned();
        if self.may_be_refused() {
            return;
        }
        let possible = self.survives(|current| current != Current::No);
        let away = !self.places(false).is_empty();
        match state.as_str() {
            "healthy" if away => self.wrong("not all devices are here", &run),
            "healthy" | "degraded" => {}
            _ if self.is_readable() => self.wrong("its data can be read", &run),
            _ => {}
        }
        // A replacement that found corrupt blocks without redundancy says so too.
        let left_bytes = run.json()["scrub_left_bytes"].as_u64();
        let is_left = !self.ledger.may_fail.is_empty() && left_bytes > Some(0);
        let took_blocks = is_left || lost_bytes(&run.json()) > 0;
        if self.is_whole() && !self.crashed && state != "healthy" && !took_blocks {
            self.wrong("nothing is missing", &run);
        }
        if run.status == 0 && !possible && state != "degraded" {
            self.wrong("what is here lacks members", &run);
        }
    }

    fn check_contents(&mut self) {
        if self.given().is_empty() {
            return;
        }
        drop(fs::remove_file(self.place.path("out")));
        let lost_before = self.ledger.may_fail.clone();
        if self.has_parity() && !self.is_whole() {
            self.goes_on_after_crash();
        }
        let target = self.target();
        let command = ["copy", &target, "out", "--json"].map(str::to_owned);
        let run = self.run(&command);
        let only_read = run.error.contains("is only read, not put in order");
        if only_read {
            // With checksums, none of the copies that the crash left different may be right.
            self.goes_on_after_crash();
        }
        let possible = self.survives(|current| current != Current::No);
        let lost = !self.ledger.may_fail.is_empty();
        match run.status {
            0 if !possible => self.compare_stale(&run),
            0 => {
                self.compare(&[], &run);
                if !only_read {
                    self.opened_after_crash();
                }
            }
            _ if self.may_be_refused() || !self.is_readable() => {}
            _ if lost => {
                let command = ["copy", &target, "out", "--json", "--rescue"].map(str::to_owned);
                let run = self.run(&command);
                let ranges = run.json()["left_out"].clone();
                let range = |range: &Value| {
                    let offset = range["offset_bytes"].as_u64()?;
                    Some(offset..offset + range["bytes"].as_u64()?)
                };
                let ranges: Vec<Range<u64>> = (ranges.as_array().into_iter().flatten())
                    .filter_map(range)
                    .collect();
                if ranges.is_empty() {
                    self.wrong("nothing was left out, and yet a copy fails", &run);
                }
                self.compare(&ranges, &run);
                if !only_read {
                    self.opened_after_crash();
                }
            }
            _ => self.wrong("its data should be readable", &run),
        }
        if only_read {
            // Nothing was written, so all data is readable once the absent members return.
            self.ledger.may_fail = lost_before;
        }
    }

    /// Records a resync without the absent members: these may have held parts of whole stripes that
    /// were being written at a crash.
    pub(crate) fn goes_on_after_crash(&mut self) {
        if self.crashed {
            self.ledger.may_fail.append(&mut self.ledger.undecided());
        }
    }

    /// A full read resyncs after a crash; absent members may have missed that. Without a journal
    /// the array stays unclean until a resync has ended.
    fn opened_after_crash(&mut self) {
        if self.crashed {
            for place in self.places(false) {
                self.weaken(place, Current::Maybe);
            }
            self.crashed = !self.is_clean();
        }
    }

    fn is_clean(&mut self) -> bool {
        self.status().json()["clean"] == true
    }

    pub(crate) fn weaken(&mut self, place: usize, current: Current) {
        let member = &mut self.members[place];
        if member.current != Current::No {
            member.current = current;
        }
    }

    /// Returns the bytes that were copied, and the size of a block.
    fn copied(&self) -> (Vec<u8>, usize) {
        let out = fs::read(self.place.path("out")).expect("it was copied");
        (out, usize::try_from(self.block_bytes).expect("64 bits"))
    }

    /// Compares the data read with the possible contents, except for skipped ranges.
    fn compare(&mut self, left_out: &[Range<u64>], run: &Run) {
        let (out, size) = self.copied();
        if u64::try_from(out.len()) != Ok(self.bytes()) {
            self.wrong(&format!("{} bytes were copied", out.len()), run);
        }
        // Until the resync, later reads may disagree with this one.
        let stays = !self.crashed || self.is_clean();
        let kept = (!stays).then(|| self.ledger.clone());
        let block_bytes = u64::from(self.block_bytes);
        let is_out = |block: u64| {
            let bytes = block * block_bytes..(block + 1) * block_bytes;
            left_out
                .iter()
                .any(|out| bytes.start < out.end && out.start < bytes.end)
        };
        let mut from = 0;
        let end = self.ledger.blocks();
        for block in (0..end).filter(|block| is_out(*block)).chain([end]) {
            let at = |block: u64| usize::try_from(block).expect("64 bits") * size;
            if let Err(what) = self.ledger.found(from, &out[at(from)..at(block)]) {
                self.wrong(&what, run);
            }
            if block < end && !self.ledger.may_fail.contains(&block) {
                self.wrong(&format!("block {block} can't be read"), run);
            }
            from = block + 1;
        }
        if let Some(kept) = kept {
            self.ledger = kept;
        }
    }

    /// Outdated devices were read alone: older contents are right, others are not.
    fn compare_stale(&mut self, run: &Run) {
        let (out, size) = self.copied();
        let blocks = (0..).zip(out.chunks_exact(size));
        let mut foreign = blocks.filter(|(block, bytes)| !self.ledger.once_held(*block, bytes));
        if let Some((block, _)) = foreign.next() {
            let what = format!("block {block} holds data that no write put there");
            self.wrong(&what, run);
        }
    }

    /// Writes a file with new contents for this many first blocks. Returns the request.
    pub(crate) fn prepare(&mut self, blocks: u64) -> usize {
        let index = self.ledger.asks(Wish::Write { fua: true }, 0..blocks);
        fs::write(self.place.path("data"), self.ledger.payload(index)).expect("room");
        index
    }

    /// Asks the program which devices it counts on after it has changed the array. Taking other
    /// devices away verifies the answer.
    pub(crate) fn adopt(&mut self) {
        // By its name: the members are not known yet.
        let run = self.run(&words("status --json ark"));
        let document = run.json();
        let mut found = Vec::new();
        leaves(&document, &self.shape, &mut found);
        let members = document["members"].as_array().map_or(0, Vec::len);
        if !matches!(&self.shape, Shape::Array { parts, .. } if parts.len() == members) {
            self.wrong("it shows another number of members", &run);
        }
        for (place, (name, active)) in found.into_iter().enumerate() {
            let Some(name) = name else {
                if self.devices[self.members[place].device].here {
                    self.weaken(place, Current::No);
                }
                continue;
            };
            let Some(device) = self.devices.iter().position(|device| device.name == name) else {
                self.wrong("it names an unknown device", &run);
            };
            self.spares.retain(|spare| *spare != device);
            self.members[place] = Member {
                device,
                current: if active { Current::Yes } else { Current::Maybe },
            };
        }
    }

    /// Records that a device, or another array, has replaced a whole inner array.
    pub(crate) fn put_in_place_of_array(
        &mut self,
        part: usize,
        places: Range<usize>,
        shape: Shape,
        new: &[usize],
    ) {
        self.has_bare |= matches!(shape, Shape::Device);
        if let Shape::Array { parts, .. } = &mut self.shape {
            parts[part] = shape;
        }
        let members = new.iter().map(|device| Member {
            device: *device,
            current: Current::Yes,
        });
        self.members.splice(places, members);
    }

    pub(crate) fn overwrite(&mut self, device: usize, offset: u64, bytes: &[u8]) {
        let file = File::options()
            .write(true)
            .open(self.place.path(&self.name(device)));
        let file = file.expect("it is there");
        file.write_all_at(bytes, offset).expect("room");
    }
}

/// The devices of the members, and whether they are active, in order of position. If an inner array
/// is absent, none of its positions has a device.
fn leaves(document: &Value, shape: &Shape, found: &mut Vec<(Option<String>, bool)>) {
    let Shape::Array { parts, .. } = shape else {
        let name = document["device"].as_str().map(str::to_owned);
        found.push((name, document["state"] == "active"));
        return;
    };
    let members = document["members"].as_array();
    for (at, part) in parts.iter().enumerate() {
        let member = members.and_then(|members| members.get(at));
        match (part, member) {
            (Shape::Device, Some(member)) => leaves(member, part, found),
            (Shape::Array { .. }, Some(member)) if member["array"].is_object() => {
                // The members of an array that is being filled are not good yet.
                let from = found.len();
                leaves(&member["array"], part, found);
                for (_, active) in &mut found[from..] {
                    *active &= member["state"] == "active";
                }
            }
            _ => found.extend(vec![(None, false); part.places()]),
        }
    }
}

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn nested(random: &mut Random) -> Shape {
    let inner = *random.choose(&[("raid1", 2), ("raid5", 3), ("raid0", 2)]);
    let outer = match inner.0 {
        "raid0" => "raid1",
        _ => *random.choose(&["raid0", "concat", "raid1"]),
    };
    Shape::Array {
        level: outer,
        layout: "",
        parts: vec![Shape::flat(inner.0, "", inner.1); 2],
    }
}

/// Bytes that crashes took from an array and those inside it, according to `status`.
fn lost_bytes(array: &Value) -> u64 {
    let members = array["members"].as_array().into_iter().flatten();
    let inner: u64 = members.map(|member| lost_bytes(&member["array"])).sum();
    array["lost_bytes"].as_u64().unwrap_or(0) + inner
}
