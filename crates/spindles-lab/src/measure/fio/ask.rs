//! Asks the installed fio whether it accepts the options of a workload, before anything is written.

use crate::experiment::fio::{FIO, FioWork};
use std::io::{self, Write as _};
use std::process::{Command, Stdio};

/// Why fio can't run a workload.
pub(crate) enum Refusal {
    /// fio can't be run; holds the reason.
    NotThere(String),
    /// fio refuses an option; holds its message.
    Option(String),
}

/// Lets fio parse the options, without any I/O.
pub(crate) fn ask(work: &FioWork) -> Result<(), Refusal> {
    let asked = parse_only(&job_of(work));
    let output = asked
        .map_err(|error| Refusal::NotThere(format!("{FIO} can't be run: {error}: install it")))?;
    if output.status.success() {
        return Ok(());
    }
    let both = [output.stdout, output.stderr].concat();
    let both = String::from_utf8_lossy(&both);
    // Drop indented lists of values, and the line that says that the job is dropped.
    let said = both
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with(' ') && !line.ends_with("dropped"));
    let said: Vec<&str> = said.map(|line| line.trim_end_matches('.')).collect();
    let said = match said.as_slice() {
        [] => "it printed nothing".to_owned(),
        said => said.join(", "),
    };
    Err(Refusal::Option(format!(
        "fio refuses its options: {said}: correct them, or leave them out"
    )))
}

/// Formats the options as a job file. On the command line, fio would accept abbreviated names
/// and options that are not for jobs.
fn job_of(work: &FioWork) -> String {
    let lines = work.options().iter().map(|(name, value)| match &**value {
        "" => format!("{name}\n"),
        value => format!("{name}={value}\n"),
    });
    std::iter::once("[lab]\n".to_owned()).chain(lines).collect()
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
        .map(|mut stdin| stdin.write_all(job.as_bytes()));
    let output = child.wait_with_output()?;
    // fio may exit at the first wrong line: then its message counts.
    match written {
        Some(Err(error)) if output.status.success() => Err(error),
        _ => Ok(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::fio::Source;

    #[test]
    fn fio_itself_checks_options() {
        let refused = |text: &str| {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            let options = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let work = FioWork::new(options.collect(), Source::Parameters, None, 1.0);
            match ask(&work.unwrap()) {
                Ok(()) => String::new(),
                Err(Refusal::Option(why) | Refusal::NotThere(why)) => why,
            }
        };
        if refused("rw=read").contains("install it") {
            return println!("SKIPPED: fio_itself_checks_options: fio is not installed");
        }
        // An option of the engine whose name precedes `ioengine` in the alphabet.
        for fine in [
            "rw=randread bssplit=4k/50:8k/50 time_based= norandommap=",
            "rw=read ioengine=io_uring hipri=1 runtime=1500ms",
        ] {
            assert_eq!(refused(fine), "");
        }
        for (text, words) in [
            ("rw=read blocksiz=4k", "blocksiz"),
            // On the command line, fio accepts abbreviated names, and takes `version` for its own
            // option.
            ("rw=read runtim=1", "runtim"),
            ("rw=read version=1", "version"),
            ("rw=reed", "rw=reed"),
            ("rw=read direct=yes", "direct=yes"),
        ] {
            let why = refused(text);
            assert!(why.contains(words) && why.contains("correct them"), "{why}");
        }
    }
}
