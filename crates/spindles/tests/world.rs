//! A folder with devices, the commands and servers that work there, and what they print.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use rustix::fs::{SeekFrom, seek};
use serde_json::Value;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

/// Longest time for a command or an event on the slowest machine. A longer one hangs.
const TIME_MAX: Duration = Duration::from_mins(3);

/// The names of arrays that tests serve. Commands find a served array by its name on the whole
/// machine, so each world adds a suffix of its own to these names, and removes it from output.
const NAMES: &[&str] = &[
    "ark", "azure", "crimson", "fallen", "grown", "held", "jazz", "lacking", "lake", "lossy",
    "music", "mute", "nest", "ocean", "patient", "pond", "pool", "remote", "stack", "tarn",
    "viridian",
];

/// A file's name, its length, and the offsets and bytes of all blocks that are not zeros.
pub(crate) type Contents = (String, u64, Vec<(u64, Vec<u8>)>);

/// Texts that an output must have: one, or a list.
pub(crate) trait Texts {
    fn all(&self) -> Vec<&str>;
}

impl<T: Texts + ?Sized> Texts for &T {
    fn all(&self) -> Vec<&str> {
        (**self).all()
    }
}

impl Texts for str {
    fn all(&self) -> Vec<&str> {
        vec![self]
    }
}

impl Texts for String {
    fn all(&self) -> Vec<&str> {
        vec![self]
    }
}

impl<T: Texts> Texts for [T] {
    fn all(&self) -> Vec<&str> {
        self.iter().flat_map(Texts::all).collect()
    }
}

impl<T: Texts, const N: usize> Texts for [T; N] {
    fn all(&self) -> Vec<&str> {
        self.as_slice().all()
    }
}

/// The output of a command, and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    /// The command line.
    pub(crate) line: String,
    /// The exit status; -1 if a signal ended the command.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) error: String,
}

impl Run {
    fn new(line: String, suffix: &str, output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("commands print UTF-8");
        let text = |bytes| text(bytes).replace(suffix, "");
        Self {
            line,
            status: output.status.code().unwrap_or(-1),
            out: text(output.stdout),
            error: text(output.stderr),
        }
    }

    /// The exit status; `None` if a signal ended the command.
    pub(crate) fn code(&self) -> Option<i32> {
        (self.status >= 0).then_some(self.status)
    }

    /// All output.
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.out, self.error)
    }

    /// Panics unless the exit status is 0, or 3, which `status` has for a degraded array.
    pub(crate) fn ok(self) -> Self {
        assert!([0, 3].contains(&self.status), "{self:?}");
        self
    }

    /// Panics unless the command ended with this status.
    pub(crate) fn ends(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{}: {self:?}", self.line);
        self
    }

    /// Panics if the command succeeded.
    pub(crate) fn refused(self) -> Self {
        assert_ne!(self.status, 0, "{self:?}");
        self
    }

    /// Panics unless standard output has these texts.
    pub(crate) fn prints(self, texts: impl Texts) -> Self {
        for text in texts.all() {
            assert!(self.out.contains(text), "no {text:?} in {self:?}");
        }
        self
    }

    /// Panics unless standard error has these texts.
    pub(crate) fn warns(self, texts: impl Texts) -> Self {
        for text in texts.all() {
            assert!(self.error.contains(text), "no {text:?} in {self:?}");
        }
        self
    }

    /// Panics unless the output has these texts.
    pub(crate) fn says(self, texts: impl Texts) -> Self {
        for text in texts.all() {
            assert!(self.all().contains(text), "no {text:?} in {self:?}");
        }
        self
    }

    /// Panics if the output has one of these texts.
    pub(crate) fn says_no(self, texts: impl Texts) -> Self {
        for text in texts.all() {
            assert!(!self.all().contains(text), "{text:?} in {self:?}");
        }
        self
    }

    /// Panics if standard output has one of these texts.
    pub(crate) fn prints_no(self, texts: impl Texts) -> Self {
        for text in texts.all() {
            assert!(!self.out.contains(text), "{text:?} in {self:?}");
        }
        self
    }

    /// Panics if standard error has one of these texts.
    pub(crate) fn warns_no(self, texts: impl Texts) -> Self {
        for text in texts.all() {
            assert!(!self.error.contains(text), "{text:?} in {self:?}");
        }
        self
    }

    /// Panics unless the command failed with this status and each of these texts in one error.
    pub(crate) fn fails(self, status: i32, texts: impl Texts) -> Self {
        assert!(self.error.starts_with("spindles: "), "{self:?}");
        self.ends(status).warns(texts)
    }

    /// Parses standard output as the one JSON document that it must be.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// A folder of devices. Commands find arrays by name only there: other tests have arrays of the
/// same names on block devices.
pub(crate) struct World {
    folder: TempDir,
    /// Whether commands run in the folder. Otherwise they find only the devices that they name.
    is_inside: bool,
    /// The places that are searched for arrays; the folder if empty.
    scan: String,
    suffix: String,
    /// Servers that end with the world.
    servers: Mutex<Vec<Running>>,
}

impl World {
    /// Makes files of one size.
    pub(crate) fn new(files: &str, bytes: u64) -> Self {
        Self::with(files, bytes, 0)
    }

    /// Makes files of different lengths.
    pub(crate) fn uneven(files: &str, bytes: u64) -> Self {
        Self::with(files, bytes, 200_000)
    }

    /// Makes files of one size, for commands that run in another folder.
    pub(crate) fn outside(files: &str, bytes: u64) -> Self {
        let mut world = Self::with(files, bytes, 0);
        world.is_inside = false;
        world
    }

    /// Adds no suffix to names: this world serves no array.
    pub(crate) fn with_plain_names(mut self) -> Self {
        self.suffix.clear();
        self
    }

    /// Searches this place too.
    pub(crate) fn search(&mut self, place: &str) {
        self.scan = format!(".:{place}");
    }

    /// Makes another folder for arrays of the same names.
    pub(crate) fn namesake(&self, files: &str, bytes: u64) -> Self {
        let mut world = Self::new(files, bytes);
        world.suffix.clone_from(&self.suffix);
        world
    }

    fn with(files: &str, bytes: u64, more: u64) -> Self {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let world = Self {
            folder: tempfile::tempdir().expect("a folder"),
            is_inside: true,
            scan: String::new(),
            suffix: format!("-{}-{number}", std::process::id()),
            servers: Mutex::default(),
        };
        for (at, name) in (0..).zip(files.split_terminator(' ')) {
            world.make(name, bytes + at * more);
        }
        world
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The full name of a device.
    pub(crate) fn full(&self, name: &str) -> String {
        self.path(name)
            .into_os_string()
            .into_string()
            .expect("UTF-8")
    }

    /// The name that an array has on this machine.
    pub(crate) fn unique(&self, name: &str) -> String {
        assert!(
            NAMES.contains(&name),
            "list {name} among the names of served arrays"
        );
        format!("{name}{}", self.suffix)
    }

    /// The text with the names of arrays as the tests write them.
    pub(crate) fn plain(&self, text: &str) -> String {
        text.replace(&self.suffix, "")
    }

    /// The text with the names that arrays have on this machine.
    pub(crate) fn named(&self, text: &str) -> String {
        let is_word = |char: char| char.is_alphanumeric() || "-_".contains(char);
        let mut named = String::new();
        for word in text.split_inclusive(|char| !is_word(char)) {
            let name = word.trim_end_matches(|char| !is_word(char));
            named += name;
            // A path is no name.
            if NAMES.contains(&name) && !word.ends_with('/') {
                named += &self.suffix;
            }
            named += &word[name.len()..];
        }
        named
    }

    /// The address of an export on the socket of that name.
    pub(crate) fn uri_at(&self, export: &str, socket: &str) -> String {
        format!(
            "nbd+unix:///{}?socket={}",
            self.unique(export),
            self.full(socket)
        )
    }

    /// The address of array 'pool' on the server's socket.
    pub(crate) fn uri(&self) -> String {
        self.uri_at("pool", "socket")
    }

    /// Makes a device: a sparse file.
    pub(crate) fn make(&self, name: &str, bytes: u64) -> File {
        let file = File::create(self.path(name)).expect("a new file");
        file.set_len(bytes).expect("a sparse file");
        file
    }

    /// Fills a file with these contents.
    pub(crate) fn put(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("room");
    }

    /// Overwrites a part of a file.
    pub(crate) fn write(&self, name: &str, offset: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(self.path(name));
        let written = file.expect("it is there").write_all_at(bytes, offset);
        written.expect("room");
    }

    pub(crate) fn resize(&self, name: &str, bytes: u64) {
        let file = File::options().write(true).open(self.path(name));
        file.expect("it is there").set_len(bytes).expect("room");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("it is there")
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name)).unwrap_or_default();
        self.plain(&text)
    }

    pub(crate) fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).expect("room for a copy");
    }

    pub(crate) fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("it is there");
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("it is there");
    }

    /// The files and their contents. Holes are not read.
    pub(crate) fn contents(&self) -> Vec<Contents> {
        let entries = fs::read_dir(self.folder()).expect("the folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names.map(|name| name.into_string().expect("our names"));
        let mut contents: Vec<_> = names.map(|name| self.blocks_of(name)).collect();
        contents.sort_unstable();
        contents
    }

    fn blocks_of(&self, name: String) -> Contents {
        const BLOCK: u64 = 4096;
        let path = self.path(&name);
        if !path.is_file() {
            return (name, 0, Vec::new());
        }
        let file = fs::File::open(path).expect("a file");
        let length = file.metadata().expect("a file").len();
        let (mut at, mut blocks) = (0, Vec::new());
        while at < length {
            at = match seek(&file, SeekFrom::Data(at)) {
                Ok(data) => data - data % BLOCK,
                Err(_) => break, // No data is behind it.
            };
            let mut block = vec![0; usize::try_from(BLOCK.min(length - at)).expect("4096")];
            file.read_exact_at(&mut block, at).expect("a block");
            if block.iter().any(|byte| *byte != 0) {
                blocks.push((at, block));
            }
            at += BLOCK;
        }
        (name, length, blocks)
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        self.command_of(&line.split(' ').collect::<Vec<_>>())
    }

    /// A command of these words; `@` in a word stands for the folder.
    pub(crate) fn command_of<S: AsRef<str>>(&self, words: &[S]) -> Command {
        let is_inside = self.is_inside;
        self.command_in(
            if is_inside {
                self.folder()
            } else {
                Path::new(".")
            },
            words,
        )
    }

    /// Like `command`, run in this folder.
    pub(crate) fn command_in<S: AsRef<str>>(&self, run_in: &Path, words: &[S]) -> Command {
        let mut command = crate::program_in(run_in);
        if !self.scan.is_empty() {
            command.env("SPINDLES_SCAN", &self.scan);
        }
        let folder = self.full("");
        let words = words.iter().map(|word| self.named(word.as_ref()));
        command.args(words.map(|word| word.replace('@', &folder)));
        command
    }

    /// Searches this place too; `@` stands for the folder.
    pub(crate) fn also_scan(&mut self, place: &str) {
        let place = place.replace('@', &self.full(""));
        let before = if self.scan.is_empty() {
            self.full("")
        } else {
            self.scan.clone()
        };
        self.scan = format!("{before}:{place}");
    }

    /// Begins a command line.
    pub(crate) fn begin(&self, line: &str) -> Running {
        self.start(self.command(line))
    }

    /// Begins a command.
    pub(crate) fn start(&self, command: Command) -> Running {
        let mut running = Running::begin(command);
        running.suffix.clone_from(&self.suffix);
        running
    }

    /// Runs a command line, and waits until it ends.
    pub(crate) fn run(&self, line: &str) -> Run {
        self.run_command(&mut self.command(line))
    }

    /// Runs a command line in the folder.
    pub(crate) fn here(&self, line: &str) -> Run {
        let words: Vec<&str> = line.split(' ').collect();
        self.run_command(&mut self.command_in(self.folder(), &words))
    }

    /// Runs a command line and kills it after a while. Returns true if it had not ended yet.
    pub(crate) fn kill(&self, line: &str, after: Duration) -> bool {
        self.begin(line).end(Some(after)).status == -1
    }

    pub(crate) fn run_words<S: AsRef<str> + Debug>(&self, words: &[S]) -> Run {
        self.run_command(&mut self.command_of(words))
    }

    pub(crate) fn run_command(&self, command: &mut Command) -> Run {
        let output = command.stdin(Stdio::null()).output();
        let output = output.expect("the command runs");
        Run::new(line_of(command), &self.suffix, output)
    }

    /// Runs a command that must succeed.
    pub(crate) fn does(&self, line: &str) -> Run {
        self.run(line).ends(0)
    }

    /// Runs a command that must end with status 0 or 3, which `status` has for a degraded array.
    pub(crate) fn ok(&self, line: &str) -> Run {
        self.run(line).ok()
    }

    /// Runs a command that must end with this exit status.
    pub(crate) fn ends(&self, line: &str, status: i32) -> Run {
        self.run(line).ends(status)
    }

    /// Checks that a command fails with this status and these texts, and changes no file here.
    pub(crate) fn refuses(&self, line: &str, status: i32, texts: &[&str]) {
        let before = self.contents();
        self.run(line).fails(status, texts);
        assert!(self.contents() == before, "{line} changed something");
        let run = self.run(&format!("{line} --json"));
        assert_eq!(run.json()["status"], status, "{line}");
        assert!(self.contents() == before, "{line} --json changed something");
    }

    /// The JSON document of a command.
    pub(crate) fn json(&self, line: &str) -> Value {
        self.run(&format!("{line} --json")).json()
    }

    /// Begins a server, and waits until it serves. `line` may go on with further options.
    pub(crate) fn served(&self, line: &str) -> Running {
        self.served_by(self.command(&format!("serve {line}")))
    }

    pub(crate) fn served_by(&self, command: Command) -> Running {
        let mut server = self.start(command);
        server.ready().unwrap_or_else(|error| panic!("{error}"));
        server
    }

    /// Serves array 'pool' on a socket until the world ends.
    pub(crate) fn serve(&self, more: &str) {
        self.serve_named("pool", more);
    }

    /// Serves these arrays on a socket until the world ends.
    pub(crate) fn serve_named(&self, names: &str, more: &str) {
        self.keep(self.served(&format!("{names} --nbd unix:socket{more}")));
    }

    /// Keeps a server until the world ends.
    pub(crate) fn keep(&self, server: Running) {
        self.servers.lock().expect("no panic").push(server);
    }

    /// Looks at the last server that is kept.
    pub(crate) fn with_server<T>(&self, look: impl FnOnce(&mut Running) -> T) -> T {
        let mut servers = self.servers.lock().expect("no panic");
        look(servers.last_mut().expect("it serves"))
    }

    /// Takes the last server that is kept.
    pub(crate) fn server(&self) -> Running {
        let server = self.servers.lock().expect("no panic").pop();
        server.expect("it serves")
    }

    /// Waits until the condition holds.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        until(what, || condition(self));
    }
}

fn line_of(command: &Command) -> String {
    let words = command.get_args().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Waits until the condition holds.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + TIME_MAX;
    while !condition() {
        assert!(Instant::now() < end, "{what} takes too long");
        sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, name: &str) {
    let process = process.to_string();
    let sent = Command::new("kill").args(["-s", name, &process]).status();
    assert!(sent.expect("kill runs").success());
}

/// A process, killed when dropped.
pub(crate) struct Running {
    child: Child,
    line: String,
    suffix: String,
    // Files, because pipes without a reader could fill up.
    outputs: [File; 2],
}

impl Running {
    pub(crate) fn begin(mut command: Command) -> Self {
        let outputs = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
        let [out, error] = [&outputs[0], &outputs[1]].map(|file| file.try_clone().expect("a file"));
        let command = command.stdin(Stdio::null()).stdout(out).stderr(error);
        Self {
            child: command.spawn().expect("it runs"),
            line: line_of(command),
            suffix: "\0".to_owned(),
            outputs,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.status().is_some()
    }

    /// Its exit status; `None` if it has not ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is ours")
    }

    fn text(&self, output: usize) -> String {
        let file = &self.outputs[output];
        let bytes = file.metadata().expect("it is open").len();
        let mut text = vec![0; usize::try_from(bytes).expect("64 bits")];
        // The offset of the process must stay.
        file.read_exact_at(&mut text, 0).expect("it is there");
        String::from_utf8_lossy(&text).replace(&self.suffix, "")
    }

    /// Its standard output so far.
    pub(crate) fn output(&self) -> String {
        self.text(0)
    }

    /// Its standard error so far.
    pub(crate) fn said(&self) -> String {
        self.text(1)
    }

    /// Waits until standard error has this text. Returns the rest of that line.
    pub(crate) fn says(&mut self, text: &str) -> String {
        let end = Instant::now() + TIME_MAX;
        loop {
            let is_over = self.has_ended() || Instant::now() > end;
            let said = self.said();
            if let Some((_, rest)) = said.split_once(text)
                && let Some((rest, _)) = rest.split_once('\n')
            {
                return rest.to_owned();
            }
            assert!(!is_over, "no {text:?} in {said}");
            sleep(Duration::from_millis(2));
        }
    }

    /// Waits for a server until it serves. An error is the output of a server that does not.
    pub(crate) fn ready(&mut self) -> Result<(), String> {
        let began = Instant::now();
        while !self.said().contains(" is served") {
            if self.has_ended() || began.elapsed() > TIME_MAX {
                return Err(format!("it is not served: {}", self.said()));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    pub(crate) fn kill(&mut self) {
        drop(self.child.kill());
        self.child.wait().expect("it ended");
    }

    /// Stops a server as an administrator does.
    pub(crate) fn stop(self) -> Run {
        self.signal("TERM");
        self.end(None).ends(0)
    }

    /// Waits until it has ended; kills it after `kill_after`.
    pub(crate) fn end(mut self, kill_after: Option<Duration>) -> Run {
        let (began, after) = (Instant::now(), kill_after.unwrap_or(TIME_MAX));
        let mut hangs = "";
        while !self.has_ended() {
            if began.elapsed() >= after {
                hangs = kill_after.map_or("it hangs", |_| "");
                self.kill();
            }
            sleep(Duration::from_micros(500));
        }
        Run {
            line: self.line.clone(),
            status: self.child.wait().expect("it ended").code().unwrap_or(-1),
            out: self.output(),
            error: self.said() + hangs,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns true if a program is installed; reports what is skipped if not.
pub(crate) fn has(program: &str, package: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed (Debian: {package})");
    }
    found
}

/// Bytes that depend on their offset.
pub(crate) fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut pattern = vec![0; bytes];
    // Whole words: this code is not optimized.
    for (word, at) in pattern.chunks_mut(8).zip(seed..) {
        let bytes = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
    pattern
}

/// Returns the page at an HTTP address without its head.
pub(crate) fn fetch(url: &str) -> String {
    use std::io::{Read as _, Write as _};
    let (host, path) = url.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("it listens");
    let request = format!("GET /{path} HTTP/1.0\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("text");
    let (_, body) = page.split_once("\r\n\r\n").expect("a head");
    body.to_owned()
}

/// Runs `spindles` with these arguments and no standard input.
pub(crate) fn spindles(arguments: &[&str]) -> Run {
    spindles_in(".", &[], arguments)
}

/// Like `spindles`, in a folder and with these environment variables.
pub(crate) fn spindles_in(folder: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
    let mut command = crate::program_in(Path::new(folder));
    command.args(arguments).envs(variables.iter().copied());
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    Run::new(line_of(&command), "\0", output)
}

/// A process that is killed when dropped.
pub(crate) struct Background(pub(crate) Child);

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The socket on which systemd hears from a server.
pub(crate) struct Systemd<'a> {
    world: &'a World,
    socket: std::os::unix::net::UnixDatagram,
}

impl<'a> Systemd<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        let socket = std::os::unix::net::UnixDatagram::bind(world.path("notify"));
        let socket = socket.expect("a socket");
        socket.set_read_timeout(Some(TIME_MAX)).expect("a limit");
        Self { world, socket }
    }

    /// The server of this command tells it.
    pub(crate) fn hears(&self, command: &mut Command) {
        command.env("NOTIFY_SOCKET", self.world.path("notify"));
    }

    /// Waits for the next message.
    pub(crate) fn heard(&self) -> String {
        let mut bytes = [0; 1024];
        let count = loop {
            match self.socket.recv(&mut bytes) {
                // A signal: a frozen test goes on.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                received => break received.expect("a message"),
            }
        };
        self.world.plain(&String::from_utf8_lossy(&bytes[..count]))
    }
}
