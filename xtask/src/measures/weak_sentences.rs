//! Comment sentences in which half the words carry no content.

use super::comments::{sentences, words};
use super::{Figure, Finding, Measure, Sources};

pub(super) static MEASURE: Measure = Measure {
    name: "weak_sentences",
    about: "comment sentences in which half the words carry no content",
    figure: Figure::Sum,
    is_kept: true,
    find,
};

/// Words without content.
const EMPTY: &[&str] = &[
    "what",
    "who",
    "whom",
    "whose",
    "that",
    "which",
    "it",
    "its",
    "itself",
    "they",
    "them",
    "their",
    "this",
    "these",
    "those",
    "he",
    "his",
    "there",
    "here",
    "where",
    "so",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "being",
    "has",
    "have",
    "had",
    "do",
    "does",
    "did",
    "done",
    "would",
    "may",
    "might",
    "of",
    "by",
    "as",
    "such",
    "same",
    "one",
    "ones",
    "other",
    "others",
    "another",
    "all",
    "any",
    "some",
    "none",
    "each",
    "how",
    "told",
    "tell",
    "anew",
    "whoever",
    "whomever",
    "whatever",
    "whichever",
    "somebody",
    "nobody",
    "anybody",
    "something",
    "nothing",
    "anything",
    "everything",
    "beside",
];

/// Shorter sentences are not judged.
const WORDS_MIN: usize = 4;

fn find(sources: &Sources) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources.rust_files() {
        for (line, sentence) in sentences(file) {
            if is_weak(&sentence) {
                findings.push(Finding::new(file, line, sentence));
            }
        }
    }
    findings
}

fn is_weak(sentence: &str) -> bool {
    let words = words(sentence);
    let empty = words.iter().filter(|word| EMPTY.contains(&word.as_str()));
    words.len() >= WORDS_MIN && empty.count() * 2 >= words.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_of_pronouns_is_weak() {
        assert!(is_weak("Whether that is so of a region, or it is to be."));
        assert!(is_weak("How many of those there are."));
        assert!(!is_weak(
            "Returns true if zeroing this region is queued or running."
        ));
    }
}
