//! The vocabulary that all crates share: indices, sizes, time, requests, member I/O and the outputs
//! of the engine. No behaviour beyond conversions.

#![no_std]
#![forbid(unsafe_code)]

mod buffer;
mod error;
mod index;
mod io;
mod member_set;
mod size;

pub use buffer::{BufferId, BufferSlice, Piece};
pub use error::{MemberError, RequestError};
pub use index::{BlockIndex, BlockSize, Instant, MemberIndex};
pub use io::{
    Computation, Compute, ComputeResult, MemberIo, MemberIoId, MemberResult, Operand, Operation,
    Reply, Request, StepId,
};
pub use member_set::{MEMBERS_MAX, MemberSet};
pub use size::{Counted, RoundedSize, SizeBytes, SizeError, TypedSize, counted};
