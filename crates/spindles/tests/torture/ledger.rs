//! The requests and answers so far, the legal contents of every block, and the verdict on each
//! answer. All shapes judge by it, and by `docs/design/consistency.md` alone.
//!
//! A ledger may have a log: a file with a line before each request and after each answer. It
//! outlives a killed client, and the next client continues from there.

use serde::{Deserialize, Serialize};
use spindles_workload::history::{Contents, FlushToken, History, Initial, ReadToken, WriteToken};
use spindles_workload::stamp::{Found, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wish {
    Read,
    Write { fua: bool },
    Zeroes { fua: bool },
    Discard,
    Flush,
}

/// A line of the log. `index` counts requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Record {
    Size {
        blocks: u64,
        sectors_per_block: u64,
    },
    /// A client starts without some members or the journal device.
    Lacking,
    Asked {
        wish: Wish,
        blocks: Range<u64>,
    },
    /// The contents of each sector read, or an error.
    Answered {
        index: usize,
        held: Option<Vec<Held>>,
    },
    /// The array has resynced all that crashes left.
    Settled,
    /// The client is gone; with `power`, so are the caches.
    Crash {
        power: bool,
    },
}

/// This many sectors with zeros, or with stamps of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held(u64, Option<u64>);

#[derive(Clone, Debug)]
enum Token {
    Write(WriteToken),
    Read(ReadToken),
    Flush(FlushToken),
}

/// A request in flight and its blocks.
#[derive(Clone, Debug)]
struct Asked {
    wish: Wish,
    blocks: Range<u64>,
    token: Token,
}

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    run: u64,
    sector_bytes: u32,
    /// Of the blocks up to the last one asked for; the others hold zeros.
    history: History,
    blocks: u64,
    sectors_per_block: u64,
    /// All requests; `None` once answered.
    asked: Vec<Option<Asked>>,
    /// Blocks whose reads may fail until they are written.
    pub(crate) may_fail: BTreeSet<u64>,
    /// Blocks with writes that were not durable at a crash, and that nothing has settled since: no
    /// read, no write and no resync, only perhaps another crash. They may return errors if members
    /// or the journal are missing.
    not_durable: BTreeSet<u64>,
    /// The blocks of all writes so far.
    writes: BTreeMap<u64, Range<u64>>,
    /// Set if more members are missing than the level survives, so that any read may fail.
    pub(crate) beyond: bool,
    /// Blocks whose reads failed as rule 5 permits, in the order of the reads.
    pub(crate) failed_reads: Vec<u64>,
    log: Option<Arc<File>>,
}

impl Ledger {
    /// Creates the ledger of a new array, whose blocks hold zeros.
    pub(crate) fn new(run: u64, sector_bytes: u32) -> Self {
        Self {
            run,
            sector_bytes,
            history: History::new(run, sector_bytes, 0, Initial::Zeros),
            blocks: 0,
            sectors_per_block: 1,
            asked: Vec::new(),
            may_fail: BTreeSet::new(),
            not_durable: BTreeSet::new(),
            writes: BTreeMap::new(),
            beyond: false,
            failed_reads: Vec::new(),
            log: None,
        }
    }

    /// Creates the ledger that a log tells of, and continues the log.
    pub(crate) fn open(path: &Path, run: u64, sector_bytes: u32) -> io::Result<Self> {
        let mut ledger = Self::new(run, sector_bytes);
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        for line in text.lines() {
            ledger.take(serde_json::from_str(line)?)?;
        }
        let log = File::options().append(true).create(true).open(path)?;
        ledger.log = Some(Arc::new(log));
        Ok(ledger)
    }

    /// Adds a line to a log whose client is gone. A kill may have cut the last line, at the end of
    /// a page: its request was not sent, or its answer counts as not given.
    pub(crate) fn append(path: &Path, record: &Record) -> io::Result<()> {
        let mut file = File::options().append(true).create(true).open(path)?;
        let text = std::fs::read(path)?;
        let last = text.iter().rposition(|&byte| byte == b'\n');
        file.set_len(last.map_or(0, |last| last as u64 + 1))?;
        writeln!(file, "{}", serde_json::to_string(record)?)
    }

    /// Logs a line in one call, since the process may end at any time.
    fn log(&mut self, record: impl FnOnce(&Self) -> Record) {
        let Some(mut log) = self.log.as_deref() else {
            return;
        };
        let mut line = serde_json::to_string(&record(self)).expect("a plain record");
        line.push('\n');
        log.write_all(line.as_bytes()).expect("the log takes all");
    }

    /// Applies an earlier client's line.
    fn take(&mut self, record: Record) -> io::Result<()> {
        match record {
            Record::Size {
                blocks,
                sectors_per_block,
            } => self.opened(blocks, sectors_per_block),
            Record::Lacking => self.lacks(),
            Record::Asked { wish, blocks } => drop(self.asks(wish, blocks)),
            Record::Answered { index, held } => {
                let first = self.asked[index]
                    .as_ref()
                    .map_or(0, |asked| asked.blocks.start);
                let bytes = held.map(|held| self.bytes_of(first, &held));
                let answer = bytes.as_deref().ok_or("as logged");
                self.answered(index, answer).map_err(io::Error::other)?;
            }
            Record::Settled => self.settled(),
            Record::Crash { power } => self.crashed(power),
        }
        Ok(())
    }

    fn bytes_of(&self, block: u64, held: &[Held]) -> Vec<u8> {
        let sector_bytes = usize::try_from(self.sector_bytes).expect("64 bits");
        let all = held.iter().flat_map(|held| (0..held.0).map(|_| held.1));
        let mut bytes = Vec::new();
        for (sector, write) in (block * self.sectors_per_block..).zip(all) {
            let mut of_sector = vec![0; sector_bytes];
            let run = self.run;
            if let Some(write) = write {
                Stamp { run, sector, write }.fill(&mut of_sector);
            }
            bytes.extend(of_sector);
        }
        bytes
    }

    /// Records that the array was opened, with this many blocks; new ones hold zeros.
    pub(crate) fn opened(&mut self, blocks: u64, sectors_per_block: u64) {
        assert!(self.blocks <= blocks, "the array is shorter than it was");
        if self.blocks < blocks {
            self.log(|_| Record::Size {
                blocks,
                sectors_per_block,
            });
            (self.blocks, self.sectors_per_block) = (blocks, sectors_per_block);
        }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Records that the array is opened without some devices.
    pub(crate) fn lacks(&mut self) {
        self.log(|_| Record::Lacking);
        self.may_fail.extend(&self.not_durable);
    }

    /// Records a request in flight and returns its index.
    pub(crate) fn asks(&mut self, wish: Wish, blocks: Range<u64>) -> usize {
        self.log(|_| Record::Asked {
            wish,
            blocks: blocks.clone(),
        });
        let first = blocks.start * self.sectors_per_block;
        let sectors = (blocks.end - blocks.start) * self.sectors_per_block;
        if self.history.sectors() < first + sectors {
            self.history.extend(first + sectors);
        }
        let contents = match wish {
            Wish::Write { .. } => Contents::Stamps,
            _ => Contents::Zeros,
        };
        let token = match wish {
            Wish::Read => Token::Read(self.history.read(first, sectors)),
            Wish::Flush => Token::Flush(self.history.flush()),
            _ => {
                let write = self.history.write(first, sectors, contents);
                self.writes.insert(write.write(), blocks.clone());
                Token::Write(write)
            }
        };
        self.asked.push(Some(Asked {
            wish,
            blocks,
            token,
        }));
        self.asked.len() - 1
    }

    /// Returns the payload of a write; empty for other requests.
    pub(crate) fn payload(&self, index: usize) -> Vec<u8> {
        let Some(Asked {
            wish: Wish::Write { .. },
            token: Token::Write(token),
            blocks,
        }) = &self.asked[index]
        else {
            return Vec::new();
        };
        let sectors = (blocks.end - blocks.start) * self.sectors_per_block;
        let bytes = sectors * u64::from(self.sector_bytes);
        let mut payload = vec![0; usize::try_from(bytes).expect("64 bits")];
        self.history.fill(*token, &mut payload);
        payload
    }

    /// Judges the answer to a request: its bytes, which are empty except for reads, or an error.
    pub(crate) fn answered(
        &mut self,
        index: usize,
        answer: Result<&[u8], impl std::fmt::Display>,
    ) -> Result<(), String> {
        let asked = self.asked[index].take().expect("it is in flight");
        let Asked {
            wish,
            blocks,
            token,
        } = asked;
        let done = answer.is_ok();
        let permitted = match (token, &answer) {
            (Token::Read(token), Ok(bytes)) => {
                let judged = self.history.read_answered(token, bytes);
                judged.map_err(|violation| format!("a read of {blocks:?}: {violation}"))?;
                self.not_durable.retain(|block| !blocks.contains(block));
                true
            }
            (Token::Read(token), Err(_)) => {
                self.history.read_failed(token);
                let permitted = blocks.clone().any(|block| self.may_fail.contains(&block));
                if permitted && blocks.end - blocks.start == 1 {
                    self.failed_reads.push(blocks.start);
                }
                permitted || self.beyond
            }
            (Token::Write(token), _) => {
                let fua = matches!(wish, Wish::Write { fua } | Wish::Zeroes { fua } if fua);
                self.history.write_answered(token, done, fua);
                if done {
                    self.may_fail.retain(|block| !blocks.contains(block));
                    self.not_durable.retain(|block| !blocks.contains(block));
                }
                // Small writes may need what a torn row lacks.
                done || !self.may_fail.is_empty()
            }
            (Token::Flush(token), _) => {
                if done {
                    self.history.flush_answered(token);
                }
                done
            }
        };
        self.log(|ledger| Record::Answered {
            index,
            held: answer.as_ref().ok().map(|bytes| ledger.held(bytes)),
        });
        match answer {
            Err(error) if !permitted => Err(format!("{wish:?} of {blocks:?} failed: {error}")),
            _ => Ok(()),
        }
    }

    /// Records the success of a write or flush.
    pub(crate) fn done(&mut self, index: usize) {
        let judged = self.answered(index, Ok::<_, &str>(&[]));
        judged.expect("success is always legal");
    }

    /// Judges bytes that were read from block `first` on.
    pub(crate) fn found(&mut self, first: u64, bytes: &[u8]) -> Result<(), String> {
        let number = |length: usize| u64::try_from(length).expect("64 bits");
        let block_bytes = u64::from(self.sector_bytes) * self.sectors_per_block;
        let end = first + number(bytes.len()) / block_bytes;
        let known = self.history.sectors() / self.sectors_per_block;
        let known = known.clamp(first, end);
        let at = usize::try_from((known - first) * block_bytes).expect("64 bits");
        let (bytes, rest) = bytes.split_at(at);
        let zeros = [0; 4096];
        if rest
            .chunks(zeros.len())
            .any(|part| *part != zeros[..part.len()])
        {
            return Err(format!(
                "blocks from {known} on hold data that no write put there"
            ));
        }
        let index = self.asks(Wish::Read, first..known);
        self.answered(index, Ok::<_, &str>(bytes))
    }

    /// Returns the contents of a read that was found legal.
    fn held(&self, bytes: &[u8]) -> Vec<Held> {
        let mut all: Vec<Held> = Vec::new();
        for sector in bytes.chunks_exact(self.history.sector_bytes()) {
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

    /// Records that the array has resynced all that crashes left.
    pub(crate) fn settled(&mut self) {
        self.log(|_| Record::Settled);
        self.not_durable.clear();
    }

    /// Records the death of the process that had the array open, or a loss of power.
    pub(crate) fn crashed(&mut self, power: bool) {
        self.asked.fill_with(|| None);
        let per_block = self.sectors_per_block;
        // In whole rows, volatile writes may be lost with members, even if only the process
        // crashed.
        let sectors = self.history.in_doubt(true).into_iter();
        let blocks = sectors.map(|sector| sector / per_block);
        self.not_durable.extend(blocks);
        if power {
            self.history.power_lost();
        } else {
            self.history.process_crashed();
        }
    }

    /// Returns the number of blocks with writes that were not durable at the last crash.
    pub(crate) fn not_durable(&self) -> u64 {
        u64::try_from(self.not_durable.len()).expect("64 bits")
    }

    /// Returns the blocks that a crash left old or new, and that no read has decided since.
    pub(crate) fn undecided(&self) -> BTreeSet<u64> {
        let sectors = self.history.in_doubt(false).into_iter();
        sectors
            .map(|sector| sector / self.sectors_per_block)
            .collect()
    }

    /// Returns the blocks that were ever written.
    pub(crate) fn touched(&self) -> BTreeSet<u64> {
        self.writes.values().cloned().flatten().collect()
    }

    /// Returns true if a block was ever written like that, or holds zeros.
    pub(crate) fn once_held(&self, block: u64, bytes: &[u8]) -> bool {
        match Stamp::find(bytes) {
            Found::Zeros => true,
            Found::Stamp(Stamp { run, sector, write }) => {
                let blocks = self.writes.get(&write);
                (run, sector) == (self.run, block)
                    && blocks.is_some_and(|blocks| blocks.contains(&block))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client knows all that an earlier one logged.
    #[test]
    fn a_ledger_resumes_where_it_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let open = || Ledger::open(&path, 7, 512).expect("its log");
        let mut ledger = open();
        ledger.opened(4, 8);
        let mut bytes = Vec::new();
        for flushes in [true, false] {
            let write = ledger.asks(Wish::Write { fua: false }, 1..2);
            bytes.push(ledger.payload(write));
            ledger.done(write);
            if flushes {
                let flush = ledger.asks(Wish::Flush, 0..0);
                ledger.done(flush);
            }
        }
        ledger.found(1, &bytes[1]).expect("it is legal");
        // The kill cut the line of a request that was not sent.
        let log = File::options().append(true).open(&path);
        let mut log = log.expect("it is there");
        let cut = br#"{"Asked":{"wish":"Flush","blo"#;
        log.write_all(cut).expect("room");
        Ledger::append(&path, &Record::Crash { power: true }).expect("room");
        // Both writes are legal, and the contents before the first are not.
        for (bytes, legal) in [
            (&bytes[0], true),
            (&bytes[1], true),
            (&vec![0; 4096], false),
        ] {
            std::fs::copy(&path, folder.path().join("kept")).expect("room");
            assert_eq!(open().found(1, bytes).is_ok(), legal);
            std::fs::copy(folder.path().join("kept"), &path).expect("room");
        }
        // The block with the volatile write may fail only if members are missing.
        let mut ledger = open();
        assert!(ledger.may_fail.is_empty());
        ledger.lacks();
        assert_eq!(open().may_fail, BTreeSet::from([1]));
    }

    /// Blocks that a crash left in doubt may be lost with a member until something settles them. A
    /// flush does not, and neither does another crash.
    #[test]
    fn doubt_ends_when_a_block_is_read_written_or_resynced() {
        let mut ledger = Ledger::new(7, 512);
        ledger.opened(4, 1);
        let write = ledger.asks(Wish::Write { fua: false }, 0..4);
        let bytes = ledger.payload(write);
        ledger.done(write);
        ledger.crashed(false);
        let flush = ledger.asks(Wish::Flush, 0..0);
        ledger.done(flush);
        ledger.found(0, &bytes[..512]).expect("it is legal");
        let write = ledger.asks(Wish::Write { fua: true }, 1..2);
        ledger.done(write);
        ledger.crashed(true);
        let mut resynced = ledger.clone();
        ledger.lacks();
        assert_eq!(ledger.may_fail, BTreeSet::from([2, 3]));
        resynced.settled();
        resynced.lacks();
        assert_eq!(resynced.may_fail, BTreeSet::new());
    }

    /// Lost and wrong answers are noticed, permitted ones are not.
    #[test]
    fn the_verdict_notices_lost_writes_and_wrong_errors() {
        let mut ledger = Ledger::new(7, 512);
        ledger.opened(4, 1);
        let write = ledger.asks(Wish::Write { fua: false }, 1..3);
        let new = ledger.payload(write);
        ledger.done(write);
        ledger.crashed(false);
        assert!(ledger.clone().found(1, &[0; 1024]).is_err());
        assert!(ledger.clone().found(0, &new).is_err());
        assert!(ledger.clone().found(1, &new).is_ok());
        let mut fails = |wish| {
            let index = ledger.asks(wish, 2..4);
            ledger.answered(index, Err("EIO")).is_err()
        };
        assert!(fails(Wish::Read) && fails(Wish::Write { fua: true }) && fails(Wish::Flush));
        ledger.may_fail.insert(2);
        let mut fails = |wish| {
            let index = ledger.asks(wish, 2..4);
            ledger.answered(index, Err("EIO")).is_err()
        };
        assert!(!fails(Wish::Read) && !fails(Wish::Write { fua: true }) && fails(Wish::Flush));
    }
}
