//! The repository as the rules see it: the files that are or will be committed, and what cargo
//! says of the packages.

use crate::process;
use serde_json::Value;
use std::path::Path;

/// A file of the repository.
pub(crate) struct File {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// Its text; empty where it is not UTF-8.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or_default()
    }

    /// Whether it is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|is| is == "rs")
    }

    /// Whether it is Markdown.
    pub(crate) fn is_markdown(&self) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|is| is == "md")
    }

    /// Whether it holds tests, benches or examples only.
    pub(crate) fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples" | "fuzz"))
    }

    /// The crate it belongs to: `spindles-io` for `crates/spindles-io/src/lib.rs`.
    pub(crate) fn crate_name(&self) -> &str {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.split('/').next().unwrap_or_default()
    }
}

/// Everything that rules look at.
pub(crate) struct Repo {
    /// All files, by path.
    pub(crate) files: Vec<File>,
    /// What `cargo metadata` says.
    pub(crate) metadata: Value,
}

impl Repo {
    /// The repository on disk.
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
            // A file that was removed and not yet committed is listed and not there.
            let Ok(bytes) = std::fs::read(path) else {
                continue;
            };
            files.push(File {
                path: path.to_owned(),
                bytes,
            });
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

    /// A made-up repository, for the tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            bytes: text.as_bytes().to_vec(),
        };
        Self {
            files: files.iter().map(file).collect(),
            metadata: Value::Null,
        }
    }

    /// The file at a path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The packages that cargo knows of: ours and all that we depend on.
    pub(crate) fn packages(&self) -> &[Value] {
        self.metadata["packages"]
            .as_array()
            .map_or(&[], Vec::as_slice)
    }

    /// Our own packages.
    pub(crate) fn own_packages(&self) -> impl Iterator<Item = &Value> {
        self.packages()
            .iter()
            .filter(|package| package["source"].is_null())
    }
}

/// Where the workspace is.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the workspace")
}
