//! A link to an array that this process has opened through the library.

use crate::torture::client::{Answer, Link};
use crate::torture::ledger::Wish;
use spindles_array::Target;
use spindles_block::{BlockIndex, BufferId, BufferSlice, Operation, Reply, Request};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

pub(crate) struct Library {
    pub(crate) target: Box<dyn Target>,
    free: Vec<BufferId>,
    /// The buffer of each request in flight, and the bytes that its answer brings.
    used: BTreeMap<u64, (BufferId, usize)>,
    replies: VecDeque<Reply>,
}

impl Library {
    /// Makes a link for up to `depth` requests at once of at most `longest` blocks.
    pub(crate) fn new(mut target: Box<dyn Target>, depth: u64, longest: u32) -> Self {
        Self {
            free: (0..depth).map(|_| target.allocate(longest)).collect(),
            target,
            used: BTreeMap::new(),
            replies: VecDeque::new(),
        }
    }
}

impl Link for Library {
    fn send(&mut self, number: u64, wish: Wish, blocks: Range<u64>, data: &[u8]) -> io::Result<()> {
        let operation = match wish {
            Wish::Read => Operation::Read,
            Wish::Write { fua } => Operation::Write { fua },
            Wish::Flush => Operation::Flush,
            Wish::Discard => Operation::Discard,
            Wish::Zeroes { fua } => Operation::WriteZeroes { fua },
        };
        let count = u32::try_from(blocks.end - blocks.start).expect("few");
        let block_bytes = self.target.facts().block_size.bytes();
        let buffer = self.free.pop().expect("one for each request at once");
        let mut brings = 0;
        if wish == Wish::Read {
            brings = usize::try_from(count * block_bytes).expect("64 bits");
            // Bytes that are not filled in will be noticed.
            self.target.buffer_mut(buffer)[..brings].fill(0xdd);
        } else {
            self.target.buffer_mut(buffer)[..data.len()].copy_from_slice(data);
        }
        self.used.insert(number, (buffer, brings));
        let carries = matches!(operation, Operation::Read | Operation::Write { .. });
        let slice = BufferSlice {
            buffer,
            first_block: 0,
        };
        let request = Request {
            token: number,
            operation,
            block: BlockIndex(blocks.start),
            blocks: count,
            buffer: if carries { slice } else { BufferSlice::NONE },
        };
        while self.target.submit(request).is_err() {
            self.replies.extend(self.target.poll(true));
        }
        Ok(())
    }

    fn receive(&mut self, wait: bool) -> io::Result<Option<Answer>> {
        let reply = self.replies.pop_front().or_else(|| self.target.poll(wait));
        let Some(reply) = reply else {
            return Ok(None);
        };
        let (buffer, brings) = self.used.remove(&reply.token).expect("it was asked");
        self.free.push(buffer);
        let answer = match reply.result {
            Ok(()) => Ok(self.target.buffer(buffer)[..brings].to_vec()),
            Err(error) => Err(error.to_string()),
        };
        Ok(Some((reply.token, answer)))
    }
}
