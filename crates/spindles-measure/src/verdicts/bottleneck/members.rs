//! All members together.

use super::super::{Facts, Intervention, MemberFacts, percent};
use super::{Reading, Rule, mean_of};

const BUSY: f64 = 0.9;
/// Share of a member's sequential rate alone from which it is at its limit.
const RATE: f64 = 0.85;
/// On a device that handles many requests at once, requests that take this much longer than alone
/// are queued.
const STRETCH: f64 = 1.3;
/// Share of the actors that wait at members, and the share of that time in which they wait for each
/// other.
const THERE: f64 = 0.8;
const WAITING: f64 = 0.5;
/// The queues are even if the longest is at most this many times the mean. Flushes take less than
/// the second share.
const EVEN: f64 = 2.0;
const SYNCS: f64 = 0.1;
/// Several members that were not measured alone may share a bus.
const UNKNOWN: f64 = 0.95;
/// A device that would need only this share of the time, even if every request were random, is busy
/// because its requests wait for something else.
const DONE: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "members",
    words: "the members",
    when: "members are busy 90 % of the time, and reach 85 % of their rate alone, have arms to \
        move, or have waiting requests; or 80 % of the actors wait for them, half of these behind \
        each other",
    explains: &["flushes", "metadata", "too-few-actors"],
    refuses: false,
    read: |facts| {
        if facts.members.is_empty() {
            return None;
        }
        let levels: Option<Vec<f64>> = facts.members.iter().map(level).collect();
        let rate = mean_of(facts, |member| member.demand_min().unwrap_or(0.0));
        let level = crate::statistics::mean(&levels?).max(queues(facts));
        let known = facts.members.iter().all(|member| member.alone.is_some());
        let most = if known || facts.members.len() == 1 {
            f64::MAX
        } else {
            UNKNOWN
        };
        let of_rate = known.then(|| format!(", at {:.0} % of their rate alone", rate * 100.0));
        Some(Reading {
            level: level.min(most),
            certain: rate >= RATE
                && !facts
                    .members
                    .iter()
                    .any(|member| fills_a_link(facts, member)),
            stands_out: false,
            evidence: format!(
                "members were {} busy with {:.1} requests of all programs in flight at each{}",
                percent(mean_of(facts, |member| member.busy)),
                mean_of(facts, |member| member.in_flight),
                of_rate.unwrap_or_default()
            ),
            intervention: Intervention::DoubleMembers,
        })
    },
};

/// How close the queues at members are to being the limit. If most actors wait at members, and
/// there for each other, a faster member shortens most of an operation's time. This holds even if
/// members idle between two bursts.
fn queues(facts: &Facts) -> f64 {
    let waiting: Option<Vec<f64>> = facts.members.iter().map(MemberFacts::waiting).collect();
    let waiting = waiting.map_or(0.0, |all| crate::statistics::mean(&all));
    let there = facts.actors_at_members() / facts.actors.max(1.0);
    let longest = facts
        .members
        .iter()
        .map(|member| member.in_flight)
        .fold(0.0, f64::max);
    // Data also queues behind flushes, and behind one slow or hot member.
    let is_even = longest <= EVEN * mean_of(facts, |member| member.in_flight);
    // Read-ahead and write-back fill a device's queue although no actor waits for them.
    if facts.direct && is_even && facts.sync_share() < SYNCS {
        (there / THERE).min(waiting / WAITING)
    } else {
        0.0
    }
}

/// Returns true if a member alone was as fast as a link, which may have limited the measurement.
fn fills_a_link(facts: &Facts, member: &MemberFacts) -> bool {
    let alone = member
        .alone
        .as_ref()
        .map_or(0, |alone| alone.read_bytes_per_s);
    let mut links = facts.links.iter().filter_map(|link| link.bytes_per_s_max);
    links.any(|most| crate::histogram::to_f64(alone) >= 0.8 * most)
}

/// How close a member is to its limit. `None` if unknown.
fn level(member: &MemberFacts) -> Option<f64> {
    let busy = member.busy / BUSY;
    let by_rate = member.demand_min().map_or(0.0, |rate| rate / RATE);
    let done = member.demand_max().map_or(1.0, |most| most / DONE);
    if member.seeks() {
        return Some(busy.min(done).max(by_rate.min(busy)));
    }
    if member.busy < 0.5 {
        return Some(busy);
    }
    let waits = member.stretch()? / STRETCH;
    Some(busy.min(waits.max(by_rate)))
}
