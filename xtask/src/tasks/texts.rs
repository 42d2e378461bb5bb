//! `cargo xtask texts`: the sentences that users may see, to be read from top to bottom. The help
//! is in `crates/spindles/tests/help.txt`.

use super::task::Task;
use crate::repo::Repo;
use crate::source::{strings, without_tests};
use proc_macro2::{Group, TokenStream, TokenTree};
use std::str::FromStr as _;

pub(crate) static TASK: Task = Task {
    name: "texts",
    arguments: "[CRATE]",
    about: "prints the sentences in strings of a crate, or of all: errors, events, doubts, \
        verdicts",
    run,
};

/// Shorter strings are keys, names and formats.
const WORDS_MIN: usize = 3;
/// Calls and attributes whose strings are for developers.
const FOR_DEVELOPERS: &[&str] = &[
    "allow",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "expect",
    "expect_err",
    "panic",
    "unreachable",
];
/// Crates whose strings reach no user.
const INTERNAL: &[&str] = &["isal-bench", "spindles-browser", "xtask"];

fn run(arguments: &[String]) -> Result<(), String> {
    let part = match arguments {
        [] => None,
        [part] => Some(part.as_str()),
        _ => return Err("it takes a crate or nothing".to_owned()),
    };
    print!("{}", sentences(&Repo::load()?, part)?);
    Ok(())
}

/// Lists the sentences of a crate, or of all crates, below the names of their files.
fn sentences(repo: &Repo, part: Option<&str>) -> Result<String, String> {
    let mut page = String::new();
    let files = repo.files.iter();
    let files = files.filter(|file| file.is_rust() && file.path.contains("/src/"));
    let files = files.filter(|file| !file.is_test() && !INTERNAL.contains(&file.crate_name()));
    for file in files.filter(|file| part.is_none_or(|part| file.crate_name() == part)) {
        let tokens = TokenStream::from_str(without_tests(file.text()));
        let tokens = tokens.map_err(|error| format!("{}: {error}", file.path))?;
        let mut texts = String::new();
        strings(for_users(tokens), &mut |_, text| {
            // A backslash ends each line of a string that goes on.
            let words = text.split_whitespace();
            let words = words.map(|word| word.trim_end_matches('\\'));
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let is_word = |word: &&&str| word.chars().any(char::is_alphabetic);
            if words.iter().filter(is_word).count() >= WORDS_MIN {
                texts.extend(["  ", &words.join(" "), "\n"]);
            }
        });
        if !texts.is_empty() {
            page.extend([file.path.as_str(), "\n", &texts]);
        }
    }
    Ok(page)
}

/// Removes what is for developers.
fn for_users(tokens: TokenStream) -> TokenStream {
    let mut skips = false;
    let kept = tokens.into_iter().filter_map(|token| match token {
        TokenTree::Group(_) if std::mem::take(&mut skips) => None,
        TokenTree::Group(group) => {
            let inner = Group::new(group.delimiter(), for_users(group.stream()));
            Some(TokenTree::Group(inner))
        }
        TokenTree::Ident(ref ident) => {
            skips = FOR_DEVELOPERS.iter().any(|name| ident == name);
            Some(token)
        }
        TokenTree::Punct(ref punct) => {
            skips &= punct.as_char() == '!';
            Some(token)
        }
        TokenTree::Literal(_) => Some(token),
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kept list. `SPINDLES_UPDATE=1 cargo test -p xtask` rewrites it.
    #[test]
    fn the_kept_texts_are_those_of_the_source() {
        std::env::set_current_dir(crate::repo::root()).expect("the root is there");
        let made = sentences(&Repo::load().expect("a repository"), None).expect("Rust");
        let path = "xtask/texts.txt";
        if std::env::var_os("SPINDLES_UPDATE").is_some() {
            std::fs::write(path, &made).expect("the folder is there");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        let mut lines = kept.lines().zip(made.lines());
        let differs = lines.find(|(kept, made)| kept != made);
        let update = "read the new texts, then run with SPINDLES_UPDATE=1";
        assert!(
            kept == made,
            "{path} is stale, first at {differs:?}: {update}"
        );
    }

    #[test]
    fn texts_for_developers_are_left_out() {
        let source = "#[expect(a, reason = \"not this at all\")] fn a() { b().expect(\"nor this \
                      here\"); assert!(c, \"nor this one\"); bail!(\"but {a} this\\\n   one\"); }";
        let repo = Repo::of(&[("crates/a/src/a.rs", source)]);
        let listed = "crates/a/src/a.rs\n  \"but {a} this one\"\n";
        assert_eq!(sentences(&repo, None).as_deref(), Ok(listed));
    }
}
