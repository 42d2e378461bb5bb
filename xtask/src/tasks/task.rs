//! A task as a row of the table.

/// One task.
pub(crate) struct Task {
    /// The name as typed after `cargo xtask`.
    pub(crate) name: &'static str,
    /// The arguments, as help prints them.
    pub(crate) arguments: &'static str,
    /// A one-line description.
    pub(crate) about: &'static str,
    /// Runs it. An error is printed and makes the exit status 1.
    pub(crate) run: fn(&[String]) -> Result<(), String>,
}
