//! The control socket: command lines come in, and what they print goes out, a JSON document a line.
//! docs/control.md has them.

use crate::left_behind::{self, Fleeting};
use rustix::fs::Mode;
use rustix::process::umask;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// So many command lines at once: who comes then waits.
const ASKS_MAX: usize = 32;
/// But not where none has ended for so long.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// As long as a command line may be.
const ASK_BYTES_MAX: u64 = 64 << 10;
/// Who reads nothing for so long is gone.
const SEND_MAX: Duration = Duration::from_secs(10);
/// After an error that keeps clients from being accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// A command line.
#[derive(Clone, Debug, Deserialize)]
pub struct Ask {
    /// Its words, without the program.
    pub arguments: Vec<String>,
    /// Where it was typed: what relative names are relative to.
    pub folder: PathBuf,
}

/// What goes back to whoever asked. Who is gone gets nothing.
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

    /// A part of the result.
    pub fn out(&self, text: &str) {
        self.send(&json!({ "out": text }));
    }

    /// A remark, or what went wrong.
    pub fn note(&self, text: &str) {
        self.send(&json!({ "note": text }));
    }

    /// How far it is.
    pub fn progress(&self, what: &str, done: u64, total: u64) {
        self.send(&json!({ "progress": what, "done_bytes": done, "total_bytes": total }));
    }

    /// It is done, with that exit status.
    pub fn end(&self, status: u8) {
        self.send(&json!({ "status": status }));
    }

    /// Becomes true when whoever asked does not want it to go on, or is gone.
    #[must_use]
    pub fn stops(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stops)
    }

    fn send(&self, document: &Value) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if writeln!(stream, "{document}").is_err() {
            self.stops.store(true, Ordering::SeqCst);
        }
    }
}

/// The command lines that are under way.
#[derive(Debug, Default)]
struct UnderWay {
    now: Mutex<Crowd>,
    ends: Condvar,
}

/// How many there are, and when the last of them came or went.
#[derive(Debug, Default)]
struct Crowd {
    count: usize,
    changed: Option<Instant>,
}

impl UnderWay {
    /// Waits until there is room for one more, which is under way then. Whether there was.
    fn begin(&self) -> bool {
        let end = |now: &Crowd| now.changed.map(|changed| changed + WAIT_MAX);
        let mut now = self.lock();
        while now.count >= ASKS_MAX {
            let left = end(&now).map(|end| end.saturating_duration_since(Instant::now()));
            let left = left.unwrap_or_default();
            if left.is_zero() {
                return false;
            }
            let waited = self.ends.wait_timeout(now, left);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        now.count += 1;
        now.changed = Some(Instant::now());
        true
    }

    fn end(&self) {
        let mut now = self.lock();
        now.count -= 1;
        now.changed = Some(Instant::now());
        self.ends.notify_all();
    }

    /// Waits until none is, at most for so long.
    fn await_all(&self, most: Duration) {
        let is_some = |now: &mut Crowd| now.count > 0;
        drop(self.ends.wait_timeout_while(self.lock(), most, is_some));
    }

    fn lock(&self) -> MutexGuard<'_, Crowd> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The socket, before anybody is answered.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: Fleeting,
    under_way: Arc<UnderWay>,
}

/// One that is open.
#[derive(Debug)]
pub struct OpenControl {
    path: Option<Fleeting>,
    under_way: Arc<UnderWay>,
}

/// The folder in which something lies.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Does a command line.
pub type Handler = dyn Fn(&Ask, &Answers) + Send + Sync;

impl Control {
    /// Makes a socket there that only its owner can connect to. One that a server left behind is replaced.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn bind(path: &Path) -> io::Result<Self> {
        left_behind::remove(path)?;
        let before = umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        umask(before);
        Ok(Self {
            listener: listener?,
            path: Fleeting(path.to_owned()),
            under_way: Arc::default(),
        })
    }

    /// Where the socket lies.
    #[must_use]
    pub fn folder(&self) -> &Path {
        folder_of(&self.path.0)
    }

    /// Lets command lines in from now on, each on a thread of its own.
    ///
    /// # Errors
    ///
    /// There can be no thread for it.
    pub fn open(self, handler: Arc<Handler>) -> io::Result<OpenControl> {
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
    /// Takes the socket away: who looks for it finds none.
    pub fn hide(&mut self) {
        drop(self.path.take());
    }

    /// Lets those that are under way come to their end, for a moment, and takes the socket away.
    pub fn close(mut self) {
        self.hide();
        self.under_way.await_all(Duration::from_secs(1));
    }
}

fn accept(listener: &UnixListener, under_way: &Arc<UnderWay>, handler: &Arc<Handler>) {
    loop {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(PAUSE);
            continue;
        };
        if !under_way.begin() {
            // What is so short does not wait for whoever should read it.
            let why = format!(
                "the server of the array does {ASKS_MAX} commands at once, and none of those has ended for {} s: end \
                 one, or try again",
                WAIT_MAX.as_secs()
            );
            // What is not read when the socket is closed takes what was answered with it.
            let heard = stream.set_nonblocking(true);
            drop((&stream).read(&mut vec![0; 64 << 10]));
            drop(heard.and_then(|()| stream.set_nonblocking(false)));
            refuse(&Answers::to(stream), 1, &why);
            continue;
        }
        let (counted, handler) = (Arc::clone(under_way), Arc::clone(handler));
        let thread = thread::Builder::new().name("spindles-command".to_owned());
        let begun = thread.spawn(move || {
            // Who does not speak it is left.
            drop(answer(&stream, &*handler));
            counted.end();
        });
        if begun.is_err() {
            under_way.end();
        }
    }
}

/// Does nothing, and says why.
fn refuse(answers: &Answers, status: u8, why: &str) {
    answers.note(&format!("spindles: {why}\n"));
    answers.end(status);
}

fn answer(stream: &UnixStream, handler: &Handler) -> io::Result<()> {
    stream.set_read_timeout(Some(SEND_MAX))?;
    stream.set_write_timeout(Some(SEND_MAX))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    let most = ASK_BYTES_MAX + 1;
    lines.by_ref().take(most).read_until(b'\n', &mut line)?;
    let answers = Answers::to(stream.try_clone()?);
    if line.len() > usize::try_from(ASK_BYTES_MAX).expect("64 KiB") {
        let why = format!("that is no command line: it is longer than {ASK_BYTES_MAX} bytes");
        refuse(&answers, 2, &why);
        return Ok(());
    }
    let ask: Ask = match serde_json::from_slice(&line) {
        Ok(ask) => ask,
        Err(error) => {
            refuse(&answers, 2, &format!("that is no command line: {error}"));
            return Ok(());
        }
    };
    stream.set_read_timeout(None)?;
    let stops = answers.stops();
    let listens = thread::Builder::new().name("spindles-hear".to_owned());
    let listener = listens.stack_size(64 << 10).spawn(move || {
        // Anything that is said now, as that the other side is gone, means the same.
        lines.read_line(&mut String::new()).ok();
        stops.store(true, Ordering::SeqCst);
    })?;
    handler(&ask, &answers);
    // The thread that hears has nothing more to wait for.
    stream.shutdown(std::net::Shutdown::Both).ok();
    listener.join().ok();
    Ok(())
}

/// What comes back for a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A part of the result.
    Out(String),
    /// A remark, or what went wrong.
    Note(String),
    /// How far it is.
    Progress {
        /// What.
        what: String,
        /// Of it is done, in bytes.
        done: u64,
        /// And there is so much.
        total: u64,
    },
    /// It is done, with that exit status.
    End(u8),
}

/// A command line that a server does.
#[derive(Debug)]
pub struct Asked {
    stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Asked {
    /// Hands a command line to the server that listens there. `None` where none does.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn ask(path: &Path, arguments: &[String], folder: &Path) -> io::Result<Option<Self>> {
        let gone = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
        let mut stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error) if gone.contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(error),
        };
        let ask = json!({ "arguments": arguments, "folder": folder });
        match writeln!(stream, "{ask}") {
            // It was refused before it was said: why is there to be read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            said => said?,
        }
        let lines = BufReader::new(stream.try_clone()?);
        Ok(Some(Self { stream, lines }))
    }

    /// What asks the server to end what it does for this.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn stopper(&self) -> io::Result<impl Fn() + Send + 'static> {
        let stream = self.stream.try_clone()?;
        Ok(move || {
            // Where the server is gone there is nothing to end.
            drop((&stream).write_all(b"{\"stop\":true}\n"));
        })
    }

    /// The next answer; `None` where the server ended.
    ///
    /// # Errors
    ///
    /// What the system says, or that it was no answer.
    pub fn next_answer(&mut self) -> io::Result<Option<Answer>> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let document: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
        let text = |key: &str| document[key].as_str().map(str::to_owned);
        let number = |key: &str| document[key].as_u64();
        let answer = if let Some(text) = text("out") {
            Some(Answer::Out(text))
        } else if let Some(text) = text("note") {
            Some(Answer::Note(text))
        } else if let Some(what) = text("progress") {
            let bytes = number("done_bytes").zip(number("total_bytes"));
            bytes.map(|(done, total)| Answer::Progress { what, done, total })
        } else {
            let status = number("status").and_then(|status| u8::try_from(status).ok());
            status.map(Answer::End)
        };
        answer
            .map(Some)
            .ok_or_else(|| io::Error::other("the server says what this version does not know"))
    }
}
