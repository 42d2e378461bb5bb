//! A controller between a host and an array. It takes the host's requests, and returns requests for
//! the array, answers, and the moment at which it goes on by itself.

mod cells;

use crate::draw::Draw;
use crate::fault::Fault;
use crate::model::Tag;
use crate::parameters::{Parameters, Values, ns, whole};
use crate::world::Work;
use cells::{BLOCK_BYTES, Cells};
use spindles_block::{Instant, Operation};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// What surrounds a controller.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// Requests that the host sends at once.
    pub openings: u32,
    /// True if the host sends its waiting requests in order of place, false in order of arrival.
    pub sorts: bool,
    /// Bytes of the data of a stripe of the array.
    pub stripe_bytes: u64,
    /// Bytes of the array.
    pub capacity_bytes: u64,
    /// Equal arrays in a row that it consists of, each with stripes from its begin on.
    pub sets: u32,
}

/// The numbers of a controller in a draw.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the parameters"
)]
struct Numbers {
    cache_blocks: u64,
    high_blocks: u64,
    low_blocks: u64,
    destage_age_ns: u64,
    destage_depth: usize,
    request_ns: u64,
    ps_per_byte: u64,
    read_ahead_blocks: u64,
    /// Blocks destaged together without gathering.
    ungathered_blocks: u64,
    writes_back: bool,
    has_battery: bool,
    by_place: bool,
    gathers: bool,
}

/// What happens at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The processor has decoded a request.
    Decoded,
    /// The data of a write is in the controller.
    Arrived,
    /// The data of a read is at the host.
    Sent,
}

/// A request of the host under way.
#[derive(Debug)]
struct UnderWay {
    work: Work,
    /// Requests to the array that it waits for.
    awaits: u32,
}

/// The purpose of a request to the array.
#[derive(Debug)]
enum Purpose {
    /// Reads blocks for the cache, and for the requests of the host that wait for them.
    Fill(Range<u64>, Vec<Tag>),
    /// Writes blocks from the cache, as one of the parts of a stripe.
    Destage(Range<u64>, u64),
    /// Passes a request on.
    Pass(Tag),
}

/// Ends of the last reads: a read that begins at one continues it.
const STREAMS: usize = 8;

/// A modelled controller.
#[derive(Debug)]
pub struct Controller {
    numbers: Numbers,
    around: Surroundings,
    cells: Cells,
    /// Requests that the host has not sent yet.
    waiting: Vec<(Tag, Work)>,
    /// The place of the host's last request, for the order of the next ones.
    position_bytes: u64,
    under_way: BTreeMap<Tag, UnderWay>,
    /// Writes that wait for room.
    blocked: VecDeque<Tag>,
    /// Room taken by writes whose data is on its way.
    reserved_blocks: u64,
    /// Flushes that wait until everything is on the disks.
    flushing: Vec<Tag>,
    processor_free_at: u64,
    path_free_at: u64,
    due: BTreeSet<(u64, u64, Tag, Due)>,
    due_number: u64,
    streams: VecDeque<u64>,
    lower: BTreeMap<Tag, Purpose>,
    next_lower: u64,
    /// The number of requests that destage each stripe.
    destaging: BTreeMap<u64, u32>,
    /// The block from which destaging by place goes on, in each set.
    destaged: Vec<u64>,
    requests: VecDeque<(Tag, Work)>,
    answers: VecDeque<Tag>,
}

impl Numbers {
    fn new(values: &Values) -> Result<Self, Fault> {
        let cache_bytes = values.number("cache_mib")? * 1_048_576.0;
        let cache_blocks = whole(cache_bytes) / BLOCK_BYTES;
        let share = |percent: f64| whole(cache_bytes * percent / 100.0) / BLOCK_BYTES;
        let high_blocks = share(values.find("high_percent").unwrap_or(80.0)).max(1);
        let low_blocks = share(values.find("low_percent").unwrap_or(0.0));
        let rate = values.number("rate_mb_s")?;
        let link = values.find("link_mb_s").unwrap_or(rate);
        let read_ahead = values.find("read_ahead_kib").unwrap_or(0.0) * 1024.0;
        let ungathered = values.find("destage_kib").unwrap_or(64.0) * 1024.0;
        Ok(Self {
            cache_blocks,
            high_blocks,
            low_blocks: low_blocks.min(high_blocks - 1),
            destage_age_ns: whole(values.find("destage_age_s").unwrap_or(0.0) * 1e9),
            destage_depth: usize::try_from(whole(values.find("destage_depth").unwrap_or(1.0)))
                .expect("bounded by its rule"),
            request_ns: ns(values.find("request_ms").unwrap_or(0.0)),
            ps_per_byte: whole(1e6 / rate.min(link)),
            read_ahead_blocks: whole(read_ahead) / BLOCK_BYTES,
            ungathered_blocks: (whole(ungathered) / BLOCK_BYTES).max(1),
            writes_back: cache_blocks > 0 && values.is_on("write_back", true),
            has_battery: values.is_on("battery", true),
            by_place: values.word("destage", "oldest") == "cscan",
            gathers: values.is_on("gather", true),
        })
    }
}

/// Returns the blocks of each set.
fn set_blocks(around: &Surroundings) -> u64 {
    let bytes = around.capacity_bytes / u64::from(around.sets.max(1));
    bytes.div_ceil(BLOCK_BYTES).max(1)
}

fn blocks_of(work: &Work) -> Range<u64> {
    let end = work.offset_bytes + work.length_bytes;
    work.offset_bytes / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)
}

impl Controller {
    /// Builds a controller with an empty cache.
    ///
    /// # Errors
    ///
    /// A number that is missing.
    pub fn new(parameters: &Parameters, draw: &Draw, around: Surroundings) -> Result<Self, Fault> {
        Ok(Self {
            numbers: Numbers::new(&parameters.values(draw))?,
            around,
            cells: Cells::default(),
            waiting: Vec::new(),
            position_bytes: 0,
            under_way: BTreeMap::new(),
            blocked: VecDeque::new(),
            reserved_blocks: 0,
            flushing: Vec::new(),
            processor_free_at: 0,
            path_free_at: 0,
            due: BTreeSet::new(),
            due_number: 0,
            streams: VecDeque::new(),
            lower: BTreeMap::new(),
            next_lower: 0,
            destaging: BTreeMap::new(),
            destaged: (0..around.sets.max(1))
                .map(|set| u64::from(set) * set_blocks(&around))
                .collect(),
            requests: VecDeque::new(),
            answers: VecDeque::new(),
        })
    }

    /// Takes a request of the host.
    pub fn submit(&mut self, now: Instant, tag: Tag, work: Work) {
        self.waiting.push((tag, work));
        self.send_waiting(now.0);
    }

    /// Takes the answer of the array to a request.
    pub fn answered(&mut self, now: Instant, tag: Tag) {
        match self.lower.remove(&tag).expect("it was sent") {
            Purpose::Fill(blocks, waiting) => {
                self.cells.fill(&blocks);
                for tag in waiting {
                    self.one_less(now.0, tag);
                }
                self.evict();
            }
            Purpose::Destage(blocks, stripe) => {
                self.cells.written(&blocks);
                let parts = self.destaging.get_mut(&stripe).expect("it was begun");
                *parts -= 1;
                if *parts == 0 {
                    self.destaging.remove(&stripe);
                }
                self.evict();
                self.admit(now.0);
            }
            Purpose::Pass(tag) => self.one_less(now.0, tag),
        }
        self.destage(now.0);
    }

    /// Goes on at the moment that `next_wake` named, or later.
    pub fn wake(&mut self, now: Instant) {
        while let Some(first) = self.due.first().copied()
            && first.0 <= now.0
        {
            self.due.pop_first();
            let (_, _, tag, due) = first;
            match due {
                Due::Decoded => self.decoded(now.0, tag),
                Due::Arrived => self.arrived(now.0, tag),
                Due::Sent => self.end(now.0, tag),
            }
        }
        self.destage(now.0);
    }

    /// Returns the next moment at which to call `wake`.
    pub fn next_wake(&self) -> Option<Instant> {
        let due = self.due.first().map(|first| first.0);
        let has_room = (0..self.destaged.len()).any(|set| has_room(self, set));
        let since = self.cells.changed_since().filter(|_| has_room);
        let aged = since.map(|since| since + self.numbers.destage_age_ns);
        let aged = aged.filter(|_| self.destaging.is_empty() || self.next_stripe().is_some());
        due.into_iter().chain(aged).min().map(Instant)
    }

    /// Returns true if it has neither a request nor an answer, and does nothing by itself until a
    /// moment.
    pub fn is_quiet_until(&self, moment: Instant) -> bool {
        self.requests.is_empty()
            && self.answers.is_empty()
            && self.next_wake().is_none_or(|wake| wake > moment)
    }

    /// Returns the next request for the array.
    pub fn next_request(&mut self) -> Option<(Tag, Work)> {
        self.requests.pop_front()
    }

    /// Returns the next request of the host that is done.
    pub fn next_answer(&mut self) -> Option<Tag> {
        self.answers.pop_front()
    }

    /// Returns true if data in the cache is not on the disks.
    pub fn holds_unwritten(&self) -> bool {
        self.cells.unwritten_blocks() > 0
    }

    /// Lets all data in the cache go to the disks at once, from now on.
    pub fn drain(&mut self, now: Instant) {
        self.numbers.low_blocks = 0;
        self.numbers.destage_age_ns = 0;
        self.destage(now.0);
    }

    /// Sends waiting requests of the host, as far as it has openings.
    fn send_waiting(&mut self, now: u64) {
        let openings = usize::try_from(self.around.openings).expect("32 bits fit");
        while self.under_way.len() < openings && !self.waiting.is_empty() {
            let at = if self.around.sorts {
                let place = |at: &usize| {
                    let offset = self.waiting[*at].1.offset_bytes;
                    (offset < self.position_bytes, offset, *at)
                };
                (0..self.waiting.len())
                    .min_by_key(place)
                    .expect("not empty")
            } else {
                0
            };
            let (tag, work) = self.waiting.remove(at);
            self.position_bytes = work.offset_bytes + work.length_bytes;
            self.under_way.insert(tag, UnderWay { work, awaits: 0 });
            self.processor_free_at = self.processor_free_at.max(now) + self.numbers.request_ns;
            self.at(self.processor_free_at, tag, Due::Decoded);
        }
    }

    fn at(&mut self, moment: u64, tag: Tag, due: Due) {
        self.due_number += 1;
        self.due.insert((moment, self.due_number, tag, due));
    }

    /// Moves bytes between host and controller. Returns the moment at which that ends.
    fn move_data(&mut self, now: u64, bytes: u64) -> u64 {
        let moved = bytes * self.numbers.ps_per_byte / 1000;
        self.path_free_at = self.path_free_at.max(now) + moved;
        self.path_free_at
    }

    fn decoded(&mut self, now: u64, tag: Tag) {
        let work = self.under_way[&tag].work;
        match work.operation {
            Operation::Read if work.length_bytes > 0 => self.read(now, tag, &work),
            Operation::Write { .. } if work.length_bytes > 0 => {
                if self.takes(&work) {
                    self.blocked.push_back(tag);
                    self.admit(now);
                } else {
                    let at = self.move_data(now, work.length_bytes);
                    self.at(at, tag, Due::Arrived);
                }
            }
            Operation::Flush if self.numbers.writes_back && self.numbers.has_battery => {
                self.end(now, tag);
            }
            Operation::Flush if self.numbers.writes_back => {
                self.flushing.push(tag);
                self.destage(now);
            }
            _ => self.pass(tag, work),
        }
    }

    /// Returns true if a write is answered from the cache.
    fn takes(&self, work: &Work) -> bool {
        let wants_disk = matches!(work.operation, Operation::Write { fua: true });
        self.numbers.writes_back && (self.numbers.has_battery || !wants_disk)
    }

    /// Lets writes in for which there is room, in order.
    fn admit(&mut self, now: u64) {
        while let Some(tag) = self.blocked.front().copied() {
            let work = self.under_way[&tag].work;
            let new = self.cells.new_blocks(&blocks_of(&work));
            let taken = self.cells.unwritten_blocks() + self.reserved_blocks;
            // A write larger than the cache goes in alone.
            if taken > 0 && taken + new > self.numbers.high_blocks {
                return;
            }
            self.blocked.pop_front();
            let blocks = blocks_of(&work);
            self.reserved_blocks += blocks.end - blocks.start;
            let at = self.move_data(now, work.length_bytes);
            self.at(at, tag, Due::Arrived);
        }
    }

    fn arrived(&mut self, now: u64, tag: Tag) {
        let work = self.under_way[&tag].work;
        if !self.takes(&work) {
            self.pass(tag, work);
            return;
        }
        let blocks = blocks_of(&work);
        self.reserved_blocks -= blocks.end - blocks.start;
        self.cells.change(&blocks, now);
        self.evict();
        self.end(now, tag);
    }

    fn read(&mut self, now: u64, tag: Tag, work: &Work) {
        let blocks = blocks_of(work);
        self.cells.use_again(&blocks);
        let ahead = self.read_ahead(&blocks);
        let wanted = self.fetch(&blocks, Some(tag));
        if let Some(ahead) = ahead {
            self.fetch(&ahead, None);
        }
        if wanted == 0 {
            let at = self.move_data(now, work.length_bytes);
            self.at(at, tag, Due::Sent);
        } else if let Some(under_way) = self.under_way.get_mut(&tag) {
            under_way.awaits = wanted;
        }
    }

    /// Returns the blocks to read ahead, if a read continues an earlier one.
    fn read_ahead(&mut self, blocks: &Range<u64>) -> Option<Range<u64>> {
        if self.numbers.read_ahead_blocks == 0 {
            return None;
        }
        let known = self.streams.iter().position(|end| *end == blocks.start);
        if let Some(at) = known {
            self.streams.remove(at);
        }
        self.streams.push_back(blocks.end);
        if self.streams.len() > STREAMS {
            self.streams.pop_front();
        }
        known?;
        let capacity = self.around.capacity_bytes / BLOCK_BYTES;
        let end = (blocks.end + self.numbers.read_ahead_blocks).min(capacity);
        (blocks.end < end).then_some(blocks.end..end)
    }

    /// Reads what is not in the cache and not on its way. Returns the number of requests to the
    /// array that `tag` waits for.
    fn fetch(&mut self, blocks: &Range<u64>, tag: Option<Tag>) -> u32 {
        let mut missing = self.cells.missing(blocks);
        let mut count = 0;
        for purpose in self.lower.values_mut() {
            let Purpose::Fill(coming, waiting) = purpose else {
                continue;
            };
            if coming.start >= blocks.end || blocks.start >= coming.end {
                continue;
            }
            if missing
                .iter()
                .any(|run| run.start < coming.end && coming.start < run.end)
            {
                waiting.extend(tag);
                count += u32::from(tag.is_some());
            }
            missing = missing
                .into_iter()
                .flat_map(|run| {
                    [
                        run.start..run.end.min(coming.start),
                        run.start.max(coming.end)..run.end,
                    ]
                })
                .filter(|run| run.start < run.end)
                .collect();
        }
        for run in missing {
            count += u32::from(tag.is_some());
            let purpose = Purpose::Fill(run.clone(), tag.into_iter().collect());
            self.ask(Operation::Read, &run, purpose);
        }
        count
    }

    /// Sends a request for blocks to the array.
    fn ask(&mut self, operation: Operation, blocks: &Range<u64>, purpose: Purpose) {
        let offset_bytes = blocks.start * BLOCK_BYTES;
        let end = (blocks.end * BLOCK_BYTES).min(self.around.capacity_bytes);
        let work = Work {
            operation,
            offset_bytes,
            length_bytes: end - offset_bytes,
        };
        self.send(work, purpose);
    }

    fn send(&mut self, work: Work, purpose: Purpose) {
        let tag = Tag(self.next_lower);
        self.next_lower += 1;
        self.lower.insert(tag, purpose);
        self.requests.push_back((tag, work));
    }

    /// Sends a request of the host to the array as it is.
    fn pass(&mut self, tag: Tag, work: Work) {
        let under_way = self.under_way.get_mut(&tag).expect("it is under way");
        under_way.awaits = 1;
        self.send(work, Purpose::Pass(tag));
    }

    /// Counts an answer of the array for a request of the host.
    fn one_less(&mut self, now: u64, tag: Tag) {
        let under_way = self.under_way.get_mut(&tag).expect("it waits");
        under_way.awaits -= 1;
        if under_way.awaits > 0 {
            return;
        }
        let work = under_way.work;
        if work.operation == Operation::Read {
            let at = self.move_data(now, work.length_bytes);
            self.at(at, tag, Due::Sent);
        } else {
            self.end(now, tag);
        }
    }

    fn end(&mut self, now: u64, tag: Tag) {
        self.under_way.remove(&tag);
        self.answers.push_back(tag);
        self.send_waiting(now);
    }

    /// Drops blocks that the cache has no room for.
    fn evict(&mut self) {
        self.cells.evict(self.numbers.cache_blocks);
    }

    /// Returns the next stripe to destage, of a set with room. A stripe that is being written keeps
    /// its new changes.
    fn next_stripe(&self) -> Option<u64> {
        /// Cells looked at.
        const LOOK_MAX: usize = 64;
        let mut sets = 0..self.destaged.len();
        if self.numbers.by_place {
            let in_set = |set: usize| {
                let cells = self
                    .cells
                    .by_place(self.destaged[set], set_range(self, set));
                cells.take(LOOK_MAX).find_map(|cell| self.stripe_in(&cell))
            };
            sets.find_map(in_set)
        } else {
            let cells = self.cells.by_age();
            cells.take(LOOK_MAX).find_map(|cell| self.stripe_in(&cell))
        }
    }

    /// Returns the first stripe with dirty blocks of a range that is not being written, if its set
    /// has room.
    fn stripe_in(&self, blocks: &Range<u64>) -> Option<u64> {
        let mut stripes = stripe_of(self, blocks.start)..=stripe_of(self, blocks.end - 1);
        stripes.find(|stripe| {
            !self.destaging.contains_key(stripe)
                && self.cells.is_dirty(&self.stripe(*stripe))
                && has_room(self, set_of(self, *stripe))
        })
    }

    /// Returns the blocks of a stripe.
    fn stripe(&self, stripe: u64) -> Range<u64> {
        let (set, at) = (stripe / set_stripes(self), stripe % set_stripes(self));
        let (first, blocks) = (set * set_blocks(&self.around), stripe_blocks(self));
        let end = first + (at + 1) * blocks;
        let is_last = set_of(self, stripe) + 1 == self.destaged.len();
        let limit = if is_last {
            u64::MAX
        } else {
            first + set_blocks(&self.around)
        };
        first + at * blocks..end.min(limit)
    }

    /// Writes stripes to the array: what is above the low mark, too old, or flushed.
    fn destage(&mut self, now: u64) {
        if !self.flushing.is_empty() && self.cells.unwritten_blocks() == 0 {
            for tag in std::mem::take(&mut self.flushing) {
                let work = self.under_way[&tag].work;
                self.pass(tag, work);
            }
        }
        while (0..self.destaged.len()).any(|set| has_room(self, set)) {
            let Some(since) = self.cells.changed_since() else {
                return;
            };
            let is_old = since + self.numbers.destage_age_ns <= now;
            let is_much = self.cells.unwritten_blocks() > self.numbers.low_blocks;
            let nothing_waits = self.flushing.is_empty() && self.blocked.is_empty();
            if nothing_waits && !is_old && !is_much {
                return;
            }
            let Some(stripe) = self.next_stripe() else {
                return;
            };
            let range = self.stripe(stripe);
            let set = set_of(self, stripe);
            self.destaged[set] = range.end;
            let runs = self.cells.take(&range);
            let parts = u32::try_from(runs.len()).expect("few runs in a stripe");
            self.destaging.insert(stripe, parts);
            for run in runs {
                let purpose = Purpose::Destage(run.clone(), stripe);
                self.ask(Operation::Write { fua: false }, &run, purpose);
            }
        }
    }
}

/// Returns true if one more stripe of a set may be destaged.
fn has_room(of: &Controller, set: usize) -> bool {
    if of.destaged.len() == 1 {
        return of.destaging.len() < of.numbers.destage_depth;
    }
    let first = u64::try_from(set).expect("few") * set_stripes(of);
    let under_way = of.destaging.range(first..first + set_stripes(of));
    under_way.count() < of.numbers.destage_depth
}

fn stripe_blocks(of: &Controller) -> u64 {
    if of.numbers.gathers {
        (of.around.stripe_bytes / BLOCK_BYTES).max(1)
    } else {
        of.numbers.ungathered_blocks
    }
}

/// Returns the number of stripes of each set.
fn set_stripes(of: &Controller) -> u64 {
    set_blocks(&of.around).div_ceil(stripe_blocks(of))
}

fn set_of(of: &Controller, stripe: u64) -> usize {
    usize::try_from(stripe / set_stripes(of)).expect("few sets")
}

/// Returns the stripe that holds a block.
fn stripe_of(of: &Controller, block: u64) -> u64 {
    let blocks = set_blocks(&of.around);
    // The last cell may reach beyond the end.
    let set = (block / blocks).min(u64::from(of.around.sets.max(1)) - 1);
    set * set_stripes(of) + (block - set * blocks) / stripe_blocks(of)
}

/// Returns the blocks of a set.
fn set_range(of: &Controller, set: usize) -> Range<u64> {
    let blocks = set_blocks(&of.around);
    let first = u64::try_from(set).expect("few") * blocks;
    first..first + blocks
}

#[cfg(test)]
mod tests;
