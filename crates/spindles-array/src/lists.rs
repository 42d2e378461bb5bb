//! Shortens lists in messages: the first few names are enough.

use std::fmt;

/// Most names in a list.
const NAMES_MAX: usize = 5;

/// Joins the names, or only the first few if there are many.
pub fn few(names: &[String]) -> String {
    let (first, more) = names.split_at(names.len().min(NAMES_MAX));
    let more = match more.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    first.join(", ") + &more
}

/// Most lines in a list.
const LINES_MAX: usize = 10;

/// Formats one line per row below `title`, and the number of rows left out. Empty if there are no
/// rows.
#[must_use]
pub fn lines(title: &str, rows: &[impl fmt::Display]) -> String {
    let mut text = String::new();
    for (index, row) in rows.iter().take(LINES_MAX).enumerate() {
        let title = if index == 0 { title } else { "" };
        text = format!("{text}{title}\n  {row}");
    }
    match rows.len().saturating_sub(LINES_MAX) {
        0 => text,
        more => format!("{text}\n  and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_short() {
        let names: Vec<String> = (0..12).map(|name| name.to_string()).collect();
        assert_eq!(few(&names), "0, 1, 2, 3, 4 and 7 more");
        assert_eq!(few(&names[..2]), "0, 1");
        let text = lines("\nFound:", &names);
        assert!(
            text.starts_with("\nFound:\n  0\n  1\n") && text.ends_with("and 2 more"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 13);
        assert_eq!(lines("\nFound:", &names[..0]), "");
    }
}
