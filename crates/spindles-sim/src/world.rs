//! The driver in virtual time: carries the engines' outputs to simulated disks and to each other,
//! and carries the results back to the engines.

use crate::arrays::{Arrays, Input, OWN_TOKEN, Taken};
use crate::checkers::{CHECKERS, Check, Scene, Seen};
use crate::client::{Client, Flight, Token, Wish};
use crate::clock::{Clock, Happening};
use crate::devices::{Devices, DiskIo};
use crate::disk::{Disk, WriteData};
use crate::disks::Work;
use crate::log::{Entry, Failure, Log};
use crate::memory::{Memory, index};
use crate::options::Options;
use crate::random::Random;
use crate::stack::{Below, Stack};
use crate::truth::Truth;
use crate::truth::rule::Rule;
use spindles_block::{
    BlockIndex, BufferSlice, Instant, MemberError, MemberIndex, MemberIo, MemberIoId, MemberResult,
    MemberSet, Operation, Piece, Reply, Request, RequestError,
};
use spindles_engine::{Command, Event, JOURNAL_DEVICE, Member, OutReason, Output};

/// A moment at which a fault may act.
#[derive(Debug)]
pub enum Moment<'a> {
    /// A device begins an operation. A fault may prolong it.
    Begins {
        /// The operation.
        io: &'a MemberIo,
        /// The device.
        disk: usize,
        /// Its duration in nanoseconds.
        ns: &'a mut u64,
    },
    /// A device is about to answer. A fault may delay the answer.
    Answers {
        /// The operation.
        operation: Operation,
        /// The device.
        disk: usize,
        /// The moment of the answer; `None` for now.
        at: &'a mut Option<Instant>,
    },
    /// A device is about to write data of an array. A fault may keep it from landing.
    Lands {
        /// The device.
        disk: usize,
        /// The write.
        data: &'a WriteData,
        /// Set while it lands in its place.
        lands: &'a mut bool,
    },
    /// A device is about to write. A fault may cut the write off, or refuse it.
    Writes {
        /// The device.
        disk: usize,
        /// The write.
        data: &'a WriteData,
        /// The number of bytes written. `None` refuses the write.
        bytes: &'a mut Option<usize>,
        /// Set if the process crashed: a crash refuses no write.
        is_crash: bool,
    },
    /// A device discarded sectors.
    Frees {
        /// The device.
        disk: usize,
        /// Number of sectors that took space.
        sectors: u64,
    },
    /// An array begins to fill a device.
    Fills {
        /// The device.
        disk: usize,
    },
    /// A new disk got this number.
    Exchanged {
        /// The device.
        disk: usize,
    },
    /// A session has ended, and nothing is open.
    Ended {
        /// Set if all arrays were closed clean.
        clean: bool,
    },
    /// The next session is about to begin: all other changes between sessions are made.
    Begun {
        /// Set if all arrays were closed clean.
        clean: bool,
        /// Set if no member is lost.
        whole: bool,
    },
    /// The next checks need arrays that work: the fault ends.
    Relief,
    /// Lost members are about to be replaced for the last check.
    Heals,
    /// All activity stops.
    Stopped,
}

/// A fault at work in one run.
pub trait Strike: std::fmt::Debug {
    /// Makes it happen. Returns false if the budget does not allow it now.
    fn strike(&mut self, world: &mut World) -> bool;

    /// Follows what happens after it struck.
    fn on_event(&mut self, _world: &mut World, _moment: &mut Moment<'_>) {}

    /// Returns the rule by which requests over a sector may fail because of it now.
    fn excuses(&self, _sector: u64) -> Option<Rule> {
        None
    }
}

/// The faults of a run, by name. `None` while the fault acts.
pub(crate) type Strikes = Vec<(&'static str, Option<Box<dyn Strike>>)>;

/// A run under way.
pub struct World {
    /// The options of the run.
    pub options: Options,
    /// The events so far.
    pub log: Log,
    /// The disks, and the maps of the arrays on them.
    pub stack: Stack,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) arrays: Arrays,
    pub(crate) devices: Devices,
    pub(crate) truth: Truth,
    strikes: Strikes,
    pub(crate) session: u32,
    pub(crate) faults: Random,
    /// Set if the array shall grow, if it can, from the next opening on.
    pub(crate) wants_growth: bool,
    /// Set if the array shall extend on its members at the next opening.
    pub(crate) wants_room: bool,
    /// Blank disks that replace lost ones automatically.
    pub(crate) spares: u32,
    /// Events that scrubs and repairs reported.
    pub(crate) reported: Vec<Event>,
    /// Set while a scrub runs whose result is checked at its end.
    pub(crate) scrubs_quietly: bool,
    pub(crate) rotting: Random,
    /// Draws the sizes of new disks.
    pub(crate) sizing: Random,
    /// Draws writes that do not land.
    pub(crate) losing_writes: Random,
    watch: Vec<(&'static str, Box<dyn Check>)>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut world = f.debug_struct("World");
        world.field("seed", &self.options.seed);
        world.field("now", &self.clock.now());
        world.finish_non_exhaustive()
    }
}

impl World {
    /// Creates a world whose arrays were never opened.
    pub(crate) fn new(options: Options, stack: Stack, strikes: Strikes, story: bool) -> Self {
        let arrays = stack.arrays.len();
        let disks = stack.disks.len();
        let clients = options.depth + options.limit_hedges;
        let memory = Memory::new(arrays, clients, stack.block_bytes);
        let first = memory.first_of_clients();
        let client = Client::new(&options, stack.geometry().blocks(), first);
        Self {
            strikes,
            truth: Truth::new(client.sectors_per_block, options.beyond),
            arrays: Arrays::new(arrays, memory),
            devices: Devices::new(disks),
            log: Log::new(story),
            client,
            clock: Clock::new(options.seed, arrays),
            session: 0,
            faults: Random::new(options.seed, "faults"),
            wants_growth: false,
            wants_room: false,
            spares: options.spares,
            reported: Vec::new(),
            scrubs_quietly: false,
            rotting: Random::new(options.seed, "journal rot"),
            sizing: Random::new(options.seed, "sizes of new disks"),
            losing_writes: Random::new(options.seed, "losing writes"),
            watch: (CHECKERS.iter())
                .map(|checker| (checker.name, (checker.start)()))
                .collect(),
            options,
            stack,
        }
    }

    /// Returns a disk by number.
    pub(crate) fn disk(&self, disk: usize) -> &Disk {
        self.devices.disk(&self.stack, disk)
    }

    /// Returns a disk by number, mutably.
    pub(crate) fn disk_mut(&mut self, disk: usize) -> &mut Disk {
        self.devices.disk_mut(&mut self.stack, disk)
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Logs a rare event.
    pub(crate) fn note(&mut self, text: &str) {
        self.log.note(self.clock.now(), text);
    }

    /// Makes the fault of that name strike. Returns false if the budget does not allow it now.
    pub(crate) fn strike(&mut self, name: &str) -> bool {
        let mut strikes = self.strikes.iter();
        let at = strikes.position(|(of, _)| *of == name);
        at.is_some_and(|at| {
            let Some(mut fault) = self.strikes[at].1.take() else {
                return false;
            };
            let struck = fault.strike(self);
            self.strikes[at].1 = Some(fault);
            struck
        })
    }

    /// Tells all faults of a moment.
    pub(crate) fn tell(&mut self, moment: &mut Moment<'_>) {
        for at in 0..self.strikes.len() {
            if let Some(mut fault) = self.strikes[at].1.take() {
                fault.on_event(self, moment);
                self.strikes[at].1 = Some(fault);
            }
        }
    }

    /// Returns true if a fault excuses errors over these sectors.
    fn is_excused(&self, sectors: &std::ops::Range<u64>) -> bool {
        let mut faults = self.strikes.iter().filter_map(|(_, fault)| fault.as_ref());
        faults.any(|fault| {
            let mut sectors = sectors.clone();
            sectors.any(|sector| fault.excuses(sector).is_some())
        })
    }

    /// Shows an event to all checkers.
    pub(crate) fn show(&mut self, seen: &Seen<'_>) {
        if self.log.has_failed() {
            return;
        }
        let errors_excused = self.excuses_errors();
        let mut scene = Scene {
            now: self.clock.now(),
            options: &self.options,
            stack: &self.stack,
            history: &mut self.client.history,
            lost_at: self.devices.lost_at(),
            errors_excused,
        };
        for (checker, check) in &mut self.watch {
            if let Err(what) = check.see(&mut scene, seen) {
                let (session, at) = (self.session, self.clock.now());
                let failure = Failure {
                    checker,
                    what,
                    session,
                    at,
                };
                return self.log.fail(failure);
            }
        }
    }

    pub(crate) fn stalled(&mut self, what: &str) {
        self.show(&Seen::Stalled { what });
    }

    /// Runs one event; timers do not count as events. Returns false if none is left, or after a
    /// finding.
    pub(crate) fn step(&mut self) -> bool {
        loop {
            if self.log.has_failed() {
                return false;
            }
            let Some(happening) = self.clock.advance() else {
                return false;
            };
            let is_alarm = matches!(happening, Happening::Timeout { .. });
            if !self.happen(happening) || !is_alarm {
                return !self.log.has_failed();
            }
        }
    }

    /// Carries out one event. Returns false if the run exceeds its limit of steps.
    fn happen(&mut self, happening: Happening) -> bool {
        if self.clock.is_overrun() {
            self.stalled("it does not end");
            return false;
        }
        match happening {
            Happening::Disk(place) => self.disk_done(place),
            Happening::Computed { array, step } => {
                let (compute, result) = self.arrays.compute(array, step);
                let result = self.options.planted.result(compute, result);
                let now = self.clock.now();
                self.log.entry(now, Entry::Computed { array });
                self.give(Input::Computed(array, step, result));
            }
            Happening::Gone { disk } => {
                if disk == self.devices.replacement_number() {
                    self.drop_replacement();
                } else if self.is_being_filled(disk) {
                    self.drop_disk(disk);
                    self.log.count("gone while filled", 1);
                }
            }
            Happening::Timeout { array, at } => {
                if self.clock.rings(array, at) {
                    self.give(Input::Timeout(array));
                }
            }
        }
        true
    }

    pub(crate) fn opened(&mut self, array: usize) {
        self.give(Input::Opened(array));
    }

    pub(crate) fn command(&mut self, array: usize, command: Command) {
        self.give(Input::Command(array, command));
    }

    /// Sends a request of the simulator itself, over all bytes of its buffer. Returns true if it
    /// succeeded.
    fn ask_own(&mut self, array: usize, operation: Operation, block: BlockIndex) -> bool {
        let buffer = self.arrays.memory().own();
        let bytes = self.arrays.memory_mut().whole(buffer).len();
        let request = Request {
            token: OWN_TOKEN,
            operation,
            block,
            blocks: u32::try_from(bytes / self.stack.block_bytes).expect("small"),
            buffer: BufferSlice {
                buffer,
                first_block: 0,
            },
        };
        self.give(Input::Submit(array, request));
        while !self.arrays.has_own_reply() && self.step() {}
        let reply = self.arrays.take_own_reply();
        reply.is_some_and(|reply| reply.result.is_ok())
    }

    /// Reads from an open array.
    pub(crate) fn read_own(
        &mut self,
        array: usize,
        block: BlockIndex,
        bytes: usize,
    ) -> Option<Vec<u8>> {
        let buffer = self.arrays.memory().own();
        *self.arrays.memory_mut().whole(buffer) = vec![0; bytes];
        let done = self.ask_own(array, Operation::Read, block);
        done.then(|| self.arrays.memory_mut().whole(buffer).clone())
    }

    /// Writes durably to an open array.
    pub(crate) fn write_own(&mut self, array: usize, block: BlockIndex, bytes: &[u8]) -> bool {
        let buffer = self.arrays.memory().own();
        *self.arrays.memory_mut().whole(buffer) = bytes.to_vec();
        self.ask_own(array, Operation::Write { fua: true }, block)
    }

    fn give(&mut self, input: Input) {
        self.arrays.push(input);
        while let Some((array, taken)) = self.arrays.take_next(self.clock.now()) {
            match taken {
                Taken::Yes => {}
                Taken::Busy(request) => self.busy(array, request),
                Taken::Refused(error) => self.note(&format!("a command was not taken: {error:?}")),
            }
            self.carry_out(array);
        }
    }

    fn busy(&mut self, array: usize, request: Request) {
        if array == self.stack.top() && request.token < OWN_TOKEN {
            self.client.held = Some(request);
        } else if array == self.stack.top() {
            self.stalled("an idle array is busy");
        } else {
            self.stalled("an array below another was busy: its pools are too small");
            self.arrays.hold(array, request);
        }
    }

    /// Carries out the outputs of one engine.
    fn carry_out(&mut self, array: usize) {
        while let Some(output) = self.arrays.poll_output(array) {
            match output {
                Output::Member(io) => self.send(array, io),
                Output::Compute(step) => {
                    let computed = Happening::Computed { array, step };
                    self.clock.after_between(500, 20_000, computed);
                }
                Output::Reply(reply) => self.replied(array, reply),
                Output::Swap(member) => self.exchange(array, member),
                Output::Event(event) => self.event(array, event),
            }
        }
        self.watch_hedges(array);
        self.follow_engine(array);
        if self.arrays.is_open(array) && self.arrays.engine(array).is_settled() {
            self.stack.arrays[array].unsettled = false;
            if array == self.stack.top() {
                self.truth.rows_have_settled(&self.stack);
            }
        }
        self.clock.set_alarm(array, self.arrays.poll_timeout(array));
    }

    /// Sends a member I/O to its disk, or to the array below.
    fn send(&mut self, array: usize, io: MemberIo) {
        let (id, filling) = (io.id, self.stack.arrays[array].filling);
        let sent = (self.options.planted).pass(self.arrays.engine(array), filling, io);
        let Some(io) = sent else {
            return self.arrays.push(Input::Member(array, id, Ok(())));
        };
        let pieces = self.arrays.take_pieces(array, &io);
        if array == self.stack.top() && io.operation == Operation::Read {
            self.arrays.count_read();
        }
        // There may be disks for more positions, from a growth that failed.
        let disk = if io.member == JOURNAL_DEVICE {
            self.devices.journal_number()
        } else if io.member == self.arrays.engine(array).replacement() {
            self.devices.replacement_number()
        } else {
            match self.stack.arrays[array].members[usize::from(io.member.0)] {
                Below::Disk(disk) => disk,
                Below::Array(below) => {
                    return self.arrays.hand_down(array, below, io, &pieces);
                }
            }
        };
        self.start_io(array, disk, io, pieces);
    }

    /// Records blocks that a crash destroyed, if the loss is legal. Loss is legal if members are
    /// unreadable. It is also legal for unlogged, unfinished or volatile writes whose log is lost,
    /// including writes on the member with the damaged log.
    fn is_lost(&mut self, array: usize, block: BlockIndex, blocks: u32) {
        let lost = block.0..block.0 + u64::from(blocks);
        let may = if array == self.stack.top() {
            self.truth.is_beyond_budget()
                || self.stack.may_lack_proof(array)
                || lost
                    .clone()
                    .all(|block| self.truth.may_be_lost(&self.stack, block))
        } else {
            self.stack.may_lose_blocks(array)
        };
        if !may {
            return self.stalled("blocks are lost though all can be read");
        }
        if array == self.stack.top() {
            self.truth.blocks_are_lost(&lost);
        }
        let lost = lost.map(|block| (array, block));
        self.stack.lost_blocks.extend(lost);
        self.stack.lost_once.insert(array);
    }

    /// Records blocks that can't be filled on a rebuilding member. Fails the run unless blocks of
    /// other members may be unreadable.
    fn is_not_filled(&mut self, array: usize, member: MemberIndex, block: BlockIndex, blocks: u32) {
        self.log.count("filled in part", 1);
        if !self.truth.is_beyond_budget() && !self.stack.may_lose_blocks(array) {
            return self.stalled("blocks are not filled though all can be read");
        }
        for block in block.0..block.0 + u64::from(blocks) {
            let block = BlockIndex(block);
            if let Below::Disk(disk) = self.stack.arrays[array].members[usize::from(member.0)] {
                let sectors = self.stack.sectors(disk, block);
                self.stack.disks[disk].not_filled(sectors);
            } else {
                self.stack.unfilled.insert((array, member, block));
            }
        }
    }

    /// Follows an engine that put a member out.
    fn is_out(&mut self, array: usize, member: MemberIndex, reason: OutReason) {
        if matches!(
            reason,
            OutReason::TooManyErrors | OutReason::TooManyBadBlocks
        ) {
            self.put_out_for_errors(array, member);
        } else if self.stack.is_short_of_space {
            self.assert_space_spares(array, member, reason);
            self.put_out_for_space(array, member);
        }
        let beyond = self.options.beyond || self.truth.is_beyond_budget();
        let filling = &mut self.stack.arrays[array].filling;
        *filling = filling.without(member);
        self.stack.lose_array(array, member, beyond);
        self.take_spares(array);
        // The member may have held the last valid copy of blocks that a crash left in doubt.
        let in_doubt = self.truth.in_doubt();
        (self.truth).cure_gaps(&mut self.stack, &mut self.log, in_doubt);
    }

    /// Follows the start of a rebuild.
    fn is_being_rebuilt(&mut self, array: usize, member: MemberIndex) {
        let filling = &mut self.stack.arrays[array].filling;
        *filling = filling.with(member);
        let below = self.stack.arrays[array].members[usize::from(member.0)];
        if let Below::Disk(disk) = below {
            self.devices.set_returning(disk, false);
            self.tell(&mut Moment::Fills { disk });
        }
    }

    /// Follows the end of a rebuild: the member is no longer lost.
    fn is_rebuilt(&mut self, array: usize, member: MemberIndex) {
        let filling = &mut self.stack.arrays[array].filling;
        *filling = filling.without(member);
        self.log.count("rebuilt", 1);
        let below = self.stack.arrays[array].members[usize::from(member.0)];
        // The disk may have dropped out again before the engine noticed.
        if !matches!(below, Below::Disk(disk) if self.devices.is_gone(disk)) {
            self.found_again(array, MemberSet::EMPTY.with(member));
        }
        // The engine counted the rebuilt member already while that was being recorded. A member
        // that it put out meanwhile is lost only now.
        if self.stack.is_short_of_space {
            let out = self.arrays.engine(array).status().members.into_iter();
            let out = out.filter(|out| matches!(out.state, Member::Missing { .. }));
            let lost = self.stack.arrays[array].lost;
            for late in out.filter(|out| !lost.contains(out.member)) {
                self.put_out_for_space(array, late.member);
            }
        }
        if self.devices.has_replacement(array, member) {
            self.detach_replacement();
        }
        self.attach_added(array);
    }

    fn event(&mut self, array: usize, event: Event) {
        self.note(&format!("array {array}: {event:?}"));
        match event {
            Event::Lost { block, blocks } => self.is_lost(array, block, blocks),
            Event::ResyncDone { .. } if array == self.stack.top() => self.truth.resynced(),
            Event::TooMuchLost => self.stalled("there is no room to note what is lost"),
            Event::Closed { clean } => self.arrays.set_closed(array, Some(clean)),
            Event::Found(_)
            | Event::MetadataFound(_)
            | Event::Disagreement { .. }
            | Event::ScrubDone(_) => {
                self.note_scrub_event(&event);
            }
            Event::MemberOut { member, reason } => self.is_out(array, member, reason),
            Event::RebuildStarted { member } => self.is_being_rebuilt(array, member),
            Event::NotFilled {
                member,
                block,
                blocks,
            } => self.is_not_filled(array, member, block, blocks),
            Event::RebuildDone { member } => self.is_rebuilt(array, member),
            Event::Grown { blocks } => self.has_grown(blocks),
            Event::GrowthStuck { block } if !self.excuses_errors() => {
                self.show(&Seen::Failed {
                    what: &format!("moving block {}", block.0),
                });
            }
            Event::ReplaceStarted { .. }
            | Event::ReplaceDone { .. }
            | Event::ReplaceEnded { .. } => self.note_replace_event(event),
            _ => {}
        }
    }

    /// Assigns spares to vacant positions while there are any. A spare already claimed by this
    /// array does not count, even if no superblock names it yet.
    pub(crate) fn take_spares(&mut self, array: usize) {
        for member in self.arrays.engine(array).vacancies().iter() {
            let Below::Disk(disk) = self.stack.arrays[array].members[usize::from(member.0)] else {
                continue;
            };
            // Don't retry a disk that has no space.
            let claimed = self.is_claimed(array, disk) && !self.stack.is_short_of_space;
            if self.spares == 0 && !claimed {
                continue;
            }
            if let Some((array, command)) = self.put_spare(disk) {
                self.spares -= u32::from(!claimed);
                let word = if claimed { "spare again" } else { "spare" };
                self.log.count(word, 1);
                self.arrays.push(Input::Command(array, command));
            }
        }
    }

    fn replied(&mut self, array: usize, reply: Reply) {
        if reply.token >= OWN_TOKEN {
            self.arrays.own_replied(reply);
        } else if let Some((above, _)) = self.stack.arrays[array].above {
            let id = MemberIoId(u32::try_from(reply.token).expect("it was made of one"));
            let operation = self.arrays.handed_back(array, reply.token);
            let is_read = operation == Some(Operation::Read);
            let result = reply.result.map_err(|error| match error {
                RequestError::Corrupt | RequestError::InDoubt => MemberError::Corrupt,
                RequestError::NoSpace => MemberError::NoSpace,
                _ if is_read => MemberError::Medium,
                _ => MemberError::Gone,
            });
            self.arrays.push(Input::Member(above, id, result));
            self.arrays.release(array);
        } else {
            self.answered(reply);
        }
    }

    // ---- disks -------------------------------------------------------------------------------

    fn start_io(&mut self, array: usize, disk: usize, io: MemberIo, pieces: Vec<Piece>) {
        let now = self.clock.now();
        let MemberIo {
            operation, blocks, ..
        } = io;
        let block = io.block.0;
        let purpose = self.arrays.engine(array).purpose(&io);
        self.log.entry(
            now,
            Entry::Disk {
                disk,
                operation,
                purpose,
                block,
                blocks,
            },
        );
        let bytes = index(blocks) * self.stack.block_bytes;
        let per_block = self.stack.block_bytes / self.disk(disk).sector_bytes();
        let first_sector = io.block.0 * u64::try_from(per_block).expect("small");
        let is_member = self.devices.is_member(disk);
        // A blank disk waits for this position: the I/O was planned for its predecessor.
        let is_late = is_member && {
            let (array, member) = self.stack.position(disk);
            self.stack.arrays[array].blank.contains(member)
                && self.arrays.engine(array).is_out(member)
        };
        let data = match operation {
            Operation::Write { .. } => Some(self.arrays.memory().bytes_of(&pieces)),
            Operation::Discard | Operation::WriteZeroes { .. } => Some(vec![0; bytes]),
            Operation::Read | Operation::Flush => None,
        };
        // Rewriting unreadable data with the same bytes changes nothing. Neither does overwriting
        // corruption: after a crash the corruption is there again, or not.
        let changes = |bytes: &Vec<u8>| {
            is_member
                && !is_late
                && !self.scrubs_quietly
                && !self.stack.writes_nothing_new(disk, io.block, bytes)
        };
        let logs = disk == self.devices.journal_number();
        let shown = data.as_ref().filter(|bytes| logs || changes(bytes));
        if let Some(bytes) = shown.filter(|_| !self.devices.is_gone(disk)) {
            self.show(&Seen::DiskAsked {
                disk,
                sector: first_sector,
                bytes,
            });
        }
        let takes_ns = self.service_ns(disk, &io);
        let io = DiskIo {
            array,
            io,
            pieces,
            disk,
            first_sector,
            data: data.map(|bytes| WriteData {
                first: first_sector,
                bytes,
            }),
            covered: self.disk_mut(disk).flush_begins(),
            lost: is_late || self.devices.is_gone(disk),
        };
        let place = self.devices.begin(io);
        self.clock.after(takes_ns, Happening::Disk(place));
    }

    /// Draws how long a disk takes for an operation.
    fn service_ns(&mut self, disk: usize, io: &MemberIo) -> u64 {
        let length = u64::from(io.blocks) * u64::try_from(self.stack.block_bytes).expect("small");
        let work = match io.operation {
            Operation::Read => Work::Read(length),
            Operation::Flush => Work::Flush,
            _ => Work::Write(length),
        };
        let model = self.disk(disk).model();
        let mut ns = self.clock.service_ns(model, work);
        let ns_mut = &mut ns;
        self.tell(&mut Moment::Begins {
            io,
            disk,
            ns: ns_mut,
        });
        ns
    }

    fn disk_done(&mut self, place: usize) {
        let io = self.devices.end(place);
        let mut later = None;
        self.tell(&mut Moment::Answers {
            operation: io.io.operation,
            disk: io.disk,
            at: &mut later,
        });
        if let Some(at) = later {
            self.devices.put_back(place, io);
            return self.clock.at(at, Happening::Disk(place));
        }
        let clients = self.client.keeps(io.io.buffer.buffer);
        if io.io.operation == Operation::Read && clients {
            // The disk is about to fill the buffer.
            let disk = io.disk;
            self.show(&Seen::DiskRead { disk, clients });
        }
        let DiskIo { array, disk, .. } = io;
        let bytes = index(io.io.blocks) * self.stack.block_bytes;
        let operation = io.io.operation;
        let result = if io.lost {
            Err(MemberError::Gone)
        } else {
            self.execute(&io)
        };
        if operation == Operation::Read && result.is_err() {
            // Data of a failed read must not be used.
            self.arrays
                .memory_mut()
                .bytes_mut(io.io.buffer, bytes)
                .fill(0xee);
        }
        let now = self.clock.now();
        self.log.entry(
            now,
            Entry::DiskDone {
                disk,
                operation,
                block: io.io.block.0,
                done: result.is_ok(),
            },
        );
        if let (Operation::Write { .. }, Some(data)) = (operation, &io.data) {
            let buffer_changed = self.arrays.memory().bytes_of(&io.pieces) != data.bytes;
            self.show(&Seen::DiskWrote {
                disk,
                buffer_changed,
            });
        }
        self.give(Input::Member(array, io.io.id, result));
    }

    /// Counts the reads that the outermost array hedged since the last call.
    fn watch_hedges(&mut self, array: usize) {
        if array != self.stack.top() || !self.arrays.is_open(array) {
            return;
        }
        let (more, hedged, reads) = self.arrays.count_hedged();
        if more > 0 {
            self.log.count("hedged", more);
            self.show(&Seen::Hedged { hedged, reads });
        }
    }

    /// Executes an operation on a present disk.
    fn execute(&mut self, io: &DiskIo) -> MemberResult {
        let disk = io.disk;
        match io.io.operation {
            Operation::Read => {
                let mut read = vec![0; index(io.io.blocks) * self.stack.block_bytes];
                let result = self.disk(disk).read(io.first_sector, &mut read);
                if result.is_ok() {
                    self.arrays
                        .memory_mut()
                        .bytes_mut(io.io.buffer, read.len())
                        .copy_from_slice(&read);
                }
                result
            }
            Operation::Flush => {
                self.disk_mut(disk).flush_ends(io.covered);
                Ok(())
            }
            Operation::Write { fua } | Operation::WriteZeroes { fua } => {
                let data = io.data.as_ref().expect("a write has data");
                let mut lands = true;
                if matches!(io.io.operation, Operation::Write { .. }) {
                    let lands = &mut lands;
                    self.tell(&mut Moment::Lands { disk, data, lands });
                }
                if !lands {
                    return Ok(());
                }
                self.stack.is_meant(disk, io.io.block, &data.bytes);
                self.write(disk, data, fua)
            }
            Operation::Discard => {
                let data = io.data.as_ref().expect("a discard has zeros");
                let contents = self.disk_mut(disk);
                let holes = contents.holes(data.first, data.bytes.len());
                contents.discard(data.first, &data.bytes);
                let sectors = contents.holes(data.first, data.bytes.len()) - holes;
                self.tell(&mut Moment::Frees { disk, sectors });
                Ok(())
            }
        }
    }

    /// Returns how much of a write a device takes; `None` if it refuses the write.
    pub(crate) fn taken(&mut self, disk: usize, data: &WriteData, is_crash: bool) -> Option<usize> {
        let mut bytes = Some(data.bytes.len());
        self.tell(&mut Moment::Writes {
            disk,
            data,
            bytes: &mut bytes,
            is_crash,
        });
        bytes
    }

    /// Writes what the device takes of the data.
    fn write(&mut self, disk: usize, data: &WriteData, fua: bool) -> MemberResult {
        let bytes = self.taken(disk, data, false).ok_or(MemberError::NoSpace)?;
        let contents = self.disk_mut(disk);
        contents.write(data.first, &data.bytes[..bytes], fua);
        if bytes < data.bytes.len() {
            return Err(MemberError::NoSpace);
        }
        Ok(())
    }

    // ---- clients -----------------------------------------------------------------------------

    /// Submits client requests while there is room. `left` counts down.
    pub(crate) fn ask(&mut self, left: &mut u32) {
        while *left > 0 && self.client.has_room() && !self.log.has_failed() {
            *left -= 1;
            let wish = self.client.wish();
            self.ask_for(wish);
        }
    }

    /// Submits one client request. The answer may come before this function returns.
    pub(crate) fn ask_for(&mut self, wish: Wish) -> Request {
        let now = self.clock.now();
        let request = self.client.request(now, wish, self.arrays.memory_mut());
        self.log.entry(
            now,
            Entry::Request {
                token: request.token,
                operation: request.operation,
                block: request.block.0,
                blocks: request.blocks,
            },
        );
        if request.operation.is_write() {
            self.truth.note_rows(&self.stack, &self.client);
        }
        let top = self.stack.top();
        self.give(Input::Submit(top, request));
        request
    }

    fn answered(&mut self, reply: Reply) {
        let now = self.clock.now();
        let done = reply.result.is_ok();
        let token = reply.token;
        self.log.entry(now, Entry::Reply { token, done });
        let Some(flight) = self.client.take(now, reply) else {
            return self.stalled(&format!("request {token} was answered twice"));
        };
        self.judge(&flight, done);
        if let Some(request) = self.client.held.take() {
            let top = self.stack.top();
            self.arrays.push(Input::Submit(top, request));
        }
    }

    /// Judges an answer: notes what it proves, and shows it to the checkers.
    fn judge(&mut self, flight: &Flight, done: bool) {
        if !done {
            return self.judge_failed(flight);
        }
        let Request {
            operation,
            block,
            blocks,
            buffer,
            ..
        } = flight.request;
        let sectors = self.client.sectors(&flight.request);
        let last = if operation.is_write() {
            self.client.submitted
        } else {
            0 // The sectors were readable.
        };
        self.truth.answered(&sectors, last);
        for block in block.0..block.0 + u64::from(blocks) {
            self.stack.forget_lost(self.stack.top(), BlockIndex(block));
        }
        match flight.token {
            Token::Read(token) => {
                let length = index(blocks) * self.stack.block_bytes;
                let bytes = self.arrays.memory().bytes(buffer, length);
                self.show(&Seen::Read {
                    token,
                    bytes: &bytes,
                });
            }
            Token::Write { token, fua } => {
                let durable = self.client.history.write_answered(token, true, fua);
                self.show(&Seen::Written {
                    block,
                    blocks,
                    submitted: flight.submitted,
                    durable: &durable,
                });
            }
            Token::Flush(token) => {
                let durable = self.client.history.flush_answered(token);
                self.show(&Seen::Flushed { durable: &durable });
            }
        }
    }

    /// Judges a request that failed: shows it to the checkers unless it has an excuse.
    fn judge_failed(&mut self, flight: &Flight) {
        let Request {
            operation,
            block,
            blocks,
            ..
        } = flight.request;
        let sectors = self.client.sectors(&flight.request);
        match flight.token {
            Token::Read(token) => self.client.history.read_failed(token),
            Token::Write { token, fua } => {
                self.client.history.write_answered(token, false, fua);
            }
            Token::Flush(_) => {}
        }
        let (stack, token) = (&self.stack, flight.request.token);
        let excuse = self.truth.excuse(stack, &sectors, token);
        if let Some(rule) = excuse.filter(|_| operation == Operation::Read) {
            return self.log.count(rule.name(), 1);
        }
        let excuse = self.truth.excuse_of_write(stack, &sectors, token);
        if excuse.is_some() || self.is_excused(&sectors) {
            return;
        }
        let what = format!("{operation:?} of {blocks} blocks at {block}");
        self.show(&Seen::Failed { what: &what });
    }
}
