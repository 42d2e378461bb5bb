//! Why a run has no result.

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// The workload does not fit the target, or the target answered with an error.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}
