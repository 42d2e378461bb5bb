//! Which options of systems mean something for which targets. Each is a row of a table.

use super::{Kind, array, assembled, device, kind_of, single};
use crate::experiment::Members;
use spindles_io::Backend;
use spindles_layout::{Expression, LEVELS, Level, Redundancy};

/// An option of systems.
pub(crate) struct SystemOption {
    /// As experiments have it.
    pub(crate) name: &'static str,
    is_for: fn() -> String,
    pub(crate) means_something: fn(&Subject) -> bool,
}

/// A system, as far as options ask.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is asked by another option"
)]
pub(crate) struct Subject {
    kind: &'static Kind,
    /// The outermost level of an array of ours.
    level: Option<&'static Level>,
    /// What the levels of an array of ours have besides data, the levels of arrays in it too.
    redundancies: Vec<Redundancy>,
    /// Whether it is on what outlives the process: an array has superblocks then, and the kernel can have it as a
    /// device.
    pub(crate) outlives: bool,
    /// Whether a file system is made on it.
    pub(crate) is_mounted: bool,
    /// Whether commands make it.
    pub(crate) by_commands: bool,
    /// Whether it is served as arrays are.
    pub(crate) is_served: bool,
}

impl Subject {
    /// A target by itself, where systems count these members.
    pub(crate) fn new(target: &str, members: &Members) -> Self {
        let expression = array::parse(target).ok();
        let leaves = expression.as_ref().map(Expression::leaves);
        let counted = match members {
            Members::Files | Members::Devices(_) => true,
            Members::Fresh(backend) => backend.facts.outlives_process,
        };
        let outlives = |leaf: &str| {
            if array::is_number(leaf) {
                counted
            } else {
                Backend::of(leaf).facts.outlives_process
            }
        };
        let kind = kind_of(target);
        let outlives = match &leaves {
            Some(leaves) => leaves.iter().all(|leaf| outlives(leaf)),
            None if kind.name == single::KIND.name => counted,
            None if kind.name == device::KIND.name => outlives(target),
            None => true,
        };
        let mut redundancies = Vec::new();
        if let Some(expression) = &expression {
            gather(expression, &mut redundancies);
        }
        let level = match &expression {
            Some(Expression::Array { level, .. }) => Some(*level),
            Some(Expression::Leaf(_)) | None => None,
        };
        Self {
            kind,
            level,
            redundancies,
            outlives,
            is_mounted: false,
            by_commands: false,
            is_served: false,
        }
    }

    /// Whether it is a member by itself.
    pub(crate) fn is_single(&self) -> bool {
        self.is(&single::KIND)
    }

    /// Whether it is an array that the lab makes with superblocks, which say of each device which member it is.
    pub(crate) fn has_superblocks(&self) -> bool {
        self.is(&array::KIND) && self.outlives
    }

    /// Whether a level of it keeps more than the data; of an array that exists it is known once that is opened.
    pub(crate) fn may_be_redundant(&self) -> bool {
        self.is(&assembled::KIND) || self.has(|it| it != Redundancy::None)
    }

    /// Whether an array of its outermost level can become larger.
    pub(crate) fn grows(&self) -> bool {
        self.level.is_some_and(Level::grows)
    }

    fn is(&self, kind: &Kind) -> bool {
        self.kind.name == kind.name
    }

    fn has(&self, is_meant: fn(Redundancy) -> bool) -> bool {
        self.is(&array::KIND) && self.redundancies.iter().copied().any(is_meant)
    }
}

fn gather(expression: &Expression, into: &mut Vec<Redundancy>) {
    if let Expression::Array { level, members, .. } = expression {
        into.push(level.redundancy);
        for member in members {
            gather(member, into);
        }
    }
}

fn has_copies(redundancy: Redundancy) -> bool {
    matches!(
        redundancy,
        Redundancy::Copies | Redundancy::CopyOnEveryMember
    )
}

fn has_parity(redundancy: Redundancy) -> bool {
    matches!(redundancy, Redundancy::Parity(_))
}

/// The levels of that kind.
fn levels(is_meant: fn(Redundancy) -> bool) -> String {
    let levels = LEVELS.iter().filter(|level| is_meant(level.redundancy));
    levels
        .map(|level| level.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn on_devices() -> String {
    "arrays that the lab makes on files or devices".to_owned()
}

pub(crate) static CHUNK: SystemOption = SystemOption {
    name: "chunk",
    is_for: || "arrays that the lab makes".to_owned(),
    means_something: |it| it.is(&array::KIND),
};

pub(crate) static CONSISTENCY: SystemOption = SystemOption {
    name: "consistency",
    is_for: on_devices,
    means_something: |it| it.is(&array::KIND) && it.outlives,
};

pub(crate) static CHECKSUM: SystemOption = SystemOption {
    name: "checksum",
    ..CONSISTENCY
};

pub(crate) static JOURNAL: SystemOption = SystemOption {
    name: "journal",
    is_for: || format!("{} with parity ({})", on_devices(), levels(has_parity)),
    means_something: |it| it.has(has_parity) && it.outlives,
};

pub(crate) static REBUILD_RATE: SystemOption = SystemOption {
    name: "rebuild_rate",
    is_for: || "arrays on files or devices".to_owned(),
    means_something: |it| it.is(&assembled::KIND) || it.is(&array::KIND) && it.outlives,
};

pub(crate) static READ_POLICY: SystemOption = SystemOption {
    name: "read_policy",
    is_for: || format!("arrays with copies ({}), and `array:`", levels(has_copies)),
    means_something: |it| it.is(&assembled::KIND) || it.has(has_copies),
};

pub(crate) static FLUSHES: SystemOption = SystemOption {
    name: "flushes",
    is_for: || {
        "arrays that the lab makes without `up`, and `single`, if it is served or without `fs`"
            .to_owned()
    },
    // A single disk with a file system that is not served is driven by the kernel.
    means_something: |it| {
        let is_ours = !it.is_mounted || it.is_served;
        !it.by_commands && (it.is(&array::KIND) || it.is(&single::KIND) && is_ours)
    },
};

pub(crate) static THROUGH: SystemOption = SystemOption {
    name: "through",
    is_for: || "`single`, devices and files, where the kernel needs them as a device".to_owned(),
    means_something: |it| {
        !it.by_commands && (it.is(&single::KIND) || it.is(&device::KIND)) && it.outlives
    },
};

impl SystemOption {
    /// What is wrong with it in a system that it means nothing for.
    pub(crate) fn refused_by(&self, system: &str) -> String {
        let Self { name, is_for, .. } = self;
        format!(
            "`{name}` means nothing for system \"{system}\", it is for {}: leave it out here; at the head of the file \
             it is for all systems that it means something for",
            is_for()
        )
    }

    /// What is wrong with it at the head of an experiment of such systems only.
    pub(crate) fn refused_by_all(&self) -> String {
        let Self { name, is_for, .. } = self;
        format!(
            "`{name}` means nothing for any of these systems, it is for {}: leave it out",
            is_for()
        )
    }
}

/// Whether a target that counts such members has chunks to choose.
///
/// # Errors
/// It has none, and what has.
pub fn check_chunk(target: &str, members: &Members) -> Result<(), String> {
    if (CHUNK.means_something)(&Subject::new(target, members)) {
        return Ok(());
    }
    Err(format!("it is for {}: leave it out", (CHUNK.is_for)()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_mean_something_where_they_change_something() {
        let all = [
            &CHUNK,
            &CONSISTENCY,
            &CHECKSUM,
            &JOURNAL,
            &REBUILD_RATE,
            &READ_POLICY,
            &FLUSHES,
            &THROUGH,
        ];
        let memory = Members::of_word("mem").unwrap();
        let devices = Members::Devices(vec!["/dev/sdb".to_owned()]);
        for (target, members, expected) in [
            ("single", &Members::Files, "flushes through"),
            ("/dev/sdb", &Members::Files, "through"),
            ("folder:/mnt", &Members::Files, ""),
            ("array:pool", &Members::Files, "rebuild_rate read_policy"),
            (
                "raid0(4)",
                &Members::Files,
                "chunk consistency checksum rebuild_rate flushes",
            ),
            (
                "raid1(2)",
                &devices,
                "chunk consistency checksum rebuild_rate read_policy flushes",
            ),
            ("raid1(2)", &memory, "chunk read_policy flushes"),
            ("raid5(mem:1G,mem:1G,mem:1G)", &devices, "chunk flushes"),
            (
                "raid5($MEMBER0,$MEMBER1,a)",
                &memory,
                "chunk consistency checksum journal rebuild_rate flushes",
            ),
            (
                "raid0(raid10(4),raid5(3))",
                &Members::Files,
                "chunk consistency checksum journal rebuild_rate read_policy flushes",
            ),
        ] {
            let subject = Subject::new(target, members);
            let found = all.iter().filter(|it| (it.means_something)(&subject));
            let found: Vec<_> = found.map(|it| it.name).collect();
            assert_eq!(found.join(" "), expected, "{target}");
        }
        let mut single = Subject::new("single", &Members::Files);
        single.is_mounted = true;
        assert!(!(FLUSHES.means_something)(&single));
        let why = READ_POLICY.refused_by("disk");
        assert!(why.contains("(raid1, raid10)"), "{why}"); // Names levels: as users read them.
    }
}
