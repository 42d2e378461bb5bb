//! `spindles trace convert`: writes a trace in another format.

use super::super::Command;
use super::{formats, refused};
use crate::documents::traces::Converted;
use crate::failure::Usage;
use crate::output;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_lab::traces::{STANDARD_INPUT, TraceFile};
use spindles_workload::trace::{TraceFormat, TraceRequest, TraceWriter, WriteError};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) static COMMAND: Command = Command {
    name: "convert",
    about: "Write a trace in another format",
    details: "The format requests holds closed loops of reads and writes with response times; \
              spindles holds every trace. An existing file is overwritten only with --force. \
              The result - means standard output.\n\n\
              spindles trace convert msr.csv day.trace\n\
              blkparse -i sda | spindles trace convert - day.trace\n\
              spindles trace convert day.trace requests.csv --to requests",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 16;

#[derive(Args)]
struct Arguments {
    /// The trace, or - for standard input
    #[arg(value_name = "FROM")]
    from: String,
    /// The result, or - for standard output
    #[arg(value_name = "TO")]
    to: String,
    /// The format of FROM [default: as the first line shows]
    #[arg(long, value_name = "FORMAT", value_parser = formats(|_| true))]
    format: Option<&'static TraceFormat>,
    /// The format of TO
    #[arg(long = "to", value_name = "FORMAT", default_value = "spindles",
          id = "to_format", value_parser = formats(TraceFormat::is_written))]
    to_format: &'static TraceFormat,
    /// Overwrite an existing file TO
    #[arg(long)]
    force: bool,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let to_output = arguments.to == STANDARD_INPUT;
    if to_output && ui.wants_json() {
        return Err(Usage::error(
            "--json and the trace would both go to standard output: name a file for the trace",
        ));
    }
    let trace = TraceFile::open(&arguments.from, arguments.format).map_err(|e| refused(&e))?;
    let mut result = Converting {
        writer: TraceWriter::new(arguments.to_format).expect("only such formats are offered"),
        out: if to_output {
            Out::Standard
        } else {
            Out::File(NewFile::create(Path::new(&arguments.to), arguments.force)?)
        },
        text: Vec::with_capacity(PIECE_BYTES),
        requests: 0,
        failed: None,
    };
    let read = trace.each(&mut |request| result.put(&request));
    // A request that the format can't hold comes before any later wrong line.
    let requests = result.requests;
    if let Some(Problem::Unwritable(error)) = &result.failed {
        return Err(Usage::error(format!(
            "{}, as {}: {error}",
            arguments.from, arguments.to_format.name
        )));
    }
    let format = read.map_err(|error| refused(&error))?;
    result.end(&arguments.to)?;
    if !to_output {
        ui.line(format!(
            "{}: {requests} requests, from {} to {}",
            arguments.to, format.name, arguments.to_format.name
        ));
    }
    ui.json(&Converted {
        from: &arguments.from,
        from_format: format.name,
        to: &arguments.to,
        to_format: arguments.to_format.name,
        requests,
    });
    Ok(())
}

/// The result while it is written.
struct Converting {
    writer: TraceWriter,
    out: Out,
    text: Vec<u8>,
    requests: u64,
    failed: Option<Problem>,
}

enum Out {
    Standard,
    File(NewFile),
}

enum Problem {
    Unwritable(WriteError),
    Io(io::Error),
}

impl Converting {
    fn put(&mut self, request: &TraceRequest) {
        if self.failed.is_some() {
            return;
        }
        self.requests += 1;
        if let Err(error) = self.writer.put(request, &mut self.text) {
            self.failed = Some(Problem::Unwritable(error));
        } else if self.text.len() >= PIECE_BYTES {
            self.write();
        }
    }

    fn write(&mut self) {
        let written = match &mut self.out {
            Out::Standard => {
                output::write_out(&String::from_utf8_lossy(&self.text));
                Ok(())
            }
            Out::File(file) => file.write_all(&self.text),
        };
        self.text.clear();
        if let Err(error) = written {
            self.failed = Some(Problem::Io(error));
        }
    }

    fn end(mut self, name: &str) -> anyhow::Result<()> {
        let mut text = std::mem::take(&mut self.text);
        self.writer.end(&mut text);
        self.text = text;
        self.write();
        if let Some(Problem::Io(error)) = self.failed {
            return Err(error).with_context(|| format!("{name}: can't be written"));
        }
        match self.out {
            Out::Standard => Ok(()),
            Out::File(file) => file
                .keep()
                .with_context(|| format!("{name}: can't be written")),
        }
    }
}

/// A file that appears under its name only when it is complete.
#[derive(Debug)]
pub(super) struct NewFile {
    file: File,
    temporary: PathBuf,
    name: PathBuf,
    is_kept: bool,
}

impl NewFile {
    /// Creates a file next to its final name.
    pub(super) fn create(name: &Path, force: bool) -> anyhow::Result<Self> {
        let found = std::fs::symlink_metadata(name);
        let shown = name.display();
        if let Ok(found) = found {
            if !found.is_file() {
                return Err(Usage::error(format!(
                    "{shown} is no plain file: name a file for the result"
                )));
            }
            if !force {
                return Err(Usage::error(format!(
                    "{shown} exists: use --force to overwrite it, or name another file"
                )));
            }
        }
        let mut temporary = name.file_name().unwrap_or_default().to_owned();
        temporary.push(format!(".{}.new", std::process::id()));
        let temporary = name.with_file_name(temporary);
        let file =
            File::create_new(&temporary).with_context(|| format!("{shown}: can't be created"))?;
        Ok(Self {
            file,
            temporary,
            name: name.to_owned(),
            is_kept: false,
        })
    }

    /// Gives the file its name.
    pub(super) fn keep(mut self) -> io::Result<()> {
        self.file.flush()?;
        std::fs::rename(&self.temporary, &self.name)?;
        self.is_kept = true;
        Ok(())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_kept {
            drop(std::fs::remove_file(&self.temporary));
        }
    }
}
