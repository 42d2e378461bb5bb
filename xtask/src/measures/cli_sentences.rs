//! Sentences in libraries that name commands of the program: all text for people belongs in the
//! binary.

use super::{Figure, Finding, Measure, Sources};
use crate::source::strings;
use proc_macro2::TokenStream;
use std::str::FromStr as _;

pub(super) static MEASURE: Measure = Measure {
    name: "cli_sentences",
    about: "strings of libraries that name commands",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in &sources.parsed {
        if matches!(source.file.crate_name(), "spindles" | "xtask") {
            continue;
        }
        let code = crate::source::without_tests(source.file.text());
        let Ok(tokens) = TokenStream::from_str(code) else {
            continue;
        };
        strings(tokens, &mut |line, text| {
            let text = &unbroken(text);
            let named = text.match_indices("spindles ").any(|(at, found)| {
                let is_word = at > 0 && text.as_bytes()[at - 1].is_ascii_alphanumeric();
                // The first line of a file format.
                let is_header = text[..at].ends_with("# ");
                let next = text[at + found.len()..].chars().next();
                !is_word && !is_header && next.is_some_and(|c| c.is_ascii_lowercase() || c == '{')
            });
            if named {
                findings.push(Finding::new(source.file, line, text));
            }
        });
    }
    findings
}

/// Joins the lines of a literal that end with a backslash.
fn unbroken(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::figure;

    #[test]
    fn strings_count_and_comments_do_not() {
        let text =
            "/// By `spindles scrub`.\nfn f() { g(\"do `spindles scrub {}`\"); g(\"spindles\"); }";
        let of = |path| figure(&MEASURE, &[(path, text)]);
        assert_eq!(of("crates/spindles-admin/src/a.rs"), 1);
        let broken = "fn f() { g(\"with `spindles \\\n   scrub`\"); }";
        assert_eq!(
            figure(&MEASURE, &[("crates/spindles-admin/src/a.rs", broken)]),
            1
        );
        assert_eq!(of("crates/spindles/src/a.rs"), 0);
    }
}
