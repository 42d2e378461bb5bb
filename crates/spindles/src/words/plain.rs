//! Notes on plain arrays.

use spindles_admin::assemble::ArrayReport;
use spindles_admin::plain::{PlainOptions, PlainTarget, labels};
use spindles_layout::{Expression, Redundancy};
use std::collections::BTreeSet;

/// What is not promised when a plain array is written.
pub(crate) const WRITABLE: &str = "no superblock describes a plain array: nothing records which \
    member is missing, and after a crash its redundancy may not match its data; then open it with \
    --unclean, without members that missed writes";

/// What an unclean plain array does not give out.
pub(crate) const UNCLEAN: &str = "redundancy may not match the data: nothing is computed from \
    parity, and the first copy that is there is read";

/// How an unclean plain array that may be written is repaired.
pub(crate) const RESYNCED: &str = "redundancy may not match the data: while the array is open, it \
    is made to match the data, or the first copy";

/// What an unclean plain array with parity and without some members gives out.
pub(crate) const FORCED: &str = "redundancy may not match the data: what is computed from parity \
    in place of missing members may be wrong";

/// Returns what a user has to know about an open plain array.
pub(crate) fn notes(
    array: &PlainTarget,
    options: &PlainOptions,
    report: &ArrayReport,
) -> Vec<String> {
    let is_written = !options.open.read_only;
    let unclean = match (report.may_be_wrong(), is_written) {
        (true, _) => FORCED,
        (false, false) => UNCLEAN,
        (false, true) => RESYNCED,
    };
    let unclean = options.unclean.then_some(unclean);
    let written = is_written.then_some(WRITABLE);
    let ours = unclean.into_iter().chain(written).map(str::to_owned);
    let labels = labels(&array.expression).into_iter();
    let labels = labels.map(|(device, holds)| {
        format!(
            "{device} holds {holds}: a plain array takes the superblock for data; open that array \
             by its name"
        )
    });
    let notes = array.notes.iter().cloned();
    notes.chain(labels).chain(ours).collect()
}

/// Returns what a check without differences leaves unproved of a plain array and those in it; empty
/// if it proves the shape.
pub(crate) fn unproved(expression: &Expression) -> BTreeSet<&'static str> {
    let Expression::Array { level, members, .. } = expression.uncut() else {
        return BTreeSet::new();
    };
    let own = match level.redundancy {
        Redundancy::Parity(1) => Some(ANY_ORDER),
        Redundancy::None => Some(NO_REDUNDANCY),
        _ => None,
    };
    own.into_iter()
        .chain(members.iter().flat_map(unproved))
        .collect()
}

/// What single parity does not prove.
const ANY_ORDER: &str = "single parity agrees in any order of the members and with any chunk: the \
    check proves that these are the members, and not their order, the layout and the chunk";

/// What arrays without redundancy do not prove of their members.
const NO_REDUNDANCY: &str = "the members of raid0 and concat hold nothing to compare with each \
    other: the check does not prove their order and the chunk";
