//! What happens to the arrays of a target, told to all who want to know.

use spindles_block::MemberIndex;
use spindles_engine::{Event, JOURNAL_DEVICE, JournalStatus};
use spindles_io::spare::Taken;
use spindles_io::{ArraySnapshot, DeviceSnapshot, Managed, SpaceNews, Target};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum News {
    /// In an array.
    Event {
        /// Its name.
        array: String,
        /// What.
        event: Event,
        /// The device that it happened to, where it is one.
        device: Option<String>,
    },
    /// A spare took a place.
    Taken(Taken),
    /// A command had the array closed and opened again, and a device is not there any more.
    NotBack {
        /// The name of the array.
        array: String,
        /// The member; `None` for the device of the journal.
        member: Option<MemberIndex>,
        /// The device that was there before.
        device: Option<String>,
    },
    /// Whether writes get space has changed.
    Space {
        /// The name of the outermost array.
        array: String,
        /// How.
        news: SpaceNews,
    },
    /// The array of that name was opened again, and grows.
    Grows(String),
    /// A process that a door depends on has ended.
    Unguarded {
        /// The name of the array, or what else is served.
        array: String,
        /// What is lost with it, for people.
        loss: String,
    },
}

impl News {
    /// All there are now. `arrays` is how the target was before them, and then how it is.
    pub(crate) fn of(target: &mut dyn Target, arrays: &mut Vec<ArraySnapshot>) -> Vec<Self> {
        let mut events = Vec::new(); // Without news nothing is allocated.
        while let Some(event) = target.next_event() {
            events.push(event);
        }
        let managed: &mut dyn Managed = target;
        // A spare that could not take a place is news by itself.
        let taken = managed.spares_taken();
        let space = managed.space_news();
        if events.is_empty() && taken.is_empty() && space.is_empty() {
            return Vec::new();
        }
        let before = std::mem::replace(arrays, managed.snapshot());
        let events = events.into_iter();
        let mut news: Vec<Self> = events
            .map(|(array, event)| Self::named(array, event, &before, arrays))
            .collect();
        news.extend(taken.into_iter().map(Self::Taken));
        if let Some(outermost) = arrays.first() {
            news.extend(space.into_iter().map(|news| Self::Space {
                array: outermost.name.clone(),
                news,
            }));
        }
        news
    }

    /// The devices that arrays had before they were closed for a command, and lack since they were opened again.
    pub(crate) fn not_back(before: &[ArraySnapshot], after: &[ArraySnapshot]) -> Vec<Self> {
        let mut news = Vec::new();
        for array in after {
            let Some(old) = before.iter().find(|old| old.uuid == array.uuid) else {
                continue;
            };
            let mut add = |member, device: Option<&DeviceSnapshot>| {
                news.push(Self::NotBack {
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
        news
    }

    /// A device that is not back, for people; `None` for other news.
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
                "array '{array}' was closed and opened again for a command, and member {member}{device} is not there any \
                 more: the array is degraded"
            ),
            None => format!(
                "array '{array}' was closed and opened again for a command, and the device of its journal{device} is not \
                 there any more: writes are logged on the members"
            ),
        })
    }

    /// An event with its device, by how the arrays were before it and are after it.
    fn named(
        array: String,
        event: Event,
        before: &[ArraySnapshot],
        after: &[ArraySnapshot],
    ) -> Self {
        // A spare may have the place already of a device that is out.
        let arrays = if is_over(&event) { before } else { after };
        let device = device_of(&event, arrays.iter().find(|it| it.name == array));
        Self::Event {
            array,
            event,
            device,
        }
    }
}

/// Whether the array has done with the device that it is about.
fn is_over(event: &Event) -> bool {
    matches!(
        event,
        Event::MemberOut { .. } | Event::JournalDeviceOut { .. }
    )
}

fn device_of(event: &Event, array: Option<&ArraySnapshot>) -> Option<String> {
    let device = match event {
        Event::JournalDeviceOut { .. } => array?.journal.as_ref(),
        Event::MetadataFound(found) if found.member == JOURNAL_DEVICE => array?.journal.as_ref(),
        event => array?.device(member_of(event)?),
    };
    device.map(|device| device.name.clone())
}

/// The member that something happened to.
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

/// News that nobody has taken yet.
type Queue = Mutex<VecDeque<News>>;

/// Where news are heard.
#[derive(Clone, Debug, Default)]
pub struct Newsroom(Arc<Mutex<Vec<Weak<Queue>>>>);

/// Gets all news since it was made.
#[derive(Debug)]
pub struct Listener(Arc<Queue>);

impl Newsroom {
    /// All news from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        let listener = Listener(Arc::default());
        let mut listeners = locked(&self.0);
        // Each command listens, and a quiet array has nothing to tell for months.
        listeners.retain(|it| it.strong_count() > 0);
        listeners.push(Arc::downgrade(&listener.0));
        listener
    }

    /// Hands it to all listeners.
    pub(crate) fn tell(&self, news: &News) {
        for listener in locked(&self.0).iter().filter_map(Weak::upgrade) {
            locked(&listener).push_back(news.clone());
        }
    }
}

impl Listener {
    /// The oldest that was not taken.
    pub(crate) fn next(&self) -> Option<News> {
        locked(&self.0).pop_front()
    }

    /// What arrays lack since they were opened again for a command, for people. Forgets other news.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        let news = locked(&self.0).drain(..).collect::<Vec<_>>();
        news.iter().filter_map(News::lacking).collect()
    }
}

/// A thread that panicked left the list whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_engine::{ArrayState, OutReason, ScrubStatus, Status};
    use spindles_io::{DeviceCounters, MemberSnapshot, Uuid};

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
            journal: JournalStatus::None,
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
    fn listeners_hear_all_since_they_came_and_are_forgotten_when_they_go() {
        let room = Newsroom::default();
        let taken = |loss: &str| News::Unguarded {
            array: "pool".to_owned(),
            loss: loss.to_owned(),
        };
        room.tell(&taken("before"));
        let listener = room.listen();
        room.tell(&taken("first"));
        room.tell(&taken("second"));
        for wanted in ["first", "second"] {
            let heard = listener.next();
            assert!(
                matches!(&heard, Some(News::Unguarded { loss, .. }) if loss == wanted),
                "{heard:?}"
            );
        }
        assert!(listener.next().is_none());
        for _ in 0..1000 {
            drop(room.listen());
        }
        assert!(locked(&room.0).len() <= 2, "they add up without news");
    }

    /// Whoever pulled out what took the place would break the array.
    #[test]
    fn what_is_out_is_the_device_before_a_spare_took_its_place() {
        let member = MemberIndex(0);
        let out = Event::MemberOut {
            member,
            reason: OutReason::Command,
        };
        for (event, wanted) in [(out, "disk"), (Event::RebuildStarted { member }, "spare")] {
            let news = News::named(
                "pool".to_owned(),
                event,
                &[array("disk")],
                &[array("spare")],
            );
            assert!(
                matches!(&news, News::Event { device: Some(device), .. } if device == wanted),
                "{news:?}"
            );
        }
    }
}
