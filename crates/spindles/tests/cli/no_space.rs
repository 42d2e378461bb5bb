//! Members that are sparse files on a file system without space: the wait and its cause are
//! printed, and nothing is lost.

#![allow(clippy::print_stdout, reason = "what is skipped")]

use crate::world::{MIB, Run, Running, spindles_in};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A small file system, unmounted when dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    /// Mounts a file system in memory. Prints the reason and returns `None` if mounts are denied.
    fn new(bytes: u64) -> Option<Self> {
        let size = format!("size={bytes}");
        Self::mount("no_space", &["-t", "tmpfs", "-o", &size, "spindles"])
    }

    /// A file system that can't reserve space: ext2 has no `fallocate`.
    fn without_fallocate(bytes: u64) -> Option<Self> {
        let image = tempfile::NamedTempFile::new().expect("a file");
        image.as_file().set_len(bytes).expect("a sparse file");
        let path = image.path().to_str().expect("a path in UTF-8");
        let made = Command::new("mkfs.ext2")
            .args(["-q", "-F", "-m", "0", path])
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            println!(
                "SKIPPED: opening_without_space_discards_no_durable_data: there is no mkfs.ext2"
            );
            return None;
        }
        // The loop device keeps the image alive.
        Self::mount(
            "opening_without_space_discards_no_durable_data",
            &["-o", "loop", path],
        )
    }

    fn mount(name: &str, how: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount").args(how).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        println!("SKIPPED: {name}: only root mounts a file system");
        None
    }

    fn at(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &str) -> Run {
        let folder = self.at().to_str().expect("a path in UTF-8");
        let arguments: Vec<&str> = arguments.split(' ').collect();
        spindles_in(folder, &[], &arguments)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The kernel closes the files of an io_uring some time after its process has ended.
        let end = Instant::now() + Duration::from_mins(1);
        let unmounts = || Command::new("umount").arg(self.at()).status();
        while !unmounts().is_ok_and(|status| status.success()) {
            // A failed test may leave a process there: a second panic would end all tests, without
            // the reason.
            if std::thread::panicking() {
                return;
            }
            assert!(
                Instant::now() < end,
                "{} stays mounted",
                self.at().display()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The array's name. Commands find a served array by its name on the whole machine.
fn served_name() -> String {
    format!("safe-{}", std::process::id())
}

/// Two mirrored members of 32 MiB, 15 MiB of other data, and a MiB less space than 8 MiB on both
/// members take.
fn full() -> Option<(Mounted, tempfile::TempDir)> {
    let mounted = Mounted::new(30 * MIB)?;
    for member in ["a", "b"] {
        let file = File::create(mounted.at().join(member)).expect("a file");
        file.set_len(32 * MIB).expect("a sparse file");
    }
    let name = served_name();
    mounted.run(&format!("create {name} raid1(a,b)")).ok();
    fs::write(mounted.at().join("else"), vec![7; 15 << 20]).expect("room");
    let elsewhere = tempfile::tempdir().expect("a folder");
    fs::write(elsewhere.path().join("small"), vec![1; 1 << 20]).expect("room");
    fs::write(elsewhere.path().join("data"), vec![2; 8 << 20]).expect("room");
    Some((mounted, elsewhere))
}

#[test]
fn a_full_file_system_is_reported_not_a_failed_disk() {
    let Some((mounted, elsewhere)) = full() else {
        return;
    };
    let path = |name| elsewhere.path().join(name).display().to_string();
    let run = mounted.run(&format!("copy {} array:a,b", path("small")));
    run.ok();
    mounted
        .run(&format!("copy {} array:a,b", path("data")))
        .warns("no space is left")
        .warns_no("does not answer");
    // All members stay, and with space again the array continues.
    let status = mounted.run("status a b --json").ok().json();
    assert_eq!(status["state"], "healthy");
    fs::remove_file(mounted.at().join("else")).expect("it is there");
    let run = mounted.run(&format!("copy {} array:a,b --verify", path("data")));
    run.ok();
    for member in ["a", "b"] {
        let run = mounted.run(&format!("copy array:{member} {} --bytes 8M", path("out")));
        run.ok();
        let out = fs::read(path("out")).expect("it was written");
        fs::remove_file(path("out")).expect("it is there");
        assert!(out.iter().all(|byte| *byte == 2), "{member}");
    }
}

/// Members on one full file system lack space together, and no level survives the loss of all: no
/// member goes out, acknowledged writes are readable, and with space the array continues.
#[test]
fn members_out_of_space_together_stay() {
    std::thread::scope(|scope| {
        for (level, count) in [("raid5", 3), ("raid1", 2), ("raid6", 5), ("raid10", 4)] {
            scope.spawn(move || stays_readable(level, count));
        }
    });
}

fn stays_readable(level: &str, count: usize) {
    let Some(mounted) = Mounted::new(30 * MIB) else {
        return;
    };
    let members: Vec<String> = (0..count).map(|member| format!("d{member}")).collect();
    for member in &members {
        let file = File::create(mounted.at().join(member)).expect("a file");
        file.set_len(40 << 20).expect("a sparse file");
    }
    let members = members.join(",");
    mounted.run(&format!("create home {level}({members})")).ok();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = |name| elsewhere.path().join(name).display().to_string();
    let small = vec![3; 2 << 20];
    fs::write(path("small"), &small).expect("room");
    fs::write(path("data"), [small.clone(), vec![4; 22 << 20]].concat()).expect("room");
    mounted
        .run(&format!("copy {} array:home", path("small")))
        .ok();
    fs::write(mounted.at().join("else"), vec![7; 8 << 20]).expect("room");
    mounted
        .run(&format!("copy {} array:home", path("data")))
        .ends(1)
        .warns("no space is left");
    let status = mounted.run("status home --json").json();
    assert_eq!(status["state"], "healthy", "{level}: {status}");
    let back = format!("copy array:home {} --bytes 2M", path("back"));
    mounted.run(&back).ok();
    assert!(
        fs::read(path("back")).expect("it is there") == small,
        "{level}"
    );
    fs::remove_file(mounted.at().join("else")).expect("it is there");
    let again = format!("copy {} array:home --verify", path("small"));
    mounted.run(&again).ok();
}

#[test]
fn writes_continue_if_space_is_freed_in_time() {
    let Some((mounted, elsewhere)) = full() else {
        return;
    };
    let data = elsewhere.path().join("data").display().to_string();
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(700));
            fs::remove_file(mounted.at().join("else")).expect("it is there");
        });
        mounted.run(&format!("copy {data} array:a,b"))
    });
    assert!(!run.error.contains("member"), "{}", run.error);
    run.ok();
    let status = mounted.run("status a b --json").ok().json();
    assert_eq!(status["state"], "healthy");
}

/// A command that is asked to end does not wait for its space timeout.
#[test]
fn a_command_waiting_for_space_ends_on_a_signal() {
    let Some((mounted, elsewhere)) = full() else {
        return;
    };
    let mut copy = crate::program_in(mounted.at());
    copy.arg("copy").arg(elsewhere.path().join("data"));
    copy.arg("array:a,b");
    let copy = Running::begin(copy);
    std::thread::sleep(Duration::from_secs(1));
    let asked = Instant::now();
    copy.signal("TERM");
    let run = copy.end(None).ends(1);
    let last = run.error.lines().last().unwrap_or_default();
    assert!(
        last.contains("no space is left") || last.contains("interrupted after"),
        "{run:?}"
    );
    // Without that it would wait four more seconds.
    assert!(asked.elapsed() < Duration::from_millis(3_500), "{run:?}");
}

/// Blocks left in doubt by a writer without space stay in doubt if the array is reopened while the
/// file system is still full. Once the file system has space, all durable data is readable.
#[test]
fn opening_without_space_discards_no_durable_data() {
    let (expression, command) = ("raid1(raid5(a,b,c),raid5(d,e,f))", "resync p");
    let Some(mounted) = Mounted::without_fallocate(160 * MIB) else {
        return;
    };
    fs::write(mounted.at().join("else"), vec![7; 115 << 20]).expect("room");
    for member in ["a", "b", "c", "d", "e", "f"] {
        let file = File::create(mounted.at().join(member)).expect("a file");
        file.set_len(32 * MIB).expect("a sparse file");
    }
    mounted.run(&format!("create p {expression}")).ok();
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = |name: &str| elsewhere.path().join(name).display().to_string();
    fs::write(path("durable"), vec![3; 5 << 20]).expect("room");
    fs::write(
        path("data"),
        (0..40 << 20)
            .map(|at: u32| at.to_le_bytes()[1])
            .collect::<Vec<u8>>(),
    )
    .expect("room");
    mounted
        .run(&format!("copy {} array:p", path("durable")))
        .ok();
    for command in [format!("copy {} array:p", path("data")), command.to_owned()] {
        let run = mounted.run(&command);
        if command.starts_with("resync") && run.status == 0 {
            continue; // No block in doubt was in a hole.
        }
        assert_ne!(run.status, 0, "{command}");
        // The error names the place and the remedy, and reports no missing members.
        let last = run.error.lines().last().unwrap_or_default();
        assert!(
            last.contains("no space is left where "),
            "{command}: {}",
            run.error
        );
        assert!(last.ends_with("free some, and do it again"), "{last}");
        assert!(!run.error.contains("does not answer"), "{}", run.error);
    }
    let is_readable = |out: &str, more: &str| {
        mounted
            .run(&format!("copy array:p {out} --bytes 5M{more}"))
            .ok();
        for (at, byte) in fs::read(out).expect("it was copied").iter().enumerate() {
            let written = u32::try_from(at).expect("small").to_le_bytes()[1];
            let is_durable = [3, written].contains(byte);
            assert!(is_durable, "{expression} {command}: byte {at}");
        }
    };
    // Reading needs no writes.
    is_readable(&path("before"), " --force");
    fs::remove_file(mounted.at().join("else")).expect("it is there");
    mounted.run("rebuild p");
    is_readable(&path("out"), "");
}

/// A server whose writes lack space reports it in its log and status, and reports when there is
/// space again.
#[test]
fn a_server_reports_writes_that_lack_space() {
    let Some((mounted, elsewhere)) = full() else {
        return;
    };
    let socket = elsewhere.path().join("socket");
    let mut server = crate::program_in(mounted.at());
    server.args(["serve", "a", "b", "--nbd"]);
    server.arg(format!("unix:{}", socket.display()));
    let mut server = Running::begin(server);
    server.says(" is served");
    let name = served_name();
    let uri = format!("nbd+unix:///{name}?socket={}", socket.display());
    let write = || {
        let data = elsewhere.path().join("data").display().to_string();
        let copied = Command::new("nbdcopy").args([&data, &uri]).output();
        copied.map(|output| output.status.success())
    };
    let Ok(is_written) = write() else {
        println!("SKIPPED: a_server_reports_writes_that_lack_space: nbdcopy is not installed");
        return;
    };
    assert!(!is_written);
    server.says("no space is left for writes on the file system of ");
    let status = mounted.run("status a b");
    let has_all = status.out.contains("writes found no space") && status.out.contains("healthy");
    assert!(has_all, "{}", status.out);
    let refuses = format!(
        "array '{name}' refuses writes now: no space is left for them on the file system of"
    );
    let count = status.error.matches(&refuses).count();
    assert_eq!(count, 1, "{}", status.error);
    // No write finds out that there is space again.
    fs::remove_file(mounted.at().join("else")).expect("it is there");
    let is_over = || {
        let status = mounted.run("status a b");
        let all = status.out + &status.error;
        assert!(all.contains("healthy") && !all.contains("space"), "{all}");
    };
    is_over();
    assert_eq!(write().ok(), Some(true));
    server.says("writes get space again");
    is_over();
    mounted.run("stop a b --force").ok();
    server.end(None).ends(0);
}
