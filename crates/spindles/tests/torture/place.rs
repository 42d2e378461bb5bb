//! What torture does with a world besides: devices go away, and failures are values.

use crate::world::World;
use std::fs;

const AWAY: &str = ".away";

impl World {
    /// Takes a device away, or brings it back.
    pub(crate) fn carry(&self, name: &str, here: bool) {
        let (place, away) = (self.path(name), self.path(AWAY).join(name));
        let (from, to) = if here { (away, place) } else { (place, away) };
        drop(fs::create_dir(self.path(AWAY)));
        fs::rename(from, to).expect("it is where it was put");
    }

    /// Runs a command that must succeed. Returns its output.
    pub(crate) fn tries(&self, line: &str) -> Result<String, String> {
        let run = self.run(line);
        match run.status {
            0 => Ok(run.out),
            status => Err(format!("{line}: exit status {status}: {}", run.error)),
        }
    }
}
