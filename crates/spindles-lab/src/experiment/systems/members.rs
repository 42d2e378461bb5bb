//! The devices that systems are made of.

use super::modelled::{Modelled, PREFIX};
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
    /// Modelled disks, in virtual time.
    Modelled(Modelled),
}

impl Members {
    /// The word for `Files`.
    pub const FILES: &str = "files";

    /// Lists the words for kinds of members, with a description.
    pub fn words() -> impl Iterator<Item = (&'static str, &'static str)> {
        let fresh = fresh().map(|backend| (backend.facts.name, backend.summary));
        std::iter::once((Self::FILES, "files in a temporary folder")).chain(fresh)
    }

    /// Returns the members that a word stands for; `None` for an unknown word.
    ///
    /// # Errors
    /// The mistake in a model.
    pub fn of_word(word: &str) -> Result<Option<Self>, String> {
        if word == Self::FILES {
            return Ok(Some(Self::Files));
        }
        if let Some(name) = word.strip_prefix(PREFIX) {
            return Modelled::load(name).map(|model| Some(Self::Modelled(model)));
        }
        let backend = fresh().find(|backend| backend.facts.name == word);
        Ok(backend.map(Self::Fresh))
    }

    /// Returns the model of the members; `None` if they are real.
    #[must_use]
    pub fn modelled(&self) -> Option<&Modelled> {
        match self {
            Self::Modelled(model) => Some(model),
            Self::Files | Self::Fresh(_) | Self::Devices(_) => None,
        }
    }
}

/// Returns the backends whose devices end with the process.
fn fresh() -> impl Iterator<Item = &'static Backend> {
    let backends = BACKENDS.iter().copied();
    backends.filter(|backend| !backend.facts.outlives_opening)
}
