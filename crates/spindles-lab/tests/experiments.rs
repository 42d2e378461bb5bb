//! Experiment files that are wrong: each gives one message with the line and the remedy.

use spindles_lab::{Experiment, Members, Tuning};

const HEAD: &str = "name = \"x\"\nsize = \"1M\"\n";
const SYSTEM: &str = "[[system]]\ntarget = \"single\"\n";
const WORKLOAD: &str = "[[workload]]\nkind = \"dd-read\"\n";

fn check(text: &str, expected: &str) {
    match Experiment::parse("x.toml", text) {
        Ok(_) => panic!("it should be refused: {text}"),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[test]
fn messages_name_the_thing_the_line_and_the_remedy() {
    let head = |line: &str| format!("{HEAD}{line}\n{SYSTEM}{WORKLOAD}");
    let system = |lines: &str| format!("{HEAD}[[system]]\n{lines}\n{WORKLOAD}");
    let workload = |lines: &str| format!("{HEAD}{SYSTEM}[[workload]]\n{lines}\n");
    for (text, expected) in [
        (String::new(), "x.toml, line 1: `name` is missing: add it"),
        (
            "name = \"x\"\nsize\n".to_owned(),
            "x.toml, line 2: key with no value, expected `=`",
        ),
        (
            format!("{HEAD}{WORKLOAD}"),
            "x.toml, line 1: there is no system in it: add a [[system]] section",
        ),
        (
            format!("{HEAD}{SYSTEM}"),
            "x.toml, line 1: there is no workload in it: add a [[workload]] section",
        ),
        (
            "name = \"a/b\"\n".to_owned() + SYSTEM + WORKLOAD,
            "x.toml, line 1: \"a/b\" is no name: use letters, digits, '-', '_', '+', '.' and \
             spaces",
        ),
        (
            head("sise = 3"),
            "x.toml, line 3: unknown field `sise`, expected one of `name`, `summary`, `scaled`, `scale_min`, \
             `size`, `seed`, `blocks`, `max_blocks`, `caches`, `confirm`, `warmup`, `time_limit_s`, `members`, `folder`, `chunk`, \
             `consistency`, `checksum`, `journal`, `rebuild_rate`, `read_policy`, `flushes`, `baseline`, `control`, `system`, `workload`",
        ),
        (
            head("flushes = \"lost\""),
            "x.toml, line 3: there is no way with flushes \"lost\": use one of honoured, ignored",
        ),
        (
            format!("{HEAD}[[system]]\ntarget = \"/dev/sdb\"\nflushes = \"ignored\"\n{WORKLOAD}"),
            "x.toml, line 5: `flushes` is for arrays that the lab makes, and for `single` without `fs`: give \
             `LEVEL(COUNT)`, or leave it out",
        ),
        (
            head("chunk = \"64Q\""),
            "x.toml, line 3: chunk = \"64Q\": not a size: give a whole number, with K, M, G or T \
             (powers of 1024) after it, for example 64K",
        ),
        (
            head("chunk = 0"),
            "x.toml, line 3: chunk = 0: a size must be above 0: give a size such as \"64M\"",
        ),
        (
            head("chunk = true"),
            "x.toml, line 3: chunk = true: give a size such as \"64M\"",
        ),
        (
            head("blocks = 0"),
            "x.toml, line 3: blocks = 0 is not possible: give a whole number from 1 to 1000",
        ),
        (
            head("blocks = \"many\""),
            "x.toml, line 3: blocks = \"many\" is not possible: give a whole number from 1 to 1000",
        ),
        (
            head("members = \"disks\""),
            "x.toml, line 3: members = \"disks\" is not possible: use \"files\", \"mem\", \
             \"null\" or a list of devices such as [\"/dev/sdb\", \"/dev/sdc\"]",
        ),
        (
            head("members = [\"/dev/sdb\", \"/dev/sdb\"]"),
            "x.toml, line 3: /dev/sdb is twice among the members: name each device once",
        ),
        (
            head("baseline = \"raid0\""),
            "x.toml, line 3: baseline \"raid0\" is none of the systems: use one of single",
        ),
        (
            system("target = \"single\"\nbaseline = \"raid0\""),
            "x.toml, line 5: baseline \"raid0\" is none of the systems: use one of single",
        ),
        (
            system("target = \"single\"\nbaseline = \"single\""),
            "x.toml, line 5: baseline \"single\" is the system itself: name another",
        ),
        (
            system("name = \"y\""),
            "x.toml, line 3: `target` is missing: add it",
        ),
        (
            system("target = \"\""),
            "x.toml, line 4: a target is empty: write one of single or single:N, LEVEL(COUNT) or \
             LEVEL(DEV,DEV,..), array:NAME, array:DEV,DEV,.., folder:PATH, DEVICE, FILE, nbd://HOST/EXPORT, mem:SIZE or \
             null:SIZE",
        ),
        (
            system("target = \"raid6(3)\""),
            "x.toml, line 4: the array expression is wrong: raid6 needs at least 4 members, and \
             there are 3: add members or take another level\n  raid6(3)\n  ^",
        ),
        (
            format!("{HEAD}{SYSTEM}{SYSTEM}{WORKLOAD}"),
            "x.toml, line 5: there are two systems called \"single\": give one of them another \
             `name`",
        ),
        (
            workload("kind = \"bonny\""),
            "x.toml, line 6: there is no workload \"bonny\": use one of dd-read, dd-write, \
             dd-parallel, block-write, block-read, rewrite, seeks, random-read, random-write, random-mixed, \
             bonnie, \
             bonnie++, iozone, cp, touch, untar, mixed, multistreamread, multistreamwrite, varmail, oltp, \
             newfs, fio",
        ),
        (
            workload("kind = \"bonnie\"\nsize = \"1G\""),
            "x.toml, line 7: bonnie works on files, and `size` is for workloads on blocks: give \
             `parameters = { .. }` with any of size, chunk, seeks, seekers, stdio",
        ),
        (
            workload("kind = \"bonnie\"\nparameters = { seeks = 0 }"),
            "x.toml, line 7: seeks = 0 is not possible: give a whole number from 1 to 4294967296",
        ),
        (
            workload("kind = \"seeks\"\nparameters = { seeks = 9 }"),
            "x.toml, line 7: seeks works on blocks and has no parameters: give size, chunk, in_flight \
             or operations",
        ),
        (
            system("target = \"single\"\nfs = \"zfs\""),
            "x.toml, line 5: there is no file system \"zfs\": use one of ext4, ext3, ext2, xfs, btrfs",
        ),
        (
            system("target = \"single\"\nprice = -1"),
            "x.toml, line 5: price = -1 is not possible: give a number above 0",
        ),
        (
            system("target = \"single\"\nmount = \"noatime\""),
            "x.toml, line 5: `mount` is of a file system: add `fs = \"ext4\"` to the system",
        ),
        (
            system("target = \"single\"\ndown = \"true\""),
            "x.toml, line 5: `down` is of a system that a command makes: add `up = \"..\"`",
        ),
        (
            workload("kind = \"seeks\"\nchunk = 1000"),
            "x.toml, line 6: seeks: a chunk of 1000 bytes can't be asked for: choose a multiple \
             of 512",
        ),
        (
            workload("kind = \"dd-read\"\nsize = \"64K\""),
            "x.toml, line 6: dd-read: a size of 65536 bytes does not hold one chunk of 1048576 \
             bytes: choose a larger size or a smaller chunk",
        ),
        (
            workload("kind = \"dd-read\"\nin_flight = -1"),
            "x.toml, line 7: in_flight = -1 is not possible: give a whole number from 1 to 1024",
        ),
        (
            workload("kind = \"dd-read\"\nsystems = [\"raid5\"]"),
            "x.toml, line 7: system \"raid5\" is none of the systems: use one of single",
        ),
    ] {
        check(&text, expected);
    }
}

#[test]
fn what_is_not_said_has_its_default() {
    let text = format!("{HEAD}{SYSTEM}{WORKLOAD}");
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    assert_eq!(experiment.blocks, 5);
    assert_eq!(experiment.members, Members::Files);
    assert_eq!(experiment.baseline, "single");
    assert!(experiment.control);
    assert_eq!(experiment.definition, text);
    let workload = &experiment.workloads[0];
    assert_eq!(
        (
            workload.name.as_str(),
            workload.blocks().unwrap().size_bytes
        ),
        ("dd-read", 1 << 20)
    );
    assert!(workload.runs_on("anything"));
    assert_eq!(experiment.systems[0].line, 3);
    assert_eq!(experiment.systems[0].price, None);
    let priced = text.replacen("\"single\"", "\"single\"\nprice = 120", 1);
    let priced = Experiment::parse("x.toml", &priced).unwrap();
    assert_eq!(priced.systems[0].price, Some(120.0));
}

/// A list runs the workload once for each of its values, and two lists for each pair.
#[test]
fn lists_are_swept() {
    let text = format!(
        "{HEAD}{SYSTEM}[[workload]]\nkind = \"random-read\"\nchunk = [\"4K\", \"16K\"]\n\
         in_flight = [1, 8]\n[[workload]]\nkind = \"cp\"\nparameters = {{ processes = [1, 2], size = \"4M\" }}\n"
    );
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let names: Vec<_> = experiment
        .workloads
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "random-read chunk 4K in_flight 1",
            "random-read chunk 4K in_flight 8",
            "random-read chunk 16K in_flight 1",
            "random-read chunk 16K in_flight 8",
            "cp processes 1",
            "cp processes 2",
        ]
    );
    let read = experiment.workloads[3].blocks().unwrap();
    assert_eq!((read.chunk_bytes, read.in_flight), (Some(16384), Some(8)));
    assert_eq!(
        experiment.workloads[5].files().unwrap().value("processes"),
        2
    );
}

#[test]
fn the_scale_shrinks_sizes_and_times_and_is_said() {
    let text = format!(
        "{HEAD}scale_min = 0.1\n{SYSTEM}[[workload]]\nkind = \"dd-read\"\nsize = \"64M\"\n\
         [[workload]]\nkind = \"varmail\"\n"
    );
    let at = |scale, seconds| {
        let tuning = Tuning {
            scale,
            seconds,
            ..Tuning::default()
        };
        Experiment::parse_tuned("x.toml", &text, &tuning)
    };
    let half = at(0.5, None).unwrap();
    assert_eq!(half.workloads[0].blocks().unwrap().size_bytes, 32 << 20);
    let varmail = half.workloads[1].files().unwrap();
    assert_eq!((varmail.seconds(), varmail.value("nfiles")), (150, 50_000));
    assert_eq!(half.scaled_how, "all sizes and times at a scale of 0.5");
    let short = at(0.5, Some(7)).unwrap();
    assert_eq!(short.workloads[1].files().unwrap().seconds(), 7);
    assert!(at(1.0, None).unwrap().scaled_how.is_empty());
    let error = at(0.05, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "x.toml, line 3: at a scale of 0.05 the figures of this experiment would say nothing: choose at \
         least 0.1"
    );
}
