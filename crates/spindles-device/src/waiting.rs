//! Messages about waits for a device in use, and a switch to stop waiting for space.

use crate::holders::{another_owner, holders};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shorter waits get no message.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

static REPORT: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that shows messages about waiting to the user, once for the whole process.
/// Later calls have no effect. Without such a function, waits are silent.
pub fn report_waits(report: fn(&str)) {
    REPORT.get_or_init(|| report);
}

static WAITS_FOR_SPACE: AtomicBool = AtomicBool::new(true);

/// Ends all waits for space in this process: from now on, writes fail at once if space runs out.
/// For a process that is asked to end.
pub fn stop_waiting_for_space() {
    WAITS_FOR_SPACE.store(false, Ordering::Relaxed);
}

/// Returns true if a write may wait for space.
pub fn waits_for_space() -> bool {
    WAITS_FOR_SPACE.load(Ordering::Relaxed)
}

/// Shows why a device waits, or that the wait is over.
pub(crate) fn tell(message: &str) {
    if let Some(report) = REPORT.get() {
        report(message);
    }
}

/// Shows that a device is in use, by which programs if known, and the limit of the wait.
pub(crate) fn show(device: &str, busy_timeout: Duration) {
    let Some(report) = REPORT.get() else {
        return;
    };
    let by = users(device).map_or_else(String::new, |users| format!(" by {users}"));
    let seconds = busy_timeout.as_secs();
    report(&format!(
        "{device} is in use{by}: waiting up to {seconds} s for it"
    ));
}

/// Describes the programs that have a device; `None` if unknown.
pub fn users(device: &str) -> Option<String> {
    let users = holders(&[device]).into_iter().filter_map(|user| {
        let pid = user.pid?;
        let owner = another_owner(pid).map(|owner| format!(" of {owner}"));
        let command = user.command.map(|command| format!(" ({command})"));
        let (owner, command) = (owner.unwrap_or_default(), command.unwrap_or_default());
        Some(format!("pid {pid}{owner}{command}"))
    });
    let users: Vec<String> = users.collect();
    (!users.is_empty()).then(|| users.join(" and by "))
}
