//! `mem:SIZE`: memory of this process, zeros at first and gone with the target.

#![expect(unsafe_code, reason = "stores that go past the caches")]

use super::{Backend, Inline, Medium, Opened};
use crate::buffers::Region;
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions};
use spindles_block::{MemberResult, SizeBytes};

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "mem",
        outlives_opening: false,
        whole_sectors_only: false,
        is_path: false,
    },
    syntax: "mem:SIZE",
    summary: "memory of this process, zeros at first, taken as it is written",
    matches: |name| name.starts_with(PREFIX),
    open,
    at_rest: None,
    fresh: Some(|_, _, bytes| Ok(format!("{PREFIX}{}", SizeBytes(bytes).typed()))),
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
            physical_device: Some("memory".to_owned()),
            zeroes_without_moving_bytes: true,
            thin: false,
        },
        medium: Medium::Inline(Box::new(Mem(region))),
    })
}

#[derive(Debug)]
struct Mem(Region);

/// Writes of this size or more bypass the caches: such data is not read again soon, and would push
/// more useful data out of the caches.
const PAST_CACHES_FROM_BYTES: usize = 32 << 10;

fn copy(to: &mut [u8], from: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if to.len() >= PAST_CACHES_FROM_BYTES {
        return copy_past_caches(to, from);
    }
    to.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const STEP: usize = size_of::<__m128i>();
    assert_eq!(to.len(), from.len());
    // SAFETY: any bytes are a valid vector.
    let (head, body, tail) = unsafe { to.align_to_mut::<__m128i>() };
    let (first, rest) = from.split_at(head.len());
    let (middle, last) = rest.split_at(body.len() * STEP);
    head.copy_from_slice(first);
    tail.copy_from_slice(last);
    for (to, from) in body.iter_mut().zip(middle.chunks_exact(STEP)) {
        // SAFETY: `from` has the 16 bytes that are loaded, aligned or not; `to` is a whole aligned
        // vector. All x86-64 processors have SSE2.
        unsafe { _mm_stream_si128(to, _mm_loadu_si128(from.as_ptr().cast())) };
    }
    // SAFETY: orders the stores above before all later ones; does nothing else.
    unsafe { _mm_sfence() };
}

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
        copy(&mut self.0.bytes_mut()[start..start + from.len()], from);
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
