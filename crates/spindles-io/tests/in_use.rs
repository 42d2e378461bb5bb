//! A device that is in use is in use by all its names.

mod common;

use common::Loop;
use spindles_io::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_io::create::{CreateOptions, create};
use spindles_io::{OpenError, OpenOptions};
use spindles_layout::Expression;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

fn at_once(read_only: bool) -> AssembleOptions {
    AssembleOptions {
        open: OpenOptions {
            read_only,
            patience: Duration::ZERO,
            ..OpenOptions::default()
        },
        ..AssembleOptions::default()
    }
}

#[test]
fn files_and_loop_devices_on_them_are_not_opened_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].iter().map(|it| folder.path().join(it)).collect();
    for path in &paths {
        File::create(path).unwrap().set_len(8 << 20).unwrap();
    }
    let files: Vec<&str> = paths.iter().map(|path| path.to_str().unwrap()).collect();
    let expression = Expression::parse(&format!("raid1({})", files.join(","))).unwrap();
    create(&expression, &CreateOptions::new("test"), &mut |_, _| true).unwrap();
    let loops: Result<Vec<Loop>, String> = (paths.iter().chain(&paths))
        .map(|path| Loop::with(path, &[]))
        .collect();
    let loops = match loops {
        Ok(loops) => loops,
        Err(reason) => {
            println!("SKIPPED in_use: loop devices: {reason}");
            return;
        }
    };
    let [a, b, again_a, again_b] = &loops[..] else {
        panic!("four of them");
    };
    let names = [
        files,
        vec![a.0.as_str(), b.0.as_str()],
        vec![again_a.0.as_str(), again_b.0.as_str()],
    ];
    for first in &names {
        let writer = assemble(first, &at_once(false)).unwrap();
        for second in names.iter().filter(|second| *second != first) {
            for read_only in [false, true] {
                let refused = assemble(second, &at_once(read_only)).unwrap_err();
                assert!(
                    matches!(refused, AssembleError::Open(OpenError::Busy { .. })),
                    "{refused}"
                );
            }
        }
        writer.target.close().unwrap();
    }
    // Readers share.
    let readers: Vec<_> = names
        .iter()
        .map(|names| assemble(names, &at_once(true)).unwrap())
        .collect();
    for reader in readers {
        reader.target.close().unwrap();
    }
}
