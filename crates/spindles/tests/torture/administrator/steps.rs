//! The events in the life of an array, one row each.

use crate::torture::administrator::life::{Life, Member};
use crate::torture::administrator::shape::{Current, Shape};
use crate::torture::random::Random;
use std::fs;
use std::ops::Range;
use std::time::Duration;

/// An event.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Relative frequency: higher for events that are seldom possible.
    weight: u64,
    /// Returns false if it can't happen now.
    pub(crate) run: fn(&mut Life) -> bool,
}

const fn step(name: &'static str, weight: u64, run: fn(&mut Life) -> bool) -> Step {
    Step { name, weight, run }
}

pub(crate) static STEPS: [Step; 15] = [
    step("write", 6, write),
    step("kill a write", 4, kill_write),
    step("lose", 6, lose),
    step("return", 4, give_back),
    step("catch up", 12, catch_up),
    step("lose too much", 2, lose_too_much),
    step("rebuild", 4, rebuild),
    step("replace", 4, replace),
    step("replace all by larger", 1, replace_all),
    step("grow", 3, grow),
    step("grow to the room", 2, grow_to_room),
    step("rot", 4, rot),
    step("scrub", 2, scrub),
    step("add a spare", 2, add_spare),
    step("journal", 2, journal),
];

pub(crate) fn draw(random: &mut Random) -> &'static Step {
    let mut at = random.below(STEPS.iter().map(|step| step.weight).sum());
    let here = STEPS.iter().find(|step| {
        let found = at < step.weight;
        at = at.wrapping_sub(step.weight);
        found
    });
    here.expect("less than the sum")
}

/// Draws the time at which to kill a command: most end sooner.
fn moment(life: &mut Life) -> Duration {
    let us = match life.random.below(3) {
        0 => 8_000,
        1 => 30_000,
        _ => 100_000,
    };
    Duration::from_micros(life.random.below(us))
}

/// Runs a command that writes to the array. If the absent members could have continued alone, or
/// were present when a writer was killed, the command must ask for --degraded and is repeated with
/// it.
fn command(life: &mut Life, arguments: &[&str], kill: Option<Duration>) -> Option<i32> {
    let mut arguments: Vec<String> = arguments
        .iter()
        .map(|argument| (*argument).to_owned())
        .collect();
    let run = life.run_until(&arguments, kill);
    if run.status == 1 && run.error.contains("--degraded") {
        // In an inner array, they may be a half that was written alone.
        let away = |it: &Member| !life.devices[it.device].here && it.current != Current::No;
        let away: Vec<bool> = life.members.iter().map(away).collect();
        let crashed = life.crashed && life.checksums && life.has_parity() && away.contains(&true);
        if !life.shape.could_go_on(&away) && !crashed {
            life.wrong("who is away has nothing that is given up", &run);
        }
        life.goes_on_after_crash();
        arguments.push("--degraded".to_owned());
        return life.run_until(&arguments, kill).code();
    }
    run.code()
}

/// Records a write to the array: absent members are outdated.
fn went_on(life: &mut Life) {
    went_on_with(life, None);
}

/// Like `went_on`, with a new device that may be a member now.
fn went_on_with(life: &mut Life, new: Option<usize>) {
    for place in life.places(false) {
        life.members[place].current = Current::No;
    }
    life.crashed = false;
    let new = new.filter(|new| life.members.iter().all(|member| member.device != *new));
    life.spares.extend(new);
    life.adopt();
    life.spares.retain(|spare| Some(*spare) != new);
}

fn some_blocks(life: &mut Life) -> u64 {
    let most = (16 << 20) / u64::from(life.block_bytes);
    let most = life.ledger.blocks().min(most);
    match life.random.below(4) {
        0 => 1 + life.random.below(most.min(8)),
        1 => most,
        _ => 1 + life.random.below(most),
    }
}

/// Uses --force if a block is unreadable, because `copy` can't check what such blocks hold.
fn copy_into<'a>(life: &Life, target: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["copy", "data", target];
    let is_unreadable = !life.ledger.may_fail.is_empty();
    arguments.extend(is_unreadable.then_some("--force"));
    arguments
}

fn write(life: &mut Life) -> bool {
    if !life.is_readable() || life.may_be_refused() {
        return false;
    }
    let blocks = some_blocks(life);
    let write = life.prepare(blocks);
    let target = life.target();
    if command(life, &copy_into(life, &target), None) != Some(0) {
        life.fail("a write should work");
    }
    life.ledger.done(write);
    went_on(life);
    true
}

/// Kills a write at any moment; then devices may be lost at once.
fn kill_write(life: &mut Life) -> bool {
    if !life.is_readable() || life.crashed {
        return false;
    }
    let blocks = some_blocks(life);
    let write = life.prepare(blocks);
    let target = life.target();
    let at = moment(life);
    let status = command(life, &copy_into(life, &target), Some(at));
    if status.is_some_and(|status| status != 0) {
        life.fail("a write should work");
    }
    if status == Some(0) {
        life.ledger.done(write);
        went_on(life);
        return true;
    }
    life.ledger.crashed(false);
    life.crashed = true;
    for place in 0..life.members.len() {
        let here = life.devices[life.members[place].device].here;
        if !here || life.members[place].current == Current::No {
            life.members[place].current = match life.members[place].current {
                Current::No if !here => Current::No,
                _ => Current::Maybe,
            };
        }
    }
    // The killed copy may have replaced a lost member with a spare.
    if !life.spares.is_empty() && !life.is_whole() {
        adopt_after_kill(life, None);
    }
    if life.random.one_in(2) {
        lose(life);
    }
    true
}

/// Returns true if a killed command already made the device part of the array.
fn is_of_array(life: &mut Life, device: usize) -> bool {
    let name = life.name(device);
    let run = life.run(&["examine", "--json", &name].map(str::to_owned));
    run.json()["devices"][0]["array"] == "ark"
}

/// Takes over the devices that the array counts on after the kill of a command with a new device.
/// Their contents stay in doubt.
fn adopt_after_kill(life: &mut Life, new: Option<usize>) {
    let new = new.filter(|new| is_of_array(life, *new));
    life.spares.extend(new);
    let before: Vec<(usize, Current)> = life
        .members
        .iter()
        .map(|member| (member.device, member.current))
        .collect();
    life.adopt();
    for (place, (device, current)) in before.into_iter().enumerate() {
        let member = &mut life.members[place];
        if member.device == device && member.current == Current::No {
            member.current = current;
        }
    }
    life.spares.retain(|spare| Some(*spare) != new);
}

/// A device is lost, and the data stays.
fn lose(life: &mut Life) -> bool {
    let mut places = life.places(true);
    life.random.shuffle(&mut places);
    for place in places {
        let device = life.members[place].device;
        life.devices[device].here = false;
        let readable = life.is_readable();
        life.devices[device].here = true;
        if readable {
            life.carry(device, false);
            return true;
        }
    }
    false
}

fn give_back(life: &mut Life) -> bool {
    let away = life.places(false);
    if away.is_empty() {
        return false;
    }
    let place = *life.random.choose(&away);
    let device = life.members[place].device;
    life.carry(device, true);
    true
}

/// Members that are back after an absence get what they missed.
fn catch_up(life: &mut Life) -> bool {
    let stale = |it: &usize| life.members[*it].current != Current::Yes;
    // The remains of a lost inner array get nothing.
    if lost_part(life).is_some() {
        return false;
    }
    if !life.places(true).iter().any(stale) || !life.is_readable() || life.may_be_refused() {
        return false;
    }
    // If only reads followed a crash, members that were absent during the reads may still be
    // current.
    life.adopt();
    if !life
        .places(true)
        .iter()
        .any(|place| life.members[*place].current != Current::Yes)
    {
        return true;
    }
    let mut arguments = vec!["rebuild".to_owned()];
    arguments.extend(life.given());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let status = command(life, &arguments, None);
    if status != Some(0) {
        life.fail("who is back should get what it missed");
    }
    went_on(life);
    for place in life.places(true) {
        if life.members[place].current != Current::Yes {
            life.fail("who is back should be active again");
        }
    }
    true
}

/// More members are lost than the level survives: the array serves no data and does not change.
fn lose_too_much(life: &mut Life) -> bool {
    if life.crashed {
        return false;
    }
    let mut lost = Vec::new();
    let mut places = life.places(true);
    life.random.shuffle(&mut places);
    for place in places {
        let device = life.members[place].device;
        life.carry(device, false);
        lost.push(device);
        if !life.survives(|current| current != Current::No) {
            break;
        }
    }
    if !life.given().is_empty() {
        life.check();
    }
    // An outdated array that has no record of that can be written if its setting allows it.
    let is_allowed = life.writes_degraded && life.survives(|_| true);
    if !life.given().is_empty() && !is_allowed {
        let block = vec![0xee; usize::try_from(life.block_bytes).expect("64 bits")];
        fs::write(life.place.path("data"), block).expect("room");
        let target = life.target();
        let run = life.run(&["copy", "data", &target].map(str::to_owned));
        if run.status == 0 {
            life.wrong("too much is gone for a write", &run);
        }
    }
    for device in lost {
        life.carry(device, true);
    }
    true
}

/// Makes a device at least as large as this member's device.
fn buy_for(life: &mut Life, place: usize) -> usize {
    let least = life.devices[life.members[place].device].bytes;
    let bytes = least * *life.random.choose(&[1, 1, 2, 5]);
    let more = 4096 * life.random.below(9);
    life.buy(bytes + more)
}

/// The inner array that has lost more than it survives, and its positions.
fn lost_part(life: &Life) -> Option<(usize, Range<usize>)> {
    let Shape::Array { parts, .. } = &life.shape else {
        return None;
    };
    let mut first = 0;
    for (at, part) in parts.iter().enumerate() {
        let places = first..first + part.places();
        first = places.end;
        let is_here = |place: usize| life.devices[life.members[place].device].here;
        let is_array = matches!(part, Shape::Array { .. });
        if is_array && !part.survives(&mut places.clone().map(is_here)) {
            return Some((at, places));
        }
    }
    None
}

/// Rebuilds a lost device onto another one; may be killed.
fn rebuild(life: &mut Life) -> bool {
    let away = life.places(false);
    if away.is_empty() || !life.is_readable() || life.may_be_refused() {
        return false;
    }
    if let Some((part, places)) = lost_part(life) {
        if away.iter().any(|it| !places.contains(it)) {
            return false;
        }
        rebuild_array(life, part, places);
        return true;
    }
    // The first missing member is rebuilt; the new device has room for any.
    let bytes = |it: &usize| life.devices[life.members[*it].device].bytes;
    let bytes = away.iter().map(bytes).max().expect("one is away");
    let new = life.buy(bytes);
    let new_name = life.name(new);
    let kill = life.random.one_in(3).then(|| moment(life));
    let devices = life.devices_here();
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let arguments = [&["rebuild"][..], &devices, &["--onto", &new_name]].concat();
    let mut status = command(life, &arguments, kill);
    if status.is_none() {
        for place in life.places(false) {
            life.weaken(place, Current::Maybe);
        }
        adopt_after_kill(life, Some(new));
        let is_member = life.members.iter().any(|member| member.device == new);
        let arguments: Vec<&str> = if is_member {
            [&["rebuild"][..], &devices, &[&new_name]].concat()
        } else {
            [&arguments[..], &["--force"]].concat()
        };
        status = command(life, &arguments, None);
    }
    if status != Some(0) {
        life.fail("a rebuild should work");
    }
    went_on_with(life, Some(new));
    if !life
        .members
        .iter()
        .any(|member| member.device == new && member.current == Current::Yes)
    {
        life.fail("the new device should be active");
    }
    true
}

/// Recreates an inner array that has lost more than it survives with a new device, or replaces it
/// by a new array or a single device.
fn rebuild_array(life: &mut Life, part: usize, places: Range<usize>) {
    let sizes = places.clone();
    let sizes = sizes.map(|size| life.devices[life.members[size].device].bytes);
    let whole_bytes: u64 = sizes.sum();
    let lacks: Vec<usize> = life.places(false);
    let mut devices = life.devices_here();
    let mut of_part = Vec::new();
    for place in places.clone() {
        of_part.push(life.name(life.members[place].device));
    }
    let (onto, new, shape) = match life.random.below(3) {
        0 if lacks.len() == 1 => {
            let new = buy_for(life, lacks[0]);
            (life.name(new), vec![new], None)
        }
        1 => {
            devices.retain(|name| !of_part.contains(name));
            let new = life.buy(whole_bytes);
            (life.name(new), vec![new], Some(Shape::Device))
        }
        _ => {
            let (level, members) = *life
                .random
                .choose(&[("raid0", 2), ("raid1", 2), ("raid5", 3)]);
            let new: Vec<usize> = (0..members).map(|_| life.buy(2 * whole_bytes)).collect();
            let names: Vec<String> = new.iter().map(|it| life.name(*it)).collect();
            let shape = Shape::flat(level, "", members);
            let onto = shape.expression(&mut names.iter().map(String::as_str));
            (onto, new, Some(shape))
        }
    };
    let mut arguments = vec!["rebuild", "--onto", &onto];
    arguments.extend(devices.iter().map(String::as_str));
    let is_array = !matches!(shape, Some(Shape::Device));
    let mut status = None;
    for _ in 0..life.random.below(3) {
        let kill = moment(life);
        status = command(life, &arguments, Some(kill));
        if status.is_some() {
            break;
        }
    }
    if status.is_none() {
        // The same command resumes at any stage; a single device may be a member of which the
        // others have no record.
        life.goes_on_after_crash();
        arguments.push("--degraded");
        arguments.extend((!is_array).then_some("--force"));
        let arguments: Vec<String> = arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect();
        let run = life.run(&arguments);
        let is_through = run.error.contains("of array 'ark'; take another device");
        status = if is_through { Some(0) } else { run.code() };
    }
    if status != Some(0) {
        life.fail("a rebuild of an array inside should work");
    }
    match shape {
        Some(shape) => life.put_in_place_of_array(part, places, shape, &new),
        None => life.members[lacks[0]].device = new[0],
    }
    went_on(life);
    let is_active = |new: &usize| {
        let mut members = life.members.iter();
        members.any(|member| member.device == *new && member.current == Current::Yes)
    };
    if !new.iter().all(is_active) {
        life.fail("what is new should be active");
    }
}

fn replace(life: &mut Life) -> bool {
    let lost = lost_part(life).map_or(0..0, |(_, places)| places);
    let current = |it: &usize| life.members[*it].current == Current::Yes && !lost.contains(it);
    let here: Vec<usize> = life.places(true).into_iter().filter(current).collect();
    if here.is_empty() || !life.is_readable() || life.crashed {
        return false;
    }
    let place = *life.random.choose(&here);
    let kill = life.random.one_in(3).then(|| moment(life));
    let new = buy_for(life, place);
    replace_by(life, place, new, kill);
    true
}

fn replace_by(life: &mut Life, place: usize, new: usize, kill: Option<Duration>) {
    let (old_name, new_name) = (life.name(life.members[place].device), life.name(new));
    let given = life.devices_here();
    let others = given.iter().filter(|name| **name != old_name);
    let mut others: Vec<&str> = others.map(String::as_str).collect();
    if others.is_empty() {
        others.push("ark");
    }
    let arguments = [&["replace", &old_name, "--onto", &new_name][..], &others].concat();
    let mut status = command(life, &arguments, kill);
    if status.is_none() {
        // Either the old or the new device counts.
        let old = life.members[place].device;
        adopt_after_kill(life, Some(new));
        status = if life.members[place].device == old {
            command(life, &arguments, None)
        } else {
            Some(0)
        };
    }
    // Lost blocks, and corruption that a scrub left, can't be copied.
    let is_lost = !life.ledger.may_fail.is_empty();
    let stays = (life.rot_left || is_lost) && status == Some(1);
    if status != Some(0) && !stays {
        life.fail("a replacement should work");
    }
    went_on_with(life, Some(new));
    if life.members[place].device != new && !stays {
        life.fail("the new device should be in the old one's place");
    }
}

/// Replaces all members by larger devices, one after another.
fn replace_all(life: &mut Life) -> bool {
    if !life.is_whole() || life.crashed {
        return false;
    }
    for place in 0..life.members.len() {
        let bytes = 3 * life.devices[life.members[place].device].bytes;
        let new = life.buy(bytes);
        replace_by(life, place, new, None);
    }
    if life.random.one_in(2) {
        grow_to_room(life);
    }
    true
}

/// Grows the array to the room of its members; may be killed.
fn grow_to_room(life: &mut Life) -> bool {
    let Shape::Array { layout, parts, .. } = life.shape.clone() else {
        return false;
    };
    if life.shape.is_nested() || !life.is_whole() || life.crashed {
        return false;
    }
    let level = life.shape.level();
    let sizes = life
        .members
        .iter()
        .map(|member| life.devices[member.device].bytes);
    let least = sizes.min().expect("members");
    let before = life.bytes();
    // Small, because everything is read after each step.
    let size = match least {
        0..0x200_0000 => "max".to_owned(),
        _ => (before + (20 << 20)).to_string(),
    };
    let devices = life.devices_here();
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let arguments = [&["grow"][..], &devices, &["--size", &size]].concat();
    let kill = life.random.one_in(3).then(|| moment(life));
    let mut status = command(life, &arguments, kill);
    if status.is_none() {
        // It has either the old or the new size.
        life.follow_size();
        life.check();
        status = command(life, &arguments, None);
    }
    let copies_would_move = layout.contains("far");
    let no_bitmaps = ["concat", "raid0"].contains(&level) && !life.checksums;
    match status {
        Some(0) => {}
        Some(1) if copies_would_move || no_bitmaps || size != "max" => return true,
        _ => life.fail("an array should get the room of its members"),
    }
    life.follow_size();
    let members = u64::try_from(parts.len()).expect("few");
    let of_one = match level {
        "raid1" => 1,
        "raid10" if !copies_would_move => members / 2,
        "raid4" | "raid5" => members - 1,
        "raid6" => members - 2,
        "raid7" => members - 3,
        _ => 0,
    };
    let bytes = life.bytes();
    if size == "max" && bytes < of_one * least / 2 {
        life.fail("its members have more room");
    }
    went_on(life);
    true
}

/// Adds a member, and changes from one parity to two in some cases.
fn grow(life: &mut Life) -> bool {
    let level = life.shape.level();
    let Shape::Array { layout, parts, .. } = life.shape.clone() else {
        return false;
    };
    let grows = ["raid1", "raid4", "raid5", "raid6"].contains(&level);
    if !grows || life.shape.is_nested() || !life.is_whole() || life.crashed || parts.len() > 6 {
        return false;
    }
    let largest = life
        .members
        .iter()
        .map(|member| life.devices[member.device].bytes);
    let bytes = largest.max().expect("members");
    let new = life.buy(bytes);
    let new_name = life.name(new);
    let next = match level {
        "raid5" if layout.is_empty() && life.random.one_in(3) => "raid6",
        _ => level,
    };
    let devices = life.devices_here();
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let mut arguments = [&["grow"][..], &devices, &["--add", &new_name]].concat();
    if next != level {
        arguments.extend(["--level", next]);
    }
    let kill = life.random.one_in(3).then(|| moment(life));
    let mut status = command(life, &arguments, kill);
    // After a kill the same command resumes. The new device shows if the growth had begun.
    for last in [false, false, true] {
        if status.is_some() {
            break;
        }
        let kill = (!last && life.random.one_in(3)).then(|| moment(life));
        let on = [&["grow"][..], &devices, &[&new_name]].concat();
        let begun = life.run(&on.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        status = if begun.status == 0 {
            Some(0)
        } else {
            command(life, &[&arguments[..], &["--force"]].concat(), kill)
        };
    }
    if status == Some(1) {
        // Some arrays can't grow: `grow` leaves the array unchanged.
        return true;
    }
    if status != Some(0) {
        life.fail("a growth should come to its end");
    }
    life.shape = Shape::flat(next, layout, parts.len() + 1);
    life.members.push(Member {
        device: new,
        current: Current::Yes,
    });
    went_on(life);
    life.follow_size();
    true
}

/// Corrupts bytes on one device; reads are right all the same, and a scrub repairs it.
fn rot(life: &mut Life) -> bool {
    if !life.checksums || life.has_bare || !life.is_whole() || life.crashed {
        return false;
    }
    let place = life.random.index(life.members.len());
    let device = life.members[place].device;
    life.devices[device].here = false;
    let redundant = life.is_readable();
    life.devices[device].here = true;
    if !life.ledger.may_fail.is_empty() {
        return false;
    }
    let name = life.name(device);
    let run = life.expect_ok(&["examine", "--areas", "--json", &name].map(str::to_owned));
    let document = run.json();
    let areas = document["devices"][0]["areas"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let data = areas
        .iter()
        .find(|area| area["kind"] == "data")
        .expect("a member has data");
    let start = data["offset_bytes"].as_u64().expect("where it begins");
    let length = data["length_bytes"].as_u64().expect("its length");
    for _ in 0..=life.random.below(20) {
        let at = start + life.random.below(length - 8);
        let junk = life.random.below(u64::MAX).to_le_bytes();
        life.overwrite(device, at, &junk);
    }
    life.story.push(format!("   {name} rots"));
    if !redundant {
        // Corrupt blocks return errors from now on, until they are written.
        life.ledger.may_fail.extend(0..life.ledger.blocks());
        return true;
    }
    if life.random.one_in(2) {
        life.check();
    }
    scrub(life)
}

fn scrub(life: &mut Life) -> bool {
    if !life.is_readable() || life.crashed {
        return false;
    }
    let nothing_to_compare = ["concat", "raid0"].contains(&life.shape.level()) && !life.checksums;
    let lost = !life.ledger.may_fail.is_empty();
    if lost || nothing_to_compare {
        return false;
    }
    let devices = life.given();
    let devices: Vec<&str> = devices.iter().map(String::as_str).collect();
    let arguments = [&["scrub"][..], &devices].concat();
    let status = command(life, &arguments, None);
    // The outer array does not use all of an inner array without redundancy.
    let may_leave = life.shape.is_nested() && life.checksums;
    if status != Some(0) && !(may_leave && status == Some(1)) {
        life.fail("a scrub should come to its end");
    }
    life.rot_left |= status == Some(1);
    went_on(life);
    true
}

fn add_spare(life: &mut Life) -> bool {
    if !life.is_whole() || life.crashed || !life.spares.is_empty() {
        return false;
    }
    let largest = life
        .members
        .iter()
        .map(|member| life.devices[member.device].bytes);
    let bytes = largest.max().expect("members");
    let spare = life.buy(bytes);
    let name = life.name(spare);
    let list = life.given().join(",");
    life.expect_ok(&["spare", "add", &name, "--array", &list].map(str::to_owned));
    life.spares.push(spare);
    true
}

/// Gives the journal a separate device, or removes it.
fn journal(life: &mut Life) -> bool {
    if life.policy != "journal" || life.shape.is_nested() || !life.is_whole() || life.crashed {
        return false;
    }
    let list = life.given().join(",");
    if life.journal.take().is_some() {
        life.expect_ok(&["journal", "remove", "--array", &list].map(str::to_owned));
        return true;
    }
    let device = life.buy(4 << 20);
    let name = life.name(device);
    let run = life.run(&["journal", "add", &name, "--array", &list].map(str::to_owned));
    if run.status == 0 {
        life.journal = Some(device);
    }
    true
}
