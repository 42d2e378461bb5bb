//! The control socket receives operations and returns their reports, one JSON document a line.
//! docs/guide/administration.md describes the format.

use crate::left_behind::{self, Fleeting};
use crate::listening::next_client;
use crate::under_way::UnderWay;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::process::umask;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spindles_device::sockets::{connect_to, is_full, is_stopped, process_behind};
use std::error::Error;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The version of the protocol. It grows when an operation or a field changes its meaning, or when
/// a document gets a field that is always there.
pub const VERSION: u32 = 2;
/// Most operations in progress at once; further ones wait.
pub const OPERATIONS_MAX: usize = 32;
/// A waiting operation is refused if none has begun or ended for this long.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// Longest request, in bytes.
pub const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// Socket time limit: a peer that neither sends its request nor reads answers for this long is
/// dropped.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Interval between the server's signs of life during a command, if the client asks for them.
const ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// How long a command waits for one line of its server.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a command waits for its server after asking it to end.
const END_MAX: Duration = Duration::from_secs(10);
/// How long a command that wants a quick answer waits for a busy server.
const ANSWER_MAX: Duration = Duration::from_mins(1);
/// Interval between two checks of a silent server.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// A request: an operation on an array.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Request<O> {
    /// The version of the protocol.
    pub version: u32,
    /// The UUID of the array.
    pub array: String,
    /// The operation.
    pub operation: O,
    /// The command line for the server's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// True if the client gives up on a silent server, and wants signs of life.
    #[serde(default)]
    pub alive: bool,
}

/// Why a server takes no request from a client.
#[derive(Debug)]
pub enum BadRequest {
    /// The line is longer than [`REQUEST_BYTES_MAX`].
    TooLong,
    /// The line is no request.
    Invalid(serde_json::Error),
    /// The line has the words of a command line, as clients before version 2 sent them.
    CommandLine,
    /// The client speaks this version of the protocol.
    Version(u64),
    /// The server performs [`OPERATIONS_MAX`] operations at once.
    Busy,
}

/// The result of an operation.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report<D> {
    /// The exit status.
    pub status: u8,
    /// The error that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The device that was not found, if that is the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Its values, in the form of `--json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document: Option<D>,
}

impl<D> Report<D> {
    /// Converts the values.
    pub fn map<T>(self, convert: impl FnOnce(D) -> T) -> Report<T> {
        Report {
            status: self.status,
            error: self.error,
            absent: self.absent,
            document: self.document.map(convert),
        }
    }
}

/// An answer before the report of an operation.
#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Answer {
    /// A part of the result, for people.
    Text {
        /// The text.
        text: String,
    },
    /// A remark or an error message.
    Note {
        /// The text.
        note: String,
    },
    /// Progress of a job.
    Progress {
        /// Name of the job.
        progress: String,
        /// Bytes done.
        done_bytes: u64,
        /// Total bytes.
        total_bytes: u64,
    },
    /// A sign of life.
    Alive {
        /// Always true.
        alive: bool,
    },
}

/// A line of a server.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line<D> {
    Answer(Answer),
    End(Report<D>),
}

/// The answers to a client. Answers to a disconnected client are dropped.
#[derive(Clone, Debug)]
pub struct Answers {
    stream: Arc<Mutex<UnixStream>>,
    stops: Arc<AtomicBool>,
}

impl Answers {
    fn to(stream: UnixStream) -> Self {
        Self {
            stream: Arc::new(Mutex::new(stream)),
            stops: Arc::default(),
        }
    }

    /// Sends an [`Answer`], or the [`Report`].
    pub fn send(&self, line: &impl Serialize) {
        let mut line = serde_json::to_vec(line).expect("documents have strings as keys");
        line.push(b'\n');
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if stream.write_all(&line).is_err() {
            self.stops.store(true, Ordering::SeqCst);
        }
    }

    /// Becomes true once the client asks to stop or disconnects.
    #[must_use]
    pub fn stops(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stops)
    }
}

/// The bound socket, before any request is accepted.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: Fleeting,
    under_way: Arc<UnderWay>,
}

/// A control socket that accepts requests.
#[derive(Debug)]
pub struct OpenControl {
    path: Option<Fleeting>,
    under_way: Arc<UnderWay>,
}

/// Returns the folder that contains `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Performs an operation, or refuses a client.
pub type Handler<O> = dyn Fn(Result<Request<O>, BadRequest>, &Answers) + Send + Sync;

impl Control {
    /// Creates a socket that only its owner can connect to. Replaces one left behind by an earlier
    /// server.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn bind(path: &Path) -> io::Result<Self> {
        left_behind::remove(path)?;
        let before = umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        Ok(Self {
            listener: listener?,
            path: Fleeting(path.to_owned()),
            under_way: UnderWay::new(OPERATIONS_MAX),
        })
    }

    /// Returns the folder of the socket.
    #[must_use]
    pub fn folder(&self) -> &Path {
        folder_of(&self.path.0)
    }

    /// Accepts requests from now on, each on its own thread.
    ///
    /// # Errors
    ///
    /// The thread can't be started.
    pub fn open<O: DeserializeOwned + 'static>(
        self,
        handler: Arc<Handler<O>>,
    ) -> io::Result<OpenControl> {
        let thread = thread::Builder::new().name("spindles-control".to_owned());
        let (listener, under_way) = (self.listener, Arc::clone(&self.under_way));
        thread.spawn(move || accept(&listener, &under_way, &handler))?;
        Ok(OpenControl {
            path: Some(self.path),
            under_way: self.under_way,
        })
    }
}

impl OpenControl {
    /// Removes the socket file, so that new clients find no server.
    pub fn hide(&mut self) {
        drop(self.path.take());
    }

    /// Removes the socket file, then waits up to a second for the operations in progress.
    pub fn close(mut self) {
        self.hide();
        self.under_way.await_all(Duration::from_secs(1));
    }
}

fn accept<O: DeserializeOwned + 'static>(
    listener: &UnixListener,
    under_way: &Arc<UnderWay>,
    handler: &Arc<Handler<O>>,
) {
    loop {
        let (stream, _) = next_client(|| listener.accept());
        if !under_way.begin(WAIT_MAX) {
            // Closing a socket with unread data discards the answer, so read the request first.
            let heard = stream.set_nonblocking(true);
            drop((&stream).read(&mut vec![0; 64 << 10]));
            drop(heard.and_then(|()| stream.set_nonblocking(false)));
            // An answer this short fits the socket buffer, so writing does not wait for the reader.
            handler(Err(BadRequest::Busy), &Answers::to(stream));
            continue;
        }
        let handler = Arc::clone(handler);
        let thread = thread::Builder::new().name("spindles-command".to_owned());
        // Ignore clients that do not speak the protocol.
        let work = move || drop(answer(&stream, &*handler));
        drop(under_way.spawn(thread, work));
    }
}

fn answer<O: DeserializeOwned>(stream: &UnixStream, handler: &Handler<O>) -> io::Result<()> {
    stream.set_read_timeout(Some(SEND_MAX))?;
    stream.set_write_timeout(Some(SEND_MAX))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    let most = REQUEST_BYTES_MAX + 1;
    lines.by_ref().take(most).read_until(b'\n', &mut line)?;
    let answers = Answers::to(stream.try_clone()?);
    let request = match parse(&line) {
        Ok(request) => request,
        Err(bad) => {
            handler(Err(bad), &answers);
            return Ok(());
        }
    };
    // The command gave up while this server was stopped, and reported that nothing was done.
    if is_gone(stream)? {
        return Ok(());
    }
    stream.set_read_timeout(request.alive.then_some(ALIVE_INTERVAL))?;
    let heard = answers.clone();
    let listens = thread::Builder::new().name("spindles-hear".to_owned());
    let listener = listens
        .stack_size(64 << 10)
        .spawn(move || hear(lines, &heard))?;
    handler(Ok(request), &answers);
    // Ends the wait of the listening thread.
    stream.shutdown(std::net::Shutdown::Both).ok();
    listener.join().ok();
    Ok(())
}

/// Parses the line of a client.
fn parse<O: DeserializeOwned>(line: &[u8]) -> Result<Request<O>, BadRequest> {
    if line.len() as u64 > REQUEST_BYTES_MAX {
        return Err(BadRequest::TooLong);
    }
    let document: Value = serde_json::from_slice(line).map_err(BadRequest::Invalid)?;
    match document["version"].as_u64() {
        None if document["arguments"].is_array() => Err(BadRequest::CommandLine),
        Some(version) if version != u64::from(VERSION) => Err(BadRequest::Version(version)),
        _ => serde_json::from_value(document).map_err(BadRequest::Invalid),
    }
}

/// Returns true if the other side closed its socket.
fn is_gone(stream: &UnixStream) -> io::Result<bool> {
    let mut polled = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut polled, Some(&Timespec::default()))?;
    Ok(polled[0].revents().contains(PollFlags::HUP))
}

/// Listens until the client disconnects. A disconnect or any input ends the command. Discards the
/// input, even without a line end.
fn hear(mut lines: BufReader<UnixStream>, answers: &Answers) {
    loop {
        let said = match lines.fill_buf() {
            Err(error) if is_late(&error) => {
                answers.send(&Answer::Alive { alive: true });
                continue;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(bytes) => bytes.len(),
            Err(_) => 0,
        };
        answers.stops.store(true, Ordering::SeqCst);
        if said == 0 {
            return;
        }
        lines.consume(said);
    }
}

/// Returns true if the socket's time limit expired.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The error for a server that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    /// The server's process ID, if known.
    pub pid: Option<u32>,
    /// Why the command stopped waiting.
    pub reason: SilentReason,
}

/// Why a command stopped waiting for its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentReason {
    /// A signal stopped the server's process.
    Stopped,
    /// The time limit expired.
    Late,
    /// The server was asked to end the command, and still runs it.
    GoesOn,
    /// The server is busy with a command that wants a quick answer.
    Busy,
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "the server (pid {pid}) ")?,
            None => write!(f, "the server ")?,
        }
        match (self.reason, self.pid) {
            (SilentReason::Stopped, Some(pid)) => write!(
                f,
                "is stopped and does not answer: `kill -CONT {pid}` resumes it"
            ),
            (SilentReason::Stopped, None) => write!(f, "is stopped and does not answer"),
            (SilentReason::Late, _) => {
                write!(f, "has not answered for {} s", SILENCE_MAX.as_secs())
            }
            (SilentReason::Busy, _) => write!(
                f,
                "has run the command for {} s, and has not answered",
                ANSWER_MAX.as_secs()
            ),
            (SilentReason::GoesOn, _) => write!(
                f,
                "has not finished the command within {} s, and continues it",
                END_MAX.as_secs()
            ),
        }
    }
}

impl Error for Silent {}

impl Silent {
    /// Returns the [`Silent`] inside an error of [`Asked`].
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }

    fn error(pid: Option<u32>, reason: SilentReason) -> io::Error {
        io::Error::new(ErrorKind::TimedOut, Self { pid, reason })
    }
}

/// An operation that a server performs.
#[derive(Debug)]
pub struct Asked {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
    line: Vec<u8>,
    server: Option<u32>,
    /// When the server was asked to end the command.
    ends: Arc<OnceLock<Instant>>,
    /// Time of the last answer.
    answered: Instant,
    /// When to give up even on a server that shows signs of life.
    deadline: Option<Instant>,
}

impl Asked {
    /// Sends a request to the server that listens on `path`; `None` if there is none. With `alive`
    /// the server sends signs of life, and the operation may take any time. Otherwise a server that
    /// does not answer soon is given up.
    ///
    /// # Errors
    ///
    /// A system call failed, or the server does not answer ([`Silent`]).
    pub fn ask(path: &Path, request: &Request<impl Serialize>) -> io::Result<Option<Self>> {
        let gone = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
        let mut stream = match connect_to(path) {
            Ok(stream) => stream,
            Err(error) if gone.contains(&error.kind()) => return Ok(None),
            Err(error) if is_full(&error) => return Err(Silent::error(None, SilentReason::Late)),
            Err(error) => return Err(error),
        };
        let server = process_behind(&stream);
        let line = serde_json::to_string(request)? + "\n";
        match stream.write_all(line.as_bytes()) {
            // Refused before the request was sent: the reason is still readable.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            Err(error) if is_late(&error) => return Err(Silent::error(server, SilentReason::Late)),
            said => said?,
        }
        stream.set_read_timeout(Some(LOOK_INTERVAL))?;
        let lines = BufReader::new(stream.try_clone()?);
        Ok(Some(Self {
            stream,
            lines,
            line: Vec::new(),
            server,
            ends: Arc::default(),
            answered: Instant::now(),
            deadline: None,
        }))
    }

    /// Also gives up on a busy server that has not answered within a minute.
    #[must_use]
    pub fn soon(self) -> Self {
        Self {
            deadline: Some(Instant::now() + ANSWER_MAX),
            ..self
        }
    }

    /// Returns a function that asks the server to end the command.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn stopper(&self) -> io::Result<impl Fn() + Send + 'static> {
        let (stream, ends) = (self.stream.try_clone()?, Arc::clone(&self.ends));
        Ok(move || {
            ends.get_or_init(Instant::now);
            // Ignore errors: if the server is gone, the command has ended.
            drop((&stream).write_all(b"{\"stop\":true}\n"));
        })
    }

    /// Passes the answers to `show` until the report; `None` if the server closed the connection
    /// before.
    ///
    /// # Errors
    ///
    /// The system call failed, a line is invalid, or the server does not answer ([`Silent`]).
    pub fn report<D: DeserializeOwned>(
        mut self,
        mut show: impl FnMut(Answer),
    ) -> io::Result<Option<Report<D>>> {
        loop {
            self.line.clear();
            self.read_line()?;
            if self.line.is_empty() {
                return Ok(None);
            }
            match serde_json::from_slice(&self.line)? {
                Line::Answer(Answer::Alive { .. }) => self.check_end()?,
                Line::Answer(answer) => {
                    self.answered = Instant::now();
                    show(answer);
                }
                Line::End(report) => return Ok(Some(report)),
            }
        }
    }

    /// Reads a line into the buffer, which stays empty at the end of the stream.
    fn read_line(&mut self) -> io::Result<()> {
        // Count checks, not seconds: while this process itself is stopped, it makes no checks.
        let mut looks = SILENCE_MAX.as_millis() / LOOK_INTERVAL.as_millis();
        loop {
            match self.lines.read_until(b'\n', &mut self.line) {
                Err(error) if is_late(&error) => {}
                read => return read.map(drop),
            }
            looks -= 1;
            if self.server.is_some_and(is_stopped) {
                return Err(Silent::error(self.server, SilentReason::Stopped));
            }
            if looks == 0 {
                return Err(Silent::error(self.server, SilentReason::Late));
            }
            self.check_end()?;
        }
    }

    /// Gives up if the deadline has passed, or if the server did not end the command when asked.
    fn check_end(&self) -> io::Result<()> {
        let since = self.ends.get().map(|ends| self.answered.max(*ends));
        if self.deadline.is_some_and(|end| Instant::now() > end) {
            return Err(Silent::error(self.server, SilentReason::Busy));
        }
        if since.is_some_and(|since| since.elapsed() > END_MAX) {
            return Err(Silent::error(self.server, SilentReason::GoesOn));
        }
        Ok(())
    }
}
