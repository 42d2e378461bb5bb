//! Formats records as reports: a terminal table, Markdown, tidy CSV, JSON and one self-contained
//! HTML page. Runs no measurement: everything comes from an analysis, and that from records alone.

#![forbid(unsafe_code)]
#![allow(
    clippy::format_push_string,
    clippy::format_collect,
    reason = "a page is put together from small pieces, once"
)]

mod charts;
mod choice;
mod comparisons;
mod figures;
mod legacy;
mod matrix;
mod model_page;
pub mod outputs;
pub mod page;
mod prediction;
mod prediction_chart;
mod request_time;
mod sections;
mod svg;
mod verdicts;
mod words;

pub use model_page::{ModelFacts, model_page};
pub use outputs::{OUTPUTS, Options, Output, change_page, prediction_page, report_page};
pub use words::{Headline, headline, scaled};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_report;
#[cfg(test)]
#[path = "../tests/report.rs"]
mod public;
