//! The commands of a system that the user's tools make.

/// The commands of a system, run by `sh -e`.
#[derive(Clone, Debug)]
pub struct Commands {
    /// Sets up the system.
    pub up: String,
    /// Tears the system down, from any state.
    pub down: Option<String>,
    /// Number of members of the experiment that the commands use.
    pub members: usize,
    /// True if files are passed as loop devices.
    pub loops: bool,
}
