//! `copy`: files between a server and client nodes, like `rcp` from several machines at once. Each
//! node has one TCP stream, and both ends move [`BUFFER_BYTES`] at a time. The driver that has the
//! machines carries it out.

use crate::file::{Choices, Parameter, ParameterError, Value};
use crate::plan::size_words;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

/// Bytes that are copied at once.
pub const BUFFER_BYTES: u32 = 65_536;

/// Most nodes of one run.
pub const NODES_MAX: u64 = 64;

/// The name that users type.
pub const COPY: &str = "copy";

/// Description of the workload, one line.
pub const SUMMARY: &str =
    "one file to or from a server by each of 1 to 8 machines at once, as rcp does";

/// Its parameters.
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

/// The storage at one end of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Memory: bytes come from a buffer, or are dropped.
    Memory,
    /// A file.
    Disk,
}

/// A copy that can start.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    choices: Choices,
}

impl CopyPlan {
    /// Resolves every default, shrinks by `scale` (1: unchanged) and checks the choices.
    ///
    /// # Errors
    /// If a choice is not possible, or shrinks too far.
    pub fn new(chosen: &BTreeMap<String, Value>, scale: f64) -> Result<Self, ParameterError> {
        let choices = Choices::new(COPY, PARAMETERS, chosen, scale)?;
        Ok(Self { choices })
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> u32 {
        self.choices.small("nodes")
    }

    /// Returns the bytes of each file.
    pub fn file_bytes(&self) -> u64 {
        self.choices.value("size")
    }

    /// Returns true if the nodes write to the server, false if they read from it.
    pub fn writes(&self) -> bool {
        self.choices.is("direction", "write")
    }

    /// Returns the server's storage.
    pub fn server(&self) -> Store {
        self.store("server")
    }

    /// Returns the storage of each node.
    pub fn client(&self) -> Store {
        self.store("client")
    }

    /// Returns true if written files are made durable before the end.
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

    /// Returns all parameters in words, by name.
    pub fn words(&self) -> BTreeMap<String, String> {
        self.choices.words()
    }

    /// Returns one line that describes the copy.
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
    fn impossible_network_choices_are_refused() {
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
