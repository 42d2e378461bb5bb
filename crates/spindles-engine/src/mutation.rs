//! Faults planted in the engine, one at a time, so that the simulator can prove that its checkers
//! would find them. Exists only with the feature `canary`.

/// A planted fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// The engine as it is.
    #[default]
    None,
    /// A flush is answered without asking the members.
    SkipFlush,
    /// Reads of the first two members are exchanged.
    SwapMembers,
    /// Columns don't wait for one another.
    DropStripeLock,
    /// Writes are acknowledged before it is durable that a member is out.
    SkipFailureRecord,
    /// The array is not marked unclean before it is written.
    SkipDirtyMark,
    /// A small write leaves old parity in place.
    StaleParity,
    /// After a crash places are read before they are settled.
    SkipSettle,
    /// FUA is not handed down.
    SkipFua,
}

/// Every planted fault.
pub const MUTATIONS: &[Mutation] = &[
    Mutation::SkipFlush,
    Mutation::SwapMembers,
    Mutation::DropStripeLock,
    Mutation::SkipFailureRecord,
    Mutation::SkipDirtyMark,
    Mutation::StaleParity,
    Mutation::SkipSettle,
    Mutation::SkipFua,
];
