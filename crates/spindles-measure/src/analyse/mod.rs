//! Analyses the records of one experiment, stage by stage: a cell for each system × workload, its
//! comparison with the baseline, the verdicts, the rankings, and every doubt about the figures.

mod cells;
mod comparisons;
mod joined;

pub(crate) use cells::cells_of;
use comparisons::comparisons_of;
use joined::{Joined, completed, joined};

use crate::{
    Analysis, Choice, OverallScope, Record, Run, Verdict, choice, deciding, doubts, overall,
    singles, totals, verdicts,
};

/// Why the records cannot be analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnalysisError {
    /// The records contain no run.
    #[error("the records contain no run: nothing was measured yet")]
    NoRuns,
}

impl Analysis {
    /// Analyses records. Consecutive experiments (the same one run again) are joined: the
    /// repetition blocks of a later one follow those of the earlier.
    ///
    /// # Errors
    /// If there is no run.
    pub fn of(records: &[Record]) -> Result<Self, AnalysisError> {
        let Joined {
            experiment,
            environment,
            calibration,
            runs,
            trials,
            faster,
            recorded_again,
        } = joined(records);
        if runs.is_empty() {
            return Err(AnalysisError::NoRuns);
        }
        let mut experiment = completed(experiment, &runs);
        let totals = totals::add(&mut experiment, &runs);
        let all: Vec<&Run> = runs.iter().chain(&totals).collect();
        let cells = cells_of(&experiment, &all);
        let (comparisons, own_comparisons) = comparisons_of(&experiment, &cells);
        let mut analysis = Self {
            overall: Vec::new(),
            overall_scope: OverallScope::default(),
            choice: Choice::default(),
            singles: singles::of(&experiment, &cells, &runs),
            experiment,
            environment,
            calibration,
            cells,
            comparisons,
            own_comparisons,
            findings: Vec::new(),
            runs,
            totals,
            trials,
            faster,
            deciding: Vec::new(),
            help: Vec::new(),
            recorded_again,
        };
        refuse(&mut analysis);
        let verdicts = analysis.cells.iter();
        let verdicts: Vec<Option<verdicts::CellVerdicts>> =
            verdicts.map(|cell| verdicts::of(&analysis, cell)).collect();
        for (cell, verdicts) in analysis.cells.iter_mut().zip(verdicts) {
            cell.verdicts = verdicts;
        }
        (analysis.overall, analysis.overall_scope) = overall::of(&analysis);
        analysis.choice = choice::of(&analysis);
        analysis.deciding = deciding::deciding(&analysis);
        analysis.help = deciding::help(&analysis);
        analysis.findings = doubts::findings(&analysis);
        Ok(analysis)
    }
}

/// Marks comparisons with a refused cell as refused.
fn refuse(analysis: &mut Analysis) {
    let refused: Vec<(String, String)> = analysis
        .cells
        .iter()
        .filter(|cell| analysis.is_refused(cell))
        .map(|cell| (cell.system.clone(), cell.workload.clone()))
        .collect();
    for comparison in (analysis.comparisons.iter_mut()).chain(&mut analysis.own_comparisons) {
        let is_refused = |system: &str| {
            let mut refused = refused.iter();
            refused.any(|(of, workload)| of == system && *workload == comparison.workload)
        };
        if !comparison.control
            && (is_refused(&comparison.system) || is_refused(&comparison.baseline))
        {
            comparison.verdict = Verdict::Refused;
            comparison.not_shown_among = None;
        }
    }
}
