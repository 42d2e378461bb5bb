//! The code shared by all vector kernels. A map is run column by column, each a few vectors wide.
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
    linear::{Map, Row, SOURCES_MAX, Sources},
};
use core::mem::MaybeUninit;

/// The bytes of one vector register. Every method is inlined into a function that enables the
/// instructions it needs, and may be called only there.
pub(super) trait Vector: Copy {
    const BYTES: usize;
    /// The most targets for which encoding by `double_add` is cheaper than by `times`.
    const DOUBLES_MAX: usize;
    /// A field element in the form that `times` needs.
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
    /// `2 * self + b`.
    unsafe fn double_add(self, b: Self) -> Self;
}

/// A multiplication table for two nibbles: the products of 0..16, then the products of 16 *
/// (0..16).
pub(super) type Nibbles = [u8; 32];

/// One table for each field element.
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

/// A way to compute the sums of a column from its sources.
trait Shape {
    /// One source, or pair, with its index.
    type Source<'bytes>;

    /// The sums at byte `at` of `T` targets, `W` vectors each. With `PART`, only the first `bytes`
    /// bytes of the vector exist, and `W` is 1.
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<'_, V, Self::Source<'_>, T>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T];
}

/// The sum of factors times sources. With `PLAIN`, all factors of the first target are 1.
struct Solve<const PLAIN: bool>;
/// Source i has factors 1, 2^i, 4^i: sums by doubling from the last source to the first.
struct Powers;
/// The targets' contents plus factors times differences of pairs. `PLAIN` as above.
struct Delta<const PLAIN: bool>;

type Plain<'bytes> = (u8, &'bytes [u8]);
type Pair<'bytes> = (u8, &'bytes [u8], &'bytes [u8]);

/// A map in the form that the shapes need.
struct Inputs<'a, V: Vector, Source, const T: usize> {
    sources: &'a [Source],
    targets: [*mut u8; T],
    /// Set for each source.
    factors: [[MaybeUninit<V::Factor>; SOURCES_MAX]; T],
}

impl<V: Vector, Source, const T: usize> Inputs<'_, V, Source, T> {
    #[inline(always)]
    unsafe fn factor(&self, t: usize, s: usize) -> V::Factor {
        // SAFETY: `columns` has set the factors of all sources.
        unsafe { self.factors[t].get_unchecked(s).assume_init() }
    }
}

/// Runs a map. `W1`, `W2` and `W3` are the vectors in a column for one, two and three targets.
///
/// # Safety
///
/// This machine must have the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn run<V: Vector, const W1: usize, const W2: usize, const W3: usize>(
    map: &mut Map<'_, '_, '_>,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match map.sources {
            Sources::Plain(sources) => {
                let plain = map.rows[0][..sources.len()].iter().all(|c| *c == 1);
                match (map.targets.len(), plain) {
                    (1, false) => columns::<V, Solve<false>, 1, W1>(map, sources),
                    (2, false) => columns::<V, Solve<false>, 2, W2>(map, sources),
                    (3, false) => columns::<V, Solve<false>, 3, W3>(map, sources),
                    (1, true) => columns::<V, Solve<true>, 1, W1>(map, sources),
                    (targets, true)
                        if targets <= V::DOUBLES_MAX && is_powers(map, sources.len()) =>
                    {
                        match targets {
                            2 => columns::<V, Powers, 2, W2>(map, sources),
                            _ => columns::<V, Powers, 3, W3>(map, sources),
                        }
                    }
                    (2, true) => columns::<V, Solve<true>, 2, W2>(map, sources),
                    (3, true) => columns::<V, Solve<true>, 3, W3>(map, sources),
                    (targets, _) => unreachable!("{targets} targets in one pass"),
                }
            }
            Sources::Pairs(pairs) => {
                let plain = map.rows[0][..pairs.len()].iter().all(|c| *c == 1);
                match (map.targets.len(), plain) {
                    (1, false) => columns::<V, Delta<false>, 1, W1>(map, pairs),
                    (2, false) => columns::<V, Delta<false>, 2, W2>(map, pairs),
                    (3, false) => columns::<V, Delta<false>, 3, W3>(map, pairs),
                    (1, true) => columns::<V, Delta<true>, 1, W1>(map, pairs),
                    (2, true) => columns::<V, Delta<true>, 2, W2>(map, pairs),
                    (3, true) => columns::<V, Delta<true>, 3, W3>(map, pairs),
                    (targets, _) => unreachable!("{targets} targets in one pass"),
                }
            }
        }
    }
}

/// Returns true if source i has factor 2^i in the second target and, if there is a third, 4^i in
/// it.
fn is_powers(map: &Map<'_, '_, '_>, count: usize) -> bool {
    let follows = |row: &Row, step: fn(u8) -> u8| {
        row[0] == 1 && (1..count).all(|source| row[source] == step(row[source - 1]))
    };
    follows(&map.rows[1], gf::double)
        && (map.targets.len() < 3 || follows(&map.rows[2], |c| gf::double(gf::double(c))))
}

/// Wide columns first, then columns of one vector, then the rest.
#[inline(always)]
unsafe fn columns<V: Vector, S: Shape, const T: usize, const W: usize>(
    map: &mut Map<'_, '_, '_>,
    sources: &[S::Source<'_>],
) {
    let mut inputs = Inputs::<V, S::Source<'_>, T> {
        sources,
        targets: [core::ptr::null_mut(); T],
        factors: [[const { MaybeUninit::uninit() }; SOURCES_MAX]; T],
    };
    for t in 0..T {
        inputs.targets[t] = map.targets[t].1.as_mut_ptr();
        for s in 0..sources.len() {
            inputs.factors[t][s].write(V::factor(map.rows[t][s]));
        }
    }
    let bytes = map.bytes;
    let mut at = 0;
    // SAFETY: all slices of a map are `bytes` long, and every access at `at` stays within them. The
    // caller guarantees the instructions.
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
    // SAFETY: guaranteed by the caller.
    unsafe {
        if PART {
            V::load_part(from, bytes)
        } else {
            V::load(from.add(w * V::BYTES))
        }
    }
}

impl<const PLAIN: bool> Shape for Solve<PLAIN> {
    type Source<'bytes> = Plain<'bytes>;

    #[inline(always)]
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<'_, V, Plain<'_>, T>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [[V::zero(); W]; T];
            let mut s = 0;
            // Two sources at a time, for instructions that add three vectors.
            while s + 2 <= inputs.sources.len() {
                let a = inputs.sources.get_unchecked(s).1.as_ptr().add(at);
                let b = inputs.sources.get_unchecked(s + 1).1.as_ptr().add(at);
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    let b = fetch::<V, PART>(b, w, bytes);
                    for t in 0..T {
                        sums[t][w] = if PLAIN && t == 0 {
                            sums[t][w].add2(a, b)
                        } else {
                            let a = a.times(inputs.factor(t, s));
                            sums[t][w].add2(a, b.times(inputs.factor(t, s + 1)))
                        };
                    }
                }
                s += 2;
            }
            if s < inputs.sources.len() {
                let a = inputs.sources.get_unchecked(s).1.as_ptr().add(at);
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    for t in 0..T {
                        let a = if PLAIN && t == 0 {
                            a
                        } else {
                            a.times(inputs.factor(t, s))
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
    type Source<'bytes> = Plain<'bytes>;

    #[inline(always)]
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<'_, V, Plain<'_>, T>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [[V::zero(); W]; T];
            let mut s = inputs.sources.len();
            if s % 2 == 1 {
                s -= 1;
                let a = inputs.sources.get_unchecked(s).1.as_ptr().add(at);
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    for t in 0..T {
                        sums[t][w] = a;
                    }
                }
            }
            while s > 0 {
                s -= 2;
                let a = inputs.sources.get_unchecked(s).1.as_ptr().add(at);
                let b = inputs.sources.get_unchecked(s + 1).1.as_ptr().add(at);
                for w in 0..W {
                    let a = fetch::<V, PART>(a, w, bytes);
                    let b = fetch::<V, PART>(b, w, bytes);
                    for t in 0..T {
                        sums[t][w] = match t {
                            0 => sums[t][w].add2(a, b),
                            1 => sums[t][w].double_add(b).double_add(a),
                            _ => {
                                let sum = sums[t][w].double_add(V::zero()).double_add(b);
                                sum.double_add(V::zero()).double_add(a)
                            }
                        };
                    }
                }
            }
            sums
        }
    }
}

impl<const PLAIN: bool> Shape for Delta<PLAIN> {
    type Source<'bytes> = Pair<'bytes>;

    #[inline(always)]
    unsafe fn sums<V: Vector, const T: usize, const W: usize, const PART: bool>(
        inputs: &Inputs<'_, V, Pair<'_>, T>,
        at: usize,
        bytes: usize,
    ) -> [[V; W]; T] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [[V::zero(); W]; T];
            for t in 0..T {
                for w in 0..W {
                    sums[t][w] = fetch::<V, PART>(inputs.targets[t].add(at), w, bytes);
                }
            }
            for s in 0..inputs.sources.len() {
                let (_, old, new) = inputs.sources.get_unchecked(s);
                for w in 0..W {
                    let old = fetch::<V, PART>(old.as_ptr().add(at), w, bytes);
                    let new = fetch::<V, PART>(new.as_ptr().add(at), w, bytes);
                    for t in 0..T {
                        sums[t][w] = if PLAIN && t == 0 {
                            sums[t][w].add2(old, new)
                        } else {
                            sums[t][w].add(old.add(new).times(inputs.factor(t, s)))
                        };
                    }
                }
            }
            sums
        }
    }
}
