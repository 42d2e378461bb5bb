//! Which writes a flush of the array has to make durable. A flush that finds nothing to do sends nothing to
//! the members.

/// Counts writes that were answered, and how many of these a flush covered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushes {
    answered: u64,
    durable: u64,
}

impl Flushes {
    /// A write of a client was answered.
    #[inline]
    pub(crate) fn write_answered(&mut self) {
        self.answered += 1;
    }

    /// Whether all writes that were answered are durable.
    pub(crate) fn is_all_durable(self) -> bool {
        self.durable == self.answered
    }

    /// What a flush that begins now covers, for `ended`.
    pub(crate) fn begins(self) -> u64 {
        self.answered
    }

    /// A flush of all members that covers so much came to its end.
    pub(crate) fn ended(&mut self, covered: u64) {
        self.durable = self.durable.max(covered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_what_was_answered_when_it_began() {
        let mut flushes = Flushes::default();
        assert!(flushes.is_all_durable(), "nothing was written");
        flushes.write_answered();
        let first = flushes.begins();
        assert!(!flushes.is_all_durable(), "it is under way");
        flushes.write_answered();
        let second = flushes.begins();
        flushes.ended(first);
        assert!(!flushes.is_all_durable(), "one came after it began");
        flushes.ended(second);
        flushes.ended(first);
        assert!(flushes.is_all_durable());
    }
}
