//! Rust source without what rules must not trip over: comments, strings, tests.

/// What of a source is blanked out; lines keep their numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Code and string literals.
    Strings,
    /// Code alone.
    CodeOnly,
}

/// The source with comments, and with `CodeOnly` also the insides of strings, turned to blanks.
/// Character literals keep their quotes and lose their insides.
pub(crate) fn strip(source: &str, keep: Keep) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out = String::with_capacity(source.len());
    let mut at = 0;
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    while at < chars.len() {
        let next = chars.get(at + 1).copied();
        let end = match chars[at] {
            '/' if next == Some('/') => end_of_line(&chars, at),
            '/' if next == Some('*') => end_of_block_comment(&chars, at),
            '"' => end_of_string(&chars, at),
            'r' if !is_word_before(&chars, at) => end_of_raw_string(&chars, at),
            '\'' => end_of_character(&chars, at),
            _ => at + 1,
        };
        let is_comment = chars[at] == '/' && end > at + 1;
        let is_literal = !is_comment && end > at + 1;
        for (index, c) in chars[at..end].iter().enumerate() {
            let is_edge = index == 0 || at + index + 1 == end;
            out.push(match (is_comment, is_literal) {
                (true, _) => blank(*c),
                (_, true) if keep == Keep::CodeOnly && !is_edge => blank(*c),
                _ => *c,
            });
        }
        at = end;
    }
    out
}

/// The source up to its `#[cfg(test)]` module, which comes last by custom.
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

/// The words of an identifier: `scratch_blocks` and `ScratchBlocks` both are scratch, blocks.
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

/// The names that a source defines, with their lines: functions, types, modules, constants,
/// fields, parameters and plain `let`s.
pub(crate) fn defined_names(source: &str) -> Vec<(usize, String)> {
    let code = strip(without_tests(source), Keep::CodeOnly);
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

fn is_word_before(chars: &[char], at: usize) -> bool {
    at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_') && chars[at - 1] != 'b'
}

fn end_of_line(chars: &[char], at: usize) -> usize {
    let length = chars[at..].iter().position(|c| *c == '\n');
    length.map_or(chars.len(), |length| at + length)
}

fn end_of_block_comment(chars: &[char], at: usize) -> usize {
    let mut depth = 0_usize;
    let mut index = at;
    while index + 1 < chars.len() {
        match (chars[index], chars[index + 1]) {
            ('/', '*') => (depth, index) = (depth + 1, index + 2),
            ('*', '/') if depth == 1 => return index + 2,
            ('*', '/') => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], at: usize) -> usize {
    let mut index = at + 1;
    while index < chars.len() {
        match chars[index] {
            '\\' => index += 2,
            '"' => return index + 1,
            _ => index += 1,
        }
    }
    chars.len()
}

fn end_of_raw_string(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return at + 1;
    }
    let mut index = open + 1;
    while index < chars.len() {
        let closes = chars[index] == '"'
            && chars[index + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes;
        if closes {
            return index + 1 + hashes;
        }
        index += 1;
    }
    chars.len()
}

/// A character literal; a lifetime is only its quote.
fn end_of_character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let end = chars
                .get(at + 3..)
                .and_then(|rest| rest.iter().position(|c| *c == '\''));
            end.map_or(at + 1, |end| at + 3 + end + 1)
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked() {
        let source = "let a = \"x // y\"; // z\nlet b = '\"'; /* q /* r */ s */ let c = r#\"w\"v\"#;\n\
                      fn d<'a>(e: &'a str) {}";
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
