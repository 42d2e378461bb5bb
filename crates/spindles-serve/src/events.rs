//! Events of a target's arrays, and the event bus that passes them to all subscribers.

use spindles_admin::spare::Taken;
use spindles_array::{ArraySnapshot, DeviceSnapshot, Managed, SpaceChange, Target};
use spindles_block::MemberIndex;
use spindles_engine::{Event, JOURNAL_DEVICE, JournalStatus, StageStatus};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// An event.
#[derive(Clone, Debug)]
pub enum ServerEvent {
    /// An event of an array.
    Engine {
        /// The name of the array.
        array: String,
        /// The event.
        event: Event,
        /// The affected device, if any.
        device: Option<String>,
    },
    /// A spare replaced a member.
    Taken(Taken),
    /// A device is missing after the array was closed and reopened for a command.
    NotBack {
        /// The name of the array.
        array: String,
        /// The member; `None` for the journal device.
        member: Option<MemberIndex>,
        /// The device before.
        device: Option<String>,
    },
    /// Writes ran out of space, or have space again.
    Space {
        /// The name of the outermost array.
        array: String,
        /// The change.
        change: SpaceChange,
    },
    /// The stage of an array changed.
    Stage {
        /// The name of the array.
        array: String,
        /// The change.
        change: StageChange,
    },
    /// The array of this name was reopened, and is growing.
    Grows(String),
    /// The outermost array, of this name, has another state, or any of its arrays now has lost
    /// blocks, without an event: a list of lost blocks was read, or clients wrote them.
    State(String),
    /// A process that a transport depends on has ended.
    Unguarded {
        /// The name of the array, or of the export.
        array: String,
        /// Message: what no longer works without the process.
        loss: String,
    },
}

/// A change of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageChange {
    /// The stage is nearly full. Answers of further small writes wait until they are placed.
    Full,
    /// The stage is empty again.
    Empty,
    /// Some staged writes can't be placed.
    Stuck,
    /// They can be placed again.
    Unstuck,
}

/// The fill of a stage from which it takes no further writes, in 256ths.
const FULL_256: u32 = 243;

impl StageChange {
    /// Returns the changes between two states of a stage.
    fn between(before: &StageStatus, after: &StageStatus) -> Vec<Self> {
        let is_full = |stage: &StageStatus| stage.fill_256 >= FULL_256;
        let changes = [
            (!is_full(before) && is_full(after), Self::Full),
            (
                before.staged_blocks > 0 && after.staged_blocks == 0,
                Self::Empty,
            ),
            (!before.is_stuck && after.is_stuck, Self::Stuck),
            (before.is_stuck && !after.is_stuck, Self::Unstuck),
        ];
        let changes = changes.into_iter().filter(|(happened, _)| *happened);
        changes.map(|(_, change)| change).collect()
    }
}

impl ServerEvent {
    /// Takes all pending events. `arrays` holds the state before them, and is updated to the state
    /// after them. `looks`: true to find changes that are no events, too.
    pub(crate) fn of(
        target: &mut dyn Target,
        arrays: &mut Vec<ArraySnapshot>,
        looks: bool,
    ) -> Vec<Self> {
        let mut events = Vec::new(); // No allocation unless there are events.
        while let Some(event) = target.next_event() {
            events.push(event);
        }
        // A spare that failed to replace a member is an event of its own.
        let taken = target.spares_taken();
        let space = target.space_changes();
        let is_quiet = events.is_empty() && taken.is_empty() && space.is_empty();
        if is_quiet && !looks {
            return Vec::new();
        }
        let before = std::mem::replace(arrays, target.snapshot());
        let events = events.into_iter();
        let mut all: Vec<Self> = events
            .map(|(array, event)| {
                let below = device_below(&*target, arrays, &array, &event);
                Self::named(array, event, below, &before, arrays)
            })
            .collect();
        all.extend(taken.into_iter().map(Self::Taken));
        if let Some(outermost) = arrays.first() {
            all.extend(space.into_iter().map(|change| Self::Space {
                array: outermost.name.clone(),
                change,
            }));
        }
        all.extend(Self::stages(&before, arrays));
        all.extend(Self::state(&before, arrays, is_quiet));
        all
    }

    /// Returns the changes of stages.
    fn stages(before: &[ArraySnapshot], after: &[ArraySnapshot]) -> Vec<Self> {
        let mut all = Vec::new();
        for array in after {
            let old = before.iter().find(|old| old.uuid == array.uuid);
            let old = old.and_then(|old| old.status.stage.as_ref());
            let Some((old, new)) = old.zip(array.status.stage.as_ref()) else {
                continue;
            };
            all.extend(
                StageChange::between(old, new)
                    .into_iter()
                    .map(|change| Self::Stage {
                        array: array.name.clone(),
                        change,
                    }),
            );
        }
        all
    }

    /// Returns an event if the arrays have lost blocks that were unknown before. If no event
    /// explains it (`is_quiet`), also if the outermost array has another state.
    fn state(before: &[ArraySnapshot], after: &[ArraySnapshot], is_quiet: bool) -> Option<Self> {
        let (old, new) = (before.first()?, after.first()?);
        let has_lost = |array: &ArraySnapshot| array.status.lost_blocks > 0;
        let lost_before = |uuid| {
            before
                .iter()
                .any(|state| state.uuid == uuid && has_lost(state))
        };
        let knows_more = after
            .iter()
            .any(|state| has_lost(state) && !lost_before(state.uuid));
        let differs = is_quiet && old.status.state != new.status.state;
        (differs || knows_more).then(|| Self::State(new.name.clone()))
    }

    /// Returns the devices present before the arrays were closed for a command, and missing since
    /// they were reopened.
    pub(crate) fn not_back(before: &[ArraySnapshot], after: &[ArraySnapshot]) -> Vec<Self> {
        let mut all = Vec::new();
        for array in after {
            let Some(old) = before.iter().find(|old| old.uuid == array.uuid) else {
                continue;
            };
            let mut add = |member, device: Option<&DeviceSnapshot>| {
                all.push(Self::NotBack {
                    array: array.name.clone(),
                    member,
                    device: device.map(|device| device.name.clone()),
                });
            };
            for member in array.missing().difference(old.missing()).iter() {
                if usize::from(member.0) < old.status.members.len() {
                    add(Some(member), old.device(member));
                }
            }
            let is_out = |array: &ArraySnapshot| array.status.journal == JournalStatus::DeviceOut;
            if is_out(array) && !is_out(old) {
                add(None, old.journal.as_ref());
            }
        }
        all
    }

    /// Returns a message if the event is a device missing after a reopen, else `None`.
    #[must_use]
    pub fn lacking(&self) -> Option<String> {
        let Self::NotBack {
            array,
            member,
            device,
        } = self
        else {
            return None;
        };
        let device = device.as_ref();
        let device = device.map_or_else(String::new, |device| format!(", {device},"));
        Some(match member {
            Some(member) => format!(
                "array '{array}' was closed and opened again for a command, and member \
                 {member}{device} is missing now: the array is degraded"
            ),
            None => format!(
                "array '{array}' was closed and opened again for a command, and the journal \
                 device{device} is missing now: writes are logged on the members"
            ),
        })
    }

    /// Adds the device to an event, looked up in the state before or after it. If the member is an
    /// inner array, that is `below`.
    fn named(
        array: String,
        event: Event,
        below: Option<String>,
        before: &[ArraySnapshot],
        after: &[ArraySnapshot],
    ) -> Self {
        // A spare may already have replaced the device that is out.
        let arrays = if is_over(&event) { before } else { after };
        let device = device_of(&event, arrays.iter().find(|state| state.name == array)).or(below);
        Self::Engine {
            array,
            event,
            device,
        }
    }
}

/// Returns true if the array no longer uses the affected device.
fn is_over(event: &Event) -> bool {
    matches!(
        event,
        Event::MemberOut { .. } | Event::JournalDeviceOut { .. } | Event::ReplaceEnded { .. }
    )
}

fn device_of(event: &Event, array: Option<&ArraySnapshot>) -> Option<String> {
    let device = match event {
        Event::JournalDeviceOut { .. } => array?.journal.as_ref(),
        Event::MetadataFound(found) if found.member == JOURNAL_DEVICE => array?.journal.as_ref(),
        // As for a rebuild, the device that is filled.
        Event::ReplaceStarted { .. } | Event::ReplaceEnded { .. } => Some(array?.replacement()?.1),
        event => array?.device(member_of(event)?),
    };
    device.map(|device| device.name.clone())
}

/// Returns the device below an inner array without redundancy on which a finding lies; `None` if
/// parts of it lie on several.
fn device_below(
    target: &dyn Managed,
    arrays: &[ArraySnapshot],
    array: &str,
    event: &Event,
) -> Option<String> {
    let (member, block, blocks) = match event {
        Event::Found(found) => (found.member, found.block, found.blocks),
        Event::MetadataFound(found) => (found.member, found.block, found.blocks),
        _ => return None,
    };
    let (below, member, _, in_order) = target.lowest_place(array, member, block)?;
    let below = arrays.iter().find(|array| array.name == below)?;
    let device = below.device(member).filter(|_| blocks <= in_order)?;
    Some(device.name.clone())
}

/// Returns the affected member; `None` if there is none.
pub(crate) fn member_of(event: &Event) -> Option<MemberIndex> {
    match event {
        Event::MemberOut { member, .. }
        | Event::MemberFault { member, .. }
        | Event::MemberSlow { member, .. }
        | Event::MemberStalls { member, .. }
        | Event::RebuildStarted { member }
        | Event::NotFilled { member, .. }
        | Event::RebuildDone { member }
        | Event::ReplaceStarted { member }
        | Event::ReplaceDone { member, .. }
        | Event::ReplaceEnded { member, .. } => Some(*member),
        Event::Found(finding) => Some(finding.member),
        Event::MetadataFound(finding) => {
            Some(finding.member).filter(|member| *member != JOURNAL_DEVICE)
        }
        _ => None,
    }
}

/// Events that a subscriber has not taken yet.
#[derive(Debug, Default)]
struct Queue {
    pending: Mutex<VecDeque<ServerEvent>>,
    grows: Condvar,
}

/// The event bus: passes events to all subscribers.
#[derive(Clone, Debug, Default)]
pub struct EventBus(Arc<Mutex<Vec<Weak<Queue>>>>);

/// A subscriber: receives all events since its creation.
#[derive(Debug)]
pub struct Subscriber(Arc<Queue>);

impl EventBus {
    /// Creates a subscriber for all events from now on.
    #[must_use]
    pub fn subscribe(&self) -> Subscriber {
        let subscriber = Subscriber(Arc::default());
        let mut subscribers = locked(&self.0);
        // Remove dropped subscribers: each command subscribes, and a quiet array has no events for
        // months.
        subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        subscribers.push(Arc::downgrade(&subscriber.0));
        subscriber
    }

    /// Passes an event to all subscribers.
    pub(crate) fn publish(&self, event: &ServerEvent) {
        for subscriber in locked(&self.0).iter().filter_map(Weak::upgrade) {
            locked(&subscriber.pending).push_back(event.clone());
            subscriber.grows.notify_one();
        }
    }
}

impl Subscriber {
    /// Takes the oldest pending event.
    pub(crate) fn next(&self) -> Option<ServerEvent> {
        locked(&self.0.pending).pop_front()
    }

    /// Waits until an event is pending, for at most `most`.
    pub(crate) fn wait(&self, most: Duration) {
        let is_empty = |pending: &mut VecDeque<ServerEvent>| pending.is_empty();
        let pending = locked(&self.0.pending);
        drop(self.0.grows.wait_timeout_while(pending, most, is_empty));
    }

    /// Takes all pending events, and returns messages for devices missing after a reopen.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        let event = locked(&self.0.pending).drain(..).collect::<Vec<_>>();
        event.iter().filter_map(ServerEvent::lacking).collect()
    }
}

/// Locks a mutex. A thread that panicked left its value consistent.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_admin::Uuid;
    use spindles_array::MemberSnapshot;
    use spindles_device::DeviceCounters;
    use spindles_engine::{ArrayState, OutReason, ScrubStatus, StageState, Status, WriteBackMode};

    fn array(device: &str) -> ArraySnapshot {
        let status = Status {
            state: ArrayState::Degraded,
            stopped_writing: false,
            survives_more: 0,
            members: Vec::new(),
            generation: 1,
            dirty: false,
            jobs: Vec::new(),
            lost_blocks: 0,
            left_blocks: 0,
            journal: JournalStatus::None,
            stage: None,
            growth: None,
            scrub: ScrubStatus::default(),
            regions: None,
        };
        let device = DeviceSnapshot {
            name: device.to_owned(),
            counters: DeviceCounters::default(),
            left_bytes: None,
        };
        ArraySnapshot {
            name: "pool".to_owned(),
            uuid: Uuid::NIL,
            bytes: 0,
            block_bytes: 4096,
            last_scrub_s: 0,
            status,
            members: vec![Some(MemberSnapshot::Device(Box::new(device)))],
            replacing: None,
            journal: None,
        }
    }

    #[test]
    fn subscribers_get_all_events_from_subscription_to_disconnect() {
        let bus = EventBus::default();
        let taken = |loss: &str| ServerEvent::Unguarded {
            array: "pool".to_owned(),
            loss: loss.to_owned(),
        };
        bus.publish(&taken("before"));
        let subscriber = bus.subscribe();
        bus.publish(&taken("first"));
        bus.publish(&taken("second"));
        for wanted in ["first", "second"] {
            let heard = subscriber.next();
            assert!(
                matches!(&heard, Some(ServerEvent::Unguarded { loss, .. }) if loss == wanted),
                "{heard:?}"
            );
        }
        assert!(subscriber.next().is_none());
        for _ in 0..1000 {
            drop(bus.subscribe());
        }
        assert!(locked(&bus.0).len() <= 2, "they add up without event");
    }

    /// An unrelated event at the same time must not hide blocks that were lost before serving.
    #[test]
    fn lost_blocks_become_known_beside_other_events() {
        let (before, mut after) = ([array("disk")], [array("disk")]);
        for is_quiet in [false, true] {
            after[0].status.lost_blocks = 0;
            assert!(ServerEvent::state(&before, &after, is_quiet).is_none());
            after[0].status.lost_blocks = 1;
            assert!(ServerEvent::state(&before, &after, is_quiet).is_some());
            assert!(ServerEvent::state(&after, &after, is_quiet).is_none());
        }
        after[0].status = array("disk").status;
        after[0].status.state = ArrayState::Healthy;
        assert!(ServerEvent::state(&before, &after, true).is_some());
        assert!(ServerEvent::state(&before, &after, false).is_none());
    }

    #[test]
    fn changes_of_a_stage_are_events() {
        let stage = |fill_256, staged_blocks, is_stuck| StageStatus {
            mode: WriteBackMode::On,
            state: StageState::On,
            staged_blocks,
            memory_blocks: 256,
            memory_used_blocks: fill_256,
            fill_256,
            oldest_ns: None,
            placing_blocks_per_s: 0,
            is_paced: false,
            is_stuck,
            absorbed_blocks: 0,
            placed_blocks: 0,
            whole_rows: 0,
            paced_ns: 0,
        };
        let (mut before, mut after) = ([array("disk")], [array("disk")]);
        for (old, new, wanted) in [
            (stage(0, 0, false), stage(200, 9, false), None),
            (
                stage(0, 0, false),
                stage(250, 9, false),
                Some(StageChange::Full),
            ),
            (stage(250, 9, false), stage(250, 9, false), None),
            (
                stage(250, 9, false),
                stage(0, 0, false),
                Some(StageChange::Empty),
            ),
            (
                stage(9, 9, false),
                stage(9, 9, true),
                Some(StageChange::Stuck),
            ),
            (
                stage(9, 9, true),
                stage(9, 9, false),
                Some(StageChange::Unstuck),
            ),
        ] {
            (before[0].status.stage, after[0].status.stage) = (Some(old), Some(new));
            let found = ServerEvent::stages(&before, &after);
            let found = found.first().map(|event| match event {
                ServerEvent::Stage { change, .. } => *change,
                other => panic!("{other:?}"),
            });
            assert_eq!(found, wanted);
        }
    }

    /// An alarm that named the spare would make the administrator pull a working device, and break
    /// the array.
    #[test]
    fn a_member_out_event_names_the_device_before_its_spare() {
        let member = MemberIndex(0);
        let out = Event::MemberOut {
            member,
            reason: OutReason::Command,
        };
        for (event, wanted) in [(out, "disk"), (Event::RebuildStarted { member }, "spare")] {
            let event = ServerEvent::named(
                "pool".to_owned(),
                event,
                None,
                &[array("disk")],
                &[array("spare")],
            );
            assert!(
                matches!(&event, ServerEvent::Engine { device: Some(it), .. } if it == wanted),
                "{event:?}"
            );
        }
    }
}
