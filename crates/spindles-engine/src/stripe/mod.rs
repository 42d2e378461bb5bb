//! Stripe ranges: their state, their stages, and the decisions that need nothing else.

mod commit;
mod giving_up;
mod next;
mod pool;
mod range;
mod stage;

pub(crate) use commit::{Rows, WritePath};
pub(crate) use next::Next;
pub(crate) use pool::Ranges;
pub(crate) use range::{Owner, RowState, StripeRange};
pub(crate) use stage::{Past, Stage, Way};
