//! Why an experiment could not begin or continue.

use crate::run::records::RecordsError;
use std::io;
use std::path::PathBuf;

/// Why an experiment could not begin or continue.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment can't be run on this machine.
    #[error("{file}{}: {what}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Experiment {
        /// The experiment file.
        file: String,
        /// The line in it, if one is at fault.
        line: Option<usize>,
        /// What is wrong, and the remedy.
        what: String,
    },
    /// Several errors.
    #[error("{}", lines(.0))]
    Several(Vec<RunError>),
    /// The members could not be created.
    #[error("{}: the members can't be made there: {source}", .folder.display())]
    Members {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is too little free space.
    #[error(
        "{} has room for {free_mib} MiB and the members need {needed_mib} MiB: choose another \
         folder or a smaller size",
        .folder.display()
    )]
    NoRoom {
        /// The folder.
        folder: PathBuf,
        /// Free space.
        free_mib: u64,
        /// Needed space.
        needed_mib: u64,
    },
    /// A node does not answer.
    #[error("{what}")]
    Nodes {
        /// The node, the reason, and the remedy.
        what: String,
    },
    /// The records could not be written.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Formats one error per line.
fn lines(errors: &[RunError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
