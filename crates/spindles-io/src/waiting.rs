//! Messages about waiting: which device is in use, and by whom; and an end to waiting for space.

use crate::holders::{another_owner, holders};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A shorter wait is not worth a message.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

static REPORT: OnceLock<fn(&str)> = OnceLock::new();

/// Sets the function that shows messages about waiting to the user, once for the whole process: later
/// calls change nothing. Without one, waits are silent.
pub fn report_waits(report: fn(&str)) {
    REPORT.get_or_init(|| report);
}

static WAITS_FOR_SPACE: AtomicBool = AtomicBool::new(true);

/// From here on no write of this process waits for somebody to free space where its device lies: for a
/// process that is asked to end.
pub fn stop_waiting_for_space() {
    WAITS_FOR_SPACE.store(false, Ordering::Relaxed);
}

/// Whether a write may wait for space.
pub(crate) fn waits_for_space() -> bool {
    WAITS_FOR_SPACE.load(Ordering::Relaxed)
}

/// Shows what a device is waited for, or that it is not any more.
pub(crate) fn tell(message: &str) {
    if let Some(report) = REPORT.get() {
        report(message);
    }
}

/// Shows that a device is in use, by whom as far as that is known, and how long it is waited for at most.
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

/// Who has a device, for people; `None` where that can't be known.
pub(crate) fn users(device: &str) -> Option<String> {
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
