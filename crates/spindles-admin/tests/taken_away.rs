//! Devices removed while an array on them is written. The copy goes on and the member is put out.
//! A member that comes back gets only the regions that it missed.
//!
//! A loop device in use can't be detached: the kernel waits for its last user. Instead, the device
//! loses its sectors like an unplugged disk, is write-protected, or fills up the file system below
//! it.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
#![expect(unsafe_code, reason = "an `ioctl` resizes a loop device")]

use crate::common;

use common::{Loop, Tmpfs, mount, pattern, skip};
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble, examine};
use spindles_admin::attach::ChangeError;
use spindles_admin::create::{CreateError, CreateOptions, create};
use spindles_admin::scrub::{ScrubError, scrub};
use spindles_admin::spare::{self, For};
use spindles_array::open_device;
use spindles_block::{MemberError, MemberIndex};
use spindles_copy::{CopyEnd, CopyError, Progress, compare, copy};
use spindles_device::{IoChoice, OpenError, OpenOptions};
use spindles_engine::{Event, Member, OutReason, Repair, Scrub};
use spindles_format::{ChecksumKind, MemberState};
use spindles_layout::Expression;
use std::fs::File;
use std::ops::{ControlFlow, Range};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// So large that the regions which a writer may mark ahead are not the whole member.
const MEMBER_BYTES: u64 = 64 << 20;
/// The size of the array's contents, and of the part that is overwritten: much more than is in
/// flight at once.
const BYTES: usize = 24 << 20;
const REWRITTEN: usize = 18 << 20;
/// A member is removed after this many bytes.
const MOMENT: u64 = 2 << 20;

/// The fault of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The device loses all sectors, and the kernel detaches it once it is closed. Writes fail with
    /// `ENOSPC`, and reads return no data.
    Gone,
    /// Reads work, and writes fail with `EPERM`.
    WriteProtected,
    /// It is a sparse file on a file system without free space. Writes are cut short and then fail
    /// with `ENOSPC`.
    Full,
}

fn blockdev(what: &str, device: &str) {
    let status = Command::new("blockdev").args([what, device]).status();
    assert!(status.unwrap().success());
}

/// Limits a loop device to one byte, so that it has no sectors. Writes that the kernel still takes
/// go to their places. If instead the start was moved behind the end of the file, the kernel would
/// confirm such writes without carrying them out.
fn shrink_to_nothing(device: &str) {
    const LOOP_SET_STATUS64: libc::Ioctl = 0x4C04;
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
    let file = File::open(device).unwrap();
    // `struct loop_info64`, whose fifth word is the limit of the size.
    let mut info = [0_u64; 29];
    // SAFETY: the memory is as long as the structure that the kernel writes.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    info[4] = 1;
    // SAFETY: as above, for the structure that the kernel reads.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_SET_STATUS64, info.as_ptr()) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A member that can be removed.
struct Disk {
    file: PathBuf,
    device: Option<Loop>,
    /// The file system of its file, if that may become full.
    tmpfs: Option<Tmpfs>,
}

impl Disk {
    fn new(folder: &Path, number: usize, full: bool) -> Result<Self, String> {
        let at = folder.join(format!("fs{number}"));
        let tmpfs = full.then(|| Tmpfs::new(&at)).transpose()?;
        let file = if full { at.as_path() } else { folder };
        let file = file.join(format!("disk{number}"));
        File::create(&file).unwrap().set_len(MEMBER_BYTES).unwrap();
        let device = (!full).then(|| Loop::new(&file, 4096)).transpose()?;
        Ok(Self {
            file,
            device,
            tmpfs,
        })
    }

    fn name(&self) -> String {
        match &self.device {
            Some(device) => device.0.clone(),
            None => self.file.to_str().unwrap().to_owned(),
        }
    }

    fn take_away(&mut self, fault: Fault) {
        match fault {
            Fault::Gone => {
                let device = self.device.take().unwrap();
                shrink_to_nothing(&device.0);
                device.detach_later();
            }
            Fault::WriteProtected => blockdev("--setro", &self.name()),
            Fault::Full => {
                let at = &self.tmpfs.as_ref().unwrap().0;
                // Fails if more has been written meanwhile.
                let fill = || {
                    let room = self.file.metadata().unwrap().blocks() * 512;
                    mount(at, &format!("remount,size={room}"))
                };
                assert!((0..100).any(|_| fill().is_ok()));
            }
        }
    }

    fn give_back(&mut self, fault: Fault) {
        match fault {
            Fault::Gone => {
                let length = self.file.metadata().unwrap().len();
                assert_eq!(length, MEMBER_BYTES, "something was written behind it");
                self.device = Some(Loop::new(&self.file, 4096).unwrap());
            }
            Fault::WriteProtected => blockdev("--setrw", &self.name()),
            Fault::Full => mount(&self.tmpfs.as_ref().unwrap().0, "remount,size=64m").unwrap(),
        }
    }
}

impl Drop for Disk {
    /// Removes the write protection: it would outlive the detaching and hit the next file attached.
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            blockdev("--setrw", &device.0);
        }
    }
}

/// The disks of an array, a file with the data to write and one with the previous contents.
struct Bench {
    folder: tempfile::TempDir,
    disks: Vec<Disk>,
    old: Vec<u8>,
    new: Vec<u8>,
    io: IoChoice,
}

impl Bench {
    /// Creates an array that holds the old file. With a file system that fills up, it holds zeros.
    fn new(
        level: &str,
        members: usize,
        checksum: ChecksumKind,
        (fault, victim): (Fault, usize),
        io: IoChoice,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let disk = |number| {
            let full = fault == Fault::Full && number == victim;
            Disk::new(folder.path(), number, full)
        };
        let disks: Vec<Disk> = (0..members).map(disk).collect::<Result<_, _>>()?;
        let old = match fault {
            Fault::Full => vec![0; BYTES],
            Fault::Gone | Fault::WriteProtected => pattern(1, BYTES),
        };
        let new = pattern(2, REWRITTEN);
        std::fs::write(folder.path().join("old"), &old).unwrap();
        std::fs::write(folder.path().join("new"), &new).unwrap();
        let bench = Self {
            folder,
            disks,
            old,
            new,
            io,
        };
        let options = CreateOptions {
            chunk_bytes: Some(64 << 10),
            checksum: Some(checksum),
            open: bench.options(false).open,
            ..CreateOptions::new("bench")
        };
        let expression = format!("{level}({})", bench.names(&[]).join(","));
        create(
            &Expression::parse(&expression).unwrap(),
            &options,
            &mut |_, _| true,
        )
        .unwrap();
        if fault != Fault::Full {
            let (mut from, mut to) = (bench.open_file("old"), bench.open(&[]));
            copy(&mut from, &mut to, size(BYTES), &mut go_on).unwrap();
            to.close().unwrap();
        }
        Ok(bench)
    }

    fn options(&self, read_only: bool) -> AssembleOptions {
        AssembleOptions {
            open: OpenOptions {
                io: self.io,
                read_only,
                ..OpenOptions::default()
            },
            ..AssembleOptions::default()
        }
    }

    /// The devices without these.
    fn names(&self, without: &[usize]) -> Vec<String> {
        let disks = self.disks.iter().enumerate();
        disks
            .filter(|(number, _)| !without.contains(number))
            .map(|(_, disk)| disk.name())
            .collect()
    }

    fn open(&self, without: &[usize]) -> CopyEnd {
        let names = self.names(without);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        CopyEnd::new(assemble(&names, &self.options(false)).unwrap().target)
    }

    fn open_file(&self, name: &str) -> CopyEnd {
        let path = self.folder.path().join(name);
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        CopyEnd::open(path.to_str().unwrap(), &options).unwrap()
    }

    /// The expected contents of the array.
    fn expected(&self) -> Vec<u8> {
        [self.new.as_slice(), &self.old[REWRITTEN..]].concat()
    }

    /// Returns the places at which the array returns errors. Durable writes must be there; the last
    /// write may be old or new.
    fn judge(&self, array: &mut CopyEnd) -> Vec<usize> {
        let mut block = vec![0; 4096];
        let mut lost = Vec::new();
        for at in (0..BYTES).step_by(4096) {
            let here = at..at + 4096;
            let is_new = |block: &[u8]| self.new.get(here.clone()) == Some(block);
            let may_be_old = size(at) >= MOMENT;
            match array.read_at(size(at), &mut block) {
                Ok(()) if is_new(&block) => {}
                Ok(()) => {
                    let is_old = self.old[here.clone()] == block;
                    assert!(
                        may_be_old && is_old,
                        "wrong bytes at {at}: {}",
                        self.what_it_holds(here, &block)
                    );
                }
                Err(_) => lost.push(at),
            }
        }
        lost
    }

    /// Describes a wrong block: the place it belongs to, or how many of its bytes are zero, old and
    /// new.
    fn what_it_holds(&self, here: Range<usize>, block: &[u8]) -> String {
        let place = |bytes: &[u8]| bytes.chunks(4096).position(|own| own == block);
        if let Some(at) = place(&self.new) {
            return format!("new bytes of {}", at * 4096);
        }
        if let Some(at) = place(&self.old) {
            return format!("old bytes of {}", at * 4096);
        }
        let alike = |other: Option<&[u8]>| {
            let both = block.iter().zip(other.unwrap_or_default());
            both.filter(|(ours, theirs)| ours == theirs).count()
        };
        format!(
            "{} bytes are zero, {} old, {} new",
            alike(Some(&[0; 4096])),
            alike(self.old.get(here.clone())),
            alike(self.new.get(here)),
        )
    }

    fn check_contents(&self, without: &[usize]) {
        let names = self.names(without);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let assembled = assemble(&names, &self.options(true)).unwrap();
        assert_eq!(assembled.report.is_degraded(), !without.is_empty());
        let mut array = CopyEnd::new(assembled.target);
        let mut bytes = vec![0; BYTES];
        array.read_at(0, &mut bytes).unwrap();
        assert!(bytes == self.expected(), "without {without:?}");
        array.close().unwrap();
    }
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap()
}

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Removes one member in the middle of a copy, and gives it back.
fn one(
    level: &str,
    members: usize,
    checksum: ChecksumKind,
    fault: Fault,
    io: IoChoice,
) -> Result<(), String> {
    let victim = 1;
    let what = format!("{level}, {fault:?}, {io:?}");
    let mut bench = Bench::new(level, members, checksum, (fault, victim), io)?;
    let (mut from, mut to) = (bench.open_file("new"), bench.open(&[]));
    let mut taken = false;
    let on_progress = &mut |progress: Progress| {
        if !taken && progress.bytes >= MOMENT {
            assert!(progress.bytes < size(REWRITTEN), "{what}: in the middle");
            bench.disks[victim].take_away(fault);
            taken = true;
        }
        ControlFlow::Continue(())
    };
    copy(&mut from, &mut to, size(REWRITTEN), on_progress).unwrap();
    assert!(taken);
    // Read back from the remaining members.
    compare(&mut from, &mut to, size(REWRITTEN), &mut go_on).unwrap();
    let target = to.target_mut().unwrap();
    let status = target.status().unwrap();
    let state = status.members[victim].state;
    assert!(matches!(state, Member::Missing { .. }), "{what}: {state:?}");
    let member = MemberIndex(u8::try_from(victim).unwrap());
    let mut why = None;
    while let Some((_, event)) = target.next_event() {
        if let Event::MemberOut {
            member: out,
            reason,
        } = event
        {
            assert_eq!((out, why), (member, None), "{what}");
            why = Some(reason);
        }
    }
    // A removed device has no space either, but is not reported as full.
    let (expected, words) = match fault {
        Fault::Full => (MemberError::NoSpace, "no space is left"),
        Fault::Gone | Fault::WriteProtected => (MemberError::Gone, "it does not answer"),
    };
    assert_eq!(why, Some(OutReason::Error(expected)), "{what}");
    let incidents: Vec<_> = target.incidents().iter().map(ToString::to_string).collect();
    let out = format!("member {victim}: out of the array, {words}");
    assert!(
        matches!(&incidents[..], [incident] if incident.contains(&out)),
        "{what}: {incidents:?}"
    );
    to.close().unwrap();

    // The superblocks of the other members record it as missing, and these members hold all data.
    for name in bench.names(&[victim]) {
        let examined = examine(&name).unwrap();
        let (array, _) = examined.found.record().unwrap();
        let state = array.members()[victim].state;
        assert!(
            matches!(state, MemberState::Missing { .. }),
            "{what}: {state:?}"
        );
    }
    bench.check_contents(&[victim]);

    // Back in the array, the member gets the overwritten data that it missed.
    bench.disks[victim].give_back(fault);
    let names = bench.names(&[]);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let assembled = assemble(&names, &bench.options(false)).unwrap();
    let refused = assembled.report.refused.join("; ");
    assert!(
        refused.contains("knows what it missed"),
        "{what}: {refused}"
    );
    let mut target = assembled.target;
    let mut done = false;
    while !done {
        target.work();
        while let Some((_, event)) = target.next_event() {
            done |= event == Event::RebuildDone { member };
            assert!(
                !matches!(event, Event::MemberOut { .. }),
                "{what}: {event:?}"
            );
        }
    }
    let written = target.counters().devices[victim].bytes_written;
    target.close().unwrap();
    let per_member = size(BYTES)
        / if level == "raid1" {
            1
        } else {
            size(members) - 1
        };
    // It also missed the regions in doubt when it went. A sequential writer prepares or marks ahead
    // as much again as it wrote. Unwritten regions are not copied.
    let most = (2 * per_member).min(MEMBER_BYTES * 3 / 4);
    assert!(
        (1 << 20..most).contains(&written),
        "{what}: {written} bytes were written to it, of {per_member}"
    );
    println!("{what}: out by {why:?}, {written} bytes of {per_member} to bring it up to date");
    let scrubbed = scrub(
        &names,
        &bench.options(false),
        Scrub::default(),
        &mut |event| panic!("{what}: {event:?}"),
        &mut |_, _| true,
    );
    let scrubbed = scrubbed.unwrap();
    assert!(scrubbed.through && scrubbed.progress.failed == 0, "{what}");
    // The returned member is complete, so the array reads correctly without member 0.
    bench.check_contents(&[]);
    bench.check_contents(&[0]);

    // Reads in flight when it goes are answered by the others.
    if fault == Fault::Gone {
        std::fs::write(bench.folder.path().join("all"), bench.expected()).unwrap();
        let (mut from, mut array) = (bench.open_file("all"), bench.open(&[]));
        let on_progress = &mut |_: Progress| {
            if bench.disks[victim].device.is_some() {
                bench.disks[victim].take_away(fault);
            }
            ControlFlow::Continue(())
        };
        compare(&mut from, &mut array, size(BYTES), on_progress).unwrap();
        let counters = array.target().unwrap().counters();
        // With a mirror, the other copy may serve all reads.
        let met = counters.devices[victim].errors > 0;
        assert!(met || level == "raid1", "{what}");
        array.close().unwrap();
    }
    Ok(())
}

/// Removes one member more than the level survives. The array's previous contents are there or
/// return errors, both now and once the last member is back.
fn too_many(level: &str, members: usize, fault: Fault, io: IoChoice) -> Result<(), String> {
    let what = format!("{level}, {fault:?}, {io:?}");
    let none = ChecksumKind::None;
    let mut bench = Bench::new(level, members, none, (fault, members), io)?;
    let (mut from, mut to) = (bench.open_file("new"), bench.open(&[]));
    copy(&mut from, &mut to, MOMENT, &mut go_on).unwrap();
    let mut taken = 0;
    let on_progress = &mut |progress: Progress| {
        if taken < 2 && progress.bytes >= (taken + 1) << 20 {
            bench.disks[usize::try_from(taken).unwrap()].take_away(fault);
            taken += 1;
        }
        ControlFlow::Continue(())
    };
    let error = copy(&mut from, &mut to, size(REWRITTEN), on_progress).unwrap_err();
    assert!(matches!(error, CopyError::Write { .. }), "{what}: {error}");
    assert_eq!(taken, 2);
    bench.judge(&mut to);
    to.close().unwrap_err();
    // The first member removed missed some writes, the second none. With both members back, all
    // data is present, except for blocks that were being written.
    for disk in &mut bench.disks[..2] {
        disk.give_back(fault);
    }
    let mut array = bench.open(&[]);
    let lost = bench.judge(&mut array);
    assert!(lost.iter().all(|&at| at < REWRITTEN), "{what}: {lost:?}");
    assert!(lost.is_empty() || level != "raid1", "{what}: {lost:?}");
    assert_eq!(
        bench.judge(&mut array),
        lost,
        "{what}: read again it is different"
    );
    array.close().unwrap();
    println!("{what}: {} blocks lost with two gone", lost.len());
    Ok(())
}

fn all(name: &str, io: IoChoice) {
    for (level, members, checksum) in [
        ("raid1", 2, ChecksumKind::Crc32c),
        ("raid5", 3, ChecksumKind::None),
        ("raid5", 4, ChecksumKind::Crc32c),
    ] {
        for fault in [Fault::Gone, Fault::WriteProtected, Fault::Full] {
            if let Err(reason) = one(level, members, checksum, fault, io) {
                return skip(name, &reason);
            }
        }
    }
    for (level, members) in [("raid1", 2), ("raid5", 3)] {
        for fault in [Fault::Gone, Fault::WriteProtected] {
            if let Err(reason) = too_many(level, members, fault, io) {
                return skip(name, &reason);
            }
        }
    }
}

#[test]
fn a_copy_survives_removed_members_with_rings() {
    all(
        "a_copy_survives_removed_members_with_rings",
        IoChoice::Uring,
    );
}

#[test]
fn a_copy_survives_removed_members_with_threads() {
    all(
        "a_copy_survives_removed_members_with_threads",
        IoChoice::Threads,
    );
}

/// An unwritable device is refused by name when it is opened for writing, before any byte is
/// written to the other devices. It can be opened for reading.
fn write_protected() -> Result<(), String> {
    let none = ChecksumKind::None;
    let fault = Fault::WriteProtected;
    let mut bench = Bench::new("raid5", 5, none, (fault, 5), IoChoice::Threads)?;
    let contents = |bench: &Bench| -> Vec<Vec<u8>> {
        let files = bench.disks.iter().map(|disk| std::fs::read(&disk.file));
        files.collect::<Result<_, _>>().unwrap()
    };
    let before = contents(&bench);
    for victim in 0..5 {
        bench.disks[victim].take_away(fault);
        let names = bench.names(&[]);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_refused = |error: &OpenError| {
            assert!(error.to_string().contains("write-protected"), "{error}");
            matches!(error, OpenError::WriteProtected { device } if device == names[victim])
        };
        let opened = open_device(names[victim], &bench.options(false).open);
        assert!(opened.is_err_and(|error| is_refused(&error)));
        let assembled = assemble(&names, &bench.options(false));
        let assembled = assembled.map(drop).unwrap_err();
        assert!(matches!(assembled, AssembleError::Open(error) if is_refused(&error)));
        // In each role in a new array: as a member, as its spare and as its journal device.
        let expression = format!("raid5({})", names[..3].join(","));
        let expression = Expression::parse(&expression).unwrap();
        let options = CreateOptions {
            spares: vec![names[3].to_owned()],
            journal: Some(names[4].to_owned()),
            force: true,
            open: bench.options(false).open,
            ..CreateOptions::new("other")
        };
        let created = create(&expression, &options, &mut |_, _| true).unwrap_err();
        assert!(
            matches!(&created, CreateError::Open(error) if is_refused(error)),
            "device {victim}: {created}"
        );
        let other = names[(victim + 1) % names.len()];
        let added = spare::add(&[other, names[victim]], For::All, true).map(drop);
        let added = added.unwrap_err();
        assert!(matches!(added, ChangeError::Open(error) if is_refused(&error)));
        assert!(contents(&bench) == before, "device {victim}");
        // Inspection needs only read access.
        open_device(names[victim], &bench.options(true).open).unwrap();
        let check = Scrub {
            repair: Repair::Nothing,
            ..Scrub::default()
        };
        let checked = scrub(
            &names,
            &bench.options(true),
            check,
            &mut |event| panic!("{event:?}"),
            &mut |_, _| true,
        );
        assert!(checked.unwrap().through);
        assert!(contents(&bench) == before, "device {victim}");
        bench.disks[victim].give_back(fault);
    }
    Ok(())
}

#[test]
fn a_write_protected_device_is_refused_before_any_write() {
    let name = "a_write_protected_device_is_refused_before_any_write";
    if let Err(reason) = write_protected() {
        skip(name, &reason);
    }
}

/// A scrub of an array that loses more than it survives ends, and reports that.
fn lost_in_a_scrub(
    level: &'static str,
    members: usize,
    repair: Repair,
    io: IoChoice,
) -> Result<(), String> {
    let fault = Fault::Gone;
    let sums = ChecksumKind::Crc32c;
    let mut bench = Bench::new(level, members, sums, (fault, members), io)?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let names = bench.names(&[]);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let options = bench.options(repair == Repair::Nothing);
        let wanted = Scrub {
            repair,
            ..Scrub::default()
        };
        let mut taken = 0;
        let scrubbed = scrub(&names, &options, wanted, &mut |_| {}, &mut |done, _| {
            if taken < 2 && done > taken << 20 {
                bench.disks[usize::try_from(taken).unwrap()].take_away(fault);
                taken += 1;
            }
            true
        });
        // With its devices, which are detached before the test ends.
        sender.send((taken, scrubbed, bench)).unwrap();
    });
    let (taken, scrubbed, _bench) = receiver
        .recv_timeout(Duration::from_mins(1))
        .expect("it comes to an end");
    assert_eq!(taken, 2, "{level}");
    match (repair, scrubbed) {
        // No member is put out, so no device is closed. Unreadable blocks are reported.
        (Repair::Nothing, Ok(scrubbed)) => {
            let progress = scrubbed.progress;
            assert!(progress.failed + progress.found.left_blocks > 0);
        }
        (_, scrubbed) => {
            let error = scrubbed.expect_err("it is lost");
            assert!(matches!(error, ScrubError::Close(_)), "{error}");
            let says = error.to_string().contains("more members are lost");
            assert!(says, "{error}");
        }
    }
    Ok(())
}

#[test]
fn a_scrub_ends_if_its_devices_are_lost() {
    for (level, members) in [("raid1", 2), ("raid5", 3)] {
        for io in [IoChoice::Uring, IoChoice::Threads] {
            for repair in [Repair::Located, Repair::Nothing] {
                if let Err(reason) = lost_in_a_scrub(level, members, repair, io) {
                    return skip("a_scrub_ends_if_its_devices_are_lost", &reason);
                }
            }
        }
    }
}
