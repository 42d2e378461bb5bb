//! The spindle: its angle goes on with time, also while the drive is idle. An angle is a fraction
//! of a turn in units of 2^-64, so it wraps by itself.

/// Waits shorter than a turn by less than this are rounding errors of a sector that starts now.
const ROUNDING_NS: u64 = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Spindle {
    angle_per_ns: u64,
    turn_ps: u64,
    turn_ns: u64,
    start: u64,
}

impl Spindle {
    /// A spindle with this angle at time 0.
    pub(crate) fn new(rpm: f64, start: u64) -> Self {
        Self {
            angle_per_ns: crate::parameters::whole(18_446_744_073_709_551_616.0 * rpm / 60e9),
            turn_ps: crate::parameters::whole(60e12 / rpm),
            turn_ns: crate::parameters::whole(60e9 / rpm),
            start,
        }
    }

    /// The time until `angle` is under the head.
    pub(crate) fn wait_ns(&self, now: u64, angle: u64) -> u64 {
        let at = now.wrapping_mul(self.angle_per_ns).wrapping_add(self.start);
        let turned = u128::from(angle.wrapping_sub(at)) * u128::from(self.turn_ps);
        let wait = u64::try_from(turned >> 64).expect("at most a turn") / 1000;
        if wait + ROUNDING_NS >= self.turn_ns {
            0
        } else {
            wait
        }
    }

    /// The time of a sector of a track with this many, in femtoseconds.
    pub(crate) fn sector_fs(&self, sectors_per_track: u32) -> u64 {
        self.turn_ps * 1000 / u64::from(sectors_per_track)
    }
}

/// An angle from a number of turns.
pub(crate) fn angle(turns: f64) -> u64 {
    crate::parameters::whole((turns - turns.floor()) * 18_446_744_073_709_551_616.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_angle_goes_on_with_time() {
        let spindle = Spindle::new(6000.0, 0); // 10 ms a turn.
        let quarter = angle(0.25);
        assert_eq!(spindle.wait_ns(0, quarter), 2_500_000);
        assert!(spindle.wait_ns(2_500_000, quarter) < 2);
        assert!(spindle.wait_ns(2_500_100, quarter) < 2);
        let later = 86_400_000_000_000 + 1_000_000; // A day of whole turns, and 1 ms.
        assert!(spindle.wait_ns(later, quarter).abs_diff(1_500_000) < 10);
        assert_eq!(spindle.sector_fs(100), 100_000_000_000);
    }
}
