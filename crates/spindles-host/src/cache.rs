//! The page cache: blocks in memory by place, evicted least recently used first. Changed blocks
//! and blocks under way stay.

use crate::block::Block;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A block in memory.
#[derive(Clone, Copy, Debug)]
struct Page {
    place: u64,
    bytes: u32,
    /// The list in which it waits for eviction.
    list: usize,
    /// Its neighbours in the list: used before it, and after it.
    before: u32,
    after: u32,
    /// Since when it waits to be written; `None` if it is clean.
    changed_ns: Option<u64>,
    is_data: bool,
    is_under_way: bool,
    /// True until its contents have arrived.
    is_read: bool,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Absent,
    UnderWay,
    Present,
}

/// List of blocks that were last read; evicted first if the host keeps written blocks.
const READ: usize = 0;
/// List of blocks that were last written.
const WRITTEN: usize = 1;

/// No page.
const NONE: u32 = u32::MAX;

/// The ends of a list: the page that was not used for the longest time, and the last used.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// Blocks in memory.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity_bytes: u64,
    keeps_written: bool,
    pages: Vec<Page>,
    /// Numbers of empty pages.
    free: Vec<u32>,
    /// The number of the page at each place.
    places: BTreeMap<u64, u32>,
    lists: [List; 2],
    /// The changed pages by time and place.
    changed: BTreeMap<(u64, u64), u32>,
    bytes: u64,
    /// Bytes of the blocks in the first list.
    read_bytes: u64,
    changed_bytes: u64,
}

impl Cache {
    pub(crate) fn new(capacity_bytes: u64, keeps_written: bool) -> Self {
        Self {
            capacity_bytes,
            keeps_written,
            pages: Vec::new(),
            free: Vec::new(),
            places: BTreeMap::new(),
            lists: [List {
                first: NONE,
                last: NONE,
            }; 2],
            changed: BTreeMap::new(),
            bytes: 0,
            read_bytes: 0,
            changed_bytes: 0,
        }
    }

    fn page(&self, at: u32) -> &Page {
        &self.pages[index(at)]
    }

    fn page_mut(&mut self, at: u32) -> &mut Page {
        &mut self.pages[index(at)]
    }

    /// Returns the number of the page at a place.
    fn at(&self, place: u64) -> Option<u32> {
        self.places.get(&place).copied()
    }

    fn page_of(&self, block: Block) -> Option<&Page> {
        self.at(block.place_bytes).map(|at| self.page(at))
    }

    /// Returns the state of a block. A present block becomes the most recently used.
    pub(crate) fn find(&mut self, block: Block) -> Presence {
        match self.at(block.place_bytes) {
            None => Presence::Absent,
            Some(at) if self.page(at).is_read => Presence::UnderWay,
            Some(at) => {
                self.touch(at, READ);
                Presence::Present
            }
        }
    }

    /// Returns true if a read or write of the block is under way.
    pub(crate) fn is_under_way(&self, block: Block) -> bool {
        let page = self.page_of(block);
        page.is_some_and(|page| page.is_under_way)
    }

    /// Returns true if the block waits to be written and is not under way.
    pub(crate) fn is_changed(&self, block: Block) -> bool {
        let page = self.page_of(block);
        page.is_some_and(|page| page.changed_ns.is_some() && !page.is_under_way)
    }

    /// Returns true if the block is in memory or on its way.
    pub(crate) fn knows(&self, block: Block) -> bool {
        self.at(block.place_bytes).is_some()
    }

    /// Notes that a read of the block begins.
    pub(crate) fn begin_read(&mut self, block: Block, is_data: bool) {
        let at = self.insert(block, is_data, READ);
        let page = self.page_mut(at);
        (page.is_under_way, page.is_read) = (true, true);
        self.evict();
    }

    /// Changes a block; it waits to be written.
    pub(crate) fn change(&mut self, block: Block, is_data: bool, now_ns: u64) {
        let at = self.insert(block, is_data, WRITTEN);
        let page = self.page_mut(at);
        if page.changed_ns.is_none() {
            page.changed_ns = Some(now_ns);
            self.changed_bytes += u64::from(page.bytes);
            self.changed.insert((now_ns, block.place_bytes), at);
        }
        self.evict();
    }

    /// Notes that a write of the block begins. It is clean unless it changes again.
    pub(crate) fn begin_write(&mut self, block: Block, is_data: bool) {
        let at = self.insert(block, is_data, WRITTEN);
        self.clean(at);
        let page = self.page_mut(at);
        (page.is_under_way, page.is_read) = (true, false);
        self.evict();
    }

    /// Notes that the read or write of the block has ended.
    pub(crate) fn end(&mut self, block: Block) {
        if let Some(at) = self.at(block.place_bytes) {
            let page = self.page_mut(at);
            (page.is_under_way, page.is_read) = (false, false);
        }
        self.evict();
    }

    /// Drops a block that was freed.
    pub(crate) fn forget(&mut self, block: Block) {
        match self.at(block.place_bytes) {
            Some(at) if self.page(at).is_under_way => self.clean(at),
            Some(at) => self.remove(at),
            None => {}
        }
    }

    /// Drops all clean blocks.
    pub(crate) fn empty(&mut self) {
        let idle: Vec<u32> = (self.places.values().copied())
            .filter(|at| self.is_idle(*at))
            .collect();
        for at in idle {
            self.remove(at);
        }
    }

    pub(crate) fn changed_bytes(&self) -> u64 {
        self.changed_bytes
    }

    /// Returns the changed blocks that changed no later than `until_ns` and are not under way, in
    /// order of place; at most `most`, the oldest. The flag is true for data.
    pub(crate) fn changed_until(&self, until_ns: u64, most: usize) -> Vec<(Block, bool)> {
        let mut found: Vec<(Block, bool)> = Vec::new();
        for ((_, place), at) in self.changed.range(..=(until_ns, u64::MAX)) {
            let page = self.page(*at);
            if !page.is_under_way {
                let block = Block {
                    place_bytes: *place,
                    bytes: page.bytes,
                };
                found.push((block, page.is_data));
            }
            if found.len() == most {
                break;
            }
        }
        found.sort_unstable();
        found
    }

    /// Returns the blocks of metadata that `changed_until` returns.
    pub(crate) fn metadata_until(&self, until_ns: u64) -> Vec<Block> {
        let changed = self.changed_until(until_ns, usize::MAX).into_iter();
        let metadata = changed.filter(|(_, is_data)| !is_data);
        metadata.map(|(block, _)| block).collect()
    }

    /// Makes a block the most recently used of a list. Returns the number of its page.
    fn insert(&mut self, block: Block, is_data: bool, list: usize) -> u32 {
        let place = block.place_bytes;
        if let Some(at) = self.at(place) {
            let page = *self.page(at);
            if page.bytes != block.bytes {
                // A fragment has grown.
                let grown = u64::from(block.bytes.saturating_sub(page.bytes));
                self.bytes += grown;
                self.changed_bytes += page.changed_ns.map_or(0, |_| grown);
                self.page_mut(at).bytes = page.bytes.max(block.bytes);
                if page.list == READ {
                    self.read_bytes += grown;
                }
            }
            self.touch(at, list);
            return at;
        }
        self.bytes += u64::from(block.bytes);
        let page = Page {
            place,
            bytes: block.bytes,
            list: self.list_for(is_data, list),
            before: NONE,
            after: NONE,
            changed_ns: None,
            is_data,
            is_under_way: false,
            is_read: false,
        };
        let at = if let Some(at) = self.free.pop() {
            *self.page_mut(at) = page;
            at
        } else {
            self.pages.push(page);
            u32::try_from(self.pages.len() - 1).expect("fewer than 2^32 blocks")
        };
        self.places.insert(place, at);
        self.link(at);
        at
    }

    /// Returns the list of a page that was read or written.
    fn list_for(&self, is_data: bool, list: usize) -> usize {
        let list = if is_data { list } else { WRITTEN };
        if self.keeps_written { list } else { READ }
    }

    fn touch(&mut self, at: u32, list: usize) {
        self.unlink(at);
        self.page_mut(at).list = self.list_for(self.page(at).is_data, list);
        self.link(at);
    }

    /// Puts a page at the end of its list.
    fn link(&mut self, at: u32) {
        let list = self.page(at).list;
        let before = self.lists[list].last;
        let page = self.page_mut(at);
        (page.before, page.after) = (before, NONE);
        let bytes = u64::from(page.bytes);
        match before {
            NONE => self.lists[list].first = at,
            before => self.page_mut(before).after = at,
        }
        self.lists[list].last = at;
        if list == READ {
            self.read_bytes += bytes;
        }
    }

    /// Takes a page out of its list.
    fn unlink(&mut self, at: u32) {
        let page = *self.page(at);
        match page.before {
            NONE => self.lists[page.list].first = page.after,
            before => self.page_mut(before).after = page.after,
        }
        match page.after {
            NONE => self.lists[page.list].last = page.before,
            after => self.page_mut(after).before = page.before,
        }
        if page.list == READ {
            self.read_bytes -= u64::from(page.bytes);
        }
    }

    fn clean(&mut self, at: u32) {
        let page = self.page_mut(at);
        let (bytes, place) = (page.bytes, page.place);
        if let Some(since_ns) = page.changed_ns.take() {
            self.changed_bytes -= u64::from(bytes);
            self.changed.remove(&(since_ns, place));
        }
    }

    fn remove(&mut self, at: u32) {
        self.clean(at);
        self.unlink(at);
        let page = *self.page(at);
        self.bytes -= u64::from(page.bytes);
        self.places.remove(&page.place);
        self.free.push(at);
    }

    fn is_idle(&self, at: u32) -> bool {
        let page = self.page(at);
        !page.is_under_way && page.changed_ns.is_none()
    }

    /// Returns the first page of a list that may go, among the first few.
    fn first_idle(&self, list: usize) -> Option<u32> {
        /// Blocks looked at that must stay.
        const LOOK_MAX: usize = 64;
        let after = |at: u32| (at != NONE).then_some(at);
        let first = after(self.lists[list].first);
        let mut all = core::iter::successors(first, |at| after(self.page(*at).after));
        all.by_ref().take(LOOK_MAX).find(|at| self.is_idle(*at))
    }

    /// Evicts clean blocks until the rest fits. If all others are changed or under way, the cache
    /// grows for a moment.
    fn evict(&mut self) {
        /// Written blocks leave this part of the memory to blocks that were read, or read ahead.
        const READ_PART: u64 = 8;
        while self.bytes > self.capacity_bytes {
            let first = if self.read_bytes > self.capacity_bytes / READ_PART {
                READ
            } else {
                WRITTEN
            };
            let found = self.first_idle(first);
            let Some(at) = found.or_else(|| self.first_idle(1 - first)) else {
                return;
            };
            self.remove(at);
        }
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).expect("32 bits fit")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: u64) -> Block {
        Block {
            place_bytes: number * 8192,
            bytes: 8192,
        }
    }

    fn read(cache: &mut Cache, number: u64) {
        cache.begin_read(block(number), true);
        cache.end(block(number));
    }

    fn write(cache: &mut Cache, number: u64) {
        cache.change(block(number), true, number);
        cache.begin_write(block(number), true);
        cache.end(block(number));
    }

    #[test]
    fn the_least_recently_used_block_is_evicted() {
        let mut cache = Cache::new(3 * 8192, false);
        (0..3).for_each(|number| read(&mut cache, number));
        assert_eq!(cache.find(block(0)), Presence::Present);
        read(&mut cache, 3);
        let found = [0, 1, 2, 3].map(|number| cache.find(block(number)));
        let (there, gone) = (Presence::Present, Presence::Absent);
        assert_eq!(found, [there, gone, there, there]);
    }

    #[test]
    fn blocks_last_read_go_before_blocks_last_written() {
        let mut cache = Cache::new(16 * 8192, true);
        (0..16).for_each(|number| write(&mut cache, number));
        (20..40).for_each(|number| read(&mut cache, number));
        // An eighth of the memory is for the blocks last read.
        let known = (0..40).filter(|number| cache.knows(block(*number)));
        let expected = (2..16).chain(38..40);
        assert_eq!(known.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        // Once read, a written block is one of them.
        assert_eq!(cache.find(block(9)), Presence::Present);
        (40..43).for_each(|number| read(&mut cache, number));
        assert!(!cache.knows(block(9)) && cache.knows(block(8)));
    }

    #[test]
    fn changed_blocks_stay_until_they_are_written() {
        let mut cache = Cache::new(2 * 8192, false);
        cache.change(block(0), true, 5);
        cache.change(block(1), false, 6);
        (2..9).for_each(|number| read(&mut cache, number));
        assert_eq!(cache.changed_bytes(), 2 * 8192);
        assert_eq!(cache.changed_until(5, 9), [(block(0), true)]);
        assert_eq!(cache.changed_until(9, 1), [(block(0), true)]);
        cache.begin_write(block(0), true);
        assert_eq!(cache.changed_until(9, 9), [(block(1), false)]);
        // A change during the write is written again.
        cache.change(block(0), true, 8);
        cache.end(block(0));
        assert_eq!(cache.changed_until(9, 9).len(), 2);
        cache.forget(block(0));
        cache.begin_write(block(1), false);
        cache.end(block(1));
        cache.empty();
        assert_eq!((cache.bytes, cache.changed_bytes()), (0, 0));
    }
}
