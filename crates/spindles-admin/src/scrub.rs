//! Scrubs an array: opens it, reads all blocks, reports each faulty place, and closes the array.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, MemberReport};
use crate::host::{Host, Opened, Served};
use crate::plain::{self, PlainError, PlainOptions};
use spindles_array::Managed;
use spindles_array::labels;
pub use spindles_array::progress::ScrubProgress;
use spindles_array::spare_report::SpareReport;
use spindles_block::MemberIndex;
use spindles_device::CloseError;
use spindles_device::probe::Probe;
use spindles_engine::{CommandError, Event, Fate, Flaw, JOURNAL_DEVICE, Repair, Scrub};
use spindles_format::{DecodeError, SLOT_BYTES, SpareRecord};
use spindles_layout::Expression;
use std::collections::VecDeque;
use thiserror::Error;

/// Findings that may still be merged with neighbours.
const OPEN_MAX: usize = 64;

/// A finding of a scrub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A faulty place of a member.
    Place {
        /// The array.
        array: String,
        /// The device, or the array inside it.
        member: String,
        /// Its start on the member, in bytes.
        offset_bytes: u64,
        /// Its length.
        bytes: u64,
        /// Its offset in the array, in bytes. `Some` only for lost data.
        array_offset_bytes: Option<u64>,
        /// The fault.
        flaw: Flaw,
        /// The outcome.
        fate: Fate,
    },
    /// A faulty place in the metadata of a member.
    Metadata {
        /// The array.
        array: String,
        /// The device, or the array inside it.
        member: String,
        /// The metadata area, such as `superblock` or `checksums`.
        area: &'static str,
        /// Its start on the member, in bytes.
        offset_bytes: u64,
        /// Its length.
        bytes: u64,
        /// The fault.
        flaw: Flaw,
        /// The outcome.
        fate: Fate,
    },
    /// Copies disagree, or data and parity do, and none is known to be wrong.
    Disagreement {
        /// The array.
        array: String,
        /// Its start in the array, in bytes: in the first chunk of the stripe.
        offset_bytes: u64,
        /// Its length in each chunk.
        bytes: u64,
        /// Number of chunks of the array in the stripe.
        chunks: u8,
        /// Length of a chunk.
        chunk_bytes: u64,
        /// True if they were made to agree with the data.
        made_to_agree: bool,
    },
    /// Lost bytes of the array, which no member can provide.
    Lost {
        /// The array.
        array: String,
        /// Their start in the array.
        offset_bytes: u64,
        /// Their number.
        bytes: u64,
    },
    /// A member went out during the scrub.
    Out {
        /// The array.
        array: String,
        /// The device, or the array inside it.
        member: String,
    },
    /// The scrub begins where an earlier one was stopped, and does not read what lies before.
    Resumed {
        /// The array.
        array: String,
        /// Its start in the array.
        offset_bytes: u64,
        /// The size of the array.
        array_bytes: u64,
    },
}

/// The result of a scrub.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// The array as assembled; only `lost_bytes` is updated to what is still lost after the scrub.
    /// An array in a server as it is after the scrub, which may have repaired superblocks.
    pub report: ArrayReport,
    /// True if it finished. Otherwise `progress` stopped it, and the next scrub continues there.
    pub through: bool,
    /// Its progress and its findings.
    pub progress: ScrubProgress,
}

/// Why a scrub failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScrubError {
    /// The array could not be assembled.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The plain array could not be opened.
    #[error(transparent)]
    Plain(#[from] PlainError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// The array has nothing to compare.
    #[error(
        "array '{array}' keeps no redundancy ({level}): there is nothing to compare its data with"
    )]
    NoRedundancy {
        /// The array.
        array: String,
        /// Its level.
        level: &'static str,
    },
    /// The array refused the command.
    #[error("array '{array}' can't be scrubbed: {reason}")]
    Refused {
        /// The array.
        array: String,
        /// The engine's answer.
        reason: CommandError,
    },
}

/// Assembles an array and scrubs it and the arrays inside it.
///
/// `report_finding` gets each finding; neighbouring ones are merged. `progress` gets the bytes done
/// and the total bytes; it returns `false` to stop the scrub. An array that can't be assembled is
/// left unwritten.
pub fn scrub<'a>(
    host: impl Into<Host<'a>>,
    options: &AssembleOptions,
    scrub: Scrub,
    report_finding: &mut dyn FnMut(&Finding),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Scrubbed, ScrubError> {
    let host = host.into();
    let served = match host {
        Host::Served(served) => Some(served),
        Host::Devices(_) => None,
    };
    scrub_open(host.open(options)?, served, scrub, report_finding, progress)
}

/// Reads a plain array, and those inside it, like `scrub`. Changes nothing, as nothing on the
/// devices says which member is right.
///
/// # Errors
///
/// An array that can't be opened.
pub fn scrub_plain(
    expression: &Expression,
    options: &PlainOptions,
    report_finding: &mut dyn FnMut(&Finding),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Scrubbed, ScrubError> {
    let opened = plain::open(expression, options)?.into();
    let scrub = Scrub {
        anew: true,
        repair: Repair::Nothing,
    };
    scrub_open(opened, None, scrub, report_finding, progress)
}

/// Scrubs an open array, and closes it unless it is `served`.
fn scrub_open(
    opened: Opened,
    served: Option<&dyn Served>,
    scrub: Scrub,
    report_finding: &mut dyn FnMut(&Finding),
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Scrubbed, ScrubError> {
    let Opened {
        mut target,
        mut report,
        before,
    } = opened;
    begin(target.as_mut(), &report, scrub)?;
    let mut reporter = Reporter {
        report_finding,
        open: VecDeque::new(),
        repaired_for_others_blocks: 0,
    };
    let (mut state, through) = run(target.as_mut(), &report, scrub, &mut reporter, progress)?;
    let repairs = scrub.repair != Repair::Nothing;
    for finding in through
        .then(|| spares(&report.name, &target.spares(), repairs))
        .into_iter()
        .flatten()
    {
        let block_bytes = u64::from(report.block_bytes);
        if let Finding::Metadata { bytes, fate, .. } = &finding {
            *match fate {
                Fate::Repaired => &mut state.found.metadata_repaired_blocks,
                Fate::Left | Fate::Refused => &mut state.found.metadata_left_blocks,
            } += bytes / block_bytes;
        }
        (reporter.report_finding)(&finding);
    }
    // An inner array repairs places that the scrub of an outer one reads.
    state.found.repaired_blocks += reporter.repaired_for_others_blocks;
    reporter.report_open();
    if let Some(served) = served {
        report = Opened::served(served).report;
    }
    let lost = target.lost();
    report.note_lost(&lost);
    for lost in lost {
        (reporter.report_finding)(&Finding::Lost {
            bytes: lost.count(),
            offset_bytes: lost.bytes.start,
            array: lost.array,
        });
    }
    let closing = Opened {
        target,
        report,
        before,
    };
    let report = closing.close()?;
    Ok(Scrubbed {
        report,
        through,
        progress: state,
    })
}

/// Begins the scrub of an array.
fn begin(target: &mut dyn Managed, report: &ArrayReport, scrub: Scrub) -> Result<(), ScrubError> {
    target.begin_scrub(scrub).map_err(|reason| {
        let array = report.name.clone();
        let level = report.level.name;
        match reason {
            CommandError::NoRedundancy => ScrubError::NoRedundancy { array, level },
            reason => ScrubError::Refused { array, reason },
        }
    })
}

/// Works until the scrub of an array and of those inside it ends; returns its progress, and true
/// if it finished.
fn run(
    target: &mut dyn Managed,
    report: &ArrayReport,
    scrub: Scrub,
    reporter: &mut Reporter<'_>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(ScrubProgress, bool), ScrubError> {
    let (mut through, mut below, mut wanted) = (true, false, true);
    let mut failed = 0;
    let mut state = loop {
        // Read this before the events: all events of a finished scrub are then in the queue.
        let state = target.scrub_progress();
        let stopped = reporter.take_events(target, report);
        if stopped > 0 && wanted {
            // The array has failed.
            through = false;
            failed += stopped;
        }
        if target.has_ended() {
            through = false;
            break state;
        }
        if !state.going {
            if !through || below {
                break state;
            }
            below = true;
            let begun = target.begin_scrub_below(scrub);
            let array = || report.name.clone();
            if !begun.map_err(|reason| ScrubError::Refused {
                array: array(),
                reason,
            })? {
                break state;
            }
            continue;
        }
        if !progress(state.done_bytes, state.total_bytes) && wanted {
            (wanted, through) = (false, false);
            target.stop_job("scrub");
        }
        if !target.work() {
            // The array waits for something that will not come.
            through = false;
            break target.scrub_progress();
        }
    };
    state.failed += failed;
    Ok((state, through))
}

/// The findings of a scrub on their way to the caller.
struct Reporter<'a> {
    report_finding: &'a mut dyn FnMut(&Finding),
    /// Findings that may still be merged with neighbours.
    open: VecDeque<Finding>,
    /// Blocks that inner arrays repaired in reads of the arrays around them.
    repaired_for_others_blocks: u64,
}

impl Reporter<'_> {
    /// Takes the pending events of an array; returns the number of scrubs that stopped.
    fn take_events(&mut self, target: &mut dyn Managed, report: &ArrayReport) -> u64 {
        let mut stopped = 0;
        while let Some((name, event)) = target.next_event() {
            if let Event::Found(found) = event
                && !found.by_scrub
                && found.fate == Fate::Repaired
            {
                self.repaired_for_others_blocks += u64::from(found.blocks);
            }
            if let Event::ScrubStopped(_) = event {
                stopped += 1;
            }
            if let Some(resumed) = resumed(report, &name, &event) {
                (self.report_finding)(&resumed);
            }
            for finding in findings(target, report, &name, &event) {
                join(&mut self.open, finding, self.report_finding);
            }
        }
        stopped
    }

    /// Reports the findings that may still be merged with neighbours, ordered by their place.
    fn report_open(&mut self) {
        let open = self.open.make_contiguous();
        open.sort_by(|one, other| one.place().cmp(&other.place()));
        open.iter().for_each(&mut *self.report_finding);
    }
}

/// The metadata area of a spare device.
pub const SPARE_LABEL: &str = "label of a spare";
/// Its length in bytes.
pub const SPARE_LABEL_BYTES: u64 = 4096;

/// Reads the labels of spares, and rewrites damaged ones. A device without a label is only
/// reported, since another program may have taken it.
fn spares(array: &str, spares: &[SpareReport], repairs: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for spare in spares {
        let Some(probe) = Probe::glance(&spare.name) else {
            continue;
        };
        let found = probe.found();
        if found.spare().is_some() || found.record().is_ok() {
            continue; // It may have taken a place meanwhile.
        }
        let label = probe.slot(SLOT_BYTES[0]);
        let (flaw, is_ours) = match label.as_ref().map(|bytes| SpareRecord::decode(bytes)) {
            Ok(Err(DecodeError::Checksum { .. })) => (Flaw::Rotten, true),
            Ok(_) => (Flaw::Rotten, false),
            Err(_) => (Flaw::Unreadable, true),
        };
        let repaired = repairs && is_ours && labels::repair(&spare.name, &spare.record).is_ok();
        findings.push(Finding::Metadata {
            array: array.to_owned(),
            member: spare.name.clone(),
            area: SPARE_LABEL,
            offset_bytes: SLOT_BYTES[0],
            bytes: SPARE_LABEL_BYTES,
            flaw,
            fate: if repaired { Fate::Repaired } else { Fate::Left },
        });
    }
    findings
}

/// Merges `next` with adjacent findings. A scrub reads several places at once and finishes them in
/// any order, so the last few findings stay in `open`. When `open` is full, the oldest finding is
/// reported.
fn join(open: &mut VecDeque<Finding>, mut next: Finding, report_finding: &mut dyn FnMut(&Finding)) {
    let neighbours = |(at, finding): (usize, &Finding), next: &Finding| {
        let joined = finding
            .followed_by(next)
            .or_else(|| next.followed_by(finding));
        Some((at, joined?))
    };
    while let Some((at, joined)) =
        (open.iter().enumerate()).find_map(|finding| neighbours(finding, &next))
    {
        open.remove(at);
        next = joined;
    }
    open.push_back(next);
    if open.len() > OPEN_MAX
        && let Some(oldest) = open.pop_front()
    {
        report_finding(&oldest);
    }
}

impl Finding {
    /// Returns the offset and the length of a finding that may be merged with its neighbours.
    fn stretch(&mut self) -> Option<(&mut u64, &mut u64)> {
        match self {
            Self::Place {
                offset_bytes,
                bytes,
                ..
            }
            | Self::Metadata {
                offset_bytes,
                bytes,
                ..
            }
            | Self::Disagreement {
                offset_bytes,
                bytes,
                ..
            } => Some((offset_bytes, bytes)),
            Self::Lost { .. } | Self::Out { .. } | Self::Resumed { .. } => None,
        }
    }

    /// Merges both if `next` begins where this ends and is otherwise equal.
    fn followed_by(&self, next: &Self) -> Option<Self> {
        let (mut expected, mut joined) = (self.clone(), self.clone());
        let more = *next.clone().stretch()?.1;
        *joined.stretch()?.1 += more;
        let (offset_bytes, bytes) = expected.stretch()?;
        let own = std::mem::replace(bytes, more);
        *offset_bytes += own;
        if let Self::Place {
            array_offset_bytes: Some(offset_bytes),
            ..
        } = &mut expected
        {
            *offset_bytes += own;
        }
        (expected == *next).then_some(joined)
    }

    /// Returns the array, the member and the offset.
    fn place(&self) -> (&str, &str, u64) {
        match self {
            Self::Place {
                array,
                member,
                offset_bytes,
                ..
            }
            | Self::Metadata {
                array,
                member,
                offset_bytes,
                ..
            } => (array, member, *offset_bytes),
            Self::Disagreement {
                array,
                offset_bytes,
                ..
            }
            | Self::Lost {
                array,
                offset_bytes,
                ..
            }
            | Self::Resumed {
                array,
                offset_bytes,
                ..
            } => (array, "", *offset_bytes),
            Self::Out { array, member } => (array, member, 0),
        }
    }
}

/// Returns the start of a scrub that does not begin at the start of the array with that name.
fn resumed(report: &ArrayReport, name: &str, event: &Event) -> Option<Finding> {
    let array = report.find(name)?;
    match event {
        Event::ScrubStarted { from } if from.0 > 0 => Some(Finding::Resumed {
            array: array.name.clone(),
            offset_bytes: from.0 * u64::from(array.block_bytes),
            array_bytes: array.bytes,
        }),
        _ => None,
    }
}

/// Returns the findings for an event in the array with that name.
fn findings(target: &dyn Managed, report: &ArrayReport, name: &str, event: &Event) -> Vec<Finding> {
    let Some(array) = report.find(name) else {
        return Vec::new();
    };
    let block_bytes = u64::from(array.block_bytes);
    let finding = match *event {
        // The scrub, or the outer array whose read found it, reports this place too.
        Event::Found(found) if !found.by_scrub && found.fate != Fate::Repaired => {
            return Vec::new();
        }
        Event::Found(found) => return places(target, report, array, &found),
        Event::MetadataFound(found) => Finding::Metadata {
            array: array.name.clone(),
            member: match found.member {
                JOURNAL_DEVICE => "the device of its journal".to_owned(),
                member => member_name(array, member),
            },
            area: found.area.name(),
            offset_bytes: found.block.0 * block_bytes,
            bytes: u64::from(found.blocks) * block_bytes,
            flaw: found.flaw,
            fate: found.fate,
        },
        Event::Disagreement {
            block,
            blocks,
            chunks,
            chunk_blocks,
            made_to_agree,
        } => Finding::Disagreement {
            array: array.name.clone(),
            offset_bytes: block.0 * block_bytes,
            bytes: u64::from(blocks) * block_bytes,
            chunks,
            chunk_bytes: u64::from(chunk_blocks) * block_bytes,
            made_to_agree,
        },
        Event::MemberOut { member, .. } => Finding::Out {
            array: array.name.clone(),
            member: member_name(array, member),
        },
        _ => return Vec::new(),
    };
    vec![finding]
}

/// Resolves a faulty place through inner arrays without redundancy; returns a finding for each
/// contiguous part of it.
fn places(
    target: &dyn Managed,
    report: &ArrayReport,
    array: &ArrayReport,
    found: &spindles_engine::Finding,
) -> Vec<Finding> {
    let block_bytes = u64::from(array.block_bytes);
    let mut places = Vec::new();
    let mut done = 0;
    while done < found.blocks {
        let block = found.block.plus(u64::from(done));
        let below = target.lowest_place(&array.name, found.member, block);
        let below = below.and_then(|(below, member, block, blocks)| {
            Some((member_name(report.find(&below)?, member), block, blocks))
        });
        let here = || (member_name(array, found.member), block, u32::MAX);
        let (member, block, blocks) = below.unwrap_or_else(here);
        let blocks = blocks.min(found.blocks - done);
        places.push(Finding::Place {
            array: array.name.clone(),
            member,
            offset_bytes: block.0 * block_bytes,
            bytes: u64::from(blocks) * block_bytes,
            array_offset_bytes: (found.array_block)
                .filter(|_| found.fate == Fate::Left)
                .map(|block| (block.0 + u64::from(done)) * block_bytes),
            flaw: found.flaw,
            fate: found.fate,
        });
        done += blocks;
    }
    places
}

/// Names a member for messages.
fn member_name(array: &ArrayReport, member: MemberIndex) -> String {
    match &array.members[usize::from(member.0)] {
        MemberReport::Device { name, .. } => name.clone(),
        MemberReport::Array(inner) => format!("array '{}'", inner.name),
        MemberReport::Missing { .. } => format!("member {member}"),
    }
}
