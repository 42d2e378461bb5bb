//! Asks the installed fio whether it takes the options of a workload, before anything is written.

use super::{FIO, FioWork};
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

/// Why fio can't run a workload.
pub(crate) enum Refusal {
    /// It can't be asked: why.
    NotThere(String),
    /// It refuses an option: which, in its words.
    Option(String),
}

impl FioWork {
    /// Has fio read the options, without any I/O.
    pub(crate) fn ask(&self) -> Result<(), Refusal> {
        let asked = parse_only(&self.job());
        let output = asked.map_err(|error| {
            Refusal::NotThere(format!("{FIO} can't be run: {error}: install it"))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let both = [output.stdout, output.stderr].concat();
        let both = String::from_utf8_lossy(&both);
        // Lists of values are indented, and that the job is dropped says nothing more.
        let said = both.lines().filter(|line| {
            !line.is_empty() && !line.starts_with(' ') && !line.ends_with("dropped")
        });
        let said: Vec<&str> = said.map(|line| line.trim_end_matches('.')).collect();
        let said = match said.as_slice() {
            [] => "it said nothing".to_owned(),
            said => said.join(", "),
        };
        Err(Refusal::Option(format!(
            "fio refuses its options: {said}: correct them, or leave them out"
        )))
    }

    /// A job file: names on the command line may be shortened, and others than those of jobs are known there.
    fn job(&self) -> String {
        let lines = self.options.iter().map(|(name, value)| match &**value {
            "" => format!("{name}\n"),
            value => format!("{name}={value}\n"),
        });
        std::iter::once("[lab]\n".to_owned()).chain(lines).collect()
    }
}

fn parse_only(job: &str) -> io::Result<std::process::Output> {
    let mut child = Command::new(FIO)
        .args(["--parse-only", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let written = child
        .stdin
        .take()
        .map(|mut it| it.write_all(job.as_bytes()));
    let output = child.wait_with_output()?;
    // It may end at the first wrong line: what it says of that counts.
    match written {
        Some(Err(error)) if output.status.success() => Err(error),
        _ => Ok(output),
    }
}
