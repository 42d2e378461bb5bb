//! Texts as statements of words: one per line, or several lines joined by a backslash.

use crate::fault::Fault;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Deref;

/// The limit of a statement.
const WORDS_MAX: usize = 4096;

/// How a dialect divides a text. A `#` at the start of a word always begins a comment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grammar {
    /// True if a backslash at the end of a line joins the next line.
    pub(crate) continuation: bool,
    pub(crate) quotes: Quotes,
}

/// The characters of a word that do not stand for themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quotes {
    None,
    /// Quotes and backslashes work as in a shell.
    Shell,
    /// As in a shell, and [`SEPARATORS`] outside quotes are words of their own.
    Commands,
}

/// Characters that end a command.
const SEPARATORS: [char; 3] = [';', '&', '|'];

/// A word and its place. The text is borrowed if it has no quotes and no backslashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word<'text> {
    pub(crate) text: Cow<'text, str>,
    /// The offset of its first byte.
    pub(crate) at: usize,
}

impl Word<'_> {
    /// Returns an error that points to this word.
    pub(crate) fn fault(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.at, message)
    }

    /// Returns the word from this byte on, such as the value of `--chunk=128`.
    pub(crate) fn from(&self, byte: usize) -> Word<'_> {
        Word {
            text: Cow::Borrowed(&self.text[byte..]),
            at: self.at + byte,
        }
    }

    /// Returns the parts between separators, without empty ones.
    pub(crate) fn split<'word>(&'word self, separators: &[char]) -> Vec<Word<'word>> {
        let parts = self.text.split(separators);
        let start = self.text.as_ptr().addr();
        parts
            .filter(|part| !part.is_empty())
            .map(|part| self.from(part.as_ptr().addr() - start).until(part.len()))
            .collect()
    }
}

impl<'text> Word<'text> {
    /// Returns the word up to this byte.
    pub(crate) fn until(&self, byte: usize) -> Word<'text> {
        let text = match &self.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..byte]),
            Cow::Owned(text) => Cow::Owned(text[..byte].into()),
        };
        Word { text, at: self.at }
    }
}

impl Deref for Word<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// The words of a statement; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement<'text> {
    pub(crate) words: Vec<Word<'text>>,
    /// The offset of its end, for words that are missing there.
    pub(crate) end: usize,
    /// The offsets of characters that a shell replaces or takes for itself.
    shell: Vec<usize>,
}

impl<'text> Statement<'text> {
    /// Creates the statement of words that no shell changes.
    pub(crate) fn new(words: Vec<Word<'text>>, end: usize) -> Self {
        let shell = Vec::new();
        Self { words, end, shell }
    }

    /// Takes the offsets of characters that a shell replaces or takes for itself.
    pub(crate) fn take_shell(&mut self) -> Vec<usize> {
        core::mem::take(&mut self.shell)
    }

    /// Returns the word of this index, or an error that names the expected word.
    pub(crate) fn word(&self, index: usize, expected: &str) -> Result<&Word<'text>, Fault> {
        let word = self.words.get(index);
        word.ok_or_else(|| Fault::new(self.end, format!("{expected} is missing here")))
    }

    /// Returns an error if there are more words than this.
    pub(crate) fn at_most(&self, words: usize) -> Result<(), Fault> {
        match self.words.get(words) {
            None => Ok(()),
            Some(word) => Err(word.fault(format!("'{}' is one word too many", &**word))),
        }
    }
}

/// Returns the statements of a text, after a byte order mark.
pub(crate) fn statements(text: &str, grammar: Grammar) -> Statements<'_> {
    let mark = text.starts_with('\u{feff}').then(|| '\u{feff}'.len_utf8());
    Statements {
        text,
        at: mark.unwrap_or_default(),
        grammar,
        shell: Vec::new(),
    }
}

/// The iterator of [`statements`].
#[derive(Clone, Debug)]
pub(crate) struct Statements<'text> {
    text: &'text str,
    at: usize,
    grammar: Grammar,
    /// As in the statement that is read.
    shell: Vec<usize>,
}

impl<'text> Statements<'text> {
    fn rest(&self) -> &'text str {
        &self.text[self.at..]
    }

    /// Returns the bytes that a backslash at the end of a line takes here, with its line end.
    fn continuation(&self, rest: &str) -> Option<usize> {
        let after = rest
            .strip_prefix('\\')
            .filter(|_| self.grammar.continuation)?;
        let line_end = after.trim_start_matches(is_blank);
        if line_end.starts_with('\n') {
            return Some(rest.len() - line_end.len() + 1);
        }
        line_end.is_empty().then_some(rest.len())
    }

    fn word(&mut self) -> Result<Word<'text>, Fault> {
        let start = self.at;
        let rest = self.rest();
        if self.grammar.quotes != Quotes::None {
            return self.shell_word();
        }
        let mut ends = rest.char_indices();
        let end = ends.find(|(at, c)| {
            is_blank(*c) || *c == '\n' || *c == '\\' && self.continuation(&rest[*at..]).is_some()
        });
        let end = end.map_or(rest.len(), |(at, _)| at);
        self.at += end;
        Ok(self.word_since(start))
    }

    /// Returns the text from this offset to here.
    fn word_since(&self, start: usize) -> Word<'text> {
        Word {
            text: Cow::Borrowed(&self.text[start..self.at]),
            at: start,
        }
    }

    fn shell_word(&mut self) -> Result<Word<'text>, Fault> {
        let start = self.at;
        let is_command = self.grammar.quotes == Quotes::Commands;
        if is_command && self.rest().starts_with(SEPARATORS) {
            let first = self.rest().chars().next().unwrap_or(';');
            let others = self.rest().trim_start_matches(first);
            self.at += self.rest().len() - others.len();
            return Ok(self.word_since(start));
        }
        let mut text = String::new();
        let mut braces = Vec::new();
        let mut quote: Option<(char, usize)> = None;
        while let Some(c) = self.rest().chars().next() {
            if let ('\\', Some(bytes)) = (c, self.continuation(self.rest())) {
                self.at += bytes;
                continue;
            }
            let next = self.rest()[c.len_utf8()..].chars().next();
            match (quote, c) {
                (None | Some(('"', _)), '`') | (None, '<' | '>' | '(' | ')') => {
                    self.shell.push(self.at);
                }
                // A lone dollar sign is a prompt.
                (None | Some(('"', _)), '$') if !next.is_none_or(char::is_whitespace) => {
                    self.shell.push(self.at);
                }
                (None, '~') if self.at == start => self.shell.push(self.at),
                (None, '{') => braces.push(self.at),
                _ => {}
            }
            match (quote, c) {
                (None, ' ' | '\t' | '\r' | '\n' | '\u{b}' | '\u{c}') => break,
                (None, c) if is_command && SEPARATORS.contains(&c) => break,
                (None, '"' | '\'') => quote = Some((c, self.at)),
                (Some((open, _)), c) if open == c => quote = None,
                (None | Some(('"', _)), '\\') if next.is_some_and(|next| escapes(quote, next)) => {
                    self.at += 1;
                    text.extend(next);
                    self.at += next.map_or(0, char::len_utf8);
                    continue;
                }
                _ => text.push(c),
            }
            self.at += c.len_utf8();
        }
        if let Some((open, at)) = quote {
            return Err(Fault::new(
                at,
                format!("the {open} that ends this is missing"),
            ));
        }
        let written = self.word_since(start);
        Ok(if *written == *text {
            written
        } else {
            // Whether such braces are quoted is no longer known.
            self.shell.append(&mut braces);
            Word {
                text: Cow::Owned(text),
                at: start,
            }
        })
    }
}

/// Returns true if a backslash before this character escapes it.
fn escapes(quote: Option<(char, usize)>, next: char) -> bool {
    match quote {
        None => next != '\n' && next != '\r',
        Some(_) => matches!(next, '"' | '\\' | '$' | '`'),
    }
}

/// Returns true for characters that change how others are shown: control characters, and those
/// that end a line or turn its direction.
pub(crate) fn is_control(c: char) -> bool {
    let turns = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || turns || ('\u{2028}'..='\u{202e}').contains(&c)
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\u{b}' | '\u{c}')
}

impl<'text> Iterator for Statements<'text> {
    type Item = Result<Statement<'text>, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut words: Vec<Word<'text>> = Vec::new();
        let mut end = self.at;
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches(is_blank).len();
            let rest = self.rest();
            if let Some(bytes) = self.continuation(rest) {
                self.at += bytes;
                continue;
            }
            match rest.chars().next() {
                None => break,
                Some('\n') => {
                    self.at += 1;
                    if !words.is_empty() {
                        break;
                    }
                }
                Some('#') => self.at += rest.find('\n').unwrap_or(rest.len()),
                Some(_) if words.len() == WORDS_MAX => {
                    let message = format!("this is more than {WORDS_MAX} words in one statement");
                    self.at = self.text.len();
                    return Some(Err(Fault::new(end, message)));
                }
                Some(_) => match self.word() {
                    Ok(word) => {
                        words.push(word);
                        end = self.at;
                    }
                    Err(fault) => {
                        self.at = self.text.len();
                        return Some(Err(fault));
                    }
                },
            }
        }
        let shell = core::mem::take(&mut self.shell);
        (!words.is_empty()).then_some(Ok(Statement { words, end, shell }))
    }
}
