//! The frames between controller and agent: a length of 32 bits, little-endian, and this many bytes
//! of JSON. Lengths are bounded.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use spindles_measure::{Histogram, LinkUse, Run, Traffic};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The version of this protocol. Both ends must have the same.
pub(super) const VERSION: u32 = 4;

/// The longest frame, in bytes: results contain histograms of every operation.
const FRAME_BYTES_MAX: u32 = 16 << 20;
/// How long a silent peer is presumed alive.
pub(super) const SILENCE: Duration = Duration::from_secs(15);

/// A message of the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Asks for the agent's time.
    Ping,
    /// Answers `Alive`: the controller is alive, too.
    Here,
    /// Prepare this task.
    Prepare { task: Task },
    /// Get ready for a part of the task, up to its first operation.
    Arm { part: usize },
    /// Begin at this time on the agent's clock.
    Start { at_ns: u64 },
}

/// A message of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// The first message.
    Hello(Hello),
    /// Answers `Ping` with the time on the agent's clock.
    Pong { now_ns: u64 },
    /// Answers `Prepare`.
    Prepared,
    /// Answers `Arm`.
    Armed,
    /// Sent each second, with the figures of the part so far.
    Alive { so_far: SoFar },
    /// Answers `Start`, right after the last operation of the part.
    Ended,
    /// Follows `Ended`, with the result.
    Done { done: Box<Done> },
    /// A request failed. Last message.
    Failed { why: String },
}

/// An agent introduces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) cpus: u32,
    /// The controller's address, as seen from the node.
    pub(super) controller: Option<IpAddr>,
}

/// A task for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    /// One stream of a copy.
    Copy(CopyTask),
    /// A workload on files in a folder of its own.
    Files {
        /// The workload.
        kind: String,
        /// The workload's parameters, in text form.
        parameters: BTreeMap<String, String>,
        /// Random seed.
        seed: u64,
        /// True if caches are emptied before each phase.
        empty_caches: bool,
    },
    /// fio on a file of its own, or on one of the agent's devices.
    Fio {
        /// fio's options, by name.
        options: BTreeMap<String, String>,
        /// The device; `None` for a file.
        device: Option<String>,
    },
}

/// Admits one stream of a copy.
pub(super) type Ticket = [u8; 32];

/// One stream of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is chosen by itself")]
pub(super) struct CopyTask {
    /// Where the server accepts data connections: `10.0.0.1:40123`.
    pub(super) server: String,
    /// Sent first on the data connection, so that the server accepts it.
    pub(super) ticket: Ticket,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// True if the data goes to the server.
    pub(super) writes: bool,
    /// True if this end uses a file, otherwise memory.
    pub(super) disk: bool,
    /// True if a written file is made durable, at whichever end.
    pub(super) fsync: bool,
    /// Seed of the contents.
    pub(super) seed: u64,
    /// True if caches are emptied before the file is read.
    pub(super) empty_caches: bool,
}

/// The figures so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SoFar {
    pub(super) operations: u64,
    pub(super) bytes: Traffic,
    pub(super) latency: BTreeMap<String, Histogram>,
}

/// The result of a part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Done {
    /// Begin of its first operation, on the agent's clock.
    pub(super) begin_ns: u64,
    /// End of its last operation, on the agent's clock.
    pub(super) end_ns: u64,
    /// Its figures. The controller fills in the system and the workload.
    pub(super) run: Run,
    /// Traffic of the interface to the controller.
    pub(super) link: Option<LinkUse>,
}

/// Why a frame could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    /// The pipe ended between frames.
    #[error("the connection was closed")]
    Closed,
    /// The pipe ended within a frame.
    #[error("the connection broke: {}", in_words(.0))]
    Broken(io::Error),
    /// The frame is too long.
    #[error("it sent {0} bytes at once, more than {FRAME_BYTES_MAX}: {SAME}")]
    TooLong(u32),
    /// The frame is no known message.
    #[error("it sent an unknown message, {0}: {SAME}")]
    Unknown(serde_json::Error),
}

/// The remedy if the two ends misunderstand each other.
pub(super) const SAME: &str = "install the same version on both machines";

/// Describes an error of a connection in words for administrators.
pub(super) fn in_words(error: &io::Error) -> String {
    use io::ErrorKind::{
        BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof,
        WouldBlock,
    };
    match error.kind() {
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected => {
            "the other end closed it".to_owned()
        }
        TimedOut | WouldBlock => "the other end no longer answers".to_owned(),
        _ => error.to_string(),
    }
}

/// Sends a frame.
pub(super) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = u32::try_from(frame.len() - 4).ok();
    let length = length.filter(|length| *length <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a frame is too long"))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&frame)
}

/// The writing end of a pipe. Fails if the reader takes nothing for [`SILENCE`].
#[derive(Debug)]
pub(super) struct Outlet(File);

/// A pipe that `poll` calls writable takes this many bytes without waiting.
const PIPE_BYTES: usize = 4096;

impl Outlet {
    pub(super) fn new(pipe: impl Into<OwnedFd>) -> Self {
        Self(File::from(pipe.into()))
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wait = Timespec::try_from(SILENCE).expect("a few seconds");
        let mut fds = [PollFd::new(&self.0, PollFlags::OUT)];
        match poll(&mut fds, Some(&wait))? {
            0 => Err(io::ErrorKind::TimedOut.into()),
            _ => self.0.write(&bytes[..bytes.len().min(PIPE_BYTES)]),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Receives a frame. Allocates memory only for bytes that have arrived.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> Result<T, WireError> {
    let mut length = [0; 4];
    match from.read(&mut length[..1]) {
        Ok(0) => return Err(WireError::Closed),
        Ok(_) => {}
        Err(error) => return Err(WireError::Broken(error)),
    }
    from.read_exact(&mut length[1..])
        .map_err(WireError::Broken)?;
    let bytes = u32::from_le_bytes(length);
    if bytes > FRAME_BYTES_MAX {
        return Err(WireError::TooLong(bytes));
    }
    let mut frame = Vec::new();
    let whole = from.take(bytes.into()).read_to_end(&mut frame);
    let whole = whole.map_err(WireError::Broken)?;
    if u32::try_from(whole).ok() != Some(bytes) {
        return Err(WireError::Broken(io::ErrorKind::UnexpectedEof.into()));
    }
    serde_json::from_slice(&frame).map_err(WireError::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: u32, text: &str) -> Vec<u8> {
        [&length.to_le_bytes()[..], text.as_bytes()].concat()
    }

    fn read(bytes: &[u8]) -> Result<Request, WireError> {
        receive(&mut &*bytes)
    }

    #[test]
    fn frames_round_trip() {
        let mut run = Run::default();
        let mut latency = Histogram::new();
        latency.record(7);
        run.latency.insert("read".to_owned(), latency);
        let replies = [
            Reply::Prepared,
            Reply::Done {
                done: Box::new(Done {
                    end_ns: u64::MAX,
                    run,
                    ..Done::default()
                }),
            },
        ];
        let mut bytes = Vec::new();
        for reply in &replies {
            send(&mut bytes, reply).unwrap();
        }
        let mut from = &bytes[..];
        for reply in replies {
            let read: Reply = receive(&mut from).unwrap();
            assert_eq!(read, reply);
        }
        let end = receive::<Reply>(&mut from);
        assert!(matches!(end, Err(WireError::Closed)), "{end:?}");
    }

    #[test]
    fn malformed_frames_are_refused() {
        let good = "\"ping\"";
        assert_eq!(read(&frame(6, good)).unwrap(), Request::Ping);
        let long = FRAME_BYTES_MAX + 1;
        for (bytes, words) in [
            (
                frame(long, good),
                "16777217 bytes at once, more than 16777216",
            ),
            (frame(u32::MAX, ""), "more than"),
            (frame(7, good), "broke"),
            (frame(6, good)[..3].to_vec(), "broke"),
            (frame(5, good), "unknown message"),
            (frame(0, ""), "unknown message"),
            (frame(8, "\"gossip\""), "unknown message"),
            (frame(2, "\u{7ff}"), "unknown message"),
            (Vec::new(), "closed"),
        ] {
            let error = read(&bytes).unwrap_err().to_string();
            assert!(error.contains(words), "{bytes:?}: {error}");
        }
    }
}
