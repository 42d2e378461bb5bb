//! Tests of the command line, run as a user runs the program. One file for each subject.

mod arrays;
mod bad_input;
mod degraded;
mod every_command;
mod journal;
mod json;
mod lab;
mod lab_serve;
mod labels;
mod lost_blocks;
mod meanwhile;
mod names;
mod namespaces;
mod no_space;
mod nodes;
mod overwriting;
mod plain;
mod rebuild;
mod replace;
mod scrub;
mod size;
mod spare;
mod sshd;
mod status;
mod translate;
mod without_arrays;
