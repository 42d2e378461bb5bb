//! The data model and statistics of measurements: versioned records, latency histograms, intervals
//! over repetition blocks, verdicts and doubts. Runs nothing itself and reads no clock.

#![forbid(unsafe_code)]

mod amount;
mod analyse;
mod analysis;
mod ceiling;
mod change;
mod choice;
mod deciding;
pub mod doubts;
mod environments;
mod evidence;
mod histogram;
mod jobs;
mod late;
mod lines;
mod overall;
mod prediction_check;
mod questions;
mod record;
mod resolution;
mod results;
mod series;
mod significance;
mod singles;
pub mod statistics;
mod sweeps;
mod totals;
pub mod verdicts;
mod work;

pub use amount::{Rate, Traffic};
pub use analyse::AnalysisError;
pub use analysis::Analysis;
pub use change::{Change, ChangeRow, Verdicts, change};
pub use environments::TEMPORARY_PREFIX;
pub use evidence::{
    CacheUse, Calibration, DeviceUse, Evidence, LinkUse, MemberRate, MemberTime, MemberUse,
    Requests, Series, Slot, THREADS_MAX, ThreadUse, Usage,
};
pub use histogram::{Histogram, RELATIVE_ERROR_MAX};
pub use jobs::{JobLine, StageLatency, job_lines};
pub use late::LateMember;
pub use lines::{ReadError, SCHEMA, from_lines, to_line};
pub use prediction_check::{
    CheckedFigure, Coverage, Order, PredictionCheck, check_prediction, is_predicted, nearest_cells,
};
pub use record::{
    Beside, Cpu, Device, Discard, Doubt, Environment, Experiment, Io, JobShare, NodeRun, Part,
    Phase, Predicted, Record, Run, Stage, Staging, System, Trial, Workload,
};
pub use resolution::{HALF_WIDTH_TARGET, Unresolved};
pub use results::{
    AgainstSingles, Cell, Choice, Comparison, Correlation, Deciding, Finding, Help, Latency,
    LeftOut, OverallScope, Overload, P99_9_COUNT_MIN, Pair, Place, Quantity, Ranking, Reason,
    Repetition, Response, Share, Singles, Standing, Verdict, Weighted, difference_of, factor_of,
    percent_of,
};
pub use significance::{SIGNIFICANCE, UNCORRECTED_COMPARISONS_MAX};
pub use sweeps::{Fact, Grid, Sweep, SweptUnit, grids, sweeps};
pub use work::Difference;

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_measure;
#[cfg(test)]
#[path = "../tests/measure.rs"]
mod public;
