//! Extends an array on its members, with the first superblock update.

use crate::{
    Engine,
    agenda::Due,
    index,
    output::{Event, Output},
};

impl Engine {
    /// Gives each new region the bits of the old regions that lie in it. Earlier values of the new
    /// bits mean nothing.
    pub(crate) fn take_in_regions(&mut self) {
        let Some(extension) = &mut self.extension else {
            return;
        };
        extension.begin(&mut self.regions);
    }

    /// Continues the work that precedes the superblocks with the new size.
    pub(crate) fn extend(&mut self) {
        if !self.zeroing.is_idle() || self.metadata.is_broken() {
            return;
        }
        let Some(extension) = &mut self.extension else {
            return;
        };
        let most = index(self.ranges.count());
        let Some(next) = extension.next_to_zero(&self.regions, most) else {
            return;
        };
        if next.is_empty() {
            return self.agenda.add(Due::Update);
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
