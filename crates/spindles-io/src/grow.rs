//! Grows an array that nobody uses: more members, another chunk size, another level. A growth that
//! was stopped goes on where it was.

use crate::assemble::{ArrayReport, AssembleOptions, Change, assemble, assemble_to_change};
use crate::attach::{self, ChangeError};
use crate::{OpenOptions, Target, create, probe, settle};
use spindles_block::{BlockSize, MemberIndex};
use spindles_engine::{Event, GrowthTarget, Member};
use spindles_format::areas_for;
use spindles_layout::{Layout, Level, chunk_blocks};
use std::collections::VecDeque;

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
) -> Result<Grown, ChangeError> {
    let added: Vec<&str> = options.add.iter().map(String::as_str).collect();
    attach::look_at_newcomers(devices, &added)?;
    let wiped = attach::may_overwrite(&added, options.overwrite)?;
    // First for reading only, so that what can go wrong does so before anything is written.
    let mut assembling = options.assemble.clone();
    assembling.open.read_only = true;
    let report = assemble(devices, &assembling)?.report;
    let array = report.name.clone();
    let changes =
        options.chunk_bytes.is_some() || options.level.is_some() || options.layout.is_some();
    let growing = report.growing.is_some();
    if growing && changes {
        return Err(ChangeError::Growing { array });
    }
    if !growing && !changes && added.is_empty() {
        return Err(ChangeError::NothingToGrow { array });
    }
    assembling.open.read_only = options.assemble.open.read_only;
    if !growing {
        let change = Change::Grow(target(&report, options)?);
        // Whether that is possible, before it is put in order for it.
        let mut planning = assembling.clone();
        planning.open.read_only = true;
        drop(assemble_to_change(devices, &planning, &change)?);
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
        let found = assemble_to_change(devices, &assembling, &change)?.target;
        return carry_on(found, report, added.into(), wiped, progress);
    }
    let found = assemble(devices, &assembling)?.target;
    carry_on(found, report, added.into(), wiped, progress)
}

/// Assembles an array that was closed in order and begins to grow it by a device, whatever is on that; who
/// works with the target carries that on.
///
/// # Errors
///
/// As `grow`.
pub fn begin(
    devices: &[&str],
    added: &str,
    open: &OpenOptions,
) -> Result<Box<dyn Target>, ChangeError> {
    let mut options = GrowOptions {
        add: vec![added.to_owned()],
        ..GrowOptions::default()
    };
    options.assemble.open = OpenOptions {
        read_only: true,
        ..open.clone()
    };
    let report = assemble(devices, &options.assemble)?.report;
    let change = Change::Grow(target(&report, &options)?);
    options.assemble.open = open.clone();
    let mut found = assemble_to_change(devices, &options.assemble, &change)?.target;
    found.attach(added, None)?;
    Ok(found)
}

/// What the array is to become.
fn target(report: &ArrayReport, options: &GrowOptions) -> Result<GrowthTarget, ChangeError> {
    let block_size = BlockSize::from_bytes(report.block_bytes).expect("it is that of an array");
    let mut added = Vec::new();
    for (at, device) in (report.members.len()..).zip(&options.add) {
        let bytes = probe::Probe::open(device)?.bytes;
        let member = MemberIndex(u8::try_from(at).unwrap_or(u8::MAX));
        areas_for(bytes, block_size, member).map_err(|small| ChangeError::TooSmall {
            device: device.clone(),
            small,
        })?;
        added.push((create::new_uuid()?, bytes));
    }
    let chunk = options.chunk_bytes;
    Ok(GrowthTarget {
        level: options.level,
        layout: options.layout,
        chunk_blocks: chunk
            .map(|bytes| chunk_blocks(bytes, block_size))
            .transpose()
            .map_err(ChangeError::Chunk)?,
        added,
    })
}

/// Attaches what waits for its place, and works until all is moved.
fn carry_on(
    mut target: Box<dyn Target>,
    mut report: ArrayReport,
    mut waiting: VecDeque<&str>,
    wiped: Vec<(String, String)>,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Grown, ChangeError> {
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
                error = Some(ChangeError::GrowthOut {
                    array: array(),
                    member: place.member,
                });
                break;
            }
            (Some(device), None) if !filling => {
                error = Some(ChangeError::NoPosition {
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
                Event::ArrayFailed { .. } => {
                    error = Some(ChangeError::GrowthFailed { array: array() });
                }
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
    let closed = attach::close(target, &mut report);
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
