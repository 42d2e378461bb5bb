//! `wipe` and `rename`: superblocks are removed, or get another name.

use crate::world::{World, spindles, spindles_in};
use std::fs;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// A folder with devices of this many MiB, and their paths.
fn devices(names: &[&str], mib: u64) -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &&str| {
        let path = folder.path().join(name);
        let file = fs::File::create(&path).expect("a new file");
        file.set_len(mib * MIB).expect("sparse");
        path.display().to_string()
    };
    let paths = names.iter().map(path).collect();
    (folder, paths)
}

fn contents(devices: &[String]) -> Vec<Vec<u8>> {
    let read = |device: &String| fs::read(device).expect("a file");
    devices.iter().map(read).collect()
}

fn with<'a>(command: &[&'a str], devices: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let devices = devices.iter().map(String::as_str);
    let words = command.iter().copied().chain(devices);
    words.chain(more.iter().copied()).collect()
}

/// Wiping one member after another ends an array, and says so; devices of inner arrays count too.
#[test]
fn a_second_wipe_reports_the_loss_of_the_array() {
    let (folder, _) = devices(&["a", "b", "c", "d"], 8);
    let here = folder.path().display().to_string();
    let run = |line: &str| spindles_in(&here, &[], &line.split(' ').collect::<Vec<_>>());
    run("create pool raid5(a,b,c)").ok();
    let rest = "is a plain device now; all else on it stays";
    run("wipe a --force")
        .ok()
        .prints(rest)
        .prints("not safe from further losses");
    let message = "member 1; the array can't be read then unless member 0 can be found";
    run("wipe b").prints(message);
    run("wipe b --force").ok().prints("can't be read now");
    run("wipe c --force").ok();
    run("create nest raid5(a,b,raid0(c,d))").ok();
    let message =
        "loses member 0: the array can't be read then, and array 'nest' around it loses a member";
    run("wipe c").prints(message);
    run("wipe a").prints("not safe from further losses");
    run("examine a b c d").ok().prints_no("not among");
}

#[test]
fn wipe_needs_force_and_erases_only_superblocks() {
    let (folder, devices) = devices(&["a", "b", "c", "shared", "fast"], 8);
    let [a, b, c, shared, fast] = <[String; 5]>::try_from(devices.clone()).expect("five");
    let expression = format!("raid5({a},{b},{c})");
    spindles(&["create", "pool", &expression, "--journal", &fast]).ok();
    spindles(&["spare", "add", &shared, "--shared"]).ok();
    let data = folder.path().join("data").display().to_string();
    fs::write(&data, vec![7; 1 << 20]).expect("room");
    spindles(&["copy", &data, &format!("array:{a},{b},{c},{fast}")]).ok();
    let before = contents(&devices);

    let loss = "loses member 0; the array is degraded then: it is not safe from further losses";
    spindles(&["wipe", &a])
        .fails(1, ["nothing was changed", "--force"])
        .prints(["a member of the Spindles array 'pool'", loss]);
    spindles(&["wipe", &a, &b]).prints("can't be read then");
    spindles(&["wipe", &a, &b, &c]).prints("is gone then");
    // Nothing is wiped if one device has no superblock, is given twice, or is in use.
    for (arguments, status, why) in [
        (&["wipe", &a, &data, "--force"], 1, "no Spindles superblock"),
        (&["wipe", &a, &a, "--force"], 2, "given twice"),
    ] {
        spindles(arguments).fails(status, [why]);
    }
    let reader = fs::File::open(&b).expect("a file");
    reader.lock_shared().expect("it is unlocked");
    spindles(&["wipe", &a, &b, "--force"]).fails(1, "in use");
    drop(reader);
    assert!(contents(&devices) == before, "something was written");

    let message = "lost member 0; the array is degraded now: it is not safe from further losses";
    spindles(&["wipe", &a, &shared, &fast, "--force"])
        .ok()
        .prints([message, "lost the device of its journal\n"]);
    let mut expected = before;
    // For devices that an array counts on, the metadata at the beginning goes with the superblocks.
    expected[0][..64 << 10].fill(0);
    // Devices that no array counts on become like new files.
    expected[3].fill(0);
    expected[4].fill(0);
    assert!(contents(&devices) == expected, "other bytes changed");
    spindles(&["wipe", &a]).fails(1, "no Spindles superblock");
    let back = format!("{data}.back");
    spindles(&["copy", &format!("array:{b},{c}"), &back, "--bytes", "1M"]).ok();
    assert_eq!(fs::read(&back).ok(), fs::read(&data).ok());
}

/// Wiping a replaced device takes nothing from the array, and neither does wiping one that it does
/// without.
#[test]
fn wiping_a_former_member_takes_nothing_from_its_array() {
    let folder = World::outside("a b c d old new", 8 * MIB);
    let here = folder.full("");
    let run = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        spindles_in(&here, &[], &arguments)
    };
    run("create pool raid6(a,b,c,old)").ok();
    let loss =
        "loses member 3; the array is degraded then: it survives the loss of one member more";
    run("wipe old").prints(loss);
    folder.rename("old", "away");
    folder.put("data", vec![7; 1 << 20]);
    run("copy data array:a,b,c").ok();
    folder.rename("away", "old");
    let without = "goes on without it as member 3 already, and loses nothing";
    for command in [
        "status a b c",
        "rebuild a b c --onto new",
        "wipe old --force",
    ] {
        run("wipe old").prints(without);
        run(command).ok().prints_no("loses");
    }
    assert_eq!(run("status pool").status, 0);
}

/// Each refusal names the right command, and that command works.
#[test]
fn advised_commands_work_as_typed() {
    let folder = World::outside("a b c j", 8 * MIB);
    let here = folder.full("");
    let run = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        spindles_in(&here, &[], &arguments)
    };
    let advises = |arguments: &str, advised: &str| {
        let output = run(arguments);
        let all = output.out.clone() + &output.error;
        assert!(output.status == 1 && all.contains(advised), "{all}");
    };
    run("create pool raid5(a,b,c) --journal j").ok();
    advises("wipe j", "`spindles journal remove --array pool` takes it");
    // A copy of the journal device belongs to no array.
    folder.copy("j", "k");
    advises("scrub pool", "`spindles wipe k`");
    advises("wipe k", "one is a copy of the other");
    run("wipe k --force").ok();
    run("scrub pool").ok();
    run("journal remove --array a,b,c").ok();
    advises("wipe j", "has no journal there any more, and loses nothing");
    run("wipe j --force").ok();
    run("fail b pool").ok();
    for command in [
        "rebuild pool",
        "rebuild pool --onto b",
        "spare add b --array pool",
        "journal add b --array pool",
    ] {
        advises(command, "`spindles add b pool` takes");
    }
    run("add b pool").ok();
    run("fail c pool").ok();
    run("wipe c --force").ok();
    run("add c pool").ok();
    assert_eq!(run("status pool").status, 0);
}

#[test]
fn rename_also_renames_inner_arrays() {
    let (folder, devices) = devices(&["a", "b", "c", "d", "e", "f"], 8);
    let names = devices.join(",");
    let (one, two) = (devices[..3].join(","), devices[3..].join(","));
    let expression = format!("raid0(raid5({one}),raid5({two}))");
    spindles(&["create", "pool", &expression]).ok();
    let data = folder.path().join("data").display().to_string();
    fs::write(&data, vec![9; 1 << 20]).expect("room");
    spindles(&["copy", &data, &format!("array:{names}")]).ok();

    spindles(&with(&["rename"], &devices, &["bad/name"])).fails(2, "'bad/name' can't be");
    // Refused: without the forgotten device, the rename would put it out. Without a new name, the
    // last device is taken for the name.
    spindles(&with(&["rename"], &devices[1..], &["archive"])).fails(
        1,
        [
            "array 'pool.0' counts on member 0",
            "give all of its devices",
        ],
    );
    let forgotten = with(&["rename"], &devices, &[]);
    assert_eq!(spindles(&forgotten).status, 2);

    spindles(&with(&["rename"], &devices, &["archive"])).ok();
    let status = spindles(&with(&["status"], &devices, &["--json"]))
        .ok()
        .json();
    assert_eq!(status["name"], "archive");
    assert_eq!(status["state"], "healthy");
    for (index, name) in ["archive.0", "archive.1"].iter().enumerate() {
        assert_eq!(status["members"][index]["array"]["name"], *name);
    }
    let back = format!("{data}.back");
    spindles(&[
        "copy",
        &format!("array:{names}"),
        &back,
        "--bytes",
        "1M",
        "--verify",
    ])
    .ok();
    assert_eq!(fs::read(&back).ok(), fs::read(&data).ok());

    // A member known to be lost does not prevent renaming, and returns under the new name.
    let there = devices[1..].join(",");
    spindles(&["copy", &data, &format!("array:{there}")]).ok();
    spindles(&with(&["rename"], &devices[1..], &["attic"])).ok();
    spindles(&with(&["resync"], &devices, &[])).ok();
    spindles(&with(&["rebuild"], &devices, &[]));
    let examined = spindles(&with(&["examine"], &devices, &[])).ok();
    assert_eq!(
        examined.out.matches("of array 'attic.0'").count(),
        3,
        "{}",
        examined.out
    );
    assert!(
        examined.out.contains("The superblocks agree."),
        "{}",
        examined.out
    );
}

/// Adding a spare or a journal device warns of problems of the array, and of the given devices.
#[test]
fn spare_and_journal_commands_warn_of_a_degraded_array() {
    let (_folder, devices) = devices(&["a", "b", "c", "old", "spare", "fast"], 8);
    let [a, b, c, old, spare, fast] = <[String; 6]>::try_from(devices).expect("six");
    spindles(&["create", "pool", &format!("raid5({a},{b},{old})")]).ok();
    let whole = format!("{b},{old},{a}");
    let whole = spindles(&["spare", "add", &spare, "--array", &whole]).ok();
    assert_eq!(whole.error, "");
    spindles(&["rebuild", &a, &b, "--onto", &c]).ok();
    // The replaced device is given instead of the new member.
    let given = format!("{a},{b},{old}");
    for arguments in [
        &["spare", "add", &spare, "--array", &given][..],
        &["journal", "add", &fast, "--array", &given],
        &["journal", "remove", "--array", &given],
    ] {
        spindles(arguments).ok().warns([
            "left out: ",
            &old,
            "array 'pool' is degraded",
            "member 2",
        ]);
    }
}
