//! The error types. Each message says what is wrong, with which device, and what to do next.
//! Nothing here imports code that can fail.

mod assemble;
mod change;
mod create;
mod scan;

pub use assemble::AssembleError;
pub(crate) use change::replace_first;
pub use change::{ChangeError, OwnRole};
pub use create::CreateError;
pub(crate) use create::NAME_BYTES_MAX;
pub use scan::{FoundArray, ScanError};
pub use spindles_array::lists::lines;
