//! The dialects from outside: own samples as table rows, samples of other people if they are
//! there, bad input, and texts that are written and read back.

mod bad;
mod btrfs;
mod examine;
mod limits;
mod lvm;
mod map;
mod mdadm;
mod rows;
mod samples;
mod shared;
mod shell;
mod storcli;
mod tables;
mod vinum;
mod written;
mod zpool;

use spindles_dialects::{DialectError, Source, Translation, named};

/// Reads a text with devices of these sizes in sectors.
fn read(dialect: &str, text: &str, sectors: &[(&str, u64)]) -> Result<Translation, DialectError> {
    let (dialect, flavour) = match dialect.split_once(':') {
        None => (dialect, None),
        Some((dialect, flavour)) => (dialect, Some(flavour)),
    };
    let dialect = named(dialect).expect(dialect);
    dialect.read(&Source {
        text,
        bytes_of: &|name| {
            let known = sectors.iter().find(|(known, _)| *known == name);
            known.map(|(_, sectors)| sectors * 512)
        },
        flavour,
    })
}
