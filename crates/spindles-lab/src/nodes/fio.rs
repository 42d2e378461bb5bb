//! Runs fio on a node.

use crate::experiment::fio::FIO;
use crate::measure::failure::Failure;
use crate::systems::undo::{Undo, What};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the end of fio is checked.
const LOOK: Duration = Duration::from_millis(5);

/// Runs fio until it ends or the flag is set. Returns its output.
pub(super) fn run(arguments: &[String], interrupt: &AtomicBool) -> Result<String, Failure> {
    let wrong = |error: std::io::Error| {
        Failure::Failed(format!(
            "{FIO} can't be run: {error}: install it on the node"
        ))
    };
    let mut child = Command::new(FIO)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(wrong)?;
    let undo = Undo::new(What::Started(child.id()));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let said = scope.spawn(|| {
            let mut text = String::new();
            out.map_or(Ok(0), |mut out| out.read_to_string(&mut text))
                .map(|_| text)
        });
        let complained = scope.spawn(|| {
            let mut text = String::new();
            err.map_or(Ok(0), |mut err| err.read_to_string(&mut text))
                .map(|_| text)
        });
        let status = loop {
            if interrupt.load(Ordering::Relaxed) {
                drop(undo);
                return Err(Failure::Interrupted);
            }
            match child.try_wait().map_err(wrong)? {
                Some(status) => break status,
                None => std::thread::sleep(LOOK),
            }
        };
        undo.ended();
        let join = |thread: std::thread::ScopedJoinHandle<'_, std::io::Result<String>>| {
            thread.join().expect("reading does not panic")
        };
        let said = join(said).map_err(wrong)?;
        let complained = join(complained).map_err(wrong)?;
        if status.success() {
            return Ok(said);
        }
        // The rest of its output is the JSON document and its end.
        let complaints = complained.lines().chain(said.lines()).map(str::trim);
        let mut complaints =
            complaints.filter(|line| line.starts_with("fio:") || line.contains("error"));
        let why = complaints
            .next_back()
            .or_else(|| complained.lines().next_back());
        let why = why.unwrap_or("it printed nothing").to_owned();
        Err(Failure::Failed(format!("{FIO} failed ({status}): {why}")))
    })
}
