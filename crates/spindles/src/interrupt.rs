//! Ctrl-C, SIGTERM and SIGHUP: the first one asks the command to finish cleanly, a later one ends
//! it at once.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit status after a second Ctrl-C: 128 + SIGINT, as in shells.
const STATUS_INTERRUPTED: i32 = 130;

/// Signals within this time are one request: timeout(1) signals the process and then its group.
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// Returns a flag that Ctrl-C sets from now on, instead of ending the process. Call it once.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    call(move || seen.store(true, Ordering::SeqCst))?;
    Ok(flag)
}

/// Makes the first Ctrl-C call `first` from now on, instead of ending the process. Call it once.
pub(crate) fn call(first: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let asked: Cell<Option<Instant>> = Cell::new(None);
    #[expect(clippy::exit, reason = "a second press asks to end at once")]
    ctrlc::set_handler(move || {
        spindles_device::stop_waiting_for_space();
        match asked.get() {
            None => {
                asked.set(Some(Instant::now()));
                first();
            }
            Some(at) if at.elapsed() < ONE_REQUEST => {}
            Some(_) => {
                spindles_lab::remove_all();
                std::process::exit(STATUS_INTERRUPTED);
            }
        }
    })?;
    Ok(())
}
