//! Runs fio on a node. Accepts only options known to be harmless: others would run programs or
//! write to arbitrary files, which no controller may do through an agent.

use crate::failure::Failure;
use crate::fio::FIO;
use crate::undo::{Undo, What};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The accepted options.
const OPTIONS: &[&str] = &[
    "bs",
    "bsrange",
    "direct",
    "end_fsync",
    "fdatasync",
    "fsync",
    "invalidate",
    "io_size",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "ioengine",
    "loops",
    "norandommap",
    "number_ios",
    "numjobs",
    "offset",
    "ramp_time",
    "random_distribution",
    "randrepeat",
    "randseed",
    "rate",
    "rate_iops",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "sync",
    "thinktime",
    "time_based",
];

/// Engines that only do I/O on the file.
const ENGINES: &[&str] = &[
    "io_uring", "libaio", "mmap", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync",
];

/// How often the end of fio is checked.
const LOOK: Duration = Duration::from_millis(5);

/// Checks that agents accept these options of fio.
///
/// # Errors
/// The option that agents refuse, and the remedy.
pub(crate) fn check(options: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in options {
        if !OPTIONS.contains(&name.as_str()) {
            return Err(format!(
                "fio's {name} is not for nodes: leave it out, or use some of {}",
                OPTIONS.join(", ")
            ));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || ".,:-_%".contains(c);
        if value.is_empty() || !value.chars().all(plain) {
            return Err(format!(
                "fio's {name} = {value} is not for nodes: use letters, digits and .,:-_%"
            ));
        }
        if name == "ioengine" && !ENGINES.contains(&value.as_str()) {
            return Err(format!(
                "fio's ioengine {value} is not for nodes: use one of {}",
                ENGINES.join(", ")
            ));
        }
    }
    Ok(())
}

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
        let why = why.unwrap_or("it said nothing").to_owned();
        Err(Failure::Failed(format!("{FIO} failed ({status}): {why}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_fio_options_are_passed_on() {
        let options =
            |name: &str, value: &str| check(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        for (name, value) in [
            ("rw", "randrw:8"),
            ("bs", "4k,64k"),
            ("ioengine", "io_uring"),
        ] {
            assert_eq!(options(name, value), Ok(()));
        }
        for (name, value) in [
            ("exec_prerun", "reboot"),
            ("filename", "a"),
            ("write_bw_log", "a"),
            ("ioengine", "external"),
            ("ioengine", "null"),
            ("bs", "4k --exec_prerun=reboot"),
            ("bs", "${HOME}"),
            ("size", "/dev/sda"),
            ("rw", ""),
        ] {
            let error = options(name, value).unwrap_err();
            assert!(error.contains("is not for nodes"), "{error}");
        }
    }
}
