//! C5: a rate above the capacity of the devices.

use super::super::{Facts, Intervention, MemberFacts, megabytes};
use super::{CacheRule, CacheVerdict, Grade};
use crate::Rate;

/// Rates alone are measured once, so they scatter. A result must exceed them by this factor.
const ABOVE: f64 = 1.25;
/// Members are measured with one operation at a time. Actors, stripes and read-ahead issue several,
/// and a device without an arm is then up to this many times as fast.
const AT_ONCE: f64 = 3.0;
/// A disk that can reorder many requests is up to this many times as fast.
const REORDERED: f64 = 3.0;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C5",
    name: "above-ceiling",
    when: "more is read than the members, or the one device below them, read alone in sum (three \
        times that without arms, because such devices serve requests in parallel); or more than a \
        link carries; or more at random than arms can move",
    decide: |facts| {
        let evidence = in_order(facts).or_else(|| at_random(facts))?;
        Some(CacheVerdict {
            rule: RULE.name,
            grade: Grade::CacheFigure,
            evidence,
            intervention: Intervention::WithoutCache,
        })
    },
};

fn in_order(facts: &Facts) -> Option<String> {
    (facts.rate == Rate::Bytes && facts.application.written == 0).then_some(())?;
    let in_turn = facts.members.iter().all(MemberFacts::seeks);
    let at_once = if in_turn { 1.0 } else { AT_ONCE };
    let members = facts.sum_alone(|member| member.read_bytes_per_s);
    let members = members.map(|alone| alone * at_once);
    // The array reads over links below it, the workload over links above it.
    let links = facts
        .links
        .iter()
        .filter_map(|link| link.bytes_per_s_max)
        .reduce(|a, b| a + b);
    let ceilings = [
        ("the devices together can read", members),
        ("the links can carry", links),
    ];
    ceilings.into_iter().find_map(|(what, most)| {
        let most = most.filter(|most| facts.per_second > ABOVE * most)?;
        Some(format!(
            "{} were read, and {what} {} at most",
            megabytes(facts.per_second),
            megabytes(most)
        ))
    })
}

fn at_random(facts: &Facts) -> Option<String> {
    let seek = facts.members.iter().all(MemberFacts::seeks);
    (facts.rate == Rate::Operations && seek).then_some(())?;
    let most = REORDERED * facts.sum_alone(|member| member.random_reads_per_s)?;
    (facts.reads_per_s > most).then(|| {
        format!(
            "{:.0} reads a second, and arms that choose the order reach {most:.0} places a second \
             at most",
            facts.reads_per_s
        )
    })
}
