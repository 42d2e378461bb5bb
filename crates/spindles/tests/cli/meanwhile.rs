//! Another command that changes a device between the moment it is examined and the first write.

use crate::cli::binary::{Run, spindles_in};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

fn run(folder: &Path, line: &str) -> Run {
    let words: Vec<&str> = line.split(' ').collect();
    spindles_in(folder.to_str().expect("UTF-8"), &[], &words)
}

/// Creates empty files.
fn files(folder: &Path, names: &str) {
    for name in names.split(' ') {
        let file = File::create(folder.join(name)).expect("a file");
        file.set_len(40 << 20).expect("a sparse file");
    }
}

/// A command that waits for one device refuses another that was empty when it was examined, and has
/// become a member meanwhile.
#[test]
fn a_device_that_became_a_member_meanwhile_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    files(at, "a b c m n o p q");
    run(at, "create base raid1(m,n)").ok();
    run(at, "create wide raid5(o,p,q)").ok();
    // Each command, and the device that it waits for.
    let commands = [
        ("create one raid1(a,b)", "a"),
        ("replace m base --onto b", "n"),
        ("grow wide --add b", "p"),
    ];
    for (command, busy) in commands {
        files(at, "b c");
        let reader = File::open(at.join(busy)).expect("it is there");
        reader.lock_shared().expect("it is unlocked");
        let mut waits = Command::new(env!("CARGO_BIN_EXE_spindles"))
            .args(command.split(' '))
            .current_dir(at)
            .env("SPINDLES_SCAN", ".")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        let mut error = BufReader::new(waits.stderr.take().expect("it is piped"));
        let mut said = String::new();
        while !said.contains("waiting up to") {
            let read = error.read_line(&mut said).expect("a line");
            assert!(read > 0, "{command}: {said}");
        }
        run(at, "create two raid0(b,c)").ok();
        drop(reader);
        error.read_to_string(&mut said).expect("text");
        let status = waits.wait().expect("it ends");
        assert_eq!(status.code(), Some(1), "{command}: {said}");
        assert!(said.contains("b was changed by another command"), "{said}");
        let status = run(at, "status two --json").ok().json();
        assert_eq!(status["state"], "healthy", "{command}");
    }
}

/// A member is refused as a spare, a journal or a replacement of its own array while another
/// command rewrites the superblocks.
#[test]
fn a_member_whose_superblocks_change_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    files(at, "a b c");
    run(at, "create pool raid5(a,b,c)").ok();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                run(at, "set pool --degraded-writes ask");
            }
        });
        let commands = [
            "spare add c --array pool --force",
            "journal add c --array pool --force",
            "replace a pool --onto c --force",
        ];
        let runs: Vec<Run> = (0..100)
            .flat_map(|_| commands.map(|command| run(at, command)))
            .collect();
        ends.store(true, Ordering::Relaxed);
        for refused in runs {
            assert_eq!(refused.status, 1, "{refused:?}");
        }
    });
    let status = run(at, "status pool --json").ok().json();
    assert_eq!(status["state"], "healthy", "{status}");
}
