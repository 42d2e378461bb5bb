//! Grows an array that nobody uses: more members, another chunk size, another level. A growth that
//! was stopped goes on where it was.

use crate::assemble::{ArrayReport, AssembleError, AssembleOptions, assemble, assemble_to_grow};
use crate::create::{self, CreateError};
use crate::rebuild::AttachError;
use crate::{CloseError, OpenError, Target, probe, settle};
use spindles_block::{BlockSize, MemberIndex};
use spindles_engine::{Event, GrowthTarget, Member};
use spindles_format::{TooSmall, areas_for};
use spindles_layout::{GeometryError, Layout, Level, chunk_blocks};
use std::collections::VecDeque;
use thiserror::Error;

/// What an array shall become, and how.
#[derive(Clone, Debug, Default)]
pub struct GrowOptions {
    /// How the array is to be assembled.
    pub assemble: AssembleOptions,
    /// The devices that become members.
    pub add: Vec<String>,
    /// The chunk size.
    pub chunk_bytes: Option<u64>,
    /// The level.
    pub level: Option<&'static Level>,
    /// The layout.
    pub layout: Option<Layout>,
    /// Overwrite what the new devices hold.
    pub overwrite: bool,
}

/// How a growth ended.
#[derive(Clone, Debug)]
pub struct Grown {
    /// The array, as it was found.
    pub report: ArrayReport,
    /// What it holds now.
    pub bytes: u64,
    /// Whether it went through; otherwise `progress` stopped it, and it goes on there next time.
    pub through: bool,
    /// The block of the array that can't be moved, where there is one.
    pub stuck: Option<u64>,
    /// What the new devices held that was overwritten.
    pub wiped: Vec<(String, String)>,
}

/// Why an array did not grow.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GrowError {
    /// There is no array, or it can't grow that way.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The array could not be closed.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// A new device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A new device can't be taken.
    #[error(transparent)]
    Device(#[from] CreateError),
    /// A new device can't take its place.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// A device is given twice.
    #[error("{first} and {second} are the same device: give another one to add")]
    Same {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
    /// A new device is too small to be a member at all.
    #[error("{device} is too small: it has {} bytes, and a member needs at least {}", small.device_bytes, small.needed_bytes)]
    TooSmall {
        /// The device.
        device: String,
        /// How much.
        small: TooSmall,
    },
    /// There is no such chunk.
    #[error("--chunk: {0}")]
    Chunk(GeometryError),
    /// Nothing is under way, and nothing was asked for.
    #[error(
        "array '{array}' is not growing: say what it shall become with --add, --chunk or --level"
    )]
    NothingToDo {
        /// The array.
        array: String,
    },
    /// It grows already, to something.
    #[error(
        "array '{array}' grows already: let that come to its end first, with spindles grow and its devices; --add gives those that have not taken their places yet"
    )]
    Growing {
        /// The array.
        array: String,
    },
    /// More devices than positions that wait for one.
    #[error("array '{array}' grows already, and no position waits for {device}")]
    NoPosition {
        /// The array.
        array: String,
        /// The device.
        device: String,
    },
    /// A member failed before anything was moved.
    #[error(
        "array '{array}': member {member} failed before anything was moved; put another device in its place with spindles grow --add"
    )]
    Out {
        /// The array.
        array: String,
        /// The position.
        member: MemberIndex,
    },
    /// Too much is missing.
    #[error(
        "array '{array}' lost more members than it survives while it grew; what was moved and what was not is known, and it goes on when they are back"
    )]
    Failed {
        /// The array.
        array: String,
    },
}

/// Assembles an array and lets it become what `options` say, or goes on with that. `progress` is
/// told how many bytes are moved and how many there are; with `false` it stops the growth.
///
/// # Errors
///
/// Before the first new device is attached, nothing was written to any of them.
pub fn grow(
    devices: &[&str],
    options: &GrowOptions,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Grown, GrowError> {
    let added: Vec<&str> = options.add.iter().map(String::as_str).collect();
    let all: Vec<&str> = devices
        .iter()
        .copied()
        .chain(added.iter().copied())
        .collect();
    if let Some((first, second)) = probe::same_device(&all)
        && second >= devices.len()
    {
        let name = |at: usize| all[at].to_owned();
        return Err(GrowError::Same {
            first: name(first),
            second: name(second),
        });
    }
    let mut wiped = Vec::new();
    for device in &added {
        wiped.extend(create::may_overwrite(device, options.overwrite)?);
    }
    // First for reading only, so that what can go wrong does so before anything is written.
    let mut assembling = options.assemble.clone();
    assembling.open.read_only = true;
    let report = assemble(devices, &assembling)?.report;
    let array = report.name.clone();
    let changes =
        options.chunk_bytes.is_some() || options.level.is_some() || options.layout.is_some();
    let growing = report.growing.is_some();
    if growing && changes {
        return Err(GrowError::Growing { array });
    }
    if !growing && !changes && added.is_empty() {
        return Err(GrowError::NothingToDo { array });
    }
    assembling.open.read_only = options.assemble.open.read_only;
    if !growing {
        let target = target(&report, options)?;
        // Whether that is possible, before it is put in order for it.
        let mut planning = assembling.clone();
        planning.open.read_only = true;
        drop(assemble_to_grow(devices, &planning, &target)?);
        if !report.is_clean() || report.is_degraded() {
            let mut found = assemble(devices, &assembling)?.target;
            let through = settle(found.as_mut(), progress);
            found.close()?;
            if !through {
                return Ok(Grown {
                    bytes: report.bytes,
                    report,
                    through,
                    stuck: None,
                    wiped: Vec::new(),
                });
            }
        }
        let found = assemble_to_grow(devices, &assembling, &target)?.target;
        return carry_on(found, report, added.into(), wiped, progress);
    }
    let found = assemble(devices, &assembling)?.target;
    carry_on(found, report, added.into(), wiped, progress)
}

/// What the array is to become.
fn target(report: &ArrayReport, options: &GrowOptions) -> Result<GrowthTarget, GrowError> {
    let block_size = BlockSize::from_bytes(report.block_bytes).expect("it is that of an array");
    let mut added = Vec::new();
    for (at, device) in (report.members.len()..).zip(&options.add) {
        let bytes = probe::Probe::open(device)?.bytes;
        let member = MemberIndex(u8::try_from(at).unwrap_or(u8::MAX));
        let areas = areas_for(bytes, block_size, member).map_err(|small| GrowError::TooSmall {
            device: device.clone(),
            small,
        })?;
        added.push((create::new_uuid()?, areas));
    }
    let chunk = options.chunk_bytes;
    Ok(GrowthTarget {
        level: options.level,
        layout: options.layout,
        chunk_blocks: chunk
            .map(|bytes| chunk_blocks(bytes, block_size))
            .transpose()
            .map_err(GrowError::Chunk)?,
        added,
    })
}

/// Attaches what waits for its place, and works until all is moved.
fn carry_on(
    mut target: Box<dyn Target>,
    report: ArrayReport,
    mut waiting: VecDeque<&str>,
    wiped: Vec<(String, String)>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Grown, GrowError> {
    let array = || report.name.clone();
    let (mut through, mut stuck, mut error) = (false, None, None);
    let mut bytes = report.bytes;
    let old_members = (report.growing.as_ref()).map_or(report.members.len(), |it| it.members);
    loop {
        let status = target.status().expect("it is an array");
        let Some(growth) = status.growth else {
            through = true;
            break;
        };
        let filling = target.rebuild_progress().is_some();
        let place = status.members.iter().skip(old_members).find(|member| {
            matches!(member.state, Member::Missing { .. }) && growth.done_bytes == 0
        });
        match (waiting.front(), place) {
            (Some(device), Some(place)) if !filling => {
                if let Err(why) = target.attach(device, Some(place.member)) {
                    error = Some(why.into());
                    break;
                }
                waiting.pop_front();
            }
            (None, Some(place)) if !filling => {
                error = Some(GrowError::Out {
                    array: array(),
                    member: place.member,
                });
                break;
            }
            (Some(device), None) if !filling => {
                error = Some(GrowError::NoPosition {
                    array: array(),
                    device: (*device).to_owned(),
                });
                break;
            }
            _ => {}
        }
        if !progress(growth.done_bytes, growth.total_bytes) {
            break;
        }
        let works = target.work();
        while let Some((_, event)) = target.next_event() {
            match event {
                Event::Grown { blocks } => bytes = blocks * u64::from(report.block_bytes),
                Event::GrowthStuck { block } => stuck = Some(block.0),
                Event::ArrayFailed { .. } => error = Some(GrowError::Failed { array: array() }),
                _ => {}
            }
        }
        if !works || stuck.is_some() || error.is_some() {
            break;
        }
    }
    while let Some((_, event)) = target.next_event() {
        if let Event::Grown { blocks } = event {
            bytes = blocks * u64::from(report.block_bytes);
        }
    }
    let closed = target.close();
    if let Some(error) = error {
        return Err(error);
    }
    closed?;
    Ok(Grown {
        report,
        bytes,
        through,
        stuck,
        wiped,
    })
}
