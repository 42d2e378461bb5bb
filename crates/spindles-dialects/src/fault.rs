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
    /// True if the words are right and no level here means them. The reader continues with the next
    /// array of the text.
    is_refusal: bool,
}

impl Fault {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self {
            at,
            message: message.into(),
            is_refusal: false,
        }
    }

    /// Returns true if it does not concern other arrays of the text.
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    /// Marks this as an error that does not concern other arrays of the text.
    pub(crate) fn refusal(self) -> Self {
        Self {
            is_refusal: true,
            ..self
        }
    }
}
