//! Work for the array as a whole that is due. A room adds it; the dispatcher carries it out when
//! the room has returned (`engine/dispatch.rs`). So no room calls one that depends on it.

/// Work for the array as a whole, in the order in which it is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Due {
    /// Writing has stopped: wakes all work that waits for something durable.
    Stopped,
    /// A write of superblocks has ended on all members.
    Recorded,
    /// The next write of superblocks.
    Update,
    /// Everything that an opening waits for may be loaded and durable.
    Found,
    /// The opening may be complete.
    Serve,
    /// The log's old records are void, or will never be: regions may become written.
    Zeroing,
    /// Regions that an extension adds are zeroed.
    Extend,
    /// Discarded regions may be released.
    Releases,
    /// The array's own request is done: a window of a growth is moved.
    Moved,
    /// A stripe range of a job has ended.
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
