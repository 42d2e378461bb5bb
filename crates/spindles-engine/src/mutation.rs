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
    /// Stripe ranges don't wait for one another.
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
    /// Copies that a crash left in disagreement are settled in the members' caches only.
    SettleInCache,
    /// What is found at opening is trusted, though it may be in the members' caches only.
    SkipOpeningFlush,
    /// What is found at opening on the journal's own device is trusted, though it may be in its cache only.
    TrustJournalCache,
    /// A close marks the array clean without flushing the members.
    CloseUnflushed,
    /// What can't be read is not recovered from redundancy.
    NoRecovery,
    /// What waits for a stripe range is not woken when that ends.
    LostWakeup,
    /// Two stripe ranges use the same scratch space.
    SharedScratch,
    /// Where a scrub can't tell what is rotten, it takes the first chunk for it.
    RepairUnlocated,
    /// A scrub takes whatever it reads for right.
    BlindScrub,
    /// A scrub does not look at the metadata on the members.
    SkipInspection,
    /// A scrub does not wait for writes under way.
    ScrubUnlocked,
    /// What repairs a place is written to the member's cache only.
    RepairInCache,
    /// A write goes to its place before it is durable that its region is dirty.
    SkipRegionMark,
    /// A region's dirty bit is cleared before what was written is flushed.
    ClearBitEarly,
    /// A region's dirty bit is cleared while a member is missing.
    ClearBitWhileOut,
    /// A region is written for the first time without being made zeros.
    SkipZeroing,
    /// What was copied to a device is not flushed before it counts as durable there.
    RebuildUnflushed,
    /// What clients write is not written to a device that is being filled and not yet filled there.
    RebuildSkipsWrites,
    /// Writes are not logged before they go to their places.
    SkipJournal,
    /// Writes are logged, and go to their places, before it is durable that a member failed whose journal
    /// lacks its part.
    LogUnrecorded,
    /// The journal is not flushed before the commit.
    SkipJournalFlush,
    /// What the journals hold after a crash is not carried out again.
    SkipReplay,
    /// What a device of its own for the journal failed to log goes to its place all the same.
    TrustLostJournal,
    /// Durable writes that are not logged are answered before their checksums are durable.
    SkipPagesOfDurable,
    /// A reconstructed block is used though no row sum proves it.
    TrustRecovered,
    /// Space of the journal is used again before what it covers is durable in place.
    ReuseJournalUnflushed,
    /// What is read is not compared with its checksums.
    SkipVerify,
    /// Space of the journal is used again before the checksums that it covers are on the members.
    ReuseJournalWithoutChecksums,
    /// After a replay checksums stay as they are.
    SkipReplayedChecksums,
    /// A small write leaves the checksums that it replaces in the row sum.
    StaleRowSum,
    /// Rows can be read after a logged write is answered, and before it is in its place.
    ReadUnplaced,
    /// Parts of rows are not logged.
    PartsUnlogged,
    /// The first write to a row that nothing was written to is not logged.
    FirstWriteUnlogged,
    /// What clients write to a member that is being replaced is not written to the new device.
    ReplaceSkipsWrites,
    /// What was copied to a device is not flushed before it replaces a member.
    ReplaceUnflushed,
    /// A write of a whole row is not logged, though the log holds something of that row.
    WholeOverLive,
    /// It is recorded that a member is out before what was written unlogged is durable.
    OutUnflushed,
    /// A durable write is answered while what else is in its rows is in the members' caches only.
    SkipRestFlush,
    /// Records of the last batch that are not whole never count.
    DropBroken,
    /// Blocks that a crash took are not written to the lists of bad blocks on the members.
    ForgetLost,
    /// What a growth staged is not flushed before it is relied on.
    StageUnflushed,
    /// What a growth moved is not flushed before it counts as moved.
    MarkUnflushed,
    /// A hedge reads into the memory that the late read will still write into.
    HedgeInPlace,
    /// Reads are hedged without a limit.
    HedgeUnlimited,
    /// A replay does not wait until it is durable which members are missing.
    ReplayUnrecorded,
    /// The replayed log still counts while the array serves.
    KeepReplayed,
    /// Regions in doubt when a member goes out do not count as regions that it lacks.
    ForgetDoubt,
    /// Rows are settled in the members' caches only before a part of them is logged.
    SettleUnflushed,
    /// Records that are written while a device is being filled have no part on it.
    FilledUnlogged,
    /// The journals are not made void when a device takes a position.
    JoinUnvoided,
    /// Whole rows are no longer logged, before it is durable that a device is filled.
    UnloggedEarly,
    /// Checksums of what is logged may be on the members before the record is durable.
    EntriesEarly,
    /// It is recorded that a member is out while writes are under way that are not logged.
    OutWhileUnlogged,
    /// Where a row sum does not prove the first reconstruction, no other is tried.
    TryOnce,
    /// Parity that fits its checksum is taken for that of a row whose data does too.
    TrustAgreement,
    /// A record of which a part follows from redundancy is not logged as a whole before it is placed.
    PlaceInferred,
    /// A write over lost blocks is answered while the members' lists still have them.
    AnswerListed,
    /// A dirty bit is cleared of a region that is not settled.
    ClearBitUnsettled,
    /// A dirty bit is cleared though a write came since the flush began.
    ClearBitRace,
    /// A durable write flushes the members with data only.
    FlushDataOnly,
    /// The logged checksum of a block that has rotted in the log is not kept.
    ForgetRotten,
    /// A block whose part the log lacks keeps its old checksum.
    KeepUnlogged,
    /// Parity that fits its checksum proves what is reconstructed from it, as a row sum would that is
    /// linear in the checksums.
    LinearRowSum,
    /// A flush is answered before the checksums of what was written are durable.
    SkipPagesOfFlush,
    /// Whole rows that lack a member are not logged.
    DegradedUnlogged,
    /// Without the device of the journal the log is taken for an empty one.
    TrustEmptyJournal,
    /// Blocks are read in their places though the log has something of them that could not be carried out.
    ReadUnplacedLog,
    /// What a write left that failed is read though the array can't put it in order any more.
    TrustFailedWrites,
    /// Rows in doubt are put in order without a member before it is durable that it is out.
    SettleUnrecorded,
    /// Bad blocks of a member are forgotten before it is durable that it is out.
    ForgetBadBlocksEarly,
    /// Bad blocks of a member do not count as what its device lacks when it comes back.
    ReturnBadBlocks,
    /// A replacement that is refused takes the place of the one under way.
    TakeRefused,
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
    Mutation::SettleInCache,
    Mutation::SkipOpeningFlush,
    Mutation::TrustJournalCache,
    Mutation::CloseUnflushed,
    Mutation::NoRecovery,
    Mutation::LostWakeup,
    Mutation::SharedScratch,
    Mutation::RepairUnlocated,
    Mutation::BlindScrub,
    Mutation::SkipInspection,
    Mutation::ScrubUnlocked,
    Mutation::RepairInCache,
    Mutation::SkipRegionMark,
    Mutation::ClearBitEarly,
    Mutation::ClearBitWhileOut,
    Mutation::SkipZeroing,
    Mutation::RebuildUnflushed,
    Mutation::RebuildSkipsWrites,
    Mutation::SkipJournal,
    Mutation::LogUnrecorded,
    Mutation::SkipJournalFlush,
    Mutation::SkipReplay,
    Mutation::TrustLostJournal,
    Mutation::SkipPagesOfDurable,
    Mutation::TrustRecovered,
    Mutation::ReuseJournalUnflushed,
    Mutation::SkipVerify,
    Mutation::ReuseJournalWithoutChecksums,
    Mutation::SkipReplayedChecksums,
    Mutation::StaleRowSum,
    Mutation::ReadUnplaced,
    Mutation::PartsUnlogged,
    Mutation::FirstWriteUnlogged,
    Mutation::ReplaceSkipsWrites,
    Mutation::ReplaceUnflushed,
    Mutation::WholeOverLive,
    Mutation::OutUnflushed,
    Mutation::SkipRestFlush,
    Mutation::DropBroken,
    Mutation::ForgetLost,
    Mutation::StageUnflushed,
    Mutation::MarkUnflushed,
    Mutation::HedgeInPlace,
    Mutation::HedgeUnlimited,
    Mutation::ReplayUnrecorded,
    Mutation::KeepReplayed,
    Mutation::ForgetDoubt,
    Mutation::SettleUnflushed,
    Mutation::FilledUnlogged,
    Mutation::JoinUnvoided,
    Mutation::UnloggedEarly,
    Mutation::EntriesEarly,
    Mutation::OutWhileUnlogged,
    Mutation::TryOnce,
    Mutation::TrustAgreement,
    Mutation::PlaceInferred,
    Mutation::AnswerListed,
    Mutation::ClearBitUnsettled,
    Mutation::ClearBitRace,
    Mutation::FlushDataOnly,
    Mutation::ForgetRotten,
    Mutation::KeepUnlogged,
    Mutation::LinearRowSum,
    Mutation::SkipPagesOfFlush,
    Mutation::DegradedUnlogged,
    Mutation::TrustEmptyJournal,
    Mutation::ReadUnplacedLog,
    Mutation::TrustFailedWrites,
    Mutation::SettleUnrecorded,
    Mutation::ForgetBadBlocksEarly,
    Mutation::ReturnBadBlocks,
    Mutation::TakeRefused,
];
