//! Derives a run's rate over time from its slots, and tests whether it became steady.

use crate::histogram::to_f64;
use crate::statistics::{Steady, WINDOW, mean, steady};
use crate::{Rate, Run, Slot};

/// Shortest last slot that counts as complete, as a fraction of a slot.
const WHOLE_MIN: f64 = 0.98;

impl Run {
    /// Rate per second of each complete slot, warm-up included, in the unit of the workload's
    /// `rate`. Empty without a series. Leaves out a last slot that the end of the run cut off.
    pub fn rates_over_time(&self) -> Vec<f64> {
        let Some(series) = self.series.as_ref().filter(|series| series.slot_ns > 0) else {
            return Vec::new();
        };
        let amount = |slot: &Slot| match self.workload.rate {
            Rate::Bytes => slot.bytes.total(),
            Rate::Operations => slot.operations,
        };
        let moved = match self.workload.rate {
            Rate::Bytes => self.application.total(),
            Rate::Operations => self.operations,
        };
        // A rewrite moves its bytes twice and counts them once.
        let counts = if moved == 0 {
            1.0
        } else {
            to_f64(self.counted) / to_f64(moved)
        };
        let seconds = to_f64(series.slot_ns) / 1e9;
        let mut rates: Vec<f64> = (series.slots.iter())
            .map(|slot| to_f64(amount(slot)) * counts / seconds)
            .collect();
        let warm_up = u64::from(series.warm_up_slots).saturating_mul(series.slot_ns);
        let slots = to_f64(warm_up.saturating_add(self.elapsed_ns)) / to_f64(series.slot_ns);
        let count = u32::try_from(rates.len()).unwrap_or(u32::MAX);
        if slots < f64::from(count.saturating_sub(1)) + WHOLE_MIN {
            rates.pop();
        }
        rates
    }

    /// SNIA's steady state within a timed run: its window without warm-up, in five rounds of equal
    /// length. `None` if the run has no set duration or fewer than five slots.
    pub fn steady_over_time(&self) -> Option<Steady> {
        let warm_up = self.series.as_ref()?.warm_up_slots;
        let rates = self.rates_over_time();
        let timed = rates.get(usize::try_from(warm_up).ok()?..)?;
        if self.workload.duration_ns == 0 {
            return None;
        }
        let round = timed.len() / WINDOW;
        if round == 0 {
            return None;
        }
        // The first slots are dropped if the rounds don't divide evenly.
        let rounds: Vec<f64> = (timed[timed.len() - round * WINDOW..].chunks(round))
            .map(mean)
            .collect();
        steady(&rounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Series, Traffic, Workload};

    /// A run with slots of 100 ms and this many MB in each.
    fn run(warm_up_slots: u32, slots: &[u64]) -> Run {
        let timed = u64::try_from(slots.len()).unwrap() - u64::from(warm_up_slots);
        let read: u64 = slots[usize::try_from(warm_up_slots).unwrap()..]
            .iter()
            .sum();
        Run {
            workload: Workload {
                duration_ns: timed * 100_000_000,
                ..Workload::default()
            },
            elapsed_ns: timed * 100_000_000,
            counted: read * 1_000_000,
            application: Traffic::of_reads(read * 1_000_000),
            series: Some(Series {
                slot_ns: 100_000_000,
                warm_up_slots,
                slots: (slots.iter())
                    .map(|&read| Slot {
                        operations: read,
                        bytes: Traffic::of_reads(read * 1_000_000),
                        ..Slot::default()
                    })
                    .collect(),
            }),
            ..Run::default()
        }
    }

    #[test]
    fn rates_follow_the_slots_without_a_truncated_one() {
        let mut run = run(1, &[5, 10, 20]);
        assert_eq!(run.rates_over_time(), [5e7, 1e8, 2e8]);
        // The run ended in the middle of the last slot.
        run.elapsed_ns -= 50_000_000;
        assert_eq!(run.rates_over_time(), [5e7, 1e8]);
        // Bytes that move twice but count once.
        run.counted /= 2;
        assert_eq!(run.rates_over_time(), [2.5e7, 5e7]);
        run.series = None;
        assert!(run.rates_over_time().is_empty() && run.steady_over_time().is_none());
    }

    #[test]
    fn steady_state_excludes_the_warm_up() {
        let steady = |warm_up, slots: &[u64]| run(warm_up, slots).steady_over_time();
        let slots = [900, 900, 100, 101, 99, 100, 100, 101, 99, 100];
        assert!(steady(2, &slots).unwrap().holds());
        assert!(!steady(0, &slots).unwrap().holds());
        assert!(steady(0, &slots[..4]).is_none());
        let mut until_done = run(2, &slots);
        until_done.workload.duration_ns = 0;
        assert!(until_done.steady_over_time().is_none());
    }
}
