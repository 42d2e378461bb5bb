//! Commands of the lab.

use std::path::Path;

/// Returns the shell command that draws the report of these records. `None` if the path can't be
/// typed in a shell.
pub(crate) fn report_command(path: &Path) -> Option<String> {
    Some(format!(
        "spindles lab report {}",
        spindles_lab::typed(path)?
    ))
}
