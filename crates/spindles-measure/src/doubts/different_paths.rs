//! Reports systems that the kernel reaches in different ways.

use std::collections::BTreeMap;

use super::{Kind, Rank, listed};
use crate::System;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "different-paths",
    rank: Rank::Unlike,
    title: "Reached by different paths",
    remedy: "The path to a system takes time of its own: a server in user space more than a driver \
        of the kernel. A difference between these systems has both in it. Have all of them served \
        (`through = \"served\"`), or compare those that are reached in the same way.",
    find: |analysis| {
        let mut by_path: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for system in &analysis.experiment.systems {
            let path = system.options.get(System::THROUGH);
            let path = path.map_or("by itself", String::as_str);
            by_path.entry(path).or_default().push(system.name.clone());
        }
        let said = by_path.iter();
        let said: Vec<String> = said
            .map(|(path, systems)| format!("{path} ({})", listed(systems)))
            .collect();
        let differ = (said.len() > 1).then(|| said.join(", "));
        differ.into_iter().collect()
    },
};
