//! Contents as numbers. An *atom* is the unit in which a write tears. Its contents are a number
//! here, so that a whole array is quickly copied, compared and hashed. Every computation over the
//! same contents is done once.

use crate::memory::carry_out;
use spindles_block::{BufferSlice, Computation, Compute, ComputeResult};
use std::rc::Rc;

/// The contents of an atom: an index into all contents seen.
pub(super) type Content = u32;

/// Nothing but zeros.
pub(super) const ZEROS: Content = 0;

/// Contents that no disk and no client ever writes: buffers are filled with it.
pub(super) const POISON: Content = 1;

/// All contents seen, and the results of all computations on them.
#[derive(Debug)]
pub(super) struct Store {
    atom_bytes: usize,
    contents: Vec<Box<[u8]>>,
    numbers: ByHash<Content>,
    computed: ByHash<Computed>,
}

#[derive(Debug)]
struct Computed {
    compute: Compute,
    operands: Vec<u32>,
    came: Came,
}

/// The result of a computation step.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) result: ComputeResult,
    /// The atoms of each target.
    pub(super) targets: Vec<Rc<[Content]>>,
    pub(super) checksums: Vec<u32>,
}

/// Mixes two numbers into one.
pub(super) fn mix(one: u64, other: u64) -> u64 {
    let value = one.rotate_left(23) ^ other.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Hashes bytes, in several lanes at a time.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (parts, last) = words.as_chunks::<4>();
    let mut lanes = [1, 2, 3, 4];
    for part in parts {
        for (lane, word) in lanes.iter_mut().zip(part) {
            let value = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *lane = value ^ value >> 32;
        }
    }
    let last = last.iter().map(|word| u64::from_le_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    last.chain(rest).chain(lanes).fold(0, mix)
}

/// Values by hash. Different values may share a hash. The number of buckets is a power of two.
#[derive(Debug)]
struct ByHash<T> {
    buckets: Vec<Vec<(u64, T)>>,
    count: usize,
}

impl<T> ByHash<T> {
    fn new() -> Self {
        let buckets = std::iter::repeat_with(Vec::new).take(1 << 10).collect();
        Self { buckets, count: 0 }
    }

    fn bucket(&self, hash: u64) -> usize {
        let which = hash & u64::try_from(self.buckets.len() - 1).expect("they are in memory");
        usize::try_from(which).expect("it is one of them")
    }

    /// Returns the value with this hash for which `is_it` returns true.
    fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        let mut bucket = self.buckets[self.bucket(hash)].iter();
        let found = bucket.find(|(of, value)| *of == hash && is_it(value));
        found.map(|(_, value)| value)
    }

    fn insert(&mut self, hash: u64, value: T) {
        if self.count == self.buckets.len() {
            let twice = std::iter::repeat_with(Vec::new)
                .take(2 * self.count)
                .collect();
            for (hash, value) in std::mem::replace(&mut self.buckets, twice)
                .into_iter()
                .flatten()
            {
                let bucket = self.bucket(hash);
                self.buckets[bucket].push((hash, value));
            }
        }
        let bucket = self.bucket(hash);
        self.buckets[bucket].push((hash, value));
        self.count += 1;
    }
}

impl Store {
    pub(super) fn new(atom_bytes: usize) -> Self {
        let mut store = Self {
            atom_bytes,
            contents: Vec::new(),
            numbers: ByHash::new(),
            computed: ByHash::new(),
        };
        assert_eq!(store.atom(&vec![0; atom_bytes]), ZEROS);
        assert_eq!(store.atom(&vec![0xdd; atom_bytes]), POISON);
        store
    }

    /// Returns the number of one atom's contents.
    pub(super) fn atom(&mut self, bytes: &[u8]) -> Content {
        assert_eq!(bytes.len(), self.atom_bytes);
        let hash = hash(bytes);
        let same = |&content: &Content| self.held(content) == bytes;
        if let Some(content) = self.numbers.find(hash, same) {
            return *content;
        }
        let content = Content::try_from(self.contents.len()).expect("few contents");
        self.contents.push(bytes.into());
        self.numbers.insert(hash, content);
        content
    }

    /// Returns the numbers of whole atoms.
    pub(super) fn atoms(&mut self, bytes: &[u8]) -> Rc<[Content]> {
        let atom_bytes = self.atom_bytes;
        bytes
            .chunks_exact(atom_bytes)
            .map(|atom| self.atom(atom))
            .collect()
    }

    fn held(&self, atom: Content) -> &[u8] {
        &self.contents[usize::try_from(atom).expect("they are in memory")]
    }

    /// Copies the bytes of atoms to `out`.
    pub(super) fn fill(&self, atoms: &[Content], out: &mut [u8]) {
        for (atom, out) in atoms.iter().zip(out.chunks_exact_mut(self.atom_bytes)) {
            out.copy_from_slice(self.held(*atom));
        }
    }

    /// Returns the bytes of atoms.
    pub(super) fn bytes(&self, atoms: &[Content]) -> Vec<u8> {
        let held = atoms.iter().map(|atom| self.held(*atom));
        held.collect::<Vec<_>>().concat()
    }

    /// Returns the result of a step. `load` returns the atoms of a slice.
    pub(super) fn compute<'a>(
        &mut self,
        step: &Computation<'_>,
        load: impl Fn(BufferSlice) -> &'a [Content],
    ) -> Came {
        let mut operands = vec![
            u32::from(step.data_chunks),
            u32::from(step.parity_chunks),
            u32::try_from(step.sources.len()).expect("few"),
            step.blocks,
        ];
        for operand in step.sources.iter().chain(step.targets) {
            operands.push(u32::from(operand.index));
            operands.extend_from_slice(load(operand.slice));
        }
        let hash = operands
            .iter()
            .fold(0, |hash, word| mix(hash, u64::from(*word)));
        let same = |known: &Computed| known.compute == step.compute && known.operands == operands;
        if let Some(known) = self.computed.find(hash, same) {
            return known.came.clone();
        }
        let blocks = usize::try_from(step.blocks).expect("few");
        let first = step.sources.first().expect("a step has sources");
        let block_bytes = load(first.slice).len() * self.atom_bytes / blocks;
        let carried = carry_out(step, block_bytes, |slice| self.bytes(load(slice)));
        let targets = carried.bytes.iter().map(|(_, bytes)| self.atoms(bytes));
        let came = Came {
            result: carried.result,
            targets: targets.collect(),
            checksums: carried.checksums,
        };
        let computed = Computed {
            compute: step.compute,
            operands,
            came: came.clone(),
        };
        self.computed.insert(hash, computed);
        came
    }
}
