//! C4: files that fit in memory, against which the authors of iozone and Bonnie warn.

use super::super::{Intervention, bytes};
use super::{CacheRule, CacheVerdict, Grade};
use crate::histogram::to_f64;

/// Files should be at least this many times as large as the memory.
const TIMES: f64 = 2.0;

pub(super) static RULE: CacheRule = CacheRule {
    id: "C4",
    name: "fits-in-memory",
    when: "files smaller than twice the memory go through the page cache, which was not emptied \
        first",
    decide: |facts| {
        let (files, memory) = (
            to_f64(facts.cache.file_bytes),
            to_f64(facts.cache.memory_bytes),
        );
        let fits = files > 0.0 && files < TIMES * memory;
        (fits && !facts.direct && !facts.cache.emptied).then(|| CacheVerdict {
            rule: RULE.name,
            grade: Grade::Note,
            evidence: format!(
                "the files are {}, and {} of memory could hold them",
                bytes(files),
                bytes(memory)
            ),
            intervention: Intervention::LargerFiles,
        })
    },
};
