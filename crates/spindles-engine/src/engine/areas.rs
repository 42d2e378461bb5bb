//! Reads the areas of metadata at opening: the list of bad blocks, then the bitmaps.

use crate::{Engine, agenda::Due, durable::Loading, output::OutReason, system_io::Purpose};
use spindles_block::{MemberError, MemberIndex, MemberResult, MemberSet, Operation};
use spindles_format::AreaKind;

impl Engine {
    /// Returns the members to read an area from. The list of bad blocks on a device being filled
    /// may be out of date.
    fn readable(&self, area: AreaKind) -> MemberSet {
        match area {
            AreaKind::BAD_BLOCKS => {
                MemberSet::all(self.geometry.members()).difference(self.members.lost())
            }
            _ => self.present(),
        }
    }

    /// Reads the next blocks of the list of bad blocks, then of the bitmaps, from all members.
    pub(crate) fn read_areas(&mut self) {
        while let Some(mut loading) = self.opening.loading() {
            let area = loading.area;
            let members = self.readable(area);
            let left = self.blocks_of(area).count() - loading.block;
            if left == 0 || members.is_empty() {
                self.opening.set_loading(loading.next_area());
                self.area_loaded(area, left > 0);
                continue;
            }
            loading.begin(left, members.count());
            self.opening.set_loading(Some(loading));
            for member in members.iter() {
                self.system_io(
                    match area {
                        AreaKind::BAD_BLOCKS => Purpose::BadBlocksRead,
                        _ => Purpose::BitmapRead,
                    },
                    member,
                    Operation::Read,
                    self.area_block(member, area).plus(loading.block),
                    loading.blocks,
                    self.metadata_buffer.slice(loading.place, member.0),
                );
            }
            return;
        }
    }

    /// Handles the result of a read of an area.
    pub(crate) fn area_read(&mut self, member: MemberIndex, result: MemberResult) {
        // Unreadable blocks of a present member are written again.
        if let Err(error @ MemberError::Gone) = result {
            self.put_out(member, OutReason::Error(error));
        }
        let mut loading = self.opening.loading().expect("an area is read");
        let last = loading.ended(member, result.is_ok());
        if last {
            self.merge_area(&loading);
            loading.block += u64::from(loading.blocks);
        }
        self.opening.set_loading(Some(loading));
        if last {
            self.read_areas();
        }
    }

    fn merge_area(&mut self, loading: &Loading) {
        let array = &self.metadata.persistence().expect("stored").array;
        let (uuid, listed) = (array.uuid, array.bad_blocks_listed);
        let (members, writes_all) = (
            self.readable(loading.area),
            !self.members.being_filled().is_empty(),
        );
        let buffer = &self.metadata_buffer;
        match loading.area {
            AreaKind::BAD_BLOCKS => {
                let list = &mut self.bad;
                list.merge((uuid, listed), loading, members, writes_all, buffer);
            }
            _ => self.regions.merge(uuid, loading, members, buffer),
        }
    }

    /// Continues when an area is read. `is_cut`: no member was left to read the rest from.
    fn area_loaded(&mut self, area: AreaKind, is_cut: bool) {
        if area == AreaKind::BAD_BLOCKS {
            let is_unread = self.readable(area).is_empty();
            self.bad.loaded(is_unread, self.geometry.blocks());
            self.choose_direct();
            self.write_area(area);
        } else if area == AreaKind::WRITTEN_BITMAP {
            if is_cut {
                // Unread regions count as written, and requests get errors.
                self.regions.may_all_be_written();
                self.stop_writing();
            }
            return self.bitmaps_loaded();
        }
        self.agenda.add(Due::Found);
    }

    /// Continues when both bitmaps are read: finds the regions that a crash left unsettled.
    pub(crate) fn bitmaps_loaded(&mut self) {
        if self.grow.begins() {
            // Earlier values of bits of the new map mean nothing.
            self.regions.blank();
        }
        self.take_in_regions();
        self.regions.loaded();
        self.find_unsettled(!self.settled.everywhere());
        self.regions.want_sweep();
        self.write_bitmaps();
        self.agenda.add(Due::Found);
    }
}
