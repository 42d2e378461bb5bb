//! Interventions that would confirm a verdict: one change, and its effect on the rate if the
//! verdict is right. A lab that can make the change may do so; otherwise a reader can.

use serde::{Deserialize, Serialize};

/// A change of one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Intervention {
    /// Use twice as many actors.
    DoubleActors,
    /// Run the workload twice at once, on two arrays.
    TwoStreams,
    /// Allow a fifth less CPU time.
    LimitCpu,
    /// Limit the link to a fifth less.
    ShapeLink,
    /// Leave out one member that is neither slow nor hot.
    LeaveMemberOut,
    /// Replace this member with a healthy device.
    ReplaceMember {
        /// Name of the member.
        member: String,
    },
    /// Spread the same requests evenly, with another layout or chunk.
    SpreadLoad,
    /// Use twice as many members.
    DoubleMembers,
    /// Leave out the flushes.
    FsyncOff,
    /// Use half as many actors.
    HalveActors,
    /// Add a second machine that generates load.
    SecondGenerator,
    /// Empty the caches before, or bypass them.
    WithoutCache,
    /// Work on files of at least twice the memory.
    LargerFiles,
    /// Include the time until everything is on the devices.
    CountFlush,
}

/// Expected effect of a change on the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    /// The rate grows at least by this factor.
    Grows(f64),
    /// The rate falls at least to this factor.
    Falls(f64),
    /// The rate stays within this fraction.
    Stays(f64),
}

/// Result of a trial for the verdict it tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrialOutcome {
    /// The whole interval shows the expected effect.
    Confirmed,
    /// The whole interval contradicts the expected effect.
    Refuted,
    /// The interval includes both.
    NotResolved,
}

impl Effect {
    /// Judges a trial after which the rate was between `low` and `high` times as high as before.
    pub fn judge(self, low: f64, high: f64) -> TrialOutcome {
        let (confirmed, refuted) = match self {
            Self::Grows(factor) => (low >= factor, high < factor),
            Self::Falls(factor) => (high <= factor, low > factor),
            Self::Stays(fraction) => {
                let (least, most) = (1.0 - fraction, 1.0 + fraction);
                (low >= least && high <= most, high < least || low > most)
            }
        };
        match (confirmed, refuted) {
            (true, _) => TrialOutcome::Confirmed,
            (_, true) => TrialOutcome::Refuted,
            _ => TrialOutcome::NotResolved,
        }
    }
}

impl Intervention {
    /// Expected effect if the verdict is right.
    pub fn effect(&self) -> Effect {
        match self {
            Self::DoubleActors | Self::TwoStreams | Self::SecondGenerator => Effect::Grows(1.5),
            Self::ReplaceMember { .. } | Self::SpreadLoad => Effect::Grows(1.1),
            Self::DoubleMembers | Self::FsyncOff => Effect::Grows(1.2),
            Self::LimitCpu | Self::ShapeLink => Effect::Falls(0.9),
            Self::LeaveMemberOut => Effect::Stays(0.1),
            Self::HalveActors => Effect::Stays(0.2),
            Self::WithoutCache | Self::LargerFiles | Self::CountFlush => Effect::Falls(0.8),
        }
    }

    /// Returns true if the rates before and after the change confirm the verdict.
    pub fn is_confirmed(&self, before: f64, after: f64) -> bool {
        let ratio = after / before;
        self.effect().judge(ratio, ratio) == TrialOutcome::Confirmed
    }

    /// The change, in words: `ask with twice as many actors`.
    pub fn name(&self) -> String {
        let name = match self {
            Self::DoubleActors => "use twice as many actors",
            Self::TwoStreams => "run the workload on two arrays at once",
            Self::LimitCpu => "allow a fifth less CPU time",
            Self::ShapeLink => "limit the link to a fifth less",
            Self::LeaveMemberOut => "leave one member out",
            Self::ReplaceMember { member } => &format!("replace {member} with a healthy device"),
            Self::SpreadLoad => "spread the requests with another layout or chunk size",
            Self::DoubleMembers => "use twice as many members",
            Self::FsyncOff => "leave out the flushes",
            Self::HalveActors => "use half as many actors",
            Self::SecondGenerator => "add load from a second machine",
            Self::WithoutCache => "empty the caches first, or bypass them",
            Self::LargerFiles => "use data of at least twice the memory",
            Self::CountFlush => "count the time until all data is on the devices",
        };
        name.to_owned()
    }

    /// The change and its effect, in words.
    pub fn words(&self) -> String {
        let percent = |fraction: f64| format!("{:.0} %", fraction * 100.0);
        let effect = match self.effect() {
            Effect::Grows(factor) => format!("grow by at least {}", percent(factor - 1.0)),
            Effect::Falls(factor) => format!("fall by at least {}", percent(1.0 - factor)),
            Effect::Stays(fraction) => format!("stay within {}", percent(fraction)),
        };
        format!("{}: the rate should {effect}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_distinguished_from_no_effect() {
        let member = "sdb".to_owned();
        for (change, right, wrong) in [
            (Intervention::DoubleActors, 1.9, 1.1),
            (Intervention::LimitCpu, 0.8, 1.0),
            (Intervention::LeaveMemberOut, 0.98, 0.75),
            (Intervention::ReplaceMember { member }, 1.6, 1.0),
        ] {
            assert!(change.is_confirmed(50.0, 50.0 * right), "{change:?}");
            assert!(!change.is_confirmed(50.0, 50.0 * wrong), "{change:?}");
        }
        assert_eq!(
            Intervention::LimitCpu.words(),
            "allow a fifth less CPU time: the rate should fall by at least 10 %"
        );
    }
}
