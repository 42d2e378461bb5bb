//! Privileges: the existing ones are dropped, and executing a program gains none.

use super::{Needs, Restriction};
use rustix::thread::{CapabilitySet, CapabilitySets, no_new_privs};
use rustix::thread::{capabilities, set_capabilities, set_no_new_privs};

pub(super) static NO_NEW_PRIVILEGES: Restriction = Restriction {
    name: |_| "no new privileges",
    for_all_threads: false,
    enter: |_| set_no_new_privs(true).is_ok() && no_new_privs().unwrap_or(false),
};

/// Drops the capabilities of root too: open files stay open, and nothing later needs a capability.
/// The exception is locked memory with a limit that can't be lifted: each new mapping counts
/// against it.
pub(super) static NO_CAPABILITIES: Restriction = Restriction {
    name: |needs| {
        if needs.exceeds_locked_memory {
            "no capabilities but IPC_LOCK"
        } else {
            "no capabilities"
        }
    },
    for_all_threads: false,
    enter: |needs| {
        let kept = kept(needs);
        let sets = CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        };
        let given_up = set_capabilities(None, sets).is_ok();
        given_up && capabilities(None).is_ok_and(|left| kept.contains(left.permitted))
    },
};

fn kept(needs: &Needs) -> CapabilitySet {
    if needs.exceeds_locked_memory {
        CapabilitySet::IPC_LOCK
    } else {
        CapabilitySet::empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses its own thread, because this one may need its capabilities.
    #[test]
    fn only_the_locked_memory_capability_is_kept_if_needed() {
        let had = capabilities(None).expect("it can be asked").permitted;
        let entered = std::thread::spawn(|| {
            [true, false].map(|exceeds_locked_memory| {
                let needs = Needs {
                    exceeds_locked_memory,
                    ..Needs::default()
                };
                let name = (NO_CAPABILITIES.name)(&needs);
                let holds = (NO_CAPABILITIES.enter)(&needs);
                let left = capabilities(None).expect("it can be asked").permitted;
                (name, holds, left)
            })
        });
        let [kept, none] = entered.join().expect("it ends");
        assert_eq!(none.2, CapabilitySet::empty());
        assert_eq!((none.0, none.1), ("no capabilities", true));
        if had.contains(CapabilitySet::IPC_LOCK) {
            assert_eq!(kept.2, CapabilitySet::IPC_LOCK);
            assert_eq!((kept.0, kept.1), ("no capabilities but IPC_LOCK", true));
        }
    }
}
