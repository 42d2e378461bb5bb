//! Runs on several machines. The controller, part of the runner, starts an agent on each node over
//! ssh and speaks to it through the pipes of ssh. It starts all nodes at the same time and adds up
//! their results. ssh authenticates both ends and encrypts.
//!
//! A run, part by part:
//!
//! ```text
//! controller                         agent
//!               ◀──────────────────  Hello     its version and CPUs
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

mod agent;
mod controller;
mod copies;
mod fio;
mod link;
mod merge;
mod session;
mod ssh;
mod task;
mod tasks;
mod wire;

pub use crate::experiment::addresses::{ip_address, node_name};
pub use agent::{Agent, AgentError, AgentOptions};
pub(crate) use controller::Crew;
pub(crate) use tasks::Home;
