//! What a search for devices found besides those of the array.

use spindles_admin::scan::{Forgotten, FormerMember, Given, Role, may_read_all, shell_word};
use spindles_array::lists::few;

/// Names the unreadable devices; `None` if there are none.
pub(crate) fn denied(given: &Given) -> Option<String> {
    let remedy = if may_read_all() {
        ""
    } else {
        "; try as a user who may, such as root"
    };
    let names = few(&given.unreadable);
    (!names.is_empty()).then(|| format!("{names} can't be read: permission denied{remedy}"))
}

/// Names the forgotten devices; `None` if there are none.
pub(crate) fn forgotten(given: &Given) -> Option<String> {
    let forgotten: Vec<String> = given.forgotten.iter().map(role).collect();
    let remedy = "or the name of the array in place of its devices";
    match forgotten.as_slice() {
        [] => None,
        [one] => Some(format!("{one}, and was not given: give it too, {remedy}")),
        several => Some(format!(
            "these were not given; give them too, {remedy}:\n  {}",
            several.join("\n  ")
        )),
    }
}

fn role(forgotten: &Forgotten) -> String {
    let Forgotten { device, array, .. } = forgotten;
    match forgotten.role {
        Role::Member(member) => format!("{device} is member {member} of array '{array}'"),
        Role::Journal => format!("{device} has the journal of array '{array}'"),
        Role::Spare => format!("{device} is a spare of array '{array}'"),
    }
}

/// Describes the former members that other devices replaced, or else those that can only be filled
/// again.
pub(crate) fn former(given: &Given, are_replaced: bool) -> Vec<String> {
    let former = given.former.iter();
    let former = former.filter(|former| former.is_replaced == are_replaced);
    former.map(left_out).collect()
}

fn left_out(former: &FormerMember) -> String {
    let FormerMember {
        device,
        array,
        is_replaced,
    } = former;
    let named = shell_word(device);
    if *is_replaced {
        format!(
            "left out: {device}: array '{array}' has another device in its position by now; \
             `spindles wipe {named}` makes a plain device of it"
        )
    } else {
        format!(
            "left out: {device}: array '{array}' no longer knows what it missed; \
             `spindles rebuild {} --onto {named} --force` fills it completely",
            shell_word(array)
        )
    }
}
