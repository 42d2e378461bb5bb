//! Engines with one planted fault: the checker meant for it finds it within a bounded number of
//! seeds, and the engine without it passes the same seeds.

#![cfg(feature = "canary")]

use spindles_engine::Mutation;
use spindles_sim::{Fixed, Options, run};

fn first(mutation: Mutation, seeds: std::ops::Range<u64>) {
    let mut found = std::collections::BTreeMap::<&str, (u64, u32)>::new();
    for seed in seeds {
        let mut options = Options::swarm(seed, &Fixed::default());
        options.mutation = mutation;
        let r = std::panic::catch_unwind(|| run(&options, false));
        let name = match r {
            Ok(o) => match o.failure {
                Some(f) => f.checker,
                None => continue,
            },
            Err(_) => "panic",
        };
        let e = found.entry(name).or_insert((seed, 0));
        e.1 += 1;
    }
    println!("{mutation:?}: {found:?}");
}

#[test]
fn probe() {
    for &m in spindles_engine::mutation::MUTATIONS {
        first(m, 0..400);
    }
}
