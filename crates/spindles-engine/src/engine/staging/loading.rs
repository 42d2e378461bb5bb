//! Opening: finds what the stage held before a crash, makes it whole, and loads it (rule 6).
//!
//! ```text
//! Descriptors ─▶ Scanning ─▶ Checking ─▶ Tail ─▶ Voiding ─▶ Loading ─▶ Listing ─▶ loaded
//!      ▲                         │
//!      └──── a holder is out ────┘ from any step, when its loss is durable
//! ```
//!
//! Everything is repeated from the start if a holder fails, and by the next opening after a crash:
//! each step writes only what a repetition would write again.

use crate::{
    Engine,
    agenda::Due,
    index,
    output::{Event, Output},
    stage::judge::{Directory, Evidence, Fate},
    staging::{
        Life, STAGE_STEP, Tail,
        load::{Current, Load, Scan, Step},
        operand,
    },
    system_io::Purpose,
};
use alloc::{vec, vec::Vec};
use spindles_block::{
    BufferSlice, Compute, MemberError, MemberIndex, MemberIo, MemberResult, Operand, Operation,
};
use spindles_format::{
    AreaKind, BadBlockKind, STAGE_HEADER_BYTES, STAGE_SEGMENTS, StageColumn, StageDescriptor,
    StageHeader, encode_stage,
};

impl Engine {
    fn stage_load(&mut self) -> &mut Load {
        let load = self.staging().load.as_mut();
        load.expect("the stage is being loaded")
    }

    /// Begins to load the stage, if the opening found that it may hold records. Returns true while
    /// the opening must wait for that.
    pub(crate) fn loads_stage(&mut self) -> bool {
        let Some(staging) = &mut self.staging else {
            return false;
        };
        match staging.life {
            Life::Found => {
                staging.life = Life::Loading;
                self.begin_load();
                true
            }
            Life::Loading => true,
            // What is lost must not be lost again by the next opening.
            _ => {
                staging.load.as_ref().is_some_and(|load| load.lost_any) && staging.life != Life::Off
            }
        }
    }

    /// Starts from the beginning.
    fn begin_load(&mut self) {
        self.staging().stage.reset();
        let (holders, layout) = (self.holders(), self.staging().layout);
        if self.has_failed() {
            return self.load_fails();
        }
        let blocks = layout.header_blocks();
        let load = self.stage_load();
        load.step = Step::Descriptors;
        load.present = holders;
        load.current = None;
        (load.nonce, load.generation) = (0, 0);
        load.pending = holders.count();
        for holder in holders.iter() {
            self.read_window(holder, 0, blocks);
        }
    }

    /// The array is lost. What the stage holds stays there, and no read is answered from places.
    fn load_fails(&mut self) {
        self.settled.leave_all(None);
        self.staging().life = Life::Off;
        self.staging().is_on = false;
        self.agenda.add(Due::Serve);
    }

    fn read_window(&mut self, holder: MemberIndex, place: u32, blocks: u32) {
        let window = self.stage_load().window;
        self.stage_load().scans[usize::from(holder.0)].blocks = blocks;
        let buffer = self.metadata_buffer.slice(window, holder.0);
        let block = self.stage_block(holder, place);
        self.system_io(
            Purpose::StageRead,
            holder,
            Operation::Read,
            block,
            blocks,
            buffer,
        );
    }

    /// Handles the end of an I/O of the load.
    pub(crate) fn load_io_done(&mut self, holder: MemberIndex, result: MemberResult) {
        let steps = [Step::Descriptors, Step::Scanning, Step::Checking];
        let is_read = steps.contains(&self.stage_load().step);
        let is_lost = match result {
            Ok(()) => false,
            Err(MemberError::Gone) => true,
            Err(_) => !is_read,
        };
        if is_lost {
            self.stage_io_failed(holder, result);
        }
        let load = self.stage_load();
        load.pending -= 1;
        match load.step {
            Step::Descriptors => self.descriptor_read(holder, result),
            Step::Scanning => self.window_read(holder, result),
            Step::Checking => self.column_read(result),
            _ => {}
        }
        self.load_goes_on();
    }

    /// Takes the next step when nothing is under way.
    pub(crate) fn load_goes_on(&mut self) {
        if self
            .staging
            .as_ref()
            .is_none_or(|staging| staging.life != Life::Loading)
        {
            return;
        }
        if self.stage_load().pending > 0 {
            return;
        }
        if self.writes_nothing() {
            return self.load_fails();
        }
        if self.holders() != self.stage_load().present {
            // Its loss must be durable before anything is judged without it.
            if !self.metadata.busy() && !self.metadata.may_count_on(self.members.missing()) {
                self.begin_load();
            }
            return;
        }
        match self.stage_load().step {
            Step::Descriptors => self.begin_scan(),
            Step::Scanning => self.begin_check(),
            Step::Checking => self.check_next(),
            Step::Voiding => self.void_next(),
            Step::Loading => self.load_next(),
            Step::Listing => self.list_lost(),
            Step::Tail | Step::Done => {}
        }
    }

    fn descriptor_read(&mut self, holder: MemberIndex, result: MemberResult) {
        if result.is_err() {
            return;
        }
        let window = self.stage_load().window;
        let bytes = self.metadata_buffer.bytes(window, holder.0);
        let Ok(descriptor) = StageDescriptor::decode(bytes) else {
            return;
        };
        let persistence = self.metadata.persistence().expect("it has superblocks");
        let is_ours = descriptor.array == persistence.array.uuid;
        let load = self.stage_load();
        if is_ours && descriptor.generation > load.generation {
            (load.nonce, load.generation) = (descriptor.nonce, descriptor.generation);
        }
    }

    fn begin_scan(&mut self) {
        let layout = self.staging().layout;
        let load = self.stage_load();
        load.step = Step::Scanning;
        load.evidence = Some(Evidence::new(layout, load.present));
        let (present, first) = (load.present, layout.tail_place(0));
        for scan in &mut load.scans {
            (scan.next, scan.spoiled) = (first, 0);
        }
        let nonce = load.nonce;
        self.staging().stage.set_nonce(nonce);
        for holder in present.iter() {
            self.scan_stage_on(holder);
        }
        self.load_goes_on();
    }

    /// Reads the next window of a holder's stage, if one is left.
    fn scan_stage_on(&mut self, holder: MemberIndex) {
        let layout = self.staging().layout;
        let end = layout.segment_place(0) + layout.segment_blocks() * STAGE_SEGMENTS;
        let (load, header) = (self.stage_load(), layout.header_blocks());
        let scan = load.scans[usize::from(holder.0)];
        if scan.next >= end {
            return;
        }
        let window = load.window.blocks;
        let blocks = if scan.next < scan.spoiled {
            header
        } else {
            window
        };
        load.pending += 1;
        self.read_window(holder, scan.next, blocks.min(end - scan.next));
    }

    fn window_read(&mut self, holder: MemberIndex, result: MemberResult) {
        let layout = self.staging().layout;
        let header = layout.header_blocks();
        let at = usize::from(holder.0);
        let scan = self.stage_load().scans[at];
        match result {
            Ok(()) => {
                self.look_for_stage_headers(holder, scan);
                // A header may begin in this window and end in the next.
                let step = if scan.blocks > header {
                    scan.blocks + 1 - header
                } else {
                    1.max((scan.blocks + 1).saturating_sub(header))
                };
                self.stage_load().scans[at].next += step;
            }
            Err(MemberError::Gone) => return,
            Err(_) if scan.blocks > header => {
                self.stage_load().scans[at].spoiled = scan.next + scan.blocks;
            }
            Err(_) if scan.blocks > 1 => {
                // Read the blocks one by one, to find the unreadable ones.
                self.stage_load().pending += 1;
                return self.read_window(holder, scan.next, 1);
            }
            Err(_) => {
                let evidence = self.stage_load().evidence.as_mut().expect("it is scanned");
                evidence.unreadable(holder, scan.next);
                self.stage_load().scans[at].next += 1;
            }
        }
        self.scan_stage_on(holder);
    }

    fn look_for_stage_headers(&mut self, holder: MemberIndex, scan: Scan) {
        let staging = self.staging.as_mut().expect("the array has a stage");
        let header_blocks = staging.layout.header_blocks();
        let load = staging.load.as_mut().expect("it is being loaded");
        let persistence = self.metadata.persistence().expect("it has superblocks");
        let array = persistence.array.uuid;
        let bytes = self.metadata_buffer.bytes(load.window, holder.0);
        let block = index(self.settings.block_size.bytes());
        for at in 0..(scan.blocks + 1).saturating_sub(header_blocks) {
            let from = index(at) * block;
            let bytes = &bytes[from..from + STAGE_HEADER_BYTES];
            if bytes[0] != b'S' {
                continue;
            }
            let Some(header) = StageHeader::decode(bytes) else {
                continue;
            };
            if header.batch.array == array && header.batch.nonce == load.nonce {
                let evidence = load.evidence.as_mut().expect("it is scanned");
                evidence.header(holder, scan.next + at, &Directory::of(&header));
            }
        }
    }

    fn begin_check(&mut self) {
        let load = self.stage_load();
        load.step = Step::Checking;
        let evidence = load.evidence.as_ref().expect("it was scanned");
        let sought = evidence
            .sought()
            .map(|(batch, column)| (batch.clone(), column));
        load.columns = sought.collect();
        load.row = None;
        self.check_next();
    }

    /// Reads the next column.
    fn check_next(&mut self) {
        let load = self.stage_load();
        let Some((directory, column)) = load.columns.front() else {
            return self.judge_stage();
        };
        let length = directory.batch.shape.blocks_of(*column);
        let row = load.row.unwrap_or(0);
        if row >= length {
            load.columns.pop_front();
            load.row = None;
            return self.check_next();
        }
        let blocks = if load.row.is_some() { 1 } else { length };
        let (to, work) = (directory.columns[usize::from(*column)], load.work_of(0));
        self.read_blocks(to, row, blocks, work);
    }

    /// Reads blocks of a column into memory.
    fn read_blocks(&mut self, to: StageColumn, row: u32, blocks: u32, buffer: BufferSlice) {
        let header = self.staging().header_blocks();
        self.stage_load().pending += 1;
        self.stage_load().blocks = blocks;
        let io = MemberIo {
            id: Purpose::StageRead.id(to.holder),
            member: to.holder,
            operation: Operation::Read,
            block: self.stage_block(to.holder, to.place + header + row),
            blocks,
            buffer,
        };
        self.outbox.put(Output::Member(io));
    }

    fn column_read(&mut self, result: MemberResult) {
        let load = self.stage_load();
        match result {
            Ok(()) => {
                load.pending += 1;
                load.compute = Compute::Checksum;
                load.operands.clear();
                load.operands.push(operand(load.work_of(0)));
                load.sources = 1;
                load.checksums.clear();
                load.checksums.resize(index(load.blocks), 0);
                self.outbox.put(Output::Compute(STAGE_STEP));
            }
            // Row by row, from here on.
            Err(_) => load.row = Some(load.row.map_or(0, |row| row + 1)),
        }
    }

    /// Handles the end of a computation of the load.
    pub(crate) fn load_computed(&mut self) {
        let load = self.stage_load();
        load.pending -= 1;
        if load.step == Step::Checking {
            let (directory, column) = load.columns.front().expect("it was read");
            let (number, column) = (directory.batch.number, *column);
            let expected = &directory.checksums[directory.checksums_of(column)];
            let first = load.row.unwrap_or(0);
            let evidence = load.evidence.as_mut().expect("it was scanned");
            let rows = expected[index(first)..].iter().zip(&load.checksums);
            for (row, (expected, found)) in (first..).zip(rows) {
                if expected == found {
                    evidence.fits(number, column, row);
                }
            }
            match &mut load.row {
                Some(row) => *row += 1,
                None => {
                    load.columns.pop_front();
                }
            }
        }
        self.load_goes_on();
    }

    // ---- the verdict --------------------------------------------------------------------------

    /// Decides, and makes the tail that was found durable on all holders.
    fn judge_stage(&mut self) {
        let staging = self.staging();
        let load = staging.load.as_mut().expect("it is being loaded");
        let verdict = load.evidence.take().expect("it was scanned").judge();
        staging.stage.resume(&verdict);
        staging.stage.renew_tail();
        load.lost = verdict.lost();
        load.lost_any = !load.lost.is_empty();
        load.voids.clear();
        for judged in &verdict.batches {
            if let Fate::Void { headers } = &judged.fate {
                let header = staging.layout.header_blocks();
                load.voids
                    .extend(headers.iter().map(|place| (*place, header)));
            }
        }
        load.voids
            .extend(verdict.unreadable.iter().map(|place| (*place, 1)));
        load.batches = verdict.batches.iter().cloned().collect();
        load.verdict = Some(verdict);
        load.step = Step::Tail;
        self.write_tail();
    }

    /// Continues when the tail is durable on all holders.
    pub(crate) fn load_tail_written(&mut self, ok: bool) {
        self.staging().stage.recorded();
        self.staging().tail = Tail::Resting;
        if ok {
            self.stage_load().step = Step::Voiding;
        }
        self.load_goes_on();
    }

    /// Overwrites the next header that must never count, or block that can't be read.
    fn void_next(&mut self) {
        let load = self.stage_load();
        let Some((place, blocks)) = load.voids.pop_front() else {
            load.step = Step::Loading;
            return self.load_next();
        };
        load.pending += 1;
        let io = MemberIo {
            id: Purpose::StageRepair.id(place.holder),
            member: place.holder,
            operation: Operation::Write { fua: true },
            block: self.stage_block(place.holder, place.place),
            blocks,
            buffer: BufferSlice::ZEROS,
        };
        self.outbox.put(Output::Member(io));
    }

    /// Goes on with the batch that is being loaded, or begins the next.
    fn load_next(&mut self) {
        if self.stage_load().current.is_some() {
            return self.load_current();
        }
        let Some(judged) = self.stage_load().batches.pop_front() else {
            self.stage_load().step = Step::Listing;
            return self.begin_to_list();
        };
        match judged.fate {
            Fate::Void { .. } => self.load_next(),
            Fate::Lost => {
                self.staging().stage.lose(&judged.directory);
                self.load_next();
            }
            Fate::Counts { .. } => {
                self.stage_load().current = Some(Current {
                    judged,
                    read: 0,
                    read_row: 0,
                    row: 0,
                    repair: 0,
                    copy: 0,
                    to: BufferSlice::NONE,
                });
                self.load_current();
            }
        }
    }

    /// Takes the next step for a batch that counts: reads its columns, computes what is not known,
    /// writes what is not whole, and copies its contents.
    fn load_current(&mut self) {
        let load = self.stage_load();
        let present = load.present;
        let current = load.current.as_mut().expect("a batch is loaded");
        let shape = current.judged.directory.batch.shape;
        while current.read < shape.columns() {
            let (column, row) = (current.read, current.read_row);
            let blocks = shape.blocks_of(column);
            let to = current.judged.directory.columns[usize::from(column)];
            if row >= blocks || !present.contains(to.holder) {
                (current.read, current.read_row) = (column + 1, 0);
                continue;
            }
            let knows = |row: u32| current.judged.knows(column, row);
            let is_whole = row == 0 && (0..blocks).all(knows);
            let is_known = knows(row);
            let read = if is_whole { blocks } else { 1 };
            current.read_row += read;
            if is_known {
                let buffer = load.work_of(column).plus(row);
                return self.read_blocks(to, row, read, buffer);
            }
        }
        if self.compute_row() {
            return;
        }
        self.repair_column();
    }

    /// Computes the unknown blocks of the next row that has any. Returns false if none has.
    fn compute_row(&mut self) -> bool {
        let load = self.stage_load();
        let current = load.current.as_mut().expect("a batch is loaded");
        let shape = current.judged.directory.batch.shape;
        while current.row < shape.column_blocks() {
            let row = current.row;
            current.row += 1;
            let exists = |column: &u8| row < shape.blocks_of(*column);
            let unknown = |column: &u8| exists(column) && !current.judged.knows(*column, row);
            let targets: Vec<u8> = (0..shape.columns()).filter(unknown).collect();
            if targets.is_empty() {
                continue;
            }
            let sources: Vec<u8> = current.judged.sources(row).collect();
            let work = load.work;
            let at = |column: u8| work.plus(u32::from(column) * load.column_max + row);
            load.operands.clear();
            for column in &sources {
                let is_there = row < shape.blocks_of(*column);
                let slice = if is_there {
                    at(*column)
                } else {
                    BufferSlice::ZEROS
                };
                load.operands.push(Operand {
                    index: *column,
                    slice,
                });
            }
            if shape.data == 1 {
                // Copies.
                load.operands.truncate(1);
                let source = load.operands[0];
                load.operands = vec![source; targets.len()];
                load.compute = Compute::Copy;
            } else {
                load.compute = Compute::Solve;
            }
            load.sources = load.operands.len();
            for column in targets {
                load.operands.push(Operand {
                    index: column,
                    slice: at(column),
                });
            }
            load.blocks = 1;
            load.pending += 1;
            self.outbox.put(Output::Compute(STAGE_STEP));
            return true;
        }
        false
    }

    /// Writes the next column that is not whole, in its place.
    fn repair_column(&mut self) {
        let (header_blocks, header) = (self.staging().header_blocks(), self.staging().tail_header);
        let staging = self.staging.as_mut().expect("the array has a stage");
        let load = staging.load.as_mut().expect("it is being loaded");
        let current = load.current.as_mut().expect("a batch is loaded");
        let Fate::Counts { repairs } = &current.judged.fate else {
            panic!("it counts");
        };
        let Some(column) = repairs.get(current.repair).copied() else {
            return self.copy_contents();
        };
        current.repair += 1;
        let directory = &current.judged.directory;
        let (contents, parity) = directory
            .checksums
            .split_at(index(directory.batch.shape.blocks));
        let bytes = self.metadata_buffer.bytes_mut(header, 0);
        let filled = bytes.len();
        encode_stage(
            &directory.batch,
            &directory.columns,
            &directory.runs,
            [contents, parity],
            bytes,
            filled,
        );
        let to = directory.columns[usize::from(column)];
        let blocks = directory.batch.shape.blocks_of(column);
        load.pending += 1;
        let buffer = match blocks {
            0 => self.metadata_buffer.slice(header, 0),
            _ => BufferSlice::PIECES,
        };
        let io = MemberIo {
            id: Purpose::StageRepair.id(to.holder),
            member: to.holder,
            operation: Operation::Write { fua: true },
            block: self.stage_block(to.holder, to.place),
            blocks: header_blocks + blocks,
            buffer,
        };
        self.outbox.put(Output::Member(io));
    }

    /// Copies the next data column to the memory of the stage.
    fn copy_contents(&mut self) {
        let staging = self.staging.as_mut().expect("the array has a stage");
        let load = staging.load.as_mut().expect("it is being loaded");
        let current = load.current.as_mut().expect("a batch is loaded");
        let shape = current.judged.directory.batch.shape;
        let is_superseded = current.judged.is_superseded;
        if current.copy == 0 {
            let directory = &current.judged.directory;
            match staging.stage.load(directory, is_superseded, self.now) {
                Some(to) => current.to = to,
                None => return self.load_fails(),
            }
        }
        let column = current.copy;
        if column == shape.data || shape.blocks == 0 || is_superseded {
            load.current = None;
            return self.load_next();
        }
        current.copy += 1;
        let to = current.to.plus(u32::from(column) * shape.column_blocks());
        load.blocks = shape.blocks_of(column);
        load.compute = Compute::Copy;
        load.sources = 1;
        load.operands = vec![operand(load.work_of(column)), operand(to)];
        load.pending += 1;
        self.outbox.put(Output::Compute(STAGE_STEP));
    }

    // ---- the end ------------------------------------------------------------------------------

    /// Lists what is lost, durably.
    fn begin_to_list(&mut self) {
        let lost = core::mem::take(&mut self.stage_load().lost);
        for block in lost {
            let blocks = block.0..block.0 + 1;
            self.outbox
                .put(Output::Event(Event::Lost { block, blocks: 1 }));
            if !self.bad.add(BadBlockKind::Lost, blocks) {
                self.outbox.put(Output::Event(Event::TooMuchLost));
            }
        }
        if self.stage_load().lost_any {
            self.choose_direct();
            self.write_area(AreaKind::BAD_BLOCKS);
        }
        self.list_lost();
    }

    /// Ends the load when the list is durable.
    fn list_lost(&mut self) {
        if !self.bad_blocks_are_stored() {
            return;
        }
        let staging = self.staging();
        let load = staging.load.as_mut().expect("it is being loaded");
        load.step = Step::Done;
        staging.is_wanted = true;
        staging.life = if staging.is_on && !load.lost_any {
            Life::On
        } else {
            Life::Draining
        };
        self.agenda.add(Due::Serve);
    }
}
