//! Says for whom it is waited, where somebody sits before a command that waits.

use crate::survey::holders;
use std::sync::OnceLock;
use std::time::Duration;

/// So long it is waited in silence.
pub(crate) const SILENCE: Duration = Duration::from_secs(1);

static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// Has the process told, from now on, what it waits for that does not come at once. The first that asks
/// is told.
pub fn tell_waits(tell: fn(&str)) {
    TELL.get_or_init(|| tell);
}

/// That a device is in use, by whom as far as that is known, and that it is waited for so long.
pub(crate) fn told(device: &str, patience: Duration) {
    let Some(tell) = TELL.get() else {
        return;
    };
    let users = holders(&[device]).into_iter().map(|user| {
        let pid = user
            .pid
            .map_or_else(String::new, |pid| format!(" by pid {pid}"));
        let command = user.command.map(|command| format!(" ({command})"));
        pid + &command.unwrap_or_default()
    });
    let users: Vec<String> = users.collect();
    let seconds = patience.as_secs();
    tell(&format!(
        "{device} is in use{}: waiting up to {seconds} s for it",
        users.join(" and")
    ));
}
