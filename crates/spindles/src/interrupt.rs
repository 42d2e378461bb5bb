//! Ctrl-C, SIGTERM and SIGHUP: the first asks the command to end in good order, the second ends it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after a second Ctrl-C: 128 + SIGINT, as shells have it.
const STATUS_INTERRUPTED: i32 = 130;

/// From now on Ctrl-C sets the flag that comes back, instead of ending the process. Call it once.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    call(move || seen.store(true, Ordering::SeqCst))?;
    Ok(flag)
}

/// From now on the first Ctrl-C calls this, instead of ending the process. Call it once.
pub(crate) fn call(first: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let seen = AtomicBool::new(false);
    #[expect(
        clippy::exit,
        reason = "whoever presses it twice does not want to wait"
    )]
    ctrlc::set_handler(move || {
        spindles_io::stop_waiting_for_space();
        if seen.swap(true, Ordering::SeqCst) {
            spindles_lab::remove_all();
            std::process::exit(STATUS_INTERRUPTED);
        }
        first();
    })?;
    Ok(())
}
