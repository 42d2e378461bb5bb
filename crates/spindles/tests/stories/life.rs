//! One life of an array: its devices, the expected state, and the checks.

use crate::stories::model::{Block, Current, Shape, fill, write_of};
use crate::stories::program::{self, Run};
use crate::stories::random::Random;
use crate::stories::steps;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) const MIB: u64 = 1 << 20;

/// A file that serves as a disk.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// True in the folder, false in the drawer.
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
    folder: tempfile::TempDir,
    pub(crate) devices: Vec<Device>,
    pub(crate) shape: Shape,
    pub(crate) members: Vec<Member>,
    pub(crate) spares: Vec<usize>,
    pub(crate) journal: Option<usize>,
    pub(crate) block_bytes: usize,
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
    pub(crate) blocks: Vec<Block>,
    /// Number of blocks of each write, from the first on; write 0 is the initial state.
    pub(crate) writes: Vec<usize>,
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
        let folder = tempfile::tempdir().expect("a folder");
        for inside in [".outputs", ".drawer"] {
            fs::create_dir(folder.path().join(inside)).expect("a folder");
        }
        let shape = if random.one_in(6) {
            nested(&mut random)
        } else {
            let (level, layout, least, most) = random.of(LEVELS);
            let members = least + random.index(most - least + 1);
            Shape::flat(level, layout, members)
        };
        let policy = random.of(&["journal", "journal", "journal", "resync"]);
        Self {
            checksums: policy == "journal" && !random.one_in(3),
            has_bare: false,
            writes_degraded: false,
            rot_left: false,
            policy,
            large: random.one_in(8),
            block_bytes: random.of(&[4096, 4096, 512]),
            random,
            story: Vec::new(),
            taken: BTreeMap::new(),
            folder,
            devices: Vec::new(),
            shape,
            members: Vec::new(),
            spares: Vec::new(),
            journal: None,
            blocks: Vec::new(),
            writes: vec![usize::MAX],
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

    pub(crate) fn path(&self, device: usize) -> PathBuf {
        self.folder.path().join(&self.devices[device].name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Adds a device: a sparse file of this many bytes.
    pub(crate) fn buy(&mut self, bytes: u64) -> usize {
        let number = self.devices.len();
        let name = self.random.of(&["disk", "d isk", "loop-0.", "Ä"]);
        self.devices.push(Device {
            name: format!("{name}{number}.img"),
            bytes,
            here: true,
        });
        let file = File::create(self.path(number)).expect("a new file");
        file.set_len(bytes).expect("a sparse file");
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
        let names: Vec<String> = self.members.iter().map(|it| self.name(it.device)).collect();
        let expression = self.shape.expression(&mut names.iter().map(String::as_str));
        let chunk = self.random.of(&["4K", "16K", "64K"]);
        let checksum = if self.checksums { "crc32c" } else { "none" };
        self.writes_degraded = self.random.one_in(2);
        let degraded = if self.writes_degraded { "allow" } else { "ask" };
        // Other tests serve arrays called `pool`, which that name would find too.
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
        if run.status != Some(0) && self.journal.take().is_some() {
            // `create` rejects a journal device if the array would log no writes there.
            let at = command.len() - 2;
            command.truncate(at);
            self.expect_ok(&command);
        } else if run.status != Some(0) {
            self.wrong("an array should be created", &run);
        }
        let bytes = self.status().json()["bytes"].as_u64();
        self.resize(bytes.expect("the size of the array"));
    }

    /// Records the new size of the array; new blocks hold zeros.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let blocks = usize::try_from(bytes).expect("small") / self.block_bytes;
        if blocks < self.blocks.len() {
            self.fail("the array has become smaller");
        }
        self.blocks.resize(blocks, Block::ZEROS);
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
        let (folder, name) = (self.folder.path(), self.devices[device].name.as_str());
        let drawer = folder.join(".drawer").join(name);
        let place = folder.join(name);
        let (from, to) = if here {
            (drawer, place)
        } else {
            (place, drawer)
        };
        fs::rename(from, to).expect("it is where it was put");
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
        let quoted = arguments.iter().map(|it| {
            if it.contains([' ', '(']) {
                format!("'{it}'")
            } else {
                it.clone()
            }
        });
        let quoted: Vec<String> = quoted.collect();
        let run = program::run(self.folder(), arguments, kill);
        let ended = match run.status {
            Some(0) => String::new(),
            Some(status) => format!("    # exit status {status}"),
            None => format!("    # killed after {kill:?}"),
        };
        let line = format!("$ spindles {}{ended}", quoted.join(" "));
        self.story.push(line);
        self.story
            .extend(run.error.lines().map(|line| format!("   {line}")));
        let crashed = run.status.is_none_or(|status| status > 100) && kill.is_none();
        if crashed || run.error.contains("panicked") {
            self.wrong("the program ended in an unexpected way", &run);
        }
        run
    }

    pub(crate) fn expect_ok(&mut self, arguments: &[String]) -> Run {
        let run = self.run(arguments);
        if run.status != Some(0) {
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
        let took_blocks = lost_bytes(&run.json()) > 0;
        if self.is_whole() && !self.crashed && state != "healthy" && !took_blocks {
            self.wrong("nothing is missing", &run);
        }
        if run.status == Some(0) && !possible && state != "degraded" {
            self.wrong("what is here lacks members", &run);
        }
    }

    fn check_contents(&mut self) {
        if self.given().is_empty() {
            return;
        }
        let out = self.folder().join("out");
        if out.exists() {
            fs::remove_file(&out).expect("it is ours");
        }
        let lost_before: Vec<bool> = self.blocks.iter().map(|it| it.may_be_lost).collect();
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
        let lost = self.blocks.iter().any(|block| block.may_be_lost);
        match run.status {
            Some(0) if !possible => self.compare_stale(&run),
            Some(0) => {
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
                let range = |it: &Value| {
                    let bytes = |name: &str| usize::try_from(it[name].as_u64()?).ok();
                    Some((bytes("offset_bytes")?, bytes("bytes")?))
                };
                let ranges: Vec<(usize, usize)> = (ranges.as_array().into_iter().flatten())
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
            for (block, lost) in self.blocks.iter_mut().zip(lost_before) {
                block.may_be_lost = lost;
            }
        }
    }

    /// Records a resync without the absent members: these may have held parts of whole stripes that
    /// were being written at a crash.
    pub(crate) fn goes_on_after_crash(&mut self) {
        for block in self.blocks.iter_mut().filter(|_| self.crashed) {
            block.may_be_lost |= block.writes.len() > 1;
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

    /// Compares the data read with the possible contents, except for skipped ranges.
    fn compare(&mut self, left_out: &[(usize, usize)], run: &Run) {
        let out = fs::read(self.folder().join("out")).expect("it was copied");
        let size = self.block_bytes;
        if out.len() != self.blocks.len() * size {
            self.wrong(&format!("{} bytes were copied", out.len()), run);
        }
        // After the resync, later reads must agree with the first one.
        let stays = !self.crashed || self.is_clean();
        let newest = u32::try_from(self.writes.len() - 1).expect("few writes");
        for (at, contents) in out.chunks_exact(size).enumerate() {
            let is_out = |(offset, bytes): &(usize, usize)| {
                at * size < offset + bytes && *offset < (at + 1) * size
            };
            if left_out.iter().any(is_out) {
                if !self.blocks[at].may_be_lost {
                    self.wrong(&format!("block {at} can't be read"), run);
                }
                continue;
            }
            let found = write_of(at, contents, newest);
            match found {
                Some(write) if self.blocks[at].may_hold(write) => {
                    if stays {
                        self.blocks[at].writes = vec![write];
                    }
                }
                _ => {
                    let known = self.blocks[at].clone();
                    let text =
                        format!("block {at} holds write {found:?}, and should hold {known:?}");
                    self.wrong(&text, run);
                }
            }
        }
    }

    /// Outdated devices were read alone: older contents are right, others are not.
    fn compare_stale(&mut self, run: &Run) {
        let out = fs::read(self.folder().join("out")).expect("it was copied");
        let newest = u32::try_from(self.writes.len() - 1).expect("few writes");
        for (at, contents) in out.chunks_exact(self.block_bytes).enumerate() {
            let write = write_of(at, contents, newest);
            let blocks = write.and_then(|write| self.writes.get(usize::try_from(write).ok()?));
            if blocks.is_none_or(|blocks| at >= *blocks) {
                self.wrong(
                    &format!("block {at} holds data that no write put there"),
                    run,
                );
            }
        }
    }

    /// Writes a file with new contents for this many first blocks.
    pub(crate) fn prepare(&mut self, blocks: usize) -> u32 {
        let write = u32::try_from(self.writes.len()).expect("few writes");
        let mut data = vec![0; blocks * self.block_bytes];
        for (at, block) in data.chunks_exact_mut(self.block_bytes).enumerate() {
            fill(write, at, block);
        }
        fs::write(self.folder().join("data"), data).expect("room");
        self.writes.push(blocks);
        write
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
            let Some(device) = self.devices.iter().position(|it| it.name == name) else {
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
        let file = File::options().write(true).open(self.path(device));
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
    let inner = random.of(&[("raid1", 2), ("raid5", 3), ("raid0", 2)]);
    let outer = match inner.0 {
        "raid0" => "raid1",
        _ => random.of(&["raid0", "concat", "raid1"]),
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
