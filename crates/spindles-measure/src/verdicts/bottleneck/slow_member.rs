//! A member that takes longer for the same work.

use super::super::facts::{HOT, asked};
use super::super::{Facts, Intervention, MemberFacts, percent};
use super::{Reading, Rule, mean_of};

/// Busy share from which the busiest member is at its limit.
const BUSY: f64 = 0.9;
/// It must also be busier than the mean by this factor. Without an arm, having this many times the
/// others' requests in flight also counts: parallel devices all look busy then.
const RATIO: f64 = 1.2;
const WAITING: f64 = 3.0;
/// Share of the actors' time spent waiting for a straggler from which it is the limit.
const SHARE: f64 = 0.5;

pub(super) static RULE: Rule = Rule {
    name: "one-slow-member",
    words: "one slow member",
    when: "one member gets no more requests than the others; in most runs it takes 3 times as long \
        to answer, and actors wait for it half of their time; or it is busy 90 % of the time: 1.2 \
        times the mean, or with 3 times the requests in flight if it has no arm",
    explains: &[
        "cpu",
        "cpu-of-one-thread",
        "flushes",
        "members",
        "metadata",
        "too-few-actors",
    ],
    refuses: false,
    read: |facts| {
        let odd = odd_one(&facts.members)
            .filter(|(member, _, asked)| *asked < HOT && is_odd_in_most_runs(facts, member));
        let Some(straggler) = facts.straggler() else {
            let (member, level, _) = odd?;
            return Some(Reading {
                level,
                certain: false,
                stands_out: false,
                evidence: evidence(facts, member),
                intervention: replace(member),
            });
        };
        let level = straggler.share / SHARE;
        Some(Reading {
            level: odd.map_or(level, |(_, odd, _)| level.max(odd)),
            certain: level >= 1.0,
            stands_out: true,
            evidence: straggler.words(),
            intervention: replace(straggler.member),
        })
    },
};

fn replace(member: &MemberFacts) -> Intervention {
    Intervention::ReplaceMember {
        member: member.name.clone(),
    }
}

/// Describes the odd member in words.
pub(super) fn evidence(facts: &Facts, member: &MemberFacts) -> String {
    let all: f64 = facts
        .members
        .iter()
        .map(|member| member.requests_per_s)
        .sum();
    format!(
        "{} was {} busy, the {} members {} on average, and it got {} of the requests",
        member.name,
        percent(member.busy),
        facts.members.len(),
        percent(mean_of(facts, |member| member.busy)),
        percent(member.requests_per_s / all.max(f64::MIN_POSITIVE))
    )
}

/// Returns the member with the most queued requests, its level as a bottleneck, and its load
/// relative to the mean of the others.
pub(super) fn odd_one(members: &[MemberFacts]) -> Option<(&MemberFacts, f64, f64)> {
    let most = members.iter();
    let member = most.max_by(|a, b| a.in_flight.total_cmp(&b.in_flight))?;
    let others = others(members, member);
    if others.is_empty() {
        return None;
    }
    let mean = |of: fn(&MemberFacts) -> f64, members: &[&MemberFacts]| {
        let all: Vec<f64> = members.iter().map(|member| of(member)).collect();
        crate::statistics::mean(&all).max(f64::MIN_POSITIVE)
    };
    let ratio = member.busy / mean(|other| other.busy, &members.iter().collect::<Vec<_>>());
    let stands_out = (ratio - 1.0) / (RATIO - 1.0);
    // With arms to move, the others would idle meanwhile; the lengths of their queues are chance.
    let waiting = if member.seeks() {
        0.0
    } else {
        member.in_flight / mean(|other| other.in_flight, &others) / WAITING
    };
    let level = (member.busy / BUSY).min(stands_out.max(waiting));
    Some((member, level, asked(member, &others)))
}

fn others<'a>(members: &'a [MemberFacts], member: &MemberFacts) -> Vec<&'a MemberFacts> {
    let others = members.iter().filter(|other| other.name != member.name);
    others.collect()
}

/// Returns true if the member has the most requests queued in most of the runs in which it took
/// part and was asked for no more than the others.
fn is_odd_in_most_runs(facts: &Facts, member: &MemberFacts) -> bool {
    let (mut odd, mut compared) = (0, 0);
    for run in &facts.runs {
        let mut members = run.members.iter();
        let own = members.find(|other| other.name == member.name && other.busy > 0.0);
        let own = own.filter(|own| asked(own, &others(&run.members, own)) < HOT);
        if let (Some(own), Some((most, ..))) = (own, odd_one(&run.members)) {
            compared += 1;
            odd += usize::from(most.name == own.name);
        }
    }
    2 * odd > compared
}
