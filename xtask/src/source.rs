//! Rust source as the rules read it: without comments, strings or tests.

use proc_macro2::{LineColumn, Span, TokenStream, TokenTree};
use std::str::FromStr as _;

/// The parts of a source that [`strip`] keeps. Line numbers stay the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Code and string literals.
    Strings,
    /// Code alone.
    CodeOnly,
}

/// Returns the source with comments turned into blanks. `CodeOnly` also blanks the insides of
/// strings and character literals. Source that is not valid Rust becomes all blank.
pub(crate) fn strip(source: &str, keep: Keep) -> String {
    let lines: Vec<Vec<char>> = (source.split('\n'))
        .map(|line| line.chars().collect())
        .collect();
    let blank: Vec<Vec<char>> = lines.iter().map(|line| vec![' '; line.len()]).collect();
    let mut page = Page {
        lines,
        code: blank,
        keep,
    };
    if let Ok(tokens) = TokenStream::from_str(source) {
        page.copy_all(tokens);
    }
    let lines: Vec<String> = page.code.iter().map(|line| line.iter().collect()).collect();
    lines.join("\n")
}

/// A source, and a blank copy that receives the parts to keep.
struct Page {
    lines: Vec<Vec<char>>,
    code: Vec<Vec<char>>,
    keep: Keep,
}

impl Page {
    fn copy_all(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                // A doc comment is an attribute, and all tokens of the attribute lie at the
                // comment.
                TokenTree::Group(group) if self.at(group.span_open().start()) == '/' => {}
                TokenTree::Group(group) => {
                    self.copy(group.span_open());
                    self.copy_all(group.stream());
                    self.copy(group.span_close());
                }
                TokenTree::Punct(punct) if self.at(punct.span().start()) != punct.as_char() => {}
                TokenTree::Literal(literal) if self.keep == Keep::CodeOnly => {
                    let span = literal.span();
                    if literal.to_string().contains(['"', '\'']) {
                        self.copy_ends(span);
                    } else {
                        self.copy(span);
                    }
                }
                token => self.copy(token.span()),
            }
        }
    }

    /// Returns the character at a place, or a blank outside the source, such as before the tokens
    /// of an empty group.
    fn at(&self, place: LineColumn) -> char {
        let line = self.lines.get(place.line - 1);
        line.and_then(|line| line.get(place.column))
            .copied()
            .unwrap_or(' ')
    }

    fn copy(&mut self, span: Span) {
        let (start, end) = (span.start(), span.end());
        for line in start.line..=end.line {
            let whole = 0..self.lines[line - 1].len();
            let from = if line == start.line {
                start.column
            } else {
                whole.start
            };
            let to = if line == end.line {
                end.column
            } else {
                whole.end
            };
            self.code[line - 1][from..to].copy_from_slice(&self.lines[line - 1][from..to]);
        }
    }

    /// Copies the first and the last character of a literal: the quotes.
    fn copy_ends(&mut self, span: Span) {
        let (start, end) = (span.start(), span.end());
        self.code[start.line - 1][start.column] = self.at(start);
        let last = LineColumn {
            line: end.line,
            column: end.column - 1,
        };
        self.code[last.line - 1][last.column] = self.at(last);
    }
}

/// Calls `each` with the line and the text of every string that is not a doc comment.
pub(crate) fn strings(tokens: TokenStream, each: &mut impl FnMut(usize, &str)) {
    let mut is_doc = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => strings(group.stream(), each),
            TokenTree::Ident(ident) => {
                is_doc = ident == "doc";
                continue;
            }
            TokenTree::Punct(_) => continue,
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') && !is_doc {
                    each(literal.span().start().line, &text);
                }
            }
        }
        is_doc = false;
    }
}

/// Returns the source up to its `#[cfg(test)]` module, which comes last by convention.
pub(crate) fn without_tests(source: &str) -> &str {
    let mut from = 0;
    while let Some(found) = source[from..].find("#[cfg(test)]") {
        let at = from + found;
        let after = source[at + "#[cfg(test)]".len()..].trim_start();
        let names_a_module = after.starts_with("mod ") && after.contains('{');
        let is_inline = after
            .split_once('{')
            .is_some_and(|(head, _)| !head.contains(';'));
        if names_a_module && is_inline {
            return &source[..at];
        }
        from = at + 1;
    }
    source
}

/// Splits an identifier into words: `scratch_blocks` and `ScratchBlocks` both yield scratch,
/// blocks.
pub(crate) fn words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in identifier.chars() {
        if c == '_' || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        if c != '_' {
            let last = words.last_mut().expect("there is one from the start");
            last.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the names that stripped source defines, with their lines: functions, types, modules,
/// constants, fields, parameters and plain `let`s.
pub(crate) fn defined_names(code: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut before = "";
        let mut rest = line;
        while let Some(start) = rest.find(|c: char| c.is_alphabetic() || c == '_') {
            let word = &rest[start..];
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let end = word.find(|c: char| !is_part(c)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            let is_typed = after.starts_with(':') && !after.starts_with("::");
            let is_keyed = matches!(
                before,
                "fn" | "struct"
                    | "enum"
                    | "trait"
                    | "type"
                    | "mod"
                    | "const"
                    | "static"
                    | "let"
                    | "mut"
                    | "union"
            );
            if (is_typed || is_keyed) && word != "mut" {
                names.push((index + 1, word.to_owned()));
            }
            before = word;
            rest = after;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked() {
        let source = "let a = \"x // y\"; // z\nlet b = '\"'; /* q /* r */ s */ \
                      let c = r#\"w\"v\"#;\nfn d<'a>(e: &'a str) {}";
        let code = strip(source, Keep::CodeOnly);
        assert_eq!(code.lines().count(), source.lines().count());
        for gone in ["x", "y", "z", "q", "s */", "w"] {
            assert!(!code.contains(gone), "{gone} in {code}");
        }
        for kept in ["let a", "let b", "let c", "fn d<'a>(e: &'a str) {}"] {
            assert!(code.contains(kept), "{kept} not in {code}");
        }
        assert!(strip(source, Keep::Strings).contains("x // y"));
        assert!(!strip(source, Keep::Strings).contains('z'));
    }

    #[test]
    fn tests_are_cut_off() {
        let source = "fn a() {}\n#[cfg(test)]\nextern crate std;\n#[cfg(test)]\nmod tests {\n b }";
        assert!(without_tests(source).ends_with("std;\n"));
        let outside = "#[cfg(test)]\nmod tests;\nfn kept() {}";
        assert_eq!(without_tests(outside), outside);
    }

    #[test]
    fn names_and_their_words_are_found() {
        let source = "struct StripSize { vdev_count: u8 }\nfn f(x: u8) { let mut queue = g(y); }";
        let names: Vec<String> = defined_names(source)
            .into_iter()
            .map(|(_, name)| name)
            .collect();
        assert_eq!(names, ["StripSize", "vdev_count", "f", "x", "queue"]);
        assert_eq!(words("StripSize"), ["strip", "size"]);
        assert_eq!(words("vdev_count"), ["vdev", "count"]);
        assert_eq!(words("RAID_MAX"), ["raid", "max"]);
    }
}
