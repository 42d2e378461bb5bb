//! The error types. Each message says what is wrong, with which device, and what to do next.
//! Nothing here imports code that can fail.

mod assemble;
mod attach;
mod change;
mod create;
mod lists;
mod open;
mod scan;

pub use assemble::AssembleError;
pub(crate) use assemble::because;
pub use attach::AttachError;
pub(crate) use change::replace_first;
pub use change::{ChangeError, OwnRole};
pub use create::CreateError;
pub(crate) use create::NAME_BYTES_MAX;
pub(crate) use lists::few;
pub use lists::lines;
pub(crate) use open::failed;
pub use open::{CloseError, OpenError};
pub use scan::{FoundArray, ScanError};
