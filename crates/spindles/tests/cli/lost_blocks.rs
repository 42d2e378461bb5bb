//! Lost blocks, as listed on the members: every command that examines the array counts them, and
//! names the remedy.

use crate::world::{MIB, Systemd, World};
use spindles_block::BlockIndex;
use spindles_format::{
    AreaKind, BAD_BLOCKS_PAGE_BYTES, BAD_BLOCKS_PAGE_ENTRIES, BadBlockKind, BadBlocks,
    decode_bad_blocks, encode_bad_blocks,
};

/// Lists runs of blocks as lost, as a crash does: first block and length of each.
fn lose(folder: &World, devices: &str, runs: &[(u64, u32)]) {
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
fn five() -> World {
    let folder = World::outside("a b c", 16 * MIB);
    folder.ok("create lossy raid5(@a,@b,@c)");
    folder.put("data", vec![0x5a; 12 << 20]);
    folder.ok("copy @data array:@a,@b,@c");
    lose(&folder, "a b c", &[(2048, 1), (16, 3)]);
    folder
}

#[test]
fn status_reports_lost_bytes_and_the_remedy() {
    let folder = five();
    let words = [
        "array 'lossy' is degraded: 16 KiB of it lost",
        "restore these places from a backup (`spindles examine lossy` lists them)",
    ];
    let status = folder
        .ends(&format!("status {FIVE}"), 3)
        .prints("  degraded, clean, ")
        .prints("  16 KiB lost");
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
    folder.ok("copy @data array:@a,@b,@c --force");
    let json = folder.ok(&format!("status {FIVE} --json")).json();
    assert_eq!(
        (&json["state"], &json["lost_bytes"]),
        (&"healthy".into(), &0.into())
    );
}

/// While another command has the array open, only the lists on its devices are readable.
#[test]
fn status_of_an_array_in_use_counts_lost_blocks() {
    let folder = five();
    let held = std::fs::File::open(folder.full("a")).expect("it is there");
    held.lock().expect("it is unlocked");
    let status = folder.ends(&format!("status {FIVE} --json"), 3);
    assert_eq!(status.json()["lost_bytes"], 16 << 10);
}

/// A server reports the state to systemd: degraded until the lost blocks are written, which is no
/// event of the array. Its log reports the lost blocks once.
#[test]
fn a_server_is_degraded_until_lost_blocks_are_written() {
    let folder = five();
    let systemd = Systemd::new(&folder);
    let words = ["serve", "lossy", "--nbd", "unix:socket"];
    let mut server = folder.command_in(folder.folder(), &words);
    systemd.hears(&mut server);
    let server = folder.served_by(server);
    let status = || {
        let sent = systemd.heard();
        let status = sent.split_once("STATUS=").expect("a status").1;
        status.split(',').next().expect("a state").to_owned()
    };
    // The list is read after clients can connect.
    assert_eq!(status(), "healthy");
    assert_eq!(status(), "degraded");
    let uri = folder.uri_at("lossy", "socket");
    folder.ok(&format!("copy @data {uri} --force"));
    assert_eq!(status(), "healthy");
    folder.ok("stop lossy");
    let log = server.end(None).ends(0).error;
    let lost = "array 'lossy': 4 blocks are lost: reads there fail until";
    assert_eq!(log.matches(lost).count(), 1, "{log}");
    assert_eq!(log.matches(" lost").count(), 1, "{log}");
}

#[test]
fn a_scrub_reports_lost_blocks_at_its_end() {
    let folder = five();
    for more in [" --check", "", " --restart"] {
        folder
            .run(&format!("scrub {FIVE}{more}"))
            .fails(
                1,
                ["16 KiB of it lost", "restore these places from a backup"],
            )
            .prints([
                "array 'lossy': 12288 bytes at 65536 are lost\n",
                "array 'lossy': 4096 bytes at 8388608 are lost\n",
                "array 'lossy': 16 KiB lost",
            ])
            .prints_no("nothing is wrong");
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
    folder.ok("copy @data array:@a,@b,@c --force");
    folder
        .ok(&format!("scrub {FIVE}"))
        .prints("nothing is wrong");
}

/// A scrub rewrites what an outer array still knows; no backup is needed.
#[test]
fn a_scrub_restores_lost_blocks_from_the_outer_array() {
    let folder = World::outside("a b c d e f data", 16 * MIB);
    folder.ok("create lossy raid1(raid5(@a,@b,@c),raid5(@d,@e,@f))");
    folder.write("data", 0, &vec![0x5a; 16 << 20]);
    let all = "@a,@b,@c,@d,@e,@f";
    folder.ok(&format!("copy @data array:{all}"));
    lose(&folder, "a b c", &[(2048, 4)]);
    let devices = all.replace(',', " ");
    folder.ends(&format!("status {devices}"), 3).warns(
        "16 KiB of it lost, which can't be read until it is written: `spindles scrub \
                lossy` restores",
    );
    folder.ok(&format!("scrub {devices}"));
    folder.ok(&format!("status {devices}"));
}

/// Listed once for the array, in bytes of it, however many members list it.
#[test]
fn examine_lists_lost_blocks_once() {
    let folder = five();
    let run = folder.ok(&format!("examine {FIVE}"));
    let words = "array 'lossy': 16 KiB lost; reads there fail until the data is \
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
    let run = folder.ok(&format!("examine {FIVE}"));
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
    let why = "can't read at byte 65536: these blocks are lost; restore them from a backup";
    folder
        .run("copy array:@a,@b,@c @out")
        .fails(1, [why, "`spindles examine lossy` lists them"]);
    // The old contents of the target are checked first.
    folder.refuses("copy @data array:@a,@b,@c", 1, &[why]);
    folder
        .run("copy array:@a,@b,@c @out --rescue")
        .fails(1, "12 KiB at 64 KiB can't be read");
}
