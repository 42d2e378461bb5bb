//! Reports that no device was measured: the figures are predictions of models.

use super::{Kind, Rank};
use std::collections::BTreeMap;

/// The most names of assumed numbers that are listed.
const NAMES_MAX: usize = 6;

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "modelled",
    rank: Rank::Untrue,
    title: "The figures are predictions",
    remedy: "Modelled disks answered in virtual time. The intervals cover the numbers that the \
             model does not know exactly; they do not cover what the model leaves out, nor the \
             time of the processor, unless a host is modelled. Measure one such disk to see how \
             far the model is right.",
    find: |analysis| {
        let mut models: BTreeMap<&str, (u32, &[String])> = BTreeMap::new();
        for predicted in analysis
            .runs
            .iter()
            .filter_map(|run| run.predicted.as_ref())
        {
            let model = models.entry(&predicted.model);
            model.or_insert((0, &predicted.assumed)).0 += 1;
        }
        let sentence = |(model, (runs, assumed)): (&str, (u32, &[String]))| {
            let disks = format!("{runs} runs are on disks of the model {model}");
            match assumed.split_at_checked(NAMES_MAX) {
                _ if assumed.is_empty() => disks,
                None => format!("{disks}; assumed: {}", assumed.join(", ")),
                Some((few, more)) => {
                    format!(
                        "{disks}; assumed: {} and {} more",
                        few.join(", "),
                        more.len()
                    )
                }
            }
        };
        let mut left_out: BTreeMap<&str, &[String]> = BTreeMap::new();
        let predicted = analysis.runs.iter();
        for predicted in predicted.filter_map(|run| run.predicted.as_ref()) {
            if !predicted.file_system.is_empty() {
                left_out.insert(&predicted.file_system, &predicted.not_modelled);
            }
        }
        let of_file_systems = left_out
            .into_iter()
            .map(|(name, parts)| format!("the model of {name} leaves out: {}", parts.join(", ")));
        models
            .into_iter()
            .map(sentence)
            .chain(of_file_systems)
            .collect()
    },
};
