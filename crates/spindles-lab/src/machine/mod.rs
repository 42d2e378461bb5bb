//! The machine that the lab runs on: its clocks, its counters and its description.

pub(crate) mod caches;
pub(crate) mod clock;
mod device_counters;
pub(crate) mod environment;
pub(crate) mod evidence;
mod kernel_text;
pub(crate) mod own_counters;
