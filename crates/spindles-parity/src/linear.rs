//! The linear map that a kernel runs over byte columns, and the kernel as a table row.

/// The most chunks, data and parity together, that a group may have.
pub const CHUNKS_MAX: u8 = 64;

/// `CHUNKS_MAX` as a `usize`.
pub(crate) const SOURCES_MAX: usize = 64;
/// The most targets of one pass over the sources; more targets take more passes.
pub(crate) const TARGETS_MAX: usize = 3;

const _: () = assert!(CHUNKS_MAX as usize == SOURCES_MAX);

/// The map that a kernel runs, over slices of length `bytes`.
pub(crate) struct Map<'a, 'source, 'target> {
    pub(crate) bytes: usize,
    pub(crate) sources: Sources<'a, 'source>,
    /// At most `TARGETS_MAX`.
    pub(crate) targets: &'a mut [(u8, &'target mut [u8])],
    /// The factors of each source, or pair, in each target.
    pub(crate) rows: [Row; TARGETS_MAX],
}

/// The input of a map.
#[derive(Clone, Copy)]
pub(crate) enum Sources<'a, 'bytes> {
    /// `targets[t] = sum over s of rows[t][s] * plain[s]`.
    Plain(&'a [(u8, &'bytes [u8])]),
    /// `targets[t] += sum over s of rows[t][s] * (old[s] + new[s])`.
    Pairs(&'a [(u8, &'bytes [u8], &'bytes [u8])]),
}

/// The factor of each source in one target.
pub(crate) type Row = [u8; SOURCES_MAX];

/// A way to run linear maps on a kind of processor.
#[derive(Debug)]
pub struct Kernel {
    /// The name in tables and on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub summary: &'static str,
    /// Returns true if this machine can run it.
    pub available: fn() -> bool,
    /// Runs a map. Safe to call only if `available` returns true.
    pub(crate) run: unsafe fn(&mut Map<'_, '_, '_>),
}
