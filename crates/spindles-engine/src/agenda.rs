//! Due work for the array as a whole. Any part of the engine adds work; the dispatcher
//! (`engine/dispatch.rs`) carries it out after that part has returned. No part calls another part
//! that depends on it.

/// Work for the array as a whole, in the order in which it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Due {
    /// Wakes all work that waits for something durable: writing has stopped.
    Stopped,
    /// Continues after a write of superblocks has ended on all members.
    Recorded,
    /// Begins the wanted write of superblocks.
    Update,
    /// Continues an opening: something that it waits for is loaded or durable.
    Found,
    /// Serves requests if the opening is complete.
    Serve,
    /// Continues to prepare regions: old records of the log are void, or will never be.
    Zeroing,
    /// Continues an extension whose new regions are zeroed.
    Extend,
    /// Continues to release discarded regions.
    Releases,
    /// Continues a growth whose own request has ended.
    Moved,
    /// Continues jobs of which a stripe range has ended.
    Jobs,
}

impl Due {
    /// All work, in order.
    const ALL: [Self; 10] = [
        Self::Stopped,
        Self::Recorded,
        Self::Update,
        Self::Found,
        Self::Serve,
        Self::Zeroing,
        Self::Extend,
        Self::Releases,
        Self::Moved,
        Self::Jobs,
    ];
}

/// The work that is due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agenda {
    /// One bit for each `Due`.
    bits: u32,
}

impl Agenda {
    /// Adds work. Adding it again changes nothing.
    #[inline]
    pub(crate) fn add(&mut self, due: Due) {
        self.bits |= 1 << due as u8;
    }

    /// Returns true if nothing is due.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// Takes the next work.
    pub(crate) fn next(&mut self) -> Option<Due> {
        let at = self.bits.trailing_zeros();
        let due = Due::ALL.get(usize::try_from(at).ok()?).copied()?;
        self.bits &= self.bits - 1;
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_comes_once_in_its_order() {
        let mut agenda = Agenda::default();
        assert!(agenda.is_empty() && agenda.next().is_none());
        for due in Due::ALL.into_iter().rev().chain(Due::ALL) {
            agenda.add(due);
        }
        for (at, due) in Due::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(due as u8), at);
            assert_eq!(agenda.next(), Some(due));
        }
        assert!(agenda.is_empty());
    }
}
