//! Arrays as block devices for other programs.
//!
//! ```text
//!  clients ──▶ listener of a transport ──▶ server: clients ⇄ export ──▶ the array
//! ```
//!
//! The listener of a transport has its own threads if clients negotiate before they
//! choose an export, so that a slow or hostile client delays no other. The *server* is one thread
//! for each array. It waits for clients and members in one place, and only this thread touches the
//! array. It is independent of the clients' protocols: each client is a `Client`.

mod alarms;
mod certificates;
mod client;
pub mod control;
mod events;
mod guard;
mod hook;
mod left_behind;
mod listening;
mod losses;
mod management;
pub mod metrics;
mod numbers;
mod paces;
mod polling;
mod readiness;
pub mod sandbox;
mod server;
mod server_handle;
mod stopper;
mod transports;
mod under_way;
mod wake;

pub use alarms::{ALARM_KINDS, Alarm, AlarmKind, Remedy, Watch, state_line};
pub use certificates::{Certificates, Clients};
pub use events::{EventBus, ServerEvent, Subscriber};
pub use hook::may_execute;
pub use management::Handle;
pub use numbers::{ClientNumbers, JobPace, Origin, Served, ServerNumbers};
pub use readiness::Readiness;
pub use server::{Server, ServerError, ServerLimits};
pub use server_handle::{ExportFacts, ServerHandle, description_of};
pub use spindles_device::tls::CertificatesError;
pub use stopper::Stopper;
pub use transports::{
    Bind, ExposedFile, Listener, ListenerError, ListenerOptions, TRANSPORTS, Transport, User,
    WatcherCommand, by_users, lasts, watch,
};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_serve;
#[cfg(test)]
#[path = "../tests/durability.rs"]
mod public;
#[cfg(test)]
#[path = "../tests/sandbox.rs"]
mod sandboxed;
