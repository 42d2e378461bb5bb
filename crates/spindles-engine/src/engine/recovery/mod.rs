//! What a crash left is put in order.

mod overlay;
mod rows;
