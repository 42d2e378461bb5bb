//! Contents as numbers. An *atom* is the unit in which a write tears; what it holds is a number
//! here, so that a whole array is copied, compared and hashed in a moment, and every computation
//! over the same contents is done once.

use crate::memory::carry_out;
use spindles_block::{BufferSlice, Compute, ComputeResult, Step};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What an atom holds: its place among all contents seen.
pub(super) type Content = u32;

/// Nothing but zeros.
pub(super) const ZEROS: Content = 0;

/// What no disk and no client ever writes: buffers are filled with it.
pub(super) const POISON: Content = 1;

/// All contents seen, and all that was computed of them.
#[derive(Debug)]
pub(super) struct Store {
    atom_bytes: usize,
    contents: Vec<Box<[u8]>>,
    by_hash: BTreeMap<u64, Vec<Content>>,
    computed: BTreeMap<u64, Vec<Computed>>,
}

#[derive(Debug)]
struct Computed {
    compute: Compute,
    operands: Vec<u32>,
    came: Came,
}

/// What came of a step.
#[derive(Clone, Debug)]
pub(super) struct Came {
    pub(super) result: ComputeResult,
    /// The atoms of each target.
    pub(super) targets: Vec<Rc<[Content]>>,
    pub(super) checksums: Vec<u32>,
}

/// A number that follows from two.
pub(super) fn mix(one: u64, other: u64) -> u64 {
    let value = one.rotate_left(23) ^ other.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// A hash of bytes, of which several lanes are taken at a time.
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

impl Store {
    pub(super) fn new(atom_bytes: usize) -> Self {
        let mut store = Self {
            atom_bytes,
            contents: Vec::new(),
            by_hash: BTreeMap::new(),
            computed: BTreeMap::new(),
        };
        assert_eq!(store.atom(&vec![0; atom_bytes]), ZEROS);
        assert_eq!(store.atom(&vec![0xdd; atom_bytes]), POISON);
        store
    }

    /// The number of what one atom holds.
    pub(super) fn atom(&mut self, bytes: &[u8]) -> Content {
        assert_eq!(bytes.len(), self.atom_bytes);
        let known = self.by_hash.entry(hash(bytes)).or_default();
        let number = |content: &Content| usize::try_from(*content).expect("they are in memory");
        let same = known
            .iter()
            .find(|content| *self.contents[number(content)] == *bytes);
        if let Some(content) = same {
            return *content;
        }
        let content = Content::try_from(self.contents.len()).expect("few contents");
        self.contents.push(bytes.into());
        known.push(content);
        content
    }

    /// The numbers of whole atoms.
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

    /// The same into memory of that size.
    pub(super) fn fill(&self, atoms: &[Content], out: &mut [u8]) {
        for (atom, out) in atoms.iter().zip(out.chunks_exact_mut(self.atom_bytes)) {
            out.copy_from_slice(self.held(*atom));
        }
    }

    /// The bytes of atoms.
    pub(super) fn bytes(&self, atoms: &[Content]) -> Vec<u8> {
        let held = atoms.iter().map(|atom| self.held(*atom));
        held.collect::<Vec<_>>().concat()
    }

    /// What a step finds and computes. `load` brings the atoms of a place.
    pub(super) fn compute<'a>(
        &mut self,
        step: &Step<'_>,
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
        let known = self.computed.get(&hash).into_iter().flatten();
        let mut known = known.filter(|known| known.compute == step.compute);
        if let Some(known) = known.find(|known| known.operands == operands) {
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
        self.computed.entry(hash).or_default().push(Computed {
            compute: step.compute,
            operands,
            came: came.clone(),
        });
        came
    }
}
