//! Faulty experiment files: each mistake gives one message with the line and the remedy.

use spindles_lab::{Experiment, Members, Tuning, Work, WorkloadSpec};

const HEAD: &str = "name = \"x\"\nsize = \"1M\"\n";
const SYSTEM: &str = "[[system]]\ntarget = \"single\"\n";
const WORKLOAD: &str = "[[workload]]\nkind = \"dd-read\"\n";

fn check(text: &str, expected: &str) {
    match Experiment::parse("x.toml", text) {
        Ok(_) => panic!("it should be refused: {text}"),
        Err(error) => {
            // This mistake may cause further mistakes.
            let all = error.to_string();
            let is_reported = all == expected || all.lines().any(|line| line == expected);
            assert!(is_reported, "{text}: {all}: not {expected}");
        }
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let text = "name = \"x/\"\nsize = \"nothing\"\nblocks = 0\nbaseline = \"disk\"\n\
                [[system]]\ntarget = \"raid5(2)\"\n\
                [[system]]\nname = \"single\"\ntarget = \"single\"\nchunk = \"4K\"\nprice = -1.0\n\
                [[workload]]\nkind = \"dd-reads\"\n\
                [[workload]]\nkind = \"seeks\"\nin_flight = 0\nseconds = 0\n\
                systems = [\"other\"]\n";
    let error = Experiment::parse("x.toml", text).unwrap_err();
    let reported: Vec<(usize, &str)> = error
        .mistakes
        .iter()
        .map(|mistake| {
            (
                mistake.line,
                mistake.what.split([' ', '(']).next().unwrap_or_default(),
            )
        })
        .collect();
    let expected = [
        (1, "\"x/\""),
        (2, "size"),
        (3, "blocks"),
        (4, "baseline"),
        (10, "`chunk`"),
        (11, "price"),
        (13, "there"),
        (16, "in_flight"),
        (17, "seconds"),
        (18, "system"),
    ];
    assert_eq!(reported, expected, "{error}");
    let lines = error.to_string();
    assert_eq!(lines.lines().count(), expected.len(), "{lines}");
    assert!(
        lines.lines().all(|line| line.starts_with("x.toml, line ")),
        "{lines}"
    );
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
            "x.toml, line 1: \"a/b\" is not a valid name: use letters, digits, '-', '_', '+', '.' \
             and spaces, none of them at an end",
        ),
        (
            system("target = \"single\"\nname = \" \""),
            "x.toml, line 5: \" \" is not a valid name: use letters, digits, '-', '_', '+', '.' \
             and spaces, none of them at an end",
        ),
        (
            head("sise = 3"),
            "x.toml, line 3: unknown field `sise`, expected one of `name`, `summary`, `scaled`, \
             `scale_min`, `size`, `seed`, `blocks`, `max_blocks`, `caches`, `confirm`, `warmup`, \
             `time_limit_s`, `members`, `host`, `folder`, `chunk`, `consistency`, `checksum`, \
             `journal`, `write_back`, `rebuild_rate`, `read_policy`, `flushes`, `through`, \
             `baseline`, `weights`, `control`, `nodes`, `ssh`, `agent`, `listen`, `system`, \
             `workload`",
        ),
        (
            format!("{HEAD}{SYSTEM}{WORKLOAD}steady = true\n"),
            "x.toml, line 7: dd-read only reads, so no stage fills: leave `steady` out",
        ),
        (
            format!("{HEAD}{SYSTEM}{WORKLOAD}systems = []\n"),
            "x.toml, line 7: `systems` is empty: name some systems, or leave it out for all",
        ),
        (
            head("weights = { seeks = 1 }"),
            "x.toml, line 3: weight of \"seeks\": there is no such workload: use one of dd-read",
        ),
        (
            head("weights = { dd-read = 0 }"),
            "x.toml, line 3: weight of \"dd-read\": 0 is not possible: give a number above 0, or \
             leave it out",
        ),
        (
            head("flushes = \"lost\""),
            "x.toml, line 3: there is no way with flushes \"lost\": use one of honoured, ignored",
        ),
        (
            format!("{HEAD}[[system]]\ntarget = \"/dev/sdb\"\nflushes = \"ignored\"\n{WORKLOAD}"),
            "x.toml, line 5: `flushes` has no effect on system \"/dev/sdb\", it is for arrays that \
             the lab makes without `up`, and `single`, if it is served or without `fs`: leave it \
             out here, or set it at the head of the file for all such systems",
        ),
        (
            system("target = \"single\"\nread_policy = \"nearest\""),
            "x.toml, line 5: `read_policy` has no effect on system \"single\", it is for arrays \
             with copies (raid1, raid10), `array:` and `plain:`: leave it out here, or set it at \
             the head of the file for all such systems",
        ),
        (
            system("name = \"pair\"\ntarget = \"raid1(2)\"\njournal = \"x\""),
            "x.toml, line 6: `journal` has no effect on system \"pair\", it is for arrays that the \
             lab makes on files or devices with parity (raid4, raid5, raid6, raid7): leave it out \
             here, or set it at the head of the file for all such systems",
        ),
        (
            head("read_policy = \"nearest\""),
            "x.toml, line 3: `read_policy` has no effect on any of these systems, it is for arrays \
             with copies (raid1, raid10), `array:` and `plain:`: leave it out",
        ),
        (
            system("target = \"$MEMBER0\""),
            "x.toml, line 4: `$MEMBER0` in `target` is replaced only in a system with `up`: add \
             the commands that make the system, or name a device, a file or `single:N`",
        ),
        (
            system("target = \"$NOPE/x\"\nup = \"true\"\ntakes = 1"),
            "x.toml, line 4: `$NOPE` in `target` is not defined: there are $DIR, $MEMBER0 (`takes` \
             is the number of members); to name a path that contains `$`, make a link to it",
        ),
        (
            head("chunk = \"64Q\""),
            "x.toml, line 3: chunk = \"64Q\": not a size: give a whole number, with K, M, G or T \
             (powers of 1024) or s (sectors of 512 bytes) after it, for example 64K",
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
             \"null\", \"model:NAME\" for modelled disks, or a list of devices such as \
             [\"/dev/sdb\", \"/dev/sdc\"]",
        ),
        (
            head("members = [\"/dev/sdb\", \"/dev/sdb\"]"),
            "x.toml, line 3: /dev/sdb is listed twice among the members: name each device once",
        ),
        (
            head("baseline = \"raid0\""),
            "x.toml, line 3: baseline \"raid0\" is not a system of the experiment: use one of \
             single",
        ),
        (
            system("target = \"single\"\nbaseline = \"raid0\""),
            "x.toml, line 5: baseline \"raid0\" is not a system of the experiment: use one of \
             single",
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
            "x.toml, line 4: a target is empty: write one of single or single:N, \
             plain:LEVEL(DEV,DEV,..), from:FILE, from:FILE#ARRAY or from:TEXT, LEVEL(COUNT) or \
             LEVEL(DEV,DEV,..), array:NAME, array:DEV,DEV,.., folder:PATH, DEVICE, FILE, \
             nbd://HOST/EXPORT, mem:SIZE or null:SIZE",
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
             dd-parallel, block-write, block-read, backward-read, rewrite, seeks, random-read, \
             random-write, random-mixed, bonnie, bonnie++, iozone, cp, touch, untar, mixed, \
             multistreamread, multistreamwrite, varmail, oltp, newfs, fio, copy, replay",
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
            "x.toml, line 7: seeks works on blocks and has no parameters: give size, chunk, \
             in_flight or operations",
        ),
        (
            system("target = \"single\"\nfs = \"jfs\""),
            "x.toml, line 5: there is no file system \"jfs\": use one of ext4, ext3, ext2, xfs, \
             btrfs, bare, ffs, zfs",
        ),
        (
            system("target = \"single\"\nprice = -1"),
            "x.toml, line 5: price = -1 is not possible: give a number above 0",
        ),
        (
            system("target = \"single\"\nmount = \"noatime\""),
            "x.toml, line 5: `mount` is for a file system: add `fs = \"ext4\"` to the system",
        ),
        (
            system("target = \"single\"\ndown = \"true\""),
            "x.toml, line 5: `down` is for a system made by commands: add `up = \"..\"`",
        ),
        (
            workload("kind = \"seeks\"\nchunk = 1000"),
            "x.toml, line 6: seeks: a chunk of 1000 bytes is not possible: choose a multiple of \
             512",
        ),
        (
            workload("kind = \"dd-read\"\nsize = \"16777215T\""),
            "x.toml, line 7: size = \"16777215T\": too large: give at most 1048576T",
        ),
        (
            workload("kind = \"random-read\"\nsize = 1000001"),
            "x.toml, line 6: random-read: a size of 1000001 bytes is not a multiple of an \
             operation's 4096 bytes: choose 999424 or 1003520",
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
            "x.toml, line 7: system \"raid5\" is not a system of the experiment: use one of single",
        ),
        (
            head("nodes = [\"10.0.0.2\", \"10.0.0.2:22\"]"),
            "x.toml, line 3: \"10.0.0.2:22\" is not the name of a node: give HOST or USER@HOST, \
             and a port with ssh = \"ssh -p PORT\" or --ssh",
        ),
        (
            head("ssh = \"ssh -p 2222\"\nnodes = [\"10.0.0.2\", \"10.0.0.2\"]"),
            "x.toml, line 4: node 10.0.0.2 is listed twice: name each once",
        ),
        (
            head("listen = \"eth0\""),
            "x.toml, line 3: listen = \"eth0\" is not an address: give the address at which nodes \
             reach this machine, such as \"10.0.0.1\"",
        ),
        (
            workload("kind = \"cp\"\nnodes = 2"),
            "x.toml, line 7: `nodes` is for workloads on nodes: add `on = \"nodes\"`",
        ),
        (
            workload("kind = \"copy\"\nnodes = 2"),
            "x.toml, line 7: `nodes` is among the parameters of copy",
        ),
        (
            workload("kind = \"copy\"\nsize = \"1M\""),
            "x.toml, line 7: copy works on files, and `size` is for workloads on blocks: give \
             `parameters = { .. }` with any of nodes, size, direction, server, client, fsync",
        ),
        (
            workload("kind = \"copy\"\nparameters = { nodes = 65 }"),
            "x.toml, line 7: nodes = 65 is not possible: give a whole number from 1 to 64",
        ),
        (
            workload("kind = \"copy\"\non = \"nodes\""),
            "x.toml, line 7: copy runs on nodes by itself: leave `on` out",
        ),
        (
            workload("kind = \"cp\"\non = \"others\""),
            "x.toml, line 7: workloads run here or on nodes: leave `on` out, or write on = \
             \"nodes\"",
        ),
        (
            workload("kind = \"cp\"\non = \"nodes\""),
            "x.toml, line 7: the number of nodes is missing: add `nodes`, a number or a list such \
             as [1, 2, 4]",
        ),
        (
            workload("kind = \"seeks\"\non = \"nodes\"\nnodes = 2"),
            "x.toml, line 7: nodes run only workloads on files, and fio: choose one of these",
        ),
        (
            workload("kind = \"cp\"\non = \"nodes\"\nnodes = 2\ndevice = \"/dev/sdb\""),
            "x.toml, line 9: `device` is for fio: workloads on files run in the folder of the \
             agent",
        ),
        (
            workload(
                "kind = \"fio\"\non = \"nodes\"\nnodes = 2\n\
                 parameters = { rw = \"read\", ioengine = \"splice\" }",
            ),
            "x.toml, line 7: fio's ioengine splice is not allowed on nodes: use one of io_uring, \
             libaio, mmap, posixaio, psync, pvsync, pvsync2, sync, vsync",
        ),
        (
            workload(
                "kind = \"fio\"\nparameters = { rw = \"read\", bs = \"4k\", blocksize = \"64k\" }",
            ),
            "x.toml, line 7: fio's blocksize and bs say the same thing: leave one of them out",
        ),
        (
            workload("kind = \"fio\"\nsize = \"64M\"\nparameters = { rw = \"read\" }"),
            "x.toml, line 7: `size` is for workloads on blocks, and fio takes \
             `parameters = { .. }`: leave `size` out",
        ),
        (
            workload("kind = \"seeks\"\njobfile = \"a.fio\""),
            "x.toml, line 7: `jobfile` is for fio: leave it out, or write kind = \"fio\"",
        ),
        (
            workload("kind = \"fio\"\njobfile = \"no.fio\""),
            "x.toml, line 7: no.fio: No such file or directory (os error 2)",
        ),
        (
            workload("kind = \"copy\"\nparameters = { nodes = [1, 2] }"),
            "x.toml, line 1: no workload is left: copy nodes 1, copy nodes 2 (up to 2 nodes \
             needed, none are given: give `nodes`, or --nodes)",
        ),
    ] {
        check(&text, expected);
    }
}

#[test]
fn omitted_fields_have_defaults() {
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
    let kind = experiment.workloads[0].name.clone();
    assert!(experiment.weights.is_empty());
    let weighed = format!("weights = {{ {kind} = 0.7 }}\n{text}");
    let weighed = Experiment::parse("x.toml", &weighed).unwrap();
    assert_eq!(weighed.weights, [(kind, 0.7)].into());
}

/// Options at the head apply to the systems for which they are meaningful.
#[test]
fn head_options_apply_only_to_systems_that_support_them() {
    let text = format!(
        "{HEAD}read_policy = \"round-robin\"\nchunk = \"16K\"\njournal = \"j\"\n\
         {SYSTEM}[[system]]\ntarget = \"raid1(2)\"\n\
         [[system]]\ntarget = \"raid5(3)\"\n{WORKLOAD}"
    );
    let systems = Experiment::parse("x.toml", &text).unwrap().systems;
    let read_policies = systems
        .iter()
        .map(|system| system.read_policy.map(|read_policy| read_policy.name));
    let read_policies: Vec<_> = read_policies.collect();
    assert_eq!(read_policies, [None, Some("round-robin"), None]);
    let chunks: Vec<_> = systems.iter().map(|system| system.chunk_bytes).collect();
    assert_eq!(chunks, [None, Some(16384), Some(16384)]);
    let journals: Vec<_> = systems
        .iter()
        .map(|system| system.journal.as_deref())
        .collect();
    assert_eq!(journals, [None, None, Some("j")]);
}

/// Each section of a job file is a workload; lines that the lab ignores are named.
#[test]
fn fio_job_files_are_parsed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.fio");
    let jobs = "[global]\nreadwrite=randread\nfilename=/dev/sda\nbsrange=4k-8k\n[first]\n\
               timeout=30\ntime_based\n\
                [second/2]\nioengine=libaio\niodepth=4\nstonewall\n";
    std::fs::write(&file, jobs).unwrap();
    let text = format!(
        "{HEAD}{SYSTEM}[[workload]]\nkind = \"fio\"\njobfile = {file:?}\n\
         parameters = {{ blocksize = [\"4k\", \"64k\"], direct = true }}\n"
    );
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let shown = |spec: &WorkloadSpec| {
        let Work::Fio(work) = &spec.work else {
            panic!("{spec:?}");
        };
        let options: Vec<String> = (work.options().iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{}: {}", spec.name, options.join(" "))
    };
    let second = |bs: &str| {
        format!(
            "fio second-2 blocksize {bs}: bs={bs} direct=1 invalidate=1 iodepth=4 ioengine=libaio \
             numjobs=1 rw=randread size=256m time_based=0"
        )
    };
    let first = |bs: &str| {
        format!(
            "fio first blocksize {bs}: bs={bs} direct=1 invalidate=1 iodepth=1 ioengine=psync \
             numjobs=1 runtime=30 rw=randread size=256m time_based=1"
        )
    };
    let found: Vec<String> = experiment.workloads.iter().map(shown).collect();
    assert_eq!(
        found,
        [first("4k"), first("64k"), second("4k"), second("64k")]
    );
    let name = file.display();
    let notes = [
        format!("{name}, [first]: the lab chooses filename"),
        format!("{name}, [second/2]: the lab chooses filename, stonewall"),
    ];
    assert_eq!(experiment.notes, notes);
    std::fs::write(&file, "[a]\nrw=read\nread_iolog=log\n").unwrap();
    let error = Experiment::parse("x.toml", &text).unwrap_err().to_string();
    let expected = format!("x.toml, line 7: {name}, line 3: read_iolog is not supported");
    assert!(error.starts_with(&expected), "{error}");
}

/// A list runs the workload once for each value, and two lists run it once for each pair.
#[test]
fn parameter_lists_become_sweeps() {
    let text = format!(
        "{HEAD}{SYSTEM}[[workload]]\nkind = \"random-read\"\nchunk = [\"4K\", \"16K\"]\n\
         in_flight = [1, 8]\n\
         [[workload]]\nkind = \"cp\"\nparameters = {{ processes = [1, 2], size = \"4M\" }}\n"
    );
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let names: Vec<_> = experiment
        .workloads
        .iter()
        .map(|workload| workload.name.as_str())
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

/// Workloads that need more nodes than given are left out. Nodes of the command line replace the
/// nodes of the file.
#[test]
fn workloads_use_as_many_nodes_as_they_need() {
    let on = "on = \"nodes\"\nnodes = [1, 2, 4]";
    let text = format!(
        "{HEAD}nodes = [\"10.0.0.2\", \"u@10.0.0.3\"]\nssh = \"ssh -p 2222\"\n\
         listen = \"10.0.0.1\"\n{SYSTEM}\
         [[workload]]\nkind = \"copy\"\n\
         parameters = {{ nodes = [1, 2, 4], direction = \"write\" }}\n\
         [[workload]]\nkind = \"cp\"\n{on}\n"
    );
    let experiment = Experiment::parse("x.toml", &text).unwrap();
    let names = |experiment: &Experiment| {
        let workloads = experiment.workloads.iter();
        let names = workloads.map(|spec| (spec.name.clone(), spec.nodes()));
        names.collect::<Vec<_>>()
    };
    let of = |name: &str, nodes: u32| (format!("{name} nodes {nodes}"), nodes);
    let two = [of("copy", 1), of("copy", 2), of("cp", 1), of("cp", 2)];
    assert_eq!(names(&experiment), two);
    let left_out = experiment.left_out.unwrap();
    assert!(
        left_out.starts_with(
            "copy nodes 4, cp nodes 4 (up to 4 nodes needed, 2 are given: name more of them"
        ),
        "{left_out}"
    );
    let nodes = experiment.nodes.unwrap();
    assert_eq!(nodes.names, ["10.0.0.2", "u@10.0.0.3"]);
    assert_eq!((nodes.ssh.as_str(), nodes.agent), ("ssh -p 2222", None));
    assert_eq!(
        nodes.listen.map(|listen| listen.to_string()).as_deref(),
        Some("10.0.0.1")
    );
    let tuning = Tuning {
        nodes: ["a", "b", "c", "d"].map(str::to_owned).into(),
        ssh: Some("other".to_owned()),
        ..Tuning::default()
    };
    let experiment = Experiment::parse_tuned("x.toml", &text, &tuning).unwrap();
    assert_eq!((names(&experiment).len(), experiment.left_out), (6, None));
    assert_eq!(experiment.nodes.unwrap().ssh, "other");
}

#[test]
fn the_scale_shrinks_sizes_and_times_and_is_reported() {
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
        "x.toml, line 3: at a scale of 0.05 the figures of this experiment would say nothing: \
         choose at least 0.1"
    );
}

/// `--max-blocks` limits the experiment's blocks, and `--blocks` alone is exact.
#[test]
fn max_blocks_limits_the_block_count() {
    let text = format!("{HEAD}blocks = 5\n{SYSTEM}{WORKLOAD}");
    let blocks = |blocks, blocks_max| {
        let tuning = Tuning {
            blocks,
            blocks_max,
            ..Tuning::default()
        };
        let experiment = Experiment::parse_tuned("x.toml", &text, &tuning).unwrap();
        (experiment.blocks, experiment.blocks_max)
    };
    assert_eq!(blocks(None, None), (5, 5));
    assert_eq!(blocks(None, Some(1)), (1, 1));
    assert_eq!(blocks(None, Some(9)), (5, 9));
    assert_eq!(blocks(Some(3), Some(1)), (3, 3));
    let text = format!("{HEAD}blocks = 5\nmax_blocks = 12\n{SYSTEM}{WORKLOAD}");
    let blocks = |blocks| {
        let tuning = Tuning {
            blocks,
            ..Tuning::default()
        };
        let experiment = Experiment::parse_tuned("x.toml", &text, &tuning).unwrap();
        (experiment.blocks, experiment.blocks_max)
    };
    assert_eq!(blocks(None), (5, 12));
    assert_eq!(blocks(Some(3)), (3, 3));
}

/// A real file system and a modelled one may have the same name: the members decide.
#[test]
fn ext2_is_real_on_real_members() {
    let of = |members: &str| {
        let text = format!(
            "name = \"x\"\nmembers = \"{members}\"\n[[system]]\nname = \"a\"\ntarget = \
             \"single\"\nfs = \"ext2\"\n[[workload]]\nkind = \"touch\"\n"
        );
        let experiment = Experiment::parse("x.toml", &text).unwrap();
        let system = &experiment.systems[0];
        (system.mounting.is_some(), system.modelled_fs.is_some())
    };
    assert_eq!(of("files"), (true, false));
    assert_eq!(of("model:maxtor-94098u8"), (false, true));
}
