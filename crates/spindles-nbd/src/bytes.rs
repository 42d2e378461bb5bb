//! Integers in network byte order, and length-prefixed strings.

/// Reads from the front of a byte slice; every read returns `None` if too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a string with a 32-bit length prefix.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let bytes = usize::try_from(self.u32()?).ok()?;
        text(self.take(bytes)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Parses a string as the protocol defines it: UTF-8 without NUL, at most
/// [`crate::STRING_BYTES_MAX`] bytes.
pub(crate) fn text(bytes: &[u8]) -> Option<&str> {
    let text = core::str::from_utf8(bytes).ok()?;
    (text.len() <= crate::STRING_BYTES_MAX && !text.contains('\0')).then_some(text)
}

/// Converts a length to the protocol's 32 bits.
pub(crate) fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("messages are short")
}
