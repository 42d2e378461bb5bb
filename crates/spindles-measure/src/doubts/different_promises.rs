//! Reports systems with different guarantees after a crash.

use std::collections::BTreeMap;

use super::{Kind, Rank, listed};
use crate::{Analysis, System};

/// A guarantee: the option that selects it, its default value, and the systems it applies to.
struct Promise {
    option: &'static str,
    default: &'static str,
    concerns: fn(&System) -> bool,
}

static PROMISES: &[Promise] = &[
    // Without redundancy, a crash cannot leave members out of step.
    Promise {
        option: "consistency",
        default: "the default",
        concerns: |system| system.survives > 0,
    },
    Promise {
        option: "flushes",
        default: "honoured",
        concerns: |_| true,
    },
];

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "different-promises",
    rank: Rank::Unlike,
    title: "Different promises",
    remedy: "These systems do not keep the same data after a crash, so one may be faster because \
        it promises less. Compare systems with the same promise, or read the difference as its \
        price.",
    find: |analysis| {
        let promises = PROMISES.iter();
        promises
            .filter_map(|promise| differing(analysis, promise))
            .collect()
    },
};

/// Lists the systems by their choice. `None` if the systems agree.
fn differing(analysis: &Analysis, promise: &Promise) -> Option<String> {
    let mut by_value: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for system in &analysis.experiment.systems {
        let chosen = system.options.get(promise.option).map(String::as_str);
        if chosen.is_some() || (promise.concerns)(system) {
            let who = by_value.entry(chosen.unwrap_or(promise.default));
            who.or_default().push(system.name.clone());
        }
    }
    let said = by_value.iter();
    let said: Vec<String> = said
        .map(|(value, who)| format!("{value} ({})", listed(who)))
        .collect();
    (said.len() > 1).then(|| format!("{}: {}", promise.option, said.join(", ")))
}
