//! Members of arrays that answered late.

use serde::{Deserialize, Serialize};

/// A member that answered late in the timed window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LateMember {
    /// The nested array it is a member of. Empty for the outermost array.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array: String,
    /// Position in the array, from 0.
    pub member: u32,
    /// Set if it was much slower than its peers, at least for a while.
    pub slow: bool,
    /// Set if a read waited for it much longer than its peers take.
    pub stalled: bool,
    /// Delayed reads that were also requested from redundancy.
    pub hedged_reads: u64,
}

impl LateMember {
    /// Returns the entry of a member in a list; adds it if missing.
    pub fn entry<'a>(list: &'a mut Vec<Self>, array: &str, member: u32) -> &'a mut Self {
        let is_member = |late: &Self| late.array == array && late.member == member;
        let at = list.iter().position(is_member).unwrap_or_else(|| {
            list.push(Self {
                array: array.to_owned(),
                member,
                ..Self::default()
            });
            list.len() - 1
        });
        &mut list[at]
    }

    /// Merges the late members of another run.
    pub(crate) fn join(list: &mut Vec<Self>, more: &[Self]) {
        for one in more {
            let all = Self::entry(list, &one.array, one.member);
            all.slow |= one.slow;
            all.stalled |= one.stalled;
            all.hedged_reads = all.hedged_reads.saturating_add(one.hedged_reads);
        }
        list.sort_by(|a, b| (&a.array, a.member).cmp(&(&b.array, b.member)));
    }
}

impl std::fmt::Display for LateMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "member {}", self.member)?;
        if !self.array.is_empty() {
            write!(f, " of {}", self.array)?;
        }
        let hedged = match self.hedged_reads {
            0 => String::new(),
            1 => "1 read hedged".to_owned(),
            reads => format!("{reads} reads hedged"),
        };
        let said = [
            if self.slow { "slow" } else { "" },
            if self.stalled { "stalled" } else { "" },
            &hedged,
        ];
        let said: Vec<&str> = said.into_iter().filter(|word| !word.is_empty()).collect();
        write!(f, " {}", said.join(", "))
    }
}
