//! Reads the requests of a trace file, piece by piece.

use spindles_workload::trace::{TraceError, TraceFacts, TraceFormat, TraceReader, TraceRequest};
use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};

/// The name that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 16;

/// An open trace.
pub struct TraceFile {
    name: String,
    input: Box<dyn Read + Send>,
    /// `None` after the end.
    reader: Option<TraceReader>,
    piece: Vec<u8>,
    ready: VecDeque<TraceRequest>,
}

/// A trace can't be used.
#[derive(Debug)]
pub enum TraceFileError {
    /// The file can't be read.
    Io {
        /// The file.
        name: String,
        /// The error.
        source: io::Error,
    },
    /// A line is wrong.
    Trace {
        /// The file.
        name: String,
        /// The line and its problem.
        source: TraceError,
    },
}

impl fmt::Display for TraceFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { name, source } => write!(f, "{name}: the trace can't be read: {source}"),
            Self::Trace { name, source } => write!(f, "{name}, {source}"),
        }
    }
}

impl std::error::Error for TraceFileError {}

impl fmt::Debug for TraceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TraceFile");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}

impl TraceFile {
    /// Opens a file, or standard input for `-`. Without a format, the first line shows it.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn open(name: &str, format: Option<&'static TraceFormat>) -> Result<Self, TraceFileError> {
        let input: Box<dyn Read + Send> = if name == STANDARD_INPUT {
            Box::new(io::stdin())
        } else {
            let file = File::open(name).map_err(|source| TraceFileError::Io {
                name: name.to_owned(),
                source,
            });
            Box::new(file?)
        };
        let shown = if name == STANDARD_INPUT {
            "standard input"
        } else {
            name
        };
        Ok(Self {
            name: shown.to_owned(),
            input,
            reader: Some(TraceReader::new(format)),
            piece: vec![0; PIECE_BYTES],
            ready: VecDeque::new(),
        })
    }

    /// Returns the format, once the first line was read.
    pub fn format(&self) -> Option<&'static TraceFormat> {
        self.reader.as_ref().and_then(TraceReader::format)
    }

    /// Passes on all requests. Returns the format.
    ///
    /// # Errors
    /// If the file can't be read, or a line is wrong.
    pub fn each(
        mut self,
        sink: &mut dyn FnMut(TraceRequest),
    ) -> Result<&'static TraceFormat, TraceFileError> {
        loop {
            let format = self.format();
            if !self.read_piece(sink)? {
                return Ok(format.expect("a trace without requests is an error"));
            }
        }
    }

    /// Returns the next request; `None` at the end.
    ///
    /// # Errors
    /// If the file can't be read, or a line is wrong.
    pub fn next_request(&mut self) -> Result<Option<TraceRequest>, TraceFileError> {
        while self.ready.is_empty() {
            let mut ready = std::mem::take(&mut self.ready);
            let more = self.read_piece(&mut |request| ready.push_back(request));
            self.ready = ready;
            if !more? {
                break;
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Reads the next piece. Returns false at the end.
    fn read_piece(&mut self, sink: &mut dyn FnMut(TraceRequest)) -> Result<bool, TraceFileError> {
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        let read = loop {
            match self.input.read(&mut self.piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let read = read.map_err(|source| TraceFileError::Io {
            name: self.name.clone(),
            source,
        })?;
        let parsed = if read > 0 {
            reader.feed(&self.piece[..read], sink)
        } else {
            self.reader.take().map_or(Ok(()), |reader| reader.end(sink))
        };
        parsed.map_err(|source| TraceFileError::Trace {
            name: self.name.clone(),
            source,
        })?;
        Ok(read > 0)
    }

    /// Reads a whole file for the facts that a replay needs beforehand.
    ///
    /// # Errors
    /// If the file can't be read, or a line is wrong.
    pub fn facts(
        name: &str,
        format: Option<&'static TraceFormat>,
    ) -> Result<TraceFacts, TraceFileError> {
        let mut facts = TraceFacts::default();
        Self::open(name, format)?.each(&mut |request| facts.add(&request))?;
        Ok(facts)
    }
}
