//! A headless Chromium for tests of pages. One process shows page after page at any size, in light
//! and dark. It is driven through its debugging pipe: JSON, with a zero byte after each message.

#![forbid(unsafe_code)]

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit for an answer of the browser.
const ANSWER_TIME: Duration = Duration::from_mins(1);
/// The time limit for a page to reach the state that a test waits for.
const WAIT_TIME: Duration = Duration::from_secs(20);

/// The names of its command.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Maps our standard input and output to the file descriptors of the browser's debugging pipe.
const PIPES: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";

/// A script that finds the faults of a page.
const LOOKS: &str = include_str!("looks.js");

/// The look of a page in its current window.
#[derive(Clone, Debug)]
pub struct Looks {
    /// Descriptions of elements that are cut off, extend beyond the window, or have less contrast
    /// than 4.5 : 1.
    pub faults: Vec<String>,
    /// The colour of the page, in CSS syntax.
    pub background: String,
}

/// The colour scheme of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Dark on light.
    Light,
    /// Light on dark.
    Dark,
}

/// Returns the command that starts a browser; `None` if none is installed.
pub fn program() -> Option<&'static str> {
    NAMES.into_iter().find(|name| {
        let mut command = Command::new(name);
        let quiet = command
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    })
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Value,
    calls: u64,
    width: u32,
    events: Vec<Value>,
    folder: TempDir,
}

impl Browser {
    /// Starts a browser; `None` if none is installed.
    ///
    /// # Panics
    /// If it is installed and does not start.
    pub fn start() -> Option<Self> {
        let program = program()?;
        let folder = tempfile::tempdir().expect("a folder for the browser");
        let mut child = Command::new("sh")
            .args(["-c", PIPES, "sh", program])
            .args([
                "--headless",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--disable-gpu",
            ])
            .args(["--disable-quic", "--no-first-run", "--hide-scrollbars"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let to = child.stdin.take().expect("its input is ours");
        let from = messages(child.stdout.take().expect("its output is ours"));
        let mut browser = Self {
            child,
            to,
            from,
            session: Value::Null,
            calls: 0,
            width: 0,
            events: Vec::new(),
            folder,
        };
        let page = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": page["targetId"], "flatten": true });
        browser.session = browser.call("Target.attachToTarget", &target)["sessionId"].take();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        Some(browser)
    }

    /// Sets the size of the window, in CSS pixels, and the colour scheme.
    pub fn look(&mut self, width: u32, height: u32, scheme: Scheme) {
        let scheme = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        self.width = width;
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [feature] }),
        );
    }

    /// Enables or disables scripts of pages, from the next page on.
    pub fn scripts(&mut self, run: bool) {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            &json!({ "value": !run }),
        );
    }

    /// Opens a page and waits until it is loaded.
    ///
    /// # Panics
    /// If it does not load.
    pub fn open(&mut self, url: &str) {
        self.events.clear();
        let opened = self.call("Page.navigate", &json!({ "url": url }));
        assert_eq!(opened["errorText"], Value::Null, "{url}");
        while !self
            .events
            .iter()
            .any(|event| event["method"] == "Page.loadEventFired")
        {
            self.hear();
        }
    }

    /// Opens a page given as text.
    ///
    /// # Panics
    /// If it does not load.
    pub fn open_html(&mut self, html: &str) {
        let path = self.folder.path().join("page.html");
        fs::write(&path, html).expect("a page is written");
        self.open(&url_of(&path));
    }

    /// Returns the value of an expression in the page, even if scripts are disabled.
    ///
    /// # Panics
    /// If it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let call = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true
        });
        let mut answer = self.call("Runtime.evaluate", &call);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true.
    ///
    /// # Panics
    /// If it does not become true in time.
    pub fn wait_for(&mut self, expression: &str) {
        let begun = Instant::now();
        while self.value(expression) != Value::Bool(true) {
            assert!(begun.elapsed() < WAIT_TIME, "never true: {expression}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the look of the page.
    ///
    /// # Panics
    /// If the window does not have the requested size.
    pub fn looks(&mut self) -> Looks {
        let found = self.value(LOOKS);
        assert_eq!(found["width"], self.width, "the width of the window");
        let list = |name: &str, why: &str| -> Vec<String> {
            let found = found[name].as_array().into_iter().flatten();
            found.map(|what| format!("{why}: {what}")).collect()
        };
        let mut faults = list("clipped", "cut off");
        faults.extend(list("pale", "too little contrast"));
        if found["sideways"].as_f64() > Some(0.0) {
            faults.push(format!("scrolls sideways by {}", found["sideways"]));
        }
        Looks {
            faults,
            background: found["background"].to_string(),
        }
    }

    /// Returns the page's exceptions, errors and warnings since it was opened.
    pub fn complaints(&mut self) -> Vec<String> {
        // Events before this answer are received with it.
        self.value("0");
        let is_complaint = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => ["error", "warning", "assert"]
                .iter()
                .any(|kind| event["params"]["type"] == *kind),
            Some("Log.entryAdded") => ["error", "warning"]
                .iter()
                .any(|kind| event["params"]["entry"]["level"] == *kind),
            _ => false,
        };
        let complaints = self.events.iter().filter(is_complaint);
        complaints
            .map(|event| event["params"].to_string())
            .collect()
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.calls += 1;
        let mut call = json!({ "id": self.calls, "method": method, "params": parameters });
        if !self.session.is_null() {
            call["sessionId"] = self.session.clone();
        }
        let text = format!("{call}\0");
        self.to
            .write_all(text.as_bytes())
            .expect("the browser listens");
        loop {
            if let Some(mut answer) = self.hear() {
                assert_eq!(answer["error"], Value::Null, "{method}");
                return answer["result"].take();
            }
        }
    }

    /// Receives the next message: an answer to the last call, or `None` after an event, which is
    /// kept.
    fn hear(&mut self) -> Option<Value> {
        let message = self.from.recv_timeout(ANSWER_TIME);
        let message = message.expect("the browser answers in time");
        if message["id"] == self.calls {
            return Some(message);
        }
        self.events.push(message);
        None
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Receives messages in a thread, so that waiting for one can time out.
fn messages(from: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for message in BufReader::new(from).split(0) {
            let message = message.ok().and_then(|it| serde_json::from_slice(&it).ok());
            let Some(message) = message else { return };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Returns the URL of a file.
pub fn url_of(path: &Path) -> String {
    format!("file://{}", path.display())
}
