//! `mem:SIZE`: memory of this process, zeros at first and gone with the target.

use super::{Backend, Inline, Medium, Opened};
use crate::buffers::Region;
use crate::{DeviceFacts, OpenError, OpenOptions};
use spindles_block::{MemberResult, SizeBytes};

pub(super) static BACKEND: Backend = Backend {
    name: "mem",
    syntax: "mem:SIZE",
    summary: "memory of this process, zeros at first; takes what is written only",
    matches: |name| name.starts_with(PREFIX),
    open,
    fresh: Some(|_, _, bytes| Ok(format!("{PREFIX}{}", SizeBytes(bytes)))),
};

const PREFIX: &str = "mem:";

fn open(name: &str, _options: &OpenOptions) -> Result<Opened, OpenError> {
    let size = name.strip_prefix(PREFIX).expect("it matched");
    let SizeBytes(bytes) = size.parse().map_err(|source| OpenError::Size {
        device: name.to_owned(),
        source,
    })?;
    let region = usize::try_from(bytes)
        .map_err(|_| std::io::ErrorKind::OutOfMemory.into())
        .and_then(Region::new)
        .map_err(|source| OpenError::Io {
            device: name.to_owned(),
            action: "take the memory for",
            source,
        })?;
    Ok(Opened {
        facts: DeviceFacts {
            name: name.to_owned(),
            backend: BACKEND.name,
            bytes,
            sector_bytes: 512,
            physical_sector_bytes: 4096,
            direct: true,
            direct_reason: None,
            rotational: Some(false),
            physical_device: Some("memory".to_owned()),
        },
        medium: Medium::Inline(Box::new(Mem(region))),
    })
}

#[derive(Debug)]
struct Mem(Region);

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("within the region")
}

impl Inline for Mem {
    fn read(&mut self, offset_bytes: u64, into: &mut [u8]) -> MemberResult {
        let start = index(offset_bytes);
        into.copy_from_slice(&self.0.bytes()[start..start + into.len()]);
        Ok(())
    }

    fn write(&mut self, offset_bytes: u64, from: &[u8]) -> MemberResult {
        let start = index(offset_bytes);
        self.0.bytes_mut()[start..start + from.len()].copy_from_slice(from);
        Ok(())
    }

    fn zero(&mut self, offset_bytes: u64, bytes: u64) -> MemberResult {
        let start = index(offset_bytes);
        self.0.bytes_mut()[start..start + index(bytes)].fill(0);
        Ok(())
    }

    fn flush(&mut self) -> MemberResult {
        Ok(())
    }
}
