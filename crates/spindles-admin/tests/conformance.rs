//! The simulator's driver and the real one run the same engine. The same requests leave the same
//! bytes on every device, superblocks included, and read the same. With logged writes only the data
//! read is compared: the size of a journal batch depends on time.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::common;

use common::{place, run};
use spindles_admin::assemble::{AssembleOptions, EngineOptions, assemble};
use spindles_block::{BufferSlice, Operation};
use spindles_device::{IoChoice, OpenOptions};
use spindles_engine::{POLICIES, Policy, WriteHole};
use spindles_format::SLOT_BYTES;
use spindles_sim::options::Tree;
use spindles_sim::trace::trace;
use spindles_sim::{Ending, Fixed, Options};
use spindles_workload::history::Initial;

/// Compares one run. Returns true if the array was nested.
fn check(seed: u64, io: IoChoice, consistency: &'static Policy) -> bool {
    let fixed = Fixed {
        consistency: Some(consistency),
        requests: Some(40),
        depth: Some(1),
        faults: Some(Vec::new()),
        ending: Some(Ending::Close),
        sizes: Some(false),
        ..Fixed::default()
    };
    let mut run_options = Options::swarm(seed, &fixed);
    // The progress of a resync depends on time, which differs between the drivers.
    run_options.initial = Initial::Zeros;
    run_options.dirty_bytes = 0;
    let trace = trace(&run_options);
    let what = format!("seed {seed}, {}, {io:?}", run_options.tree);

    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<String> = (0..trace.before.len())
        .map(|disk| folder.path().join(disk.to_string()))
        .map(|path| path.to_str().unwrap().to_owned())
        .collect();
    for (path, bytes) in paths.iter().zip(&trace.before) {
        std::fs::write(path, bytes).unwrap();
    }
    let devices: Vec<&str> = paths.iter().map(String::as_str).collect();
    let options = AssembleOptions {
        open: OpenOptions {
            io,
            ..OpenOptions::default()
        },
        engine: EngineOptions {
            drawn: Some(0),
            ..EngineOptions::default()
        },
        ..AssembleOptions::default()
    };
    let mut target = assemble(&devices, &options).unwrap().target;
    assert_eq!(target.facts().block_size, run_options.block_size, "{what}");
    let block_bytes = usize::try_from(run_options.block_size.bytes()).unwrap();
    let buffer = target.allocate(64);
    for step in &trace.steps {
        let place = place(buffer);
        let length = usize::try_from(step.blocks).unwrap() * block_bytes;
        let place = match step.operation {
            Operation::Read | Operation::Write { .. } => place,
            Operation::Flush | Operation::Discard | Operation::WriteZeroes { .. } => {
                BufferSlice::NONE
            }
        };
        if matches!(step.operation, Operation::Write { .. }) {
            target.buffer_mut(buffer)[..length].copy_from_slice(&step.bytes);
        }
        run(
            target.as_mut(),
            step.operation,
            step.block,
            step.blocks,
            place,
        )
        .unwrap();
        if step.operation == Operation::Read {
            assert!(
                target.buffer(buffer)[..length] == step.bytes,
                "{what}: {step:?}"
            );
        }
    }
    target.close().unwrap();
    let logged = consistency.write_hole == WriteHole::Closed;
    for (path, expected) in paths.iter().zip(&trace.after).filter(|_| !logged) {
        let mut bytes = std::fs::read(path).unwrap();
        let mut expected = expected.clone();
        // A busy machine may answer late, and superblocks count slow answers.
        for slot in SLOT_BYTES.map(|at| usize::try_from(at).unwrap()) {
            for range in [760..768, 4092..4096] {
                let range = slot + range.start..slot + range.end;
                bytes[range.clone()].fill(0);
                expected[range].fill(0);
            }
        }
        let differs = bytes.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: {path} differs first at that byte");
        assert_eq!(bytes.len(), expected.len());
    }
    let Tree::Array { members, .. } = &run_options.tree else {
        return false;
    };
    members
        .iter()
        .any(|member| matches!(member, Tree::Array { .. }))
}

fn check_all(seeds: std::ops::Range<u64>, io: IoChoice) {
    for consistency in POLICIES {
        let nested = seeds.clone().map(|seed| check(seed, io, consistency));
        assert!(
            nested.filter(|nested| *nested).count() > 0,
            "arrays in arrays too"
        );
    }
}

#[test]
fn both_drivers_write_the_same_bytes_with_rings() {
    check_all(0..14, IoChoice::Uring);
}

#[test]
fn both_drivers_write_the_same_bytes_with_threads() {
    check_all(14..28, IoChoice::Threads);
}
