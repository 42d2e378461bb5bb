//! The positions of members, for messages.

use spindles_block::MemberSet;

/// "member 1", "members 1 and 2".
#[must_use]
pub fn positions(members: MemberSet) -> String {
    let numbers: Vec<String> = members.iter().map(|member| member.to_string()).collect();
    match numbers.as_slice() {
        [] => "no member".to_owned(),
        [one] => format!("member {one}"),
        [first @ .., last] => format!("members {} and {last}", first.join(", ")),
    }
}
