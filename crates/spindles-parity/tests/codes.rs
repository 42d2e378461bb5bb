//! Every code by every kernel of this machine, against the oracle.

mod common;

use common::{Bytes, group, small};
use spindles_parity::{
    CODES, Code, KERNELS, Kernel, Located, by_parity_chunks, locate, solve, solve_with, update_with,
};

fn kernels() -> impl Iterator<Item = &'static &'static Kernel> {
    KERNELS.iter().filter(|kernel| (kernel.available)())
}

/// The codes that have parity, with every number of data chunks up to ten.
fn parity_codes() -> impl Iterator<Item = (&'static Code, u8)> {
    let codes = CODES.iter().filter(|code| code.parity_chunks > 0);
    codes.flat_map(|code| (1..=10).map(move |data_chunks| (*code, data_chunks)))
}

/// Recovers all other chunks from the chunks in `known`, in the order given.
fn recover(kernel: &Kernel, code: &Code, chunks: &[Vec<u8>], known: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let data_chunks = small(known.len());
    let sources: Vec<_> = known
        .iter()
        .map(|&i| (i, &*chunks[usize::from(i)]))
        .collect();
    let all = 0..small(chunks.len());
    let mut out: Vec<_> = all
        .filter(|i| !known.contains(i))
        .map(|i| (i, vec![0xee; chunks[0].len()]))
        .collect();
    let mut targets: Vec<_> = out
        .iter_mut()
        .map(|(i, bytes)| (*i, &mut bytes[..]))
        .collect();
    solve_with(kernel, code, data_chunks, &sources, &mut targets);
    out
}

#[test]
fn every_erasure_of_every_code_is_recovered() {
    for (code, data_chunks) in parity_codes() {
        let chunks = group(code, data_chunks, 61, u64::from(data_chunks));
        let total = data_chunks + code.parity_chunks;
        for set in 0u32..1 << total {
            if set.count_ones() != u32::from(data_chunks) {
                continue;
            }
            let mut known: Vec<u8> = (0..total).filter(|i| set >> i & 1 == 1).collect();
            let turn = usize::try_from(set).unwrap() % known.len();
            known.rotate_left(turn); // The order is arbitrary.
            for kernel in kernels() {
                for (index, bytes) in recover(kernel, code, &chunks, &known) {
                    let name = (code.name, kernel.name);
                    assert_eq!(
                        bytes,
                        chunks[usize::from(index)],
                        "{name:?} {index} of {known:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_widest_groups_are_recovered_too() {
    for code in CODES.iter().filter(|code| code.parity_chunks > 0) {
        let data_chunks = 64 - code.parity_chunks;
        let chunks = group(code, data_chunks, 1000, 1);
        let last: Vec<u8> = (code.parity_chunks..64).collect();
        for kernel in kernels() {
            for (index, bytes) in recover(kernel, code, &chunks, &last) {
                assert_eq!(
                    bytes,
                    chunks[usize::from(index)],
                    "{} {}",
                    code.name,
                    kernel.name
                );
            }
        }
    }
}

#[test]
fn copies_are_copied() {
    let source = Bytes::new(5).chunk(4099);
    for kernel in kernels() {
        let mut copies = vec![vec![0; source.len()]; 7];
        let mut targets: Vec<_> = copies.iter_mut().map(|copy| (0, &mut copy[..])).collect();
        solve_with(
            kernel,
            by_parity_chunks(0),
            1,
            &[(0, &source)],
            &mut targets,
        );
        assert!(copies.iter().all(|copy| *copy == source));
    }
}

#[test]
fn an_update_equals_encoding_again() {
    for (code, data_chunks) in parity_codes() {
        let before = group(code, data_chunks, 333, 1);
        let fresh = group(code, data_chunks, 333, 2);
        for changed in [1, 2, 3, 5, 9].into_iter().filter(|&n| n <= data_chunks) {
            let first = data_chunks - changed;
            let mut after = before[..usize::from(data_chunks)].to_vec();
            after[usize::from(first)..]
                .clone_from_slice(&fresh[usize::from(first)..usize::from(data_chunks)]);
            let pairs: Vec<_> = (first..data_chunks)
                .map(|i| (i, &*before[usize::from(i)], &*after[usize::from(i)]))
                .collect();
            let sources: Vec<_> = (0..).zip(&after).map(|(i, chunk)| (i, &**chunk)).collect();
            let parities = before[usize::from(data_chunks)..].to_vec();
            let mut encoded = parities.clone();
            let mut targets: Vec<_> = (data_chunks..)
                .zip(&mut encoded)
                .map(|(i, c)| (i, &mut c[..]))
                .collect();
            solve(code, data_chunks, &sources, &mut targets);
            for kernel in kernels() {
                let mut updated = parities.clone();
                let mut targets: Vec<_> = (data_chunks..)
                    .zip(&mut updated)
                    .map(|(i, c)| (i, &mut c[..]))
                    .collect();
                update_with(kernel, code, data_chunks, &pairs, &mut targets);
                assert_eq!(
                    updated, encoded,
                    "{} {} {data_chunks}",
                    code.name, kernel.name
                );
            }
        }
    }
}

#[test]
fn one_parity_alone_is_updated() {
    let code = by_parity_chunks(2);
    let (before, fresh) = (group(code, 4, 100, 1), group(code, 4, 100, 2));
    let mut after = before[..4].to_vec();
    after[2].clone_from(&fresh[2]);
    for kernel in kernels() {
        let mut q = before[5].clone();
        update_with(
            kernel,
            code,
            4,
            &[(2, &before[2], &after[2])],
            &mut [(5, &mut q)],
        );
        let sources: Vec<_> = (0..).zip(&after).map(|(i, chunk)| (i, &**chunk)).collect();
        let mut expected = vec![0; 100];
        solve(code, 4, &sources, &mut [(5, &mut expected)]);
        assert_eq!(q, expected, "{}", kernel.name);
    }
}

/// Every kernel at all odd lengths and offsets around its columns, inside a larger buffer whose
/// other bytes must not change. Some kernels encode with a separate map, so both ways are tested.
#[test]
fn lengths_and_alignments_do_not_matter() {
    let lengths = (0..=300).chain([511, 513, 1023, 1025, 2047, 4096, 4097, 5000]);
    for (step, bytes) in lengths.enumerate() {
        for code in CODES.iter().filter(|code| code.parity_chunks > 0) {
            let data_chunks = 1 + small(step % 9);
            let chunks = group(code, data_chunks, bytes, 7);
            let all: Vec<u8> = (0..data_chunks + code.parity_chunks).collect();
            let (data, parity) = all.split_at(data_chunks.into());
            let (first, last) = all.split_at(code.parity_chunks.into());
            for kernel in kernels() {
                solve_shifted(kernel, code, &chunks, data, parity, step);
                solve_shifted(kernel, code, &chunks, last, first, step);
            }
        }
    }
}

/// Computes `wanted` from `known`, each at a different offset.
fn solve_shifted(
    kernel: &Kernel,
    code: &Code,
    chunks: &[Vec<u8>],
    known: &[u8],
    wanted: &[u8],
    step: usize,
) {
    let bytes = chunks[0].len();
    let shift = |i: u8| (usize::from(i) * 37 + step * 11) % 64;
    let within = |i: u8, fill: u8| vec![fill; shift(i) + bytes + 64];
    let padded: Vec<Vec<u8>> = known
        .iter()
        .map(|&i| {
            let mut padded = within(i, 1);
            padded[shift(i)..][..bytes].copy_from_slice(&chunks[usize::from(i)]);
            padded
        })
        .collect();
    let sources: Vec<_> = known
        .iter()
        .zip(&padded)
        .map(|(&i, padded)| (i, &padded[shift(i)..][..bytes]))
        .collect();
    let mut out: Vec<Vec<u8>> = wanted.iter().map(|&i| within(i, 0xdd)).collect();
    let mut targets: Vec<_> = wanted
        .iter()
        .zip(&mut out)
        .map(|(&i, out)| (i, &mut out[shift(i)..][..bytes]))
        .collect();
    solve_with(kernel, code, small(known.len()), &sources, &mut targets);
    for (&i, out) in wanted.iter().zip(&out) {
        let (before, rest) = out.split_at(shift(i));
        let (found, after) = rest.split_at(bytes);
        assert_eq!(
            found,
            chunks[usize::from(i)],
            "{} {} {bytes}",
            code.name,
            kernel.name
        );
        assert!(before.iter().chain(after).all(|byte| *byte == 0xdd));
    }
}

/// Every chunk of every small group, with as many others missing as leave chunks to compare.
#[test]
fn one_corrupt_chunk_is_located_among_the_present_ones() {
    for (code, data_chunks) in parity_codes() {
        let good = group(code, data_chunks, 5000, 3);
        let count = good.len();
        for missing in (0..1_u32 << count.min(10)).filter(|set| set.count_ones() < 3) {
            let there: Vec<usize> = (0..count).filter(|i| missing >> i & 1 == 0).collect();
            let Some(spare) = there.len().checked_sub(usize::from(data_chunks)) else {
                continue;
            };
            let look = |chunks: &[Vec<u8>]| {
                let chunks: Vec<_> = there.iter().map(|&i| (small(i), &chunks[i][..])).collect();
                locate(code, data_chunks, &chunks)
            };
            assert_eq!(look(&good), Located::None);
            if spare == 0 {
                continue; // No chunks to compare with.
            }
            for (place, &rotten) in there.iter().enumerate().step_by(1 + count / 8) {
                let mut chunks = good.clone();
                chunks[rotten][4700] ^= 0x40;
                chunks[rotten][2040..2060].fill(0xaa);
                let expected = match spare {
                    1 => Located::Unknown,
                    _ => Located::Chunk(place),
                };
                assert_eq!(look(&chunks), expected, "{} of {data_chunks}", code.name);
                // A second rotten chunk elsewhere in the range: no single chunk explains both.
                chunks[there[(place + 1) % there.len()]][4999] ^= 1;
                let both = look(&chunks);
                assert_eq!(both, Located::Unknown, "{} of {data_chunks}", code.name);
            }
        }
    }
}

#[test]
fn two_corrupt_chunks_are_not_mistaken_for_a_third() {
    let code = by_parity_chunks(3);
    let mut chunks = group(code, 6, 64, 4);
    chunks[1][9] ^= 0x11;
    chunks[4][9] ^= 0x2f;
    let chunks: Vec<_> = (0..).zip(&chunks).map(|(i, chunk)| (i, &**chunk)).collect();
    assert_eq!(locate(code, 6, &chunks), Located::Unknown);
}

#[test]
fn the_deviating_copy_is_located() {
    let (good, rotten) = (vec![1; 100], vec![2; 100]);
    let look = |copies: &[&Vec<u8>]| {
        let copies: Vec<_> = copies.iter().map(|copy| (0, &***copy)).collect();
        locate(by_parity_chunks(0), 1, &copies)
    };
    assert_eq!(look(&[&good]), Located::None);
    assert_eq!(look(&[&good, &good, &good]), Located::None);
    assert_eq!(look(&[&good, &rotten]), Located::Unknown);
    assert_eq!(look(&[&rotten, &good, &good]), Located::Chunk(0));
    assert_eq!(look(&[&good, &good, &rotten, &good]), Located::Chunk(2));
    assert_eq!(look(&[&good, &good, &rotten, &rotten]), Located::Unknown);
}

#[test]
#[should_panic(expected = "given twice")]
fn a_duplicate_source_panics() {
    let chunk = [0; 8];
    solve(
        by_parity_chunks(1),
        2,
        &[(0, &chunk), (0, &chunk)],
        &mut [(2, &mut [0; 8])],
    );
}

#[test]
#[should_panic(expected = "differ in length")]
fn chunks_of_different_lengths_panic() {
    solve(
        by_parity_chunks(1),
        2,
        &[(0, &[0; 8]), (1, &[0; 7])],
        &mut [(2, &mut [0; 8])],
    );
}
