//! Faults that strike while the array runs, within the budget unless the run is meant to go beyond
//! it. One file each, one row in the table. Crashes (process crash, power loss) are in
//! `options::Ending`; changes to devices between sessions are in `run.rs`.

mod dropout;
mod grow;
mod journal_damaged;
mod journal_lost;
mod journal_rot;
mod latent_sector_error;
mod lost_write;
mod metadata_rot;
mod metadata_rot_met;
mod misdirected_write;
mod no_space;
mod put_out;
mod rebuild;
mod rebuild_fails;
mod replace;
mod rot;
mod rot_met;
mod scrub;
mod slow;
mod slow_reads;
mod stall;
mod two_commands;

use crate::world::{Strike, Strikes, World};
use std::fmt;

/// A fault.
#[derive(Debug)]
pub struct Fault {
    /// The name that users type, and the file's name.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// Percent of the runs in which it occurs.
    pub percent: u32,
    /// Set if it is drawn from its own stream, so that adding it left the other faults unchanged.
    pub own_stream: bool,
    /// Begins a run, with its seed.
    pub start: fn(u64) -> Box<dyn Strike>,
}

impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Fault {}

/// Every fault.
pub static FAULTS: &[&Fault] = &[
    &dropout::FAULT,
    &latent_sector_error::FAULT,
    &put_out::FAULT,
    &rebuild::FAULT,
    &rebuild_fails::FAULT,
    &replace::FAULT,
    &rot::FAULT,
    &rot_met::FAULT,
    &scrub::FAULT,
    &slow::FAULT,
    &grow::FAULT,
    &journal_lost::FAULT,
    &stall::FAULT,
    &journal_rot::FAULT,
    &lost_write::FAULT,
    &misdirected_write::FAULT,
    &metadata_rot::FAULT,
    &journal_damaged::FAULT,
    &no_space::FAULT,
    &metadata_rot_met::FAULT,
    &two_commands::FAULT,
    &slow_reads::FAULT,
];

/// A fault without state.
struct Stateless(fn(&mut World) -> bool);

impl fmt::Debug for Stateless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stateless")
    }
}

impl Strike for Stateless {
    fn strike(&mut self, world: &mut World) -> bool {
        (self.0)(world)
    }
}

/// Begins a run with all faults.
pub(crate) fn start(seed: u64) -> Strikes {
    let faults = FAULTS.iter();
    faults
        .map(|fault| (fault.name, Some((fault.start)(seed))))
        .collect()
}

impl Fault {
    /// Returns the fault of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FAULTS.iter().find(|fault| fault.name == name).copied()
    }
}
