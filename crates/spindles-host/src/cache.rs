//! The page cache: blocks in memory by place, evicted least recently used first. Changed blocks
//! and blocks under way stay.

use crate::block::Block;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// A block in memory.
#[derive(Clone, Copy, Debug)]
struct Page {
    bytes: u32,
    /// Number of its last use.
    used: u64,
    /// The list in which it waits for eviction.
    list: usize,
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

/// Blocks in memory.
#[derive(Debug)]
pub(crate) struct Cache {
    capacity_bytes: u64,
    keeps_written: bool,
    pages: BTreeMap<u64, Page>,
    /// Number of the last use and place, for each list.
    lists: [BTreeSet<(u64, u64)>; 2],
    changed: BTreeSet<(u64, u64)>,
    used: u64,
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
            pages: BTreeMap::new(),
            lists: [BTreeSet::new(), BTreeSet::new()],
            changed: BTreeSet::new(),
            used: 0,
            bytes: 0,
            read_bytes: 0,
            changed_bytes: 0,
        }
    }

    /// Returns the state of a block. A present block becomes the most recently used.
    pub(crate) fn find(&mut self, block: Block) -> Presence {
        match self.pages.get(&block.place_bytes) {
            None => Presence::Absent,
            Some(page) if page.is_read => Presence::UnderWay,
            Some(_) => {
                self.touch(block.place_bytes, READ);
                Presence::Present
            }
        }
    }

    /// Returns true if a read or write of the block is under way.
    pub(crate) fn is_under_way(&self, block: Block) -> bool {
        let page = self.pages.get(&block.place_bytes);
        page.is_some_and(|page| page.is_under_way)
    }

    /// Returns true if the block waits to be written and is not under way.
    pub(crate) fn is_changed(&self, block: Block) -> bool {
        let page = self.pages.get(&block.place_bytes);
        page.is_some_and(|page| page.changed_ns.is_some() && !page.is_under_way)
    }

    /// Returns true if the block is in memory or on its way.
    pub(crate) fn knows(&self, block: Block) -> bool {
        self.pages.contains_key(&block.place_bytes)
    }

    /// Notes that a read of the block begins.
    pub(crate) fn begin_read(&mut self, block: Block, is_data: bool) {
        self.insert(block, is_data, READ);
        self.set_under_way(block.place_bytes, true);
        if let Some(page) = self.pages.get_mut(&block.place_bytes) {
            page.is_read = true;
        }
        self.evict();
    }

    /// Changes a block; it waits to be written.
    pub(crate) fn change(&mut self, block: Block, is_data: bool, now_ns: u64) {
        self.insert(block, is_data, WRITTEN);
        let page = self.pages.get_mut(&block.place_bytes);
        let page = page.expect("just inserted");
        if page.changed_ns.is_none() {
            page.changed_ns = Some(now_ns);
            self.changed_bytes += u64::from(page.bytes);
            self.changed.insert((now_ns, block.place_bytes));
        }
        self.evict();
    }

    /// Notes that a write of the block begins. It is clean unless it changes again.
    pub(crate) fn begin_write(&mut self, block: Block, is_data: bool) {
        self.insert(block, is_data, WRITTEN);
        self.clean(block.place_bytes);
        self.set_under_way(block.place_bytes, true);
        self.evict();
    }

    /// Notes that the read or write of the block has ended.
    pub(crate) fn end(&mut self, block: Block) {
        self.set_under_way(block.place_bytes, false);
        self.evict();
    }

    /// Drops a block that was freed.
    pub(crate) fn forget(&mut self, block: Block) {
        if self.is_under_way(block) {
            self.clean(block.place_bytes);
        } else {
            self.remove(block.place_bytes);
        }
    }

    /// Drops all clean blocks.
    pub(crate) fn empty(&mut self) {
        let idle = |page: &Page| !page.is_under_way && page.changed_ns.is_none();
        let idle: Vec<u64> = (self.pages.iter())
            .filter_map(|(place, page)| idle(page).then_some(*place))
            .collect();
        for place in idle {
            self.remove(place);
        }
    }

    pub(crate) fn changed_bytes(&self) -> u64 {
        self.changed_bytes
    }

    /// Returns the changed blocks that changed no later than `until_ns` and are not under way, in
    /// order of place; at most `most`, the oldest. The flag is true for data.
    pub(crate) fn changed_until(&self, until_ns: u64, most: usize) -> Vec<(Block, bool)> {
        let mut found: Vec<(Block, bool)> = Vec::new();
        for (_, place) in self.changed.range(..=(until_ns, u64::MAX)) {
            let page = &self.pages[place];
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

    fn insert(&mut self, block: Block, is_data: bool, list: usize) {
        let place = block.place_bytes;
        match self.pages.get(&place) {
            Some(page) if page.bytes == block.bytes => {}
            Some(page) => {
                // A fragment has grown.
                let grown = u64::from(block.bytes.saturating_sub(page.bytes));
                let is_changed = page.changed_ns.is_some();
                self.bytes += grown;
                self.changed_bytes += if is_changed { grown } else { 0 };
                let page = self.pages.get_mut(&place).expect("just found");
                page.bytes = page.bytes.max(block.bytes);
                if page.list == READ {
                    self.read_bytes += grown;
                }
            }
            None => {
                let page = Page {
                    bytes: block.bytes,
                    used: 0,
                    list,
                    changed_ns: None,
                    is_data,
                    is_under_way: false,
                    is_read: false,
                };
                self.bytes += u64::from(block.bytes);
                self.pages.insert(place, page);
            }
        }
        self.touch(place, list);
    }

    fn touch(&mut self, place: u64, list: usize) {
        self.used += 1;
        let page = self.pages.get_mut(&place).expect("it is in memory");
        if self.lists[page.list].remove(&(page.used, place)) && page.list == READ {
            self.read_bytes -= u64::from(page.bytes);
        }
        let list = if page.is_data { list } else { WRITTEN };
        page.list = if self.keeps_written { list } else { READ };
        page.used = self.used;
        self.lists[page.list].insert((page.used, place));
        if page.list == READ {
            self.read_bytes += u64::from(page.bytes);
        }
    }

    fn set_under_way(&mut self, place: u64, is_under_way: bool) {
        if let Some(page) = self.pages.get_mut(&place) {
            page.is_under_way = is_under_way;
            page.is_read = false;
        }
    }

    fn clean(&mut self, place: u64) {
        let page = self.pages.get_mut(&place).expect("it is in memory");
        if let Some(since_ns) = page.changed_ns.take() {
            self.changed_bytes -= u64::from(page.bytes);
            self.changed.remove(&(since_ns, place));
        }
    }

    fn remove(&mut self, place: u64) {
        if self.pages.contains_key(&place) {
            self.clean(place);
        }
        if let Some(page) = self.pages.remove(&place) {
            self.lists[page.list].remove(&(page.used, place));
            self.bytes -= u64::from(page.bytes);
            if page.list == READ {
                self.read_bytes -= u64::from(page.bytes);
            }
        }
    }

    /// Evicts clean blocks until the rest fits. If all others are changed or under way, the cache
    /// grows for a moment.
    fn evict(&mut self) {
        /// Blocks looked at that must stay.
        const LOOK_MAX: usize = 64;
        /// Written blocks leave this part of the memory to blocks that were read, or read ahead.
        const READ_PART: u64 = 8;
        while self.bytes > self.capacity_bytes {
            let first = if self.read_bytes > self.capacity_bytes / READ_PART {
                READ
            } else {
                WRITTEN
            };
            let idle = |place: &u64| {
                let page = &self.pages[place];
                !page.is_under_way && page.changed_ns.is_none()
            };
            let lists = [first, 1 - first].map(|list| &self.lists[list]);
            let lists = lists.into_iter();
            let places = lists.flat_map(|list| list.iter().take(LOOK_MAX).map(|(_, place)| *place));
            let Some(place) = places.into_iter().find(|place| idle(place)) else {
                return;
            };
            self.remove(place);
        }
    }
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
