//! Results in the output formats of the original tools, each block with a label.

use spindles_measure::Analysis;

use super::{Options, Output};
use crate::legacy::{CAUTION, FORMATS};
use crate::words;

pub(super) static OUTPUT: Output = Output {
    name: "legacy",
    summary: "the same runs in the output formats of Bonnie, bonnie++, IOZONE, time and filebench",
    file_name: "report.legacy.txt",
    has_sections: false,
    applies: |_| true,
    report,
    together: Some(super::concatenated),
    change: None,
    prediction: None,
};

fn report(analysis: &Analysis, _: &Options) -> String {
    let mut text = String::new();
    for format in FORMATS {
        let blocks = (format.blocks)(analysis);
        if blocks.is_empty() {
            continue;
        }
        text += &format!("# {}. {}\n\n", format.title, format.remark);
        for block in blocks {
            let of = block.of().replace('\n', " ");
            text += &format!("# {of}\n{}\n", block.text);
        }
    }
    if text.is_empty() {
        let kinds: Vec<&str> = FORMATS
            .iter()
            .flat_map(|format| format.kinds)
            .copied()
            .collect();
        return format!(
            "# No run is of a workload of these tools: {}.\n",
            kinds.join(", ")
        );
    }
    let scaled = words::scaled(&analysis.experiment);
    let scaled = scaled.map_or(String::new(), |scaled| format!("# {scaled}\n"));
    format!("# {CAUTION}\n{scaled}\n{text}")
}
