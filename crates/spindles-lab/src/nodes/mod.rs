//! Runs on several machines. An agent on each node ([`Agent`]) carries out the requests of a
//! controller. The controller is part of the runner: it starts all nodes at the same time and adds
//! up their results.
//!
//! A run, part by part:
//!
//! ```text
//! controller                         agent
//!     Hello, Challenge, Proof, Welcome         who knows the token (handshake)
//!     Ping      ──────────────────▶  Pong      several times: how far its clock is off
//!     Prepare   ──────────────────▶  Prepared  files, connections
//!     Arm       ──────────────────▶  Armed     everything but the first operation
//!     Start(T)  ──────────────────▶  Ended     at T on the agent's clock, to the last operation
//!               ◀──────────────────  Done      what it did
//!               ◀──────────────────  Alive     each second, with the figures so far
//!     Here      ──────────────────▶            to each of these
//! ```
//!
//! Thus each end notices when the other one is stopped or its cable is pulled, and stops waiting.
//!
//! The token authenticates requests. Nothing is encrypted, and there is no protection against an
//! attacker who can modify packets.

mod address;
mod agent;
mod controller;
mod copies;
mod fio;
mod handshake;
mod link;
mod merge;
mod places;
mod session;
mod task;
mod tasks;
mod token;
mod wire;

pub use address::{NodeAddress, PORT, ip_address};
pub use agent::{Agent, AgentError, AgentOptions};
pub(crate) use controller::Crew;
pub(crate) use tasks::Home;
pub use token::{Token, TokenError};
