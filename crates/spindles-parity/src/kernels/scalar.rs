//! Plain Rust, byte by byte: the reference that every other kernel must equal.

use crate::{
    gf,
    linear::{Kernel, Map, Sources},
};

pub(super) static KERNEL: Kernel = Kernel {
    name: "scalar",
    summary: "plain Rust, the reference",
    available: || true,
    run,
};

fn run(map: &mut Map<'_, '_, '_>) {
    for ((_, target), row) in map.targets.iter_mut().zip(&map.rows) {
        match map.sources {
            Sources::Plain(sources) => {
                target.fill(0);
                for ((_, source), coefficient) in sources.iter().zip(row) {
                    add_times(*coefficient, target, source);
                }
            }
            Sources::Pairs(pairs) => {
                for ((_, old, new), coefficient) in pairs.iter().zip(row) {
                    add_times(*coefficient, target, old);
                    add_times(*coefficient, target, new);
                }
            }
        }
    }
}

/// `target += coefficient * source`.
fn add_times(coefficient: u8, target: &mut [u8], source: &[u8]) {
    match coefficient {
        0 => {}
        1 => {
            for (t, s) in target.iter_mut().zip(source) {
                *t ^= s;
            }
        }
        _ => {
            let mut product = [0; 256];
            for (value, byte) in product.iter_mut().zip(0..=255) {
                *value = gf::mul(coefficient, byte);
            }
            for (t, s) in target.iter_mut().zip(source) {
                *t ^= product[usize::from(*s)];
            }
        }
    }
}
