//! A host on a device that takes the same time for each request.

use super::*;
use crate::file_systems::by_name;
use alloc::string::String;

const FILE: FileId = FileId(3);
const SLOT: Slot = Slot(0);
/// Nanoseconds of a request on the device, which serves one at a time.
const REQUEST_NS: u64 = 10_000_000;

/// Costs that are easy to add up; 16 blocks of memory.
fn number(key: &str) -> f64 {
    match key {
        "cpus" | "write_us_per_kib" | "read_us_per_kib" | "read_ahead_clusters" => 1.0,
        "array_write_us_per_kib" | "array_read_us_per_kib" | "syscall_us" => 0.0,
        "create_us" | "remove_us" | "set_times_us" | "entry_scan_us" => 100.0,
        "cache_mib" => 0.125,
        "dirty_percent" | "throttle_percent" => 50.0,
        "cluster_kib" => 16.0,
        "write_behind_mib" => 0.0625,
        "write_back_age_s" | "write_back_period_s" => 30.0,
        _ => 2.0,
    }
}

struct Rig {
    host: Host,
    now_ns: u64,
    free_ns: u64,
    /// Requests under way by the moment of their answer.
    device: BTreeSet<(u64, RequestId)>,
    sent: Vec<(RequestKind, u64, u64)>,
}

impl Rig {
    fn new(fs: &str, mount: &str) -> Self {
        Self::with_memory(fs, mount, number("cache_mib"))
    }

    fn with_memory(fs: &str, mount: &str, mib: f64) -> Self {
        let number = |key: &str| if key == "cache_mib" { mib } else { number(key) };
        Self::with(fs, mount, &number)
    }

    fn with(fs: &str, mount: &str, number: &dyn Fn(&str) -> f64) -> Self {
        let machine = Machine::new(|key| Some(number(key)), |_| None).unwrap();
        let row = by_name(fs).unwrap();
        let options = (row.options)(&[], mount).unwrap();
        Self {
            host: Host::new(machine, row, &options, 256 << 20, false).unwrap(),
            now_ns: 0,
            free_ns: 0,
            device: BTreeSet::new(),
            sent: Vec::new(),
        }
    }

    /// Lets time pass until the actor's action is done, or without one until the device is idle.
    fn until_done(&mut self, acts: bool) -> Answer {
        loop {
            while let Some(request) = self.host.next_request() {
                self.sent
                    .push((request.kind, request.offset_bytes, request.bytes));
                self.free_ns = self.free_ns.max(self.now_ns) + REQUEST_NS;
                self.device.insert((self.free_ns, request.id));
            }
            if let Some((_, answer)) = self.host.next_done() {
                return answer;
            }
            assert_eq!(self.host.take_error(), None);
            let answer = self.device.first().copied();
            let wake = self.host.next_wake();
            match (answer, wake) {
                (Some((at_ns, id)), wake) if wake.is_none_or(|wake| at_ns <= wake.0) => {
                    self.device.pop_first();
                    self.now_ns = at_ns;
                    self.host.answered(Instant(at_ns), id);
                }
                (_, Some(wake)) => {
                    self.now_ns = wake.0;
                    self.host.wake(wake);
                }
                (_, None) => {
                    assert!(!acts, "the action hangs");
                    return Answer::default();
                }
            }
        }
    }

    /// Does an action. Returns its time in microseconds, and the requests sent meanwhile.
    fn act(&mut self, action: Action) -> (u64, Vec<(RequestKind, u64, u64)>) {
        let (began_ns, sent) = (self.now_ns, self.sent.len());
        let path = String::from("file");
        let begun = Begun::Action(action, &path);
        self.host.begin(Instant(self.now_ns), 0, begun).unwrap();
        self.until_done(true);
        ((self.now_ns - began_ns) / 1000, self.sent[sent..].to_vec())
    }

    fn create(&mut self) -> (u64, Vec<(RequestKind, u64, u64)>) {
        self.act(Action::Create(FILE, SLOT, Access::ReadWrite))
    }
}

fn count(sent: &[(RequestKind, u64, u64)], kind: RequestKind) -> usize {
    sent.iter().filter(|one| one.0 == kind).count()
}

/// Creation of a file takes two writes in order; asynchronously it takes none.
#[test]
fn metadata_is_written_as_the_mount_says() {
    let mut rig = Rig::new("ffs", "");
    let (_, sent) = rig.create();
    // Maps, inodes and the folder are read once.
    assert_eq!(count(&sent, RequestKind::Read), 3);
    assert_eq!(count(&sent, RequestKind::Write), 2);
    let (us, sent) = rig.act(Action::SetTimes(FILE));
    assert_eq!((us, sent.len()), (10_100, 1));
    let (us, sent) = rig.act(Action::SetMode(FILE));
    assert_eq!((us, sent.len()), (100, 0));
    let (us, sent) = rig.act(Action::Unlink(FILE));
    assert_eq!((us, sent.len()), (10_100, 1));
    for mount in ["async", "softdep"] {
        let mut rig = Rig::new("ffs", mount);
        let (_, sent) = rig.create();
        assert_eq!(count(&sent, RequestKind::Write), 0, "{mount}");
        let (us, sent) = rig.act(Action::Unlink(FILE));
        assert_eq!((us, sent.len()), (100, 0), "{mount}");
    }
}

/// The search of a folder takes time for each entry.
#[test]
fn creation_searches_the_folder() {
    let mut rig = Rig::new("ffs", "async");
    rig.create();
    let mut cost = |file| {
        rig.act(Action::Create(FileId(file), SLOT, Access::ReadWrite))
            .0
    };
    // 100 us, and 100 us for each of 3 entries, then 4.
    assert_eq!([cost(10), cost(11)], [400, 500]);
}

/// Written clusters go to the device at once; the rest waits until it is old.
#[test]
fn whole_clusters_are_written_behind_and_the_rest_by_age() {
    let mut rig = Rig::new("bare", "");
    rig.create();
    let (us, sent) = rig.act(Action::Write(SLOT, At::Position, 40_960));
    assert_eq!(us, 40);
    let bytes: Vec<u64> = sent.iter().map(|one| one.2).collect();
    assert_eq!(bytes, [16_384, 16_384]);
    // Nothing more is written before its age, and then the fifth block.
    let sent = rig.sent.len();
    rig.act(Action::Think(u32::MAX));
    assert_eq!(rig.sent[sent..], []);
    for _ in 0..16 {
        rig.act(Action::Think(u32::MAX));
    }
    assert_eq!(rig.sent[sent..], [(RequestKind::Write, 32_768, 8192)]);
}

/// Fsync waits for the data of the file, and for its inode after that.
#[test]
fn fsync_writes_data_and_then_the_inode() {
    let mut rig = Rig::new("ffs", "async");
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 8192));
    let (us, sent) = rig.act(Action::Fsync(SLOT));
    assert_eq!((us, sent.len()), (20_000, 2));
    let (us, _) = rig.act(Action::Fsync(SLOT));
    assert_eq!(us, 10_000);
    let mut rig = Rig::new("ffs", "softdep");
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 8192));
    // The entry of the file too.
    assert_eq!(rig.act(Action::Fsync(SLOT)).0, 30_000);
    let mut rig = Rig::new("ffs", "sync");
    rig.create();
    let (_, sent) = rig.act(Action::Write(SLOT, At::Position, 8192));
    assert_eq!(count(&sent, RequestKind::Write), 2);
}

/// A file larger than the memory is read in clusters, each once; a small one from memory.
#[test]
fn sequential_reads_take_clusters_and_memory_keeps_what_fits() {
    for (bytes, requests) in [(1 << 20, 64), (65_536, 0)] {
        let mut rig = Rig::new("bare", "");
        rig.create();
        rig.act(Action::Write(SLOT, At::Position, bytes));
        rig.act(Action::SyncAll);
        let mut read = 0;
        for at in 0..u64::from(bytes) / 8192 {
            let (_, sent) = rig.act(Action::Read(SLOT, At::Offset(at * 8192), 8192));
            assert!(sent.iter().all(|one| one.2 == 16_384), "{sent:?}");
            read += sent.len();
        }
        assert_eq!(read, requests, "{bytes}");
    }
}

/// Reads at random take their block only.
#[test]
fn random_reads_take_one_block() {
    let mut rig = Rig::new("bare", "");
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 1 << 20));
    rig.act(Action::SyncAll);
    rig.host.empty_cache();
    for at in [90, 7, 50] {
        let (us, sent) = rig.act(Action::Read(SLOT, At::Offset(at * 8192), 4096));
        assert_eq!(
            (us, sent),
            (10_004, vec![(RequestKind::Read, at * 8192, 8192)])
        );
    }
    // A part of a block that is not in memory is read before it is written.
    let (_, sent) = rig.act(Action::Write(SLOT, At::Offset(20 * 8192 + 1), 9));
    assert_eq!(sent, [(RequestKind::Read, 20 * 8192, 8192)]);
}

/// A writer faster than the device waits once too many bytes are under way.
#[test]
fn writers_wait_for_the_device() {
    let mut rig = Rig::new("bare", "");
    rig.create();
    let (us, _) = rig.act(Action::Write(SLOT, At::Position, 1 << 20));
    // 64 clusters in turn, without the 4 that may be under way and the one that lets it go on.
    assert!((590_000..=610_000).contains(&us), "{us}");
    assert_eq!(rig.host.cpu_ns(), 1_024_000 + 100_000);
}

/// Two actors compute one after the other on one processor.
#[test]
fn actors_share_the_processor() {
    let mut rig = Rig::new("bare", "");
    let think = Begun::Action(Action::Think(1_000_000), "");
    rig.host.begin(Instant(0), 0, think).unwrap();
    rig.host.begin(Instant(0), 1, think).unwrap();
    rig.until_done(true);
    assert_eq!(rig.now_ns, 2_000_000);
    rig.until_done(true);
    assert_eq!(rig.now_ns, 4_000_000);
}

/// With a lock for each file, two readers of a file take turns; of two files they don't.
#[test]
fn readers_of_a_locked_file_take_turns() {
    for (lock, other, most) in [("off", FILE, 2), ("on", FILE, 1), ("on", FileId(4), 2)] {
        let mut rig = Rig::new("bare", "");
        rig.host.machine.locks_files = lock == "on";
        for file in [other, FILE] {
            rig.act(Action::Create(file, SLOT, Access::ReadWrite));
            rig.act(Action::Write(SLOT, At::Position, 1 << 20));
        }
        rig.act(Action::SyncAll);
        rig.host.empty_cache();
        let open = Begun::Action(Action::Open(other, SLOT, Access::Read), "");
        rig.host.begin(Instant(rig.now_ns), 1, open).unwrap();
        rig.until_done(true);
        for (actor, block) in [(0, 100), (1, 50)] {
            let read = Action::Read(SLOT, At::Offset(block * 8192), 8192);
            let begun = Begun::Action(read, "");
            rig.host.begin(Instant(rig.now_ns), actor, begun).unwrap();
        }
        let mut sent = 0;
        while let Some(request) = rig.host.next_request() {
            sent += 1;
            rig.device.insert((rig.now_ns + REQUEST_NS, request.id));
        }
        assert_eq!(sent, most, "{lock}");
        rig.until_done(true);
        rig.until_done(true);
    }
}

/// Makes the file system: a superblock, a map and all inodes of each group, each a write in turn.
#[test]
fn newfs_writes_every_inode() {
    let mut rig = Rig::new("ffs", "");
    rig.host.begin(Instant(0), 0, Begun::Newfs).unwrap();
    rig.until_done(true);
    let writes = u64::try_from(rig.sent.len()).unwrap();
    assert_eq!(rig.now_ns, writes * REQUEST_NS);
    let inodes = rig.sent.iter().map(|one| one.2).sum::<u64>() / 128;
    // An inode for every 4 KiB of 256 MiB, and a little more.
    assert!((65_536..70_000).contains(&inodes), "{inodes}");
}

#[test]
fn a_full_file_system_is_an_error() {
    let mut rig = Rig::new("bare", "");
    rig.create();
    let write = Begun::Action(Action::Write(SLOT, At::Offset(256 << 20), 1), "");
    rig.host.begin(Instant(0), 0, write).unwrap();
    assert_eq!(rig.host.take_error(), Some((0, HostError::Full)));
    let open = Begun::Action(Action::Open(FileId(9), SLOT, Access::Read), "nothing");
    let missing = rig.host.begin(Instant(0), 1, open).unwrap_err();
    assert_eq!(missing, HostError::Missing);
}

/// Fsync takes a write of the intent log and a flush. All changes go out together, later.
#[test]
fn transactions_write_all_changes_and_the_log_makes_them_durable() {
    let mut rig = Rig::new("zfs", "");
    let (_, sent) = rig.create();
    assert_eq!(sent, []);
    let (_, sent) = rig.act(Action::Write(SLOT, At::Position, 20_000));
    assert_eq!(sent, []);
    let (us, sent) = rig.act(Action::Fsync(SLOT));
    // 20,000 bytes and a record of the log, in units of 4 KiB.
    assert_eq!(sent.len(), 2);
    assert_eq!((sent[0].0, sent[0].2), (RequestKind::Write, 20_480));
    assert_eq!((sent[1].0, sent[1].2), (RequestKind::Flush, 0));
    assert_eq!(us, 20_000);
    let (_, sent) = rig.act(Action::SyncAll);
    // The record, the block of inodes and the leaf of the folder lie in a row.
    assert_eq!(
        sent.iter().map(|one| one.2).collect::<Vec<_>>(),
        [20_480 + 32_768]
    );
    assert_eq!(rig.act(Action::SyncAll).1, []);
}

/// Returns the bytes of each request.
fn bytes(sent: &[(RequestKind, u64, u64)]) -> Vec<u64> {
    sent.iter().map(|one| one.2).collect()
}

/// Blocks of metadata that a new file changes: the entry, the inode, two bitmaps, a descriptor.
const EXT2_METADATA: usize = 5;

/// Metadata is written once it is 2 s old, and data once it is 30 s old, in clusters.
#[test]
fn ext2_writes_by_age() {
    let mut rig = Rig::with_memory("ext2", "", 1.0);
    rig.create();
    let (_, sent) = rig.act(Action::Write(SLOT, At::Position, 40_960));
    assert_eq!(count(&sent, RequestKind::Write), 0);
    let began = rig.sent.len();
    let wait = |rig: &mut Rig| {
        for _ in 0..4 {
            rig.act(Action::Think(u32::MAX));
        }
    };
    wait(&mut rig);
    assert_eq!(bytes(&rig.sent[began..]), [4096; EXT2_METADATA]);
    let began = rig.sent.len();
    wait(&mut rig);
    assert_eq!(bytes(&rig.sent[began..]), [16_384, 16_384, 8192]);
}

/// The data of a file is in one piece with the block of pointers after 12 blocks, and fsync writes
/// both. The inode follows.
#[test]
fn ext2_fsync_takes_pointers_along() {
    let mut rig = Rig::with_memory("ext2", "", 1.0);
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 15 * 4096));
    let (us, sent) = rig.act(Action::Fsync(SLOT));
    assert_eq!(bytes(&sent), [16_384, 16_384, 16_384, 16_384, 4096]);
    assert_eq!(us, 50_000);
    // A sync mount writes the data and the inode with each write.
    let mut rig = Rig::new("ext2", "sync");
    rig.create();
    let (_, sent) = rig.act(Action::Write(SLOT, At::Position, 4096));
    assert_eq!(count(&sent, RequestKind::Write), 2);
}

/// Small files lie next to each other, and share the blocks of their metadata.
#[test]
fn ext2_writes_many_files_together() {
    let mut rig = Rig::with_memory("ext2", "", 1.0);
    for file in 0..10 {
        rig.act(Action::Create(FileId(file), SLOT, Access::ReadWrite));
        rig.act(Action::Write(SLOT, At::Position, 4096));
        rig.act(Action::Close(SLOT));
    }
    assert_eq!(count(&rig.sent, RequestKind::Write), 0);
    let (_, sent) = rig.act(Action::SyncAll);
    let data = sent.iter().filter(|one| one.2 > 4096);
    assert_eq!(
        data.map(|one| one.2).collect::<Vec<_>>(),
        [16_384, 16_384, 8192]
    );
    assert_eq!(sent.len(), 3 + EXT2_METADATA);
}

/// A writer waits only beyond the share of memory that may be changed: half of 1 MiB, or what
/// `throttle_percent` says; and 64 KiB under way.
#[test]
fn ext2_throttles_who_changes_too_much() {
    let mut times = [0; 2];
    for (percent, us) in [50.0, 90.0].into_iter().zip(&mut times) {
        for (blocks, waits) in [(120, false), (1024, true)] {
            let number = |key: &str| match key {
                "cache_mib" => 1.0,
                "throttle_percent" => percent,
                key => number(key),
            };
            let mut rig = Rig::with("ext2", "", &number);
            rig.create();
            let (took_us, sent) = rig.act(Action::Write(SLOT, At::Position, blocks * 4096));
            assert_eq!(took_us > 4 * u64::from(blocks) + 10_000, waits, "{took_us}");
            assert_eq!(count(&sent, RequestKind::Write) > 0, waits);
            *us = took_us;
        }
    }
    // 0.4 MiB, 26 clusters, more may wait, and up to 16 that are written together.
    let saved = times[0] - times[1];
    assert!((260_000..=420_000).contains(&saved), "{saved}");
}

/// Windows of read-ahead double: 4 blocks, 8, then 16 each, in requests of up to a cluster.
#[test]
fn growing_read_ahead_doubles() {
    let mut rig = Rig::with_memory("ext2", "", 1.0);
    rig.host.machine.read_ahead = ReadAhead::Growing(65_536);
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 1 << 20));
    rig.act(Action::SyncAll);
    rig.host.empty_cache();
    let pointers = rig.host.file_system.pointers(FILE)[0].place_bytes;
    let mut ahead = Vec::new();
    let mut read = 0;
    for block in 0..40 {
        let (_, mut sent) = rig.act(Action::Read(SLOT, At::Offset(block * 4096), 4096));
        sent.retain(|one| one.1 != pointers);
        assert!(sent.iter().all(|one| one.2 <= 16_384), "{sent:?}");
        read += bytes(&sent).iter().sum::<u64>() / 4096;
        ahead.push(read);
    }
    assert_eq!([ahead[0], ahead[3], ahead[4], ahead[11]], [12, 12, 28, 28]);
    assert_eq!(
        [ahead[12], ahead[27], ahead[28], ahead[39]],
        [44, 44, 60, 60]
    );
    // A read elsewhere takes its block only.
    let (_, sent) = rig.act(Action::Read(SLOT, At::Offset(200 * 4096), 4096));
    assert_eq!(bytes(&sent), [4096]);
}

/// A file that was prepared took no time and lies on the device, one record after the other.
#[test]
fn files_that_are_there_before_are_read_from_the_device() {
    let mut rig = Rig::new("zfs", "");
    for action in [
        Action::Create(FILE, SLOT, Access::ReadWrite),
        Action::Write(SLOT, At::Position, 1 << 20),
        Action::Close(SLOT),
    ] {
        prepare(&mut rig.host, 0, action, "file").unwrap();
    }
    lay_out(&mut rig.host);
    rig.host.end_actors();
    assert_eq!(rig.host.next_request(), None);
    rig.act(Action::Open(FILE, SLOT, Access::ReadWrite));
    let (us, sent) = rig.act(Action::Read(SLOT, At::Offset(512 << 10), 1 << 10));
    assert!(us > 10_000 && count(&sent, RequestKind::Write) == 0);
    let first = rig.act(Action::Read(SLOT, At::Offset(0), 1 << 10)).1;
    let distance = sent[0].1 - first[0].1;
    assert_eq!(distance, 512 << 10);
}

/// Fsync of ext4: data, the journal, a flush, the block that ends the commit, and a flush. The
/// metadata goes to its place later.
#[test]
fn a_commit_follows_the_data_and_ends_with_a_flush() {
    use RequestKind::{Flush, Write};
    let kinds = |sent: &[(RequestKind, u64, u64)]| {
        let of = sent.iter().map(|one| (one.0, one.2 / 4096));
        of.collect::<Vec<_>>()
    };
    let mut rig = Rig::new("ext4", "");
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 8192));
    assert_eq!(rig.sent, []);
    let (us, sent) = rig.act(Action::Fsync(SLOT));
    assert_eq!(
        kinds(&sent),
        [(Write, 2), (Write, 6), (Flush, 0), (Write, 1), (Flush, 0)]
    );
    assert_eq!(us, 50_000);
    // Nothing changed: only a flush.
    assert_eq!(kinds(&rig.act(Action::Fsync(SLOT)).1), [(Flush, 0)]);
    // In place: the date of the inode.
    rig.act(Action::Write(SLOT, At::Offset(0), 4096));
    let (_, sent) = rig.act(Action::Fsync(SLOT));
    assert_eq!(
        kinds(&sent),
        [(Write, 1), (Write, 2), (Flush, 0), (Write, 1), (Flush, 0)]
    );
    let (_, sent) = rig.act(Action::SyncAll);
    let bytes: u64 = sent.iter().map(|one| one.2).sum();
    assert_eq!((bytes, count(&sent, Flush)), (5 * 4096, 1));
    assert_eq!(rig.act(Action::SyncAll).1.len(), 1);
}

/// Changes are committed after five seconds, without the data, which is older then.
#[test]
fn the_journal_is_committed_by_time() {
    let mut rig = Rig::new("ext4", "");
    rig.create();
    rig.act(Action::Write(SLOT, At::Position, 4096));
    while rig.now_ns < 4_900_000_000 {
        rig.act(Action::Think(50_000_000));
    }
    assert_eq!(rig.sent, []);
    while rig.now_ns < 6_000_000_000 {
        rig.act(Action::Think(50_000_000));
    }
    let bytes: Vec<u64> = rig.sent.iter().map(|one| one.2 / 4096).collect();
    assert_eq!(bytes, [5, 0, 1, 0]);
}
