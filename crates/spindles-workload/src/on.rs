//! The registry of all workloads, on blocks and on files.

use crate::file::FileKind;
use crate::plan::Kind;
use crate::{file, kinds};

/// A workload of the registry.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// It reads and writes blocks.
    Blocks(&'static Kind),
    /// It works on files.
    Files(&'static FileKind),
}

impl On {
    /// Returns the name that users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks(kind) => kind.name,
            Self::Files(kind) => kind.name,
        }
    }
}

/// Returns all workloads: those on blocks, then those on files.
pub fn workloads() -> impl Iterator<Item = On> {
    let blocks = kinds::KINDS.iter().map(|kind| On::Blocks(kind));
    blocks.chain(file::KINDS.iter().map(|kind| On::Files(kind)))
}

/// Returns the workload of that name.
pub fn workload(name: &str) -> Option<On> {
    workloads().find(|workload| workload.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn each_workload_has_its_own_name() {
        let names: BTreeSet<&str> = workloads().map(On::name).collect();
        assert_eq!(names.len(), workloads().count());
        assert!(matches!(workload("dd-read"), Some(On::Blocks(_))));
        assert!(matches!(workload("varmail"), Some(On::Files(_))));
        assert!(workload("nothing").is_none());
    }
}
