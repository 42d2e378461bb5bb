//! Arrays as block devices for other programs.
//!
//! ```text
//!  clients ──▶ door of a transport ──▶ server: clients ⇄ export ──▶ the array
//! ```
//!
//! A *door* is the listener of a transport. It has its own threads if clients negotiate before they
//! choose an export, so that a slow or hostile client delays no other. The *server* is one thread
//! for each array. It waits for clients and members in one place, and only this thread touches the
//! array. It is independent of the clients' protocols: each client is a `Client`.

mod alarms;
mod certificates;
mod client;
pub mod control;
mod guard;
mod hook;
mod left_behind;
mod listening;
mod losses;
mod management;
pub mod metrics;
mod news;
mod numbers;
mod offer;
mod paces;
mod polling;
mod readiness;
pub mod sandbox;
mod server;
mod stopper;
mod transports;
mod wake;

pub use alarms::{ALARM_KINDS, Alarm, AlarmKind, Remedy, Watch, state_line};
pub use certificates::{Certificates, Clients};
pub use hook::may_execute;
pub use management::Handle;
pub use news::{Listener, News, Newsroom};
pub use numbers::{ClientNumbers, JobPace, Origin, Served, ServerNumbers};
pub use offer::{ExportFacts, Offer, description_of};
pub use readiness::Readiness;
pub use server::{Server, ServerError, ServerLimits};
pub use spindles_device::tls::CertificatesError;
pub use stopper::Stopper;
pub use transports::{
    Bind, Door, DoorError, DoorOptions, Seen, TRANSPORTS, Transport, User, WatcherCommand,
    by_users, lasts, watch,
};

// The tests of the public items are in the same executable as the unit tests: linking each takes
// longer than running it.
#[cfg(test)]
extern crate self as spindles_serve;
#[cfg(test)]
#[path = "../tests/durability.rs"]
mod public;
