//! How a command ends: done, failed, or used wrongly.

use crate::words::errors;
use spindles_admin::assemble::AssembleError;
use spindles_admin::attach::ChangeError;
use spindles_admin::configuration::ConfigurationError;
use spindles_admin::create::CreateError;
use spindles_admin::plain::PlainError;
use spindles_copy::CopyError;
use spindles_device::OpenError;
use std::error::Error;
use std::fmt;
use std::io::ErrorKind;

/// Exit status of a command that succeeded.
pub(crate) const STATUS_DONE: u8 = 0;
/// Exit status of a command that failed.
pub(crate) const STATUS_FAILED: u8 = 1;
/// Exit status of an invalid command line.
pub(crate) const STATUS_USAGE: u8 = 2;

/// The command succeeded, has printed its result, and answers by its exit status alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer(pub(crate) u8);

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit status {}", self.0)
    }
}

impl std::error::Error for Answer {}

/// An operation failed, here or in the server that has its array.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The exit status.
    pub status: u8,
    /// The message.
    pub text: String,
    /// The device that was not found, if that is the error.
    pub absent: Option<String>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failed {}

/// An invalid command line: exit status 2. All other errors exit with 1.
///
/// A command line is invalid if it is wrong whatever the devices hold: [`is_usage`] decides that
/// for the errors of other crates.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    /// Creates an error for `return Err(...)`. The message says what is wrong and what to write
    /// instead.
    pub(crate) fn error(message: impl fmt::Display) -> anyhow::Error {
        anyhow::Error::new(Self(message.to_string()))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Returns true if an error is one of the command line, from whichever command.
fn is_usage(error: &(dyn Error + 'static)) -> bool {
    if error.is::<ConfigurationError>() {
        return true;
    }
    if let Some(error) = error.downcast_ref() {
        return matches!(error, AssembleError::SameDevice { .. });
    }
    if let Some(error) = error.downcast_ref() {
        return matches!(
            error,
            ChangeError::SameDevice { .. } | ChangeError::Chunk(_)
        );
    }
    if let Some(error) = error.downcast_ref() {
        return matches!(
            error,
            CreateError::Name { .. }
                | CreateError::NotAnArray { .. }
                | CreateError::IsAnArray { .. }
                | CreateError::DoesNotLast { .. }
                | CreateError::SameDevice { .. }
                | CreateError::Inexact { .. }
                | CreateError::Geometry(_)
        );
    }
    if let Some(error) = error.downcast_ref() {
        return matches!(
            error,
            OpenError::NoName
                | OpenError::Unprintable { .. }
                | OpenError::NotADevice { .. }
                | OpenError::Address { .. }
                | OpenError::Size { .. }
                | OpenError::Environment { .. }
        );
    }
    if let Some(error) = error.downcast_ref() {
        return matches!(
            error,
            PlainError::Expression(_)
                | PlainError::Configuration(_)
                | PlainError::Geometry { .. }
                | PlainError::Empty { .. }
                | PlainError::NoLevel { .. }
                | PlainError::NotInPlace { .. }
                | PlainError::SameDevice(_)
                | PlainError::Slice { .. }
        );
    }
    match error.downcast_ref() {
        Some(error) => matches!(error, CopyError::SameDevice { .. }),
        None => error.is::<Usage>(),
    }
}

/// Returns the device that a command did not find, if that is the error.
pub(crate) fn absent_device(error: &anyhow::Error) -> Option<&str> {
    if let Some(failed) = error.downcast_ref::<Failed>() {
        return failed.absent.as_deref();
    }
    errors::causes(&**error).find_map(|error| {
        if let Some(CreateError::NotThere { device }) = error.downcast_ref() {
            return Some(device.as_str());
        }
        match error.downcast_ref()? {
            OpenError::Io { device, source, .. } if source.kind() == ErrorKind::NotFound => {
                Some(device.as_str())
            }
            _ => None,
        }
    })
}

/// Returns the exit status and the text of an error, without the leading `spindles: `.
pub(crate) fn describe(error: &anyhow::Error) -> (u8, String) {
    let status = if let Some(failed) = error.downcast_ref::<Failed>() {
        failed.status
    } else if errors::causes(&**error).any(is_usage) {
        STATUS_USAGE
    } else {
        STATUS_FAILED
    };
    (status, errors::text(&**error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn errors_have_a_status_and_list_each_cause_once() {
        let usage = Usage::error("give a device").context("create");
        assert_eq!(describe(&usage), (2, "create: give a device".to_owned()));
        let failed = std::fs::read("/nonexistent/x")
            .context("a.img: can't be read")
            .unwrap_err();
        let (status, text) = describe(&failed);
        assert_eq!(status, 1);
        assert!(
            text.starts_with("a.img: can't be read: No such file"),
            "{text}"
        );
        let twice = anyhow::anyhow!("it broke").context("oh: it broke");
        assert_eq!(describe(&twice).1, "oh: it broke");
    }
}
