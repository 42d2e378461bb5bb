//! Detects figures that a cache explains: rules C1 to C8, in one table. Several rules may apply to
//! one cell.

mod above_ceiling;
mod control_run;
mod deferred_writes;
mod fits_in_memory;
mod plateaus;
mod read_hits;
mod resident;
mod two_latencies;

pub(crate) use read_hits::hit_share;

use super::{CacheVerdict, Facts, Grade};

/// A sign of a cache.
#[derive(Debug)]
pub struct CacheRule {
    /// Number in the documentation: `C1`.
    pub id: &'static str,
    /// Name of the rule: `read-hits`.
    pub name: &'static str,
    /// When it applies, for the table in the documentation.
    pub when: &'static str,
    /// Looks for the sign in the facts.
    pub decide: fn(&Facts) -> Option<CacheVerdict>,
}

/// All rules.
pub static CACHE_RULES: &[&CacheRule] = &[
    &read_hits::RULE,
    &deferred_writes::RULE,
    &resident::RULE,
    &fits_in_memory::RULE,
    &above_ceiling::RULE,
    &plateaus::RULE,
    &two_latencies::RULE,
    &control_run::RULE,
];

/// Share from which a cache is worth a note.
const NOTE: f64 = 0.05;
/// Share from which the figure is the cache's.
const CACHE_FIGURE: f64 = 0.2;

/// Applies all rules.
pub(super) fn decide(facts: &Facts) -> Vec<CacheVerdict> {
    let rules = CACHE_RULES.iter();
    rules.filter_map(|rule| (rule.decide)(facts)).collect()
}

fn grade(share: f64) -> Option<Grade> {
    match share {
        share if share > CACHE_FIGURE => Some(Grade::CacheFigure),
        share if share > NOTE => Some(Grade::Note),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LinkFacts, MemberFacts};
    use super::*;
    use crate::{Histogram, MemberRate, Rate, Traffic};

    const MB: u64 = 1_000_000;

    fn member(read_bytes_per_s: u64, random_reads_per_s: u64) -> MemberFacts {
        MemberFacts {
            alone: Some(MemberRate {
                read_bytes_per_s,
                random_reads_per_s,
                ..MemberRate::default()
            }),
            ..MemberFacts::default()
        }
    }

    /// A read of 512 MB from the devices, through the page cache, of files four times the size of
    /// memory. No rule applies to it.
    fn cold() -> Facts {
        let mut facts = Facts {
            per_second: 200e6,
            application: Traffic::of_reads(512 * MB),
            moved: Some(Traffic::of_reads(579 * MB)),
            write_amplification_min: 1.0,
            members: vec![member(150 * MB, 100), member(150 * MB, 100)],
            ..Facts::default()
        };
        facts.cache.file_bytes = 32 << 30;
        facts.cache.memory_bytes = 8 << 30;
        facts.cache.resident_permille = Some(0);
        facts
    }

    fn latencies(hits: u64) -> Histogram {
        let mut reads = Histogram::new();
        reads.record_many(20_000, hits);
        reads.record_many(8_000_000, 1000 - hits);
        reads
    }

    type Plant = fn(&mut Facts);

    /// For each rule, facts to which it applies, and the grade.
    const CAUSES: &[(&str, Grade, Plant)] = &[
        ("read-hits", Grade::CacheFigure, |facts| {
            facts.moved = Some(Traffic::default());
        }),
        ("read-hits", Grade::Note, |facts| {
            facts.moved.as_mut().unwrap().read = 461 * MB;
        }),
        // 0.1 of 537 MB were written when the clock stopped, and all of it was dirty.
        ("deferred-writes", Grade::CacheFigure, |facts| {
            facts.application = Traffic::of_writes(537 * MB);
            facts.moved = Some(Traffic::of_writes(MB / 10));
            facts.waiting_share = 1.0;
        }),
        // The devices' writes were not counted.
        ("deferred-writes", Grade::CacheFigure, |facts| {
            facts.application = Traffic::of_writes(537 * MB);
            facts.moved = None;
            facts.waiting_share = 1.0;
        }),
        // A parity level writes twice its minimum, which hides the writes that are still missing.
        ("deferred-writes", Grade::Note, |facts| {
            facts.application = Traffic::of_writes(100 * MB);
            facts.moved = Some(Traffic::of_writes(120 * MB));
            facts.waiting_share = 0.4;
        }),
        // A mirror of two must write twice as much.
        ("deferred-writes", Grade::CacheFigure, |facts| {
            facts.application = Traffic::of_writes(100);
            facts.moved = Some(Traffic::of_writes(120));
            facts.write_amplification_min = 2.0;
        }),
        ("resident", Grade::CacheFigure, |facts| {
            facts.cache.resident_permille = Some(1000);
        }),
        ("resident", Grade::Note, |facts| {
            facts.cache.resident_permille = Some(100);
        }),
        ("fits-in-memory", Grade::Note, |facts| {
            facts.cache.file_bytes = 12 << 30;
        }),
        ("above-ceiling", Grade::CacheFigure, |facts| {
            facts.per_second = 400e6;
        }),
        // Without arms.
        ("above-ceiling", Grade::CacheFigure, |facts| {
            facts.members = vec![member(150 * MB, 50_000), member(150 * MB, 50_000)];
            facts.per_second = 1200e6;
        }),
        ("above-ceiling", Grade::CacheFigure, |facts| {
            facts.links = vec![LinkFacts {
                bytes_per_s_max: Some(125e6),
                ..LinkFacts::default()
            }];
        }),
        // 3,722 seeks a second on one disk of a file that fits into memory.
        ("above-ceiling", Grade::CacheFigure, |facts| {
            facts.rate = Rate::Operations;
            facts.reads_per_s = 3722.0;
        }),
        ("plateaus", Grade::CacheFigure, |facts| {
            let rates = [4e9, 4e9, 4e9, 4e9, 2e8, 2e8, 2e8];
            facts.sweep = (2..)
                .zip(rates)
                .map(|(power, rate)| (f64::exp2(f64::from(power)), rate))
                .collect();
            facts.per_second = 4e9;
            facts.members.clear();
        }),
        ("two-latencies", Grade::Note, |facts| {
            facts.reads = latencies(300);
            facts.direct = true;
        }),
        ("control-run", Grade::CacheFigure, |facts| {
            facts.without_cache = Some(100e6);
        }),
    ];

    #[test]
    fn every_rule_finds_only_its_own_cause() {
        assert_eq!(decide(&cold()), []);
        for (rule, grade, plant) in CAUSES {
            let mut facts = cold();
            plant(&mut facts);
            let found = decide(&facts);
            assert_eq!(found.len(), 1, "{rule}: {found:?}");
            assert_eq!((found[0].rule, found[0].grade), (*rule, *grade));
            assert!(found[0].evidence.chars().any(|c| c.is_ascii_digit()));
        }
        for rule in CACHE_RULES {
            assert!(
                CAUSES.iter().any(|cause| cause.0 == rule.name),
                "{}",
                rule.name
            );
        }
    }

    #[test]
    fn direct_io_is_not_suspected_of_caching() {
        let mut facts = cold();
        facts.direct = true;
        facts.cache.resident_permille = Some(1000);
        facts.cache.file_bytes = 1 << 20;
        assert_eq!(decide(&facts), []);
        // Nor do stragglers among the reads.
        facts.application.written = 100 * MB;
        facts.moved.as_mut().unwrap().written = 100 * MB;
        facts.reads = latencies(970);
        assert_eq!(decide(&facts), []);
    }

    /// Flash handles several requests at once, and stripes, actors and read-ahead issue them.
    #[test]
    fn parallel_requests_are_not_taken_for_a_cache() {
        let mut facts = cold();
        facts.members = vec![member(150 * MB, 50_000), member(150 * MB, 50_000)];
        facts.per_second = 800e6;
        for direct in [false, true] {
            facts.direct = direct;
            assert_eq!(decide(&facts), [], "direct: {direct}");
        }
    }

    /// The amount for one run, and no time if it rounds to zero.
    #[test]
    fn waiting_writes_are_reported_if_there_were_any() {
        let (.., plant) = CAUSES
            .iter()
            .find(|cause| cause.0 == "deferred-writes")
            .unwrap();
        let mut facts = cold();
        plant(&mut facts);
        facts.settle_ns = 300.0;
        let evidence = decide(&facts)[0].evidence.clone();
        assert!(evidence.ends_with("when the clock stopped"), "{evidence}");
        facts.waiting_bytes = f64::from(16 << 20);
        facts.settle_ns = 70e6;
        let evidence = decide(&facts)[0].evidence.clone();
        let end = "; 16 MiB of a run waited in memory; writing it took another 0.07 s";
        assert!(evidence.ends_with(end), "{evidence}");
    }

    /// The lowest plateau is the rate of the devices themselves.
    #[test]
    fn the_largest_size_of_a_sweep_is_not_a_cache_figure() {
        let mut facts = cold();
        let (.., plant) = CAUSES.iter().find(|cause| cause.0 == "plateaus").unwrap();
        plant(&mut facts);
        facts.per_second = 2e8;
        assert_eq!(decide(&facts), []);
    }

    /// The table in the documentation must match the code.
    #[test]
    fn the_rules_are_documented() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/design/measuring.md"
        );
        let document = std::fs::read_to_string(path).unwrap();
        for rule in CACHE_RULES {
            let row = format!("| {} | `{}` | {} |", rule.id, rule.name, rule.when);
            assert!(
                document.contains(&row),
                "docs/design/measuring.md lacks\n{row}"
            );
        }
    }
}
