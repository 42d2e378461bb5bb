//! Ctrl-C, SIGTERM and SIGHUP: the first asks the command to end in good order, a later one ends it at once.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit status after a second Ctrl-C: 128 + SIGINT, as shells have it.
const STATUS_INTERRUPTED: i32 = 130;

/// One request may come as several signals: timeout(1) sends each to the process and then to its group.
const ONE_REQUEST: Duration = Duration::from_secs(1);

/// From now on Ctrl-C sets the flag that comes back, instead of ending the process. Call it once.
pub(crate) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    call(move || seen.store(true, Ordering::SeqCst))?;
    Ok(flag)
}

/// From now on the first Ctrl-C calls this, instead of ending the process. Call it once.
pub(crate) fn call(first: impl Fn() + Send + 'static) -> anyhow::Result<()> {
    let asked: Cell<Option<Instant>> = Cell::new(None);
    #[expect(
        clippy::exit,
        reason = "whoever presses it twice does not want to wait"
    )]
    ctrlc::set_handler(move || {
        spindles_io::stop_waiting_for_space();
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
