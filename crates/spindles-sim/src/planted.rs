//! Planted faults: those of the engine, and those that drop or change an output on its way to the
//! devices. The simulator proves with them that its checkers find such mistakes.

use spindles_block::{Compute, ComputeResult, MemberIndex, MemberIo, MemberSet, Operation};
use spindles_engine::{Engine, IoPurpose, JOURNAL_DEVICE, Mutation, Purpose};

/// A planted fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// No fault is planted.
    #[default]
    None,
    /// In the engine. Builds without its feature `canary` ignore it.
    Engine(Mutation),
    /// In its driver.
    Output(OutputFault),
}

/// A fault in the driver of an engine. Each stands for an engine that omits or weakens an output,
/// or mistakes the result of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFault {
    /// A flush is answered without asking the members.
    SkipFlush,
    /// Reads of the first two members are swapped.
    SwapMembers,
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
    /// A repair reaches only the member's cache.
    RepairInCache,
    /// A region is written for the first time without being zeroed.
    SkipZeroing,
    /// Blocks copied to a device are not flushed before they count as durable there.
    RebuildUnflushed,
    /// Client writes skip a device that is being filled.
    RebuildSkipsWrites,
    /// A batch is not durable in the journal before the commit: no FUA, no flush.
    SkipJournalFlush,
    /// Space of the journal is used again before the blocks logged there are durable in place.
    ReuseJournalUnflushed,
    /// Client writes to a member that is being replaced skip the replacement device.
    ReplaceSkipsWrites,
    /// Blocks copied to a replacement device are not flushed before it replaces a member.
    ReplaceUnflushed,
    /// The loss of a member is recorded before unlogged writes are durable.
    OutUnflushed,
    /// A durable write is answered while other blocks of its rows exist in the members' caches
    /// only.
    SkipRestFlush,
    /// Blocks staged by a growth are not flushed before the growth relies on them.
    StageUnflushed,
    /// Blocks moved by a growth are not flushed before they count as moved.
    MarkUnflushed,
    /// Rows are settled in the members' caches only before a part of them is logged.
    SettleUnflushed,
    /// A durable write flushes the members with data only.
    FlushDataOnly,
    /// A write leaves old parity in place.
    StaleParity,
    /// Lists of bad blocks are not written to the members.
    ForgetBadBlocks,
    /// Dirty bits are not written to the members.
    SkipRegionMark,
    /// Superblocks are not written while a member is missing.
    SkipFailureRecord,
    /// Superblocks are not written.
    SkipDirtyMark,
    /// If a scrub can't identify the corrupt chunk, it repairs the first chunk.
    RepairUnlocated,
    /// A scrub trusts every block that it reads.
    BlindScrub,
    /// Durable writes are answered while their columns in the stage are not durable.
    StageVolatile,
    /// The columns of one holder are not written to its stage.
    StageColumnUnwritten,
}

/// Every fault in the driver.
pub const OUTPUT_FAULTS: &[OutputFault] = &[
    OutputFault::SkipFlush,
    OutputFault::SwapMembers,
    OutputFault::SkipFua,
    OutputFault::SettleInCache,
    OutputFault::SkipOpeningFlush,
    OutputFault::TrustJournalCache,
    OutputFault::CloseUnflushed,
    OutputFault::RepairInCache,
    OutputFault::SkipZeroing,
    OutputFault::RebuildUnflushed,
    OutputFault::RebuildSkipsWrites,
    OutputFault::SkipJournalFlush,
    OutputFault::ReuseJournalUnflushed,
    OutputFault::ReplaceSkipsWrites,
    OutputFault::ReplaceUnflushed,
    OutputFault::OutUnflushed,
    OutputFault::SkipRestFlush,
    OutputFault::StageUnflushed,
    OutputFault::MarkUnflushed,
    OutputFault::SettleUnflushed,
    OutputFault::FlushDataOnly,
    OutputFault::StaleParity,
    OutputFault::ForgetBadBlocks,
    OutputFault::SkipRegionMark,
    OutputFault::SkipFailureRecord,
    OutputFault::SkipDirtyMark,
    OutputFault::RepairUnlocated,
    OutputFault::BlindScrub,
    OutputFault::StageVolatile,
    OutputFault::StageColumnUnwritten,
];

impl Planted {
    /// Returns the fault for `Config::mutation`.
    pub(crate) fn mutation(self) -> Mutation {
        match self {
            Self::Engine(mutation) => mutation,
            Self::None | Self::Output(_) => Mutation::None,
        }
    }

    /// Returns a member I/O as it goes to its device, from an engine that is filling the devices
    /// `filling`. `None` if it does not go there: the engine gets its success at once.
    pub(crate) fn pass(
        self,
        engine: &Engine,
        filling: MemberSet,
        mut io: MemberIo,
    ) -> Option<MemberIo> {
        let Self::Output(fault) = self else {
            return Some(io);
        };
        let purpose = engine.purpose(&io);
        if fault.drops(purpose, &io, engine, filling) {
            return None;
        }
        match &mut io.operation {
            Operation::Write { fua } | Operation::WriteZeroes { fua } => {
                *fua &= !fault.writes_to_cache(purpose);
            }
            Operation::Read if fault == OutputFault::SwapMembers => {
                let both = engine.geometry().members() > 1;
                let is_data = matches!(purpose, IoPurpose::Data | IoPurpose::Parity);
                if both
                    && is_data
                    && io.member.0 < 2
                    && !(0..2).any(|member| engine.is_out(MemberIndex(member)))
                {
                    io.member.0 = 1 - io.member.0;
                }
            }
            _ => {}
        }
        Some(io)
    }

    /// Returns the result of a computation as the engine gets it.
    pub(crate) fn result(self, compute: Compute, result: ComputeResult) -> ComputeResult {
        match (self, result) {
            (Self::Output(OutputFault::BlindScrub), _) if compute == Compute::Locate => {
                ComputeResult::Done
            }
            (Self::Output(OutputFault::RepairUnlocated), ComputeResult::Mismatch)
                if compute == Compute::Locate =>
            {
                ComputeResult::Located(0)
            }
            _ => result,
        }
    }
}

impl OutputFault {
    fn drops(self, purpose: IoPurpose, io: &MemberIo, engine: &Engine, filling: MemberSet) -> bool {
        let flushes = io.operation == Operation::Flush;
        let serves = matches!(purpose, IoPurpose::Data | IoPurpose::Parity);
        let writes = serves && io.operation.is_write();
        let own = |of| purpose == IoPurpose::Own(of);
        match self {
            Self::SkipFlush => purpose == IoPurpose::Flush,
            Self::SkipOpeningFlush => own(Purpose::OpeningFlush),
            Self::TrustJournalCache => own(Purpose::OpeningFlush) && io.member == JOURNAL_DEVICE,
            Self::CloseUnflushed => own(Purpose::ClosingFlush),
            Self::RepairInCache => own(Purpose::ScrubFlush),
            Self::SkipZeroing => own(Purpose::Zeroing),
            Self::RebuildUnflushed => own(Purpose::RebuildFlush),
            Self::RebuildSkipsWrites => writes && filling.contains(io.member),
            Self::SkipJournalFlush => own(Purpose::JournalCommit),
            Self::ReuseJournalUnflushed => own(Purpose::JournalRelease),
            Self::ReplaceSkipsWrites => writes && io.member == engine.replacement(),
            Self::ReplaceUnflushed => {
                own(Purpose::ReplaceFlush) && io.member == engine.replacement()
            }
            Self::OutUnflushed => own(Purpose::OutFlush),
            Self::SkipRestFlush => purpose == IoPurpose::RestFlush,
            Self::StageUnflushed => own(Purpose::StagedFlush),
            Self::MarkUnflushed => own(Purpose::MovedFlush),
            Self::SettleUnflushed => purpose == IoPurpose::Settle && flushes,
            Self::FlushDataOnly => purpose == IoPurpose::Parity && flushes,
            Self::StaleParity => purpose == IoPurpose::Parity && writes,
            Self::SkipRegionMark => own(Purpose::DirtyBitmap),
            Self::ForgetBadBlocks => own(Purpose::BadBlocks),
            Self::SkipDirtyMark => own(Purpose::Superblock),
            Self::StageColumnUnwritten => own(Purpose::StageBatch) && io.member.0 == 1,
            Self::SkipFailureRecord => {
                let mut members = MemberSet::all(engine.geometry().members()).iter();
                own(Purpose::Superblock) && members.any(|member| engine.is_out(member))
            }
            Self::SwapMembers
            | Self::SkipFua
            | Self::SettleInCache
            | Self::StageVolatile
            | Self::RepairUnlocated
            | Self::BlindScrub => false,
        }
    }

    fn writes_to_cache(self, purpose: IoPurpose) -> bool {
        match self {
            Self::SkipFua => matches!(purpose, IoPurpose::Data | IoPurpose::Parity),
            Self::StageVolatile => purpose == IoPurpose::Own(Purpose::StageBatch),
            Self::SettleInCache => purpose == IoPurpose::Settle,
            Self::RepairInCache => purpose == IoPurpose::Repair,
            Self::SkipJournalFlush => purpose == IoPurpose::Own(Purpose::JournalBatch),
            _ => false,
        }
    }
}
