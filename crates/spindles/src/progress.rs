//! The progress of long work, on standard error: a bar on a terminal, or else a line every few
//! seconds.

use crate::output::write_error;
use indicatif::{ProgressBar, ProgressStyle};
use spindles_block::SizeBytes;
use spindles_device::notice::Notice;
use spindles_report::outputs::printable;
use spindles_serve::control::{Answer, Answers};
use std::time::{Duration, Instant};

/// Time between two lines without a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Time between two updates sent to another process.
const SEND_INTERVAL: Duration = Duration::from_millis(200);

/// The unit of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Printed as sizes, with a rate.
    Bytes,
    /// Printed as plain numbers.
    Steps,
}

/// Where to show progress.
#[derive(Clone, Debug)]
pub(crate) enum Shown {
    /// On a terminal.
    Bar,
    /// Without a terminal.
    Lines,
    /// In the process that asked this server for the work.
    Elsewhere(Answers),
}

/// Progress towards a known total. Dropping it removes the bar.
#[derive(Debug)]
pub(crate) struct Progress {
    what: String,
    message: String,
    total: u64,
    unit: Unit,
    started: Instant,
    /// When it was last shown, unless as a bar.
    shown_at: Option<Instant>,
    bar: Option<ProgressBar>,
    elsewhere: Option<Answers>,
    /// Shows the progress to commands that ask for the array's state meanwhile.
    notice: Option<Notice>,
}

impl Progress {
    pub(crate) fn new(
        what: &str,
        total: u64,
        unit: Unit,
        shown: Shown,
        notice: Option<Notice>,
    ) -> Self {
        let now = Instant::now();
        let bar = matches!(shown, Shown::Bar).then(|| {
            let template = match unit {
                Unit::Bytes => {
                    "{prefix} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} {msg}"
                }
                Unit::Steps => "{prefix} {wide_bar} {pos}/{len} {eta} {msg}",
            };
            let style = ProgressStyle::with_template(template).expect("the template is constant");
            ProgressBar::new(total)
                .with_style(style)
                .with_prefix(printable(what).into_owned())
        });
        Self {
            what: what.to_owned(),
            message: String::new(),
            total,
            unit,
            started: now,
            shown_at: None,
            bar,
            elsewhere: match shown {
                Shown::Elsewhere(answers) => Some(answers),
                Shown::Bar | Shown::Lines => None,
            },
            notice,
        }
    }

    /// Sets the current activity, shown next to the bar.
    pub(crate) fn message(&mut self, message: &str) {
        message.clone_into(&mut self.message);
        if let Some(bar) = &self.bar {
            bar.set_message(printable(message).into_owned());
        }
    }

    /// Sets how far the work is. Cheap enough to call at any rate.
    pub(crate) fn set(&mut self, done: u64) {
        if let Some(notice) = &mut self.notice {
            notice.update(done, self.total);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            return;
        }
        let now = Instant::now();
        let since = |at: Option<Instant>| now.duration_since(at.unwrap_or(self.started));
        if let Some(answers) = &self.elsewhere {
            if self.shown_at.is_none() || since(self.shown_at) >= SEND_INTERVAL {
                self.shown_at = Some(now);
                answers.send(&Answer::Progress {
                    progress: self.what.clone(),
                    done_bytes: done,
                    total_bytes: self.total,
                });
            }
        } else if since(self.shown_at) >= LINE_INTERVAL {
            self.shown_at = Some(now);
            let text = self.text(done, now.duration_since(self.started));
            write_error(&printable(&text));
        }
    }

    fn text(&self, done: u64, elapsed: Duration) -> String {
        let percent = match self.total {
            0 => 100,
            total => u128::from(done.min(total)) * 100 / u128::from(total),
        };
        let counts = match self.unit {
            Unit::Bytes => format!(
                "{} of {}",
                SizeBytes(done).rounded(),
                SizeBytes(self.total).rounded()
            ),
            Unit::Steps => format!("{done} of {}", self.total),
        };
        let message = match self.message.as_str() {
            "" => String::new(),
            message => format!(" ({message})"),
        };
        format!(
            "spindles: {}: {percent} %, {counts}, {} s{}{message}\n",
            self.what,
            elapsed.as_secs(),
            self.left(done, elapsed)
        )
    }

    /// Estimates the time left from the rate so far.
    fn left(&self, done: u64, elapsed: Duration) -> String {
        let rest = self.total.saturating_sub(done);
        if done == 0 || rest == 0 {
            return String::new();
        }
        let left = elapsed.as_millis() * u128::from(rest) / u128::from(done) / 1000;
        let about = match left {
            ..120 => format!("{left} s"),
            120..7200 => format!("{} min", left / 60),
            _ => format!("{} h", left / 3600),
        };
        format!(", about {about} to go")
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_report_progress() {
        let mut bytes = Progress::new("copy", 8 << 20, Unit::Bytes, Shown::Lines, None);
        assert_eq!(
            bytes.text((2 << 20) + 5, Duration::from_secs(3)),
            "spindles: copy: 25 %, 2 MiB of 8 MiB, 3 s, about 8 s to go\n"
        );
        let runs = Progress::new("run", 432, Unit::Steps, Shown::Lines, None);
        for (done, seconds, ending) in [
            (0, 60, "60 s\n"),
            (100, 60, "60 s, about 3 min to go\n"),
            (1, 60, "60 s, about 7 h to go\n"),
            (432, 60, "60 s\n"),
        ] {
            let text = runs.text(done, Duration::from_secs(seconds));
            assert!(text.ends_with(ending), "{text}");
        }
        bytes.message("verifying");
        assert!(bytes.text(0, Duration::ZERO).ends_with("0 s (verifying)\n"));
        let none = Progress::new("run", 0, Unit::Steps, Shown::Lines, None);
        assert_eq!(
            none.text(0, Duration::ZERO),
            "spindles: run: 100 %, 0 of 0, 0 s\n"
        );
    }
}
