//! Finds the bottleneck. The table [`RULES`] has a rule for each cause. The rule reads a level from
//! the facts; 1 means that the cause is at its limit. Then:
//!
//! 1. A rule that refuses the result ends the search.
//! 2. Of the readings at 1 or above, the first is chosen: certain ones before others, then in table
//!    order.
//! 3. It is the bottleneck if it explains every other reading near 1. Nothing explains a certain
//!    reading.
//! 4. Otherwise the bottleneck is undetermined.
//!
//! If the facts give a reason why no bottleneck can be found, only the rules that refuse a result
//! are asked.

mod bus;
mod cpu;
mod cpu_of_one_thread;
mod flushes;
mod hot_member;
mod journal;
mod load_generator;
mod members;
mod metadata;
mod network;
mod slow_member;
mod too_few_actors;

use super::{Bottleneck, Facts, Intervention, Look};

/// A cause that limits a cell.
#[derive(Debug)]
pub struct Rule {
    /// Name of the rule: `one-slow-member`.
    pub name: &'static str,
    /// The cause in words: `one slow member`.
    pub words: &'static str,
    /// When the cause is at its limit, for the table in the documentation.
    pub when: &'static str,
    /// Rules whose causes this one makes look like a limit.
    pub explains: &'static [&'static str],
    /// True if the figure then does not measure the system.
    pub refuses: bool,
    /// Reads the level. `None` if the facts are insufficient.
    pub read: fn(&Facts) -> Option<Reading>,
}

/// Result of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// 1 at the limit; below, how close the cause is to it.
    pub level: f64,
    /// True if no other cause can produce this reading.
    pub certain: bool,
    /// True if it is worth mentioning whatever the bottleneck is.
    pub stands_out: bool,
    /// Evidence in words, with the figures.
    pub evidence: String,
    /// Change that would confirm the cause.
    pub intervention: Intervention,
}

/// All causes. A cause that makes others look busy comes before them.
pub static RULES: &[&Rule] = &[
    &load_generator::RULE,
    &cpu::RULE,
    &cpu_of_one_thread::RULE,
    &network::RULE,
    &bus::RULE,
    &journal::RULE,
    &slow_member::RULE,
    &hot_member::RULE,
    &flushes::RULE,
    &members::RULE,
    &metadata::RULE,
    &too_few_actors::RULE,
];

/// Level from which a reading contradicts another cause.
pub const NEAR: f64 = 0.9;

/// Finds the bottleneck.
pub(super) fn decide(facts: &Facts) -> Bottleneck {
    let rules = RULES
        .iter()
        .filter(|rule| facts.not_sought.is_none() || rule.refuses);
    let readings: Vec<(&'static Rule, Reading)> = rules
        .filter_map(|&rule| Some((rule, (rule.read)(facts)?)))
        .collect();
    let looked_at: Vec<Look> = readings
        .iter()
        .map(|(rule, reading)| Look {
            rule: rule.name,
            level: reading.level,
            evidence: reading.evidence.clone(),
        })
        .collect();
    let claims = readings.iter().filter(|(_, reading)| reading.level >= 1.0);
    let first = claims.min_by_key(|(rule, reading)| (!rule.refuses, !reading.certain));
    if let (None, Some(why)) = (first, &facts.not_sought) {
        return Bottleneck::NotSought { why: why.clone() };
    }
    let speaks = |(rule, reading): &&(&'static Rule, Reading)| {
        let explained = first.is_some_and(|(first, _)| {
            first.name == rule.name
                || first.refuses
                || (!reading.certain && first.explains.contains(&rule.name))
        });
        reading.level >= NEAR && !explained
    };
    let mut contenders: Vec<&'static str> = readings
        .iter()
        .filter(speaks)
        .map(|(rule, _)| rule.name)
        .collect();
    match first {
        Some((rule, reading)) if contenders.is_empty() => Bottleneck::Named {
            cause: rule.name,
            words: rule.words,
            evidence: with_what_stands_out(rule, reading, &readings),
            intervention: reading.intervention.clone(),
            looked_at,
        },
        _ => {
            contenders.splice(0..0, first.map(|(rule, _)| rule.name));
            for (rule, _) in readings.iter().filter(|(_, reading)| reading.stands_out) {
                if !contenders.contains(&rule.name) {
                    contenders.push(rule.name);
                }
            }
            Bottleneck::Undetermined {
                contenders,
                refuted: false,
                looked_at,
            }
        }
    }
}

/// Joins the evidence for a cause with other readings that stand out.
fn with_what_stands_out(
    named: &Rule,
    reading: &Reading,
    readings: &[(&'static Rule, Reading)],
) -> String {
    let others = readings
        .iter()
        .filter(|(rule, other)| other.stands_out && rule.name != named.name);
    let others = others.map(|(_, other)| &*other.evidence);
    let all: Vec<&str> = std::iter::once(&*reading.evidence).chain(others).collect();
    all.join("; and yet ")
}

/// The mean over members.
fn mean_of(facts: &Facts, of: impl Fn(&super::MemberFacts) -> f64) -> f64 {
    let all: Vec<f64> = facts.members.iter().map(of).collect();
    crate::statistics::mean(&all)
}

#[cfg(test)]
mod tests {
    use super::super::{LinkFacts, MemberFacts, RunMembers, ThreadFacts};
    use super::*;
    use crate::MemberRate;

    #[test]
    fn rules_explain_only_existing_other_rules() {
        for rule in RULES {
            for name in rule.explains {
                assert!(RULES.iter().any(|rule| rule.name == *name), "{name}");
                assert_ne!(rule.name, *name);
            }
            assert!(!rule.when.is_empty() && !rule.words.is_empty());
        }
    }

    #[test]
    fn a_run_at_its_set_rate_has_no_bottleneck_but_may_be_refused() {
        let mut facts = middling();
        facts.cpu_busy = 0.95;
        assert_eq!(decide(&facts).cause(), Some("cpu"));
        facts.not_sought = Some("all were answered".to_owned());
        let message = decide(&facts).words();
        assert_eq!(message, "No bottleneck was looked for: all were answered.");
        facts.ceiling = Some(100.0);
        facts.per_second = 99.0;
        assert_eq!(decide(&facts).cause(), Some("load-generator"));
    }

    /// Ten actors on four disks: no resource is at its limit, and none is idle.
    fn middling() -> Facts {
        let member = |index: u8| MemberFacts {
            name: format!("sd{index}"),
            busy: 0.75,
            in_flight: 1.4,
            requests_per_s: 75.0,
            read_bytes_per_s: 1e6,
            alone: Some(MemberRate {
                read_bytes_per_s: 150_000_000,
                random_reads_per_s: 100,
                ..MemberRate::default()
            }),
            ..MemberFacts::default()
        };
        Facts {
            cpus: 4.0,
            cpu_busy: 0.2,
            actors: 10.0,
            direct: true,
            operations_per_s: 300.0,
            members: (0..4).map(member).collect(),
            together_bytes_per_s: Some(600e6),
            ..Facts::default()
        }
    }

    /// The engine's thread, on a CPU and waiting for one in these shares of the time.
    fn threads(on_cpu: f64, waits: f64) -> Vec<ThreadFacts> {
        vec![ThreadFacts {
            name: "engine".to_owned(),
            on_cpu,
            waits,
        }]
    }

    type Plant = fn(&mut Facts);

    /// Facts from measurements, and the expected cause.
    const CAUSES: &[(Option<&str>, Plant)] = &[
        (None, |_| {}),
        (Some("load-generator"), |facts| {
            facts.per_second = 71.0;
            facts.ceiling = Some(100.0);
        }),
        (Some("cpu"), |facts| {
            facts.cpu_busy = 0.95;
        }),
        (Some("cpu"), |facts| {
            facts.cpu_busy = 0.95;
            facts.threads = threads(0.93, 0.03);
        }),
        (Some("cpu-of-one-thread"), |facts| {
            facts.threads = threads(0.97, 0.01);
        }),
        // A CPU limit, or other programs: the CPUs look idle, but one thread never catches up.
        (Some("cpu"), |facts| facts.threads = threads(0.4, 0.57)),
        // The same relative wait, but the thread has little to do.
        (None, |facts| facts.threads = threads(0.2, 0.3)),
        // It waits, but would need all of one CPU even without waiting.
        (None, |facts| facts.threads = threads(0.83, 0.15)),
        // A thread that runs or waits for a CPU most of the time is not idle: one actor is not too
        // few.
        (None, |facts| {
            facts.actors = 1.0;
            facts.threads = threads(0.3, 0.4);
            facts
                .members
                .iter_mut()
                .for_each(|member| (member.busy, member.in_flight) = (0.2, 0.2));
        }),
        // 800 Mbit/s carried 95.3 MB/s; members behind it look busy.
        (Some("network"), |facts| {
            facts.links = vec![LinkFacts {
                name: "eth0".to_owned(),
                busy: Some(95.3 / 100.0),
                bytes_per_s_max: Some(100e6),
                held_back: 0.9,
            }];
            facts
                .members
                .iter_mut()
                .for_each(|member| member.busy = 1.0);
        }),
        (Some("bus"), |facts| {
            facts.together_bytes_per_s = Some(300e6);
            for member in &mut facts.members {
                (member.busy, member.read_bytes_per_s) = (1.0, 74e6);
            }
        }),
        (Some("members"), |facts| {
            for member in &mut facts.members {
                (member.busy, member.read_bytes_per_s) = (1.0, 145e6);
            }
        }),
        (Some("one-slow-member"), |facts| {
            (facts.members[2].busy, facts.members[2].in_flight) = (0.99, 6.0);
        }),
        (Some("one-hot-member"), |facts| {
            (facts.members[2].busy, facts.members[2].in_flight) = (0.99, 6.0);
            facts.members[2].requests_per_s = 99.0;
        }),
        // varmail: 81 % of the actors' time; data waits behind the flushes.
        (Some("flushes"), |facts| {
            facts.actor_share.insert("fsync".to_owned(), 0.81);
            for member in &mut facts.members {
                (member.busy, member.flushing) = (0.95, Some(0.4));
            }
        }),
        // The same, but the members are at their rate alone: the flushes wait for data.
        (Some("members"), |facts| {
            facts.actor_share.insert("fsync".to_owned(), 0.81);
            for member in &mut facts.members {
                (member.busy, member.read_bytes_per_s) = (1.0, 145e6);
            }
        }),
        // Every write waits for the log on its own device; the members are idle.
        (Some("journal"), |facts| {
            facts
                .members
                .iter_mut()
                .for_each(|member| (member.busy, member.in_flight) = (0.2, 0.2));
            facts.journal = Some(MemberFacts {
                name: "nvme0n1".to_owned(),
                busy: 0.98,
                in_flight: 8.0,
                requests_per_s: 300.0,
                answers: 3000.0,
                answer_s: 0.03,
                ..MemberFacts::default()
            });
        }),
        (Some("metadata"), |facts| {
            facts.actor_share.insert("create".to_owned(), 0.9);
            facts
                .members
                .iter_mut()
                .for_each(|member| (member.busy, member.in_flight) = (0.1, 0.1));
        }),
        (Some("too-few-actors"), |facts| {
            facts.actors = 1.0;
            facts
                .members
                .iter_mut()
                .for_each(|member| (member.busy, member.in_flight) = (0.25, 0.25));
        }),
        // Twice the actors gained nothing.
        (None, |facts| {
            facts.actors = 1.0;
            facts.more_actors = Some((2.0, 1.1));
            facts
                .members
                .iter_mut()
                .for_each(|member| (member.busy, member.in_flight) = (0.25, 0.25));
        }),
        // Nine of ten actors are not accounted for.
        (None, |facts| {
            facts
                .members
                .iter_mut()
                .for_each(|member| (member.busy, member.in_flight) = (0.1, 0.1));
            facts.cpu_busy = 0.05;
        }),
        // A half-used bus.
        (None, |facts| {
            facts.together_bytes_per_s = Some(300e6);
            for member in &mut facts.members {
                member.read_bytes_per_s = 37e6;
            }
        }),
        // Eight of ten actors wait for each other at disks that idle between two bursts.
        (Some("members"), |facts| {
            facts
                .members
                .iter_mut()
                .for_each(|member| member.in_flight = 2.1);
        }),
        // The same queues, filled by read-ahead: no actor waits for them.
        (None, |facts| {
            facts.direct = false;
            facts
                .members
                .iter_mut()
                .for_each(|member| member.in_flight = 2.1);
        }),
        // A virtual disk that claims to rotate, but is faster than any arm.
        (None, |facts| {
            for member in &mut facts.members {
                member.alone = None;
                (member.busy, member.rotational, member.requests_per_s) = (1.0, true, 5000.0);
            }
        }),
        // Two causes at their limits.
        (None, |facts| {
            facts.cpu_busy = 0.95;
            facts
                .members
                .iter_mut()
                .for_each(|member| member.busy = 0.98);
        }),
        // One cause at its limit, and another nearly.
        (None, |facts| {
            facts.cpu_busy = 0.95;
            facts
                .members
                .iter_mut()
                .for_each(|member| member.busy = 0.85);
        }),
    ];

    #[test]
    fn a_single_cause_is_named_but_two_are_not() {
        for (place, (expected, plant)) in CAUSES.iter().enumerate() {
            let mut facts = middling();
            plant(&mut facts);
            let (members, each) = (facts.members.clone(), facts.each.clone());
            facts.runs = vec![RunMembers { members, each }];
            let found = decide(&facts);
            assert_eq!(found.cause(), *expected, "{place}: {found:#?}");
        }
        for rule in RULES {
            assert!(
                CAUSES.iter().any(|cause| cause.0 == Some(rule.name)),
                "{}",
                rule.name
            );
        }
    }

    #[test]
    fn a_verdict_states_its_evidence() {
        let mut facts = middling();
        facts.cpu_busy = 0.95;
        assert_eq!(
            decide(&facts).words(),
            "The bottleneck is the CPUs of the machine: the CPUs were 95 % busy with the run. To \
             confirm, allow a fifth less CPU time: the rate should fall by at least 10 %."
        );
        facts
            .members
            .iter_mut()
            .for_each(|member| member.busy = 0.98);
        assert_eq!(
            decide(&facts).words(),
            "The bottleneck is undetermined, because more than one cause came near its limit: the \
             CPUs were 95 % busy with the run; members were 98 % busy with 1.4 requests of all \
             programs in flight at each, at 1 % of their rate alone."
        );
    }

    /// The table in the documentation must match the code.
    #[test]
    fn the_decision_table_is_documented() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/design/measuring.md"
        );
        let document = std::fs::read_to_string(path).unwrap();
        for (place, rule) in RULES.iter().enumerate() {
            let explains = match rule.explains {
                _ if rule.refuses => "everything: the result is refused".to_owned(),
                [] => "nothing".to_owned(),
                names => names.join(", "),
            };
            let row = format!(
                "| {} | `{}` | {} | {explains} |",
                place + 1,
                rule.name,
                rule.when
            );
            assert!(
                document.contains(&row),
                "docs/design/measuring.md lacks\n{row}"
            );
        }
    }
}
