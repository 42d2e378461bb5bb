//! Short text in a fixed number of bytes: names that the format stores and does not interpret.

use core::fmt;

/// Up to `N` bytes of UTF-8 without NUL, padded with NUL.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    /// No text.
    pub const EMPTY: Self = Self([0; N]);

    /// Returns `text`; `None` if it is too long or has a control character.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; N];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        (!text.chars().any(char::is_control)).then_some(Self(bytes))
    }

    /// Returns the text of padded bytes; `None` if they are not valid.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; N]) -> Option<Self> {
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(N);
        let text = core::str::from_utf8(&bytes[..length]).ok()?;
        Self::new(text).filter(|text| text.0 == *bytes)
    }

    /// The padded bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; N] {
        &self.0
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(N);
        core::str::from_utf8(&self.0[..length]).expect("checked when it was made")
    }

    /// Returns true if there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_text_is_refused() {
        assert_eq!(Text::<4>::new("raid").unwrap().as_str(), "raid");
        assert_eq!(Text::<4>::new("raid5"), None);
        assert_eq!(Text::<8>::new("a\0b"), None);
        assert_eq!(Text::<8>::new("a\nb"), None);
        assert_eq!(Text::<8>::from_bytes(b"a\0b\0\0\0\0\0"), None);
        assert_eq!(Text::<2>::from_bytes(b"\xc3\x28"), None);
        assert_eq!(
            Text::<3>::from_bytes("ü\0".as_bytes().try_into().unwrap()),
            Text::new("ü")
        );
        assert!(Text::<3>::EMPTY.is_empty());
    }
}
