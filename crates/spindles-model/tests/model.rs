//! Models against laws in closed form, measured drives and wrong input.

mod drives;
mod faults;
mod flash;
mod laws;
mod parts;
