//! Alarms of a server, with the commands that help.

use spindles_admin::scan::shell_word;
use spindles_serve::{Alarm, Remedy};

/// Returns an alarm whose message has the remedy too.
pub(crate) fn advised(alarm: &Alarm) -> Alarm {
    let mut advised = alarm.clone();
    if let Some(Remedy::ListLost(array)) = &alarm.remedy {
        let (message, array) = (&alarm.message, shell_word(array));
        advised.message = format!("{message}; `spindles examine {array}` lists the places");
    }
    advised
}
