//! The workload `replay`: its choices, read from words.

use crate::experiment::trace::{STANDARD_INPUT, TraceFile, TraceFileError};
use spindles_block::SizeBytes;
use spindles_workload::IN_FLIGHT_MAX;
use spindles_workload::replay::{
    Beyond, Extent, REPLAY, Replay, ReplayError, ReplayPlan, SPEED_ONE, Timing, speed_permille,
};
use spindles_workload::trace::{FORMATS, TraceFacts, TraceFormat, TraceOperation, named};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a replay uses of a new system if addresses wrap or scale.
const SIZE_BYTES_DEFAULT: u64 = 256 << 20;
const IN_FLIGHT_DEFAULT: u32 = 64;

/// An answered request of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayAnswer {
    /// The number of the request in the trace, counted from 1.
    pub request: u64,
    /// Its operation.
    pub operation: TraceOperation,
    /// Its first byte on the target.
    pub offset_bytes: u64,
    /// Its length on the target, in whole blocks.
    pub bytes: u64,
    /// Delay between the due time and sending.
    pub late_ns: u64,
    /// The time until the answer.
    pub response_ns: u64,
    /// The time until the answer in the trace, where measured.
    pub recorded_ns: Option<u64>,
}

/// Takes the answers of a replay, in the order of their completion.
pub trait ReplaySink: fmt::Debug + Send {
    /// Takes one. Must return soon: the replay waits.
    fn answered(&mut self, answer: &ReplayAnswer);
}

/// A sink that several owners share.
#[derive(Clone, Debug)]
pub struct ReplaySinks(Arc<Mutex<dyn ReplaySink>>);

impl ReplaySinks {
    /// Shares a sink.
    pub fn new<T: ReplaySink + 'static>(sink: &Arc<Mutex<T>>) -> Self {
        let shared: Arc<Mutex<T>> = Arc::clone(sink);
        Self(shared)
    }

    pub(crate) fn answered(&self, answer: &ReplayAnswer) {
        let mut sink = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sink.answered(answer);
    }
}

/// A replay with its choices.
#[derive(Clone, Debug)]
pub struct ReplayWork {
    /// The file.
    pub trace: String,
    /// Its format; `None` for the one that the first line shows.
    pub format: Option<&'static TraceFormat>,
    /// Facts about all its requests.
    pub facts: TraceFacts,
    /// Timing, speed and placement.
    pub plan: ReplayPlan,
    /// Bytes of the target to use, from its start; `None` for all, or a default if addresses wrap
    /// or scale.
    pub size_bytes: Option<u64>,
    /// Takes the answers, if anybody wants them.
    pub sink: Option<ReplaySinks>,
}

/// A choice of a replay is wrong.
#[derive(Debug)]
pub enum ReplayChoiceError {
    /// A parameter is wrong: the sentence says what is possible.
    Choice(String),
    /// The trace is wrong, or can't be read.
    Trace(TraceFileError),
}

impl fmt::Display for ReplayChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choice(text) => f.write_str(text),
            Self::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayChoiceError {}

impl From<TraceFileError> for ReplayChoiceError {
    fn from(error: TraceFileError) -> Self {
        Self::Trace(error)
    }
}

/// Looks up a word of a table.
fn word<T: Copy>(name: &str, text: &str, words: &[(&str, T)]) -> Result<T, ReplayChoiceError> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let words = words.join(", ");
        ReplayChoiceError::Choice(format!("{name} = {text}: choose one of {words}"))
    })
}

/// Parses a number of requests in flight.
fn in_flight(text: &str) -> Result<u32, ReplayChoiceError> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=IN_FLIGHT_MAX).contains(number));
    number.ok_or_else(|| {
        let what = format!("in_flight = {text}: choose a number from 1 to {IN_FLIGHT_MAX}");
        ReplayChoiceError::Choice(what)
    })
}

/// Parses a size above 0.
fn size(text: &str) -> Result<u64, ReplayChoiceError> {
    let what = match text.parse::<SizeBytes>() {
        Ok(size) if size.0 > 0 => return Ok(size.0),
        Ok(_) => "size = 0: choose a size above 0".to_owned(),
        Err(why) => format!("size = {text}: {why}"),
    };
    Err(ReplayChoiceError::Choice(what))
}

impl ReplayWork {
    /// Reads the choices, and the whole trace for its facts.
    ///
    /// # Errors
    /// If a choice is unknown or the trace is wrong.
    pub fn new(chosen: &BTreeMap<String, String>) -> Result<Self, ReplayChoiceError> {
        let wrong = |what: String| Err(ReplayChoiceError::Choice(what));
        let mut plan = ReplayPlan {
            timing: Timing::Recorded,
            speed_permille: SPEED_ONE,
            beyond: Beyond::Refuse,
            in_flight_max: IN_FLIGHT_DEFAULT,
        };
        let (mut trace, mut format, mut size_bytes) = (None, None, None);
        for (name, text) in chosen {
            match name.as_str() {
                "trace" if text == STANDARD_INPUT => {
                    return wrong(
                        "a replay reads its trace twice, and standard input can be read once: \
                         name a file"
                            .to_owned(),
                    );
                }
                "trace" => trace = Some(text.clone()),
                "format" => {
                    let names: Vec<_> = FORMATS.iter().map(|row| (row.name, row.name)).collect();
                    format = named(word(name, text, &names)?);
                }
                "timing" => plan.timing = word(name, text, &Timing::NAMES)?,
                "beyond" => plan.beyond = word(name, text, &Beyond::NAMES)?,
                "speed" => {
                    plan.speed_permille = match speed_permille(text) {
                        Some(permille) => permille,
                        None => return wrong(format!("speed = {text}: {SPEEDS}")),
                    };
                }
                "in_flight" => plan.in_flight_max = in_flight(text)?,
                "size" => size_bytes = Some(size(text)?),
                other => {
                    let names = PARAMETERS.map(|(name, ..)| name).join(", ");
                    return wrong(format!(
                        "{REPLAY} has no parameter {other}: choose one of {names}"
                    ));
                }
            }
        }
        let Some(trace) = trace else {
            return wrong(format!("{REPLAY} needs a trace: trace = \"day.trace\""));
        };
        // The run may change its folder.
        let absolute = std::path::absolute(&trace).ok();
        let absolute = absolute.and_then(|path| path.into_os_string().into_string().ok());
        let trace = absolute.unwrap_or(trace);
        Ok(Self {
            facts: TraceFile::facts(&trace, format)?,
            trace,
            format,
            plan,
            size_bytes,
            sink: None,
        })
    }

    /// Starts it on a target with this number of blocks.
    ///
    /// # Errors
    /// If the trace does not fit the target or the timing.
    pub fn on(&self, block_bytes: u32, blocks: u64) -> Result<Replay, ReplayError> {
        let most = match (self.size_bytes, self.plan.beyond) {
            (Some(size), _) => size,
            (None, Beyond::Refuse) => u64::MAX,
            (None, Beyond::Wrap | Beyond::Scale) => self.needed_bytes(),
        };
        let extent = Extent {
            block_bytes,
            blocks: blocks.min(most / u64::from(block_bytes)),
        };
        Replay::new(self.plan, &self.facts, extent)
    }

    /// Returns the bytes that a new system gets for it. With addresses that wrap or scale, a
    /// smaller target will do.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let of_trace = || self.facts.end_bytes.saturating_add(BLOCK_BYTES_MAX);
        let needed = match (self.size_bytes, self.plan.beyond) {
            (Some(size), _) => size,
            (None, Beyond::Refuse) => of_trace(),
            (None, Beyond::Wrap | Beyond::Scale) => {
                SIZE_BYTES_DEFAULT.max(self.facts.largest_bytes)
            }
        };
        needed.checked_next_multiple_of(1 << 20).unwrap_or(needed)
    }

    /// Returns true if it changes the target.
    pub(crate) fn changes(&self) -> bool {
        self.facts.changes > 0
    }

    /// Returns its parameters in words, for records.
    pub(crate) fn words(&self) -> BTreeMap<String, String> {
        let beyond = Beyond::NAMES.iter();
        let mut beyond = beyond.filter(|(_, meaning)| *meaning == self.plan.beyond);
        let file = Path::new(&self.trace).file_name().unwrap_or_default();
        let words = [
            ("trace", file.to_string_lossy().into_owned()),
            ("timing", self.plan.timing.name().to_owned()),
            ("speed", self.speed()),
            (
                "beyond",
                beyond.next().map_or("", |(word, _)| *word).to_owned(),
            ),
        ];
        words.map(|(name, word)| (name.to_owned(), word)).into()
    }

    /// Returns the speed in words.
    fn speed(&self) -> String {
        let (whole, rest) = (
            self.plan.speed_permille / SPEED_ONE,
            self.plan.speed_permille % SPEED_ONE,
        );
        let text = format!("{whole}.{rest:03}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// Returns the summary for records.
    pub(crate) fn summary(&self) -> String {
        format!(
            "replays {} requests of a trace, {}, at {} times the speed",
            self.facts.requests,
            self.plan.timing.name(),
            self.speed()
        )
    }
}

const SPEEDS: &str = "choose a factor from 0.001 to 1000000, with at most three decimals";

/// The largest block of a target.
const BLOCK_BYTES_MAX: u64 = 4096;

/// The parameters: name, default, description.
pub const PARAMETERS: [(&str, &str, &str); 7] = [
    ("trace", "-", "the file with the trace"),
    (
        "format",
        "as the first line shows",
        "the format of the trace",
    ),
    (
        "timing",
        "recorded",
        "recorded times, answered (each after the gap since the answer before), or flat-out",
    ),
    ("speed", "1", "factor of the recorded speed"),
    (
        "beyond",
        "refuse",
        "requests beyond the target: refuse the trace, or let addresses wrap or scale",
    ),
    ("in_flight", "64", "most requests in flight"),
    (
        "size",
        "256M with wrap and scale, else all",
        "how much of the target to use, from its start",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(pairs: &[(&str, &str)]) -> String {
        let pairs = pairs.iter();
        let chosen = pairs.map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        ReplayWork::new(&chosen.collect()).unwrap_err().to_string()
    }

    #[test]
    fn wrong_choices_are_refused() {
        for (pairs, text) in [
            (&[][..], "replay needs a trace"),
            (&[("trace", "-")], "standard input can be read once"),
            (&[("trace", "/nonexistent/t")], "the trace can't be read"),
            (
                &[("timing", "soon")],
                "timing = soon: choose one of recorded, answered, flat-out",
            ),
            (
                &[("beyond", "clip")],
                "beyond = clip: choose one of refuse, wrap, scale",
            ),
            (
                &[("format", "csv")],
                "format = csv: choose one of spindles, requests",
            ),
            (&[("speed", "-1")], "speed = -1: choose a factor"),
            (
                &[("in_flight", "0")],
                "in_flight = 0: choose a number from 1 to 1024",
            ),
            (&[("size", "0")], "size = 0"),
            (&[("size", "x")], "size = x"),
            (
                &[("chunk", "4K")],
                "replay has no parameter chunk: choose one of trace, format",
            ),
        ] {
            assert!(error(pairs).contains(text), "{}", error(pairs));
        }
    }
}
