//! `spindles copy`, run as a user types it: good and bad input.

use crate::loop_devices::Loop;
use crate::world::{World, pattern, until};
use std::process::Command;

/// A folder with `data.bin` and a raid5 array on a.img, b.img and c.img.
fn folder(data_bytes: usize) -> World {
    let folder = World::new("a.img b.img c.img", 4 << 20);
    folder.put("data.bin", pattern(data_bytes, 0));
    folder.does("create box raid5(a.img,b.img,c.img) --checksum none");
    folder
}

#[test]
fn data_is_copied_in_and_out() {
    let folder = folder(3_000_001);
    let run = folder.does("copy data.bin array:c.img,a.img,b.img --verify");
    assert_eq!(run.error, "");
    let begin = "2.8 MiB copied and verified in ";
    assert!(run.out.starts_with(begin), "{run:?}");

    let record = folder
        .does("copy array:b.img,a.img back.bin --bytes 3000001 --json")
        .warns("array 'box' is degraded: member 2 of 3 missing")
        .json();
    assert_eq!(record["bytes"], 3_000_001);
    assert_eq!(record["verified"], false);
    assert!(folder.read("back.bin") == pattern(3_000_001, 0));
}

#[test]
fn devices_with_contents_are_not_overwritten() {
    let folder = folder(10_000);
    let refused = |words: &str, message: &str| {
        let before = folder.read("a.img");
        let run = folder.ends(&format!("copy {words}"), 1).warns(message);
        assert!(run.out.is_empty() && folder.read("a.img") == before);
    };
    refused(
        "data.bin a.img",
        "a.img holds a member of the Spindles array 'box'; use --force to overwrite it, or take \
         another",
    );
    let mut image = vec![0; 1 << 20];
    image[1080] = 0x53;
    image[1081] = 0xef;
    folder.put("ext.img", &image);
    refused(
        "data.bin ext.img",
        "ext.img holds an ext2 file system; use --force to overwrite it",
    );
    // Unknown contents may still be valuable data.
    let text = b"addresses of the people we know";
    folder.put("notes.txt", text.repeat(1000));
    refused(
        "data.bin notes.txt",
        "notes.txt holds data of no known kind, from byte 0 on; use --force to overwrite it",
    );
    assert!(folder.read("notes.txt") == text.repeat(1000));
    folder.ends("copy data.bin ext.img --force", 0);
    let after = folder.read("ext.img");
    assert!(after[..10_000] == pattern(10_000, 0) && after.len() == 1 << 20);

    // A file system inside an array.
    folder.put("ext.img", &image);
    let array = "array:a.img,b.img,c.img";
    folder.ends(&format!("copy ext.img {array}"), 0);
    refused(
        &format!("data.bin {array}"),
        "holds an ext2 file system; use --force",
    );
    // The check opened the array, and closed it cleanly.
    folder
        .does("status a.img b.img c.img")
        .prints("healthy, clean");
    folder.ends(&format!("copy data.bin {array} --force --verify"), 0);

    // With --force it reports whose member it overwrote, at least in part.
    for (from, expected) in [
        (
            "data.bin",
            "a.img holds a member of the Spindles array 'box' still",
        ),
        (
            "ext.img",
            "a.img held a member of the Spindles array 'box'; that is overwritten; array 'box'",
        ),
    ] {
        let run = folder.ends(&format!("copy {from} a.img --force"), 0);
        let error = run.warns(expected).error;
        assert_eq!(error.contains("lost member 0"), from == "ext.img");
    }
}

#[test]
fn errors_name_the_bad_input_and_the_remedy() {
    let folder = folder(10_000);
    folder.put("small.bin", [1; 9_000]);
    std::fs::create_dir(folder.path("dir")).expect("dir");
    for (words, status, message) in [
        ("data.bin", 2, "<TO>"),
        (
            "data.bin array:a.img,,b.img",
            2,
            "lacks the name of a device here: write DEV,DEV,..",
        ),
        (
            "array: x.bin",
            2,
            "lacks the name of a device here: write DEV,DEV,..",
        ),
        ("data.bin x.bin --bytes lots", 2, "invalid value 'lots'"),
        (
            "nothing.bin x.bin",
            1,
            "can't open nothing.bin: No such file",
        ),
        ("dir x.bin", 2, "dir is a folder: give a file"),
        ("data.bin dir", 2, "dir is a folder: give a file"),
        ("data.bin none/x.bin", 1, "none/x.bin: No such file"),
        (
            "data.bin small.bin",
            1,
            "small.bin has room for 9000 bytes, and 10000 bytes are to be copied: remove the file \
             first",
        ),
        (
            "data.bin x.bin --bytes 20000",
            1,
            "data.bin holds 10000 bytes, less than the 20000 bytes to be copied: ask for less",
        ),
        ("data.bin ./data.bin", 2, "./data.bin is on both sides"),
        (
            "array:a.img,b.img,c.img b.img --force",
            2,
            "b.img is on both sides",
        ),
        ("array:a.img,data.bin x.bin", 1, "data.bin"),
        (
            "array:a.img x.bin",
            1,
            "array 'box' can't be opened: members 1 and 2 of 3 missing",
        ),
    ] {
        let run = folder.ends(&format!("copy {words}"), status);
        assert_eq!(run.warns(message).out, "");
        assert!(!folder.path("x.bin").exists(), "{words}");
    }
    assert!(folder.read("data.bin") == pattern(10_000, 0));
}

#[test]
fn an_interrupt_ends_a_copy_cleanly() {
    let copy = World::new("", 0).begin("copy null:1T null:1T");
    // It handles the signal once it has threads.
    let tasks = format!("/proc/{}/task", copy.id());
    until("the copy", || {
        std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() > 1)
    });
    copy.signal("INT");
    copy.end(None).ends(1).warns("interrupted after ");
}

/// The kernel would kill the command when a file exceeds the size limit.
#[test]
fn a_file_above_the_size_limit_is_not_created() {
    let folder = folder(3_000_001);
    let out = folder.path("out.bin");
    for limited in ["ulimit -f 100", "trap '' XFSZ; ulimit -f 100"] {
        for is_there in [false, true] {
            if is_there {
                folder.make("out.bin", 0);
            }
            let script = format!("{limited}; exec \"$0\" copy data.bin out.bin");
            let mut shell = Command::new("sh");
            shell.args(["-c", &script, env!("CARGO_BIN_EXE_spindles")]);
            folder
                .run_command(shell.current_dir(folder.folder()))
                .ends(1)
                .warns("at most: raise that limit (ulimit -f)");
            assert_eq!(out.exists(), is_there);
        }
        folder.remove("out.bin");
    }
}

/// Sizes that are no multiple of a block are copied whole, or refused before anything is written.
#[test]
fn a_partial_last_block_is_copied_too() {
    const NAME: &str = "a_partial_last_block_is_copied_too";
    let folder = World::new("", 0);
    for length in [(1 << 20) + 7 * 512, 7 * 512] {
        let contents = pattern(length, 0);
        folder.put("from", &contents);
        folder.put("to", vec![0; length]);
        let devices = ["from", "to"].map(|name| Loop::with(&folder.path(name), &[]));
        let [Ok(from), Ok(to)] = devices else {
            return println!("SKIPPED: {NAME}: no loop devices here");
        };
        for (from, to, copied) in [(&*from.0, "image", "image"), ("image", &to.0, "to")] {
            folder.does(&format!("copy {from} {to} --verify --force"));
            assert!(folder.read(copied) == contents, "{from} {to} {length}");
        }
        folder.remove("image");
    }
    // A target that is less than one block too small.
    folder.put("small", vec![0; (1 << 20) + 6 * 512]);
    let small = Loop::with(&folder.path("small"), &[]).expect("there were some");
    folder.put("image", pattern((1 << 20) + 7 * 512, 0));
    folder
        .ends(&format!("copy image {}", small.0), 1)
        .warns("has room for");
    assert!(folder.read("small").iter().all(|byte| *byte == 0));
}
