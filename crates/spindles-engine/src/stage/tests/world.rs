//! The devices, places and clients around a stage.

use super::*;
use spindles_parity::{by_parity_chunks, solve};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The contents of a block. A value is its own checksum, so no two contents pass for each other.
pub(super) type Value = [u8; 4];

const ZEROS: Value = [0; 4];
/// Blocks of the array.
const BLOCKS: u64 = 7;
/// The most images of the first crash, and of the second.
const IMAGES_MAX: [usize; 2] = [40, 12];

/// The holders of a stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) holders: u8,
    pub(super) parity: u8,
}

/// A piece of a holder's stage.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cell {
    Header(Rc<Directory>),
    Block(Value),
    /// Neither: torn, corrupt, or another use of the space.
    Junk,
}

impl Hash for Cell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Header(directory) => {
                let batch = &directory.batch;
                (
                    0,
                    batch.number,
                    batch.tail,
                    batch.durable,
                    &directory.checksums,
                )
                    .hash(state);
            }
            Self::Block(value) => (1, value).hash(state),
            Self::Junk => 2.hash(state),
        }
    }
}

/// A place on any holder.
type At = (u8, u32);

/// A write that is not durable.
#[derive(Clone, Debug)]
struct Volatile {
    cells: Vec<(At, Cell)>,
    answered: bool,
}

/// What survives a crash.
#[derive(Clone, Debug, Hash)]
struct Image {
    cells: BTreeMap<At, Cell>,
    places: BTreeMap<u64, Value>,
    out: u64,
    listed: BTreeSet<u64>,
    generation: u64,
}

/// The versions of a block. Version 0 is any value of `base`; `None` is an error.
#[derive(Clone, Debug, Hash)]
struct History {
    base: BTreeSet<Option<Value>>,
    versions: Vec<Value>,
    answered: usize,
    durable: usize,
}

impl History {
    fn legal(&self, from: usize) -> BTreeSet<Option<Value>> {
        let later = self.versions[from.saturating_sub(1)..]
            .iter()
            .copied()
            .map(Some);
        let mut legal: BTreeSet<Option<Value>> = later.collect();
        if from == 0 {
            legal.extend(&self.base);
        }
        legal
    }
}

/// The kind of a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    Power,
    Process,
}

/// A stage with everything around it.
#[derive(Clone, Debug)]
pub(super) struct World {
    sizes: Sizes,
    fault: Fault,
    layout: StageLayout,
    stage: Stage,
    memory: Vec<Value>,
    header: Vec<u8>,
    durable: Image,
    volatile: Vec<Volatile>,
    /// Values placed, and not flushed.
    placed: Vec<(u64, Value)>,
    /// A write to a place that is under way.
    placing: Option<(u64, Value)>,
    histories: Vec<History>,
    /// Where the batches lie that are not released.
    laid: Vec<(u64, Vec<At>)>,
    /// The first contents of each block that were loaded.
    first: BTreeMap<u64, Value>,
    writes: u32,
    version: u8,
    /// True if a holder is corrupt beyond what is missing.
    spent: bool,
}

/// Looks at every moment.
pub(super) type Look<'a> = &'a mut dyn FnMut(&World, &str) -> Result<(), String>;

fn setup(sizes: Sizes, layout: StageLayout, generation: u64) -> Setup {
    Setup {
        array: Uuid([1; 16]),
        nonce: 7,
        layout,
        holders: sizes.holders,
        parity_max: sizes.parity,
        number: generation << 32,
        memory: BufferSlice {
            buffer: spindles_block::BufferId(5),
            first_block: 0,
        },
        memory_blocks: 64,
        zeros_max: 4,
        writes_max: 8,
        batches_max: 16,
    }
}

impl World {
    pub(super) fn new(sizes: Sizes, fault: Fault) -> Self {
        let image = Image {
            cells: BTreeMap::new(),
            places: (0..BLOCKS).map(|block| (block, ZEROS)).collect(),
            out: 0,
            listed: BTreeSet::new(),
            generation: 1,
        };
        let history = History {
            base: [Some(ZEROS)].into(),
            versions: Vec::new(),
            answered: 0,
            durable: 0,
        };
        Self::around(sizes, fault, image, vec![history; index_of(BLOCKS)])
    }

    fn around(sizes: Sizes, fault: Fault, durable: Image, histories: Vec<History>) -> Self {
        let bytes = (16 << 10) + 8 * ((4 << 10) + (128 << 10));
        let layout = StageLayout::new(bytes, BlockSize::B4096).expect("long enough");
        let setup = setup(sizes, layout, durable.generation);
        let memory = setup.memory_blocks + Stage::parity_blocks(&setup);
        Self {
            sizes,
            fault,
            layout,
            stage: Stage::new(setup),
            memory: vec![ZEROS; index(memory)],
            header: vec![0; STAGE_HEADER_BYTES],
            durable,
            volatile: Vec::new(),
            placed: Vec::new(),
            placing: None,
            histories,
            laid: Vec::new(),
            first: BTreeMap::new(),
            writes: 0,
            version: 0,
            spent: false,
        }
    }

    fn present(&self) -> MemberSet {
        let out = MemberSet::from_bits(self.durable.out);
        MemberSet::all(self.sizes.holders).difference(out)
    }

    fn out_count(&self) -> u8 {
        u8::try_from(self.durable.out.count_ones()).expect("few")
    }

    // ---- devices ------------------------------------------------------------------------------

    fn write(&mut self, cells: Vec<(At, Cell)>) {
        self.volatile.push(Volatile {
            cells,
            answered: false,
        });
    }

    fn answer(&mut self) {
        for write in &mut self.volatile {
            write.answered = true;
        }
    }

    fn flush_holders(&mut self) {
        for write in core::mem::take(&mut self.volatile) {
            if write.answered {
                self.durable.cells.extend(write.cells);
            } else {
                self.volatile.push(write);
            }
        }
    }

    /// Makes the writes from this one on durable, as FUA does.
    fn persist(&mut self, from: usize) {
        for write in self.volatile.split_off(from) {
            self.durable.cells.extend(write.cells);
        }
    }

    fn flush_places(&mut self) {
        for (block, value) in core::mem::take(&mut self.placed) {
            self.durable.places.insert(block, value);
        }
    }

    /// Overwrites what a release freed.
    fn reuse(&mut self, tail: u64) {
        let (freed, kept) = core::mem::take(&mut self.laid)
            .into_iter()
            .partition(|(number, _)| *number < tail);
        self.laid = kept;
        for (_, cells) in freed {
            for at in cells {
                self.write(vec![(at, Cell::Junk)]);
            }
        }
    }

    // ---- operations ---------------------------------------------------------------------------

    pub(super) fn run(&mut self, op: Op, look: Look<'_>) -> Result<(), String> {
        match op {
            Op::Stage(block) => self.stage(&[block], false, None, look),
            StageFua(block) => self.stage(&[block], true, None, look),
            StageWide => {
                let all: Vec<u64> = (0..BLOCKS).collect();
                self.stage(&all, true, None, look)
            }
            StageFails(block, holder) => self.stage(&[block], true, Some(holder), look),
            Zeros(block) => self.zeros(block, look),
            Flush => self.flush(look),
            Place => {
                let mut blocks = Vec::with_capacity(8);
                self.stage.staged_from(BlockIndex(0), 8, &mut blocks);
                for block in blocks {
                    self.place(block, false, look)?;
                }
                Ok(())
            }
            PlaceRace(block) => self.place(BlockIndex(block), true, look),
            Release => self.release(look),
            Ordinary(block) => self.ordinary(block, look),
            Out(holder) => {
                look(self, "a holder goes out")?;
                self.durable.out |= 1 << holder;
                look(self, "it is out durably")
            }
            Back(holder) => self.back(holder, look),
        }
    }

    fn context(&self) -> Context {
        let mut parity = self.sizes.parity - self.out_count();
        if self.fault == Fault::FewColumns {
            parity = parity.saturating_sub(1);
        }
        Context {
            present: self.present(),
            slow: MemberSet::EMPTY,
            parity,
        }
    }

    /// Takes a write of new values; returns the next version of each block.
    fn take(&mut self, first: u64, values: &[Value], fua: bool) -> Result<(), String> {
        self.writes += 1;
        let id = WriteId(self.writes);
        let blocks = u32::try_from(values.len()).expect("few");
        let run = StageRun {
            block: BlockIndex(first),
            blocks,
            kind: StageKind::Contents,
        };
        let Some(slice) = self.stage.take(Write { id, run, fua }) else {
            return Err("no room for a write".into());
        };
        let from = index(slice.first_block);
        self.memory[from..from + values.len()].copy_from_slice(values);
        let checksums = values.iter().map(|value| u32::from_le_bytes(*value));
        for (place, checksum) in self
            .stage
            .checksums_of(slice, blocks)
            .iter_mut()
            .zip(checksums)
        {
            *place = checksum;
        }
        self.stage.filled(id);
        Ok(())
    }

    fn new_value(&mut self, block: u64) -> Value {
        self.version += 1;
        let block_byte = u8::try_from(block).expect("few");
        let generation = u8::try_from(self.durable.generation).expect("few");
        let value = [generation, self.version, block_byte, 0xa5];
        self.histories[index_of(block)].versions.push(value);
        value
    }

    fn acknowledge(&mut self, blocks: &[u64], fua: bool) {
        for block in blocks {
            let history = &mut self.histories[index_of(*block)];
            history.answered = history.versions.len();
            if fua {
                history.durable = history.answered;
            }
        }
    }

    fn stage(
        &mut self,
        blocks: &[u64],
        fua: bool,
        fails: Option<u8>,
        look: Look<'_>,
    ) -> Result<(), String> {
        let values: Vec<Value> = blocks.iter().map(|block| self.new_value(*block)).collect();
        self.take(blocks[0], &values, fua)?;
        if self.fault == Fault::AnsweredEarly {
            self.acknowledge(blocks, fua);
        }
        self.append(blocks, fua, fails, look)
    }

    fn append(
        &mut self,
        blocks: &[u64],
        fua: bool,
        mut fails: Option<u8>,
        look: Look<'_>,
    ) -> Result<(), String> {
        loop {
            let mut next = self.stage.append(&self.context(), &mut self.header);
            while next == Next::Compute {
                self.compute();
                next = self.stage.computed(&mut self.header);
            }
            if next != Next::Write {
                return Err(std::format!("appending: {next:?}"));
            }
            let from = self.volatile.len();
            let failed = self.write_columns(fails);
            look(self, "staging")?;
            self.answer();
            if fua {
                self.persist(from);
            }
            if failed.is_empty() && fails.is_some() {
                fails = None; // The batch has no column on that holder.
            }
            let columns = self.laid.last().map_or(0, |(_, cells)| cells.len());
            assert!(columns > 0, "a batch has columns");
            let event = self.columns_done(&failed);
            if event == BatchEvent::Answered {
                break;
            }
            if self.fault == Fault::AnsweredBeforeOut {
                self.acknowledge(blocks, fua);
                look(self, "answered early")?;
            }
            let holder = fails.take().expect("a holder failed");
            self.durable.out |= 1 << holder;
            look(self, "out durably")?;
        }
        while self.stage.next_answered().is_some() {}
        self.acknowledge(blocks, fua);
        look(self, "staged")
    }

    /// Issues the writes of a batch. Returns, for each column, whether its write fails.
    fn write_columns(&mut self, fails: Option<u8>) -> Vec<bool> {
        let header = StageHeader::decode(&self.header).expect("it was encoded");
        let directory = Rc::new(Directory::of(&header));
        let mut cells = Vec::new();
        let mut failed = Vec::new();
        while let Some(write) = self.stage.next_column() {
            let holder = write.to.holder.0;
            let fail = fails == Some(holder);
            failed.push(fail);
            let place = write.to.place;
            let mut column = Vec::new();
            let is_first = write.column == 0;
            if is_first || self.fault != Fault::DirectoryOnOne {
                column.push(((holder, place), Cell::Header(Rc::clone(&directory))));
            }
            let from = index(write.contents.first_block);
            for at in 0..write.blocks {
                let value = self.memory[from + index(at)];
                column.push(((holder, place + 1 + at), Cell::Block(value)));
            }
            cells.extend((0..=write.blocks).map(|at| (holder, place + at)));
            if !fail {
                self.write(column);
            }
        }
        self.laid.push((directory.batch.number, cells));
        if failed.iter().all(|fail| !fail) {
            failed.push(false); // No column lies on the failing holder.
            failed.clear();
        }
        failed
    }

    /// Reports the ends of all columns.
    fn columns_done(&mut self, failed: &[bool]) -> BatchEvent {
        let columns = StageHeader::decode(&self.header).expect("it was encoded");
        let columns = columns.batch.shape.columns();
        let mut event = BatchEvent::Waits;
        for column in 0..usize::from(columns) {
            assert_eq!(event, BatchEvent::Waits);
            event = self
                .stage
                .column_done(!failed.get(column).copied().unwrap_or(false), NOW);
        }
        event
    }

    /// Carries out the computation that the stage asks for.
    fn compute(&mut self) {
        let work = self.stage.computation();
        let rows = index(work.blocks);
        let read = |operand: &Operand, row: usize| match operand.slice {
            BufferSlice::ZEROS => ZEROS,
            slice => self.memory[index(slice.first_block) + row],
        };
        if work.compute == spindles_block::Compute::Checksum {
            let sources = work.sources.iter();
            let values = sources.flat_map(|source| (0..rows).map(move |row| read(source, row)));
            let checksums: Vec<u32> = values.map(u32::from_le_bytes).collect();
            self.stage.checksums_mut().copy_from_slice(&checksums);
            return;
        }
        let code = by_parity_chunks(work.parity_chunks);
        let mut solved = Vec::new();
        for row in 0..rows {
            let sources = work.sources.iter();
            let sources: Vec<(u8, Value)> = sources
                .map(|source| (source.index, read(source, row)))
                .collect();
            let targets = work.targets.iter().map(|target| target.index);
            let found = solve_row(code, work.data_chunks, &sources, targets);
            let slots = work.targets.iter().map(|target| target.slice.first_block);
            solved.extend(slots.map(|slot| index(slot) + row).zip(found));
        }
        for (slot, value) in solved {
            self.memory[slot] = value;
        }
    }

    fn zeros(&mut self, block: u64, look: Look<'_>) -> Result<(), String> {
        self.histories[index_of(block)].versions.push(ZEROS);
        if !self.stage.cover().touches(BlockIndex(block), 1) {
            return self.write_place(block, ZEROS, look);
        }
        self.writes += 1;
        let id = WriteId(self.writes);
        let run = StageRun {
            block: BlockIndex(block),
            blocks: 1,
            kind: StageKind::Zeros,
        };
        let taken = self.stage.take(Write { id, run, fua: true });
        taken.ok_or("no room for zeros")?;
        self.append(&[block], true, None, look)
    }

    fn flush(&mut self, look: Look<'_>) -> Result<(), String> {
        let answered: Vec<usize> = self.histories.iter().map(|all| all.answered).collect();
        let (_, mark) = self.stage.flush();
        if self.fault != Fault::FlushForgets {
            look(self, "flushing")?;
            self.flush_holders();
            self.stage.flushed(mark);
        }
        for (history, answered) in self.histories.iter_mut().zip(answered) {
            history.durable = answered;
        }
        look(self, "flushed")
    }

    fn value_of(&self, contents: Contents) -> Value {
        match contents {
            Contents::Slot(slot) => self.memory[index(slot)],
            Contents::Zeros => ZEROS,
        }
    }

    fn place(&mut self, block: BlockIndex, races: bool, look: Look<'_>) -> Result<(), String> {
        let Some(taken) = self.stage.take_to_place(block) else {
            return Ok(());
        };
        let value = self.value_of(taken.contents);
        self.placing = Some((block.0, value));
        look(self, "placing")?;
        if races {
            self.stage(&[block.0], true, None, look)?;
        }
        self.placing = None;
        self.placed.push((block.0, value));
        self.stage.placed(block, taken.number, true);
        if self.fault == Fault::StagedAgainPlaced
            && let Some(newest) = self.stage.take_to_place(block)
        {
            self.stage.placed(block, newest.number, true);
        }
        look(self, "placed")
    }

    fn release(&mut self, look: Look<'_>) -> Result<(), String> {
        if self.stage.begin_release(true).is_none() {
            return Ok(());
        }
        look(self, "flushing places")?;
        if self.fault != Fault::ReleasedEarly {
            self.flush_places();
        }
        if self.fault != Fault::ReleasedForVolatile {
            self.flush_holders();
        }
        if self.stage.release_flushed(true) {
            self.write_tail(self.present(), look)?;
        }
        Ok(())
    }

    /// The place of a tail header, if a rule is left out.
    fn tail_place(&self, place: u32) -> u32 {
        match self.fault {
            Fault::TailInPlace => self.layout.tail_place(0),
            _ => place,
        }
    }

    fn write_tail(&mut self, holders: MemberSet, look: Look<'_>) -> Result<(), String> {
        let mut columns = vec![StageColumn::NONE; index(holders.count())];
        let tail = self
            .stage
            .tail_header(holders, &mut columns, &mut self.header);
        let header = StageHeader::decode(&self.header).expect("it was encoded");
        let mut directory = Directory::of(&header);
        assert_eq!(directory.batch.tail, tail);
        for column in &mut directory.columns {
            column.place = self.tail_place(column.place);
        }
        let directory = Rc::new(directory);
        if self.fault == Fault::ReusedEarly {
            self.reuse(tail);
            look(self, "reusing")?;
        }
        let count = if self.fault == Fault::TailOnOne {
            1
        } else {
            64
        };
        let from = self.volatile.len();
        for column in directory.columns.iter().take(count) {
            let at = (column.holder.0, column.place);
            self.write(vec![(at, Cell::Header(Rc::clone(&directory)))]);
        }
        look(self, "writing the tail")?;
        self.persist(from);
        look(self, "the tail is durable")?;
        self.stage.recorded();
        self.reuse(tail);
        look(self, "released")
    }

    /// A durable write past the stage, or to it.
    fn ordinary(&mut self, block: u64, look: Look<'_>) -> Result<(), String> {
        let cover = self.stage.cover();
        let is_covered = cover.touches(BlockIndex(block), 1);
        let is_staged = self.laid_unplaced(block);
        let passes = match self.fault {
            Fault::PastStaged => true,
            Fault::PastPlaced => !is_staged,
            _ => !is_covered,
        };
        if !passes {
            return self.stage(&[block], true, None, look);
        }
        let value = self.new_value(block);
        self.write_place(block, value, look)
    }

    fn laid_unplaced(&self, block: u64) -> bool {
        let mut stage = self.stage.clone();
        stage.take_to_place(BlockIndex(block)).is_some()
    }

    fn write_place(&mut self, block: u64, value: Value, look: Look<'_>) -> Result<(), String> {
        self.placing = Some((block, value));
        look(self, "writing")?;
        self.placing = None;
        self.flush_places();
        self.durable.places.insert(block, value);
        self.durable.listed.remove(&block);
        self.acknowledge(&[block], true);
        look(self, "written")
    }

    fn back(&mut self, holder: u8, look: Look<'_>) -> Result<(), String> {
        if self.fault != Fault::ActiveWithRecords {
            for _ in 0..2 {
                self.run(Place, look)?;
                self.release(look)?;
            }
            if !self.stage.is_empty() {
                return Err("it does not drain".into());
            }
            if self.fault != Fault::ActiveWithoutTail {
                self.stage.void();
                let returning = MemberSet::EMPTY.with(MemberIndex(holder));
                self.write_tail(self.present().union(returning), look)?;
            }
        }
        self.durable.out &= !(1 << holder);
        look(self, "active again")
    }

    // ---- crashes ------------------------------------------------------------------------------

    /// Returns what a crash may leave.
    fn images(&self, crash: Crash, images_max: usize) -> Vec<Image> {
        let mut base = self.durable.clone();
        base.generation += 1;
        // Each piece is old or new; a header may be torn.
        let mut pieces: Vec<Piece> = Vec::new();
        for write in &self.volatile {
            for (at, cell) in &write.cells {
                pieces.push(Piece::Cell(*at, cell.clone(), write.answered));
            }
        }
        let placed = self
            .placed
            .iter()
            .map(|(block, value)| (block, value, true));
        let placing = self
            .placing
            .iter()
            .map(|(block, value)| (block, value, false));
        for (block, value, answered) in placed.chain(placing) {
            pieces.push(Piece::Place(*block, *value, answered));
        }
        if crash == Crash::Process {
            // Order among writes to one place matters only if an unanswered one precedes.
            let (answered, open): (Vec<Piece>, Vec<Piece>) =
                pieces.into_iter().partition(Piece::is_answered);
            for piece in answered {
                piece.land(&mut base, 1);
            }
            pieces = open;
        }
        let total: usize = pieces.iter().map(Piece::forms).product();
        let step = total.div_ceil(images_max);
        // All forms, or an even sample with the first and the last.
        let step = if step > 1 { step | 1 } else { 1 };
        let mut images = Vec::new();
        for combination in (0..total).step_by(step).chain([total - 1]) {
            let mut image = base.clone();
            let mut rest = combination;
            for piece in &pieces {
                piece.land(&mut image, rest % piece.forms());
                rest /= piece.forms();
            }
            images.push(image);
        }
        images
    }

    fn legal(&self, crash: Crash) -> Vec<History> {
        let legal = |history: &History| {
            let from = match crash {
                Crash::Power => history.durable,
                Crash::Process => history.answered,
            };
            History {
                base: history.legal(from),
                versions: Vec::new(),
                answered: 0,
                durable: 0,
            }
        };
        self.histories.iter().map(legal).collect()
    }

    // ---- opening ------------------------------------------------------------------------------

    /// Opens an image. `None` if too many holders are missing.
    fn open(
        &self,
        image: Image,
        legal: Vec<History>,
        opening: &Opening,
        look: Look<'_>,
    ) -> Result<Option<Self>, String> {
        let mut world = Self::around(self.sizes, self.fault, image, legal);
        world.durable.out |= opening.missing;
        world.spent = opening.flaw.is_some();
        if let Some(Flaw::Corrupt(at)) = opening.flaw {
            world.durable.cells.insert(at, Cell::Junk);
        }
        let hidden = match opening.flaw {
            Some(Flaw::Unreadable(at)) => Some(at),
            _ => None,
        };
        let mut evidence = world.evidence(hidden);
        if let Some((holder, place)) = hidden {
            evidence.unreadable(MemberIndex(holder), place);
        }
        let verdict = evidence.judge();
        let mut resumed = verdict.clone();
        if world.fault == Fault::SharedSlot {
            // All holders write where the highest tail is not.
            resumed.slots = world.slots_of_highest(&verdict);
        }
        world.stage.resume(&resumed);
        if verdict.tail > 0 && world.fault != Fault::TailNotRenewed {
            world.stage.renew_tail();
            world.write_tail(world.present(), look)?;
        }
        let solved: Vec<Vec<Value>> = verdict
            .batches
            .iter()
            .map(|judged| world.contents(judged))
            .collect();
        for (judged, contents) in verdict.batches.iter().zip(&solved) {
            world.make_whole(judged, contents);
        }
        if world.fault != Fault::NotMadeVoid {
            for block in &verdict.unreadable {
                world.write(vec![((block.holder.0, block.place), Cell::Junk)]);
            }
        }
        look(&world, "making whole")?;
        world.answer();
        world.flush_holders();
        look(&world, "made whole")?;
        let lost = verdict.lost();
        world
            .durable
            .listed
            .extend(lost.iter().map(|block| block.0));
        world.load(&verdict.batches, &solved)?;
        world.read()?;
        world.spent = false;
        look(&world, "served")?;
        Ok(Some(world))
    }

    /// Returns all holders if the highest tail is in slot 0.
    fn slots_of_highest(&self, verdict: &Verdict) -> MemberSet {
        let first = self.layout.tail_place(0);
        let has_highest = |(at, cell): (&At, &Cell)| match cell {
            Cell::Header(directory) => at.1 == first && directory.batch.tail == verdict.tail,
            Cell::Block(_) | Cell::Junk => false,
        };
        if self.durable.cells.iter().any(has_highest) {
            MemberSet::all(self.sizes.holders)
        } else {
            MemberSet::EMPTY
        }
    }

    fn evidence(&self, hidden: Option<At>) -> Evidence {
        let mut evidence = Evidence::new(self.layout, self.present());
        let present = self.present();
        let cells = &self.durable.cells;
        let cell = |at: At| cells.get(&at).filter(|_| hidden != Some(at));
        for &(holder, place) in cells.keys() {
            let holder_index = MemberIndex(holder);
            if let Some(Cell::Header(directory)) = cell((holder, place))
                && present.contains(holder_index)
            {
                evidence.header(holder_index, place, directory);
            }
        }
        let mut good = Vec::new();
        for (directory, column) in evidence.sought() {
            let to = directory.columns[usize::from(column)];
            let checksums = &directory.checksums[directory.checksums_of(column)];
            for (row, checksum) in (0..).zip(checksums) {
                let fits = match cell((to.holder.0, to.place + 1 + row)) {
                    Some(Cell::Block(value)) => u32::from_le_bytes(*value) == *checksum,
                    _ => false,
                };
                if fits || self.fault == Fault::TornTaken {
                    good.push((directory.batch.number, column, row));
                }
            }
        }
        for (number, column, row) in good {
            evidence.fits(number, column, row);
        }
        evidence
    }

    /// Returns all blocks of all columns of a batch that counts, column after column.
    fn contents(&self, judged: &Judged) -> Vec<Value> {
        let directory = &judged.directory;
        let shape = directory.batch.shape;
        let mut contents = vec![ZEROS; directory.checksums.len()];
        if !matches!(judged.fate, Fate::Counts { .. }) {
            return contents;
        }
        for row in 0..shape.column_blocks() {
            let read = |column: u8| {
                let to = directory.columns[usize::from(column)];
                let is_zeros = row >= shape.blocks_of(column);
                match self.durable.cells.get(&(to.holder.0, to.place + 1 + row)) {
                    Some(Cell::Block(value)) if !is_zeros => *value,
                    _ => ZEROS,
                }
            };
            let sources: Vec<(u8, Value)> = judged
                .sources(row)
                .map(|column| (column, read(column)))
                .collect();
            for column in 0..shape.columns() {
                if row >= shape.blocks_of(column) {
                    continue;
                }
                let at = directory.checksums_of(column).start + index(row);
                contents[at] = if judged.knows(column, row) {
                    read(column)
                } else {
                    let code = by_parity_chunks(shape.parity);
                    match shape.data {
                        1 => sources[0].1,
                        data => solve_row(code, data, &sources, [column].into_iter())[0],
                    }
                };
            }
        }
        contents
    }

    fn make_whole(&mut self, judged: &Judged, contents: &[Value]) {
        let directory = &judged.directory;
        match &judged.fate {
            Fate::Counts { repairs } if self.fault != Fault::NotMadeWhole => {
                for &column in repairs {
                    let to = directory.columns[usize::from(column)];
                    let header = Cell::Header(Rc::new(directory.clone()));
                    let mut cells = vec![((to.holder.0, to.place), header)];
                    let blocks = &contents[directory.checksums_of(column)];
                    cells.extend(
                        (1..).zip(blocks).map(|(row, value)| {
                            ((to.holder.0, to.place + row), Cell::Block(*value))
                        }),
                    );
                    self.write(cells);
                }
            }
            Fate::Void { headers } if self.fault != Fault::NotMadeVoid => {
                for to in headers {
                    self.write(vec![((to.holder.0, to.place), Cell::Junk)]);
                }
            }
            Fate::Counts { .. } | Fate::Void { .. } | Fate::Lost => {}
        }
    }

    fn load(&mut self, batches: &[Judged], solved: &[Vec<Value>]) -> Result<(), String> {
        for (judged, solved) in batches.iter().zip(solved) {
            let directory = &judged.directory;
            match judged.fate {
                Fate::Counts { .. } => {}
                Fate::Lost => {
                    self.stage.lose(directory);
                    continue;
                }
                Fate::Void { .. } => continue,
            }
            let slice = self.stage.load(directory, judged.is_superseded, NOW);
            let slice = slice.ok_or("no room to load")?;
            let (from, blocks) = (index(slice.first_block), directory.batch.shape.blocks);
            let contents = &solved[..index(blocks)];
            let mut values = contents.iter();
            for run in &directory.runs {
                for block in (run.block.0..).take(index(run.blocks)) {
                    let value = match run.kind {
                        StageKind::Contents => values.next(),
                        StageKind::Zeros => None,
                    };
                    self.first
                        .entry(block)
                        .or_insert(value.copied().unwrap_or(ZEROS));
                }
            }
            if !judged.is_superseded {
                self.memory[from..from + contents.len()].copy_from_slice(contents);
            }
            let columns = (0..).zip(&directory.columns);
            let cells = columns.flat_map(|(at, to)| {
                let blocks = directory.batch.shape.blocks_of(at);
                (0..=blocks).map(move |row| (to.holder.0, to.place + row))
            });
            self.laid.push((directory.batch.number, cells.collect()));
        }
        Ok(())
    }

    /// Reads all blocks. From now on only the returned values are legal.
    fn read(&mut self) -> Result<(), String> {
        for block in 0..BLOCKS {
            let newest = self.stage.cover().newest(BlockIndex(block));
            let value = match newest {
                Some(_) if self.fault == Fault::FirstCounts => self.first.get(&block).copied(),
                Some(newest) => Some(self.value_of(newest.contents)),
                None if self.durable.listed.contains(&block) => None,
                None => Some(self.durable.places[&block]),
            };
            let history = &mut self.histories[index_of(block)];
            if !history.base.contains(&value) {
                return Err(std::format!(
                    "block {block} is {value:?} and may be {:?}",
                    history.base
                ));
            }
            history.base = [value].into();
        }
        Ok(())
    }
}

/// A piece that a crash leaves old, new, or torn.
#[derive(Clone, Debug)]
enum Piece {
    Cell(At, Cell, bool),
    Place(u64, Value, bool),
}

impl Piece {
    fn is_answered(&self) -> bool {
        match self {
            Self::Cell(_, _, answered) | Self::Place(_, _, answered) => *answered,
        }
    }

    fn forms(&self) -> usize {
        match self {
            Self::Cell(_, Cell::Header(_), _) => 3,
            Self::Cell(..) | Self::Place(..) => 2,
        }
    }

    fn land(&self, image: &mut Image, form: usize) {
        match (self, form) {
            (_, 0) => {}
            (Self::Cell(at, cell, _), 1) => {
                image.cells.insert(*at, cell.clone());
            }
            (Self::Cell(at, _, _), _) => {
                image.cells.insert(*at, Cell::Junk);
            }
            (Self::Place(block, value, _), _) => {
                image.places.insert(*block, *value);
            }
        }
    }
}

/// A fault beyond the crash.
#[derive(Clone, Copy, Debug, Hash)]
enum Flaw {
    /// For good.
    Corrupt(At),
    /// In this opening.
    Unreadable(At),
}

/// The conditions of an opening.
#[derive(Clone, Copy, Debug, Hash)]
struct Opening {
    missing: u64,
    flaw: Option<Flaw>,
}

/// Runs scripts, and opens what crashes leave of them.
pub(super) struct Explorer {
    fault: Fault,
    seen: BTreeSet<u64>,
    states: u64,
}

const AFTER: [Op; 4] = [Ordinary(0), Place, Release, StageFua(0)];

impl Explorer {
    pub(super) fn new(fault: Fault) -> Self {
        Self {
            fault,
            seen: BTreeSet::new(),
            states: 0,
        }
    }

    pub(super) fn states(&self) -> u64 {
        self.states
    }

    pub(super) fn run(&mut self, sizes: Sizes, script: &[Op]) -> Result<(), String> {
        let mut world = World::new(sizes, self.fault);
        let (last, before) = script.split_last().expect("an operation");
        for op in before {
            world.run(*op, &mut |_, _| Ok(()))?;
        }
        let result = world.run(*last, &mut |world, moment| {
            let crashed = self.crash(world, true);
            crashed.map_err(|what| std::format!("{moment}: {what}"))
        });
        result.map_err(|what| std::format!("{script:?}: {what}"))
    }

    fn is_new(&mut self, what: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        what.hash(&mut hasher);
        self.seen.insert(hasher.finish())
    }

    /// Crashes a world at this moment.
    fn crash(&mut self, world: &World, is_first: bool) -> Result<(), String> {
        for crash in [Crash::Power, Crash::Process] {
            let legal = world.legal(crash);
            for image in world.images(crash, IMAGES_MAX[usize::from(!is_first)]) {
                if !self.is_new(&(&image, &legal, is_first, world.spent)) {
                    continue;
                }
                for opening in openings(world, &image, is_first) {
                    let opened = self.open(world, image.clone(), legal.clone(), &opening, is_first);
                    opened.map_err(|what| std::format!("{crash:?} crash, {opening:?}: {what}"))?;
                }
            }
        }
        Ok(())
    }

    fn open(
        &mut self,
        world: &World,
        image: Image,
        legal: Vec<History>,
        opening: &Opening,
        is_first: bool,
    ) -> Result<(), String> {
        self.states += 1;
        let opened = world.open(image, legal, opening, &mut |world, moment| {
            if !is_first {
                return Ok(());
            }
            let crashed = self.crash(world, false);
            crashed.map_err(|what| std::format!("{moment}: {what}"))
        })?;
        let Some(opened) = opened.filter(|_| is_first) else {
            return Ok(());
        };
        let out = (0..world.sizes.holders).filter(|holder| opened.durable.out >> holder & 1 == 1);
        for op in AFTER.into_iter().chain(out.map(Back)) {
            let mut after = opened.clone();
            if after.stage.cover().is_empty() && matches!(op, Place | Release) {
                continue;
            }
            if op == Release {
                after.run(Place, &mut |_, _| Ok(()))?;
            }
            let result = after.run(op, &mut |world, moment| {
                let crashed = self.crash(world, false);
                crashed.map_err(|what| std::format!("{moment}: {what}"))
            });
            result.map_err(|what| std::format!("then {op:?}, {what}"))?;
        }
        Ok(())
    }
}

/// Returns the openings of an image: each tolerated set of missing holders, and each flaw if one
/// more is tolerated.
fn openings(world: &World, image: &Image, is_first: bool) -> Vec<Opening> {
    let sizes = world.sizes;
    let tolerated = u32::from(sizes.parity);
    let spent = u32::from(world.spent);
    let mut all = Vec::new();
    for missing in 0..1_u64 << sizes.holders {
        let away = (missing | image.out).count_ones();
        if away + spent > tolerated || missing & image.out != 0 {
            continue;
        }
        all.push(Opening {
            missing,
            flaw: None,
        });
        if away + spent == tolerated || !is_first {
            continue;
        }
        for (&at, cell) in &image.cells {
            let holder = 1_u64 << at.0;
            if *cell == Cell::Junk || (missing | image.out) & holder != 0 {
                continue;
            }
            for flaw in [Flaw::Corrupt(at), Flaw::Unreadable(at)] {
                let flaw = Some(flaw);
                all.push(Opening { missing, flaw });
            }
        }
    }
    all
}

fn solve_row(
    code: &spindles_parity::Code,
    data: u8,
    sources: &[(u8, Value)],
    targets: impl Iterator<Item = u8>,
) -> Vec<Value> {
    let sources: Vec<(u8, &[u8])> = sources
        .iter()
        .map(|(at, value)| (*at, &value[..]))
        .collect();
    let mut values: Vec<(u8, Value)> = targets.map(|at| (at, ZEROS)).collect();
    let mut targets: Vec<(u8, &mut [u8])> = values
        .iter_mut()
        .map(|(at, value)| (*at, &mut value[..]))
        .collect();
    solve(code, data, &sources, &mut targets);
    values.into_iter().map(|(_, value)| value).collect()
}

fn index_of(block: u64) -> usize {
    usize::try_from(block).expect("few")
}
