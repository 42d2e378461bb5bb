//! A process that a door depends on, as the server sees it: whether it is still there, and what is lost with it.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::Timespec;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::process::Child;
use std::sync::Arc;

/// A descriptor of the process, which is ready to be read from when that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    process: Arc<OwnedFd>,
    /// For people: what does not work without it, and what to do then.
    loss: String,
}

impl Guard {
    /// Of a process that nobody has waited for yet.
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

    /// What is lost, if it has ended.
    pub(crate) fn loss(&self) -> Option<String> {
        let mut polled = [PollFd::new(&*self.process, PollFlags::IN)];
        let ready = poll(&mut polled, Some(&Timespec::default()));
        ready
            .is_ok_and(|ready| ready > 0)
            .then(|| self.loss.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn it_is_known_when_a_process_has_ended() {
        let mut sleep = Command::new("sleep");
        let mut process = sleep.arg("600").spawn().expect("it starts");
        let guard = Guard::new(&process, "nobody unmounts it".to_owned()).expect("it runs");
        assert_eq!(guard.loss(), None);
        process.kill().expect("it runs");
        process.wait().expect("it ends");
        assert_eq!(guard.loss().as_deref(), Some("nobody unmounts it"));
    }
}
