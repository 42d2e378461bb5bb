//! Texts as they are typed in a shell.

use std::borrow::Cow;

/// A text as it is typed in a shell: in single quotes where that would take a part of it for
/// something else.
#[must_use]
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:,=@%+".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''")).into()
    }
}
