//! Members of arrays that answered late.

use serde::{Deserialize, Serialize};

/// A member that answered late in the timed window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LateMember {
    /// The array inside the system whose member it is; empty for the outermost.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub array: String,
    /// Its position: 0, 1, 2 …
    pub member: u32,
    /// Whether it was much slower than its peers, for a while at least.
    pub slow: bool,
    /// Whether a read waited at it for much longer than its peers take.
    pub stalled: bool,
    /// Reads that redundancy was asked for too, because it kept them waiting.
    pub hedged_reads: u64,
}

impl LateMember {
    /// The entry of that member in a list, which is added where there is none.
    pub fn entry<'a>(list: &'a mut Vec<Self>, array: &str, member: u32) -> &'a mut Self {
        let is_it = |late: &Self| late.array == array && late.member == member;
        let at = list.iter().position(is_it).unwrap_or_else(|| {
            list.push(Self {
                array: array.to_owned(),
                member,
                ..Self::default()
            });
            list.len() - 1
        });
        &mut list[at]
    }

    /// Adds what another run showed.
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
