//! The requests and answers so far, and the possible contents of every sector.
//!
//! The client logs a line before each request and after each answer, in a file that outlives it.
//! The next client reads the file and continues from there.

use serde::{Deserialize, Serialize};
use spindles_workload::history::{
    Contents, FlushToken, History, Initial, ReadToken, Violation, WriteToken,
};
use spindles_workload::stamp::{Found, Stamp};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;

/// A line of the log. `index` counts requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    /// The array has this many sectors.
    Size {
        sectors: u64,
        sectors_per_block: u64,
    },
    /// A client starts without some members or the journal device.
    Lacking {
        journal: bool,
    },
    Write {
        first: u64,
        sectors: u64,
        zeros: bool,
    },
    WriteEnd {
        index: usize,
        done: bool,
        fua: bool,
    },
    Read {
        first: u64,
        sectors: u64,
    },
    /// The contents of each sector, or an error.
    ReadEnd {
        index: usize,
        held: Option<Vec<Held>>,
    },
    Flush,
    FlushEnd {
        index: usize,
        done: bool,
    },
    /// The client is gone; with `power`, so are the caches.
    Crash {
        power: bool,
    },
}

/// This many sectors with zeros, or with stamps of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held(u64, Option<u64>);

/// A request and its sectors.
#[derive(Clone, Debug)]
enum Token {
    Write(WriteToken, Range<u64>),
    Read(ReadToken, u64),
    Flush(FlushToken),
    Ended,
}

/// The log and the history that follows from it.
#[derive(Debug)]
pub(crate) struct Ledger {
    run: u64,
    sector_bytes: u32,
    history: Option<History>,
    sectors_per_block: u64,
    tokens: Vec<Token>,
    /// Blocks whose reads may fail until they are written.
    may_fail: BTreeSet<u64>,
    /// Blocks with writes that were not durable at the last crash. They may return errors if
    /// members or the journal are missing.
    not_durable: BTreeSet<u64>,
    /// Blocks that were ever written.
    touched: BTreeSet<u64>,
    file: Option<File>,
}

impl Ledger {
    /// Reads a log. With `appends`, lines may be added.
    pub(crate) fn open(
        path: &Path,
        run: u64,
        sector_bytes: u32,
        appends: bool,
    ) -> io::Result<Self> {
        let mut ledger = Self {
            run,
            sector_bytes,
            history: None,
            sectors_per_block: 1,
            tokens: Vec::new(),
            may_fail: BTreeSet::new(),
            not_durable: BTreeSet::new(),
            touched: BTreeSet::new(),
            file: None,
        };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        for line in text.lines() {
            ledger.take(&serde_json::from_str(line)?)?;
        }
        if appends {
            ledger.file = Some(File::options().append(true).create(true).open(path)?);
        }
        Ok(ledger)
    }

    /// Adds a line to a log.
    pub(crate) fn append(path: &Path, record: &Record) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(path)?;
        writeln!(file, "{}", serde_json::to_string(record)?)
    }

    /// Writes a line in one call, since the process may end at any time.
    fn tell(&mut self, record: &Record) {
        let line = format!(
            "{}\n",
            serde_json::to_string(record).expect("a plain record")
        );
        let file = self.file.as_mut().expect("it was opened for that");
        file.write_all(line.as_bytes()).expect("the log takes all");
    }

    fn history(&mut self) -> &mut History {
        self.history.as_mut().expect("the array was opened before")
    }

    /// Applies an earlier client's line.
    fn take(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Size {
                sectors,
                sectors_per_block,
            } => self.set_size(*sectors, *sectors_per_block),
            Record::Lacking { .. } => self.lack(),
            Record::Write {
                first,
                sectors,
                zeros,
            } => {
                let contents = contents(*zeros);
                let token = self.history().write(*first, *sectors, contents);
                self.push(Token::Write(token, *first..first + sectors));
            }
            Record::WriteEnd { index, done, fua } => self.end_write(*index, *done, *fua),
            Record::Read { first, sectors } => {
                let token = self.history().read(*first, *sectors);
                self.tokens.push(Token::Read(token, *first));
            }
            Record::ReadEnd { index, held } => {
                let first = match self.tokens[*index] {
                    Token::Read(_, first) => first,
                    _ => 0,
                };
                let bytes = held.as_ref().map(|held| self.bytes_of(first, held));
                let judged = self.end_read(*index, bytes.as_deref());
                judged.map_err(|violation| io::Error::other(violation.to_string()))?;
            }
            Record::Flush => {
                let token = self.history().flush();
                self.tokens.push(Token::Flush(token));
            }
            Record::FlushEnd { index, done } => self.end_flush(*index, *done),
            Record::Crash { power } => self.crash(*power),
        }
        Ok(())
    }

    fn bytes_of(&self, first: u64, held: &[Held]) -> Vec<u8> {
        let sector_bytes = usize::try_from(self.sector_bytes).expect("64 bits");
        let all = held.iter().flat_map(|held| (0..held.0).map(|_| held.1));
        let mut bytes = Vec::new();
        for (sector, write) in (first..).zip(all) {
            let mut of_sector = vec![0; sector_bytes];
            let run = self.run;
            if let Some(write) = write {
                Stamp { run, sector, write }.fill(&mut of_sector);
            }
            bytes.extend(of_sector);
        }
        bytes
    }

    fn set_size(&mut self, sectors: u64, sectors_per_block: u64) {
        self.sectors_per_block = sectors_per_block;
        let (run, sector_bytes) = (self.run, self.sector_bytes);
        let new = || History::new(run, sector_bytes, sectors, Initial::Zeros);
        let history = self.history.get_or_insert_with(new);
        if history.sectors() < sectors {
            history.extend(sectors);
        }
    }

    fn lack(&mut self) {
        self.may_fail.extend(&self.not_durable);
    }

    fn end_write(&mut self, index: usize, done: bool, fua: bool) {
        let ended = std::mem::replace(&mut self.tokens[index], Token::Ended);
        let Token::Write(token, range) = ended else {
            return;
        };
        self.history().write_answered(token, done, fua);
        if done {
            let blocks = range.start / self.sectors_per_block..range.end / self.sectors_per_block;
            self.may_fail.retain(|block| !blocks.contains(block));
        }
    }

    fn end_read(&mut self, index: usize, bytes: Option<&[u8]>) -> Result<(), Violation> {
        let ended = std::mem::replace(&mut self.tokens[index], Token::Ended);
        let Token::Read(token, _) = ended else {
            return Ok(());
        };
        if let Some(bytes) = bytes {
            return self.history().read_answered(token, bytes);
        }
        self.history().read_failed(token);
        Ok(())
    }

    fn end_flush(&mut self, index: usize, done: bool) {
        if let Token::Flush(token) = std::mem::replace(&mut self.tokens[index], Token::Ended)
            && done
        {
            self.history().flush_answered(token);
        }
    }

    fn crash(&mut self, power: bool) {
        self.tokens.fill_with(|| Token::Ended);
        let Some(history) = &mut self.history else {
            return;
        };
        let per_block = self.sectors_per_block;
        // In whole rows, volatile writes may be lost with members, even if only the process
        // crashed.
        let sectors = history.in_doubt(true).into_iter();
        self.not_durable = sectors.map(|sector| sector / per_block).collect();
        if power {
            history.power_lost();
        } else {
            history.process_crashed();
        }
    }

    /// Records that the array was opened, with this many blocks.
    pub(crate) fn opened(&mut self, blocks: u64, sectors_per_block: u64) {
        let sectors = blocks * sectors_per_block;
        let before = self.history.as_ref().map_or(0, History::sectors);
        assert!(before <= sectors, "the array is shorter than it was");
        if before < sectors {
            self.tell(&Record::Size {
                sectors,
                sectors_per_block,
            });
            self.set_size(sectors, sectors_per_block);
        }
    }

    /// Records that the client starts without some devices.
    pub(crate) fn lacks(&mut self, journal: bool) {
        self.tell(&Record::Lacking { journal });
        self.lack();
    }

    /// Records a write in flight and returns its index.
    pub(crate) fn asks_write(&mut self, first: u64, sectors: u64, zeros: bool) -> usize {
        self.tell(&Record::Write {
            first,
            sectors,
            zeros,
        });
        let token = self.history().write(first, sectors, contents(zeros));
        self.push(Token::Write(token, first..first + sectors))
    }

    fn push(&mut self, token: Token) -> usize {
        if let Token::Write(_, range) = &token {
            let per_block = self.sectors_per_block;
            self.touched
                .extend(range.start / per_block..range.end / per_block);
        }
        self.tokens.push(token);
        self.tokens.len() - 1
    }

    /// Fills in the bytes of a write.
    pub(crate) fn fill(&mut self, index: usize, bytes: &mut [u8]) {
        if let Token::Write(token, _) = self.tokens[index] {
            self.history().fill(token, bytes);
        }
    }

    pub(crate) fn write_ended(&mut self, index: usize, done: bool, fua: bool) {
        self.tell(&Record::WriteEnd { index, done, fua });
        self.end_write(index, done, fua);
    }

    pub(crate) fn asks_read(&mut self, first: u64, sectors: u64) -> usize {
        self.tell(&Record::Read { first, sectors });
        let token = self.history().read(first, sectors);
        self.push(Token::Read(token, first))
    }

    /// Judges the result of a read.
    pub(crate) fn read_ended(
        &mut self,
        index: usize,
        bytes: Option<&[u8]>,
    ) -> Result<(), Violation> {
        self.end_read(index, bytes)?;
        let held = bytes.map(|bytes| held(bytes, self.sector_bytes));
        self.tell(&Record::ReadEnd { index, held });
        Ok(())
    }

    pub(crate) fn asks_flush(&mut self) -> usize {
        self.tell(&Record::Flush);
        let token = self.history().flush();
        self.push(Token::Flush(token))
    }

    pub(crate) fn flush_ended(&mut self, index: usize, done: bool) {
        self.tell(&Record::FlushEnd { index, done });
        self.end_flush(index, done);
    }

    /// The blocks that were ever written.
    pub(crate) fn touched(&self) -> &BTreeSet<u64> {
        &self.touched
    }

    /// Returns true if reads of a block may fail.
    pub(crate) fn may_fail(&self, block: u64) -> bool {
        self.may_fail.contains(&block)
    }

    /// Returns true if reads of any block may fail.
    pub(crate) fn any_may_fail(&self) -> bool {
        !self.may_fail.is_empty()
    }
}

fn contents(zeros: bool) -> Contents {
    if zeros {
        Contents::Zeros
    } else {
        Contents::Stamps
    }
}

/// Returns the contents of a read that was found legal.
fn held(bytes: &[u8], sector_bytes: u32) -> Vec<Held> {
    let sector_bytes = usize::try_from(sector_bytes).expect("64 bits");
    let mut all: Vec<Held> = Vec::new();
    for sector in bytes.chunks_exact(sector_bytes) {
        let write = match Stamp::find(sector) {
            Found::Stamp(stamp) => Some(stamp.write),
            _ => None,
        };
        match all.last_mut() {
            Some(last) if last.1 == write => last.0 += 1,
            _ => all.push(Held(1, write)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client knows all that an earlier one logged.
    #[test]
    fn a_ledger_resumes_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut ledger = Ledger::open(&path, 7, 512, true).unwrap();
        ledger.opened(4, 8);
        let mut bytes = [vec![0; 8 * 512], vec![0; 8 * 512]];
        for bytes in &mut bytes {
            let write = ledger.asks_write(8, 8, false);
            ledger.fill(write, bytes);
            ledger.write_ended(write, true, false);
            if bytes[8] != 0 && ledger.tokens.len() == 1 {
                let flush = ledger.asks_flush();
                ledger.flush_ended(flush, true);
            }
        }
        let read = ledger.asks_read(8, 8);
        ledger.read_ended(read, Some(&bytes[1])).unwrap();
        Ledger::append(&path, &Record::Crash { power: true }).unwrap();
        let reopened = || Ledger::open(&path, 7, 512, true).unwrap();
        // Both writes are legal, and the contents before the first are not.
        for (bytes, legal) in [
            (&bytes[0], true),
            (&bytes[1], true),
            (&vec![0; 4096], false),
        ] {
            std::fs::copy(&path, folder.path().join("kept")).unwrap();
            let mut ledger = reopened();
            let read = ledger.asks_read(8, 8);
            assert_eq!(ledger.read_ended(read, Some(bytes)).is_ok(), legal);
            std::fs::copy(folder.path().join("kept"), &path).unwrap();
        }
        // The block with the volatile write may fail only if members are missing.
        let mut ledger = reopened();
        assert!(!ledger.may_fail(1));
        ledger.lacks(false);
        assert!(ledger.may_fail(1) && !ledger.may_fail(0));
        assert!(reopened().may_fail(1));
    }
}
