//! Assembles arrays from the superblocks of their devices. The devices come in any order, nested
//! arrays are opened from the inside out, and unusable devices are refused by name with a reason.

mod change;
pub(crate) mod config;
mod described;
mod gathering;
mod inside_out;
mod opening;
mod options;
mod parts;

pub use change::Change;
pub(crate) use config::config;
pub use options::{AssembleOptions, EngineOptions};
pub(crate) use parts::{Lost, Standing};

pub use crate::errors::AssembleError;
pub use crate::report::{ArrayReport, GivenUp, Growing, JournalReport, MemberReport};
use described::{may_be_newer, understand};
use gathering::{Gathered, gather, refuse_copies};
use opening::Opening;
use parts::Candidate;
use spindles_array::labels::Spare;
pub use spindles_array::spare_report::SpareReport;
use spindles_array::{Managed, NodeId, Stack, Target};
use spindles_block::BlockIndex;
use spindles_device::bad_pages::{BadPage, newest, read_pages};
use spindles_device::probe::Probe;
use spindles_device::signatures::Sighting;
use spindles_device::{CloseError, OpenError, OpenOptions};
use spindles_format::{ArrayRecord, AssembleError as ChooseError, Found, Uuid, choose, lost_runs};

/// An assembled array.
#[derive(Debug)]
pub struct Assembled {
    /// The array, open for I/O.
    pub target: Box<dyn Target>,
    /// The array's report.
    pub report: ArrayReport,
}

/// The records on one device.
#[derive(Debug)]
pub struct Examined {
    /// Its superblocks.
    pub found: Found,
    /// Other signatures on the device.
    pub sightings: Vec<Sighting>,
    /// Its copy of the array's list of bad blocks.
    pub bad_pages: Vec<BadPage>,
}

/// Reads the records on a device, even while it is in use. Opens nothing for writing.
pub fn examine(device: &str) -> Result<Examined, OpenError> {
    let probe = Probe::peek(device)?;
    Ok(Examined {
        found: probe.found(),
        sightings: probe.sightings()?,
        bad_pages: probe.bad_pages(),
    })
}

/// Assembles the array that these devices, in any order, belong to. After an error, no device was
/// written.
pub fn assemble(devices: &[&str], options: &AssembleOptions) -> Result<Assembled, AssembleError> {
    build(devices, options, None, Goal::Use).map(Build::into_assembled)
}

/// Checks what `assemble` would open, or why it would fail. Writes nothing, and leaves no device
/// open.
pub fn look(devices: &[&str], options: &AssembleOptions) -> Result<ArrayReport, AssembleError> {
    let report = build(devices, options, None, Goal::Look)?.report;
    if !options.open.read_only && !must_read_only(&report) {
        opening::may_write(devices, &options.open)?;
    }
    Ok(report)
}

fn must_read_only(report: &ArrayReport) -> bool {
    report.arrays().iter().any(|array| array.read_only)
}

/// Like `assemble`, and applies a change. If the options open it read-only, it only checks that the
/// change is possible.
pub fn assemble_to_change(
    devices: &[&str],
    options: &AssembleOptions,
    change: &Change,
) -> Result<Assembled, AssembleError> {
    build(devices, options, Some(change), Goal::Use).map(Build::into_assembled)
}

/// Attempts to open an array that other commands keep changing between our look and our opening.
const LOOKS_MAX: u32 = 20;

/// The purpose of an assembly.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Use,
    /// Only check that the array could be used.
    Look,
}

/// Like `build_of`, but leaves out devices that die meanwhile and names them in the report.
fn build(
    devices: &[&str],
    options: &AssembleOptions,
    change: Option<&Change>,
    goal: Goal,
) -> Result<Build, AssembleError> {
    let mut left = devices.to_vec();
    let mut died = Vec::new();
    // Set if present members died: such members are no newer than the others.
    let mut none_is_newer = false;
    let mut looks = 1;
    loop {
        let mut all_heard_of = false;
        let result = build_of(
            &left,
            options,
            change,
            goal,
            none_is_newer,
            &mut all_heard_of,
        );
        let error = match result {
            Ok(mut build) => {
                build.report.refused.extend(died);
                return Ok(build);
            }
            Err(AssembleError::Changed) if looks < LOOKS_MAX => {
                looks += 1;
                continue;
            }
            Err(error) => error,
        };
        let (AssembleError::Died { device, .. } | AssembleError::CatchUp { device, .. }) = &error
        else {
            return Err(error.without(died));
        };
        let before = left.len();
        left.retain(|name| name != device);
        if left.is_empty() || left.len() == before {
            return Err(error);
        }
        none_is_newer |= all_heard_of;
        died.push(match &error {
            AssembleError::CatchUp { device, source } => {
                let why = source.to_string();
                AssembleError::Died {
                    device: device.clone(),
                    why,
                }
                .to_string()
            }
            _ => error.to_string(),
        });
    }
}

/// Assembles an array. Sets `all_heard_of` once no missing member can be newer than the present
/// ones.
fn build_of(
    devices: &[&str],
    options: &AssembleOptions,
    change: Option<&Change>,
    goal: Goal,
    none_is_newer: bool,
    all_heard_of: &mut bool,
) -> Result<Build, AssembleError> {
    let Gathered {
        members,
        spares,
        journals,
        refused,
        mut open,
    } = gather(devices, &options.open)?;
    refuse_copies(&journals)?;
    // For nested arrays this is known only once the inner arrays are open.
    *all_heard_of = choose(&members).is_ok_and(|assembly| {
        let is_newer = |geometry| !may_be_newer(&assembly, &geometry).is_empty();
        assembly.array.parent == Uuid::NIL
            && understand(&assembly).is_ok_and(|(geometry, _)| !is_newer(geometry))
    });
    let new = |open: &OpenOptions, look_only, left_out| {
        let options = AssembleOptions {
            open: open.clone(),
            ..options.clone()
        };
        let (mut opening, parts) =
            Opening::begin(&members, &journals, &options, look_only, change)?;
        opening.none_is_newer = none_is_newer;
        opening.left_out = left_out;
        let mut build =
            Build::new(opening, parts).map_err(|error| error.without(refused.clone()))?;
        build.report.refused.extend(refused.iter().cloned());
        Ok::<_, AssembleError>(build)
    };
    let mut left_out = Vec::new();
    if !open.read_only {
        // First open it read-only, so that errors appear before anything is written.
        let reading = OpenOptions {
            read_only: true,
            ..open.clone()
        };
        let look = new(&reading, true, Vec::new())?;
        open.read_only = must_read_only(&look.report);
        *all_heard_of = true;
        if goal == Goal::Look {
            return Ok(look);
        }
        left_out = look.left_out;
    }
    let mut build = new(&open, false, left_out)?;
    // An array opened by force may still get its members back, and with them the last writes.
    let forced = options.force && build.report.is_degraded() && !build.report.is_clean();
    build.provide_spares(spares, options.keep_spares || forced);
    Ok(build)
}

/// Returns the record of the outermost array that some or all of these devices belong to, even if
/// members are missing. Locks and writes nothing.
pub(crate) fn outermost(devices: &[&str]) -> Result<Option<ArrayRecord>, AssembleError> {
    inspect(devices, &OpenOptions::looking(), None, |_, parts, _| {
        Ok(parts.iter().find_map(|part| part.found.array()).cloned())
    })
}

/// Opens the inner arrays on these devices, for inspection by `look`. It gets the parts of the
/// outermost array.
fn inspect<T>(
    devices: &[&str],
    open: &OpenOptions,
    change: Option<&Change>,
    look: impl FnOnce(&mut Opening<'_>, &[Candidate], &Gathered) -> Result<T, AssembleError>,
) -> Result<T, AssembleError> {
    let gathered = gather(devices, open)?;
    let options = AssembleOptions {
        open: gathered.open.clone(),
        force: true,
        degraded: true,
        ..AssembleOptions::default()
    };
    let Gathered {
        members, journals, ..
    } = &gathered;
    let (mut opening, parts) = Opening::begin(members, journals, &options, true, change)?;
    let parts = opening.open_inner(parts)?;
    look(&mut opening, &parts, &gathered)
}

/// Checks `change` against the superblocks only. Writes to no device, so another process may have
/// the array open.
pub(crate) fn may_become(devices: &[&str], change: &Change) -> Result<(), AssembleError> {
    let open = OpenOptions::looking();
    inspect(devices, &open, Some(change), |opening, parts, _| {
        opening.describe(parts).map(drop)
    })
}

/// Describes the array on these devices from its superblocks, whether or not it can be opened.
/// Opens inner arrays for reading to do so. If those lack too many members, returns their reports
/// instead.
pub(crate) fn describe(
    devices: &[&str],
    open: &OpenOptions,
) -> Result<Vec<ArrayReport>, AssembleError> {
    inspect(devices, open, None, describe_parts)
}

fn describe_parts(
    opening: &mut Opening<'_>,
    parts: &[Candidate],
    gathered: &Gathered,
) -> Result<Vec<ArrayReport>, AssembleError> {
    let lost = opening.lost.iter().filter_map(|lost| lost.report.clone());
    let lost: Vec<ArrayReport> = lost.collect();
    if parts.is_empty() && !lost.is_empty() {
        return Ok(lost);
    }
    let described = opening.describe(parts)?;
    let (array, mut report) = (described.assembly.array, described.report);
    report.note_lost(&opening.stack.lost());
    let listed = listed_lost(&mut opening.stack, parts, array.bad_blocks_pages());
    report.lost_bytes += match listed {
        None if array.bad_blocks_listed => report.bytes,
        listed => listed.unwrap_or(0) * u64::from(report.block_bytes),
    };
    let spares = gathered.spares.iter().map(SpareReport::of);
    report.spares.extend(spares);
    report.refused.extend(gathered.refused.iter().cloned());
    Ok(vec![report])
}

/// Counts the lost blocks in the bad-block list of an array that is not open. The list has `count`
/// pages. `None` if a page can't be read from any part.
fn listed_lost(stack: &mut Stack, parts: &[Candidate], count: u32) -> Option<u64> {
    let mut pages = Vec::new();
    for part in parts {
        let Ok((array, device)) = part.found.record() else {
            continue;
        };
        let block_bytes = u64::from(array.block_size.bytes());
        let read = &mut |at: u64, into: &mut [u8]| {
            stack
                .read(part.node, BlockIndex(at / block_bytes), into)
                .is_ok()
        };
        pages.extend(read_pages(array, device, read));
    }
    let is_there = |number| pages.iter().any(|page: &BadPage| page.number == number);
    let runs = lost_runs(&newest(&pages));
    (0..count)
        .all(is_there)
        .then(|| runs.iter().map(|run| run.end.0 - run.start.0).sum())
}

/// Like `assemble`, but allows adding members to the result.
pub(crate) fn put_together(
    devices: &[&str],
    options: &AssembleOptions,
) -> Result<Build, AssembleError> {
    build(devices, options, None, Goal::Use)
}

/// An assembled array in its stack.
pub(crate) struct Build {
    pub(crate) stack: Stack,
    root: NodeId,
    pub(crate) report: ArrayReport,
    /// Inner arrays that can't take part in the outer array in their present state.
    pub(crate) lost: Vec<Lost>,
    /// Arrays that their outer arrays continue without, as found by a read-only opening.
    left_out: Vec<Uuid>,
}

impl Build {
    fn new(mut opening: Opening<'_>, parts: Vec<Candidate>) -> Result<Self, AssembleError> {
        let mut parts = opening.open_inner(parts)?;
        if parts.is_empty() && !opening.lost.is_empty() {
            let lost: Vec<String> = opening.lost.iter().map(|lost| lost.why(&[])).collect();
            return Err(AssembleError::NothingLeft {
                lost: lost.join("; "),
            });
        }
        let root = opening.open(&mut parts).map_err(|error| {
            // Inner arrays do not answer requests that they can't carry out, so the outer error
            // does not show the cause.
            opening
                .stack
                .no_space()
                .map_or(error, AssembleError::NoSpace)
        })?;
        if opening.read_only && !opening.look_only {
            opening.stack.end_look();
        }
        match root {
            Some(Candidate {
                node,
                report: Some(mut report),
                ..
            }) => Ok(Self {
                root: node,
                report: {
                    let journals = opening.journals.iter();
                    let unknown = journals
                        .map(|(name, ..)| format!("{name}: it has the journal of another array"));
                    report.refused.extend(unknown);
                    report
                },
                stack: opening.stack,
                lost: opening.lost.into_iter().chain(opening.outdated).collect(),
                left_out: opening.left_out,
            }),
            _ => Err(ChooseError::NoDevices.into()),
        }
    }

    /// Gives the arrays their spares, which take vacant places at once.
    fn provide_spares(&mut self, spares: Vec<Spare>, keep: bool) {
        let mut useful = Vec::new();
        for spare in spares {
            let name = &spare.name;
            if let Some(why) = self.stack.spare_is_useless(&spare) {
                self.report.refused.push(format!("{name}: {why}"));
                continue;
            }
            self.report.spares.push(SpareReport::of(&spare));
            useful.push(spare);
        }
        if !keep {
            self.stack.provide_spares(useful);
        }
    }

    pub(crate) fn into_assembled(mut self) -> Assembled {
        self.report.taken = self.stack.spares_taken();
        self.stack.let_go_unused();
        Assembled {
            target: self.stack.into_target(self.root),
            report: self.report,
        }
    }
}

/// Closes an array, and adds the spares taken and the incidents to the report.
pub(crate) fn close(
    mut target: Box<dyn Managed>,
    report: &mut ArrayReport,
) -> Result<(), CloseError> {
    report.taken.extend(target.spares_taken());
    report.incidents = target.incidents();
    target.close()
}
