//! Faults planted in the engine, one at a time, so that the simulator can prove that its checkers
//! would find them. Without the feature `canary` the engine never has one.

/// Marks programs that act on planted faults. The check of the package searches for it.
#[cfg(feature = "canary")]
#[used]
static MARK: [u8; 32] = *b"this program acts on canaries...";

/// Defines the enum of planted faults, and the list of them.
macro_rules! mutations {
    ($($(#[$meaning:meta])+ $name:ident,)+) => {
        /// A planted fault.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Mutation {
            /// No fault is planted.
            #[default]
            None,
            $($(#[$meaning])+ $name,)+
        }

        /// Every planted fault.
        pub const MUTATIONS: &[Mutation] = &[$(Mutation::$name,)+];
    };
}

mutations! {
    /// Stripe ranges don't wait for one another.
    DropStripeLock,
    /// After a crash, places are read before they are settled.
    SkipSettle,
    /// Unreadable blocks are not recovered from redundancy.
    NoRecovery,
    /// A waiter for the lock of a stripe range is not woken when the stripe range ends.
    LostWakeup,
    /// Two stripe ranges use the same scratch space.
    SharedScratch,
    /// A scrub does not look at the metadata on the members.
    SkipInspection,
    /// A scrub does not wait for writes under way.
    ScrubUnlocked,
    /// A region's dirty bit is cleared before writes to the region are flushed.
    ClearBitEarly,
    /// A region's dirty bit is cleared while a member is missing.
    ClearBitWhileOut,
    /// Writes are not logged before they go to their places.
    SkipJournal,
    /// The journals are not replayed after a crash.
    SkipReplay,
    /// Blocks that the journal's own device failed to log still go to their places.
    TrustLostJournal,
    /// Durable writes that are not logged are answered before their checksums are durable.
    SkipPagesOfDurable,
    /// A reconstructed block is used without proof by a row sum.
    TrustRecovered,
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
    /// A write of a whole row is not logged, though the log holds blocks of that row.
    WholeOverLive,
    /// Records of the last batch that are not whole never count.
    DropBroken,
    /// A hedge reads into memory that the straggler will still write to.
    HedgeInPlace,
    /// Reads are hedged without a limit.
    HedgeUnlimited,
    /// The replayed log still counts while the array serves.
    KeepReplayed,
    /// Regions in doubt when a member goes out do not count as regions that the member lacks.
    ForgetDoubt,
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
    /// The dirty bit of an unsettled region is cleared.
    ClearBitUnsettled,
    /// The dirty bit of a region is cleared though a write arrived since the flush began.
    ClearBitRace,
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
    /// Writes go to their places past staged blocks.
    PastStage,
    /// Reads do not see staged contents.
    ReadPastStage,
    /// A flush is answered before staged writes are durable.
    FlushSkipsStage,
    /// Staged writes are released before their places are flushed.
    ReleaseUnplaced,
    /// Superblocks do not say that the stage may hold records.
    StageUnrecorded,
    /// Nothing is placed while a write of staged blocks waits for room in the stage.
    PlacingNeedsRoom,
    /// A replacement that is refused takes the place of the one under way.
    TakeRefused,
}
