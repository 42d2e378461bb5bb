//! Speed of jobs: progress over the last half minute, sampled at every tick of the server.

use crate::numbers::JobPace;
use spindles_array::ArraySnapshot;
use std::time::{Duration, Instant};

/// Speed is measured from the sample before the last one; samples are at least this long apart.
const LOOK_INTERVAL: Duration = Duration::from_secs(15);

/// The speeds of all running jobs.
#[derive(Debug, Default)]
pub(crate) struct Paces(Vec<Pace>);

/// A job, and three samples of its progress.
#[derive(Debug)]
struct Pace {
    array: String,
    job: &'static str,
    before: Look,
    last: Look,
    now: Look,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Instant,
    done_bytes: u64,
}

impl Paces {
    /// Samples all running jobs, and forgets those that have ended.
    pub(crate) fn look(&mut self, arrays: &[ArraySnapshot], at: Instant) {
        let mut before = std::mem::take(&mut self.0);
        for array in arrays {
            for job in array.status.jobs.iter().filter(|job| job.going) {
                let now = Look {
                    at,
                    done_bytes: job.done_bytes,
                };
                let is_it = |pace: &Pace| {
                    pace.array == array.name
                        && pace.job == job.name
                        // Not a job that has restarted.
                        && pace.now.done_bytes <= now.done_bytes
                };
                let known = before.iter().position(is_it);
                let known = known.map(|position| before.swap_remove(position));
                self.0.push(match known {
                    Some(pace) => pace.looked(now),
                    None => Pace {
                        array: array.name.clone(),
                        job: job.name,
                        before: now,
                        last: now,
                        now,
                    },
                });
            }
        }
    }

    /// Returns the speeds of jobs that are still running and were sampled more than once.
    pub(crate) fn known(&self, arrays: &[ArraySnapshot]) -> Vec<JobPace> {
        let is_going = |pace: &&Pace| {
            let array = arrays.iter().find(|array| array.name == pace.array);
            array.is_some_and(|array| array.status.job(pace.job).is_some_and(|job| job.going))
        };
        let going = self.0.iter().filter(is_going);
        going.filter_map(Pace::known).collect()
    }
}

impl Pace {
    fn looked(self, now: Look) -> Self {
        if now.at.duration_since(self.last.at) < LOOK_INTERVAL {
            return Self { now, ..self };
        }
        Self {
            before: self.last,
            last: now,
            now,
            ..self
        }
    }

    fn known(&self) -> Option<JobPace> {
        let elapsed = self.now.at.duration_since(self.before.at).as_millis();
        let bytes = self.now.done_bytes - self.before.done_bytes;
        let bytes_per_s = (u128::from(bytes) * 1000).checked_div(elapsed)?;
        Some(JobPace {
            array: self.array.clone(),
            job: self.job,
            bytes_per_s: u64::try_from(bytes_per_s).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spindles_admin::Uuid;
    use spindles_engine::{ArrayState, JobStatus, JournalStatus, ScrubStatus, Status};

    fn array(done_bytes: u64) -> ArraySnapshot {
        let job = JobStatus {
            name: "scrub",
            going: true,
            done_bytes,
            total_bytes: 1 << 30,
            failed: 0,
            mismatches: 0,
            rate: 0,
        };
        let status = Status {
            state: ArrayState::Healthy,
            stopped_writing: false,
            survives_more: 1,
            members: Vec::new(),
            generation: 1,
            dirty: false,
            jobs: vec![job],
            lost_blocks: 0,
            left_blocks: 0,
            journal: JournalStatus::None,
            stage: None,
            growth: None,
            scrub: ScrubStatus::default(),
            regions: None,
        };
        ArraySnapshot {
            name: "pool".to_owned(),
            uuid: Uuid::NIL,
            bytes: 1 << 30,
            block_bytes: 4096,
            last_scrub_s: 0,
            status,
            members: Vec::new(),
            replacing: None,
            journal: None,
        }
    }

    #[test]
    fn a_pace_covers_the_last_half_minute() {
        let mut paces = Paces::default();
        let begun = Instant::now();
        let mut pace_at = |seconds: u64, done_bytes: u64| {
            let arrays = [array(done_bytes)];
            paces.look(&arrays, begun + Duration::from_secs(seconds));
            let known = paces.known(&arrays);
            known.first().map(|pace| pace.bytes_per_s)
        };
        assert_eq!(pace_at(0, 0), None);
        assert_eq!(pace_at(2, 200), Some(100));
        assert_eq!(pace_at(15, 1500), Some(100));
        // The job became slower: after half a minute only the new speed is visible.
        assert_eq!(pace_at(29, 1640), Some(56));
        assert_eq!(pace_at(30, 1650), Some(10));
        // The job restarted.
        assert_eq!(pace_at(47, 0), None);
    }
}
