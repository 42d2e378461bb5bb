//! The sentences of comments.

use crate::repo::File;

/// The sentences of a file's comments, with the line on which their paragraph begins. Code blocks,
/// tables, headings and drawings are left out. Code in backquotes counts as one word.
pub(super) fn sentences(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut paragraph = String::new();
    let mut begins = 1;
    let mut is_code = false;
    for (number, line) in (1..).zip(file.text().lines()) {
        let comment = comment(line);
        let text = comment.map(str::trim).unwrap_or_default();
        let is_fence = text.starts_with("```");
        let is_prose = comment.is_some() && !is_code && !is_fence && !text.starts_with(['|', '#']);
        if is_fence {
            is_code = !is_code;
        } else if comment.is_none() {
            is_code = false;
        }
        let is_item = text.starts_with("- ") || text.starts_with("* ");
        if !is_prose || text.is_empty() || is_item {
            split(&mut paragraph, begins, &mut found);
        }
        if is_prose && !text.is_empty() {
            if paragraph.is_empty() {
                begins = number;
            }
            paragraph.push_str(text);
            paragraph.push(' ');
        }
    }
    split(&mut paragraph, begins, &mut found);
    found
}

/// Returns the text of a line that holds only a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.strip_prefix(['/', '!']).unwrap_or(rest))
}

fn split(paragraph: &mut String, begins: usize, found: &mut Vec<(usize, String)>) {
    let text = without_code(std::mem::take(paragraph));
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let end = [". ", "? ", "! ", ": "]
            .into_iter()
            .filter_map(|end| rest.find(end));
        let end = end.min().map_or(rest.len(), |at| at + 2);
        let (sentence, after) = rest.split_at(end);
        if !sentence.trim().is_empty() {
            found.push((begins, sentence.trim().to_owned()));
        }
        rest = after;
    }
}

/// Replaces code in backquotes by one word.
pub(super) fn without_code(mut text: String) -> String {
    while let Some(from) = text.find('`') {
        let Some(length) = text[from + 1..].find('`') else {
            break;
        };
        text.replace_range(from..from + length + 2, "CODE");
    }
    text
}

/// The words of a sentence, in lower case.
pub(super) fn words(sentence: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphabetic() || c == '\'';
    let words = sentence.split(|c| !is_part(c));
    let words = words.filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_become_sentences() {
        let text = "//! One `a b`\n//! two. Three: four.\n//!\n//! ```\n//! code.\n//! ```\n\
                     /// - Five\n/// - six\nfn f() {\n    // Seven.\n}\n";
        let file = File::new("a.rs", text.into());
        let texts = sentences(&file);
        let texts: Vec<(usize, &str)> = texts
            .iter()
            .map(|(at, text)| (*at, text.as_str()))
            .collect();
        let expected = [
            (1, "One CODE two."),
            (1, "Three:"),
            (1, "four."),
            (7, "- Five"),
            (8, "- six"),
            (10, "Seven."),
        ];
        assert_eq!(texts, expected);
        assert_eq!(words("It's one, CODE."), ["it's", "one", "code"]);
    }
}
