//! What would help: the ratio that each part of modelled disks brings if it is a tenth faster.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use crate::words;
use spindles_measure::Analysis;

pub(super) static SECTION: Section = Section {
    name: "faster-parts",
    title: "What would help",
    body: Body::Table(&TABLE),
};

pub(crate) static TABLE: TextTable = TextTable {
    caption: "Each part of the disks in turn is a tenth faster, with the same draws. The gain \
        is in percent of the system's own speed, with its 95 % interval.",
    class: |_| "glance",
    columns,
};

fn columns(analysis: &Analysis) -> Vec<Column> {
    let titles = [
        ("workload, system", false, 0),
        ("part", false, 0),
        ("gain", true, 0),
        ("95 % interval", true, 1),
    ];
    let titles = titles.map(|(title, figures, gives_way)| (title.to_owned(), figures, gives_way));
    let mut rows = Vec::new();
    for workload in &analysis.experiment.workloads {
        for system in &analysis.experiment.systems {
            let parts = analysis.help.iter();
            let parts =
                parts.filter(|help| help.system == system.name && help.workload == workload.name);
            rows.extend(parts.map(|help| {
                [
                    format!("{}, {}", help.quantity.of(&help.workload), help.system),
                    help.part.clone(),
                    words::difference_of(help.quantity, &help.log_ratio, words::TIMES_IN_TABLES),
                    words::interval_of(help.quantity, &help.log_ratio, words::TIMES_IN_TABLES),
                ]
            }));
        }
    }
    Column::of_rows(titles, &rows)
}
