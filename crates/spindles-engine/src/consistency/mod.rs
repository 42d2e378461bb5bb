//! Consistency policies: what closes, or does not close, the gap that a crash leaves between data
//! and redundancy. One file each, one row in the table.

mod none;
mod resync;

/// A consistency policy.
#[derive(Debug)]
pub struct Policy {
    /// What users type and superblocks hold.
    pub name: &'static str,
    /// One line for help texts.
    pub about: &'static str,
    /// Whether an array is marked unclean before its first write, and made consistent as a whole
    /// when it is opened unclean.
    pub resync_after_crash: bool,
}

/// Every policy; the first is the default.
pub static POLICIES: &[&Policy] = &[&resync::POLICY, &none::POLICY];

impl Policy {
    /// The policy of that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|policy| policy.name == name).copied()
    }
}
