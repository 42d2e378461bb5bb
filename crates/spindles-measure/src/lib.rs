//! The data model and statistics of measurements: versioned records, latency histograms, intervals
//! over repetition blocks, verdicts and doubts. Runs nothing itself and reads no clock.

#![forbid(unsafe_code)]

mod analysis;
mod change;
mod choice;
pub mod doubts;
mod evidence;
pub mod example;
mod histogram;
mod jobs;
mod late;
mod overall;
mod quantity;
mod record;
mod resolution;
mod series;
mod singles;
pub mod statistics;
mod sweeps;
mod totals;
pub mod verdicts;
mod work;

pub use analysis::{
    Analysis, AnalysisError, Cell, Comparison, Latency, P99_9_COUNT_MIN, Repetition, SIGNIFICANCE,
    UNCORRECTED_COMPARISONS_MAX, Verdict, difference_of, factor_of, percent_of,
};
pub use change::{Change, ChangeRow, Verdicts, change};
pub use choice::{Choice, Pair, Place, Ranking, Share, Standing, Weighted};
pub use doubts::Finding;
pub use evidence::{
    CacheUse, Calibration, DeviceUse, Evidence, LinkUse, MemberRate, MemberUse, Requests, Series,
    Slot, THREADS_MAX, ThreadUse, Usage,
};
pub use histogram::{Histogram, RELATIVE_ERROR_MAX};
pub use jobs::{JobLine, StageLatency, job_lines};
pub use late::LateMember;
pub use overall::{LeftOut, OverallScope, Reason};
pub use quantity::{Overload, Quantity, Response};
pub use record::{
    Beside, Cpu, Device, Discard, Doubt, Environment, Experiment, Io, JobShare, NodeRun, Part,
    Phase, Rate, ReadError, Record, Run, SCHEMA, Stage, System, Traffic, Trial, Workload,
    from_lines, to_line,
};
pub use resolution::{HALF_WIDTH_TARGET, Unresolved};
pub use singles::{AgainstSingles, Singles};
pub use sweeps::{Fact, Grid, Sweep, SweptUnit, grids, sweeps};
pub use work::{Difference, TEMPORARY_PREFIX};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_measure;
#[cfg(test)]
#[path = "../tests/measure.rs"]
mod public;
