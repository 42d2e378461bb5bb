//! `copy`: files between a server and client nodes, as `rcp` from several machines at once. Each node has one
//! TCP stream, and both ends move [`BUFFER_BYTES`] at a time. Who has the machines carries it out.

use crate::file::{Choices, Parameter, ParameterError, Value};
use crate::plan::size_words;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

/// What is copied at once.
pub const BUFFER_BYTES: u32 = 65_536;

/// The most nodes of one run.
pub const NODES_MAX: u64 = 64;

/// What users call it.
pub const COPY: &str = "copy";

/// One line that says what it is.
pub const SUMMARY: &str =
    "one file to or from a server by each of 1 to 8 machines at once, as rcp does";

/// What can be chosen of it.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::count(
        "nodes",
        1,
        1,
        NODES_MAX,
        "machines, each with a file of its own",
    ),
    Parameter::bytes("size", 128 << 20, 4096, 1 << 44, "bytes of each file")
        .multiple_of(4096)
        .scaled(1 << 20),
    Parameter::words("direction", &["read", "write"], "from the server, or to it"),
    Parameter::words(
        "server",
        &["disk", "memory"],
        "files in the folder of the system, or nothing but memory",
    ),
    Parameter::words(
        "client",
        &["memory", "disk"],
        "the same at the nodes: files in their folders",
    ),
    Parameter::words(
        "fsync",
        &["no", "yes"],
        "make what is written to disk durable before the end",
    ),
];

/// Where one end of a copy has its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In memory: bytes from a buffer, or dropped.
    Memory,
    /// In a file.
    Disk,
}

/// A copy that can start.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    choices: Choices,
}

impl CopyPlan {
    /// Resolves every default, shrinks by `scale` (1: as it is) and checks the choices.
    ///
    /// # Errors
    /// When a choice is not possible, or too little is left of it.
    pub fn new(chosen: &BTreeMap<String, Value>, scale: f64) -> Result<Self, ParameterError> {
        let choices = Choices::new(COPY, PARAMETERS, chosen, scale)?;
        Ok(Self { choices })
    }

    /// How many nodes copy.
    pub fn nodes(&self) -> u32 {
        self.choices.small("nodes")
    }

    /// Bytes of each file.
    pub fn file_bytes(&self) -> u64 {
        self.choices.value("size")
    }

    /// Whether the nodes write to the server, or else read from it.
    pub fn writes(&self) -> bool {
        self.choices.is("direction", "write")
    }

    /// Where the server has its bytes.
    pub fn server(&self) -> Store {
        self.store("server")
    }

    /// Where each node has its bytes.
    pub fn client(&self) -> Store {
        self.store("client")
    }

    /// Whether files that were written are made durable before the end.
    pub fn fsync(&self) -> bool {
        self.choices.is("fsync", "yes")
    }

    fn store(&self, end: &str) -> Store {
        if self.choices.is(end, "disk") {
            Store::Disk
        } else {
            Store::Memory
        }
    }

    /// All parameters in words, by their names.
    pub fn words(&self) -> BTreeMap<String, String> {
        self.choices.words()
    }

    /// One line that says what it does.
    pub fn summary(&self) -> String {
        let place = |store| match store {
            Store::Memory => "memory",
            Store::Disk => "a file",
        };
        let (server, client) = (place(self.server()), place(self.client()));
        let size = size_words(self.file_bytes());
        let nodes = match self.nodes() {
            1 => String::from("a node copies"),
            many => format!("{many} nodes at once, each copies"),
        };
        if self.writes() {
            format!("{nodes} {size} from {client} to {server} at the server")
        } else {
            format!("{nodes} {size} from {server} at the server to {client}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned as _;
    use alloc::string::ToString as _;

    fn plan(chosen: &[(&str, Value)]) -> Result<CopyPlan, ParameterError> {
        let chosen = chosen.iter().cloned();
        let chosen = chosen.map(|(name, value)| (name.to_owned(), value));
        CopyPlan::new(&chosen.collect(), 0.5)
    }

    fn word(word: &str) -> Value {
        Value::Word(word.to_owned())
    }

    #[test]
    fn choices_and_defaults_are_resolved() {
        let read = plan(&[]).unwrap();
        assert_eq!((read.nodes(), read.file_bytes()), (1, 64 << 20));
        assert_eq!((read.server(), read.client()), (Store::Disk, Store::Memory));
        assert!(!read.writes() && !read.fsync());
        assert_eq!(
            read.summary(),
            "a node copies 64 MiB from a file at the server to memory"
        );
        let chosen = [
            ("nodes", Value::Number(4)),
            ("direction", word("write")),
            ("server", word("memory")),
            ("client", word("disk")),
            ("fsync", word("yes")),
        ];
        let write = plan(&chosen).unwrap();
        assert!(write.writes() && write.fsync());
        assert_eq!(
            write.summary(),
            "4 nodes at once, each copies 64 MiB from a file to memory at the server"
        );
        assert_eq!(write.words()["nodes"], "4");
    }

    #[test]
    fn what_is_not_possible_is_refused() {
        for (chosen, words) in [
            (("nodes", Value::Number(65)), "from 1 to 64"),
            (("direction", word("both")), "one of read, write"),
            (("protocol", word("nfs")), "copy has no parameter"),
        ] {
            let error = plan(&[chosen]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
