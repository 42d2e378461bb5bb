//! A load of the stage: the reads, the verdict on batches, and the repair of their columns. The
//! order of the work is in `engine/staging/loading.rs`.

use crate::{
    stage::judge::{Directory, Evidence, Judged, Verdict},
    system_io::Place,
};
use alloc::{collections::VecDeque, vec, vec::Vec};
use spindles_block::{
    BlockIndex, BufferSlice, Computation, Compute, MemberIndex, MemberSet, Operand,
};
use spindles_format::StageColumn;

/// The step of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Descriptors,
    Scanning,
    Checking,
    Tail,
    Voiding,
    Loading,
    Listing,
    Done,
}

/// The reads of one holder's stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    /// The next place to read.
    pub(crate) next: u32,
    /// The blocks of the read under way.
    pub(crate) blocks: u32,
    /// Up to here a window could not be read: blocks are read in small pieces.
    pub(crate) spoiled: u32,
}

/// The batch whose columns are read now.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub(crate) judged: Judged,
    /// The next column to read, and the next row of it.
    pub(crate) read: u8,
    pub(crate) read_row: u32,
    /// The next row to compute, column to write again, and column to copy.
    pub(crate) row: u32,
    pub(crate) repair: usize,
    pub(crate) copy: u8,
    pub(crate) to: BufferSlice,
}

/// A load of the stage.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) step: Step,
    pub(crate) window: Place,
    /// The work area: room for the longest column of each holder.
    pub(crate) work: BufferSlice,
    pub(crate) column_max: u32,
    pub(crate) scans: Vec<Scan>,
    pub(crate) pending: u32,
    pub(crate) nonce: u64,
    pub(crate) generation: u64,
    pub(crate) present: MemberSet,
    pub(crate) evidence: Option<Evidence>,
    /// Columns to be checked, with the row from which to read one by one.
    pub(crate) columns: VecDeque<(Directory, u8)>,
    pub(crate) row: Option<u32>,
    pub(crate) checksums: Vec<u32>,
    pub(crate) operands: Vec<Operand>,
    pub(crate) sources: usize,
    pub(crate) compute: Compute,
    pub(crate) blocks: u32,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) voids: VecDeque<(StageColumn, u32)>,
    pub(crate) batches: VecDeque<Judged>,
    pub(crate) current: Option<Current>,
    pub(crate) lost: Vec<BlockIndex>,
    pub(crate) lost_any: bool,
}

/// Blocks that are read at once.
const WINDOW_BYTES: u32 = 64 << 10;

impl Load {
    /// Reserves what a load needs.
    pub(crate) fn new(window: Place, work: BufferSlice, column_max: u32, holders: u8) -> Self {
        let scan = Scan {
            next: 0,
            blocks: 0,
            spoiled: 0,
        };
        Self {
            step: Step::Descriptors,
            window,
            work,
            column_max,
            scans: vec![scan; holders.into()],
            pending: 0,
            nonce: 0,
            generation: 0,
            present: MemberSet::EMPTY,
            evidence: None,
            columns: VecDeque::new(),
            row: None,
            checksums: Vec::new(),
            operands: Vec::new(),
            sources: 0,
            compute: Compute::Checksum,
            blocks: 0,
            verdict: None,
            voids: VecDeque::new(),
            batches: VecDeque::new(),
            current: None,
            lost: Vec::new(),
            lost_any: false,
        }
    }

    /// The blocks of a window of this block size.
    pub(crate) const fn window_blocks(block_bytes: u32) -> u32 {
        WINDOW_BYTES / block_bytes
    }

    /// Returns the part of the work area for a column.
    pub(crate) fn work_of(&self, column: u8) -> BufferSlice {
        self.work.plus(u32::from(column) * self.column_max)
    }

    /// The computation under way.
    pub(crate) fn computation(&self, shape: Option<(u8, u8)>) -> Computation<'_> {
        let (sources, targets) = self.operands.split_at(self.sources);
        let (data_chunks, parity_chunks) = shape.unwrap_or((1, 0));
        Computation {
            compute: self.compute,
            data_chunks,
            parity_chunks,
            blocks: self.blocks,
            sources,
            targets,
        }
    }

    /// The data and parity columns of the batch that is being loaded.
    pub(crate) fn shape(&self) -> Option<(u8, u8)> {
        let current = self.current.as_ref()?;
        let shape = current.judged.directory.batch.shape;
        Some((shape.data, shape.parity))
    }

    /// The checksums that the computation fills.
    pub(crate) fn checksums_mut(&mut self) -> &mut [u32] {
        &mut self.checksums
    }

    /// Returns the block of memory of the column that is being written again.
    pub(crate) fn repaired(&self, holder: MemberIndex) -> (BufferSlice, u32) {
        let current = self.current.as_ref().expect("a batch is made whole");
        let directory = &current.judged.directory;
        let mut columns = (0..).zip(&directory.columns);
        let column = columns.find(|(_, column)| column.holder == holder);
        let (at, _) = column.expect("it has a column");
        (self.work_of(at), directory.batch.shape.blocks_of(at))
    }
}
