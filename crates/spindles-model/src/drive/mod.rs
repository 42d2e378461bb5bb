//! A mechanical drive: queue, electronics, buffer and mechanics. Commands are served one at a time;
//! read-ahead and destaging go on behind them and are computed when the next command asks.

mod buffer;
mod overheads;

pub(crate) use buffer::Buffer;
pub(crate) use overheads::{Extra, Overheads};

use crate::account::Account;
use crate::disciplines::{Candidate, Choice, Discipline, Sweep};
use crate::mechanics::{Inflow, Mechanism, Pass};
use crate::model::{Io, Model, Outbox};
use crate::parameters::{SECTOR_BYTES, float, whole};
use crate::read_ahead::{Asked, ReadAhead};
use buffer::Use;
use spindles_block::Operation;
use std::collections::VecDeque;

/// When a write is answered from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBack {
    None,
    Appending,
    Any,
}

/// The buffer's switches.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the parameters"
)]
pub(crate) struct Switches {
    pub(crate) keeps_data: bool,
    pub(crate) read_ahead: &'static ReadAhead,
    /// True if a command ends read-ahead under way, even one for what it is about to read.
    pub(crate) stops_when_asked: bool,
    pub(crate) read_ahead_least: u64,
    pub(crate) read_ahead_most: u64,
    pub(crate) over_requested: bool,
    pub(crate) after_hit: bool,
    pub(crate) keeps_what_passes_before: bool,
    pub(crate) write_back: WriteBack,
    pub(crate) joins_writes: bool,
    pub(crate) hits_written: bool,
    pub(crate) stops_within_sector: bool,
    pub(crate) never_disconnects: bool,
}

/// The drive's interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interface {
    pub(crate) read_sector_ps: u64,
    pub(crate) write_sector_ps: u64,
    pub(crate) read_mark: f64,
}

/// The queue in the drive, and the host's before it.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) depth: usize,
    pub(crate) discipline: &'static Discipline,
    pub(crate) host_discipline: &'static Discipline,
    pub(crate) destage: &'static Discipline,
    pub(crate) age_bound_ns: u64,
    pub(crate) sweep: Sweep,
    pub(crate) host_sweep: Sweep,
    pub(crate) destage_sweep: Sweep,
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) host: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    io: Io,
    candidate: Candidate,
}

/// Read-ahead under way: the pass under the head, and where it ends.
#[derive(Clone, Copy, Debug)]
struct Stream {
    segment: usize,
    /// The first sector that the segment keeps.
    first: u64,
    pass: Pass,
    limit: u64,
}

/// Written sectors of the buffer that are not on the medium.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    segment: usize,
    first: u64,
    end: u64,
    /// The arm may move from this moment on.
    from: u64,
    inflow: Inflow,
    candidate: Candidate,
}

/// A mechanical drive.
#[derive(Debug)]
pub(crate) struct Drive {
    sectors: u64,
    mechanism: Mechanism,
    buffer: Buffer,
    switches: Switches,
    interface: Interface,
    overheads: Overheads,
    queue: Queue,
    in_service: bool,
    after_write: bool,
    interface_free_at: u64,
    stream: Option<Stream>,
    dirty: Vec<Dirty>,
    /// The segment that the mechanism is writing, until `free_at`.
    destaging: Option<usize>,
    account: Account,
}

/// The parts of a drive.
pub(crate) struct Parts {
    pub(crate) sectors: u64,
    pub(crate) mechanism: Mechanism,
    pub(crate) buffer: Buffer,
    pub(crate) switches: Switches,
    pub(crate) interface: Interface,
    pub(crate) overheads: Overheads,
    pub(crate) queue: Queue,
}

/// The data of a read on its way to the host: the moment at which the last sector arrives, if every
/// sector leaves as soon as it is in the buffer and the interface is free.
struct Outflow {
    first: u64,
    count: u64,
    sector_ps: u64,
    /// The sector whose arrival in the buffer starts the transfer.
    mark: u64,
    mark_at: u64,
    last_at: u64,
}

impl Outflow {
    /// Sectors `from` to `to` enter the buffer: the first at `first_at`, the last at `last_at`.
    fn take(&mut self, from: u64, to: u64, at: impl Fn(u64) -> u64) {
        for sector in [from, to - 1] {
            let left = self.count - (sector - self.first);
            self.last_at = self.last_at.max(at(sector) + left * self.sector_ps / 1000);
        }
        if (from..to).contains(&(self.first + self.mark)) {
            self.mark_at = at(self.first + self.mark);
        }
    }

    fn end(&self, start: u64) -> u64 {
        self.last_at.max(start + self.count * self.sector_ps / 1000)
    }
}

impl Drive {
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            sectors: parts.sectors,
            mechanism: parts.mechanism,
            buffer: parts.buffer,
            switches: parts.switches,
            interface: parts.interface,
            overheads: parts.overheads,
            queue: parts.queue,
            in_service: false,
            after_write: false,
            interface_free_at: 0,
            stream: None,
            dirty: Vec::new(),
            destaging: None,
            account: Account::default(),
        }
    }

    fn candidate(&self, io: &Io) -> Candidate {
        let place = self
            .mechanism
            .geometry
            .piece(io.sector.min(self.sectors - 1), 1);
        Candidate {
            cylinder: place.cylinder,
            surface: place.surface,
            angle: place.angle,
            is_write: io.operation.is_write(),
            arrived: io.arrived,
        }
    }

    fn serve(&mut self, io: &Io, now: u64, out: &mut Outbox) {
        self.in_service = true;
        self.account.queue_ns += now.saturating_sub(io.arrived);
        let mut bytes = 0;
        let at = match io.operation {
            Operation::Read if io.sectors > 0 => {
                bytes = io.sectors * SECTOR_BYTES;
                self.read(io)
            }
            Operation::Write { fua } if io.sectors > 0 => self.write(io, fua, true),
            Operation::WriteZeroes { fua } if io.sectors > 0 => self.write(io, fua, false),
            Operation::Flush => self.flush(io),
            Operation::Read
            | Operation::Discard
            | Operation::Write { .. }
            | Operation::WriteZeroes { .. } => self.command(io, true, false),
        };
        if !matches!(io.operation, Operation::Flush | Operation::Discard) {
            self.after_write = io.operation.is_write();
        }
        out.answer(io.tag, at.max(now), bytes);
    }

    /// The moment at which the electronics have decoded a command.
    fn command(&mut self, io: &Io, is_hit: bool, is_write: bool) -> u64 {
        let overhead = self.overheads.command(is_write, is_hit, self.after_write);
        self.account.overhead_ns += overhead;
        io.arrived + overhead
    }

    fn read(&mut self, io: &Io) -> u64 {
        let (first, end) = (io.sector, io.sector + io.sectors);
        self.settle(io.arrived);
        if self.switches.stops_when_asked {
            self.stop_stream(io.arrived);
        }
        let streaming = self.stream.map(|stream| stream.segment);
        let mut found = self.buffer.find(first, self.switches.hits_written);
        if !self.switches.keeps_data {
            found = found.filter(|index| streaming == Some(*index));
        }
        // Of a long stream, the segment keeps only the last sectors.
        let continues = self.stream.is_some_and(|stream| {
            let segment = &self.buffer.segments[stream.segment];
            segment.first <= first && first <= segment.end
        });
        let is_hit = found.is_some() || continues;
        let ready = self.command(io, is_hit, false);
        let mut outflow = self.outflow(io);
        let segment = found.or(streaming.filter(|_| continues));
        let have = found.map_or(first, |index| self.buffer.segments[index].end.min(end));
        if have > first {
            outflow.take(first, have, |_| ready);
        }
        if have == end {
            self.after_whole_hit(segment, end, ready, io.arrived);
        } else if continues && segment == streaming {
            self.continue_stream(end, &mut outflow);
        } else {
            self.stop_stream(io.arrived);
            self.miss(
                first,
                have,
                end,
                ready.max(io.arrived + self.seek_least()),
                &mut outflow,
            );
        }
        let disconnects = have < end && !self.switches.never_disconnects;
        self.answer_read(io, ready, disconnects, &outflow)
    }

    fn seek_least(&self) -> u64 {
        self.overheads.seek_least
    }

    fn outflow(&self, io: &Io) -> Outflow {
        let mark = whole((float(io.sectors) * self.interface.read_mark).ceil());
        Outflow {
            first: io.sector,
            count: io.sectors,
            sector_ps: self.interface.read_sector_ps,
            mark: mark.saturating_sub(1).min(io.sectors - 1),
            mark_at: 0,
            last_at: 0,
        }
    }

    fn answer_read(&mut self, io: &Io, ready: u64, disconnects: bool, outflow: &Outflow) -> u64 {
        let overheads = &self.overheads;
        let mut start = ready.max(outflow.mark_at);
        if disconnects {
            let away = ready + overheads.read_disconnect[usize::from(self.after_write)];
            start = start.max(away) + overheads.first_reselect;
        }
        start = start.max(self.interface_free_at) + overheads.data_preparation;
        let end = outflow.end(start);
        self.account.link_ns += io.sectors * self.interface.read_sector_ps / 1000;
        self.account.overhead_ns += overheads.completion[0];
        self.interface_free_at = end;
        end + overheads.completion[0]
    }

    /// Reads what the buffer lacks, from the medium into a segment.
    fn miss(&mut self, first: u64, have: u64, end: u64, from: u64, outflow: &mut Outflow) {
        let from = from.max(self.mechanism.free_at);
        self.end_destaging();
        let limit = self.limit(first, end);
        let pass = self.mechanism.read(have, limit, from, true);
        let keeps = if self.switches.keeps_what_passes_before && have == first {
            first - pass.before
        } else {
            first
        };
        let Some(segment) = self.buffer.take_for_read() else {
            // All segments hold writes: the data passes through.
            self.buffer.touch(0);
            self.run(usize::MAX, first, pass, end, end, outflow);
            self.stream = None;
            return;
        };
        self.buffer.touch(segment);
        self.run(segment, keeps, pass, end, limit, outflow);
    }

    /// Goes on with read-ahead under way until `end`, and then ahead.
    fn continue_stream(&mut self, end: u64, outflow: &mut Outflow) {
        let stream = self.stream.expect("a stream continues");
        let limit = self.limit(stream.first, end);
        self.buffer.touch(stream.segment);
        self.run(
            stream.segment,
            stream.first,
            stream.pass,
            end,
            limit,
            outflow,
        );
    }

    /// Passes until sector `end`; the last pass may reach beyond it, and is the read-ahead.
    fn run(
        &mut self,
        segment: usize,
        first: u64,
        mut pass: Pass,
        end: u64,
        limit: u64,
        outflow: &mut Outflow,
    ) {
        let mut from = pass.first;
        loop {
            let (low, to) = (from.max(outflow.first), pass.end_sector().min(end));
            let passed = |sector: u64| pass.start + pass.ns(sector + 1 - pass.first);
            if low < to {
                outflow.take(low, to, passed);
            }
            if pass.end_sector() >= end {
                self.mechanism.free_at = passed(end - 1);
                break;
            }
            let next = pass.end();
            self.mechanism.transfer_ns += next - pass.start;
            from = pass.end_sector();
            pass = self.mechanism.read(from, limit.max(end), next, true);
        }
        self.mechanism.transfer_ns += self.mechanism.free_at.saturating_sub(pass.start);
        if segment == usize::MAX {
            return;
        }
        self.buffer.fill(segment, first, end);
        self.stream = Some(Stream {
            segment,
            first,
            pass,
            limit,
        });
    }

    /// One past the last sector to read for a request: no less than its end.
    fn limit(&self, first: u64, end: u64) -> u64 {
        let switches = &self.switches;
        if !self.dirty.is_empty() {
            return end;
        }
        let geometry = &self.mechanism.geometry;
        let limit = (switches.read_ahead.limit)(&Asked {
            geometry,
            first,
            end,
        });
        let room = if switches.over_requested {
            end + self.buffer.segment_sectors
        } else {
            first + self.buffer.segment_sectors
        };
        let most = room.min(end + switches.read_ahead_most);
        // A drive that keeps requested sectors begins no read-ahead beyond its segment.
        if !switches.over_requested && (room + 1..u64::MAX).contains(&limit) {
            return end;
        }
        limit
            .max(end + switches.read_ahead_least)
            .min(most)
            .min(geometry.sectors())
            .max(end)
    }

    /// After a read was answered from the buffer, read-ahead goes on, starts or stops.
    fn after_whole_hit(&mut self, segment: Option<usize>, end: u64, ready: u64, now: u64) {
        let Some(segment) = segment else {
            return;
        };
        self.buffer.touch(segment);
        let found = self.buffer.segments[segment];
        if !self.switches.after_hit {
            self.stop_stream(now);
            return;
        }
        let limit = self.limit(found.first, end);
        match &mut self.stream {
            Some(stream) if stream.segment == segment => {
                stream.limit = stream.limit.max(limit);
                return;
            }
            _ => self.stop_stream(now),
        }
        if found.holds == Use::Read && limit > found.end && self.dirty.is_empty() {
            let from = ready.max(self.mechanism.free_at);
            let pass = self.mechanism.read(found.end, limit, from, false);
            self.stream = Some(Stream {
                segment,
                first: found.first,
                pass,
                limit,
            });
        }
    }

    /// Brings read-ahead or destaging to `now`.
    fn settle(&mut self, now: u64) {
        self.advance_stream(now);
        if self.stream.is_none() {
            self.destage_until(now);
        }
    }

    fn advance_stream(&mut self, now: u64) {
        let Some(mut stream) = self.stream else {
            return;
        };
        loop {
            let end = stream.pass.end();
            let until = stream.pass.end_sector();
            if end > now {
                break;
            }
            if until >= stream.limit {
                self.buffer.fill(stream.segment, stream.first, until);
                self.mechanism.free_at = self.mechanism.free_at.max(end);
                self.stream = None;
                return;
            }
            stream.pass = self.mechanism.read(until, stream.limit, end, false);
        }
        let passed = passed(&stream.pass, now);
        let end = self.buffer.segments[stream.segment]
            .end
            .max(stream.pass.first + passed);
        self.buffer.fill(stream.segment, stream.first, end);
        self.stream = Some(stream);
    }

    /// Ends read-ahead at `now`, to which it was brought, or after the sector under the head.
    fn stop_stream(&mut self, now: u64) {
        let Some(stream) = self.stream.take() else {
            return;
        };
        let mut free_at = now;
        if !self.switches.stops_within_sector && now > stream.pass.start {
            let sectors = passed(&stream.pass, now) + 1;
            free_at = stream.pass.start + stream.pass.ns(sectors);
            let end = stream.pass.first + sectors;
            let end = self.buffer.segments[stream.segment]
                .end
                .max(end.min(stream.limit));
            self.buffer.fill(stream.segment, stream.first, end);
        }
        self.mechanism.free_at = self.mechanism.free_at.max(free_at);
    }

    /// A write; `carries` is false if no data crosses the interface.
    fn write(&mut self, io: &Io, fua: bool, carries: bool) -> u64 {
        let (first, end) = (io.sector, io.sector + io.sectors);
        self.settle(io.arrived);
        self.stop_stream(io.arrived);
        let appended = self.buffer.appended(first);
        let continues = appended.is_some_and(|index| self.buffer.segments[index].dirty > 0);
        let backs = !fua
            && match self.switches.write_back {
                WriteBack::None => false,
                WriteBack::Appending => continues || !self.buffer.is_dirty(),
                WriteBack::Any => true,
            };
        let mut ready = self.command(io, appended.is_some(), true);
        let mut arm_from = ready.max(io.arrived + self.seek_least());
        let mut data_from = ready.max(io.data_from).max(self.interface_free_at);
        if let Some(extra) = self.overheads.extra {
            ready = io.arrived + extra.command;
            arm_from = ready + extra.seek;
            data_from = ready + extra.disconnect + extra.gap + self.overheads.first_reselect;
            data_from = data_from.max(io.data_from).max(self.interface_free_at);
        }
        data_from += self.overheads.data_preparation;
        let sector_ps = if carries {
            self.interface.write_sector_ps
        } else {
            0
        };
        let room = if backs { self.room(appended) } else { None };
        data_from = data_from.max(room.map_or(0, |(_, at)| at));
        let inflow = Inflow {
            from: data_from,
            sector_ps,
        };
        let data_end = data_from + io.sectors * sector_ps / 1000;
        self.account.link_ns += io.sectors * sector_ps / 1000;
        self.account.overhead_ns += self.overheads.completion[1];
        self.interface_free_at = data_end;
        if let Some((segment, _)) = room {
            self.accept(io, segment, arm_from, inflow);
            return data_end + self.overheads.completion[1];
        }
        self.end_destaging();
        let arm_from = arm_from.max(self.mechanism.free_at);
        let on_medium = self.mechanism.write(first, io.sectors, arm_from, inflow);
        let segment = appended.or_else(|| self.buffer.take_for_write());
        self.keep(segment, first, end);
        let mut done = on_medium.max(data_end);
        if !self.switches.never_disconnects {
            let away = self
                .overheads
                .extra
                .map_or(self.overheads.write_disconnect, |e| e.second);
            done = done.max(data_end + away) + self.overheads.other_reselect;
        }
        done + self.overheads.completion[1]
    }

    fn keep(&mut self, segment: Option<usize>, first: u64, end: u64) {
        self.buffer.forget(first, end, segment);
        let Some(segment) = segment else {
            return;
        };
        let kept = self.buffer.segments[segment];
        let start = if kept.end == first && kept.first < kept.end {
            kept.first
        } else {
            first
        };
        self.buffer.fill(segment, start, end);
        self.buffer.touch(segment);
    }

    /// A segment for a write, and the moment from which it has room. May destage.
    fn room(&mut self, appended: Option<usize>) -> Option<(usize, u64)> {
        if let Some(segment) = appended {
            return Some((segment, 0));
        }
        let mut at = 0;
        loop {
            if let Some(segment) = self.buffer.take_for_write() {
                return Some((segment, at));
            }
            if self.destaging.is_some() {
                at = self.mechanism.free_at;
                self.end_destaging();
            } else {
                self.destage_next(u64::MAX)?;
            }
        }
    }

    /// Takes a write into a segment; the arm may start for it at once.
    fn accept(&mut self, io: &Io, segment: usize, from: u64, inflow: Inflow) {
        let (first, end) = (io.sector, io.sector + io.sectors);
        self.keep(Some(segment), first, end);
        let mut pending = self.dirty.iter_mut();
        let joined = pending.find(|dirty| dirty.segment == segment && dirty.end == first);
        if let Some(dirty) = joined.filter(|_| self.switches.joins_writes) {
            dirty.end = end;
            return;
        }
        self.buffer.segments[segment].dirty += 1;
        let mut candidate = self.candidate(io);
        candidate.arrived = inflow.from;
        self.dirty.push(Dirty {
            segment,
            first,
            end,
            from,
            inflow,
            candidate,
        });
    }

    fn end_destaging(&mut self) {
        if let Some(segment) = self.destaging.take() {
            let dirty = &mut self.buffer.segments[segment].dirty;
            *dirty = dirty.saturating_sub(1);
        }
    }

    /// Destages while the mechanism is free, until `now`.
    fn destage_until(&mut self, now: u64) {
        while self.mechanism.free_at <= now {
            self.end_destaging();
            if self.destage_next(now).is_none() {
                return;
            }
        }
    }

    /// Begins to destage the next write whose arm may start by `now`; `None` if there is none.
    fn destage_next(&mut self, now: u64) -> Option<()> {
        let from = self.mechanism.free_at;
        let choice = Choice {
            mechanism: &self.mechanism,
            from,
            age_bound_ns: self.queue.age_bound_ns,
        };
        let candidates = self.dirty.iter().map(|dirty| dirty.candidate);
        let sweep = &mut self.queue.destage_sweep;
        let index = self.queue.destage.choose(&choice, sweep, candidates)?;
        if self.dirty[index].from > now {
            return None;
        }
        let dirty = self.dirty.remove(index);
        let start = from.max(dirty.from);
        self.mechanism
            .write(dirty.first, dirty.end - dirty.first, start, dirty.inflow);
        self.destaging = Some(dirty.segment);
        Some(())
    }

    /// Writes all that is dirty; answered when it is on the medium.
    fn flush(&mut self, io: &Io) -> u64 {
        self.settle(io.arrived);
        let ready = self.command(io, true, true);
        if self.dirty.is_empty() && self.destaging.is_none() {
            return ready;
        }
        while self.destage_next(u64::MAX).is_some() {
            self.end_destaging();
        }
        self.end_destaging();
        for segment in &mut self.buffer.segments {
            segment.dirty = 0;
        }
        ready.max(self.mechanism.free_at)
    }

    /// Moves requests from the host's queue into the drive's, as far as its depth allows.
    fn refill(&mut self, now: u64) {
        while self.queue.waiting.len() < self.queue.depth {
            let choice = Choice {
                mechanism: &self.mechanism,
                from: self.mechanism.free_at,
                age_bound_ns: self.queue.age_bound_ns,
            };
            let candidates = self.queue.host.iter().map(|waiting| waiting.candidate);
            let sweep = &mut self.queue.host_sweep;
            let Some(index) = self
                .queue
                .host_discipline
                .choose(&choice, sweep, candidates)
            else {
                return;
            };
            let mut waiting = self.queue.host.remove(index).expect("it was chosen");
            self.account.queue_ns += now.saturating_sub(waiting.io.arrived);
            waiting.io.arrived = waiting.io.arrived.max(now);
            self.queue.waiting.push_back(waiting);
        }
    }
}

/// Whole sectors of a pass that have passed.
fn passed(pass: &Pass, now: u64) -> u64 {
    let turned = now.saturating_sub(pass.start) * pass.count;
    let sectors = turned / pass.ns(pass.count).max(1);
    sectors.min(pass.count)
}

impl Model for Drive {
    fn capacity_bytes(&self) -> u64 {
        self.sectors * SECTOR_BYTES
    }

    fn attach(&mut self, slowest_ps_per_byte: u64) {
        let sector = slowest_ps_per_byte * SECTOR_BYTES;
        self.interface.read_sector_ps = self.interface.read_sector_ps.max(sector);
        self.interface.write_sector_ps = self.interface.write_sector_ps.max(sector);
    }

    fn submit(&mut self, io: &Io, out: &mut Outbox) {
        if !self.in_service {
            self.serve(io, io.arrived, out);
            return;
        }
        let waiting = Waiting {
            io: *io,
            candidate: self.candidate(io),
        };
        // The request in service has a tag, too.
        if self.queue.host.is_empty() && self.queue.waiting.len() + 1 < self.queue.depth {
            self.queue.waiting.push_back(waiting);
        } else {
            self.queue.host.push_back(waiting);
        }
    }

    fn finished(&mut self, now: u64, out: &mut Outbox) {
        self.in_service = false;
        self.refill(now);
        let choice = Choice {
            mechanism: &self.mechanism,
            from: self.mechanism.free_at,
            age_bound_ns: self.queue.age_bound_ns,
        };
        let candidates = self.queue.waiting.iter().map(|waiting| waiting.candidate);
        let sweep = &mut self.queue.sweep;
        if let Some(index) = self.queue.discipline.choose(&choice, sweep, candidates) {
            let waiting = self.queue.waiting.remove(index).expect("it was chosen");
            self.serve(&waiting.io, now, out);
        }
    }

    fn queues(&self) -> bool {
        self.queue.depth > 1
    }

    fn account(&self) -> Account {
        let mut account = self.account;
        account.seek_ns += self.mechanism.seek_ns;
        account.rotation_ns += self.mechanism.rotation_ns;
        account.transfer_ns += self.mechanism.transfer_ns;
        account
    }
}
