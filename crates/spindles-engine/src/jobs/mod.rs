//! Background jobs, each a file with its own state.

pub(crate) mod resync;
