//! Makes a failing run smaller: fewer sessions, requests and faults, while the same checker still
//! fails.

use crate::options::Options;
use crate::run::run;

/// Most runs tried.
const TRIES_MAX: u32 = 400;

/// Returns the smallest failing run that is found by leaving things out. Returns the run itself if
/// it does not fail.
pub fn shrink(options: &Options) -> Options {
    let mut best = options.clone();
    let Some(failure) = run(&best, false).failure else {
        return best;
    };
    let sessions = usize::try_from(failure.session).expect("few") + 1;
    let mut tries = 0;
    let mut fails = |candidate: &Options| {
        tries += 1;
        tries <= TRIES_MAX
            && run(candidate, false)
                .failure
                .is_some_and(|found| found.checker == failure.checker)
    };
    let mut attempt = |best: &mut Options, change: &dyn Fn(&mut Options)| {
        let mut candidate = best.clone();
        change(&mut candidate);
        let better = fails(&candidate);
        if better {
            *best = candidate;
        }
        better
    };
    attempt(&mut best, &|run| run.sessions.truncate(sessions));
    for index in (0..best.sessions.len()).rev() {
        attempt(&mut best, &|run| {
            run.sessions.remove(index);
        });
    }
    attempt(&mut best, &|run| run.depth = 1);
    attempt(&mut best, &|run| run.request_blocks_max = 1);
    for index in 0..best.sessions.len() {
        for fault in (0..best.sessions[index].faults.len()).rev() {
            attempt(&mut best, &|run| {
                run.sessions[index].faults.remove(fault);
            });
        }
        // Reduce the number of requests in ever smaller steps.
        let mut bite = best.sessions[index].requests / 2;
        while bite > 0 {
            let fits = best.sessions[index].requests > bite;
            let smaller = attempt(&mut best, &|run| {
                let session = &mut run.sessions[index];
                session.requests -= if fits { bite } else { 0 };
            });
            if !(fits && smaller) {
                bite /= 2;
            }
        }
    }
    best
}
