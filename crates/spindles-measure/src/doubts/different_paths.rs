//! Reports systems that the kernel reaches in different ways.

use std::collections::BTreeMap;

use super::{Kind, Rank, listed};
use crate::System;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "different-paths",
    rank: Rank::Unlike,
    title: "Reached by different paths",
    remedy: "The path to a system takes time: through a server in user space more than through a \
        kernel driver. The differences between these systems include their paths. Serve all of \
        them (`through = \"served\"`), or compare only systems with the same path.",
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
