//! filebench's multistreamwrite: see `multistream`.

use super::multistream;
use crate::file::FileCounted;
use crate::file::plan::{FileKind, NotBare};

pub(super) static KIND: FileKind = FileKind {
    name: "multistreamwrite",
    summary: "filebench's multistreamwrite: four files of 10 GiB written at once for 300 s",
    parameters: multistream::PARAMETERS,
    takes_archive: false,
    actors: Some("nthreads"),
    files: |plan| {
        let bounded = plan.is("grow", "no");
        bounded
            .then_some(multistream::FILES.into())
            .ok_or(NotBare::Grows)
    },
    check: |_| None,
    phases: |plan| multistream::phases(plan, "writes", FileCounted::WrittenBytes),
    bytes: multistream::bytes,
    start: |plan, phase| multistream::start(plan, phase, true),
};
