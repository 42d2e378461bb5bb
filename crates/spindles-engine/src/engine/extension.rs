//! Extends an array on its members, with the first superblock update.

use crate::{
    Engine,
    bits::Bits,
    extension::Stage,
    index,
    output::{Event, Output},
};
use alloc::vec::Vec;

impl Engine {
    /// Gives each new region the bits of the old regions that lie in it. Earlier values of the new
    /// bits mean nothing.
    pub(crate) fn take_in_regions(&mut self) {
        let Some(extension) = &mut self.extension else {
            return;
        };
        extension.stage = Stage::Zeroing(self.regions.part.regions().start);
        let extension = &*extension;
        let regions = &mut self.regions;
        regions.blank();
        for region in regions.part.regions() {
            let old = extension.taken_in(regions, region);
            let is_in = |bits: &Bits| old.clone().any(|old| bits.get(old));
            let bits = [
                &regions.dirty.bits,
                &regions.written.bits,
                &regions.unsettled,
            ];
            let [dirty, written, unsettled] = bits.map(is_in);
            if dirty {
                regions.dirty.set(region);
            }
            if written {
                regions.written.set(region);
            }
            if unsettled {
                regions.unsettled.set(region);
            }
        }
        for region in extension.old.regions() {
            regions.unsettled.clear(region);
        }
    }

    /// Continues the work that precedes the superblocks with the new size.
    pub(crate) fn extend(&mut self) {
        let Some(extension) = &mut self.extension else {
            return;
        };
        let Stage::Zeroing(from) = extension.stage else {
            return;
        };
        if !self.zeroing.is_idle() || self.metadata.is_broken() {
            return;
        }
        let end = self.regions.part.regions().end;
        let lacks = |region: &u64| extension.lacks(&self.regions, *region);
        let next: Vec<u64> = (from..end)
            .filter(lacks)
            .take(index(self.ranges.count()))
            .collect();
        extension.stage = match next.last() {
            Some(last) => Stage::Zeroing(last + 1),
            None => Stage::Recording,
        };
        if next.is_empty() {
            return self.begin_update();
        }
        for region in next {
            self.want_zeroing(region);
        }
    }

    /// Reports the new size if the superblocks record it now.
    pub(crate) fn extension_recorded(&mut self) {
        let broken = self.metadata.is_broken();
        let extension = &mut self.extension;
        let recorded = extension.take_if(|extension| !extension.is_preparing() && !broken);
        if recorded.is_some() {
            let blocks = self.geometry.blocks();
            self.outbox.put(Output::Event(Event::Grown { blocks }));
        }
    }
}
