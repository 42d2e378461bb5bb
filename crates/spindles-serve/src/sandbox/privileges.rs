//! Privileges: none are gained by what is executed, and those that are there are given up.

use super::Part;
use rustix::thread::{CapabilitySet, CapabilitySets, no_new_privs};
use rustix::thread::{capabilities, set_capabilities, set_no_new_privs};

pub(super) static NO_NEW_PRIVILEGES: Part = Part {
    name: "no new privileges",
    for_all_threads: false,
    enter: |_| set_no_new_privs(true).is_ok() && no_new_privs().unwrap_or(false),
};

/// Also those of root: what is open stays open, and nothing that is done later needs one.
pub(super) static NO_CAPABILITIES: Part = Part {
    name: "no capabilities",
    for_all_threads: false,
    enter: |_| {
        let none = CapabilitySets {
            effective: CapabilitySet::empty(),
            permitted: CapabilitySet::empty(),
            inheritable: CapabilitySet::empty(),
        };
        let given_up = set_capabilities(None, none).is_ok();
        given_up && capabilities(None).is_ok_and(|left| left.permitted.is_empty())
    },
};
