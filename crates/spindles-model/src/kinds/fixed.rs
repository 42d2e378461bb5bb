//! A rate and a latency, for devices of which nothing else is known. Transfers wait for one
//! another; latencies overlap.

use super::{Kind, Part, Row};
use crate::account::Account;
use crate::fault::Fault;
use crate::kind::number;
use crate::model::{Io, Model, Outbox};
use crate::parameters::{SECTOR_BYTES, Values, ns, whole};
use spindles_block::Operation;

pub(crate) static ROW: Row = Row {
    kind: Kind {
        name: "fixed",
        about: "a rate and a latency, for devices of which nothing else is known",
        numbers: &[
            number("sectors", 1.0, 1e15, "sectors of 512 bytes"),
            number("read_rate_mb_s", 1e-6, 1e9, "MB/s that all reads share"),
            number("write_rate_mb_s", 1e-6, 1e9, "MB/s that all writes share"),
            number("read_latency_ms", 0.0, 1e6, "ms added to each read"),
            number("write_latency_ms", 0.0, 1e6, "ms added to each write"),
            number(
                "read_request_ms",
                0.0,
                1e6,
                "ms a read keeps others waiting",
            ),
            number(
                "write_request_ms",
                0.0,
                1e6,
                "ms a write keeps others waiting",
            ),
            number(
                "flush_ms",
                0.0,
                1e6,
                "ms of a flush after all writes before it",
            ),
        ],
        switches: &[],
        parts: &[
            Part {
                name: "transfer",
                times: &[],
                rates: &["read_rate_mb_s", "write_rate_mb_s"],
            },
            Part {
                name: "requests",
                times: &["read_request_ms", "write_request_ms"],
                rates: &[],
            },
            Part {
                name: "latency",
                times: &["read_latency_ms", "write_latency_ms"],
                rates: &[],
            },
            Part {
                name: "flush",
                times: &["flush_ms"],
                rates: &[],
            },
        ],
    },
    build: Some(build),
    portrait: None,
};

/// Times of reads, or of writes.
#[derive(Clone, Copy, Debug)]
struct Direction {
    request_ns: u64,
    latency_ns: u64,
    ps_per_byte: u64,
}

#[derive(Debug)]
struct Fixed {
    capacity_bytes: u64,
    read: Direction,
    write: Direction,
    flush_ns: u64,
    /// The moment at which all transfers so far have ended.
    free_at: u64,
    /// The last answer of a write, for flushes.
    written_at: u64,
    account: Account,
}

fn build(values: &Values, _angle: u64) -> Result<Box<dyn Model>, Fault> {
    let ps_per_byte = |rate: f64| whole(1e6 / rate);
    let optional = |key: &str| ns(values.find(key).unwrap_or(0.0));
    let read_rate = values.number("read_rate_mb_s")?;
    Ok(Box::new(Fixed {
        capacity_bytes: whole(values.number("sectors")?) * SECTOR_BYTES,
        read: Direction {
            request_ns: optional("read_request_ms"),
            latency_ns: optional("read_latency_ms"),
            ps_per_byte: ps_per_byte(read_rate),
        },
        write: Direction {
            request_ns: optional("write_request_ms"),
            latency_ns: optional("write_latency_ms"),
            ps_per_byte: ps_per_byte(values.find("write_rate_mb_s").unwrap_or(read_rate)),
        },
        flush_ns: optional("flush_ms"),
        free_at: 0,
        written_at: 0,
        account: Account::default(),
    }))
}

impl Fixed {
    fn transfer(&mut self, io: &Io, direction: Direction, bytes: u64) -> u64 {
        let start = self.free_at.max(io.arrived).max(io.data_from);
        let moved = bytes * direction.ps_per_byte / 1000;
        self.account.queue_ns += start - io.arrived;
        self.account.transfer_ns += moved;
        self.account.overhead_ns += direction.request_ns + direction.latency_ns;
        self.free_at = start + direction.request_ns + moved;
        self.free_at + direction.latency_ns
    }
}

impl Model for Fixed {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn attach(&mut self, slowest_ps_per_byte: u64) {
        for direction in [&mut self.read, &mut self.write] {
            direction.ps_per_byte = direction.ps_per_byte.max(slowest_ps_per_byte);
        }
    }

    fn submit(&mut self, io: &Io, out: &mut Outbox) {
        let bytes = io.sectors * SECTOR_BYTES;
        let at = match io.operation {
            Operation::Read => self.transfer(io, self.read, bytes),
            Operation::Write { .. } => self.transfer(io, self.write, bytes),
            Operation::Discard | Operation::WriteZeroes { .. } => self.transfer(io, self.write, 0),
            Operation::Flush => {
                self.account.overhead_ns += self.flush_ns;
                self.written_at.max(io.arrived) + self.flush_ns
            }
        };
        if io.operation.is_write() {
            self.written_at = self.written_at.max(at);
        }
        out.answer(
            io.tag,
            at,
            if io.operation == Operation::Read {
                bytes
            } else {
                0
            },
        );
    }

    fn finished(&mut self, _now: u64, _out: &mut Outbox) {}

    fn account(&self) -> Account {
        self.account
    }
}
