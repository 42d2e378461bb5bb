//! Seek curves: the time of a move of the arm, by its distance in cylinders.

use crate::parameters::ns;

/// A seek curve as a table of all distances; distance 0 takes no time.
#[derive(Debug)]
pub(crate) struct Seeks {
    ns: Vec<u32>,
}

impl Seeks {
    fn from(cylinders: u32, ms: impl Fn(u32) -> f64) -> Self {
        let longest = u64::from(u32::MAX);
        let time = |distance: u32| {
            let ns = if distance == 0 { 0 } else { ns(ms(distance)) };
            u32::try_from(ns.min(longest)).expect("bounded above")
        };
        Self {
            ns: (0..cylinders.max(1)).map(time).collect(),
        }
    }

    /// Straight lines between measured points; before the first and after the last a constant.
    pub(crate) fn from_points(cylinders: u32, points: &[(u32, f64)]) -> Self {
        Self::from(cylinders, |distance| {
            let after = points.partition_point(|point| point.0 < distance);
            let Some(&(right, right_ms)) = points.get(after) else {
                return points.last().map_or(0.0, |last| last.1);
            };
            let Some(&(left, left_ms)) = after.checked_sub(1).map(|before| &points[before]) else {
                return right_ms;
            };
            let part = f64::from(distance - left) / f64::from(right - left);
            left_ms + (right_ms - left_ms) * part
        })
    }

    /// Two pieces: `root[0] + root[1] * sqrt(d)` below the knee, `line[0] + line[1] * d` from it.
    pub(crate) fn from_two_pieces(
        cylinders: u32,
        knee: f64,
        root: [f64; 2],
        line: [f64; 2],
    ) -> Self {
        Self::from(cylinders, |distance| {
            let distance = f64::from(distance);
            if distance < knee {
                root[0] + root[1] * distance.sqrt()
            } else {
                line[0] + line[1] * distance
            }
        })
    }

    /// The published numbers: one cylinder, the average of random seeks, and the full stroke.
    /// `a * sqrt(d - 1) + b * (d - 1) + one` (Lee and Katz 1993) has this average to 1 %. If the
    /// numbers bend it downwards, two straight lines through a third of the stroke replace it.
    pub(crate) fn from_published(cylinders: u32, one: f64, average: f64, full: f64) -> Self {
        let count = f64::from(cylinders.max(2));
        let root = (-10.0 * one + 15.0 * average - 5.0 * full) / (3.0 * count.sqrt());
        let line = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * count);
        if root >= 0.0 && line >= 0.0 {
            return Self::from(cylinders, |distance| {
                let moved = f64::from(distance) - 1.0;
                one + root * moved.sqrt() + line * moved
            });
        }
        let third = (cylinders / 3).max(2);
        let last = (cylinders - 1).max(third + 1);
        Self::from_points(cylinders, &[(1, one), (third, average), (last, full)])
    }

    /// The number of cylinders.
    pub(crate) fn cylinders(&self) -> u64 {
        u64::try_from(self.ns.len()).expect("64 bits")
    }

    pub(crate) fn ns(&self, distance: u32) -> u64 {
        let index = usize::try_from(distance).expect("32 bits");
        self.ns[index.min(self.ns.len() - 1)].into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::float;

    /// The average of seeks between random cylinders, in milliseconds.
    fn average_ms(seeks: &Seeks) -> f64 {
        let count = float(seeks.cylinders());
        let times = (0..seeks.cylinders()).map(|distance| {
            let ns = seeks.ns(u32::try_from(distance).unwrap());
            float(ns) * 2.0 * (count - float(distance)) / (count * count)
        });
        times.sum::<f64>() / 1e6
    }

    #[test]
    fn points_are_joined_by_straight_lines() {
        let seeks = Seeks::from_points(101, &[(1, 1.0), (11, 2.0), (100, 4.0)]);
        let at = [0, 1, 6, 11, 100].map(|distance| seeks.ns(distance));
        assert_eq!(at, [0, 1_000_000, 1_500_000, 2_000_000, 4_000_000]);
    }

    #[test]
    fn published_numbers_come_out_again() {
        let seeks = Seeks::from_published(4000, 1.0, 8.0, 17.0);
        assert_eq!(seeks.ns(1), 1_000_000);
        assert!(
            (average_ms(&seeks) - 8.0).abs() < 0.08,
            "{}",
            average_ms(&seeks)
        );
        assert!(seeks.ns(3999).abs_diff(17_000_000) < 20_000);
        let two = Seeks::from_two_pieces(1000, 100.0, [1.0, 0.1], [1.5, 0.005]);
        assert_eq!([two.ns(25), two.ns(100)], [1_500_000, 2_000_000]);
    }
}
