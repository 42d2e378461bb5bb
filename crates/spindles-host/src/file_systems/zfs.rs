//! The zettabyte file system: records, transaction groups and the intent log, on disks that it
//! stripes, mirrors, or protects with parity itself.
//!
//! The device is a number of equal parts in a row, one for each disk. Files have places of their
//! own in memory; a write gives a record a new place on the disks.

use super::{FileSystem, Options, Piece, Placement, Row};
use crate::block::{Block, RequestKind};
use crate::effect::{Effect, Effects};
use crate::error::HostError;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use spindles_workload::file::FileId;

pub(super) static ROW: Row = Row {
    name: "zfs",
    year: Some(2006),
    about: "records, transaction groups and the intent log; stripes, mirrors and raidz of disks",
    not_modelled: &[
        "freed space, so that free space is one piece",
        "compression, checksums and the time for them",
        "copies of metadata, space maps and uberblocks",
        "the order of the disks' queues, other than of transaction groups",
        "caches of disks' tracks",
    ],
    moves_blocks: true,
    options,
    make: |device_bytes, options, _| Ok(Box::new(Zfs::new(device_bytes, options)?)),
};

/// Bytes of a record, unless `recordsize` says otherwise.
const RECORD_BYTES: u32 = 128 << 10;
/// The unit of places on disks.
const SECTOR_BYTES: u64 = 512;
/// A stripe changes the disk after this many bytes.
const ROTATE_BYTES: u64 = 512 << 10;
/// The largest request that neighbouring records make.
const AGGREGATE_BYTES: u64 = 128 << 10;
/// A mirror reads this many bytes in a row from the same disk.
const MIRROR_BYTES: u64 = 2 << 20;
/// Labels at the begin of each disk.
const LABEL_BYTES: u64 = 4 << 20;
/// A block of inodes, and the inodes in it.
const DNODES_BYTES: u32 = 16 << 10;
const DNODES: u64 = 32;
/// The window of places in memory that a file has.
const WINDOW_BITS: u32 = 40;
/// Windows of blocks of inodes, of folders, and of the first file.
const DNODE_WINDOW: u64 = 0;
const FOLDER_WINDOW: u64 = 1;
const FILE_WINDOW: u64 = 2;
/// Files at most.
const FILES_MAX: u32 = 1 << 23;
/// The intent log writes multiples of this.
const LOG_UNIT_BYTES: u64 = 4096;
/// Leaves of a folder's table, of 16 KiB.
const LEAVES: u64 = 256;

const OPTIONS: &str = "zfs takes stripe, mirror, raidz1, raidz2 or raidz3, then a number of disks, \
                       and recordsize=128K, as in mkfs = [\"raidz1\", \"6\"]; no mount options";

fn options(mkfs: &[&str], mount: &str) -> Result<Options, &'static str> {
    let mut options = Options::default();
    for word in mkfs {
        match *word {
            "stripe" => options.placement = Placement::Stripe,
            "mirror" => options.placement = Placement::Mirror,
            "raidz1" => options.placement = Placement::Raidz(1),
            "raidz2" => options.placement = Placement::Raidz(2),
            "raidz3" => options.placement = Placement::Raidz(3),
            word => match word.strip_prefix("recordsize=") {
                Some(size) => {
                    let bytes = super::options::size(size).ok_or(OPTIONS)?;
                    let fits = bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes);
                    let bytes = u32::try_from(bytes).ok().filter(|_| fits);
                    options.block_bytes = bytes.ok_or(OPTIONS)?;
                }
                None => options.disks = word.parse().map_err(|_| OPTIONS)?,
            },
        }
    }
    let disks = options.disks.max(1);
    let least = match options.placement {
        Placement::Stripe => 1,
        Placement::Mirror => 2,
        Placement::Raidz(parity) => u32::from(parity) + 1,
    };
    if !(least..=256).contains(&disks) || !mount.is_empty() {
        return Err(OPTIONS);
    }
    Ok(options)
}

/// Where a record lies: a byte of a disk, or a sector counted over all disks of a raidz.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    disk: u32,
    at: u64,
    bytes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct File {
    bytes: u64,
    exists: bool,
}

#[derive(Debug)]
struct Zfs {
    record_bytes: u32,
    placement: Placement,
    disks: u64,
    disk_bytes: u64,
    /// The files by number.
    files: Vec<File>,
    /// Where the records of each window lie, by number; empty for a record that was never written.
    homes: Vec<Vec<Home>>,
    /// Bytes allocated on each disk of a stripe; of a mirror or raidz, the first counts for all.
    allocated: Vec<u64>,
    /// The disk of a stripe that takes the next record.
    rotor: usize,
}

impl Zfs {
    fn new(device_bytes: u64, options: &Options) -> Result<Self, HostError> {
        let disks = u64::from(options.disks.max(1));
        let disk_bytes = device_bytes / disks / SECTOR_BYTES * SECTOR_BYTES;
        if disk_bytes < 64 << 20 {
            return Err(HostError::TooSmall);
        }
        let count = usize::try_from(disks).expect("few");
        Ok(Self {
            record_bytes: match options.block_bytes {
                0 => RECORD_BYTES,
                bytes => bytes,
            },
            placement: options.placement,
            disks,
            disk_bytes,
            files: Vec::new(),
            homes: Vec::new(),
            allocated: vec![0; count],
            rotor: 0,
        })
    }

    /// Returns the bytes of a record of a file of `bytes`.
    fn bytes_of(&self, bytes: u64, record: u64) -> u32 {
        if record > 0 || bytes > self.record_bytes.into() {
            return self.record_bytes;
        }
        let bytes = bytes.next_multiple_of(SECTOR_BYTES);
        u32::try_from(bytes).expect("at most a record")
    }

    /// Returns the block of inodes that holds a file's.
    fn dnode(file: FileId) -> Block {
        Block {
            place_bytes: (DNODE_WINDOW << WINDOW_BITS)
                + u64::from(file.0) / DNODES * u64::from(DNODES_BYTES),
            bytes: DNODES_BYTES,
        }
    }

    /// Returns the leaf of a folder's table that holds a name.
    fn leaf(path: &str) -> Block {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
        Block {
            place_bytes: (FOLDER_WINDOW << WINDOW_BITS)
                + (hash >> 32) % LEAVES * u64::from(DNODES_BYTES),
            bytes: DNODES_BYTES,
        }
    }

    /// Gives a record a new place.
    fn allocate(&mut self, bytes: u32) -> Home {
        let room = self.disk_bytes - LABEL_BYTES;
        let need = u64::from(bytes);
        match self.placement {
            Placement::Raidz(parity) => {
                let sectors = need.div_ceil(SECTOR_BYTES);
                let parity = u64::from(parity);
                let rows = sectors.div_ceil(self.disks - parity);
                let all = (sectors + parity * rows).next_multiple_of(parity + 1);
                let room = room / SECTOR_BYTES * self.disks;
                if self.allocated[0] + all > room {
                    self.allocated[0] = 0;
                }
                let at = self.allocated[0];
                self.allocated[0] += all;
                Home { disk: 0, at, bytes }
            }
            Placement::Stripe | Placement::Mirror => {
                let disk = if self.placement == Placement::Mirror {
                    0
                } else {
                    self.rotor
                };
                if self.allocated[disk] + need > room {
                    self.allocated[disk] = 0;
                }
                let at = LABEL_BYTES + self.allocated[disk];
                let before = self.allocated[disk] / ROTATE_BYTES;
                self.allocated[disk] += need.next_multiple_of(SECTOR_BYTES);
                if self.allocated[disk] / ROTATE_BYTES != before {
                    self.rotor = (self.rotor + 1) % self.allocated.len();
                }
                let disk = u32::try_from(disk).expect("few");
                Home { disk, at, bytes }
            }
        }
    }

    /// Adds the requests for a record to those of a batch.
    fn pieces(&self, kind: RequestKind, home: Home, pieces: &mut Vec<Piece>) {
        let mut push = |disk: u64, at: u64, bytes: u64| {
            pieces.push(Piece {
                kind,
                offset_bytes: disk * self.disk_bytes + at,
                bytes,
            });
        };
        let bytes = u64::from(home.bytes);
        match self.placement {
            Placement::Stripe => push(home.disk.into(), home.at, bytes),
            Placement::Mirror if kind == RequestKind::Write => {
                (0..self.disks).for_each(|disk| push(disk, home.at, bytes));
            }
            Placement::Mirror => push(home.at / MIRROR_BYTES % self.disks, home.at, bytes),
            Placement::Raidz(parity) => {
                let parity = u64::from(parity);
                let sectors = bytes.div_ceil(SECTOR_BYTES);
                let data = self.disks - parity;
                let (rows, longer) = (sectors / data, sectors % data);
                let most = sectors.div_ceil(data);
                for column in 0..self.disks {
                    let length = match column.checked_sub(parity) {
                        None if kind == RequestKind::Read => 0,
                        None => most,
                        Some(data) => rows + u64::from(data < longer),
                    };
                    let place = home.at + column;
                    let at = LABEL_BYTES + place / self.disks * SECTOR_BYTES;
                    if length > 0 {
                        push(place % self.disks, at, length * SECTOR_BYTES);
                    }
                }
            }
        }
    }

    fn known(&self, file: FileId) -> Result<u64, HostError> {
        let found = self.files.get(index(file.0.into()));
        let found = found.filter(|found| found.exists);
        found.map(|found| found.bytes).ok_or(HostError::Missing)
    }

    fn set_file(&mut self, file: FileId, to: File) {
        let at = index(file.0.into());
        if self.files.len() <= at {
            self.files.resize(at + 1, File::default());
        }
        self.files[at] = to;
    }

    /// Returns the window of a block, and its number in it.
    fn number(&self, block: Block) -> (usize, usize) {
        let window = block.place_bytes >> WINDOW_BITS;
        let unit = if window < FILE_WINDOW {
            DNODES_BYTES
        } else {
            self.record_bytes
        };
        let in_window = block.place_bytes & ((1 << WINDOW_BITS) - 1);
        (index(window), index(in_window / u64::from(unit)))
    }

    /// Returns where a block was last written.
    fn home(&self, block: Block) -> Option<Home> {
        let (window, number) = self.number(block);
        let home = self.homes.get(window)?.get(number)?;
        (home.bytes > 0).then_some(*home)
    }

    fn set_home(&mut self, block: Block, home: Home) {
        let (window, number) = self.number(block);
        if self.homes.len() <= window {
            self.homes.resize_with(window + 1, Vec::new);
        }
        let homes = &mut self.homes[window];
        if homes.len() <= number {
            homes.resize(number + 1, Home::default());
        }
        homes[number] = home;
    }

    fn forget_home(&mut self, block: Block) {
        if self.home(block).is_some() {
            self.set_home(block, Home::default());
        }
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

/// Joins neighbours of one kind into requests of at most `AGGREGATE_BYTES`.
fn joined(mut pieces: Vec<Piece>) -> Vec<Piece> {
    pieces.sort_by_key(|piece| piece.offset_bytes);
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last)
                if last.offset_bytes + last.bytes == piece.offset_bytes
                    && last.bytes + piece.bytes <= AGGREGATE_BYTES =>
            {
                last.bytes += piece.bytes;
            }
            _ => joined.push(piece),
        }
    }
    joined
}

impl FileSystem for Zfs {
    fn block_bytes(&self) -> u32 {
        self.record_bytes
    }

    fn make(&self) -> Effects {
        Effects::new()
    }

    fn mkdir(&mut self, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        effects.push(Effect::Change(Self::leaf(path)));
        Ok(())
    }

    fn create(&mut self, file: FileId, path: &str, effects: &mut Effects) -> Result<(), HostError> {
        if self.known(file).is_ok() {
            self.remove(file, effects)?;
        }
        if file.0 >= FILES_MAX {
            return Err(HostError::NoInodes);
        }
        let made = File {
            bytes: 0,
            exists: true,
        };
        self.set_file(file, made);
        for block in [Self::dnode(file), Self::leaf(path)] {
            effects.extend(self.home(block).is_some().then_some(Effect::Need(block)));
            effects.push(Effect::Change(block));
        }
        Ok(())
    }

    fn look_up(&self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        self.known(file)?;
        let block = Self::dnode(file);
        effects.extend(self.home(block).is_some().then_some(Effect::Need(block)));
        Ok(())
    }

    fn set(
        &mut self,
        file: FileId,
        _is_mode: bool,
        effects: &mut Effects,
    ) -> Result<(), HostError> {
        self.look_up(file, effects)?;
        effects.push(Effect::Change(Self::dnode(file)));
        Ok(())
    }

    fn remove(&mut self, file: FileId, effects: &mut Effects) -> Result<(), HostError> {
        self.look_up(file, effects)?;
        let records = self.known(file)?.div_ceil(self.record_bytes.into());
        effects.push(Effect::Change(Self::dnode(file)));
        for record in 0..records {
            if let Some(block) = self.place(file, record) {
                self.forget_home(block);
                effects.push(Effect::Forget(block));
            }
        }
        self.set_file(file, File::default());
        Ok(())
    }

    fn bytes(&self, file: FileId) -> u64 {
        self.known(file).unwrap_or(0)
    }

    fn grow(&mut self, file: FileId, bytes: u64, effects: &mut Effects) -> Result<(), HostError> {
        let old = self.known(file)?;
        let grown = File {
            bytes: old.max(bytes),
            exists: true,
        };
        self.set_file(file, grown);
        if old == 0 {
            effects.push(Effect::Change(Self::dnode(file)));
        }
        Ok(())
    }

    fn place(&self, file: FileId, block: u64) -> Option<Block> {
        let bytes = self.known(file).ok()?;
        if block * u64::from(self.record_bytes) >= bytes {
            return None;
        }
        let window = (FILE_WINDOW + u64::from(file.0)) << WINDOW_BITS;
        Some(Block {
            place_bytes: window + block * u64::from(self.record_bytes),
            bytes: self.bytes_of(bytes, block),
        })
    }

    fn find(&self, _file: FileId, _block: u64, _effects: &mut Effects) {}

    fn sync(&mut self, _file: FileId, _effects: &mut Effects) {}

    fn is_sync(&self) -> bool {
        false
    }

    fn transactions(&self) -> Option<u64> {
        let columns = match self.placement {
            Placement::Mirror => 1,
            Placement::Stripe => self.disks,
            Placement::Raidz(parity) => self.disks - u64::from(parity),
        };
        Some(columns * AGGREGATE_BYTES)
    }

    fn lay_out(&mut self, blocks: &[Block]) {
        for block in blocks {
            let home = self.allocate(block.bytes);
            self.set_home(*block, home);
        }
    }

    fn log(&mut self, bytes: u64) -> Vec<Vec<Piece>> {
        let mut left = bytes.next_multiple_of(LOG_UNIT_BYTES);
        let mut pieces = Vec::new();
        while left > 0 {
            let now = left.min(RECORD_BYTES.into());
            let home = self.allocate(u32::try_from(now).expect("at most a record"));
            self.pieces(RequestKind::Write, home, &mut pieces);
            left -= now;
        }
        vec![joined(pieces), vec![Piece::FLUSH]]
    }

    fn requests(&mut self, kind: RequestKind, blocks: &[Block]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for block in blocks {
            let home = match kind {
                RequestKind::Write => {
                    let home = self.allocate(block.bytes);
                    self.set_home(*block, home);
                    home
                }
                _ => match self.home(*block) {
                    Some(home) => home,
                    // Never written: it takes a place, and reads as zeros.
                    None => self.allocate(block.bytes),
                },
            };
            self.pieces(kind, home, &mut pieces);
        }
        joined(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(5);

    fn zfs(mkfs: &[&str], disks: u64) -> Zfs {
        let options = options(mkfs, "").unwrap();
        let mut zfs = Zfs::new(disks << 30, &options).unwrap();
        let mut effects = Effects::new();
        zfs.create(FILE, "a", &mut effects).unwrap();
        zfs.grow(FILE, 1 << 20, &mut effects).unwrap();
        zfs
    }

    /// Writes or reads the first records of the file. Returns the disk, the KiB and the bytes of
    /// each request.
    fn asked(zfs: &mut Zfs, kind: RequestKind, records: u64) -> Vec<(u64, u64, u64)> {
        let blocks = (0..records).map(|record| zfs.place(FILE, record).unwrap());
        let blocks: Vec<Block> = blocks.collect();
        let pieces = zfs.requests(kind, &blocks).into_iter();
        let place = |offset: u64| (offset >> 30, offset % (1 << 30) - LABEL_BYTES);
        let of = pieces.map(|piece| {
            assert_eq!(piece.kind, kind);
            let (disk, at) = place(piece.offset_bytes);
            (disk, at >> 10, piece.bytes)
        });
        of.collect()
    }

    #[test]
    fn a_stripe_changes_the_disk_after_half_a_mib() {
        let mut zfs = zfs(&["stripe", "2"], 2);
        let record = u64::from(RECORD_BYTES);
        let first = [(0, 0), (0, 128), (0, 256), (0, 384), (1, 0)];
        let first = first.map(|(disk, kib)| (disk, kib, record));
        assert_eq!(asked(&mut zfs, RequestKind::Write, 5), first);
        assert_eq!(asked(&mut zfs, RequestKind::Read, 5), first);
        // A record that is written again has a new place.
        let second = asked(&mut zfs, RequestKind::Write, 1);
        assert_eq!(second, [(1, 128, record)]);
        assert_eq!(asked(&mut zfs, RequestKind::Read, 1), second);
    }

    #[test]
    fn a_mirror_writes_to_all_and_reads_from_one() {
        let mut zfs = zfs(&["mirror", "3"], 3);
        let record = u64::from(RECORD_BYTES);
        let all = [0, 1, 2].map(|disk| (disk, 0, record));
        assert_eq!(asked(&mut zfs, RequestKind::Write, 1), all);
        assert_eq!(asked(&mut zfs, RequestKind::Read, 1).len(), 1);
    }

    /// A read of a record takes every data column; neighbours on a disk are one request.
    #[test]
    fn raidz_spreads_each_record() {
        let mut zfs = zfs(&["raidz1", "5"], 5);
        let written = asked(&mut zfs, RequestKind::Write, 1);
        // 256 sectors over 4 columns, and as many of parity.
        assert_eq!(written, [0, 1, 2, 3, 4].map(|disk| (disk, 0, 32 << 10)));
        assert_eq!(asked(&mut zfs, RequestKind::Read, 1), &written[1..]);
        let four = asked(&mut zfs, RequestKind::Write, 4);
        assert_eq!(four, [0, 1, 2, 3, 4].map(|disk| (disk, 32, 128 << 10)));
        let mut two = self::zfs(&["raidz2", "4"], 4);
        two.grow(FileId(5), 1, &mut Effects::new()).unwrap();
        let small = Block {
            place_bytes: 0,
            bytes: 1024,
        };
        let pieces = two.requests(RequestKind::Write, &[small]);
        // Two sectors of data and two of parity.
        assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), 2048);
        assert_eq!(two.allocated[0], 6);
    }

    #[test]
    fn options_that_mean_nothing_are_refused() {
        for mkfs in [
            &["mirror"][..],
            &["raidz1", "1"],
            &["raidz2", "two"],
            &["recordsize=5K"],
            &["stripe", "300"],
        ] {
            assert_eq!(options(mkfs, ""), Err(OPTIONS), "{mkfs:?}");
        }
        assert_eq!(options(&[], "sync"), Err(OPTIONS));
        let small = options(&["recordsize=8K"], "").unwrap();
        assert_eq!(Zfs::new(1 << 30, &small).unwrap().block_bytes(), 8192);
        let error = Zfs::new(1 << 20, &small).unwrap_err();
        assert_eq!(error, HostError::TooSmall);
    }
}
