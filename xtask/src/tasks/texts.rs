//! `cargo xtask texts`: the sentences that users may see, to be read from top to bottom.

use super::task::Task;
use crate::repo::Repo;
use crate::source::{strings, without_tests};
use proc_macro2::TokenStream;
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

fn run(arguments: &[String]) -> Result<(), String> {
    let part = match arguments {
        [] => None,
        [part] => Some(part.as_str()),
        _ => return Err("it takes a crate or nothing".to_owned()),
    };
    let repo = Repo::load()?;
    let files = repo.files.iter();
    let files = files.filter(|file| file.is_rust() && file.path.contains("/src/"));
    let files = files.filter(|file| !file.is_test() && file.crate_name() != "xtask");
    for file in files.filter(|file| part.is_none_or(|part| file.crate_name() == part)) {
        let tokens = TokenStream::from_str(without_tests(file.text()));
        let tokens = tokens.map_err(|error| format!("{}: {error}", file.path))?;
        strings(tokens, &mut |line, text| {
            let words = text.split_whitespace();
            let words = words.filter(|word| word.chars().any(char::is_alphabetic));
            if words.count() >= WORDS_MIN {
                let text: Vec<&str> = text.split_whitespace().collect();
                println!("{}:{line}: {}", file.path, text.join(" "));
            }
        });
    }
    Ok(())
}
