//! The project's own checks and chores. Nothing here is needed to build.

fn main() {}
