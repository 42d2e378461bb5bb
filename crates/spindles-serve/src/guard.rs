//! Watches a process that a transport depends on, and reports what is lost when it ends.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

/// A process file descriptor, which becomes readable when the process ends.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    process: Arc<OwnedFd>,
    /// Message: what no longer works without the process, and what to do about it.
    loss: String,
}

impl Guard {
    /// Watches a child process that has not been waited for yet.
    pub(crate) fn new(process: &Child, loss: String) -> io::Result<Self> {
        let process = pidfd_open(Pid::from_child(process), PidfdFlags::empty())?;
        Ok(Self {
            process: Arc::new(process),
            loss,
        })
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.process.as_raw_fd()
    }

    /// Returns the message if the process has ended.
    pub(crate) fn loss(&self) -> Option<String> {
        let has_ended = is_readable(&self.process, Duration::ZERO);
        has_ended
            .is_ok_and(|ended| ended)
            .then(|| self.loss.clone())
    }
}

/// Waits until a child process ends, for at most `most`. Returns true if it has ended.
pub(crate) fn ends_within(child: &Child, most: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    is_readable(&process, most)
}

fn is_readable(descriptor: &OwnedFd, most: Duration) -> io::Result<bool> {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    let most = Timespec::try_from(most).map_err(io::Error::other)?;
    Ok(poll(&mut polled, Some(&most))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_guard_detects_the_end_of_a_process() {
        let mut sleep = Command::new("sleep");
        let mut process = sleep.arg("600").spawn().expect("it starts");
        let guard = Guard::new(&process, "the mount stays".to_owned()).expect("it runs");
        assert_eq!(guard.loss(), None);
        process.kill().expect("it runs");
        process.wait().expect("it ends");
        assert_eq!(guard.loss().as_deref(), Some("the mount stays"));
    }
}
