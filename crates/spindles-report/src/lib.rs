//! Records to reports: a terminal table, Markdown, tidy CSV, JSON and one
//! self-contained HTML page. Nothing here runs a measurement; everything is drawn
//! from an analysis, and that from records alone.

#![forbid(unsafe_code)]

mod figures;
pub mod outputs;
mod words;

pub use outputs::{OUTPUTS, Options, Output};
pub use words::{Headline, headline};
