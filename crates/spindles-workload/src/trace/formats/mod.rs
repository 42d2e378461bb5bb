//! The registry of trace formats. A format is one file here and two lines in this one.

mod blkparse;
mod disksim;
mod fio_iolog_2;
mod fio_iolog_3;
mod msr;
mod requests;
mod spindles;

use super::format::TraceFormat;

/// All formats, in the order in which a first line is compared.
pub static FORMATS: &[&TraceFormat] = &[
    &spindles::FORMAT,
    &requests::FORMAT,
    &fio_iolog_2::FORMAT,
    &fio_iolog_3::FORMAT,
    &msr::FORMAT,
    &blkparse::FORMAT,
    &disksim::FORMAT,
];

/// Returns the format of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static TraceFormat> {
    FORMATS.iter().copied().find(|format| format.name == name)
}

/// Returns the format of a trace with this first line.
pub(super) fn recognised(line: &[u8]) -> Option<&'static TraceFormat> {
    let mut formats = FORMATS.iter().copied();
    formats.find(|format| (format.recognises)(line))
}
