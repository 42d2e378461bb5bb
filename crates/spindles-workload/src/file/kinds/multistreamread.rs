//! filebench's multistreamread: see `multistream`.

use super::multistream;
use crate::file::FileCounted;
use crate::file::plan::FileKind;

pub(super) static KIND: FileKind = FileKind {
    name: "multistreamread",
    summary: "filebench's multistreamread: four files of 10 GiB read at once for 300 s",
    parameters: multistream::PARAMETERS,
    takes_archive: false,
    actors: Some("nthreads"),
    files: |_| Ok(multistream::FILES.into()),
    check: |_| None,
    phases: |plan| multistream::phases(plan, "reads", FileCounted::ReadBytes),
    bytes: multistream::bytes,
    start: |plan, phase| multistream::start(plan, phase, false),
};
