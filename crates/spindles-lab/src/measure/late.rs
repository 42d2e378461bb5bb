//! Members that answer late while a workload runs.

use spindles_array::Target;
use spindles_block::MemberIndex;
use spindles_engine::Event;
use spindles_measure::LateMember;

/// Collects a target's reports of late members during a period.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    late: Vec<LateMember>,
    /// Hedged reads of each member of the outermost array, at the begin.
    hedged_reads: Vec<u64>,
}

impl Watch {
    /// Begins the period. A member that is late already counts as late.
    pub(crate) fn begin(target: &mut dyn Target) -> Self {
        while target.next_event().is_some() {}
        let mut watch = Self::default();
        for status in target
            .status()
            .into_iter()
            .flat_map(|status| status.members)
        {
            watch.hedged_reads.push(status.hedged_reads);
            if status.slow || status.stalls {
                let late = watch.entry("", status.member);
                late.slow = status.slow;
                late.stalled = status.stalls;
            }
        }
        watch
    }

    /// Ends the period and returns the late members.
    pub(crate) fn end(mut self, target: &mut dyn Target) -> Vec<LateMember> {
        let name = target.facts().name.clone();
        while let Some((array, event)) = target.next_event() {
            let array = if array == name { "" } else { &array };
            match event {
                Event::MemberSlow { member, slow: true } => self.entry(array, member).slow = true,
                Event::MemberStalls {
                    member,
                    stalls: true,
                } => self.entry(array, member).stalled = true,
                _ => {}
            }
        }
        let members = target
            .status()
            .into_iter()
            .flat_map(|status| status.members);
        for (place, status) in members.enumerate() {
            let before = self.hedged_reads.get(place).copied().unwrap_or(0);
            if status.hedged_reads > before {
                self.entry("", status.member).hedged_reads = status.hedged_reads - before;
            }
        }
        self.late
    }

    fn entry(&mut self, array: &str, member: MemberIndex) -> &mut LateMember {
        LateMember::entry(&mut self.late, array, member.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_admin::plain::{self, PlainOptions};
    use spindles_array::{Busy, Managed};
    use spindles_block::{BufferId, Reply, Request};
    use spindles_device::TargetFacts;
    use spindles_device::{CloseError, Counters};
    use spindles_engine::Status;
    use spindles_layout::Expression;
    use std::collections::VecDeque;

    /// An array whose status and events the test sets.
    struct Scripted {
        target: Box<dyn Target>,
        status: Status,
        events: VecDeque<(String, Event)>,
    }

    impl Target for Scripted {
        fn facts(&self) -> &TargetFacts {
            self.target.facts()
        }
        fn allocate(&mut self, blocks: u32) -> BufferId {
            self.target.allocate(blocks)
        }
        fn buffer(&self, buffer: BufferId) -> &[u8] {
            self.target.buffer(buffer)
        }
        fn buffer_mut(&mut self, buffer: BufferId) -> &mut [u8] {
            self.target.buffer_mut(buffer)
        }
        fn wait_until(&mut self, until: spindles_block::Instant) {
            self.target.wait_until(until);
        }
        fn clock(&self) -> spindles_device::Clock {
            self.target.clock()
        }
        fn now(&self) -> spindles_block::Instant {
            self.target.now()
        }
        fn submit(&mut self, request: Request) -> Result<(), Busy> {
            self.target.submit(request)
        }
        fn poll(&mut self, wait: bool) -> Option<Reply> {
            self.target.poll(wait)
        }

        fn counters(&self) -> Counters {
            self.target.counters()
        }
    }

    impl Managed for Scripted {
        fn devices(&self) -> Vec<String> {
            self.target.devices()
        }
        fn status(&self) -> Option<Status> {
            Some(self.status.clone())
        }
        fn next_event(&mut self) -> Option<(String, Event)> {
            self.events.pop_front()
        }
        fn close(self: Box<Self>) -> Result<(), CloseError> {
            self.target.close()
        }
    }

    #[test]
    fn a_watch_reports_events_during_and_lasting_into_a_run() {
        let expression = Expression::parse("raid1(mem:1M,mem:1M,mem:1M,mem:1M)").unwrap();
        let target = plain::open(&expression, &PlainOptions::default())
            .unwrap()
            .target;
        let name = target.facts().name.clone();
        let mut scripted = Scripted {
            status: target.status().unwrap(),
            target,
            events: VecDeque::new(),
        };
        let slow = |member, slow| Event::MemberSlow {
            member: MemberIndex(member),
            slow,
        };
        let stalls = |member, stalls| Event::MemberStalls {
            member: MemberIndex(member),
            stalls,
        };
        let none = Watch::begin(&mut scripted).end(&mut scripted);
        assert_eq!(none, []);
        scripted.events.push_back((name.clone(), slow(0, true)));
        scripted.status.members[1].slow = true;
        scripted.status.members[2].hedged_reads = 7;
        let watch = Watch::begin(&mut scripted);
        for (array, event) in [
            (&*name, slow(1, false)),
            (&*name, stalls(2, true)),
            (&*name, stalls(2, false)),
            ("inner", slow(3, true)),
        ] {
            scripted.events.push_back((array.to_owned(), event));
        }
        scripted.status.members[1].slow = false;
        scripted.status.members[2].hedged_reads = 12;
        let late: Vec<String> = (watch.end(&mut scripted).iter())
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            late,
            [
                "member 1 slow",
                "member 2 stalled, 5 reads hedged",
                "member 3 of inner slow"
            ]
        );
    }
}
