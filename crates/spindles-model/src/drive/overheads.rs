//! What the electronics of a drive take, by the kind of request and what came before.

/// Times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overheads {
    /// By `is_write`, then `is_hit`, then the request before: read, write.
    pub(crate) command: [[[u64; 2]; 2]; 2],
    /// By `is_write`.
    pub(crate) completion: [u64; 2],
    pub(crate) data_preparation: u64,
    pub(crate) first_reselect: u64,
    pub(crate) other_reselect: u64,
    /// By the request before.
    pub(crate) read_disconnect: [u64; 2],
    pub(crate) write_disconnect: u64,
    /// The arm starts no earlier than this after the request.
    pub(crate) seek_least: u64,
    pub(crate) extra: Option<Extra>,
}

/// A write that disconnects twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    pub(crate) command: u64,
    pub(crate) disconnect: u64,
    pub(crate) gap: u64,
    pub(crate) second: u64,
    pub(crate) seek: u64,
}

impl Overheads {
    pub(crate) fn command(&self, is_write: bool, is_hit: bool, after_write: bool) -> u64 {
        self.command[usize::from(is_write)][usize::from(is_hit)][usize::from(after_write)]
    }
}
