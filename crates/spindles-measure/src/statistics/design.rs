//! The scatter that remains after removing the effects of blocks and systems: the error of a
//! randomised complete block design (Fisher). All systems of a workload contribute to it, so few
//! blocks are enough to show large differences.

use super::averages::{count, mean};
use super::distribution::student_t_two_sided;

/// The error of a block design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DesignError {
    /// Mean square that neither the block nor the system explains.
    pub mean_square: f64,
    /// Degrees of freedom.
    pub degrees: u32,
    /// Number of blocks.
    pub blocks: f64,
}

impl DesignError {
    /// Probability that the means of two equal systems differ this much.
    pub fn p_value(&self, difference: f64) -> f64 {
        let error = (2.0 * self.mean_square / self.blocks).sqrt();
        if error > 0.0 {
            student_t_two_sided(difference / error, self.degrees)
        } else if difference.abs() > 0.0 {
            0.0
        } else {
            1.0
        }
    }
}

/// Computes the error of a table with one row for each system and one column for each block. `None`
/// below two rows or columns, or if rows differ in length.
pub fn design_error(rows: &[Vec<f64>]) -> Option<DesignError> {
    let blocks = rows.first()?.len();
    if rows.len() < 2 || blocks < 2 || rows.iter().any(|row| row.len() != blocks) {
        return None;
    }
    let all = mean(&rows.concat());
    let columns: Vec<f64> = (0..blocks)
        .map(|block| mean(&rows.iter().map(|row| row[block]).collect::<Vec<f64>>()))
        .collect();
    let squares: f64 = rows
        .iter()
        .map(|row| {
            let own = mean(row);
            let left = row
                .iter()
                .zip(&columns)
                .map(|(value, column)| value - own - column + all);
            left.map(|rest| rest * rest).sum::<f64>()
        })
        .sum();
    let degrees = u32::try_from((rows.len() - 1) * (blocks - 1)).ok()?;
    Some(DesignError {
        mean_square: squares / f64::from(degrees),
        degrees,
        blocks: count(&columns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_and_system_effects_are_removed() {
        // System + block + a remainder whose rows and columns add up to nothing.
        let remainder = [[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]];
        let rows: Vec<Vec<f64>> = remainder
            .iter()
            .zip([10.0, 20.0, 5.0])
            .map(|(row, system)| {
                row.iter()
                    .zip([0.0, 7.0, -3.0])
                    .map(|(rest, block)| rest + system + block)
                    .collect()
            })
            .collect();
        let found = design_error(&rows).unwrap();
        assert_eq!(found.degrees, 4);
        assert!((found.mean_square - 1.0).abs() < 1e-12);
        let t = 3.0 / (2.0_f64 / 3.0).sqrt();
        assert!((found.p_value(3.0) - student_t_two_sided(t, 4)).abs() < 1e-12);
    }

    #[test]
    fn two_systems_equal_a_paired_test() {
        let rows = [vec![1.0, 2.0, 4.0, 3.0], vec![1.5, 2.1, 4.9, 3.3]];
        let differences: Vec<f64> = rows[1].iter().zip(&rows[0]).map(|(b, a)| b - a).collect();
        let paired = super::super::mean_of_blocks(&differences, 1);
        let found = design_error(&rows).unwrap();
        assert!((found.p_value(paired.value) - paired.p_value).abs() < 1e-9);
    }

    #[test]
    fn an_incomplete_table_has_no_design_error() {
        assert!(design_error(&[vec![1.0, 2.0], vec![1.0]]).is_none());
        assert!(design_error(&[vec![1.0], vec![1.0]]).is_none());
        assert!(design_error(&[]).is_none());
    }
}
