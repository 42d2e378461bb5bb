//! Errors inside a dialect: a byte of the text and a message.

use alloc::string::String;

/// An error at a byte of the text. [`Dialect::read`](crate::Dialect::read) converts the byte to
/// line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The offset in bytes.
    pub(crate) at: usize,
    /// The expected words, or the impossible request.
    pub(crate) message: String,
    /// True if the words are right and no array here is like theirs. Other arrays of the text are
    /// read all the same.
    pub(crate) is_refusal: bool,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
            is_refusal: false,
        }
    }

    /// Marks this as an error that does not concern other arrays of the text.
    pub(crate) fn refusal(self) -> Self {
        Self {
            is_refusal: true,
            ..self
        }
    }
}
