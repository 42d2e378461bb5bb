//! The engine: its state, and the entry points for inputs.
//!
//! ```text
//!  input ─▶ mod ─┬─▶ dispatch ──results, `Due`──▶ machines
//!                ├─▶ requests, jobs, repairs, staging ─▶ ranges
//!                └─▶ ranges ──`Next`──▶ planning, committing, finishing …
//!
//!  all of these ─▶ context, durable, out, places
//! ```
//!
//! Calls go down only. A part that another part has to continue returns `Next`, for one stripe
//! range, or adds `Due` to the agenda, for the array. `cargo xtask measure self_calls` checks that
//! no more than two files call each other.

mod areas;
mod bad_blocks;
mod checksums;
mod closing;
mod context;
mod dispatch;
mod durable;
mod extension;
mod faults;
mod findings;
mod first_touch;
mod hedges;
mod inspection;
pub(crate) mod jobs;
mod log;
mod metadata;
mod opening;
mod out;
mod ranges;
mod recovery;
mod regions;
mod releases;
mod repairs;
mod replies;
mod requests;
mod slow;
pub(crate) mod staging;
mod status;
mod system_io;
mod zeroing;

use crate::{
    REPLACEMENT, RangeId, SLOT_BITS, SYSTEM_IO,
    agenda::Agenda,
    bad_blocks::BadList,
    checksums::Pages,
    config::Limits,
    consistency::Policy,
    durable::OwnFlushes,
    extension::Extension,
    faults::Faults,
    first_touch::FirstTouch,
    flushes::{Flushes, Rounds},
    hedges::Hedges,
    inspection::Inspection,
    jobs::{
        JOB_RANGES, Jobs,
        grow::Grow,
        rebuild::{RETURNING, Rebuild},
        replace::{Input as ReplaceInput, Replace},
        scrub::ScrubState,
    },
    locks::Locks,
    log::Log,
    members::Members,
    membership::{Change, Membership},
    metadata::Metadata,
    mutation::Mutation,
    opening::Opening,
    outbox::Outbox,
    output::{Busy, Command, CommandError, OutReason, Output},
    plan::Shape,
    read_policies::ReadPolicy,
    regions::Regions,
    requests::Requests,
    role::Role,
    settled::Settled,
    slow::Slow,
    staging::{STAGE_STEP, Staging},
    stripe::Ranges,
    system_io::MetadataBuffer,
    waits::Waits,
    workspace::{Scratch, Workspace},
    zeroing::Zeroing,
};
use spindles_block::{
    BlockIndex, BlockSize, BufferId, ComputeResult, Instant, MemberIndex, MemberIoId, MemberResult,
    MemberSet, Operation, Request, StepId,
};
use spindles_format::ArrayRecord;
use spindles_layout::Geometry;

/// Returns the role of the device in a position. No command names the device beyond all positions.
fn position(state: &Membership, member: MemberIndex) -> Result<Role, CommandError> {
    if member.0 < state.members {
        Ok(state.role_of(member))
    } else {
        Err(CommandError::NoSuchMember)
    }
}

/// Progress of a close.
///
/// ```text
///  Open ──Close──▶ Draining ──idle──▶ Flushing ──▶ Clearing ──▶ Marking ──▶ Closed
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    Open,
    Draining,
    Flushing,
    Clearing,
    Marking,
    Closed,
}

/// The settings of an opening. They do not change while the array is open.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says one thing about the opening"
)]
struct Settings {
    block_size: BlockSize,
    read_only: bool,
    /// True if reads of rows in doubt are answered only with contents that are proved, or on which
    /// all redundancy agrees. An array open read-only may find more evidence when it is open for
    /// writing.
    wants_proof: bool,
    /// True if an interrupted growth or rebuild does not continue by itself.
    only_recovers: bool,
    /// True to use redundancy that a crash left in doubt: `Config::force`.
    trust_unsettled: bool,
    policy: &'static Policy,
    read_policy: &'static ReadPolicy,
    limits: Limits,
    scratch: BufferId,
    /// The longest operation that goes straight to a member, in blocks.
    direct_blocks_max: u32,
    /// The longest stripe range without scratch space, in blocks; below, the longest one that
    /// writes only zeros.
    unscratched_blocks_max: u32,
    zeros_blocks_max: u32,
    /// True if a crash may leave a block torn.
    tears: bool,
    #[cfg(feature = "canary")]
    mutation: Mutation,
}

impl Settings {
    /// Returns the scratch space. `clients` is the number of stripe ranges for requests.
    fn scratch(&self, shape: Shape, geometry: &Geometry, clients: u32) -> Scratch {
        let blocks = self.limits.range_blocks;
        Scratch::new(self.scratch, blocks, shape, geometry, clients)
    }
}

/// One array. Inputs are `submit`, `complete_member`, `complete_compute`, `handle_timeout` and
/// `command`; after each, drain `poll_output`. A plain value: a clone continues on its own.
#[derive(Clone, Debug)]
pub struct Engine {
    geometry: Geometry,
    shape: Shape,
    settings: Settings,
    /// True if writing stopped because indispensable members lack space.
    lacks_space: bool,
    metadata_buffer: MetadataBuffer,
    members: Members,
    /// The time of the current input.
    now: Instant,
    faults: Faults,
    bad: BadList,
    slow: Slow,
    hedges: Hedges,
    flushes: Flushes,
    own_flushes: OwnFlushes,
    rounds: Rounds,
    requests: Requests,
    ranges: Ranges,
    scratch: Scratch,
    workspace: Workspace,
    waits: Waits,
    locks: Locks,
    outbox: Outbox,
    agenda: Agenda,
    metadata: Metadata,
    regions: Regions,
    first_touch: FirstTouch,
    zeroing: Zeroing,
    opening: Opening,
    log: Log,
    /// The pages of checksums in memory; `None` if blocks have no checksums.
    pages: Option<Pages>,
    /// The stage; `None` if the array has none, or does not use it.
    staging: Option<Staging>,
    jobs: Jobs,
    rebuild: Rebuild,
    replace: Replace,
    grow: Grow,
    /// The extension of the array, which takes effect with the first superblock update.
    extension: Option<Extension>,
    scrub: ScrubState,
    inspection: Inspection,
    settled: Settled,
    closing: Closing,
    reads_chosen: u64,
}

impl Engine {
    /// Returns the most member I/Os that one member can have in flight. An array below must take as
    /// many.
    pub fn member_ios_per_member_max(&self) -> u32 {
        // Stripe ranges, a superblock, both bitmaps, bad blocks, zeros, an inspection, and flushes
        // of five kinds.
        let staged = self.staging.as_ref().map_or(0, |_| 4);
        let without = self.client_ranges() + JOB_RANGES + 11 + staged;
        self.pages.as_ref().map_or(without, |_| 3 * without)
    }

    /// Returns the address map.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the only place of a block: the member, the block counted from the start of its
    /// device, and the number of blocks from there on that lie in order. `None` if the array has
    /// redundancy.
    pub fn only_place(&self, block: BlockIndex) -> Option<(MemberIndex, BlockIndex, u32)> {
        let location = self.geometry.locate(block);
        let start = self.members.data_start(location.member);
        (self.shape.slots == 1).then(|| {
            let place = start.plus(location.offset.0);
            (location.member, place, location.blocks_left)
        })
    }

    /// Returns the array's record as the superblocks have it, or get it with the next update;
    /// `None` for an array without superblocks.
    pub fn record(&self) -> Option<&ArrayRecord> {
        let persistence = self.metadata.persistence()?;
        Some(&persistence.array)
    }

    /// Returns true if a crash may leave a block torn.
    pub fn tears(&self) -> bool {
        self.settings.tears
    }

    /// Returns the addressing unit.
    pub fn block_size(&self) -> BlockSize {
        self.settings.block_size
    }

    /// Takes a request and reserves everything that it will ever need, or takes nothing. The reply
    /// is an output, which also reports an invalid request.
    pub fn submit(&mut self, now: Instant, request: Request) -> Result<(), Busy> {
        self.assert_drained();
        self.now = now;
        self.take_request(request)?;
        self.pump(now);
        Ok(())
    }

    /// Like `submit`. A read may be answered with other memory than the request named
    /// (`Reply::exchanged`). The two pieces then change owners; each is as long as lent memory
    /// (`lend`).
    pub fn submit_exchangeable(&mut self, now: Instant, request: Request) -> Result<(), Busy> {
        self.hedges
            .set_exchanges(request.operation == Operation::Read);
        let taken = self.submit(now, request);
        self.hedges.set_exchanges(false);
        taken
    }

    /// Handles the result of a member I/O.
    pub fn complete_member(&mut self, now: Instant, id: MemberIoId, result: MemberResult) {
        self.assert_drained();
        self.now = now;
        if id.0 & (SYSTEM_IO | REPLACEMENT) == 0 {
            let slot = u8::try_from(id.0 & ((1 << SLOT_BITS) - 1)).expect("six bits");
            let range = RangeId(id.0 >> SLOT_BITS);
            let next = self.range_io_done(range, slot, result);
            self.go_on(range, next);
        } else if id.0 & SYSTEM_IO == 0 {
            self.written_to_replacement(id, result);
        } else {
            self.system_io_done(id, result);
        }
        self.pump(now);
    }

    /// Handles the result of a computation.
    pub fn complete_compute(&mut self, now: Instant, id: StepId, result: ComputeResult) {
        self.assert_drained();
        self.now = now;
        if id == STAGE_STEP {
            self.batch_computed();
        } else {
            let next = self.range_computed(RangeId(id.0), result);
            self.go_on(RangeId(id.0), next);
        }
        self.pump(now);
    }

    /// Handles the timeout that `poll_timeout` asked for.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.assert_drained();
        self.now = now;
        self.sweep(now);
        self.look_at_waiting();
        if let Some(pages) = &mut self.pages {
            pages.look_at_age(now);
        }
        self.pump(now);
    }

    /// Returns when the engine wants to be woken; `None` if nothing waits for time. A job may be
    /// throttled, dirty regions may become clean, pages of checksums may be due, or reads may wait
    /// at members.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // What an array open read-only writes in the background would be forgotten.
        let open = self.closing == Closing::Open && !self.settings.read_only;
        let sweep = open.then(|| self.regions.wake()).flatten();
        let pages = self.pages.as_ref().filter(|_| open).and_then(Pages::wake);
        let staged = self.stage_wake();
        let all = [
            self.jobs.wake(),
            sweep,
            self.hedges.next_look(&self.ranges, &self.slow),
            pages,
            staged,
        ];
        all.into_iter().flatten().min()
    }

    /// Carries out a command on the running array.
    pub fn command(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        self.assert_drained();
        self.now = now;
        if let Err(error) = self.may(&command) {
            if let Command::Replace {
                member,
                device,
                uuid,
            } = command
                && self.mutated(Mutation::TakeRefused)
            {
                self.replace.begin(member, &device, uuid);
            }
            return Err(error);
        }
        match command {
            Command::Close => {
                if self.closing == Closing::Open {
                    self.closing = Closing::Draining;
                    if let Some(staging) = &mut self.staging {
                        staging.closes_since = Some(now);
                    }
                    self.step_replace(ReplaceInput::Closes);
                    self.rebuild.nobody_joins();
                }
            }
            Command::PlaceStaged => {
                if let Some(staging) = &mut self.staging {
                    staging.places_all = true;
                }
            }
            Command::Fail(member) => {
                self.put_out(member, OutReason::Command);
            }
            Command::Rebuild {
                member,
                device,
                uuid,
            } => self.rebuild.fill(member, &device, uuid),
            Command::Return { member, device } => self.bring_back(member, &device),
            Command::Replace {
                member,
                device,
                uuid,
            } => self.replace.begin(member, &device, uuid),
            Command::JobRate(rate) => self.jobs.set_rate(rate),
            Command::Scrub(scrub) => self.begin_scrub(scrub),
            Command::StopJob(name) => self.stop_on_command(name),
        }
        self.pump(now);
        Ok(())
    }

    /// Checks whether `command` would take a command now. Changes nothing: a driver asks before it
    /// touches the device that the command names.
    ///
    /// # Errors
    ///
    /// Those of `command`.
    pub fn may(&self, command: &Command) -> Result<(), CommandError> {
        let state = self.membership();
        let stranger = Role::Stranger;
        match command {
            Command::Close => state.decide(Change::Close)?,
            Command::Fail(member) => state.decide(Change::Fail(position(&state, *member)?))?,
            Command::Rebuild {
                member,
                device,
                uuid,
            } => {
                let change = Change::Add {
                    member: *member,
                    device: stranger,
                };
                let plan = state.decide(change)?;
                self.suits(*member, device, *uuid)?;
                plan
            }
            Command::Return { member, device } => {
                let change = Change::Return {
                    member: *member,
                    device: stranger,
                };
                let plan = state.decide(change)?;
                self.suits(*member, device, RETURNING)?;
                plan
            }
            Command::Replace {
                member,
                device,
                uuid,
            } => {
                let change = Change::Replace {
                    old: position(&state, *member)?,
                    device: stranger,
                };
                let plan = state.decide(change)?;
                self.suits(*member, device, *uuid)?;
                plan
            }
            Command::Scrub(_) => return self.may_scrub(),
            Command::StopJob(name) => return self.jobs.may_stop(name),
            Command::JobRate(_) | Command::PlaceStaged => return Ok(()),
        };
        Ok(())
    }

    /// Returns the state on which changes of devices depend.
    pub fn membership(&self) -> Membership {
        let all = MemberSet::all(self.geometry.members());
        let is_dispensable =
            |member: &MemberIndex| self.geometry.survives(self.members.lost().with(*member));
        Membership {
            members: self.geometry.members(),
            read_only: self.settings.read_only,
            superblocks: self.metadata.persistence().is_some(),
            bitmaps: self.regions.are_stored(),
            closing: self.closing != Closing::Open,
            failed: self.has_failed(),
            stopped: self.metadata.is_broken(),
            missing: self.members.missing(),
            joining: self.rebuild.members_joining(),
            filling: self.members.being_filled(),
            dispensable: all.iter().filter(is_dispensable).collect(),
            beside: self.beside(),
            hands_over: self.replace.has_exchanged(),
            growing: self.grow.phase(&self.geometry),
        }
    }

    /// Returns the next effect to carry out. Call it until `None` after every input.
    #[inline]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.take()
    }

    /// Checks the one contract of the callers.
    #[inline]
    fn assert_drained(&self) {
        assert!(
            self.outbox.is_empty(),
            "the outputs must be drained between two inputs"
        );
    }

    /// Continues everything that can continue.
    #[inline]
    pub(crate) fn pump(&mut self, now: Instant) {
        if self.waits.any_ready()
            || !self.agenda.is_empty()
            || self.requests.any_waiting()
            || self.jobs.any()
            || self.holds_back()
            || self.closing != Closing::Open
            || self.pages.as_ref().is_some_and(Pages::wants_pump)
            || self.staging.is_some()
        {
            self.pump_all(now);
        }
        if self.log.wants_batch() {
            self.pump_log(now);
        }
    }

    /// Begins a batch of the log, and continues what that makes due.
    #[inline(never)]
    fn pump_log(&mut self, now: Instant) {
        self.begin_batch();
        while !self.agenda.is_empty() {
            self.pump_all(now);
            self.begin_batch();
        }
    }

    // Separate, so that the check before it needs no stack.
    #[inline(never)]
    fn pump_all(&mut self, now: Instant) {
        loop {
            if let Some(due) = self.agenda.next() {
                self.carry_out(due);
            } else if let Some(range) = self.waits.next_ready() {
                self.run(range);
            } else if (self
                .staging
                .as_ref()
                .is_none_or(|staging| !staging.is_awaited())
                || !self.pump_stage())
                && !self.advance_backlog()
                && !self.pump_repairs()
                && !self.pump_jobs(now)
                && !self.pump_joining()
                && !self.pump_waiting_for_pages()
                && !self.pump_replace()
                && !self.pump_grow()
                && !self.pump_stage()
            {
                self.pump_closing();
                self.write_pages();
                if !self.pages.as_ref().is_some_and(Pages::waits_for_write) {
                    self.flush_deferred();
                }
                if self.agenda.is_empty() {
                    return;
                }
            }
        }
    }
}
