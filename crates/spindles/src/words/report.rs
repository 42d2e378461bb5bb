//! Describes an array and its members: warnings, and the commands that help.

use spindles_admin::assemble::{ArrayReport, JournalReport, MemberReport};
use spindles_admin::scan::shell_word;
use spindles_admin::spare::Added;
use spindles_array::positions;
use spindles_block::{MemberIndex, MemberSet, SizeBytes};
use spindles_device::clock::utc;
use spindles_device::notice::percent;
use spindles_layout::Redundancy;
use std::fmt;

/// Returns the arguments that name this array to a writing command: its name, and `--degraded`
/// if a write discards data of missing members.
pub(crate) fn as_written(report: &ArrayReport) -> String {
    // An array open for writing has already marked the missing members out of date.
    let asks = !report.for_writing
        && report
            .arrays()
            .iter()
            .any(|array| array.must_ask_to_write());
    let option = if asks { " --degraded" } else { "" };
    format!("{}{option}", shell_word(&report.name))
}

/// Describes how current the present members are, as far as known.
fn age(report: &ArrayReport) -> String {
    let written = match report.last_written_s {
        0 => "written at an unknown time".to_owned(),
        seconds => format!("last written {}", utc(seconds)),
    };
    if !report.given_up.newer.is_empty() {
        return format!(
            "what is here was {written}; what is away could have gone on alone, and may be \
             newer"
        );
    }
    if report.clean {
        format!("it is clean, {written}")
    } else {
        format!("it was {written}")
    }
}

/// Describes when pending work of an unused array continues: now, or with the command `by`.
/// `outermost` is the argument that command takes.
fn when(report: &ArrayReport, by: &str, outermost: &str) -> String {
    if report.for_writing {
        "now".to_owned()
    } else {
        format!(
            "with `spindles {by} {outermost}`, or by itself when the array is next open for \
             writing"
        )
    }
}

/// Returns one line for each problem of the array that a user must know, inner arrays first.
pub(crate) fn warnings(report: &ArrayReport) -> Vec<String> {
    warnings_while(report, report.is_open, &as_written(report))
}

/// Returns these lines for the array as it was before it got spares, and the warnings about those.
pub(crate) fn warnings_before(added: &Added) -> Vec<String> {
    let array = added.array.as_deref().map_or_else(Vec::new, warnings);
    [array, added.warnings.clone()].concat()
}

/// Describes replaced devices that still hold a superblock of this array or of one inside it.
/// These devices do not affect commands on the array. For arrays that lack members, `warnings`
/// lists them.
pub(crate) fn replaced_texts(report: &ArrayReport) -> Vec<String> {
    let whole = report
        .arrays()
        .into_iter()
        .filter(|array| !array.is_degraded());
    let replaced = whole.flat_map(|it| &it.replaced);
    replaced.map(|text| format!("left out: {text}")).collect()
}

/// Returns the same lines while another program has the array, without that program's current
/// or pending work.
pub(crate) fn warnings_in_use(report: &ArrayReport) -> Vec<String> {
    warnings_while(report, true, &as_written(report))
}

fn warnings_while(report: &ArrayReport, in_use: bool, outermost: &str) -> Vec<String> {
    let mut lines: Vec<String> = report
        .members
        .iter()
        .filter_map(|member| match member {
            MemberReport::Array(inner) => Some(warnings_while(inner, in_use, outermost)),
            _ => None,
        })
        .flatten()
        .collect();
    let name = &report.name;
    lines.extend(
        report
            .refused
            .iter()
            .filter(|refused| report.is_degraded() || !report.replaced.contains(refused))
            .map(|refused| format!("left out: {refused}")),
    );
    let again = if report.for_writing {
        "now"
    } else {
        "when the array is next written"
    };
    // The program that has the array may be writing a superblock just now.
    let damaged = report.damaged.iter().filter(|_| !in_use);
    lines.extend(damaged.map(|(device, why)| {
        format!(
            "{device}: one of its two superblocks is damaged ({why}), and is rewritten \
             {again}; the other one is good"
        )
    }));
    lines.extend(loss(report, in_use));
    if report.stopped_writing {
        let missing = report.missing();
        let missing = if missing.is_empty() {
            String::new()
        } else {
            let count = report.members.len();
            format!(" ({} of {count} missing)", positions(missing))
        };
        lines.push(format!(
            "array '{name}' has failed{missing}, and no longer writes: failed devices or a lack \
             of space kept it from writing what must be durable first; mend that, then stop the \
             server, and serve it again; until then, serve it with --read-only to read what \
             enough members hold"
        ));
    }
    lines.extend(report.taken.iter().map(ToString::to_string));
    if !in_use {
        lines.extend(unfinished(report, outermost));
    }
    if report.journal == JournalReport::DeviceMissing {
        lines.push(format!(
            "array '{name}' is degraded: it has a device for its journal that is not there, \
             and its members log meanwhile; give that device too, or give the array another \
             one with `spindles journal add DEV --array {outermost}`, or none with `spindles \
             journal remove --array {outermost}`"
        ));
    }
    if report.read_only {
        lines.push(format!(
            "array '{name}' uses a feature that this version can't write: it is open for \
             reading only"
        ));
    }
    lines
}

/// Describes the missing members, if any, or the ones that are not filled yet.
fn loss(report: &ArrayReport, in_use: bool) -> Option<String> {
    let name = &report.name;
    let lost = report.selected(MemberReport::is_lost);
    let filling = report.selected(MemberReport::is_filling);
    if report.failed {
        let survives = match &report.growing {
            Some(growing) => format!("it survives while it grows from {}", growing.level),
            None => format!("{} survives", report.level.name),
        };
        let then = match (in_use, report.clean) {
            // An open array does not take members back.
            (true, _) => ", then stop the server, and serve it again,",
            (false, true) => ", copy what can still be read with `spindles copy --rescue`,",
            (false, false) => "",
        };
        Some(format!(
            "array '{name}' has failed: {} of {} missing, more than {survives}; bring back \
             enough of them{then} or restore it from a backup",
            positions(lost),
            report.members.len(),
        ))
    } else if !lost.is_empty() && !report.stopped_writing {
        Some(format!(
            "array '{name}' is degraded: {} of {} missing; {}; {}",
            positions(lost),
            report.members.len(),
            age(report),
            survives_more(report.survives_more),
        ))
    } else if !filling.is_empty() && !report.stopped_writing && report.survives_more == 0 {
        Some(format!(
            "array '{name}' is degraded: {} of {} not filled yet; {}",
            positions(filling),
            report.members.len(),
            survives_more(0),
        ))
    } else {
        None
    }
}

/// Describes the work that continues when the array is next open for writing.
fn unfinished(report: &ArrayReport, outermost: &str) -> Vec<String> {
    let name = &report.name;
    let mut lines = Vec::new();
    for (index, member) in report.members.iter().enumerate() {
        if let MemberReport::Device {
            filled_bytes: Some(filled),
            ..
        } = member
        {
            let percent = percent(*filled, report.bytes);
            lines.push(format!(
                "array '{name}' is degraded: member {index} is being rebuilt, {percent} % is \
                 done; that goes on {}",
                when(report, "rebuild", outermost)
            ));
        }
    }
    if let Some(growing) = &report.growing {
        let percent = percent(growing.moved_bytes, report.bytes);
        lines.push(format!(
            "array '{name}' grows from {} on {} members in chunks of {}: {percent} % is moved; \
             that goes on {}",
            growing.level,
            growing.members,
            SizeBytes(growing.chunk_bytes),
            if report.for_writing {
                "while the array is open, when no other job does".to_owned()
            } else {
                when(report, "grow", outermost)
            }
        ));
    }
    lines.extend(in_doubt(report, outermost));
    lines
}

/// Describes what an array that was not closed in order may have wrong; `None` if nothing.
fn in_doubt(report: &ArrayReport, outermost: &str) -> Option<String> {
    let name = &report.name;
    if report.hides_the_write_hole() {
        let when = if report.for_writing {
            "a resync makes its members agree now, right or wrong".to_owned()
        } else {
            format!(
                "bring it back, or make the members agree, right or wrong, with `spindles resync \
                 {outermost} --force`"
            )
        };
        Some(format!(
            "array '{name}' was not closed in order and lacks {}: bytes near interrupted \
             writes may be wrong, and reads report no error; {when}",
            positions(report.missing())
        ))
    } else if !report.given_up.last_writes.is_empty() && !report.failed && !report.for_writing {
        let away = positions(report.given_up.last_writes);
        let by_itself = if report.degraded_writes {
            ", by any command: --degraded-writes is allow"
        } else {
            ""
        };
        Some(format!(
            "array '{name}' was not closed in order, and lacks {away}, which it had until \
             then: bring {away} back first; blocks of the last writes that {away} alone may \
             hold are lost for good as soon as the array is written{by_itself}; `spindles \
             resync {outermost}` gives them up, and puts the rest in order"
        ))
    } else if !report.clean && !report.failed && report.level.redundancy != Redundancy::None {
        Some(format!(
            "array '{name}' was not closed in order, by a crash or a command that was killed: \
             a resync makes its members agree again {}",
            if report.for_writing {
                format!(
                    "while this command runs; `spindles resync {outermost}` finishes what is left"
                )
            } else {
                when(report, "resync", outermost)
            }
        ))
    } else {
        None
    }
}

/// Describes what the last scrub of this array and of those inside it could not repair.
pub(crate) fn left_by_scrub(report: &ArrayReport) -> Vec<String> {
    let arrays = report.left_by_scrub().into_iter();
    arrays
        .map(|array| {
            let first = if report.lacks_members() {
                "bring back the missing members, or "
            } else {
                ""
            };
            format!(
                "array '{}' is degraded: {} that was found wrong could not be repaired; `spindles \
                 scrub {}` names the places and looks again: {first}restore the lost places from a \
                 backup",
                array.name,
                SizeBytes(array.scrub_left_bytes).rounded(),
                shell_word(&report.name)
            )
        })
        .collect()
}

/// Describes the lost bytes of this array and of those inside it, with remedies.
pub(crate) fn lost_texts(report: &ArrayReport) -> Vec<String> {
    lost_texts_in(report, &report.name, false)
}

fn lost_texts_in(report: &ArrayReport, outermost: &str, is_redundant_above: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if report.lost_bytes > 0 {
        let outermost = shell_word(outermost);
        let remedy = if is_redundant_above {
            format!("`spindles scrub {outermost}` restores what the arrays around it still hold")
        } else {
            format!(
                "restore these places from a backup (`spindles examine {outermost}` lists them)"
            )
        };
        lines.push(format!(
            "array '{}' is degraded: {} of it lost, which can't be read until it is written: \
             {remedy}",
            report.name,
            SizeBytes(report.lost_bytes).rounded()
        ));
    }
    let is_redundant = report.level.redundancy != Redundancy::None;
    for member in &report.members {
        if let MemberReport::Array(inner) = member {
            lines.extend(lost_texts_in(
                inner,
                outermost,
                is_redundant || is_redundant_above,
            ));
        }
    }
    lines
}

/// Returns the remedy for missing members of an unused array.
pub(crate) fn remedy(report: &ArrayReport) -> Option<String> {
    let name = &report.name;
    if report.failed || report.stopped_writing || !report.lacks_members() {
        return None;
    }
    let outermost = as_written(report);
    let arrays = report.arrays();
    let gives_up = |array: &&&ArrayReport| !array.given_up.last_writes.is_empty();
    if let Some(array) = arrays.iter().find(gives_up) {
        let away = positions(array.given_up.last_writes);
        let onto = if report.spares.is_empty() {
            " --onto DEV"
        } else {
            ""
        };
        return Some(format!(
            "to lose nothing, bring {away} of array '{}' back before anything is written; if \
             that can't be, `spindles rebuild {outermost}{onto}` fills a new device, and gives \
             up what {away} alone may hold of the last writes",
            array.name
        ));
    }
    if let Some(step) = step_to_grow(report) {
        return Some(step);
    }
    let steps = steps_to_fill(report, &outermost).join("; ");
    Some(format!("to make array '{name}' safe again: {steps}"))
}

/// Returns what a growth needs that lacks new members before anything was moved. Spares don't
/// take their places by themselves.
fn step_to_grow(report: &ArrayReport) -> Option<String> {
    let growing = report
        .growing
        .as_ref()
        .filter(|growing| growing.moved_bytes == 0)?;
    let missing = report.missing();
    let is_new = |member: MemberIndex| usize::from(member.0) >= growing.members;
    if missing.is_empty() || !missing.iter().all(is_new) {
        return None;
    }
    let device = report.spares.first().map_or("DEV", |spare| &spare.name);
    let (name, device) = (&report.name, shell_word(device));
    Some(format!(
        "the growth of array '{name}' waits for {}: `spindles grow {name} --add {device}` goes \
         on with that device, `spindles grow {name} --abort` gives the growth up",
        positions(missing)
    ))
}

/// Returns the steps that fill the missing places of this array and of the arrays inside it.
/// Commands take `outermost`.
fn steps_to_fill(report: &ArrayReport, outermost: &str) -> Vec<String> {
    let rebuild = format!("spindles rebuild {outermost}");
    let arrays = report.arrays();
    let held_out: Vec<&str> = (arrays.iter().flat_map(|array| &array.held_out))
        .map(|(_, device)| device.as_str())
        .collect();
    let returning: Vec<&str> = (arrays.iter().flat_map(|array| &array.returning))
        .map(|(_, device)| device.as_str())
        .collect();
    let lost: Vec<(&ArrayReport, MemberSet)> = (arrays.iter())
        .map(|array| (*array, array.missing().difference(known(array))))
        .filter(|(_, lost)| !lost.is_empty())
        .collect();
    let lost_count = lost.iter().map(|(_, lost)| lost.iter().count()).sum();
    let spares: Vec<&str> = (report.spares.iter().take(lost_count))
        .map(|spare| spare.name.as_str())
        .collect();
    let mut steps = Vec::new();
    for device in &held_out {
        let device = shell_word(device);
        steps.push(format!(
            "`spindles add {device} {outermost}` takes {device} back"
        ));
    }
    if !returning.is_empty() {
        steps.push(format!(
            "`{rebuild}` brings {} up to date",
            returning.join(", ")
        ));
    }
    if lost_count > spares.len() {
        let is_only = steps.is_empty() && lost_count == 1;
        for (array, members) in &lost {
            let is_inner = array.uuid != report.uuid;
            // `--member` does not tell inner arrays apart.
            let may_name = !is_only && lost.len() == 1 && !is_inner;
            steps.extend(steps_without_spare(
                array, *members, outermost, is_inner, may_name,
            ));
        }
    }
    if let [first, ..] = spares.as_slice() {
        let (take, they) = match spares.len() {
            1 => (format!("spare {first} takes a place"), "it is"),
            _ => (
                format!("spares {} take places", spares.join(", ")),
                "they are",
            ),
        };
        steps.push(format!(
            "{take} in array '{}' as soon as that is used for writing, and at once with \
             `{rebuild}`, if {they} large enough",
            report.name
        ));
    }
    if let ([_, rest @ ..], 0) = (held_out.as_slice(), lost_count) {
        let place = if rest.is_empty() {
            "its place"
        } else {
            "the place of each"
        };
        steps.push(match report.spares.first() {
            Some(spare) => format!("or `{rebuild}` fills spare {}", spare.name),
            None => format!("or put a new device in {place}: `{rebuild} --onto DEV`"),
        });
    }
    steps
}

/// Returns the members with a known device that gets only what it missed.
fn known(report: &ArrayReport) -> MemberSet {
    let devices = report.returning.iter().chain(&report.held_out);
    devices.map(|(member, _)| *member).collect()
}

/// Returns what missing members of this array need that no spare replaces. With `may_name`, the
/// commands name the members.
fn steps_without_spare(
    report: &ArrayReport,
    members: MemberSet,
    outermost: &str,
    is_inner: bool,
    may_name: bool,
) -> Vec<String> {
    let rebuild = format!("spindles rebuild {outermost}");
    let named = |member: &dyn fmt::Display| {
        let member = may_name.then(|| format!(" --member {member}"));
        member.unwrap_or_default()
    };
    let mut steps = Vec::new();
    let mut left = members;
    let truncated = report.truncated.iter();
    for (member, device, bytes) in truncated.filter(|(member, ..)| members.contains(*member)) {
        let (device, named) = (shell_word(device), named(member));
        left = left.without(*member);
        steps.push(format!(
            "make {device} {bytes} long again, then `spindles wipe {device} --force` empties \
             it, and `{rebuild} --onto {device}{named} --force` fills it"
        ));
    }
    let stale = report.stale.iter();
    for (member, device) in stale.filter(|(member, _)| members.contains(*member)) {
        let (device, named) = (shell_word(device), named(member));
        left = left.without(*member);
        steps.push(format!(
            "bring back the device that {device} is an older state of, or overwrite {device} \
             with what the others hold: `{rebuild} --onto {device}{named} --force`"
        ));
    }
    let outrun = report.outrun.iter();
    for (member, device) in outrun.filter(|(member, _)| members.contains(*member)) {
        let (device, named) = (shell_word(device), named(member));
        left = left.without(*member);
        steps.push(format!(
            "`{rebuild} --onto {device}{named} --force` fills {device} completely"
        ));
    }
    let numbers: Vec<MemberIndex> = left.iter().collect();
    let (place, named) = match numbers.as_slice() {
        [] => return steps,
        [one] => ("its place", named(one)),
        _ => ("the place of each", named(&"N")),
    };
    let of = is_inner.then(|| format!(" of array '{}'", report.name));
    steps.push(format!(
        "bring back {}{}, with `spindles add DEV {outermost}` while the array is served, or \
         put a new device in {place}: `{rebuild} --onto DEV{named}`",
        positions(left),
        of.unwrap_or_default()
    ));
    steps
}

/// Says how many more members may be lost.
pub(crate) fn survives_more(members: u8) -> String {
    match members {
        0 => "it is not safe from further losses".to_owned(),
        1 => "it survives the loss of one member more".to_owned(),
        more => format!("it survives the loss of {more} members more"),
    }
}
