//! `spindles copy`, run as a user types it: good and bad input.

use crate::loop_devices;

use loop_devices::Loop;
use serde_json::Value;
use spindles_admin::create::{CreateOptions, create};
use spindles_block::BlockSize;
use spindles_device::OpenOptions;
use spindles_layout::Expression;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Exit status, standard output, standard error.
fn copy(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .arg("copy")
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn pattern(length: usize) -> Vec<u8> {
    let word = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (1..).flat_map(word).take(length).collect()
}

/// A folder with `data.bin` and a raid5 array on a.img, b.img and c.img.
fn folder(data_bytes: usize) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("data.bin"), pattern(data_bytes)).expect("data.bin");
    let devices = ["a.img", "b.img", "c.img"].map(|name| {
        let file = std::fs::File::create(path(name)).expect(name);
        file.set_len(4 << 20).expect(name);
        path(name).to_str().expect("UTF-8").to_owned()
    });
    let options = CreateOptions {
        name: "box".to_owned(),
        block_size: BlockSize::B4096,
        chunk_bytes: None,
        consistency: None,
        checksum: Some(spindles_format::ChecksumKind::None),
        spares: Vec::new(),
        journal: None,
        degraded_writes: false,
        force: false,
        open: OpenOptions::default(),
    };
    let expression = Expression::parse(&format!("raid5({})", devices.join(","))).expect("raid5");
    create(&expression, &options, &mut |_, _| true).expect("an array");
    folder
}

#[test]
fn data_is_copied_in_and_out() {
    let folder = folder(3_000_001);
    let (status, out, err) = copy(
        folder.path(),
        &["data.bin", "array:c.img,a.img,b.img", "--verify"],
    );
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(out.starts_with("2.8 MiB copied and verified in "), "{out}");

    let arguments = [
        "array:b.img,a.img",
        "back.bin",
        "--bytes",
        "3000001",
        "--json",
    ];
    let (status, out, err) = copy(folder.path(), &arguments);
    assert_eq!(status, Some(0), "{err}");
    assert!(
        err.contains("array 'box' is degraded: member 2 of 3 missing"),
        "{err}"
    );
    let record: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(record["bytes"], 3_000_001);
    assert_eq!(record["verified"], false);
    let back = std::fs::read(folder.path().join("back.bin")).expect("back.bin");
    assert!(back == pattern(3_000_001));
}

#[test]
fn devices_with_contents_are_not_overwritten() {
    let folder = folder(10_000);
    let path = |name: &str| folder.path().join(name);
    let refused = |arguments: &[&str], message: &str| {
        let before = std::fs::read(path("a.img")).expect("a.img");
        let (status, out, err) = copy(folder.path(), arguments);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(message), "{err}");
        assert!(std::fs::read(path("a.img")).expect("a.img") == before);
    };
    refused(
        &["data.bin", "a.img"],
        "a.img holds a member of the Spindles array 'box'; use --force to overwrite it, or take \
         another",
    );
    let mut image = vec![0; 1 << 20];
    image[1080] = 0x53;
    image[1081] = 0xef;
    std::fs::write(path("ext.img"), &image).expect("ext.img");
    refused(
        &["data.bin", "ext.img"],
        "ext.img holds an ext2 file system; use --force to overwrite it",
    );
    // Unknown contents may still be valuable data.
    let text = b"addresses of the people we know";
    std::fs::write(path("notes.txt"), text.repeat(1000)).expect("notes.txt");
    refused(
        &["data.bin", "notes.txt"],
        "notes.txt holds data of no known kind, from byte 0 on; use --force to overwrite it",
    );
    assert!(std::fs::read(path("notes.txt")).expect("notes.txt") == text.repeat(1000));
    let (status, _, err) = copy(folder.path(), &["data.bin", "ext.img", "--force"]);
    assert_eq!(status, Some(0), "{err}");
    let after = std::fs::read(path("ext.img")).expect("ext.img");
    assert!(after[..10_000] == pattern(10_000) && after.len() == 1 << 20);

    // A file system inside an array.
    std::fs::write(path("ext.img"), &image).expect("ext.img");
    let array = "array:a.img,b.img,c.img";
    let (status, _, err) = copy(folder.path(), &["ext.img", array]);
    assert_eq!(status, Some(0), "{err}");
    refused(
        &["data.bin", array],
        "holds an ext2 file system; use --force",
    );
    // The check opened the array, and closed it cleanly.
    let status = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["status", "a.img", "b.img", "c.img"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    assert!(String::from_utf8_lossy(&status.stdout).contains("healthy, clean"));
    let (status, _, err) = copy(folder.path(), &["data.bin", array, "--force", "--verify"]);
    assert_eq!(status, Some(0), "{err}");

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
        let (status, _, err) = copy(folder.path(), &[from, "a.img", "--force"]);
        assert_eq!(status, Some(0), "{err}");
        assert!(err.contains(expected), "{err}");
        assert_eq!(err.contains("lost member 0"), from == "ext.img", "{err}");
    }
}

#[test]
fn errors_name_the_bad_input_and_the_remedy() {
    let folder = folder(10_000);
    std::fs::write(folder.path().join("small.bin"), vec![1; 9_000]).expect("small.bin");
    std::fs::create_dir(folder.path().join("dir")).expect("dir");
    for (arguments, status, message) in [
        (&["data.bin"][..], 2, "<TO>"),
        (
            &["data.bin", "array:a.img,,b.img"],
            2,
            "lacks the name of a device here: write DEV,DEV,..",
        ),
        (
            &["array:", "x.bin"],
            2,
            "lacks the name of a device here: write DEV,DEV,..",
        ),
        (
            &["data.bin", "x.bin", "--bytes", "lots"],
            2,
            "invalid value 'lots'",
        ),
        (
            &["nothing.bin", "x.bin"],
            1,
            "can't open nothing.bin: No such file",
        ),
        (&["dir", "x.bin"], 2, "dir is a folder: give a file"),
        (&["data.bin", "dir"], 2, "dir is a folder: give a file"),
        (&["data.bin", "none/x.bin"], 1, "none/x.bin: No such file"),
        (
            &["data.bin", "small.bin"],
            1,
            "small.bin has room for 9000 bytes, and 10000 bytes are to be copied: remove the file \
             first",
        ),
        (
            &["data.bin", "x.bin", "--bytes", "20000"],
            1,
            "data.bin holds 10000 bytes, less than the 20000 bytes to be copied: ask for less",
        ),
        (
            &["data.bin", "./data.bin"],
            2,
            "./data.bin is on both sides",
        ),
        (
            &["array:a.img,b.img,c.img", "b.img", "--force"],
            2,
            "b.img is on both sides",
        ),
        (&["array:a.img,data.bin", "x.bin"], 1, "data.bin"),
        (
            &["array:a.img", "x.bin"],
            1,
            "array 'box' can't be opened: members 1 and 2 of 3 missing",
        ),
    ] {
        let (ended, out, err) = copy(folder.path(), arguments);
        assert_eq!(
            (ended, out.as_str()),
            (Some(status), ""),
            "{arguments:?}: {err}"
        );
        assert!(err.contains(message), "{arguments:?}: {err}");
        assert!(!folder.path().join("x.bin").exists(), "{arguments:?}");
    }
    let data = std::fs::read(folder.path().join("data.bin")).expect("data.bin");
    assert!(data == pattern(10_000));
}

#[test]
fn an_interrupt_ends_a_copy_cleanly() {
    let child = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["copy", "null:1T", "null:1T"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command runs");
    std::thread::sleep(std::time::Duration::from_millis(500));
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-INT", &id]).status();
    assert!(killed.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    let err = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("interrupted after "), "{err}");
}

/// The kernel would kill the command when a file exceeds the size limit.
#[test]
fn a_file_above_the_size_limit_is_not_created() {
    let folder = folder(3_000_001);
    let out = folder.path().join("out.bin");
    for limited in ["ulimit -f 100", "trap '' XFSZ; ulimit -f 100"] {
        for is_there in [false, true] {
            if is_there {
                std::fs::File::create(&out).expect("out.bin");
            }
            let output = Command::new("sh")
                .args([
                    "-c",
                    &format!("{limited}; exec \"$0\" copy data.bin out.bin"),
                ])
                .arg(env!("CARGO_BIN_EXE_spindles"))
                .current_dir(folder.path())
                .output()
                .expect("a shell is everywhere");
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{err}");
            assert!(
                err.contains("at most: raise that limit (ulimit -f)"),
                "{err}"
            );
            assert_eq!(out.exists(), is_there);
        }
        std::fs::remove_file(&out).expect("out.bin");
    }
}

/// Sizes that are no multiple of a block are copied whole, or refused before anything is written.
#[test]
fn a_partial_last_block_is_copied_too() {
    const NAME: &str = "a_partial_last_block_is_copied_too";
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    for length in [(1 << 20) + 7 * 512, 7 * 512] {
        let contents = pattern(length);
        std::fs::write(path("from"), &contents).expect("room");
        std::fs::write(path("to"), vec![0; length]).expect("room");
        let devices = ["from", "to"].map(|name| Loop::with(&path(name), &[]));
        let [Ok(from), Ok(to)] = devices else {
            return println!("SKIPPED: {NAME}: no loop devices here");
        };
        for (line, copied) in [
            ([from.0.as_str(), "image"], "image"),
            (["image", to.0.as_str()], "to"),
        ] {
            let (status, _, err) = copy(
                folder.path(),
                &[&line[..], &["--verify", "--force"]].concat(),
            );
            assert_eq!(status, Some(0), "{err}");
            let there = std::fs::read(path(copied)).expect("it is there");
            assert!(there == contents, "{line:?}: {} of {length}", there.len());
        }
        std::fs::remove_file(path("image")).expect("it is there");
    }
    // A target that is less than one block too small.
    std::fs::write(path("small"), vec![0; (1 << 20) + 6 * 512]).expect("room");
    let small = Loop::with(&path("small"), &[]).expect("there were some");
    std::fs::write(path("image"), pattern((1 << 20) + 7 * 512)).expect("room");
    let (status, _, err) = copy(folder.path(), &["image", &small.0]);
    assert_eq!(status, Some(1), "{err}");
    assert!(err.contains("has room for"), "{err}");
    let untouched = std::fs::read(path("small")).expect("it is there");
    assert!(untouched.iter().all(|byte| *byte == 0));
}
