//! Defines for which targets the options of systems are meaningful. Each option is a row of a
//! table.

use super::kinds::{self, ARRAY, ASSEMBLED, DEVICE, Kind, PLAIN, SINGLE, kind_of};
use super::members::Members;
use spindles_device::Backend;
use spindles_layout::{Expression, LEVELS, Level, Redundancy};

/// An option of systems.
pub(crate) struct SystemOption {
    /// Its name in experiments.
    pub(crate) name: &'static str,
    is_for: fn() -> String,
    pub(crate) means_something: fn(&Subject) -> bool,
}

/// The properties of a system that options depend on.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is asked by another option"
)]
pub(crate) struct Subject {
    kind: &'static Kind,
    /// The outermost level of a Spindles array.
    level: Option<&'static Level>,
    /// The redundancy of each level of a Spindles array, nested arrays included.
    redundancies: Vec<Redundancy>,
    /// True if its members outlive the process: an array then has superblocks, and the kernel can
    /// access it as a device.
    pub(crate) outlives: bool,
    /// True if a file system is made on it.
    pub(crate) is_mounted: bool,
    /// True if commands make it.
    pub(crate) by_commands: bool,
    /// True if a server exports the device, as for arrays.
    pub(crate) is_served: bool,
}

impl Subject {
    /// Describes a target by itself, whose counted members are `members`.
    pub(crate) fn new(target: &str, members: &Members) -> Self {
        let expression = kinds::parse(target).ok();
        let leaves = expression.as_ref().map(Expression::leaves);
        let counted = match members {
            Members::Files | Members::Devices(_) | Members::Modelled(_) => true,
            Members::Fresh(backend) => backend.facts.outlives_opening,
        };
        let outlives = |leaf: &str| {
            if kinds::is_number(leaf) {
                counted
            } else {
                Backend::facts_of(leaf).outlives_opening
            }
        };
        let kind = kind_of(target);
        let outlives = match &leaves {
            Some(leaves) => leaves.iter().all(|leaf| outlives(leaf)),
            None if kind.name == SINGLE.name => counted,
            None if kind.name == DEVICE.name => outlives(target),
            None => true,
        };
        let mut redundancies = Vec::new();
        if let Some(expression) = &expression {
            gather(expression, &mut redundancies);
        }
        let level = match &expression {
            Some(Expression::Array { level, .. }) => Some(*level),
            Some(Expression::Leaf(_) | Expression::Slice { .. }) | None => None,
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

    /// Returns true if it is a single member.
    pub(crate) fn is_single(&self) -> bool {
        self.is(&SINGLE)
    }

    /// Returns true if it is an array that the lab creates with superblocks, which identify its
    /// members.
    pub(crate) fn has_superblocks(&self) -> bool {
        self.is(&ARRAY) && self.outlives
    }

    /// Returns true if one of the target's levels is redundant. Also true for existing arrays,
    /// because their level is unknown before opening.
    pub(crate) fn may_be_redundant(&self) -> bool {
        let exists = self.is(&ASSEMBLED) || self.is(&PLAIN);
        exists || self.has(|redundancy| redundancy != Redundancy::None)
    }

    /// Returns true if an array of its outermost level can grow.
    pub(crate) fn grows(&self) -> bool {
        self.level.is_some_and(Level::grows)
    }

    fn is(&self, kind: &Kind) -> bool {
        self.kind.name == kind.name
    }

    fn has(&self, is_meant: fn(Redundancy) -> bool) -> bool {
        self.is(&ARRAY) && self.redundancies.iter().copied().any(is_meant)
    }
}

fn gather(expression: &Expression, into: &mut Vec<Redundancy>) {
    if let Expression::Array { level, members, .. } = expression.uncut() {
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

/// Lists the levels of that kind.
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
    is_for: || "arrays that the lab makes, and `plain:`".to_owned(),
    means_something: |subject| subject.is(&ARRAY) || subject.is(&PLAIN),
};

pub(crate) static CONSISTENCY: SystemOption = SystemOption {
    name: "consistency",
    is_for: on_devices,
    means_something: |subject| subject.is(&ARRAY) && subject.outlives,
};

pub(crate) static CHECKSUM: SystemOption = SystemOption {
    name: "checksum",
    ..CONSISTENCY
};

pub(crate) static JOURNAL: SystemOption = SystemOption {
    name: "journal",
    is_for: || format!("{} with parity ({})", on_devices(), levels(has_parity)),
    means_something: |subject| subject.has(has_parity) && subject.outlives,
};

pub(crate) static WRITE_BACK: SystemOption = SystemOption {
    name: "write_back",
    ..JOURNAL
};

pub(crate) static REBUILD_RATE: SystemOption = SystemOption {
    name: "rebuild_rate",
    is_for: || "arrays on files or devices".to_owned(),
    means_something: |subject| subject.is(&ASSEMBLED) || subject.is(&ARRAY) && subject.outlives,
};

pub(crate) static READ_POLICY: SystemOption = SystemOption {
    name: "read_policy",
    is_for: || {
        let levels = levels(has_copies);
        format!("arrays with copies ({levels}), `array:` and `plain:`")
    },
    means_something: |subject| {
        subject.is(&ASSEMBLED) || subject.is(&PLAIN) || subject.has(has_copies)
    },
};

pub(crate) static FLUSHES: SystemOption = SystemOption {
    name: "flushes",
    is_for: || {
        "arrays that the lab makes without `up`, and `single`, if it is served or without `fs`"
            .to_owned()
    },
    // The kernel itself drives a single disk with a file system, unless served.
    means_something: |subject| {
        let is_ours = !subject.is_mounted || subject.is_served;
        !subject.by_commands && (subject.is(&ARRAY) || subject.is(&SINGLE) && is_ours)
    },
};

pub(crate) static THROUGH: SystemOption = SystemOption {
    name: "through",
    is_for: || "`single`, devices and files, if the kernel needs them as a device".to_owned(),
    means_something: |subject| {
        !subject.by_commands && (subject.is(&SINGLE) || subject.is(&DEVICE)) && subject.outlives
    },
};

impl SystemOption {
    /// Returns the error for a system for which the option is meaningless.
    pub(crate) fn refused_by(&self, system: &str) -> String {
        let Self { name, is_for, .. } = self;
        format!(
            "`{name}` has no effect on system \"{system}\", it is for {}: leave it out here, or \
             set it at the head of the file for all such systems",
            is_for()
        )
    }

    /// Returns the error for the head of an experiment, if the option is meaningless for all of its
    /// systems.
    pub(crate) fn refused_by_all(&self) -> String {
        let Self { name, is_for, .. } = self;
        format!(
            "`{name}` has no effect on any of these systems, it is for {}: leave it out",
            is_for()
        )
    }
}

/// Checks that the chunk size of a target with such members can be chosen.
///
/// # Errors
/// When the target has no chunks. The error names the kinds of targets with chunks.
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
    fn options_are_accepted_only_if_they_have_an_effect() {
        let all = [
            &CHUNK,
            &CONSISTENCY,
            &CHECKSUM,
            &JOURNAL,
            &WRITE_BACK,
            &REBUILD_RATE,
            &READ_POLICY,
            &FLUSHES,
            &THROUGH,
        ];
        let memory = Members::of_word("mem").unwrap().unwrap();
        let devices = Members::Devices(vec!["/dev/sdb".to_owned()]);
        for (target, members, expected) in [
            ("single", &Members::Files, "flushes through"),
            ("/dev/sdb", &Members::Files, "through"),
            ("folder:/mnt", &Members::Files, ""),
            ("array:pool", &Members::Files, "rebuild_rate read_policy"),
            ("plain:raid1(a,b)", &Members::Files, "chunk read_policy"),
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
                "chunk consistency checksum journal write_back rebuild_rate flushes",
            ),
            (
                "raid0(raid10(4),raid5(3))",
                &Members::Files,
                "chunk consistency checksum journal write_back rebuild_rate read_policy flushes",
            ),
        ] {
            let subject = Subject::new(target, members);
            let found = all
                .iter()
                .filter(|option| (option.means_something)(&subject));
            let found: Vec<_> = found.map(|found| found.name).collect();
            assert_eq!(found.join(" "), expected, "{target}");
        }
        let mut single = Subject::new("single", &Members::Files);
        single.is_mounted = true;
        assert!(!(FLUSHES.means_something)(&single));
        let why = READ_POLICY.refused_by("disk");
        assert!(why.contains("(raid1, raid10)"), "{why}"); // Names levels: as users read them.
    }
}
