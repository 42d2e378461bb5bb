//! Models against laws in closed form, measured drives and wrong input.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests print their figures, and stop at what must not happen"
)]

mod drives;
mod faults;
mod laws;
mod parts;
