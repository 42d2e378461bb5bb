//! Opens the devices of an array and reads their superblocks.

use super::change::Change;
use super::options::AssembleOptions;
use super::parts::{Candidate, Lost};
use crate::errors::AssembleError;
use spindles_array::{NodeId, Stack};
use spindles_block::BlockIndex;
use spindles_device::identity::lies_on;
use spindles_device::{OpenError, OpenOptions, backends};
use spindles_format::{DecodeError, Found, JournalDevice, SLOT_BYTES, SUPERBLOCK_BYTES, Uuid};

/// Explains why a device that answered before can't be opened.
fn refused(device: &str, error: OpenError) -> AssembleError {
    let is_dead = |source: &std::io::Error| {
        let dead = [libc::ENXIO, libc::ENODEV, libc::EIO, libc::ENOMEDIUM];
        source
            .raw_os_error()
            .is_some_and(|code| dead.contains(&code))
    };
    match error {
        OpenError::Io { source, .. } if is_dead(&source) => AssembleError::Died {
            device: device.to_owned(),
            why: source.to_string(),
        },
        error => error.into(),
    }
}

/// Opens a device that answered before.
fn add(stack: &mut Stack, device: &str) -> Result<NodeId, AssembleError> {
    stack
        .add_device(device)
        .map_err(|error| refused(device, error))
}

/// Refuses devices that could be read a moment ago but can't be opened for writing, for example
/// because another process reads them.
pub(super) fn may_write(devices: &[&str], open: &OpenOptions) -> Result<(), AssembleError> {
    for device in devices {
        match backends::open(device, open).map_err(|error| refused(device, error)) {
            // The array continues without it.
            Ok(_) | Err(AssembleError::Died { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads the superblock slots of a node.
pub(super) fn read_found(stack: &mut Stack, node: NodeId, name: String, bytes: u64) -> Found {
    let block_bytes = u64::from(stack.block_size().bytes());
    let slots = SLOT_BYTES.map(|offset| {
        let mut slot = vec![0; SUPERBLOCK_BYTES];
        let end = offset + u64::try_from(SUPERBLOCK_BYTES).expect("4096");
        if end > stack.blocks(node) * block_bytes {
            return Ok(Vec::new());
        }
        match stack.read(node, BlockIndex(offset / block_bytes), &mut slot) {
            Ok(()) => Ok(slot),
            Err(_) => Err(DecodeError::Unreadable),
        }
    });
    let slots = slots.each_ref().map(|slot| match slot {
        Ok(bytes) => Ok(bytes.as_slice()),
        Err(error) => Err(*error),
    });
    Found::new(name, bytes, slots)
}

/// The state while nested arrays are opened one after another.
pub(super) struct Opening<'a> {
    pub(super) stack: Stack,
    /// Journal devices that no array has taken yet.
    pub(super) journals: Vec<(String, JournalDevice, NodeId)>,
    pub(super) read_only: bool,
    /// True to check only that the array can be opened, before opening it for writing.
    pub(super) look_only: bool,
    pub(super) options: &'a AssembleOptions,
    /// True if no missing member can be newer than the present members, because each one was
    /// present until it died.
    pub(super) none_is_newer: bool,
    /// The change of the given array.
    pub(super) change: Option<Change>,
    /// Arrays that their outer arrays leave out, as an earlier read-only opening found. Assembly
    /// does not write these arrays.
    pub(super) left_out: Vec<Uuid>,
    /// Inner arrays that could not be opened, or hold no data; for the outer array.
    pub(super) lost: Vec<Lost>,
    /// Inner arrays that are no current members of their outer arrays.
    pub(super) outdated: Vec<Lost>,
}

impl<'a> Opening<'a> {
    /// Opens the devices, without assembling them yet.
    pub(super) fn begin(
        members: &[Found],
        journals: &[(String, JournalDevice)],
        options: &'a AssembleOptions,
        look_only: bool,
        change: Option<&Change>,
    ) -> Result<(Self, Vec<Candidate>), AssembleError> {
        #[cfg(test)]
        crate::dying::opening();
        let open = &options.open;
        let mut stack = Stack::new(open)?;
        let parts = open_parts(&mut stack, members)?;
        let journals = journals.iter();
        let journals = journals.map(|(name, looked)| open_journal(&mut stack, name, looked));
        let journals = journals.collect::<Result<Vec<_>, _>>()?;
        #[cfg(test)]
        crate::killed::opening(&mut stack);
        let opening = Self {
            stack,
            journals,
            read_only: open.read_only,
            look_only,
            options,
            none_is_newer: false,
            change: change.cloned(),
            left_out: Vec::new(),
            lost: Vec::new(),
            outdated: Vec::new(),
        };
        Ok((opening, parts))
    }
}

/// Opens the devices that were found to be members, in an order that all programs share: two
/// arrays on slices of the same devices never wait for each other.
fn open_parts(stack: &mut Stack, members: &[Found]) -> Result<Vec<Candidate>, AssembleError> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_cached_key(|at| lies_on(&members[*at].name));
    let parts = order
        .iter()
        .map(|at| Ok((*at, open_part(stack, &members[*at])?)));
    let mut parts = parts.collect::<Result<Vec<_>, AssembleError>>()?;
    parts.sort_by_key(|(at, _)| *at);
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

/// Opens a device that was found to be a member.
fn open_part(stack: &mut Stack, looked: &Found) -> Result<Candidate, AssembleError> {
    let device = || looked.name.clone();
    let node = add(stack, &looked.name)?;
    let found = read_found(stack, node, device(), looked.bytes);
    // The device was a member a moment ago, so its new answer can't be trusted.
    if let (Err(error), Ok(_)) = (found.record(), looked.record()) {
        return Err(AssembleError::Died {
            device: device(),
            why: error.to_string(),
        });
    }
    if found.record() != looked.record() {
        return Err(AssembleError::Changed);
    }
    Ok(Candidate {
        node,
        found,
        report: None,
        outdated: None,
        leaves: vec![device()],
        asks: None,
    })
}

/// Opens a device that was found to hold a journal.
fn open_journal(
    stack: &mut Stack,
    name: &str,
    looked: &JournalDevice,
) -> Result<(String, JournalDevice, NodeId), AssembleError> {
    let node = add(stack, name)?;
    let found = read_found(stack, node, name.to_owned(), looked.device_bytes);
    match found.journal_device() {
        Some(found) if found == looked => Ok((name.to_owned(), *looked, node)),
        Some(_) => Err(AssembleError::Changed),
        None => Err(AssembleError::Died {
            device: name.to_owned(),
            why: "its own description can't be read".to_owned(),
        }),
    }
}
