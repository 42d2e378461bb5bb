//! Figures of traces for people.

use crate::documents::traces::{GAP_PERCENTS, Shape};
use std::fmt::Write as _;

/// Formats a time in the unit that suits it: `85 µs`, `12.3 ms`, `2.5 h`.
pub(crate) fn time(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    time_of(ns as f64)
}

/// Formats a time given in nanoseconds.
pub(crate) fn time_of(ns: f64) -> String {
    const UNITS: [(f64, &str); 5] = [
        (3.6e12 * 2.0, "h"),
        (1e9 * 120.0, "min"),
        (1e9, "s"),
        (1e6, "ms"),
        (1e3, "µs"),
    ];
    let unit = UNITS.iter().find(|(least, _)| ns >= *least);
    let (divisor, name) = match unit {
        None => (1.0, "ns"),
        Some((_, "h")) => (3.6e12, "h"),
        Some((_, "min")) => (6e10, "min"),
        Some((divisor, name)) => (*divisor, *name),
    };
    let value = ns / divisor;
    let decimals = if value < 10.0 && divisor > 1.0 {
        2
    } else {
        usize::from(value < 100.0 && divisor > 1.0)
    };
    format!("{value:.decimals$} {name}")
}

/// Formats a share in percent.
pub(crate) fn share(part: u64, of: u64) -> String {
    let permille = u128::from(part) * 1000 / u128::from(of.max(1));
    format!("{}.{} %", permille / 10, permille % 10)
}

/// Writes a profile as TOML.
pub(crate) fn profile(shape: &Shape) -> String {
    let pairs = |pairs: &[(u64, u64)]| {
        let pairs = pairs.iter().map(|(one, other)| format!("[{one}, {other}]"));
        pairs.collect::<Vec<_>>().join(", ")
    };
    let numbers = |numbers: &[u64]| {
        let numbers = numbers.iter().map(u64::to_string);
        numbers.collect::<Vec<_>>().join(", ")
    };
    let percents = GAP_PERCENTS.map(|percent| percent.to_string()).join(", ");
    let mut text = format!(
        "# spindles profile {}\nrequests = {}\nclosed_loop = {}\nrange_bytes = {}\n\
         gap_percents = [{percents}]\ngap_ns = [{}]\nbusiest = [{}]\n",
        shape.version,
        shape.requests,
        shape.closed_loop,
        shape.range_bytes,
        numbers(&shape.gap_ns),
        pairs(&shape.busiest),
    );
    for row in &shape.operations {
        write!(
            text,
            "[{}]\npermille = {}\nsequential_permille = {}\nsizes = [{}]\n",
            row.operation,
            row.permille,
            row.sequential_permille,
            pairs(&row.sizes)
        )
        .expect("strings take everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1500, "1.50 µs"),
            (85_000, "85.0 µs"),
            (12_345_678, "12.3 ms"),
            (119_000_000_000, "119 s"),
            (150_000_000_000, "2.50 min"),
            (9_000_000_000_000, "2.50 h"),
        ] {
            assert_eq!(time(ns), text);
        }
    }
}
