//! A thread that reconnects while the array stays in use.

use super::link::{Link, Terms, connect};
use super::rest::Rest;
use super::route::Route;
use crate::at_rest::AtRest as _;
use rustix::event::{EventfdFlags, eventfd};
use spindles_format::{SLOT_BYTES, SUPERBLOCK_BYTES};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// Contents of an export's superblock slots, which identify the export after a reconnection. `None`
/// if unknown.
pub(super) type Pages = [Option<Box<[u8]>>; SLOT_BYTES.len()];

/// Reads the superblock slots of the part that begins at `start_bytes`.
pub(super) fn pages(link: Link, start_bytes: u64, timeout: Duration) -> io::Result<(Link, Pages)> {
    let rest = Rest::new(link, timeout);
    let mut pages = Pages::default();
    for (page, slot) in pages.iter_mut().zip(SLOT_BYTES) {
        let slot = start_bytes + slot;
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        match rest.read(&mut bytes, slot) {
            Ok(()) => *page = Some(bytes.into()),
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
            Err(_) if rest.bytes()? < slot + u64::try_from(SUPERBLOCK_BYTES).expect("4096") => {}
            Err(error) => return Err(error),
        }
    }
    Ok((rest.into_link(), pages))
}

/// The new connection, or the reason for the failure.
pub(super) type Outcome = Result<Link, String>;

/// Attempts to reconnect, in progress.
#[derive(Debug)]
pub(super) struct Reconnection {
    outcome: Receiver<Outcome>,
    /// Ready once the outcome is known.
    wake: OwnedFd,
    ends: Arc<AtomicBool>,
}

/// The export to find again.
#[derive(Debug)]
pub(super) struct Sought {
    pub(super) route: Route,
    pub(super) terms: Terms,
    pub(super) start_bytes: u64,
    pub(super) pages: Pages,
    /// How long to try.
    pub(super) timeout: Duration,
}

impl Reconnection {
    pub(super) fn begin(sought: Sought) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (sender, outcome) = channel();
        let ends = Arc::new(AtomicBool::new(false));
        let waker = wake.try_clone()?;
        let asked_to_end = Arc::clone(&ends);
        std::thread::Builder::new()
            .name("spindles-nbd".to_owned())
            .spawn(move || {
                attempt(&sought, &sender, &asked_to_end);
                // The `Reconnection` may be dropped already.
                rustix::io::write(&waker, &[1; 8]).ok();
            })?;
        Ok(Self {
            outcome,
            wake,
            ends,
        })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.wake.as_raw_fd()
    }

    /// Returns the outcome; `None` while attempts go on.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("no further attempt is made".to_owned())),
        }
    }
}

impl Drop for Reconnection {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn attempt(sought: &Sought, sender: &Sender<Outcome>, ends: &AtomicBool) {
    let until = Instant::now() + sought.timeout;
    let outcome = loop {
        let outcome = find(sought, until);
        let is_over = Instant::now() + PAUSE >= until || ends.load(Ordering::Relaxed);
        match outcome {
            Err(Lost::ForNow(_)) if !is_over => std::thread::sleep(PAUSE),
            Err(Lost::ForNow(why) | Lost::ForGood(why)) => break Err(why),
            Ok(link) => break Ok(link),
        }
    };
    drop(sender.send(outcome));
}

enum Lost {
    ForNow(String),
    ForGood(String),
}

/// Connects, and checks that the export has compatible terms and the same superblocks as before.
fn find(sought: &Sought, until: Instant) -> Result<Link, Lost> {
    let link = connect(&sought.route, until).map_err(Lost::ForNow)?;
    if let Some(how) = link.terms.differ(&sought.terms) {
        return Err(Lost::ForGood(how.to_owned()));
    }
    let left = until.saturating_duration_since(Instant::now());
    let (link, pages) =
        pages(link, sought.start_bytes, left).map_err(|error| Lost::ForNow(error.to_string()))?;
    let mut both = pages.iter().zip(&sought.pages);
    let same = both.all(|(now, before)| before.is_none() || now == before);
    if same {
        Ok(link)
    } else {
        Err(Lost::ForGood(
            "it does not hold what it held before".to_owned(),
        ))
    }
}
