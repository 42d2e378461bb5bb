//! Devices for tests: sparse files in a folder, given by name.

use super::strs;
use spindles_admin::assemble::{AssembleError, AssembleOptions, Assembled, assemble};
use spindles_admin::create::{CreateError, CreateOptions, Created, create};
use spindles_layout::Expression;
use std::fs::{self, File};
use tempfile::TempDir;

/// A folder with devices.
pub(crate) struct Devices(pub(crate) TempDir);

impl Devices {
    pub(crate) fn new(names: &[&str], bytes: u64) -> Self {
        let devices = Self(tempfile::tempdir().unwrap());
        for name in names {
            devices.add(name, bytes);
        }
        devices
    }

    /// Makes a device that holds zeros.
    pub(crate) fn add(&self, name: &str, bytes: u64) {
        let file = File::create(self.path(name)).unwrap();
        file.set_len(bytes).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn paths(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.path(name)).collect()
    }

    /// Returns an expression such as `raid5(a,b,c)` with the devices of this folder.
    pub(crate) fn expression(&self, text: &str) -> Expression {
        let mut whole = String::new();
        for word in text.split_inclusive(['(', ',', ')']) {
            let (name, end) = word.split_at(word.len() - 1);
            let is_device = !name.is_empty() && end != "(";
            whole += &if is_device {
                self.path(name)
            } else {
                name.to_owned()
            };
            whole += end;
        }
        Expression::parse(&whole).unwrap()
    }

    pub(crate) fn create(&self, text: &str, options: &CreateOptions) -> Created {
        let created = self.try_create(text, options);
        created.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    pub(crate) fn try_create(
        &self,
        text: &str,
        options: &CreateOptions,
    ) -> Result<Created, CreateError> {
        create(&self.expression(text), options, &mut |_, _| true)
    }

    pub(crate) fn assemble(
        &self,
        names: &[&str],
        options: &AssembleOptions,
    ) -> Result<Assembled, AssembleError> {
        assemble(&strs(&self.paths(names)), options)
    }

    /// Returns the contents of the folder, for comparison.
    pub(crate) fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(self.0.path()).unwrap();
        let files = files.map(|entry| entry.unwrap());
        let contents = files.map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        });
        let mut contents: Vec<_> = contents.collect();
        contents.sort_unstable();
        contents
    }

    pub(crate) fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }
}
