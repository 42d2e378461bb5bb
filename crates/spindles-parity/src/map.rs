//! Builds the linear map that a kernel runs from the known and the wanted chunks.

use crate::codes::Code;
use crate::linear::{CHUNKS_MAX, Kernel, Map, SOURCES_MAX, Sources, TARGETS_MAX};
use crate::{gf, kernels};

fn run(kernel: &Kernel, map: &mut Map<'_, '_, '_>) {
    let bytes = map.bytes;
    let same = match map.sources {
        Sources::Plain(sources) => sources.iter().all(|(_, s)| s.len() == bytes),
        Sources::Pairs(pairs) => pairs
            .iter()
            .all(|(_, old, new)| old.len() == bytes && new.len() == bytes),
    };
    assert!(
        same && map.targets.iter().all(|(_, t)| t.len() == bytes),
        "chunks differ in length"
    );
    kernels::run(kernel, map);
}

/// See [`crate::solve`].
pub(crate) fn solve(
    kernel: &Kernel,
    code: &Code,
    data_chunks: u8,
    sources: &[(u8, &[u8])],
    targets: &mut [(u8, &mut [u8])],
) {
    check(code, data_chunks);
    assert_eq!(
        sources.len(),
        usize::from(data_chunks),
        "one source for each data chunk"
    );
    let missing = Missing::new(code, data_chunks, sources);
    for targets in targets.chunks_mut(TARGETS_MAX) {
        let mut rows = [[0; SOURCES_MAX]; TARGETS_MAX];
        for (row, (target, _)) in rows.iter_mut().zip(&*targets) {
            for (coefficient, (source, _)) in row.iter_mut().zip(sources) {
                *coefficient = missing.coefficient(*target, *source);
            }
        }
        let bytes = sources[0].1.len();
        run(
            kernel,
            &mut Map {
                bytes,
                sources: Sources::Plain(sources),
                targets,
                rows,
            },
        );
    }
}

/// See [`crate::update`].
pub(crate) fn update(
    kernel: &Kernel,
    code: &Code,
    data_chunks: u8,
    pairs: &[(u8, &[u8], &[u8])],
    targets: &mut [(u8, &mut [u8])],
) {
    check(code, data_chunks);
    for targets in targets.chunks_mut(TARGETS_MAX) {
        for pairs in pairs.chunks(SOURCES_MAX) {
            let mut rows = [[0; SOURCES_MAX]; TARGETS_MAX];
            for (row, (target, _)) in rows.iter_mut().zip(&*targets) {
                let parity = parity_of(code, data_chunks, *target).expect("targets are parity");
                for (coefficient, (data, ..)) in row.iter_mut().zip(pairs) {
                    assert!(*data < data_chunks, "pairs are of data chunks");
                    *coefficient = (code.coefficient)(parity, *data);
                }
            }
            let bytes = pairs[0].1.len();
            run(
                kernel,
                &mut Map {
                    bytes,
                    sources: Sources::Pairs(pairs),
                    targets,
                    rows,
                },
            );
        }
    }
}

fn check(code: &Code, data_chunks: u8) {
    assert!(data_chunks > 0 && data_chunks + code.parity_chunks <= CHUNKS_MAX);
    assert!(
        code.parity_chunks > 0 || data_chunks == 1,
        "copies are of one chunk"
    );
    assert!(usize::from(code.parity_chunks) <= TARGETS_MAX);
}

/// Returns the number of parity chunk `index`; `None` for a data chunk.
fn parity_of(code: &Code, data_chunks: u8, index: u8) -> Option<u8> {
    assert!(
        index < data_chunks + code.parity_chunks,
        "no chunk {index} in the group"
    );
    index.checked_sub(data_chunks)
}

/// The data chunks that are not among the sources, and equally many parity chunks that are. For
/// missing data m and parities q that is one equation each,
/// `sum over m of c(q, m) * D_m = parity q + sum over known i of c(q, i) * D_i`, solved once by
/// inverting c(q, m).
struct Missing<'a> {
    code: &'a Code,
    data_chunks: u8,
    count: usize,
    data: [u8; TARGETS_MAX],
    parity: [u8; TARGETS_MAX],
    /// `inverse[m][q]`.
    inverse: [[u8; TARGETS_MAX]; TARGETS_MAX],
}

impl<'a> Missing<'a> {
    fn new(code: &'a Code, data_chunks: u8, sources: &[(u8, &[u8])]) -> Self {
        let mut this = Self {
            code,
            data_chunks,
            count: 0,
            data: [0; TARGETS_MAX],
            parity: [0; TARGETS_MAX],
            inverse: [[0; TARGETS_MAX]; TARGETS_MAX],
        };
        let mut known = 0u64;
        let mut parities = 0;
        for (index, _) in sources {
            assert!(known >> index & 1 == 0, "chunk {index} given twice");
            known |= 1 << index;
            if let Some(parity) = parity_of(code, data_chunks, *index) {
                this.parity[parities] = parity;
                parities += 1;
            }
        }
        if parities == 0 {
            return this;
        }
        for data in (0..data_chunks).filter(|data| known >> data & 1 == 0) {
            this.data[this.count] = data;
            this.count += 1;
        }
        assert_eq!(this.count, parities);
        this.invert();
        this
    }

    /// Gauss-Jordan elimination on c(q, m), augmented with the unit matrix.
    fn invert(&mut self) {
        let count = self.count;
        let mut left = [[0; TARGETS_MAX]; TARGETS_MAX];
        let mut right = [[0; TARGETS_MAX]; TARGETS_MAX];
        for q in 0..count {
            for (cell, data) in left[q][..count].iter_mut().zip(self.data) {
                *cell = (self.code.coefficient)(self.parity[q], data);
            }
            right[q][q] = 1;
        }
        for column in 0..count {
            let pivot = (column..count)
                .find(|&row| left[row][column] != 0)
                .expect("every square part of a code is invertible");
            left.swap(column, pivot);
            right.swap(column, pivot);
            let scale = gf::invert(left[column][column]);
            for k in 0..count {
                left[column][k] = gf::mul(scale, left[column][k]);
                right[column][k] = gf::mul(scale, right[column][k]);
            }
            for row in (0..count).filter(|&row| row != column) {
                let factor = left[row][column];
                for k in 0..count {
                    left[row][k] ^= gf::mul(factor, left[column][k]);
                    right[row][k] ^= gf::mul(factor, right[column][k]);
                }
            }
        }
        self.inverse = right;
    }

    /// The factor of the known chunk `source` in the chunk `target`.
    fn coefficient(&self, target: u8, source: u8) -> u8 {
        if let Some(parity) = parity_of(self.code, self.data_chunks, target) {
            let by_missing = (0..self.count).fold(0, |sum, m| {
                let count = (self.code.coefficient)(parity, self.data[m]);
                sum ^ gf::mul(count, self.in_missing(m, source))
            });
            return match parity_of(self.code, self.data_chunks, source) {
                Some(_) => by_missing,
                None => by_missing ^ (self.code.coefficient)(parity, source),
            };
        }
        match self.data[..self.count]
            .iter()
            .position(|data| *data == target)
        {
            Some(m) => self.in_missing(m, source),
            None => u8::from(source == target),
        }
    }

    /// The factor of the known chunk `source` in the `m`th missing data chunk.
    fn in_missing(&self, m: usize, source: u8) -> u8 {
        let parity = parity_of(self.code, self.data_chunks, source);
        (0..self.count).fold(0, |sum, q| {
            let count = match parity {
                Some(parity) => u8::from(parity == self.parity[q]),
                None => (self.code.coefficient)(self.parity[q], source),
            };
            sum ^ gf::mul(self.inverse[m][q], count)
        })
    }
}
