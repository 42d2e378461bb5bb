//! The limit of the load generator itself.

/// Share of the harness's own ceiling from which a result is refused.
pub const CEILING_SHARE_MAX: f64 = 0.7;

/// How close a rate is to the limit, if the harness reaches `ceiling` on a target that does
/// nothing. From 1 on, the rate is refused as a result: it measures the harness rather than the
/// system.
pub(crate) fn level(per_second: f64, ceiling: f64) -> f64 {
    per_second / ceiling / CEILING_SHARE_MAX
}
