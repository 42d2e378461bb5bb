//! Plain Rust, byte by byte: the reference that every other kernel must equal.

use super::Kernel;
use crate::{gf, map::Map};

pub(super) static KERNEL: Kernel = Kernel {
    name: "scalar",
    summary: "plain Rust, the reference",
    available: || true,
    run,
};

fn run(map: &mut Map<'_>) {
    for (target, row) in map
        .targets
        .iter_mut()
        .zip(&map.coefficients)
        .take(map.target_count)
    {
        if !map.delta {
            target.fill(0);
        }
        for (index, source) in map.sources[..map.source_count].iter().enumerate() {
            // In a delta, sources come in pairs that share a coefficient.
            let coefficient = row[if map.delta { index / 2 } else { index }];
            match coefficient {
                0 => {}
                1 => add(target, source),
                _ => add_times(coefficient, target, source),
            }
        }
    }
}

fn add(target: &mut [u8], source: &[u8]) {
    for (t, s) in target.iter_mut().zip(source) {
        *t ^= s;
    }
}

fn add_times(coefficient: u8, target: &mut [u8], source: &[u8]) {
    let mut product = [0; 256];
    for (value, byte) in product.iter_mut().zip(0..=255) {
        *value = gf::mul(coefficient, byte);
    }
    for (t, s) in target.iter_mut().zip(source) {
        *t ^= product[usize::from(*s)];
    }
}
