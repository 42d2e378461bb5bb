//! The options of file systems, from the arguments of mkfs and of mount.

/// When changes of metadata are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metadata {
    /// Before the call returns, in an order that keeps the file system consistent.
    #[default]
    Synchronous,
    /// Later, with the data; the order is kept in memory.
    SoftUpdates,
    /// Later, in any order.
    Asynchronous,
}

/// How records lie on the disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On one disk each, disk after disk.
    #[default]
    Stripe,
    /// On every disk.
    Mirror,
    /// In columns over all disks, with this many columns of parity.
    Raidz(u8),
}

/// The options of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a block; 0 for the default of the row.
    pub block_bytes: u32,
    /// Bytes of a fragment; 0 for the default.
    pub fragment_bytes: u32,
    /// Bytes of space for each inode; 0 for the default.
    pub inode_bytes: u32,
    /// Bytes of a cylinder group; 0 for the default.
    pub group_bytes: u64,
    /// When changes of metadata are written.
    pub metadata: Metadata,
    /// True if data is written before a write is answered.
    pub is_sync: bool,
    /// True if mkfs leaves tables of inodes for later.
    pub is_lazy: bool,
    /// How a file system that takes several disks uses them.
    pub placement: Placement,
    /// The number of these disks; 0 for one.
    pub disks: u32,
}

/// Returns the flags of a command that makes a file system, with a size in bytes each. `None` for a
/// flag without a size that fits.
pub(super) fn flags<'a>(mkfs: &[&'a str]) -> impl Iterator<Item = Option<(&'a str, u32)>> {
    mkfs.chunks(2).map(|words| {
        let bytes = words.get(1).and_then(|text| size(text))?;
        Some((words[0], u32::try_from(bytes).ok()?))
    })
}

/// Parses a count of bytes with an optional suffix `K` or `M`.
pub(super) fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 1 << 10),
        b'M' | b'm' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}
