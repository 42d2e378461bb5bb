//! Where the time of modelled disks' requests went.

use super::{Body, Section, TextTable};
use crate::comparisons::Column;
use crate::figures;
use crate::request_time::{CellTime, PARTS};
use spindles_measure::Analysis;

pub(super) static SECTION: Section = Section {
    name: "request-time",
    title: "Where the time went",
    body: Body::Table(&TABLE),
};

pub(crate) static TABLE: TextTable = TextTable {
    caption: "Mean times of a request of a modelled disk. Arm, rotation and medium include writes \
        after their answer, so the parts together may exceed the response. Busy is the share of \
        the time in which a disk has a request.",
    class: |_| "glance",
    columns,
};

fn columns(analysis: &Analysis) -> Vec<Column> {
    let first = [
        ("workload, system", false, 0),
        ("busy", true, 1),
        ("response", true, 0),
    ];
    let parts = PARTS.iter().map(|(name, ..)| (*name, true, 0));
    let titles = first.into_iter().chain(parts);
    let titles = titles.map(|(title, figures, gives_way)| (title.to_owned(), figures, gives_way));
    let control = analysis.experiment.control.as_ref();
    let cells = analysis
        .cells
        .iter()
        .filter(|cell| Some(&cell.system) != control);
    let rows = cells.filter_map(|cell| {
        let time = CellTime::of(analysis, cell)?;
        let head = [
            format!("{}, {}", cell.workload, cell.system),
            format!("{:.0} %", time.busy() * 100.0),
            figures::time(time.response_ns()),
        ];
        let parts = PARTS.iter().map(|part| match time.part_ns(part) {
            0.0 => "0".to_owned(),
            ns => figures::time(ns),
        });
        Some(head.into_iter().chain(parts).collect::<Vec<_>>())
    });
    Column::of_rows(titles, &rows.collect::<Vec<_>>())
}
