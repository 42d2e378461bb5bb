//! Configurations of other systems, from a file or as a text, as arrays of ours.

use crate::create::size_of;
use spindles_dialects::{DIALECTS, Dialect, DialectError, Source, Translated, Translation, decode};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use thiserror::Error;

/// The largest configuration that is read, in bytes.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// The name that stands for standard input, and its path.
const STANDARD_INPUT: &str = "-";
const STANDARD_INPUT_PATH: &str = "/dev/stdin";

/// A text in the words of another system.
#[derive(Debug)]
pub struct Configuration {
    /// The file; `None` for words by themselves.
    file: Option<String>,
    text: String,
    /// The array that the user named after `#`.
    array: Option<String>,
}

/// What a configuration describes.
#[derive(Debug)]
pub struct Described {
    /// Its words.
    pub dialect: &'static Dialect,
    /// The arrays that the user means; at least one.
    pub translation: Translation,
    what: String,
}

/// Why a configuration can't become arrays.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// The file can't be read.
    #[error("{file} can't be read: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// The reason.
        source: io::Error,
    },
    /// The file may have no end, or wait for a writer.
    #[error("{file} is {kind}, not a regular file: pass its text as standard input, -")]
    NotRegular {
        /// The file.
        file: String,
        /// The kind of file.
        kind: &'static str,
    },
    /// The file is no configuration by its size.
    #[error("{file} has more than {TEXT_BYTES_MAX} bytes, the most that a configuration may have")]
    TooLarge {
        /// The file.
        file: String,
    },
    /// No dialect recognises the text.
    #[error("no dialect recognises {what}: name one of {}", names(|_| true))]
    Unrecognised {
        /// The file or text.
        what: String,
    },
    /// No dialect has this name.
    #[error("there is no dialect '{name}'; there are {}", summaries())]
    NoDialect {
        /// What the user wrote.
        name: String,
    },
    /// The text is wrong, or describes what can't be done.
    #[error("{what}, {error} (read as {dialect})")]
    Wrong {
        /// The file or text.
        what: String,
        /// The name of the dialect.
        dialect: &'static str,
        /// The place and the error.
        error: DialectError,
    },
    /// The file describes no array of this name.
    #[error("{what} describes no array '{name}': it has {arrays}")]
    NoSuchArray {
        /// The file.
        what: String,
        /// The name that the user gave.
        name: String,
        /// The names of its arrays.
        arrays: String,
    },
    /// The user has to choose one array.
    #[error("{what} describes several arrays: write {what}#NAME with one of {arrays}")]
    Several {
        /// The file or text.
        what: String,
        /// The names of its arrays.
        arrays: String,
    },
}

impl Configuration {
    /// Finds the text that the user means: standard input for `-`, the file of this name, the file
    /// before `#ARRAY`, or the words themselves. `None` if it is neither a file nor words of a
    /// dialect.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub fn find(what: &str) -> Result<Option<Self>, ConfigurationError> {
        let of_file = |file: &str, array: Option<&str>| {
            Ok(Some(Self {
                file: Some(file.to_owned()),
                text: text_of(file)?,
                array: array.map(str::to_owned),
            }))
        };
        match what.rsplit_once('#') {
            _ if what == STANDARD_INPUT => of_file(STANDARD_INPUT_PATH, None),
            _ if is_file(what)? => of_file(what, None),
            Some((file, array)) if is_file(file)? => of_file(file, Some(array)),
            _ => Ok(spindles_dialects::recognise(what).map(|_| Self::of_text(what))),
        }
    }

    /// Takes the words themselves.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        Self {
            file: None,
            text: text.to_owned(),
            array: None,
        }
    }

    /// Reads the text as the dialect of this name, or as the one that recognises it. Takes the
    /// sizes of devices that exist here.
    ///
    /// # Errors
    ///
    /// The place and the reason, if the text describes no array that can be ours.
    pub fn read(
        &self,
        dialect: Option<&str>,
        flavour: Option<&str>,
    ) -> Result<Described, ConfigurationError> {
        self.read_with(dialect, flavour, &|device| size_of(device).ok())
    }

    /// Reads the text for an array on other devices than it names.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn read_shape(&self) -> Result<Described, ConfigurationError> {
        self.read_with(None, None, &|_| None)
    }

    fn read_with(
        &self,
        dialect: Option<&str>,
        flavour: Option<&str>,
        bytes_of: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Described, ConfigurationError> {
        let what = self.file.as_deref().unwrap_or("the text").to_owned();
        let dialect = match dialect {
            Some(name) => dialect_named(name)?,
            None => spindles_dialects::recognise(&self.text)
                .ok_or_else(|| ConfigurationError::Unrecognised { what: what.clone() })?,
        };
        let source = Source {
            text: &self.text,
            bytes_of,
            flavour,
        };
        let translation = dialect.read(&source);
        let mut translation = translation.map_err(|error| ConfigurationError::Wrong {
            what: what.clone(),
            dialect: dialect.name,
            error,
        })?;
        if let Some(name) = &self.array {
            let arrays = named(&translation);
            let is_meant = |array: &Translated| array.shape.name.as_ref() == Some(name);
            translation.arrays.retain(is_meant);
            if translation.arrays.is_empty() {
                let name = name.clone();
                return Err(ConfigurationError::NoSuchArray { what, name, arrays });
            }
        }
        Ok(Described {
            dialect,
            translation,
            what,
        })
    }
}

impl Described {
    /// Returns the only array, on its devices.
    ///
    /// # Errors
    ///
    /// If the text describes several arrays.
    pub fn only(&self) -> Result<Translated, ConfigurationError> {
        match self.translation.arrays.as_slice() {
            [array] => Ok(self.on_devices(array)),
            _ => Err(ConfigurationError::Several {
                what: self.what.clone(),
                arrays: named(&self.translation),
            }),
        }
    }

    /// Returns the notes on the text, as `ccd.conf, line 3: …`.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let notes = self.translation.notes.iter();
        notes
            .map(|note| format!("{}, line {}: {}", self.what, note.line, note.text))
            .collect()
    }

    /// Returns an array with the devices for which the text's names stand.
    #[must_use]
    pub fn on_devices(&self, array: &Translated) -> Translated {
        let mut array = array.clone();
        array.expression = self.translation.on_devices(&array.expression);
        array.shape = self.translation.shape_on_devices(&array.shape);
        array
    }
}

/// The names of the arrays of a text.
fn named(translation: &Translation) -> String {
    let arrays = translation.arrays.iter();
    let names: Vec<&str> = arrays
        .map(|array| array.shape.name.as_deref().unwrap_or("one without a name"))
        .collect();
    names.join(", ")
}

/// Returns the dialect of this name.
///
/// # Errors
///
/// If no dialect has this name.
pub fn dialect_named(name: &str) -> Result<&'static Dialect, ConfigurationError> {
    let unknown = || ConfigurationError::NoDialect {
        name: name.to_owned(),
    };
    spindles_dialects::named(name).ok_or_else(unknown)
}

/// Lists the names of dialects.
pub fn names(which: fn(&Dialect) -> bool) -> String {
    let dialects = DIALECTS.iter().filter(|dialect| which(dialect));
    let names: Vec<&str> = dialects.map(|dialect| dialect.name).collect();
    names.join(", ")
}

/// Lists the names of dialects, each with its system.
fn summaries() -> String {
    let dialects = DIALECTS.iter();
    let dialects: Vec<String> = dialects
        .map(|dialect| format!("{} ({})", dialect.name, dialect.summary))
        .collect();
    dialects.join(", ")
}

/// Returns true for a regular file and for standard input, or an error for a file without an end.
fn is_file(name: &str) -> Result<bool, ConfigurationError> {
    let Ok(metadata) = fs::metadata(name) else {
        return Ok(false);
    };
    let kind = metadata.file_type();
    let kind = match kind {
        _ if name == STANDARD_INPUT_PATH => return Ok(true),
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ if kind.is_char_device() => "a character device",
        _ => return Ok(kind.is_file()),
    };
    Err(ConfigurationError::NotRegular {
        file: name.to_owned(),
        kind,
    })
}

fn text_of(file: &str) -> Result<String, ConfigurationError> {
    let unreadable = |source| ConfigurationError::Unreadable {
        file: file.to_owned(),
        source,
    };
    let opened = fs::File::open(file).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut limited = opened.take(TEXT_BYTES_MAX + 1);
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    if u64::try_from(bytes.len()).is_ok_and(|bytes| bytes > TEXT_BYTES_MAX) {
        let file = file.to_owned();
        return Err(ConfigurationError::TooLarge { file });
    }
    Ok(decode(&bytes).into_owned())
}
