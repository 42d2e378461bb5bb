//! Records to reports: a terminal table, Markdown, tidy CSV, JSON and one
//! self-contained HTML page. Nothing here runs a measurement.

#![forbid(unsafe_code)]
