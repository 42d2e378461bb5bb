//! Alarms: events of an array that an administrator must know. Each kind has a name; similar mdadm
//! events lend theirs.

use crate::events::{ServerEvent, StageChange, member_of};
use crate::losses::Losses;
use spindles_array::{ArraySnapshot, SpaceChange, positions, why_out};
use spindles_block::{MemberIndex, counted};
use spindles_device::notice::percent;
use spindles_engine::{
    ArrayState, Event, Fate, Flaw, JOURNAL_DEVICE, ReplaceEnd, ScrubStatus, Status,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A kind of alarm.
#[derive(Debug)]
pub struct AlarmKind {
    /// The name that programs see.
    pub name: &'static str,
    /// True if mdadm uses this name for a similar event.
    pub is_mdadms: bool,
    /// Human-readable description of the event that raises it.
    pub when: &'static str,
}

const fn mdadms(name: &'static str, when: &'static str) -> AlarmKind {
    AlarmKind {
        name,
        is_mdadms: true,
        when,
    }
}

const fn ours(name: &'static str, when: &'static str) -> AlarmKind {
    AlarmKind {
        name,
        is_mdadms: false,
        when,
    }
}

const DEGRADED: AlarmKind = mdadms("DegradedArray", "serving begins without all members");
const NOT_CLOSED: AlarmKind = ours(
    "NotClosedInOrder",
    "serving begins, and the array was not closed in order",
);
const FAIL: AlarmKind = mdadms("Fail", "a member is out");
const ARRAY_FAILED: AlarmKind = ours(
    "ArrayFailed",
    "more members are out than the array survives",
);
const WRITING_STOPPED: AlarmKind = ours(
    "WritingStopped",
    "the array stops writing until it is reopened, though it has enough members",
);
const FAIL_JOURNAL: AlarmKind = ours("FailJournal", "the journal device is out");
const SPARE_TAKEN: AlarmKind = ours("SpareTaken", "a spare takes the place of a member");
const FAIL_SPARE: AlarmKind = mdadms("FailSpare", "a spare could not take a place");
const REBUILD_STARTED: AlarmKind = mdadms(
    "RebuildStarted",
    "a device is being filled, or a member copied onto another device",
);
const REBUILD_FINISHED: AlarmKind = mdadms(
    "RebuildFinished",
    "the device is filled, or the copy is done",
);
const SPARE_ACTIVE: AlarmKind = mdadms("SpareActive", "with RebuildFinished: the device is active");
const REBUILD_INCOMPLETE: AlarmKind = ours("RebuildIncomplete", "the rebuild or copy ended early");
const NOT_FILLED: AlarmKind = ours(
    "NotFilled",
    "a part of the device can't be filled; once per rebuild",
);
const BLOCKS_LOST: AlarmKind = ours(
    "BlocksLost",
    "a crash lost blocks: at the first found, and with all when the search ends",
);
const ROT_FOUND: AlarmKind = ours(
    "RotFound",
    "corrupt or unreadable blocks of a member were not repaired; once per member until the next \
     scrub",
);
const ROT_REPAIRED: AlarmKind = ours(
    "RotRepaired",
    "such blocks were repaired: the first; totals at most hourly per member, after a scrub, and at \
     the end",
);
const SCRUB_STARTED: AlarmKind = ours("ScrubStarted", "a scrub begins or continues");
const SCRUB_FINISHED: AlarmKind = ours("ScrubFinished", "a scrub is done, and found nothing");
const SCRUB_STOPPED: AlarmKind = ours("ScrubStopped", "a scrub was stopped early");
const SCRUB_FINDINGS: AlarmKind = ours("ScrubFindings", "a scrub is done, and found something");
const RESYNC_STARTED: AlarmKind = ours("ResyncStarted", "a resync begins, as after a crash");
const RESYNC_FINISHED: AlarmKind = ours("ResyncFinished", "the resync is done");
const RESYNC_INCOMPLETE: AlarmKind = ours(
    "ResyncIncomplete",
    "the resync could not make all places consistent",
);
const GROWTH_STARTED: AlarmKind = ours("GrowthStarted", "a growth begins or continues");
const GROWTH_FINISHED: AlarmKind = ours("GrowthFinished", "the growth is done");
const GROWTH_STUCK: AlarmKind = ours("GrowthStuck", "the growth can't continue for now");
const MEMBER_SLOW: AlarmKind = ours("MemberSlow", "a member is much slower than its peers");
const NO_SPACE: AlarmKind = ours(
    "NoSpace",
    "members lack space: writes are refused until they have it",
);
const SPACE_AGAIN: AlarmKind = ours("SpaceAgain", "writes have space again");
const STAGE_FULL: AlarmKind = ours(
    "StageFull",
    "small writes come faster than the stage is placed; once until it is empty",
);
const STAGE_STUCK: AlarmKind = ours("StageStuck", "some staged writes can't be placed");
const DOOR_UNGUARDED: AlarmKind = ours(
    "DoorUnguarded",
    "the process that unmounts the file of --fuse, or ends the block device of --ublk, has ended",
);
const CLOSED_UNCLEAN: AlarmKind = ours(
    "ClosedUnclean",
    "serving ended, and the array could not be closed in order",
);

/// All kinds.
pub static ALARM_KINDS: &[&AlarmKind] = &[
    &DEGRADED,
    &NOT_CLOSED,
    &FAIL,
    &ARRAY_FAILED,
    &WRITING_STOPPED,
    &FAIL_JOURNAL,
    &SPARE_TAKEN,
    &FAIL_SPARE,
    &REBUILD_STARTED,
    &REBUILD_FINISHED,
    &SPARE_ACTIVE,
    &REBUILD_INCOMPLETE,
    &NOT_FILLED,
    &BLOCKS_LOST,
    &ROT_FOUND,
    &ROT_REPAIRED,
    &SCRUB_STARTED,
    &SCRUB_FINISHED,
    &SCRUB_STOPPED,
    &SCRUB_FINDINGS,
    &RESYNC_STARTED,
    &RESYNC_FINISHED,
    &RESYNC_INCOMPLETE,
    &GROWTH_STARTED,
    &GROWTH_FINISHED,
    &GROWTH_STUCK,
    &MEMBER_SLOW,
    &NO_SPACE,
    &SPACE_AGAIN,
    &STAGE_FULL,
    &STAGE_STUCK,
    &DOOR_UNGUARDED,
    &CLOSED_UNCLEAN,
];

/// An alarm raised by an event of an array.
#[derive(Clone, Debug)]
pub struct Alarm {
    /// The kinds of the event; several if mdadm reports it as several.
    pub kinds: &'static [&'static AlarmKind],
    /// Name of the array.
    pub array: String,
    /// The affected member, if any.
    pub member: Option<MemberIndex>,
    /// The affected device, if any.
    pub device: Option<String>,
    /// State of the array afterwards: healthy, degraded, failed or unknown.
    pub state: &'static str,
    /// The whole alarm in one human-readable line, without the remedy.
    pub message: String,
    /// What helps.
    pub remedy: Option<Remedy>,
}

/// What helps against the cause of an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Looking at the list of lost places of this array, and writing them from a backup.
    ListLost(String),
}

/// Returns the state of an array. An array that stopped writing counts as failed, even if no member
/// is missing.
pub(crate) fn state_of(status: &Status) -> ArrayState {
    if status.stopped_writing {
        ArrayState::Failed
    } else {
        status.state
    }
}

/// Describes the state of arrays in one line: `healthy`, `degraded: without member 2`.
#[must_use]
pub fn state_line(arrays: &[ArraySnapshot]) -> String {
    let Some(outermost) = arrays.first() else {
        return "open".to_owned(); // A target that is no array has no members.
    };
    let lacks = arrays.iter().filter_map(|array| {
        let lacking = array.lacking();
        let of = if array.name == outermost.name {
            String::new()
        } else {
            format!(" of array '{}'", array.name)
        };
        (!lacking.is_empty()).then(|| positions(lacking) + &of)
    });
    let lacks: Vec<String> = lacks.collect();
    let state = state_of(&outermost.status);
    if lacks.is_empty() {
        return state.name().to_owned();
    }
    format!("{}: without {}", state.name(), lacks.join(", "))
}

/// Picks the alarms from the other events.
#[derive(Debug, Default)]
pub struct Watch {
    /// Alarms that are not repeated until their job begins again.
    reported: BTreeSet<(&'static str, String, Option<MemberIndex>)>,
    /// Lost blocks, by array name, until a resync has ended.
    losses: BTreeMap<String, Losses>,
    /// Repaired blocks, by array name, member and device: a member may be an array of several.
    repairs: BTreeMap<(String, MemberIndex, Option<String>), Repairs>,
}

/// Shortest time between two alarms for repairs of one member.
const REPAIRS_INTERVAL: Duration = Duration::from_hours(1);

/// Blocks of a member that were corrupt or unreadable, and were repaired.
#[derive(Debug, Default)]
struct Repairs {
    /// Repaired blocks not reported in an alarm yet.
    unreported_blocks: u64,
    /// Time of the last alarm.
    last_alarm: Option<Instant>,
}

impl Repairs {
    /// Returns an alarm for all unreported blocks; `None` if there are none.
    fn alarm(
        &mut self,
        (array, member, device): &(String, MemberIndex, Option<String>),
        now: Instant,
        arrays: &[ArraySnapshot],
    ) -> Option<Alarm> {
        let blocks = std::mem::take(&mut self.unreported_blocks);
        let since = match self.last_alarm.replace(now) {
            None => "",
            Some(_) => " since the last message of this kind",
        };
        let member = Some(*member).filter(|member| *member != JOURNAL_DEVICE);
        let named = named(member, device.as_deref());
        let (s, were) = if blocks == 1 {
            ("", "was")
        } else {
            ("s", "were")
        };
        let what = format!(
            "{blocks} block{s} of {named} {were} corrupt or unreadable, and repaired{since}"
        );
        (blocks > 0).then(|| Alarm {
            member,
            device: device.clone(),
            ..alarm(&[&ROT_REPAIRED], array, arrays, &what)
        })
    }
}

/// Names a member in messages.
fn named(member: Option<MemberIndex>, device: Option<&str>) -> String {
    match (member, device) {
        (Some(member), Some(device)) => format!("member {member}, {device},"),
        (Some(member), None) => format!("member {member}"),
        (None, Some(device)) => format!("{device},"),
        (None, None) => String::new(),
    }
}

/// Returns the member and the number of blocks if the event reports a repair.
fn repaired(event: &Event) -> Option<(MemberIndex, u32)> {
    match event {
        Event::Found(found) if found.fate == Fate::Repaired => Some((found.member, found.blocks)),
        Event::MetadataFound(found) if found.fate == Fate::Repaired => {
            Some((found.member, found.blocks))
        }
        _ => None,
    }
}

impl Watch {
    /// Returns the alarms due when serving begins.
    #[must_use]
    pub fn begin(arrays: &[ArraySnapshot]) -> Vec<Alarm> {
        let degraded = arrays.iter().filter_map(|array| {
            let lacking = array.lacking();
            let what = format!("serving begins without {}", positions(lacking));
            (!lacking.is_empty()).then(|| alarm(&[&DEGRADED], &array.name, arrays, &what))
        });
        let grows = arrays.iter().filter_map(|array| growth(array, arrays));
        degraded.chain(grows).collect()
    }

    /// Returns the alarm for an array that was not closed cleanly before serving began.
    #[must_use]
    pub fn not_closed(array: &str, arrays: &[ArraySnapshot]) -> Alarm {
        let what = "it was not closed in order when it was last in use, and is put in order now";
        alarm(&[&NOT_CLOSED], array, arrays, what)
    }

    /// Returns the alarms that an event raises. `arrays` is the state after it.
    pub fn hear(&mut self, event: &ServerEvent, arrays: &[ArraySnapshot]) -> Vec<Alarm> {
        self.hear_at(Instant::now(), event, arrays)
    }

    fn hear_at(
        &mut self,
        now: Instant,
        event: &ServerEvent,
        arrays: &[ArraySnapshot],
    ) -> Vec<Alarm> {
        let is_over = |event: &Event| {
            matches!(
                event,
                Event::ResyncDone { .. } | Event::ResyncIncomplete { .. }
            )
        };
        let lost = match event {
            ServerEvent::Engine { array, event, .. } if is_over(event) => {
                let losses = self.losses.remove_entry(array);
                losses.and_then(|(array, losses)| all_lost(&array, losses, arrays))
            }
            ServerEvent::Engine { .. }
            | ServerEvent::Taken(_)
            | ServerEvent::NotBack { .. }
            | ServerEvent::Unguarded { .. }
            | ServerEvent::Space { .. }
            | ServerEvent::Stage { .. }
            | ServerEvent::Grows(_)
            | ServerEvent::State(_) => None,
        };
        let alarm = self.alarm(event, arrays);
        let repairs = self.repairs(now, event, arrays);
        let mut alarms = self.listed_lost(event, arrays);
        alarms.extend(lost.into_iter().chain(repairs).chain(alarm));
        alarms
    }

    /// Returns the alarms for blocks that the arrays lost before they were opened. Their lists are
    /// read after serving began.
    fn listed_lost(&mut self, event: &ServerEvent, arrays: &[ArraySnapshot]) -> Vec<Alarm> {
        let mut alarms = Vec::new();
        for array in arrays {
            let blocks = array.status.lost_blocks;
            let is_listed = matches!(event, ServerEvent::State(_)) && blocks > 0;
            if is_listed && self.reports_lost(&array.name) {
                let are = if blocks == 1 { "is" } else { "are" };
                let lost = format!("{} {are} lost", counted(blocks, "block"));
                alarms.push(lost_for_good(&array.name, &lost, arrays));
            }
        }
        alarms
    }

    /// Records that lost blocks of an array are reported. Returns true if none were before.
    fn reports_lost(&mut self, array: &str) -> bool {
        self.reported
            .insert((BLOCKS_LOST.name, array.to_owned(), None))
    }

    /// Returns the alarms for repairs: the first of a member, then a total after each interval, and
    /// all pending ones at the end of a scrub.
    fn repairs(
        &mut self,
        now: Instant,
        event: &ServerEvent,
        arrays: &[ArraySnapshot],
    ) -> Vec<Alarm> {
        let ServerEvent::Engine {
            array,
            event,
            device,
        } = event
        else {
            return Vec::new();
        };
        if let Event::ScrubDone(_) | Event::ScrubStopped(_) = event {
            let of_array = self.repairs.iter_mut().filter(|((of, ..), _)| of == array);
            return of_array
                .filter_map(|(of, repairs)| repairs.alarm(of, now, arrays))
                .collect();
        }
        let Some((member, blocks)) = repaired(event) else {
            return Vec::new();
        };
        let of = (array.clone(), member, device.clone());
        let repairs = self.repairs.entry(of.clone()).or_default();
        repairs.unreported_blocks += u64::from(blocks);
        let waits = (repairs.last_alarm)
            .is_some_and(|last| now.saturating_duration_since(last) < REPAIRS_INTERVAL);
        let alarm = (!waits).then(|| repairs.alarm(&of, now, arrays));
        alarm.flatten().into_iter().collect()
    }

    /// Returns the alarms held back until serving ends.
    #[must_use]
    pub fn end(self, arrays: &[ArraySnapshot]) -> Vec<Alarm> {
        let now = Instant::now();
        let losses = self.losses.into_iter();
        let losses = losses.filter_map(|(array, losses)| all_lost(&array, losses, arrays));
        let repairs = self
            .repairs
            .into_iter()
            .filter_map(|(of, mut repairs)| repairs.alarm(&of, now, arrays));
        losses.chain(repairs).collect()
    }

    fn alarm(&mut self, event: &ServerEvent, arrays: &[ArraySnapshot]) -> Option<Alarm> {
        match event {
            ServerEvent::Engine {
                array,
                event,
                device,
            } => self.of_event(array, event, device.as_deref(), arrays),
            ServerEvent::Taken(taken) => {
                let kinds: Kinds = match taken.error {
                    None => &[&SPARE_TAKEN],
                    Some(_) => &[&FAIL_SPARE],
                };
                Some(Alarm {
                    member: Some(taken.member),
                    device: Some(taken.device.clone()),
                    message: taken.to_string(),
                    ..alarm(kinds, &taken.array, arrays, "")
                })
            }
            ServerEvent::NotBack {
                array,
                member,
                device,
            } => {
                let kinds: Kinds = match member {
                    Some(_) => &[&FAIL],
                    None => &[&FAIL_JOURNAL],
                };
                Some(Alarm {
                    member: *member,
                    device: device.clone(),
                    message: event.lacking()?,
                    ..alarm(kinds, array, arrays, "")
                })
            }
            ServerEvent::Grows(array) => {
                let array = arrays.iter().find(|state| state.name == *array)?;
                growth(array, arrays)
            }
            ServerEvent::State(_) => None,
            ServerEvent::Space { array, change } => Some(space(array, change, arrays)),
            ServerEvent::Stage { array, change } => self.stage(array, *change, arrays),
            ServerEvent::Unguarded { array, loss } => {
                Some(alarm(&[&DOOR_UNGUARDED], array, arrays, loss))
            }
        }
    }

    /// Returns the alarm for a change of a stage. A full stage is reported once until it is empty.
    fn stage(
        &mut self,
        array: &str,
        change: StageChange,
        arrays: &[ArraySnapshot],
    ) -> Option<Alarm> {
        let key = (STAGE_FULL.name, array.to_owned(), None);
        match change {
            StageChange::Full => self.reported.insert(key).then(|| {
                let what = "its stage is full: small writes are placed before they are answered, \
                            until clients pause";
                alarm(&[&STAGE_FULL], array, arrays, what)
            }),
            StageChange::Empty => {
                self.reported.remove(&key);
                None
            }
            StageChange::Stuck => {
                let what = "some staged writes can't be placed, and stay in the stage: members \
                            refuse them, or too many are missing";
                Some(alarm(&[&STAGE_STUCK], array, arrays, what))
            }
            StageChange::Unstuck => None,
        }
    }

    /// Returns the alarm for an event of an array, unless it was raised already.
    fn of_event(
        &mut self,
        array: &str,
        event: &Event,
        device: Option<&str>,
        arrays: &[ArraySnapshot],
    ) -> Option<Alarm> {
        let again = match event {
            Event::ScrubStarted { .. } => Some(ROT_FOUND.name),
            Event::RebuildStarted { .. } => Some(NOT_FILLED.name),
            _ => None,
        };
        if let Some(again) = again {
            self.reported
                .retain(|(name, of, _)| *name != again || of != array);
        }
        if let Event::Lost { block, blocks } = event {
            self.reports_lost(array);
            let is_first = !self.losses.contains_key(array);
            let losses = self.losses.entry(array.to_owned()).or_default();
            losses.add(*block, *blocks);
            let lost = is_first.then(|| losses.unreported()).flatten()?;
            let what = format!("{lost}, and perhaps more: reads there fail until they are written");
            return Some(alarm(&[&BLOCKS_LOST], array, arrays, &what));
        }
        let member = member_of(event);
        let state = arrays.iter().find(|state| state.name == *array);
        // The device of a copy is the new one. Its messages name the old one first.
        let is_copied = matches!(
            event,
            Event::ReplaceStarted { .. } | Event::ReplaceEnded { .. }
        );
        let copied = state.and_then(|state| Some(state.device(member?)?.name.as_str()));
        let named = named(member, if is_copied { copied } else { device });
        let has_failed = state.is_some_and(|state| state.status.state == ArrayState::Failed);
        let onto = state.and_then(|state| Some(state.replacement()?.1.name.as_str()));
        let (kinds, mut what) = kind_of(event, &named, has_failed, onto)?;
        what.extend(state.and_then(|array| resumed(event, array)));
        let is_reported_once = [ROT_FOUND.name, NOT_FILLED.name].contains(&kinds[0].name);
        let key = (kinds[0].name, array.to_owned(), member);
        if is_reported_once && !self.reported.insert(key) {
            return None;
        }
        Some(Alarm {
            member,
            device: device.map(str::to_owned),
            ..alarm(kinds, array, arrays, &what)
        })
    }

    /// Returns the alarm for an array that could not be closed cleanly.
    #[must_use]
    pub fn unclean(array: &str, why: &str) -> Alarm {
        alarm(&[&CLOSED_UNCLEAN], array, &[], why)
    }
}

/// Returns an alarm if the array is growing.
fn growth(array: &ArraySnapshot, arrays: &[ArraySnapshot]) -> Option<Alarm> {
    array.status.growth.as_ref()?;
    let what = "it grows: all data moves to its places in the new shape";
    Some(alarm(&[&GROWTH_STARTED], &array.name, arrays, what))
}

/// Returns the alarm for all lost blocks, unless the alarm for the first of them covered all.
fn all_lost(array: &str, mut losses: Losses, arrays: &[ArraySnapshot]) -> Option<Alarm> {
    Some(lost_for_good(array, &losses.unreported()?, arrays))
}

/// Returns the alarm that blocks are lost, as `lost` describes them.
fn lost_for_good(array: &str, lost: &str, arrays: &[ArraySnapshot]) -> Alarm {
    // Commands take the name of the outermost array.
    let outermost = arrays.first().map_or(array, |outermost| &outermost.name);
    let what = format!("{lost}: reads there fail until the data is rewritten from a backup");
    Alarm {
        remedy: Some(Remedy::ListLost(outermost.to_owned())),
        ..alarm(&[&BLOCKS_LOST], array, arrays, &what)
    }
}

fn space(array: &str, change: &SpaceChange, arrays: &[ArraySnapshot]) -> Alarm {
    match change {
        SpaceChange::Lacking(devices) => {
            let what = format!(
                "no space is left for writes on the file system of {}: writes are refused until \
                 there is space; all members stay",
                devices.join(", ")
            );
            Alarm {
                device: devices.first().cloned(),
                ..alarm(&[&NO_SPACE], array, arrays, &what)
            }
        }
        SpaceChange::Back => alarm(&[&SPACE_AGAIN], array, arrays, "writes get space again"),
    }
}

fn alarm(
    kinds: &'static [&'static AlarmKind],
    array: &str,
    arrays: &[ArraySnapshot],
    what: &str,
) -> Alarm {
    let state = arrays.iter().find(|state| state.name == array);
    Alarm {
        kinds,
        array: array.to_owned(),
        member: None,
        device: None,
        // A closed array has no known state.
        state: state.map_or("unknown", |array| state_of(&array.status).name()),
        message: format!("array '{array}': {what}"),
        remedy: None,
    }
}

/// Renders the findings of a scrub as text, for example `a scrub is done: 2 blocks wrong and
/// repaired`.
fn scrub_findings(found: &ScrubStatus) -> String {
    let parts = [
        (found.repaired_blocks, "block", "wrong and repaired"),
        (found.left_blocks, "block", "wrong and not repaired"),
        (
            found.metadata_repaired_blocks,
            "block",
            "of metadata wrong and repaired",
        ),
        (
            found.metadata_left_blocks,
            "block",
            "of metadata wrong and not repaired",
        ),
        (
            found.disagreements,
            "row",
            "in disagreement, and nothing tells which member is wrong",
        ),
        (found.made_to_agree, "row", "made to agree with the data"),
    ];
    let parts = parts.iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, noun, what)| format!("{} {what}", counted(*count, noun)))
        .collect();
    format!("a scrub is done: {}", parts.join("; "))
}

/// Kinds of an alarm.
type Kinds = &'static [&'static AlarmKind];

/// Maps an event to its alarm kinds and message. `member` names the affected member, `onto` the
/// device that a member is copied onto. `has_failed` is true if the array has failed by now.
fn kind_of(
    event: &Event,
    member: &str,
    has_failed: bool,
    onto: Option<&str>,
) -> Option<(Kinds, String)> {
    failure(event, member, has_failed)
        .or_else(|| filling(event, member, onto))
        .or_else(|| corruption(event, member))
        .or_else(|| job(event))
}

/// Maps a fault of a member or of the whole array to its alarm kinds and message.
fn failure(event: &Event, member: &str, has_failed: bool) -> Option<(Kinds, String)> {
    let (kinds, what): (Kinds, String) = match event {
        Event::MemberOut { reason, .. } => {
            let why = why_out(*reason);
            // A failed array raises its own alarm.
            let now = if has_failed {
                ""
            } else {
                "; the array is degraded"
            };
            (&[&FAIL], format!("{member} is out: {why}{now}"))
        }
        Event::ArrayFailed { missing } => {
            let what = format!(
                "more members are out than it survives, {}: the array has failed and writes \
                 nothing more",
                positions(*missing)
            );
            (&[&ARRAY_FAILED], what)
        }
        Event::WritingStopped => {
            let what = "the array has failed and writes nothing more: records that must be durable \
                first could not be written, for lack of space or because devices failed. Mend that \
                and serve the array again; until then, serve it with --read-only";
            (&[&WRITING_STOPPED], what.to_owned())
        }
        Event::JournalDeviceOut { error } => {
            let what =
                format!("the journal device is out: {error}; writes are logged on the members");
            (&[&FAIL_JOURNAL], what)
        }
        Event::TooMuchLost => {
            let what = "more blocks are lost than the list of bad blocks can hold: requests for \
                        the others fail until it has space";
            (&[&BLOCKS_LOST], what.to_owned())
        }
        Event::MemberSlow { slow: true, .. } => (
            &[&MEMBER_SLOW],
            format!("{member} is much slower than its peers"),
        ),
        _ => return None,
    };
    Some((kinds, what))
}

/// Maps an event of a rebuild or a replacement to its alarm kinds and message.
fn filling(event: &Event, member: &str, onto: Option<&str>) -> Option<(Kinds, String)> {
    let (kinds, what): (Kinds, String) = match event {
        Event::RebuildStarted { .. } => (&[&REBUILD_STARTED], format!("{member} is being filled")),
        Event::ReplaceStarted { .. } => (
            &[&REBUILD_STARTED],
            format!(
                "{member} is being copied onto {}",
                onto.unwrap_or("another device")
            ),
        ),
        Event::RebuildDone { .. } => (
            &[&REBUILD_FINISHED, &SPARE_ACTIVE],
            format!("{member} is active again"),
        ),
        Event::ReplaceDone { .. } => (
            &[&REBUILD_FINISHED, &SPARE_ACTIVE],
            format!("{member} has the place now"),
        ),
        Event::RebuildIncomplete { failed } => {
            let what = format!(
                "a rebuild could not read {}: it goes on from the first of them at the next \
                 opening",
                counted(*failed, "stripe range")
            );
            (&[&REBUILD_INCOMPLETE], what)
        }
        Event::ReplaceEnded { why, .. } => {
            let why = match why {
                ReplaceEnd::ReplacementLost(error) => format!("the new device failed: {error}"),
                _ => "it was given up".to_owned(),
            };
            (
                &[&REBUILD_INCOMPLETE],
                format!("{member} is not replaced: {why}"),
            )
        }
        Event::NotFilled { blocks, .. } => {
            let what = format!(
                "{} of {member} can't be filled, and perhaps more: other members can't be read \
                 there",
                counted(*blocks, "block")
            );
            (&[&NOT_FILLED], what)
        }
        _ => return None,
    };
    Some((kinds, what))
}

/// Maps corruption that was not repaired to its alarm kinds and message.
fn corruption(event: &Event, member: &str) -> Option<(Kinds, String)> {
    let (kinds, what): (Kinds, String) = match event {
        Event::Found(finding) if finding.fate != Fate::Repaired => {
            let flaw = match finding.flaw {
                Flaw::Unreadable => "unreadable",
                Flaw::Rotten => "corrupt",
                Flaw::ChecksumLost => "without a good checksum, so that nothing verifies it",
            };
            let (blocks, block) = (counted(finding.blocks, "block"), finding.block);
            let what = format!(
                "{blocks} of {member} {flaw} and not repaired, from block {block} on, and perhaps \
                 more"
            );
            (&[&ROT_FOUND], what)
        }
        Event::MetadataFound(found) if found.fate != Fate::Repaired => {
            let (block, area) = (found.block, found.area.name());
            let blocks = counted(found.blocks, "block");
            let what = format!(
                "{blocks} of the metadata ({area}) of {member} corrupt and not repaired, from \
                 block {block} on"
            );
            (&[&ROT_FOUND], what)
        }
        _ => return None,
    };
    Some((kinds, what))
}

/// Says where a scrub began, if it continued an earlier one.
fn resumed(event: &Event, array: &ArraySnapshot) -> Option<String> {
    let (from, what) = match event {
        Event::ScrubStarted { from } => (from, " at"),
        Event::ScrubDone(found) => (&found.from, "; it read only what follows"),
        _ => return None,
    };
    let percent = percent(from.0 * u64::from(array.block_bytes), array.bytes);
    (from.0 > 0).then(|| format!("{what} {percent} %, where an earlier one was stopped"))
}

/// Maps an event of a scrub, a resync or a growth to its alarm kinds and message.
fn job(event: &Event) -> Option<(Kinds, String)> {
    let (kinds, what): (Kinds, String) = match event {
        Event::ScrubDone(found)
            if found.metadata_repaired_blocks
                + found.metadata_left_blocks
                + found.repaired_blocks
                + found.left_blocks
                + found.disagreements
                + found.made_to_agree
                > 0 =>
        {
            (&[&SCRUB_FINDINGS], scrub_findings(found))
        }
        Event::ScrubStarted { .. } => (&[&SCRUB_STARTED], "a scrub begins".to_owned()),
        Event::ScrubDone(_) => {
            let what = "a scrub is done: nothing is wrong";
            (&[&SCRUB_FINISHED], what.to_owned())
        }
        Event::ScrubStopped(_) => {
            let what = "a scrub was stopped before its end";
            (&[&SCRUB_STOPPED], what.to_owned())
        }
        Event::ResyncStarted => (&[&RESYNC_STARTED], "a resync begins".to_owned()),
        Event::ResyncDone { mismatches } => {
            let what = format!(
                "a resync is done: members had disagreed in {}",
                counted(*mismatches, "stripe range")
            );
            (&[&RESYNC_FINISHED], what)
        }
        Event::ResyncIncomplete { unsettled } => {
            let what = format!(
                "{} that a crash left in doubt could not be put in order",
                counted(*unsettled, "stripe range")
            );
            (&[&RESYNC_INCOMPLETE], what)
        }
        Event::Grown { .. } => (&[&GROWTH_FINISHED], "it has grown".to_owned()),
        Event::GrowthStuck { block } => {
            let what = format!(
                "the data from block {block} on can't be moved: the growth continues at the next \
                 opening"
            );
            (&[&GROWTH_STUCK], what)
        }
        _ => return None,
    };
    Some((kinds, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_admin::Uuid;
    use spindles_block::BlockIndex;
    use spindles_engine::{Finding, JournalStatus, OutReason};

    fn alarms(watch: &mut Watch, event: Event) -> Vec<Alarm> {
        let event = ServerEvent::Engine {
            array: "pool".to_owned(),
            event,
            device: Some("c.img".to_owned()),
        };
        watch.hear(&event, &[])
    }

    fn heard(watch: &mut Watch, event: Event) -> Option<Vec<&'static str>> {
        let alarm = alarms(watch, event).pop()?;
        assert!(alarm.message.starts_with("array 'pool': "), "{alarm:?}");
        Some(alarm.kinds.iter().map(|kind| kind.name).collect())
    }

    /// A crash with a member absent can lose hundreds of places: two alarms report them, not
    /// hundreds.
    #[test]
    fn lost_blocks_are_reported_together() {
        let lose = |watch: &mut Watch, at: u64| {
            let block = BlockIndex(at * 8);
            alarms(watch, Event::Lost { block, blocks: 2 })
        };
        let mut watch = Watch::default();
        let first = lose(&mut watch, 3).remove(0);
        let text = "array 'pool': 2 blocks are lost, 24 to 25, and perhaps more: ";
        assert!(first.message.starts_with(text), "{first:?}");
        assert!((4..400).all(|at| lose(&mut watch, at).is_empty()));
        let reported = alarms(&mut watch, Event::ResyncIncomplete { unsettled: 1 });
        let names: Vec<&str> = reported.iter().map(|alarm| alarm.kinds[0].name).collect();
        assert_eq!(names, ["BlocksLost", "ResyncIncomplete"]);
        let text = "array 'pool': 794 blocks are lost, 24 to 25, 32 to 33, ";
        assert!(reported[0].message.starts_with(text), "{reported:?}");
        // A reported loss is not repeated; unreported losses are reported at the end.
        lose(&mut watch, 7);
        let reported = alarms(&mut watch, Event::ResyncDone { mismatches: 0 });
        let names: Vec<&str> = reported.iter().map(|alarm| alarm.kinds[0].name).collect();
        assert_eq!(names, ["ResyncFinished"]);
        lose(&mut watch, 8);
        lose(&mut watch, 9);
        let reported = watch.end(&[]);
        assert!(
            reported[0].message.contains(": 4 blocks are lost, "),
            "{reported:?}"
        );
    }

    fn found(fate: Fate) -> Event {
        Event::Found(Finding {
            member: MemberIndex(2),
            block: BlockIndex(7),
            blocks: 1,
            array_block: None,
            flaw: Flaw::Rotten,
            fate,
            by_scrub: true,
        })
    }

    /// Blocks that were lost before serving began are reported once, with the remedy.
    #[test]
    fn listed_lost_blocks_are_reported_once() {
        let mut watch = Watch::default();
        let mut hear = |lost_blocks: u64| {
            let status = Status {
                state: ArrayState::Healthy,
                stopped_writing: false,
                survives_more: 1,
                members: Vec::new(),
                generation: 1,
                dirty: false,
                jobs: Vec::new(),
                lost_blocks,
                left_blocks: 0,
                journal: JournalStatus::None,
                stage: None,
                growth: None,
                scrub: ScrubStatus::default(),
                regions: None,
            };
            let array = ArraySnapshot {
                name: "pool".to_owned(),
                uuid: Uuid::NIL,
                bytes: 0,
                block_bytes: 4096,
                last_scrub_s: 0,
                status,
                members: Vec::new(),
                replacing: None,
                journal: None,
            };
            watch.hear(&ServerEvent::State("pool".to_owned()), &[array])
        };
        assert!(hear(0).is_empty());
        let alarms = hear(1);
        assert_eq!(alarms[0].kinds[0].name, "BlocksLost");
        let text = "array 'pool': 1 block is lost: reads there fail until the data is rewritten \
                    from a backup";
        assert_eq!(alarms[0].message, text);
        let remedy = Remedy::ListLost("pool".to_owned());
        assert_eq!(alarms[0].remedy, Some(remedy));
        assert!(hear(1).is_empty());
    }

    #[test]
    fn a_full_stage_is_reported_once_until_it_is_empty() {
        let mut watch = Watch::default();
        let mut hear = |change| {
            let array = "pool".to_owned();
            let alarms = watch.hear(&ServerEvent::Stage { array, change }, &[]);
            alarms.first().map(|alarm| alarm.kinds[0].name)
        };
        assert_eq!(hear(StageChange::Full), Some("StageFull"));
        assert_eq!(hear(StageChange::Full), None);
        assert_eq!(hear(StageChange::Empty), None);
        assert_eq!(hear(StageChange::Full), Some("StageFull"));
        assert_eq!(hear(StageChange::Stuck), Some("StageStuck"));
        assert_eq!(hear(StageChange::Unstuck), None);
    }

    #[test]
    fn corruption_is_reported_with_its_device_and_block() {
        let message = &alarms(&mut Watch::default(), found(Fate::Left))[0].message;
        let text = "1 block of member 2, c.img, corrupt and not repaired, from block 7 on, and \
                    perhaps more";
        assert_eq!(*message, format!("array 'pool': {text}"));
    }

    #[test]
    fn a_member_with_much_corruption_is_reported_once_per_scrub() {
        let mut watch = Watch::default();
        assert_eq!(
            heard(&mut watch, found(Fate::Repaired)),
            Some(vec!["RotRepaired"])
        );
        assert_eq!(heard(&mut watch, found(Fate::Left)), Some(vec!["RotFound"]));
        assert_eq!(heard(&mut watch, found(Fate::Left)), None);
        let from = BlockIndex(0);
        let started = heard(&mut watch, Event::ScrubStarted { from });
        assert_eq!(started, Some(vec!["ScrubStarted"]));
        assert_eq!(heard(&mut watch, found(Fate::Left)), Some(vec!["RotFound"]));
    }

    /// A member with many repairs raises an alarm at once, each hour, and at the end of a scrub.
    #[test]
    fn repairs_are_reported_first_hourly_and_at_the_end() {
        let mut watch = Watch::default();
        let start = Instant::now();
        let mut hear = |after_s: u64, event: Event| -> Vec<String> {
            let event = ServerEvent::Engine {
                array: "pool".to_owned(),
                event,
                device: Some("c.img".to_owned()),
            };
            let alarms = watch.hear_at(start + Duration::from_secs(after_s), &event, &[]);
            let repaired = alarms
                .into_iter()
                .filter(|alarm| alarm.kinds[0].name == "RotRepaired");
            repaired
                .map(|alarm| {
                    assert_eq!(alarm.device.as_deref(), Some("c.img"));
                    alarm.message
                })
                .collect()
        };
        let first = hear(0, found(Fate::Repaired));
        let text =
            "array 'pool': 1 block of member 2, c.img, was corrupt or unreadable, and repaired";
        assert_eq!(first, [text]);
        assert!((1..=30).all(|second| hear(second, found(Fate::Repaired)).is_empty()));
        let later = hear(3601, found(Fate::Repaired));
        assert!(
            later[0].starts_with("array 'pool': 31 blocks of member 2, "),
            "{later:?}"
        );
        assert!(hear(3602, found(Fate::Repaired)).is_empty());
        let end = hear(3603, Event::ScrubDone(ScrubStatus::default()));
        assert!(
            end[0].starts_with("array 'pool': 1 block of member 2, "),
            "{end:?}"
        );
        assert!(hear(3604, Event::ScrubDone(ScrubStatus::default())).is_empty());
    }

    #[test]
    fn a_failed_array_is_not_called_degraded() {
        let missing = [MemberIndex(1), MemberIndex(2)].into_iter().collect();
        let (_, what) = kind_of(&Event::ArrayFailed { missing }, "", true, None).expect("an alarm");
        assert!(
            what.contains("members 1 and 2: the array has failed"),
            "{what}"
        );
        let out = Event::MemberOut {
            member: MemberIndex(2),
            reason: OutReason::Command,
        };
        for has_failed in [false, true] {
            let (_, what) = kind_of(&out, "member 2", has_failed, None).expect("an alarm");
            assert_eq!(what.contains("degraded"), !has_failed, "{what}");
        }
    }

    #[test]
    fn a_finished_rebuild_is_reported_like_mdadm() {
        let member = MemberIndex(2);
        let mut watch = Watch::default();
        assert_eq!(
            heard(&mut watch, Event::RebuildStarted { member }),
            Some(vec!["RebuildStarted"])
        );
        assert_eq!(
            heard(&mut watch, Event::RebuildDone { member }),
            Some(vec!["RebuildFinished", "SpareActive"])
        );
    }

    /// The list in docs/guide/serving.md has one line for each kind, and no others.
    #[test]
    fn all_kinds_are_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/serving.md");
        let page = std::fs::read_to_string(path).expect("it is there");
        let (_, rest) = page
            .split_once("```text\nDegradedArray")
            .expect("the list is there");
        let (list, _) = rest.split_once("\n```").expect("its end");
        let list = format!("DegradedArray{list}");
        let wanted = ALARM_KINDS.iter().map(|kind| {
            let name = format!("{}{}", kind.name, if kind.is_mdadms { "*" } else { "" });
            format!("{name:<18} {}", kind.when)
        });
        assert_eq!(list.lines().collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    }

    #[test]
    fn an_alarm_states_counts_and_names_in_plain_words() {
        let member = MemberIndex(1);
        let message_of = |event: &Event| {
            let alarm = kind_of(event, "member 1, b", false, Some("d"));
            alarm.expect("an alarm").1
        };
        let replace = Event::ReplaceStarted { member };
        assert_eq!(message_of(&replace), "member 1, b is being copied onto d");
        let found = |repaired_blocks, disagreements| {
            message_of(&Event::ScrubDone(ScrubStatus {
                repaired_blocks,
                disagreements,
                ..ScrubStatus::default()
            }))
        };
        assert_eq!(found(1, 0), "a scrub is done: 1 block wrong and repaired");
        let both = found(2, 1);
        assert!(
            both.contains("2 blocks wrong and repaired; 1 row in disagreement"),
            "{both}"
        );
    }
}
