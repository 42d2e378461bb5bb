//! The repository as the rules see it: the files that are or will be committed, and cargo's
//! metadata of the packages.

use crate::process;
use crate::source::{Keep, strip, without_tests};
use serde_json::Value;
use std::cell::OnceCell;
use std::path::Path;

/// A file of the repository.
pub(crate) struct File {
    /// The path from the root of the repository, with `/`.
    pub(crate) path: String,
    /// The contents.
    pub(crate) bytes: Vec<u8>,
    code: OnceCell<String>,
}

impl File {
    pub(crate) fn new(path: &str, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            bytes,
            code: OnceCell::new(),
        }
    }

    /// Returns the contents as text; empty if they aren't UTF-8.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    /// Returns Rust source without comments, strings and tests. Many rules read it.
    pub(crate) fn code(&self) -> &str {
        let strip = || strip(without_tests(self.text()), Keep::CodeOnly);
        self.code.get_or_init(strip)
    }

    /// Returns true for Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|is| is == "rs")
    }

    /// Returns true for Markdown.
    pub(crate) fn is_markdown(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|is| is == "md")
    }

    /// Returns true for a file of tests, benches, examples or fuzz targets.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples" | "fuzz"))
    }

    /// Returns the name of the file's crate: `spindles-admin` for
    /// `crates/spindles-admin/src/lib.rs`.
    pub(crate) fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or_default()
    }
}

/// The input of the rules.
pub(crate) struct Repo {
    /// The files of the repository, sorted by path.
    pub(crate) files: Vec<File>,
    /// The output of `cargo metadata`.
    pub(crate) metadata: Value,
}

impl Repo {
    /// Reads the repository in the current folder.
    pub(crate) fn load() -> Result<Self, String> {
        let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
        let list = process::capture("git", &list)?;
        if !list.good {
            return Err(format!("git ls-files: {}", list.output));
        }
        let mut paths: Vec<&str> = list.output.lines().collect();
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            // Git lists a removed file until the removal is committed.
            let Ok(bytes) = std::fs::read(path) else {
                continue;
            };
            files.push(File::new(path, bytes));
        }
        let metadata = ["metadata", "--format-version", "1"];
        let output = std::process::Command::new(process::cargo_program())
            .args(metadata)
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            return Err(format!("cargo metadata: {error}"));
        }
        let metadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata: {error}"))?;
        Ok(Self { files, metadata })
    }

    /// Makes up a repository, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::new(path, text.as_bytes().to_vec());
        Self {
            files: files.iter().map(file).collect(),
            metadata: Value::Null,
        }
    }

    /// Returns the file at a path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the packages that cargo knows: our own and all dependencies.
    pub(crate) fn packages(&self) -> &[Value] {
        self.metadata["packages"]
            .as_array()
            .map_or(&[], Vec::as_slice)
    }

    /// Returns our own packages.
    pub(crate) fn own_packages(&self) -> impl Iterator<Item = &Value> {
        self.packages()
            .iter()
            .filter(|package| package["source"].is_null())
    }
}

/// Returns the folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
}
