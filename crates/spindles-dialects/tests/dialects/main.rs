//! The dialects from outside.

mod bad;
