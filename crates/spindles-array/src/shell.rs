//! Quotes text for a shell.

use std::borrow::Cow;

/// Quotes a text for a shell, in single quotes if the shell would interpret a part of it.
#[must_use]
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |char: char| char.is_alphanumeric() || "_-./:,=@%+".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', r"'\''")).into()
    }
}
