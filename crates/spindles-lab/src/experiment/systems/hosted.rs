//! Modelled file systems of systems on modelled members.

use spindles_host::file_systems::{Options, Row, by_name};

/// A modelled file system on a system.
#[derive(Clone, Debug)]
pub struct ModelledFileSystem {
    /// Its row.
    pub row: &'static Row,
    /// The arguments of its mkfs.
    pub mkfs: Vec<String>,
    /// The mount options, separated by commas; may be empty.
    pub mount: String,
    /// The options of both.
    pub options: Options,
}

/// The file system of a host for which none is named.
const DEFAULT: &str = "bare";

impl ModelledFileSystem {
    /// Returns the file system of that name; `None` if no row has the name.
    ///
    /// # Errors
    /// An argument of mkfs or mount that the row does not take.
    pub fn new(name: &str, mkfs: &[String], mount: &str) -> Option<Result<Self, String>> {
        let row = by_name(name)?;
        let words: Vec<&str> = mkfs.iter().map(String::as_str).collect();
        let options = (row.options)(&words, mount);
        Some(options.map_err(str::to_owned).map(|options| Self {
            row,
            mkfs: mkfs.to_vec(),
            mount: mount.to_owned(),
            options,
        }))
    }

    /// Returns the file system of a host for which none is named.
    pub(crate) fn bare() -> Self {
        let bare = Self::new(DEFAULT, &[], "");
        bare.expect("a row of the table").expect("without options")
    }
}
