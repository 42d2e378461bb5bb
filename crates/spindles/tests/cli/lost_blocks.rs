//! Lost blocks, as listed on the members: every command that examines the array counts them, and
//! names the remedy.

use crate::cli::arrays::{Folder, MIB};
use spindles_block::BlockIndex;
use spindles_format::{
    AreaKind, BAD_BLOCKS_PAGE_BYTES, BAD_BLOCKS_PAGE_ENTRIES, BadBlockKind, BadBlocks,
    decode_bad_blocks, encode_bad_blocks,
};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Lists runs of blocks as lost, as a crash does: first block and length of each.
fn lose(folder: &Folder, devices: &str, runs: &[(u64, u32)]) {
    for device in devices.split(' ') {
        let bytes = folder.read(device);
        let (array, record) = folder.newest(device);
        let area = record.area(AreaKind::BAD_BLOCKS).expect("a list");
        for (page, runs) in (0..).zip(runs.chunks(BAD_BLOCKS_PAGE_ENTRIES)) {
            let at = area.offset_bytes + u64::from(page) * BAD_BLOCKS_PAGE_BYTES as u64;
            let old = usize::try_from(at).expect("small");
            let old = bytes[old..].first_chunk().expect("a page");
            let (sequence, _) = decode_bad_blocks(array.uuid, page, old).expect("a list");
            let lost = |&(start, blocks): &(u64, u32)| BadBlocks {
                kind: BadBlockKind::Lost,
                start: BlockIndex(start),
                blocks,
            };
            let entries: Vec<BadBlocks> = runs.iter().map(lost).collect();
            let mut new = [0; BAD_BLOCKS_PAGE_BYTES];
            encode_bad_blocks(array.uuid, page, sequence + 1, &entries, &mut new);
            folder.write(device, at, &new);
        }
    }
}

const FIVE: &str = "@a @b @c";

/// An array that lost 12 KiB at 64 KiB and 4 KiB at 8 MiB in crashes.
fn five() -> Folder {
    let folder = Folder::new("a b c", 16 * MIB);
    folder.run("create p raid5(@a,@b,@c)").ok();
    std::fs::write(folder.path("data"), vec![0x5a; 12 << 20]).expect("room");
    folder.run("copy @data array:@a,@b,@c").ok();
    lose(&folder, "a b c", &[(2048, 1), (16, 3)]);
    folder
}

#[test]
fn status_reports_lost_bytes_and_the_remedy() {
    let folder = five();
    let status = folder.run(&format!("status {FIVE}"));
    let words = [
        "array 'p' is degraded: 16 KiB of it lost",
        "restore these places from a backup (`spindles examine p` lists them)",
    ];
    assert_eq!(status.status, 3, "{}{}", status.out, status.error);
    assert!(status.out.contains("  degraded, clean, "), "{}", status.out);
    assert!(status.out.contains("  16 KiB lost"), "{}", status.out);
    for words in words {
        assert!(status.error.contains(words), "{}", status.error);
    }
    let json = folder.run(&format!("status {FIVE} --json")).json();
    assert_eq!(json["state"], "degraded");
    assert_eq!(json["lost_bytes"], 16 << 10);
    assert_eq!(json["bad_blocks"]["lost"], 4);
    // Too many members are missing to open it, but the others still list the lost blocks.
    let json = folder.run("status @a --json").json();
    assert_eq!(
        (&json["state"], &json["lost_bytes"]),
        (&"failed".into(), &(16 << 10).into())
    );
    // Rewritten blocks are no longer lost.
    folder.run("copy @data array:@a,@b,@c --force").ok();
    let json = folder.run(&format!("status {FIVE} --json")).ok().json();
    assert_eq!(
        (&json["state"], &json["lost_bytes"]),
        (&"healthy".into(), &0.into())
    );
}

/// While another command has the array open, only the lists on its devices are readable.
#[test]
fn status_of_an_array_in_use_counts_lost_blocks() {
    let folder = five();
    let held = std::fs::File::open(folder.path("a")).expect("it is there");
    held.lock().expect("it is unlocked");
    let status = folder.run(&format!("status {FIVE} --json"));
    assert_eq!(status.status, 3, "{}{}", status.out, status.error);
    assert_eq!(status.json()["lost_bytes"], 16 << 10);
}

/// A server that does not outlive its test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A server reports the state to systemd: degraded until the lost blocks are written, which is no
/// event of the array. Its log reports the lost blocks once.
#[test]
fn a_server_is_degraded_until_lost_blocks_are_written() {
    let folder = five();
    let notify = folder.path("notify");
    let listener = UnixDatagram::bind(&notify).expect("a socket");
    let limit = Some(Duration::from_secs(30));
    listener.set_read_timeout(limit).expect("a limit");
    let socket = folder.path("socket");
    let mut server = crate::program_in(Path::new(&folder.path("")));
    let server = server
        .args(["serve", "p", "--nbd", &format!("unix:{socket}")])
        .env("NOTIFY_SOCKET", &notify)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut server = Server(server.spawn().expect("it runs"));
    let status = || {
        let mut bytes = [0; 1024];
        let count = listener.recv(&mut bytes).expect("a notification");
        let sent = String::from_utf8_lossy(&bytes[..count]).into_owned();
        let status = sent.split_once("STATUS=").expect("a status").1;
        status.split(',').next().expect("a state").to_owned()
    };
    // The list is read after clients can connect.
    assert_eq!(status(), "healthy");
    assert_eq!(status(), "degraded");
    folder
        .run(&format!("copy @data nbd+unix:///p?socket={socket} --force"))
        .ok();
    assert_eq!(status(), "healthy");
    folder.run("stop p").ok();
    assert!(server.0.wait().expect("it ends").success());
    let log = server.0.stderr.take().expect("it is piped");
    let log = std::io::read_to_string(log).expect("text");
    let lost = "array 'p': 4 blocks are lost: reads there fail until";
    assert_eq!(log.matches(lost).count(), 1, "{log}");
    assert_eq!(log.matches(" lost").count(), 1, "{log}");
}

#[test]
fn a_scrub_reports_lost_blocks_at_its_end() {
    let folder = five();
    for more in [" --check", "", " --restart"] {
        let run = folder.run(&format!("scrub {FIVE}{more}"));
        run.fails(
            1,
            &["16 KiB of it lost", "restore these places from a backup"],
        );
        for words in [
            "array 'p': 12288 bytes at 65536 are lost\n",
            "array 'p': 4096 bytes at 8388608 are lost\n",
            "array 'p': 16 KiB lost",
        ] {
            assert!(run.out.contains(words), "{more}: {}", run.out);
        }
        assert!(!run.out.contains("nothing is wrong"), "{}", run.out);
        let run = folder.run(&format!("scrub {FIVE}{more} --json"));
        let json = run.json();
        assert_eq!(
            (run.status, &json["lost_bytes"]),
            (1, &(16 << 10).into()),
            "{json}"
        );
        assert_eq!(
            (&json["places"][0]["what"], &json["places"][1]["bytes"]),
            (&"lost".into(), &4096.into()),
            "{json}"
        );
    }
    folder.run("copy @data array:@a,@b,@c --force").ok();
    let run = folder.run(&format!("scrub {FIVE}")).ok();
    assert!(run.out.contains("nothing is wrong"), "{}", run.out);
}

/// A scrub rewrites what an outer array still knows; no backup is needed.
#[test]
fn a_scrub_restores_lost_blocks_from_the_outer_array() {
    let folder = Folder::new("a b c d e f data", 16 * MIB);
    folder
        .run("create p raid1(raid5(@a,@b,@c),raid5(@d,@e,@f))")
        .ok();
    folder.write("data", 0, &vec![0x5a; 16 << 20]);
    let all = "@a,@b,@c,@d,@e,@f";
    folder.run(&format!("copy @data array:{all}")).ok();
    lose(&folder, "a b c", &[(2048, 4)]);
    let devices = all.replace(',', " ");
    let status = folder.run(&format!("status {devices}"));
    assert_eq!(status.status, 3, "{}{}", status.out, status.error);
    assert!(
        status.error.contains(
            "16 KiB of it lost, which can't be read until it is written: `spindles scrub \
                p` restores"
        ),
        "{}",
        status.error
    );
    folder.run(&format!("scrub {devices}")).ok();
    folder.run(&format!("status {devices}")).ok();
}

/// Listed once for the array, in bytes of it, however many members list it.
#[test]
fn examine_lists_lost_blocks_once() {
    let folder = five();
    let run = folder.run(&format!("examine {FIVE}")).ok();
    let words = "array 'p': 16 KiB lost; reads there fail until the data is \
                 rewritten from a backup:\n  12288 bytes at 65536\n  4096 bytes at 8388608\n";
    assert_eq!(run.out.matches(words).count(), 1, "{}", run.out);
    assert_eq!(run.out.matches("lost").count(), 1, "{}", run.out);
    let json = folder.run(&format!("examine {FIVE} --json")).json();
    assert_eq!(json["bad_blocks"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["bad_blocks"][1]["offset_bytes"], 8 << 20);
    assert_eq!(json["devices"][2]["bad_blocks"][0]["blocks"], 1);

    let runs: Vec<(u64, u32)> = (0..60).map(|run| (100 + 20 * run, 2)).collect();
    lose(&folder, "a b c", &runs);
    // The list of an outdated member does not count.
    let run = folder.run(&format!("examine {FIVE}")).ok();
    assert_eq!(
        run.out.matches("  8192 bytes at ").count(),
        50,
        "{}",
        run.out
    );
    assert!(
        run.out.contains("  and 10 more places: --json names all\n"),
        "{}",
        run.out
    );
    let json = folder.run(&format!("examine {FIVE} --json")).json();
    assert_eq!(json["bad_blocks"].as_array().map(Vec::len), Some(60));
}

#[test]
fn a_copy_reports_lost_blocks() {
    let folder = five();
    let run = folder.run("copy array:@a,@b,@c @out");
    let why = "can't read at byte 65536: these blocks are lost; restore them from a backup";
    run.fails(1, &[why, "`spindles examine p` lists them"]);
    // The old contents of the target are checked first.
    folder.refuses("copy @data array:@a,@b,@c", 1, &[why]);
    let run = folder.run("copy array:@a,@b,@c @out --rescue");
    run.fails(1, &["12 KiB at 64 KiB can't be read"]);
}
