//! The times of a flash drive. Cleaning is paid in even parts by the writes it makes room for, and
//! a shared channel by the sum of its transfers: no event but the answer is needed.

use super::map::Map;
use crate::account::Account;
use crate::model::{Io, Model, Outbox};
use crate::parameters::SECTOR_BYTES;
use spindles_block::Operation;

/// The interface and the electronics, for reads or for writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub(super) ps_per_byte: u64,
    pub(super) request_ns: u64,
    pub(super) latency_ns: u64,
}

/// A die. Reads go before waiting programs, not before the one under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Die {
    reads_until: u64,
    programs_until: u64,
}

/// The parts of a drive.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) capacity_bytes: u64,
    pub(super) map: Map,
    pub(super) unit_bytes: u64,
    pub(super) page_bytes: u64,
    /// Die `i` is behind channel `i` modulo the channels.
    pub(super) dies: Vec<Die>,
    /// The moments at which the channels have moved all data so far.
    pub(super) channels: Vec<u64>,
    /// The moments at which the pages of the buffer are free.
    pub(super) buffer: Vec<u64>,
    pub(super) read: Direction,
    pub(super) write: Direction,
    pub(super) channel_ps_per_byte: u64,
    pub(super) page_read_ns: u64,
    pub(super) page_program_ns: u64,
    /// The share of a page in its block's erase.
    pub(super) page_erase_ns: u64,
    pub(super) cache_program_ns: u64,
    pub(super) cache_pages: u64,
    pub(super) has_capacitor: bool,
}

#[derive(Debug)]
pub(super) struct Flash {
    parts: Parts,
    /// The moment at which all commands so far are decoded.
    decoded_at: u64,
    /// The moments at which the interface has moved all data so far.
    read_at: u64,
    written_at: u64,
    /// Pages programmed for the host.
    pages: u64,
    /// Bytes of the page that the buffer gathers.
    gathered: u64,
    /// The end of the last program.
    programmed_at: u64,
    /// Pages in the fast region.
    cached: u64,
    /// The end of all work so far.
    idle_from: u64,
    written_units: u64,
    account: Account,
}

impl Die {
    /// Returns the end of a read; a program takes `program_ns`.
    fn read(&mut self, from: u64, read_ns: u64, program_ns: u64) -> u64 {
        let mut start = from.max(self.reads_until);
        if self.programs_until > start {
            start += (self.programs_until - start) % program_ns.max(1);
            self.programs_until += read_ns;
        }
        self.reads_until = start + read_ns;
        self.reads_until
    }

    /// Returns the end of a program with its cleaning.
    fn program(&mut self, from: u64, ns: u64) -> u64 {
        let start = from.max(self.programs_until).max(self.reads_until);
        self.programs_until = start + ns;
        self.programs_until
    }
}

impl Flash {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            parts,
            decoded_at: 0,
            read_at: 0,
            written_at: 0,
            pages: 0,
            gathered: 0,
            programmed_at: 0,
            cached: 0,
            idle_from: 0,
            written_units: 0,
            account: Account::default(),
        }
    }

    /// Returns the moment at which the electronics have decoded a command.
    fn command(&mut self, io: &Io, direction: Direction) -> u64 {
        self.account.overhead_ns += direction.request_ns + direction.latency_ns;
        self.decoded_at = self.decoded_at.max(io.arrived) + direction.request_ns;
        self.decoded_at + direction.latency_ns
    }

    fn read(&mut self, io: &Io) -> u64 {
        let direction = self.parts.read;
        let ready = self.command(io, direction);
        let parts = &mut self.parts;
        let (mut first, bytes) = (io.sector * SECTOR_BYTES, io.sectors * SECTOR_BYTES);
        let end = first + bytes;
        let program_ns = parts.page_program_ns;
        // No data is on a channel before.
        let sensed = ready + parts.page_read_ns;
        let mut moved_ns = 0;
        let mut answer = 0;
        while first < end {
            let page = first / parts.page_bytes;
            let piece = end.min((page + 1) * parts.page_bytes) - first;
            let (die, channel) = parts.lanes(page);
            let piece_ns = piece * parts.channel_ps_per_byte / 1000;
            if moved_ns == 0 {
                self.read_at = self.read_at.max(sensed + piece_ns);
            }
            moved_ns = moved_ns.max(piece_ns);
            let busy_until = &mut parts.channels[channel];
            *busy_until = (*busy_until).max(sensed) + piece_ns;
            let sensed = parts.dies[die].read(ready, parts.page_read_ns, program_ns);
            let arrived = (sensed + piece_ns).max(parts.channels[channel]);
            answer = answer.max(arrived + piece * direction.ps_per_byte / 1000);
            first += piece;
        }
        let link_ns = bytes * direction.ps_per_byte / 1000;
        self.read_at += link_ns;
        let answer = answer.max(self.read_at);
        self.account.transfer_ns += self.parts.page_read_ns;
        self.account.link_ns += moved_ns + link_ns;
        let alone = self.parts.page_read_ns + moved_ns + link_ns;
        self.account.queue_ns += (answer - io.arrived)
            .saturating_sub(direction.request_ns + direction.latency_ns + alone);
        answer
    }

    fn write(&mut self, io: &Io, is_durable: bool) -> u64 {
        let direction = self.parts.write;
        let ready = self.command(io, direction);
        self.empty_cache(io.arrived);
        let (first, end) = self.units(io, true);
        self.parts.map.write(first, end);
        self.written_units += end - first;
        let mut left = (end - first) * self.parts.unit_bytes;
        let mut at = self.written_at.max(ready).max(io.data_from);
        let mut link_ns = 0;
        while left > 0 {
            if self.gathered == 0 {
                at = at.max(self.parts.buffer[self.slot()]);
            }
            let piece = left.min(self.parts.page_bytes - self.gathered);
            let piece_ns = piece * direction.ps_per_byte / 1000;
            at += piece_ns;
            link_ns += piece_ns;
            left -= piece;
            self.gathered += piece;
            if self.gathered == self.parts.page_bytes {
                self.program(ready, at);
            }
        }
        self.written_at = at;
        self.account.link_ns += link_ns;
        let others = direction.request_ns + direction.latency_ns + link_ns;
        self.account.queue_ns += (at - io.arrived).saturating_sub(others);
        if is_durable {
            at = self.destage(at);
        }
        at
    }

    /// Makes the buffer durable from `at` on; returns the end.
    fn destage(&mut self, at: u64) -> u64 {
        if self.parts.has_capacitor {
            return at;
        }
        if self.gathered > 0 {
            self.program(at, at);
        }
        let durable = at.max(self.programmed_at);
        self.account.transfer_ns += durable - at;
        durable
    }

    /// Programs the gathered page, full or not, on the next die.
    fn program(&mut self, ready: u64, from: u64) {
        let ns = if self.cached < self.parts.cache_pages {
            self.cached += 1;
            self.parts.cache_program_ns
        } else {
            self.page_ns()
        };
        let slot = self.slot();
        let parts = &mut self.parts;
        let (die, channel) = parts.lanes(self.pages);
        let moved_ns = parts.page_bytes * parts.channel_ps_per_byte / 1000;
        let busy_until = &mut parts.channels[channel];
        *busy_until = (*busy_until).max(ready) + moved_ns;
        let arrived = (from + moved_ns).max(*busy_until);
        let end = parts.dies[die].program(arrived, ns);
        parts.buffer[slot] = end;
        self.programmed_at = self.programmed_at.max(end);
        self.pages += 1;
        self.gathered = 0;
    }

    /// The time of a page programmed outside the fast region, with the cleaning it pays.
    fn page_ns(&self) -> u64 {
        let parts = &self.parts;
        let alone = parts.page_program_ns + parts.page_erase_ns;
        let price = parts.map.price();
        alone + price.copies * (parts.page_read_ns + alone) / price.room
    }

    /// Moves pages out of the fast region for the time that the drive was idle.
    fn empty_cache(&mut self, now: u64) {
        self.idle_from = self.idle_from.max(self.programmed_at);
        let idle_ns = now.saturating_sub(self.idle_from);
        let dies = u64::try_from(self.parts.dies.len()).expect("64 bits");
        let page_ns = (self.parts.page_read_ns + self.page_ns()).max(1);
        let emptied = idle_ns.saturating_mul(dies) / page_ns;
        self.cached = self.cached.saturating_sub(emptied);
    }

    /// The place in the buffer of the page being gathered.
    fn slot(&self) -> usize {
        remainder(self.pages, self.parts.buffer.len())
    }

    /// Returns the first unit of a request and the end: units that it touches, or covers.
    fn units(&self, io: &Io, touches: bool) -> (u64, u64) {
        let unit_sectors = self.parts.unit_bytes / SECTOR_BYTES;
        let (first, end) = (io.sector, io.sector + io.sectors);
        if touches {
            (first / unit_sectors, end.div_ceil(unit_sectors))
        } else {
            (first.div_ceil(unit_sectors), end / unit_sectors)
        }
    }
}

impl Parts {
    /// The die of a page, and its channel.
    fn lanes(&self, page: u64) -> (usize, usize) {
        let die = remainder(page, self.dies.len());
        (die, die % self.channels.len())
    }
}

fn remainder(number: u64, count: usize) -> usize {
    let count = u64::try_from(count).expect("64 bits");
    usize::try_from(number % count).expect("less than a length")
}

impl Model for Flash {
    fn capacity_bytes(&self) -> u64 {
        self.parts.capacity_bytes
    }

    fn attach(&mut self, slowest_ps_per_byte: u64) {
        for direction in [&mut self.parts.read, &mut self.parts.write] {
            direction.ps_per_byte = direction.ps_per_byte.max(slowest_ps_per_byte);
        }
    }

    fn submit(&mut self, io: &Io, out: &mut Outbox) {
        let (at, bytes) = match io.operation {
            Operation::Read if io.sectors > 0 => (self.read(io), io.sectors * SECTOR_BYTES),
            Operation::Write { fua } => (self.write(io, fua), 0),
            Operation::Discard | Operation::WriteZeroes { .. } => {
                let (first, end) = self.units(io, false);
                self.parts.map.trim(first, end);
                (self.command(io, self.parts.write), 0)
            }
            Operation::Read => (self.command(io, self.parts.read), 0),
            Operation::Flush => {
                let at = self.command(io, self.parts.write).max(self.written_at);
                (self.destage(at), 0)
            }
        };
        self.idle_from = self.idle_from.max(at);
        out.answer(io.tag, at, bytes);
    }

    fn finished(&mut self, _now: u64, _out: &mut Outbox) {}

    fn account(&self) -> Account {
        let moved = self.parts.map.copied_units();
        Account {
            programmed_bytes: (self.written_units + moved) * self.parts.unit_bytes,
            ..self.account
        }
    }
}
