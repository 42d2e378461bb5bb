//! Memory with constant latency: answers come in the order of the requests.

use super::{Model, Work};

pub(super) static MODEL: Model = Model {
    name: "in-order",
    about: "every operation takes the same time, so nothing overtakes; volatile write cache",
    volatile_cache: true,
    service_ns: |_, work| match work {
        Work::Read(_) | Work::Write(_) | Work::Flush => 10_000,
    },
};
