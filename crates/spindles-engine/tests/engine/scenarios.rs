//! Scenarios as text: what is done to an array, and every output of the engine in order.
//! `UPDATE=1 cargo test -p spindles-engine scenarios` writes what is found.

use crate::public::world::{Setup, World, at_block};
use spindles_block::{MemberIndex, MemberSet, Operation};
use spindles_layout::{Level, Spec};
use std::{collections::BTreeMap, fs, path::Path};

/// `key=value` words.
fn options(line: &str) -> BTreeMap<&str, &str> {
    line.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .collect()
}

fn members(list: &str) -> MemberSet {
    list.split(',')
        .map(|member| MemberIndex(member.parse().unwrap()))
        .collect()
}

fn open(line: &str) -> (World, u64) {
    let options = options(line);
    let number = |key: &str, default: u64| {
        options
            .get(key)
            .map_or(default, |value| value.parse::<u64>().unwrap())
    };
    let count = usize::try_from(number("members", 3)).unwrap();
    let spec = Spec {
        level: Level::by_name(line.split_whitespace().nth(1).unwrap()).unwrap(),
        layout: None,
        chunk_blocks: u32::try_from(number("chunk", 4)).unwrap(),
        member_blocks: vec![number("blocks", 16); count],
    };
    let setup = Setup {
        missing: options
            .get("missing")
            .map_or(MemberSet::EMPTY, |list| members(list)),
        clean: !line.contains("unclean"),
        persistent: line.contains("persistent"),
        force: line.contains("force"),
        ..Setup::new(spec)
    };
    let mut world = setup.open().unwrap();
    world.in_order = true;
    world.trace = Some(Vec::new());
    (world, number("blocks", 16))
}

/// `4..6` as first block and count.
fn range(word: &str) -> (u64, u32) {
    let (from, to) = word.split_once("..").unwrap();
    let (from, to) = (from.parse::<u64>().unwrap(), to.parse::<u64>().unwrap());
    (from, u32::try_from(to - from).unwrap())
}

fn submit(world: &mut World, words: &[&str]) {
    let (operation, carries) = match words[0] {
        "read" => (Operation::Read, true),
        "write" => (Operation::Write { fua: false }, true),
        "write-fua" => (Operation::Write { fua: true }, true),
        "zero" => (Operation::WriteZeroes { fua: false }, false),
        "discard" => (Operation::Discard, false),
        "flush" => (Operation::Flush, false),
        other => panic!("a scenario knows no '{other}'"),
    };
    let (block, blocks) = words.get(1).map_or((0, 0), |word| range(word));
    let bytes = if carries {
        vec![1; at_block(blocks.into())]
    } else {
        Vec::new()
    };
    world.submit(operation, block, bytes, blocks);
}

/// Carries out one line. Several requests joined by `and` are under way together.
fn carry_out(world: &mut World, line: &str, member_blocks: u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[0] {
        "fail" => world.fail(words[1].parse().unwrap()),
        "gone" => world.gone = members(words[1]),
        "unreadable" => {
            let (member, blocks) = words[1].split_once(':').unwrap();
            let member: u8 = member.parse().unwrap();
            let (block, count) = range(blocks);
            assert!(block + u64::from(count) <= member_blocks);
            let start = world.data_start[usize::from(member)] + block;
            world.medium = (start..start + u64::from(count))
                .map(|at| (member, at))
                .collect();
        }
        "close" => assert!(world.close() != world.engine.status().dirty),
        _ => {
            for request in words.split(|&word| word == "and") {
                submit(world, request);
            }
        }
    }
    world.run();
}

fn replay(text: &str) -> String {
    let mut out = String::new();
    let mut world: Option<(World, u64)> = None;
    for line in text.lines().filter(|line| !line.starts_with('>')) {
        out.push_str(line);
        out.push('\n');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with("array ") {
            world = Some(open(line));
            world.as_mut().unwrap().0.run();
        } else {
            let (world, member_blocks) = world.as_mut().expect("a scenario begins with an array");
            carry_out(world, line, *member_blocks);
        }
        let trace = &mut world.as_mut().unwrap().0.trace;
        for note in trace.replace(Vec::new()).unwrap() {
            out.push_str("> ");
            out.push_str(&note);
            out.push('\n');
        }
    }
    out
}

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/scenarios");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 4);
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let found = replay(&text);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, found).unwrap();
        } else {
            assert_eq!(
                found,
                text,
                "{}: UPDATE=1 writes what is found",
                path.display()
            );
        }
    }
}
