//! Only the CSV of bonnie++, as input for `bon_csv2html`. Every repetition has a line, and the
//! line's name identifies the repetition.

use spindles_measure::Analysis;

use super::{Options, Output};
use crate::legacy::{bonnie_plus_line, bonnie_plus_wholes};

pub(super) static OUTPUT: Output = Output {
    name: "bonnie++",
    summary: "the CSV of bonnie++ for bon_csv2html, of runs of the workload bonnie++",
    file_name: "report.bonnie++.csv",
    has_sections: false,
    applies: |analysis| !bonnie_plus_wholes(analysis).is_empty(),
    report,
    together: Some(super::concatenated),
    change: None,
    prediction: None,
};

fn report(analysis: &Analysis, _: &Options) -> String {
    let version = &analysis.environment.tool_version;
    let mut text = String::new();
    for whole in bonnie_plus_wholes(analysis) {
        for runs in &whole.repetitions {
            let machine = format!("{} {}", whole.system.name, runs.words());
            text += &bonnie_plus_line(version, &machine, runs);
            text.push('\n');
        }
    }
    text
}
