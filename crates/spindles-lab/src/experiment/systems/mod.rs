//! The parts of a system in an experiment: the kind of its target, its options, its file system and
//! its commands. Only data, and checks of texts: `crate::systems::targets` makes the systems.

mod commands;
mod file_systems;
mod hosted;
pub(crate) mod kinds;
mod members;
pub(crate) mod modelled;
pub(crate) mod names;
pub(crate) mod options;
mod shapes;

pub use commands::Commands;
pub use file_systems::{FILE_SYSTEMS, FileSystem, Mounting};
pub use hosted::ModelledFileSystem;
pub(crate) use kinds::kind_of;
pub use kinds::{KINDS, Kind, check};
pub use members::Members;
pub use options::check_chunk;
pub use shapes::{FreshShape, fresh_shape};
