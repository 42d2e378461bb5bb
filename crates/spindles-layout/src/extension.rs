//! Arrays extended at their end, on members that have more room there: no data is moved.

use crate::Geometry;
use spindles_block::MemberSet;

impl Geometry {
    /// The members that the end of the array lies on. If these have more room, the array may be
    /// extended. More room on other members doesn't help: the data after it would have to move.
    pub fn members_at_end(&self) -> MemberSet {
        let last = self.zones.last().expect("a level with members has a zone");
        last.members.iter().copied().collect()
    }

    /// Returns true if this map extends `old`: everything that `old` maps stays in its place.
    pub fn continues(&self, old: &Self) -> bool {
        let same = self.level.name == old.level.name
            && self.layout == old.layout
            && self.members == old.members
            && self.chunk_blocks == old.chunk_blocks;
        let (last, before) = old.zones.split_last().expect("it has a zone");
        let zones = (self.zones.iter()).zip(before);
        same && self.zones.len() >= old.zones.len()
            && zones
                .clone()
                .all(|(zone, old)| zone.continues(old) && zone.end == old.end)
            && self.zones[before.len()].continues(last)
    }
}
