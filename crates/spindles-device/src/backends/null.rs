//! `null:SIZE`: answers everything and moves no bytes. It shows what carrying a request through all
//! other layers costs.

use super::{Backend, Inline, Medium, Opened};
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions};
use spindles_block::{MemberResult, SizeBytes};

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "null",
        outlives_opening: false,
        whole_sectors_only: false,
        is_path: false,
    },
    syntax: "null:SIZE",
    summary: "stores nothing and answers at once; reads leave the buffer as it is",
    matches: |name| name.starts_with(PREFIX),
    open,
    at_rest: None,
    fresh: Some(|_, _, bytes| Ok(format!("{PREFIX}{}", SizeBytes(bytes).typed()))),
};

const PREFIX: &str = "null:";

fn open(name: &str, _options: &OpenOptions) -> Result<Opened, OpenError> {
    let size = name.strip_prefix(PREFIX).expect("it matched");
    let SizeBytes(bytes) = size.parse().map_err(|source| OpenError::Size {
        device: name.to_owned(),
        source,
    })?;
    Ok(Opened {
        part: None,
        held: Vec::new(),
        facts: DeviceFacts {
            name: name.to_owned(),
            backend: &BACKEND.facts,
            bytes,
            sector_bytes: 512,
            physical_sector_bytes: 4096,
            direct: true,
            direct_reason: None,
            rotational: Some(false),
            physical_device: None,
            zeroes_without_moving_bytes: true,
            thin: false,
        },
        medium: Medium::Inline(Box::new(Null)),
    })
}

#[derive(Debug)]
struct Null;

impl Inline for Null {
    fn read(&mut self, _offset_bytes: u64, _into: &mut [u8]) -> MemberResult {
        Ok(())
    }

    fn write(&mut self, _offset_bytes: u64, _from: &[u8]) -> MemberResult {
        Ok(())
    }

    fn zero(&mut self, _offset_bytes: u64, _bytes: u64) -> MemberResult {
        Ok(())
    }

    fn flush(&mut self) -> MemberResult {
        Ok(())
    }
}
