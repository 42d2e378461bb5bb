//! The copy whose device was last nearest: sequential readers stay on one device each.

use super::ReadPolicy;

pub(crate) static POLICY: ReadPolicy = ReadPolicy {
    name: "nearest",
    about: "the copy nearest to where its device was last, so that sequential readers keep a \
        device",
    cost: |load, block| load.last_end.0.abs_diff(block.0),
};
