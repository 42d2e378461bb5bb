//! Reports that threads replaced `io_uring`. Only the runner can see why.

use super::{Kind, Rank};

/// Entry in the table of doubts.
pub(super) static KIND: Kind = Kind {
    name: "no-io-uring",
    rank: Rank::Note,
    title: "Threads carried the I/O instead of io_uring",
    remedy: "A pool of threads costs more CPU time for each operation. If the system forbids \
             io_uring, as many containers do, allow it for this program.",
    find: |_| Vec::new(),
};
