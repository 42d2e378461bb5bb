//! Tests of the engine on memory members: plans, contents, and the order of outputs.

mod allocations;
mod answering;
mod bad_blocks;
mod checksums;
mod contents;
mod error_counts;
mod extension;
mod first_touches;
mod half_written;
mod jobs;
mod no_space;
mod plans;
mod rebuild;
mod replace;
mod replay;
mod scenarios;
mod scrub;
mod slow;
mod staging;
mod two_commands;
mod world;
