//! Answers requests whose stripe ranges have all ended.

use crate::{
    Engine, RangeId, agenda::Due, hedges::Pairing, output::Output, requests::RequestSlot,
    stripe::Owner, stripe::Stage,
};
use spindles_block::{Operation, Reply, RequestError};

impl Engine {
    /// Handles the end of a stripe range of a request.
    pub(crate) fn request_part_done(&mut self, request: u32, error: Option<RequestError>) {
        let lacks_space = self.lacks_space && !self.has_failed();
        let slot = &mut self.requests[request];
        assert!(slot.pending > 0, "a range of a request ended twice");
        let error = match error {
            // The client, or an array on top of this one, must not consider the array lost.
            Some(RequestError::BeyondTolerance)
                if lacks_space && slot.operation != Operation::Read =>
            {
                Some(RequestError::NoSpace)
            }
            error => error,
        };
        slot.pending -= 1;
        // The first error stands; `Corrupt` says more than the others.
        if slot.error.is_none() || error == Some(RequestError::Corrupt) {
            slot.error = error.or(slot.error);
        }
        if slot.pending == 0 && slot.handed_out {
            if slot.operation == Operation::Discard && self.begin_release(request) {
                return;
            }
            self.answer(request);
        }
    }

    #[inline]
    pub(crate) fn answer(&mut self, request: u32) {
        let slot = &self.requests[request];
        if slot.pairing != Pairing::Single {
            return self.answer_paired(request);
        }
        let reply = Reply {
            token: slot.token,
            result: match slot.error {
                None => Ok(()),
                Some(error) => Err(error),
            },
            exchanged: None,
        };
        self.requests.give_back(request);
        self.outbox.put(Output::Reply(reply));
    }

    /// Handles the end of a request that is hedged, a hedge, a straggler, or the array's own.
    #[cold]
    pub(crate) fn answer_paired(&mut self, request: u32) {
        let slot = self.requests[request];
        let other = match slot.pairing {
            Pairing::Single => panic!("there are not two"),
            Pairing::Own => return self.agenda.add(Due::Moved),
            Pairing::Straggler => return self.is_back(request),
            Pairing::Hedge(other) if slot.error.is_some() => {
                // The hedge failed: the other request keeps waiting.
                let waits = &mut self.requests[other];
                waits.pairing = Pairing::Single;
                waits.exchangeable = false;
                return self.is_back(request);
            }
            Pairing::Hedge(other) | Pairing::Hedged(other) => other,
        };
        let exchanged = matches!(slot.pairing, Pairing::Hedge(_)).then_some(slot.buffer);
        let late = &mut self.requests[other];
        late.pairing = Pairing::Straggler;
        // This slot becomes a client slot and the other slot a hedge slot, whatever their use
        // before.
        self.requests[request].pairing = Pairing::Single;
        self.requests.give_back(request);
        self.outbox.put(Output::Reply(Reply {
            token: slot.token,
            result: slot.error.map_or(Ok(()), Err),
            exchanged,
        }));
        let late = &mut self.requests[other];
        if !late.is_handed_out() {
            late.stop();
            self.requests.stop_waiting(other);
        }
        if self.requests[other].pending == 0 {
            return self.is_back(other);
        }
        self.keep_ranges();
    }

    /// Handles the return of a request for which no client waits. Its memory can be used again,
    /// unless it was lent before lending ended.
    fn is_back(&mut self, request: u32) {
        let slot = &mut self.requests[request];
        slot.pairing = Pairing::Single;
        if slot.exchangeable {
            self.hedges.take_back_area(slot.buffer);
        }
        self.hedges.take_back_slot(request);
        self.keep_ranges();
        self.hedges.look_by(self.now);
    }

    /// Updates the number of stripe ranges that other requests must leave free.
    pub(crate) fn keep_ranges(&mut self) {
        let is_extra =
            |slot: &&RequestSlot| matches!(slot.pairing, Pairing::Hedge(_) | Pairing::Straggler);
        let extra = self.requests.iter().filter(is_extra);
        let used = extra.map(|slot| slot.pending).sum();
        self.hedges.keep_ranges(used);
    }

    /// Begins to release the whole regions of a discard that is done on all members. The discard is
    /// answered afterwards. Returns true if regions are being released.
    #[cold]
    pub(crate) fn begin_release(&mut self, request: u32) -> bool {
        let slot = &self.requests[request];
        let regions = &self.regions;
        if !regions.are_stored() || slot.operation != Operation::Discard || slot.error.is_some() {
            return false;
        }
        if regions.has_older() || self.whole_regions(request).is_empty() {
            return false;
        }
        self.regions.queue_release(request);
        self.agenda.add(Due::Releases);
        true
    }

    pub(super) fn finish_merged(&mut self, mut id: RangeId, error: Option<RequestError>) {
        while id != RangeId::NONE {
            let range = &mut self.ranges[id];
            assert_eq!(
                range.stage(),
                Stage::Merged,
                "only merged ranges are in the list"
            );
            range.move_to(Stage::Free);
            let (owner, next) = (range.owner, range.merged);
            let Owner::Request(request) = owner else {
                panic!("a merged range belongs to a request");
            };
            self.ranges.give_back(id);
            self.request_part_done(request, error);
            id = next;
        }
    }
}
