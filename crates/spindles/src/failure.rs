//! How a command ends: done, failed, or used wrongly.

use spindles_admin::assemble::AssembleError;
use spindles_admin::attach::ChangeError;
use spindles_admin::copy::CopyError;
use spindles_admin::create::CreateError;
use spindles_admin::scratch::ScratchError;
use spindles_admin::scrub::ScrubError;
use spindles_admin::survey;
use spindles_array::errors::AttachError;
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
    if let Some(error) = assembling(error) {
        return match error {
            AssembleError::Open(error) => is_usage(error),
            AssembleError::SameDevice { .. } => true,
            _ => false,
        };
    }
    if let Some(error) = error.downcast_ref::<ChangeError>() {
        return match error {
            ChangeError::Attach(error) => is_usage(error),
            ChangeError::Device(error) => is_usage(error),
            ChangeError::Open(error) => is_usage(error),
            ChangeError::SameDevice { .. } | ChangeError::Chunk(_) => true,
            _ => false,
        };
    }
    if let Some(error) = error.downcast_ref::<CreateError>() {
        return match error {
            CreateError::Open(error) => is_usage(error),
            CreateError::Name { .. }
            | CreateError::NotAnArray { .. }
            | CreateError::IsAnArray { .. }
            | CreateError::DoesNotLast { .. }
            | CreateError::SameDevice { .. }
            | CreateError::Inexact { .. }
            | CreateError::Geometry(_) => true,
            _ => false,
        };
    }
    match error.downcast_ref::<AttachError>() {
        Some(AttachError::Open(error)) => return is_usage(error),
        Some(_) => return false,
        None => {}
    }
    if let Some(error) = error.downcast_ref::<OpenError>() {
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
    if let Some(error) = error.downcast_ref::<ScratchError>() {
        return match error {
            ScratchError::Device(error) => is_usage(error),
            ScratchError::Expression { .. }
            | ScratchError::Geometry { .. }
            | ScratchError::Empty { .. } => true,
            _ => false,
        };
    }
    match error.downcast_ref::<CopyError>() {
        Some(error) => matches!(error, CopyError::SameDevice { .. }),
        None => error.is::<Usage>(),
    }
}

/// Returns the advice for an array that lacks more members than it survives, if that is the error.
fn rescue(error: &anyhow::Error) -> Option<&'static str> {
    let mut errors = error.chain().filter_map(assembling);
    let is_lost = errors.any(|error| matches!(error, AssembleError::Incomplete { .. }));
    is_lost.then_some(
        "bring back enough of them, or copy what can still be read with `spindles copy --rescue`, \
         if it was closed in order",
    )
}

/// Finds the error of assembling an array in an error; `None` if it is another one.
fn assembling<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a AssembleError> {
    if let Some(ChangeError::Assemble(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(ScrubError::Assemble(error)) = error.downcast_ref() {
        return Some(error);
    }
    error.downcast_ref()
}

/// Returns the device that a command did not find, if that is the error.
pub(crate) fn absent_device(error: &anyhow::Error) -> Option<&str> {
    error.chain().find_map(absent_in)
}

fn absent_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a str> {
    if let Some(ChangeError::Device(error)) = error.downcast_ref() {
        return absent_in(error);
    }
    if let Some(CreateError::NotThere { device }) = error.downcast_ref() {
        return Some(device);
    }
    match opening(error)? {
        OpenError::Io { device, source, .. } if source.kind() == ErrorKind::NotFound => {
            Some(device)
        }
        _ => None,
    }
}

/// Finds the error of opening a device in an error; `None` if it is another one.
fn opening<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a OpenError> {
    if let Some(AssembleError::Open(error)) = assembling(error) {
        return Some(error);
    }
    if let Some(error) = error.downcast_ref::<ChangeError>() {
        return match error {
            ChangeError::Attach(error) => opening(error),
            ChangeError::Device(error) => opening(error),
            ChangeError::Open(error) => Some(error),
            _ => None,
        };
    }
    if let Some(CreateError::Open(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(AttachError::Open(error)) = error.downcast_ref() {
        return Some(error);
    }
    error.downcast_ref()
}

/// Returns the command that makes a server of an array free a busy device, if that is the error.
fn freed_by(error: &anyhow::Error) -> Option<String> {
    match error.chain().find_map(opening)? {
        OpenError::Busy { device, .. } => survey::freed_by(device),
        _ => None,
    }
}

/// Returns the exit status and the text of an error, without the leading `spindles: `.
///
/// Each cause follows after a colon, unless the text before already contains it.
pub(crate) fn describe(error: &anyhow::Error) -> (u8, String) {
    let status = if error.chain().any(is_usage) {
        STATUS_USAGE
    } else {
        STATUS_FAILED
    };
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    if let Some(rescue) = rescue(error) {
        text = format!("{text}; {rescue}");
    }
    if let Some(command) = freed_by(error) {
        text = format!("{text}, as by `{command}`");
    }
    (status, text)
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
