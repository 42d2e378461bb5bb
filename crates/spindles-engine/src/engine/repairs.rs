//! Begins the rewrites that reads of clients asked for.

use crate::{Engine, engine::Closing, plan::Ask, stripe::Owner};

impl Engine {
    /// Begins to rewrite the next place. Returns false if none is queued or no stripe range is
    /// free.
    pub(crate) fn pump_repairs(&mut self) -> bool {
        let open = matches!(self.closing, Closing::Open | Closing::Draining);
        if !self.faults.has_repairs()
            || !self.ranges.any_free_for_jobs()
            || !open
            || self.holds_back()
        {
            return false;
        }
        let Some(place) = self.faults.next_repair() else {
            return false;
        };
        self.jobs.nobody_waits();
        if !self.regions.is_live(place.group) {
            return true; // A growth has moved these rows elsewhere.
        }
        let id = self.ranges.take_for_job();
        self.ranges.take_group(&self.geometry, id, place.group);
        let rows = place.low..place.low + place.blocks;
        self.ranges[id].begin_own(Owner::Repair, Ask::Scrub, place.group, rows);
        if place.rotten {
            self.start(id);
        } else {
            self.start_repair(id, place.slot);
        }
        true
    }
}
