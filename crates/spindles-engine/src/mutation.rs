//! Faults planted in the engine, one at a time, so that the simulator can prove that its checkers
//! would find them. Without the feature `canary` the engine never has one.

/// Marks programs that act on planted faults. The check of the package searches for it.
#[cfg(feature = "canary")]
#[used]
static MARK: [u8; 32] = *b"this program acts on canaries...";

/// A planted fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    /// No fault is planted.
    #[default]
    None,
    /// A flush is answered without asking the members.
    SkipFlush,
    /// Reads of the first two members are swapped.
    SwapMembers,
    /// Stripe ranges don't wait for one another.
    DropStripeLock,
    /// Writes are acknowledged before the loss of a member is durable.
    SkipFailureRecord,
    /// The array is not marked unclean before it is written.
    SkipDirtyMark,
    /// A small write leaves old parity in place.
    StaleParity,
    /// After a crash, places are read before they are settled.
    SkipSettle,
    /// FUA is not passed on to the members.
    SkipFua,
    /// Copies that a crash left in disagreement are settled in the members' caches only.
    SettleInCache,
    /// State found at opening is trusted without a flush, though it may exist in the members'
    /// caches only.
    SkipOpeningFlush,
    /// Logged blocks found at opening on the journal's own device are trusted, though they may
    /// exist in its cache only.
    TrustJournalCache,
    /// A close marks the array clean without flushing the members.
    CloseUnflushed,
    /// Unreadable blocks are not recovered from redundancy.
    NoRecovery,
    /// A waiter for the lock of a stripe range is not woken when the stripe range ends.
    LostWakeup,
    /// Two stripe ranges use the same scratch space.
    SharedScratch,
    /// If a scrub can't identify the corrupt chunk, it repairs the first chunk.
    RepairUnlocated,
    /// A scrub trusts every block that it reads.
    BlindScrub,
    /// A scrub does not look at the metadata on the members.
    SkipInspection,
    /// A scrub does not wait for writes under way.
    ScrubUnlocked,
    /// A repair reaches only the member's cache.
    RepairInCache,
    /// A write goes to its place before the dirty bit of its region is durable.
    SkipRegionMark,
    /// A region's dirty bit is cleared before writes to the region are flushed.
    ClearBitEarly,
    /// A region's dirty bit is cleared while a member is missing.
    ClearBitWhileOut,
    /// A region is written for the first time without being zeroed.
    SkipZeroing,
    /// Blocks copied to a device are not flushed before they count as durable there.
    RebuildUnflushed,
    /// Client writes skip the unfilled part of a device that is being filled.
    RebuildSkipsWrites,
    /// Writes are not logged before they go to their places.
    SkipJournal,
    /// Writes are logged, and go to their places, before the loss of a member is durable whose
    /// journal lacks its part.
    LogUnrecorded,
    /// The journal is not flushed before the commit.
    SkipJournalFlush,
    /// The journals are not replayed after a crash.
    SkipReplay,
    /// Blocks that the journal's own device failed to log still go to their places.
    TrustLostJournal,
    /// Durable writes that are not logged are answered before their checksums are durable.
    SkipPagesOfDurable,
    /// A reconstructed block is used without proof by a row sum.
    TrustRecovered,
    /// Space of the journal is used again before the blocks logged there are durable in place.
    ReuseJournalUnflushed,
    /// Blocks are read without a comparison with their checksums.
    SkipVerify,
    /// Space of the journal is used again before the checksums that it covers are on the members.
    ReuseJournalWithoutChecksums,
    /// A replay does not update checksums.
    SkipReplayedChecksums,
    /// A small write leaves the replaced checksums in the row sum.
    StaleRowSum,
    /// Rows can be read after a logged write is answered, and before it is in its place.
    ReadUnplaced,
    /// Parts of rows are not logged.
    PartsUnlogged,
    /// The first write to a never-written row is not logged.
    FirstWriteUnlogged,
    /// Client writes to a member that is being replaced skip the replacement device.
    ReplaceSkipsWrites,
    /// Blocks copied to a replacement device are not flushed before it replaces a member.
    ReplaceUnflushed,
    /// A write of a whole row is not logged, though the log holds blocks of that row.
    WholeOverLive,
    /// The loss of a member is recorded before unlogged writes are durable.
    OutUnflushed,
    /// A durable write is answered while other blocks of its rows exist in the members' caches
    /// only.
    SkipRestFlush,
    /// Records of the last batch that are not whole never count.
    DropBroken,
    /// Blocks that a crash took are not written to the lists of bad blocks on the members.
    ForgetLost,
    /// Blocks staged by a growth are not flushed before the growth relies on them.
    StageUnflushed,
    /// Blocks moved by a growth are not flushed before they count as moved.
    MarkUnflushed,
    /// A hedge reads into memory that the straggler will still write to.
    HedgeInPlace,
    /// Reads are hedged without a limit.
    HedgeUnlimited,
    /// A replay does not wait until the superblocks record the missing members.
    ReplayUnrecorded,
    /// The replayed log still counts while the array serves.
    KeepReplayed,
    /// Regions in doubt when a member goes out do not count as regions that the member lacks.
    ForgetDoubt,
    /// Rows are settled in the members' caches only before a part of them is logged.
    SettleUnflushed,
    /// Records that are written while a device is being filled have no part on it.
    FilledUnlogged,
    /// The journals are not made void when a device takes a position.
    JoinUnvoided,
    /// Whole rows are no longer logged before the end of a rebuild is durable.
    UnloggedEarly,
    /// Checksums of logged blocks may reach the members before the record is durable.
    EntriesEarly,
    /// The loss of a member is recorded while unlogged writes are under way.
    OutWhileUnlogged,
    /// If the row sum does not prove the first reconstruction, the engine tries no further one.
    TryOnce,
    /// Parity and data that fit their checksums are taken as a consistent row.
    TrustAgreement,
    /// A record completed from redundancy is not logged as a whole before it is placed.
    PlaceInferred,
    /// A write over lost blocks is answered while the members' lists still have them.
    AnswerListed,
    /// The dirty bit of an unsettled region is cleared.
    ClearBitUnsettled,
    /// The dirty bit of a region is cleared though a write arrived since the flush began.
    ClearBitRace,
    /// A durable write flushes the members with data only.
    FlushDataOnly,
    /// The logged checksum of a block that has rotted in the log is not kept.
    ForgetRotten,
    /// A block whose part the log lacks keeps its old checksum.
    KeepUnlogged,
    /// Parity that fits its checksum proves its reconstructions, as if row sums were linear in the
    /// checksums.
    LinearRowSum,
    /// A flush is answered before the checksums of written blocks are durable.
    SkipPagesOfFlush,
    /// Whole rows that lack a member are not logged.
    DegradedUnlogged,
    /// An absent journal device counts as an empty log.
    TrustEmptyJournal,
    /// Blocks are read in their places though the log holds newer contents that could not be
    /// placed.
    ReadUnplacedLog,
    /// Rows of a failed write are read though the array can no longer settle them.
    TrustFailedWrites,
    /// Rows in doubt are settled without a member before its loss is durable.
    SettleUnrecorded,
    /// Bad blocks of a member are dropped before its loss is durable.
    ForgetBadBlocksEarly,
    /// Bad blocks of a member do not count as blocks that its returning device lacks.
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
