//! Describes errors of the devices of arrays while these were open.

use spindles_block::{MemberError, SizeBytes};
use spindles_engine::{Member, MemberFaults, MemberStatus, OutReason};
use std::fmt;

/// The errors of one device since its array was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incident {
    /// Errors of a member.
    Member {
        /// The array.
        array: String,
        /// The device; `None` if the member is an array or missing.
        device: Option<String>,
        /// Its state now, and its errors.
        status: MemberStatus,
        /// The length of a block of the array.
        block_bytes: u32,
    },
    /// A write found no space where a member lies; the member stays in the array.
    NoSpace {
        /// The array.
        array: String,
        /// The device.
        device: String,
        /// True if the array is open read-only, and the memory for its writes is full.
        in_memory: bool,
    },
    /// The journal device of an array failed.
    JournalDevice {
        /// The array.
        array: String,
        /// The device.
        device: String,
    },
}

/// A change in whether writes get space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceChange {
    /// Writes get no space where these devices lie. They wait, and fail after a while.
    Lacking(Vec<String>),
    /// Writes get space again.
    Back,
}

impl Incident {
    /// Describes a member on that device; `None` if it had no errors.
    pub fn of_member(
        array: &str,
        device: Option<String>,
        status: MemberStatus,
        block_bytes: u32,
    ) -> Option<Self> {
        (!parts(&status, block_bytes).is_empty()).then(|| Self::Member {
            array: array.to_owned(),
            device,
            status,
            block_bytes,
        })
    }

    /// Returns true if a member held wrong bytes.
    #[must_use]
    pub fn is_rot(&self) -> bool {
        matches!(self, Self::Member { status, .. } if status.faults.rotten_blocks > 0)
    }

    /// Returns the bytes of a replacement device that could not be filled.
    #[must_use]
    pub fn unfilled_bytes(&self) -> u64 {
        match self {
            Self::Member {
                status,
                block_bytes,
                ..
            } => status.faults.unfilled_blocks * u64::from(*block_bytes),
            Self::NoSpace { .. } | Self::JournalDevice { .. } => 0,
        }
    }

    /// Returns true if the array lost a device or bytes on it, at least for a while. Slowness alone
    /// is no loss.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Member { status, .. } => {
                let out = matches!(status.state, Member::Missing { .. });
                out || status.faults.rotten_blocks > 0 || status.faults.read_errors > 0
            }
            Self::NoSpace { .. } | Self::JournalDevice { .. } => true,
        }
    }

    /// Returns the device, if it lies where space ran out.
    fn without_space(&self) -> Option<&str> {
        match self {
            Self::Member { device, status, .. } if is_out_of_space(status) => device.as_deref(),
            Self::NoSpace {
                device,
                in_memory: false,
                ..
            } => Some(device),
            Self::Member { .. } | Self::NoSpace { .. } | Self::JournalDevice { .. } => None,
        }
    }

    /// Returns what went wrong since `earlier`, incidents of the same arrays. `None` if nothing new
    /// did. A lack of space is reported again while it lasts.
    #[must_use]
    pub fn since(self, earlier: &[Self]) -> Option<Self> {
        let Self::Member {
            array,
            device,
            status,
            block_bytes,
        } = &self
        else {
            let is_old = matches!(self, Self::JournalDevice { .. }) && earlier.contains(&self);
            return (!is_old).then_some(self);
        };
        let before = earlier.iter().find_map(|earlier| match earlier {
            Self::Member {
                array: of,
                device: on,
                status: before,
                ..
            } if of == array && on == device && before.member == status.member => Some(before),
            _ => None,
        });
        let Some(before) = before else {
            return Some(self);
        };
        // If a count fell, the array was opened again.
        let Some(met) = met_since(status, before) else {
            return Some(self);
        };
        let is_quiet = met.faults == MemberFaults::default() && met.hedged_reads == 0;
        let is_same = (met.state, met.slow) == (before.state, before.slow);
        if is_quiet && is_same && !is_out_of_space(&met) {
            return None;
        }
        Self::of_member(array, device.clone(), met, *block_bytes)
    }

    /// Counts rot once that was read several times, after parts of the array were read again
    /// following each of `earlier`. The result is the highest count of a single reading, a lower
    /// bound.
    pub fn count_rot_once(&mut self, earlier: &[Vec<Self>]) {
        let Self::Member { array, status, .. } = self else {
            return;
        };
        let rotten_blocks = |incident: &Self| match incident {
            Self::Member {
                array: of,
                status: earlier,
                ..
            } if of == array && earlier.member == status.member => {
                Some(earlier.faults.rotten_blocks)
            }
            Self::Member { .. } | Self::NoSpace { .. } | Self::JournalDevice { .. } => None,
        };
        let earlier = earlier
            .iter()
            .map(|incidents| incidents.iter().find_map(rotten_blocks).unwrap_or(0));
        let (mut before, mut most) = (0, 0);
        for until in earlier.chain([status.faults.rotten_blocks]) {
            // If the count fell, another device has the place.
            let Some(met) = until.checked_sub(before) else {
                return;
            };
            most = met.max(most);
            before = until;
        }
        status.faults.rotten_blocks = most;
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member {
                array,
                device,
                status,
                block_bytes,
            } => {
                let member = status.member;
                match device {
                    Some(device) => write!(f, "array '{array}': {device}, member {member}")?,
                    None => write!(f, "array '{array}': member {member}")?,
                }
                write!(f, ": {}", parts(status, *block_bytes).join("; "))
            }
            Self::NoSpace {
                array,
                device,
                in_memory: true,
            } => write!(f, "array '{array}': {device}: {MEMORY_IS_FULL}"),
            Self::NoSpace { array, device, .. } => write!(
                f,
                "array '{array}': {device}: no space is left where it lies: free some, and do it \
                 again"
            ),
            Self::JournalDevice { array, device } => write!(
                f,
                "array '{array}': {device}, its device for the journal, failed: the members log \
                 from now on"
            ),
        }
    }
}

/// Returns the state of a member with only the errors since `before`; `None` if a count fell.
fn met_since(now: &MemberStatus, before: &MemberStatus) -> Option<MemberStatus> {
    let (faults, old) = (now.faults, before.faults);
    Some(MemberStatus {
        faults: MemberFaults {
            read_errors: faults.read_errors.checked_sub(old.read_errors)?,
            repaired_blocks: faults.repaired_blocks.checked_sub(old.repaired_blocks)?,
            rotten_blocks: faults.rotten_blocks.checked_sub(old.rotten_blocks)?,
            unfilled_blocks: faults.unfilled_blocks.checked_sub(old.unfilled_blocks)?,
            bad_blocks: 0,
        },
        hedged_reads: now.hedged_reads.checked_sub(before.hedged_reads)?,
        ..*now
    })
}

/// The lack of memory in an array that is open read-only, with the remedy.
const MEMORY_IS_FULL: &str = "an array that is open read-only keeps its writes in memory, and that \
                              memory is full: open the array for writing";

/// Describes a lack of space among the incidents, with a remedy; `None` if there is none.
#[must_use]
pub fn no_space(incidents: &[Incident]) -> Option<String> {
    let is_in_memory = |incident: &Incident| {
        matches!(
            incident,
            Incident::NoSpace {
                in_memory: true,
                ..
            }
        )
    };
    if incidents.iter().any(is_in_memory) {
        return Some(MEMORY_IS_FULL.to_owned());
    }
    let devices: Vec<&str> = incidents
        .iter()
        .filter_map(Incident::without_space)
        .collect();
    let s = if devices.len() == 1 { "s" } else { "" };
    (!devices.is_empty()).then(|| {
        let devices = devices.join(", ");
        format!("no space is left where {devices} lie{s}: free some, and do it again")
    })
}

/// Returns true if a member is out for lack of space.
pub(crate) fn is_out_of_space(status: &MemberStatus) -> bool {
    let reason = Some(OutReason::Error(MemberError::NoSpace));
    status.state == Member::Missing { reason }
}

/// Describes each kind of error of a member.
fn parts(status: &MemberStatus, block_bytes: u32) -> Vec<String> {
    let faults = &status.faults;
    let bytes = |blocks: u64| SizeBytes(blocks * u64::from(block_bytes)).rounded();
    let mut parts = Vec::new();
    if let Member::Missing {
        reason: Some(reason),
    } = status.state
    {
        parts.push(format!("out of the array, {}", why_out(reason)));
    }
    if faults.rotten_blocks > 0 {
        let bytes = bytes(faults.rotten_blocks);
        parts.push(format!("{bytes} found rotten"));
    }
    if faults.read_errors > 0 {
        let s = if faults.read_errors == 1 { "" } else { "s" };
        parts.push(format!("{} read{s} failed", faults.read_errors));
    }
    if faults.repaired_blocks > 0 {
        let bytes = bytes(faults.repaired_blocks);
        parts.push(format!("{bytes} unreadable and rewritten"));
    }
    if faults.unfilled_blocks > 0 {
        let bytes = bytes(faults.unfilled_blocks);
        parts.push(format!(
            "{bytes} could not be filled, as the others can't be read there either"
        ));
    }
    if status.slow {
        parts.push("much slower than its peers".to_owned());
    }
    if status.hedged_reads > 0 {
        let s = if status.hedged_reads == 1 { "" } else { "s" };
        let reads = status.hedged_reads;
        parts.push(format!(
            "kept {reads} read{s} waiting, and the others were asked"
        ));
    }
    parts
}

/// Explains why a member went out.
#[must_use]
pub fn why_out(reason: OutReason) -> &'static str {
    match reason {
        OutReason::Error(MemberError::Gone) => "it does not answer any more",
        OutReason::Error(MemberError::Medium) => "it did not take a write",
        OutReason::Error(MemberError::NoSpace) => {
            "no space is left where it lies: free some, and a rebuild gives it what it lacks"
        }
        OutReason::Error(MemberError::Corrupt) => "what it holds is damaged",
        OutReason::Command => "as a command asked",
        OutReason::TooManyErrors => "too many reads failed in a short time",
        OutReason::TooManyBadBlocks => "too many places refuse to be written",
    }
}
