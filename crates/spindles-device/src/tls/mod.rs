//! TLS, for clients of other servers and for our servers.
//!
//! ```text
//!  who receives and sends ⇄ session ⇄ socket
//! ```

mod client;
pub mod pem;
mod session;
mod words;

pub(crate) use client::Trust;
pub use pem::CertificatesError;
pub use session::Session;
pub use words::{explain, explain_io};
