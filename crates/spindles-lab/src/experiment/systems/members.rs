//! The devices that systems are made of.

use spindles_device::{BACKENDS, Backend};

/// The devices that systems are made of if their expressions count members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// Files in a temporary folder.
    Files,
    /// New devices of a backend whose devices end with the process.
    Fresh(&'static Backend),
    /// These devices or files, in this order. The lab overwrites them.
    Devices(Vec<String>),
}

impl Members {
    /// The word for `Files`.
    pub const FILES: &str = "files";

    /// Lists the words for kinds of members, with a description.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        let fresh = fresh().map(|backend| (backend.facts.name, backend.summary));
        std::iter::once((Self::FILES, "files in a temporary folder")).chain(fresh)
    }

    /// Returns the members that a word stands for.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        if word == Self::FILES {
            return Some(Self::Files);
        }
        fresh()
            .find(|backend| backend.facts.name == word)
            .map(Self::Fresh)
    }
}

/// Returns the backends whose devices end with the process.
fn fresh() -> impl Iterator<Item = &'static Backend> {
    let backends = BACKENDS.iter().copied();
    backends.filter(|backend| !backend.facts.outlives_opening)
}
