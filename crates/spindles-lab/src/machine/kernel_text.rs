//! Reads small text files of the kernel.

use std::fs;
use std::path::Path;

/// Returns the trimmed text of a small file; empty if it can't be read.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}

/// Returns the value of the first line `key : value` with this key.
pub(crate) fn value_of<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map_or("", |(_, value)| value.trim())
}

/// Returns a value of `/proc/meminfo`, in bytes.
pub(crate) fn kib_of(meminfo: &str, key: &str) -> u64 {
    let number = value_of(meminfo, key).split(' ').next().unwrap_or_default();
    number.parse::<u64>().unwrap_or(0) * 1024
}
