//! Which writes a flush of the array has to make durable. A flush that finds nothing to do sends nothing to
//! the members.

/// Counts writes that ended and may be in the members' caches only, and how many of these a flush
/// covered. What is in the log does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flushes {
    written: u64,
    durable: u64,
}

impl Flushes {
    /// A write ended. Its number.
    #[inline]
    pub(crate) fn write_ended(&mut self) -> u64 {
        self.written += 1;
        self.written
    }

    /// Whether the write of that number, and all before it, are durable.
    #[inline]
    pub(crate) fn is_durable(self, write: u64) -> bool {
        write <= self.durable
    }

    /// Whether all writes that ended are.
    pub(crate) fn is_all_durable(self) -> bool {
        self.is_durable(self.written)
    }

    /// What a flush that begins now covers, for `ended`.
    pub(crate) fn begins(self) -> u64 {
        self.written
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
    fn a_flush_covers_what_had_ended_when_it_began() {
        let mut flushes = Flushes::default();
        assert!(flushes.is_all_durable(), "nothing was written");
        assert_eq!(flushes.write_ended(), 1);
        let first = flushes.begins();
        assert!(!flushes.is_all_durable(), "it is under way");
        assert_eq!(flushes.write_ended(), 2);
        let second = flushes.begins();
        flushes.ended(first);
        assert!(!flushes.is_all_durable(), "one came after it began");
        assert!(flushes.is_durable(1) && !flushes.is_durable(2));
        flushes.ended(second);
        flushes.ended(first);
        assert!(flushes.is_all_durable());
    }
}
