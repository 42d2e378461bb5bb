//! What all vector kernels share: a map is run column by column, each column a few vectors wide.
//! The sums of a column stay in registers while all sources are read once.

#![expect(
    unsafe_code,
    clippy::inline_always,
    reason = "instructions that must be there"
)]
#![expect(
    clippy::needless_range_loop,
    reason = "closures do not inherit instructions"
)]

use crate::{
    gf,
    map::{Map, SOURCES_MAX, TARGETS_MAX},
};

/// A vector register's worth of bytes. Everything is inlined into a function that enables the
/// instructions it needs; only there may it be called.
pub(super) trait Vector: Copy {
    const BYTES: usize;
    /// Whether doubling is cheaper than `times`.
    const DOUBLES: bool;
    /// A number of the field in the form in which `times` wants it.
    type Factor: Copy;

    fn factor(coefficient: u8) -> Self::Factor;

    unsafe fn zero() -> Self;
    unsafe fn load(from: *const u8) -> Self;
    unsafe fn store(self, to: *mut u8);
    /// Reads `bytes < BYTES` bytes; the others are zero.
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self;
    /// Writes the first `bytes < BYTES` bytes.
    unsafe fn store_part(self, to: *mut u8, bytes: usize);
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn add2(self, b: Self, c: Self) -> Self;
    unsafe fn times(self, factor: Self::Factor) -> Self;
    unsafe fn double(self) -> Self;
}

/// A multiplication table for two nibbles: products of 0..16, then of 16 times that.
pub(super) type Nibbles = [u8; 32];

/// One table for each number of the field.
pub(super) static NIBBLES: [Nibbles; 256] = {
    let mut tables = [[0; 32]; 256];
    let mut coefficient: u8 = 0;
    loop {
        let mut nibble: u8 = 0;
        while nibble < 16 {
            let table = &mut tables[coefficient as usize];
            table[nibble as usize] = gf::mul_slow(coefficient, nibble);
            table[16 + nibble as usize] = gf::mul_slow(coefficient, nibble << 4);
            nibble += 1;
        }
        if coefficient == 255 {
            break tables;
        }
        coefficient += 1;
    }
};

/// A way from the sources of a column to its sums.
trait Shape {
    /// The sums at byte `at` of `T` targets, `W` vectors each. With `PART`, only the first
    /// `bytes` bytes of the vector are there, and `W` is 1.
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<V>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T];
}

/// The sum of factors times sources. With `PLAIN`, all factors of the first target are 1.
struct Solve<const PLAIN: bool>;
/// Source i counts 1, 2^i, 4^i: sums by doubling from the last source to the first.
struct Powers;
/// What the targets hold, plus factors times differences of pairs. `PLAIN` as above.
struct Delta<const PLAIN: bool>;

/// A map as the shapes want it.
struct Inputs<V: Vector> {
    count: usize,
    sources: [*const u8; SOURCES_MAX],
    targets: [*mut u8; TARGETS_MAX],
    factors: [[V::Factor; SOURCES_MAX]; TARGETS_MAX],
}

/// Runs a map. `W1`, `W2` and `W3` are the vectors in a column for one, two and three targets.
///
/// # Safety
///
/// The instructions of `V` must be there.
#[inline(always)]
pub(super) unsafe fn run<V: Vector, const W1: usize, const W2: usize, const W3: usize>(
    map: &mut Map<'_>,
) {
    let count = map.source_count >> u8::from(map.delta);
    let plain = map.coefficients[0][..count].iter().all(|c| *c == 1);
    // SAFETY: the caller's.
    unsafe {
        match (map.target_count, map.delta, plain) {
            (1, false, false) => columns::<V, Solve<false>, 1, W1>(map, count),
            (2, false, false) => columns::<V, Solve<false>, 2, W2>(map, count),
            (3, false, false) => columns::<V, Solve<false>, 3, W3>(map, count),
            (1, false, true) => columns::<V, Solve<true>, 1, W1>(map, count),
            (2, false, true) if V::DOUBLES && is_powers(map) => {
                columns::<V, Powers, 2, W2>(map, count);
            }
            (3, false, true) if V::DOUBLES && is_powers(map) => {
                columns::<V, Powers, 3, W3>(map, count);
            }
            (2, false, true) => columns::<V, Solve<true>, 2, W2>(map, count),
            (3, false, true) => columns::<V, Solve<true>, 3, W3>(map, count),
            (1, true, false) => columns::<V, Delta<false>, 1, W1>(map, count),
            (2, true, false) => columns::<V, Delta<false>, 2, W2>(map, count),
            (3, true, false) => columns::<V, Delta<false>, 3, W3>(map, count),
            (1, true, true) => columns::<V, Delta<true>, 1, W1>(map, count),
            (2, true, true) => columns::<V, Delta<true>, 2, W2>(map, count),
            (3, true, true) => columns::<V, Delta<true>, 3, W3>(map, count),
            (targets, ..) => unreachable!("{targets} targets in one pass"),
        }
    }
}

/// Whether source i counts 2^i in the second target and 4^i in the third, if there is one.
fn is_powers(map: &Map<'_>) -> bool {
    let (mut two, mut four) = (1, 1);
    for source in 0..map.source_count {
        if map.coefficients[1][source] != two {
            return false;
        }
        if map.target_count > 2 && map.coefficients[2][source] != four {
            return false;
        }
        two = gf::double(two);
        four = gf::double(gf::double(four));
    }
    true
}

/// Wide columns first, then columns of one vector, then the rest.
#[inline(always)]
unsafe fn columns<V: Vector, S: Shape, const T: usize, const W: usize>(
    map: &mut Map<'_>,
    count: usize,
) {
    let mut inputs = Inputs::<V> {
        count,
        sources: [core::ptr::null(); SOURCES_MAX],
        targets: [core::ptr::null_mut(); TARGETS_MAX],
        factors: [[V::factor(0); SOURCES_MAX]; TARGETS_MAX],
    };
    for (pointer, source) in inputs
        .sources
        .iter_mut()
        .zip(&map.sources[..map.source_count])
    {
        *pointer = source.as_ptr();
    }
    for t in 0..T {
        inputs.targets[t] = map.targets[t].as_mut_ptr();
        for s in 0..count {
            inputs.factors[t][s] = V::factor(map.coefficients[t][s]);
        }
    }
    let bytes = map.bytes;
    let mut at = 0;
    // SAFETY: all slices of a map are `bytes` long, and `at` plus what is read and written there
    // stays below; the instructions are the caller's.
    unsafe {
        while bytes - at >= W * V::BYTES {
            let sums = S::sums::<V, T, W, false>(&inputs, at, 0);
            for t in 0..T {
                for w in 0..W {
                    sums[t][w].store(inputs.targets[t].add(at + w * V::BYTES));
                }
            }
            at += W * V::BYTES;
        }
        while bytes - at >= V::BYTES {
            let sums = S::sums::<V, T, 1, false>(&inputs, at, 0);
            for t in 0..T {
                sums[t][0].store(inputs.targets[t].add(at));
            }
            at += V::BYTES;
        }
        if bytes > at {
            let sums = S::sums::<V, T, 1, true>(&inputs, at, bytes - at);
            for t in 0..T {
                sums[t][0].store_part(inputs.targets[t].add(at), bytes - at);
            }
        }
    }
}

/// Vector `w` of the column at `from`.
#[inline(always)]
unsafe fn fetch<V: Vector, const PART: bool>(from: *const u8, w: usize, bytes: usize) -> V {
    // SAFETY: the caller's.
    unsafe {
        if PART {
            V::load_part(from, bytes)
        } else {
            V::load(from.add(w * V::BYTES))
        }
    }
}

impl<const PLAIN: bool> Shape for Solve<PLAIN> {
    #[inline(always)]
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<V>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T] {
        // SAFETY: the caller's.
        unsafe {
            let mut sums = [[V::zero(); W]; T];
            let mut s = 0;
            // Two sources at a time, for instructions that add three vectors.
            while s + 2 <= inputs.count {
                let (a, b) = (inputs.sources[s].add(at), inputs.sources[s + 1].add(at));
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    let b = fetch::<V, PART>(b, w, bytes);
                    for t in 0..T {
                        sums[t][w] = if PLAIN && t == 0 {
                            sums[t][w].add2(a, b)
                        } else {
                            let factors = &inputs.factors[t];
                            sums[t][w].add2(a.times(factors[s]), b.times(factors[s + 1]))
                        };
                    }
                }
                s += 2;
            }
            if s < inputs.count {
                let a = inputs.sources[s].add(at);
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    for t in 0..T {
                        let a = if PLAIN && t == 0 {
                            a
                        } else {
                            a.times(inputs.factors[t][s])
                        };
                        sums[t][w] = sums[t][w].add(a);
                    }
                }
            }
            sums
        }
    }
}

impl Shape for Powers {
    #[inline(always)]
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<V>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T] {
        // SAFETY: the caller's.
        unsafe {
            let mut sums = [[V::zero(); W]; T];
            let mut s = inputs.count;
            while s > 0 {
                s -= 1;
                let a = inputs.sources[s].add(at);
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    for t in 0..T {
                        let mut sum = sums[t][w];
                        for _ in 0..t {
                            sum = sum.double();
                        }
                        sums[t][w] = sum.add(a);
                    }
                }
            }
            sums
        }
    }
}

impl<const PLAIN: bool> Shape for Delta<PLAIN> {
    #[inline(always)]
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<V>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T] {
        // SAFETY: the caller's.
        unsafe {
            let mut sums = [[V::zero(); W]; T];
            for t in 0..T {
                for w in 0..W {
                    sums[t][w] = fetch::<V, PART>(inputs.targets[t].add(at), w, bytes);
                }
            }
            for s in 0..inputs.count {
                let (old, new) = (
                    inputs.sources[2 * s].add(at),
                    inputs.sources[2 * s + 1].add(at),
                );
                for w in 0..W {
                    let old = fetch::<V, PART>(old, w, bytes);
                    let new = fetch::<V, PART>(new, w, bytes);
                    for t in 0..T {
                        sums[t][w] = if PLAIN && t == 0 {
                            sums[t][w].add2(old, new)
                        } else {
                            sums[t][w].add(old.add(new).times(inputs.factors[t][s]))
                        };
                    }
                }
            }
            sums
        }
    }
}
