//! Formats figures for reading: rates, sizes, times, differences and dates.

use spindles_measure::{Rate, Verdict, factor_of};
use std::time::{Duration, UNIX_EPOCH};

const KIB: f64 = 1024.0;

/// Formats bytes or operations per second: `1.82 GiB/s`, `25,300 op/s`.
pub(crate) fn rate(per_second: f64, rate: Rate) -> String {
    match rate {
        Rate::Bytes => format!("{}/s", bytes(per_second)),
        Rate::Operations => format!("{} op/s", three_digits(per_second)),
    }
}

/// Returns the unit for rates of this size: its value and its text after a figure.
pub(crate) fn rate_unit(per_second: f64, rate: Rate) -> (f64, &'static str) {
    if rate == Rate::Operations {
        return (1.0, "");
    }
    let units = [" B", " KiB", " MiB", " GiB", " TiB"];
    let (mut size, mut unit) = (1.0, 0);
    while per_second / size >= 999.5 && unit + 1 < units.len() {
        size *= KIB;
        unit += 1;
    }
    (size, units[unit])
}

/// Formats bytes with a binary unit: `512 MiB`, `1.50 GiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= KIB;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// Formats bytes for little room: `512M`, `1.5G`.
pub(crate) fn short_bytes(size: f64) -> String {
    let text = round(&bytes(size));
    let (digits, unit) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{digits}{}", &unit[..unit.len().min(1)])
}

/// Formats nanoseconds: `830 ns`, `12.4 µs`, `3.05 ms`, `1.20 s`.
pub(crate) fn time(nanoseconds: f64) -> String {
    let units = ["ns", "µs", "ms", "s"];
    let (mut value, mut unit) = (nanoseconds, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// Formats with at least three significant digits: `1.82`, `18.2`, `182`, `1,820`.
pub(crate) fn three_digits(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() || value.is_infinite() {
        "–".to_owned()
    } else if size >= 99.95 {
        thousands(value)
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size > 0.0 {
        format!("{value:.2}")
    } else {
        "0".to_owned()
    }
}

/// Removes insignificant zeros of a round number, such as a tick: `12.0 ms` becomes `12 ms`.
pub(crate) fn round(figure: &str) -> String {
    let (digits, unit) = match figure.split_once(' ') {
        Some((digits, unit)) => (digits, format!(" {unit}")),
        None => (figure, String::new()),
    };
    let digits = if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    };
    format!("{digits}{unit}")
}

pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("−{text}")
    } else {
        text
    }
}

/// Formats a difference in percent with its sign: `+4 %`, `−34 %`, `±0 %`. Has a decimal below 10.
pub(crate) fn percent(percent: f64) -> String {
    format!("{} %", signed(percent))
}

/// Losses from here on get decimals: after a loss of 97 %, five times as much is left as after 99.4
/// %.
const FEW_LEFT: f64 = 95.0;

/// Formats a difference in percent without the unit.
pub(crate) fn signed(percent: f64) -> String {
    if percent.is_nan() || percent.is_infinite() {
        return "–".to_owned();
    }
    let size = percent.abs();
    let digits = if percent <= -FEW_LEFT && size < 99.95 {
        format!("{size:.1}")
    } else if percent <= -FEW_LEFT && size < 99.995 {
        format!("{size:.2}")
    } else if size >= 9.95 {
        thousands(size)
    } else {
        format!("{size:.1}")
    };
    let sign = match digits.as_str() {
        "0.0" => "±",
        _ if percent < 0.0 => "−",
        _ => "+",
    };
    format!("{sign}{digits}")
}

/// Ends of an interval are not given beyond this, in percent.
const END_MAX: f64 = 99_950.0;

/// Formats the interval of a difference in percent: `−36 … −31`. Ends beyond a factor of 1,000 are
/// not given exactly.
pub(crate) fn interval((_, low, high): (f64, f64, f64)) -> String {
    let factor = |percent: f64| 1.0 + percent / 100.0;
    if low.is_finite() && high.is_finite() && !says_nothing(factor(low), factor(high)) {
        let end = |percent: f64| match percent {
            far if far >= END_MAX => "over 1,000 ×".to_owned(),
            near => signed(near),
        };
        format!("{} … {}", end(low), end(high))
    } else {
        UNKNOWN.to_owned()
    }
}

/// Returns true if an interval of factors is too wide to mean anything.
pub(crate) fn says_nothing(from: f64, to: f64) -> bool {
    from <= 1.0 / TIMES_MAX && to >= TIMES_MAX
}

/// Text of an unknown interval.
pub(crate) const UNKNOWN: &str = "unknown";

/// Formats the factor and direction of a large difference of speeds: `("4.1", "slower")`. `None` if
/// it is small.
pub(crate) fn factor(log_ratio: f64) -> Option<(String, &'static str)> {
    let (times, which) = factor_of(log_ratio)?;
    Some((how_often(times), which))
}

/// Formats a factor: `0.67`, `4.1`, `12`, `over 1,000`.
pub(crate) fn how_often(times: f64) -> String {
    if times < 0.995 {
        format!("{times:.2}")
    } else if times < 9.95 {
        format!("{times:.1}")
    } else if times < TIMES_MAX {
        thousands(times)
    } else {
        "over 1,000".to_owned()
    }
}

/// Factors from here on are not given exactly.
const TIMES_MAX: f64 = 1_000.5;

/// Formats a round factor on an axis: `×0.5`, `×1,000`.
pub(crate) fn factor_tick(factor: f64) -> String {
    if factor >= 1000.0 {
        return format!("×{}", thousands(factor));
    }
    let digits = format!("{factor:.9}");
    format!("×{}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats CPU time for each byte or operation counted, as time per GiB or per operation.
pub(crate) fn cpu(nanoseconds_per_counted: f64, rate: Rate) -> String {
    time(nanoseconds_per_counted * cpu_scale(rate))
}

/// Scale that `cpu` applies.
pub(crate) fn cpu_scale(rate: Rate) -> f64 {
    match rate {
        Rate::Bytes => KIB * KIB * KIB,
        Rate::Operations => 1.0,
    }
}

/// Unit that `cpu` uses: `per GiB`, `per operation`.
pub(crate) fn cpu_unit(rate: Rate) -> &'static str {
    match rate {
        Rate::Bytes => "per GiB",
        Rate::Operations => "per operation",
    }
}

/// Converts a count or nanoseconds to a float.
#[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

/// Formats a factor: `1.36 ×`.
pub(crate) fn times(value: f64) -> String {
    format!("{value:.2} ×")
}

/// Returns a verdict's mark, readable without colour.
pub(crate) fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲",
        Verdict::Slower => "▼",
        Verdict::NoDifferenceShown => "·",
        Verdict::OneBlock => "?",
        Verdict::Failed => "✗",
        Verdict::Refused => "–",
        Verdict::AaPair => "=",
    }
}

/// Last millisecond whose year has four digits.
const LAST_MS: u64 = 253_402_300_799_999;

/// Formats milliseconds since 1970 as `2026-07-16 12:01 UTC`. Empty for 0.
pub fn date(unix_ms: u64) -> String {
    if unix_ms == 0 {
        return String::new();
    }
    let at = UNIX_EPOCH + Duration::from_millis(unix_ms.min(LAST_MS));
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let (day, time) = (&text[..10], &text[11..16]);
    format!("{day} {time} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_formatted_readably() {
        for (found, expected) in [
            (rate(1_952_000_000.0, Rate::Bytes), "1.82 GiB/s"),
            (rate(25_312.4, Rate::Operations), "25,312 op/s"),
            (bytes(0.0), "0 B"),
            (bytes(1023.0), "1.00 KiB"),
            (bytes(536_870_912.0), "512 MiB"),
            (short_bytes(536_870_912.0), "512M"),
            (short_bytes(1_610_612_736.0), "1.5G"),
            (time(999.0), "999 ns"),
            (time(999.7), "1.00 µs"),
            (time(3_051_000.0), "3.05 ms"),
            (time(90e9), "90.0 s"),
            (percent(-34.4), "−34 %"),
            (percent(4.04), "+4.0 %"),
            (percent(9.96), "+10 %"),
            (percent(-0.04), "±0.0 %"),
            (percent(-97.0), "−97.0 %"),
            (percent(-99.63), "−99.6 %"),
            (percent(-99.963), "−99.96 %"),
            (percent(-100.0), "−100 %"),
            (interval((2.0, -50.0, 1.7e17)), "−50 … over 1,000 ×"),
            (interval((2.0, -100.0, 1.7e17)), "unknown"),
            (percent(1234.5), "+1,234 %"),
            (percent(f64::INFINITY), "– %"),
            (times(1.356), "1.36 ×"),
            (how_often(1.0 / 1.5), "0.67"),
            (how_often(9.96), "10"),
            (how_often(1e9), "over 1,000"),
            (factor_tick(0.5), "×0.5"),
            (factor_tick(1.0), "×1"),
            (factor_tick(1e6), "×1,000,000"),
        ] {
            assert_eq!(found, expected);
        }
    }

    /// Half and double are equally far from one.
    #[test]
    fn large_differences_are_factors() {
        let formatted =
            |ratio: f64| factor(ratio.ln()).map(|(times, which)| format!("{times} {which}"));
        assert_eq!(formatted(0.24).unwrap(), "4.2 slower");
        assert_eq!(formatted(4.2).unwrap(), "4.2 faster");
        assert_eq!(formatted(0.49).unwrap(), "2.0 slower");
        assert_eq!(formatted(0.51), None);
        assert_eq!(formatted(1.99), None);
        assert_eq!(formatted(0.0), None);
    }

    #[test]
    fn round_figures_have_no_needless_decimals() {
        for (figure, expected) in [
            ("12.0 ms", "12 ms"),
            ("1.00 MiB", "1 MiB"),
            ("1.05 ms", "1.05 ms"),
            ("2.50", "2.5"),
            ("1,000 op/s", "1,000 op/s"),
            ("0", "0"),
        ] {
            assert_eq!(round(figure), expected);
        }
    }

    #[test]
    fn dates_match_the_calendar() {
        for (seconds, expected) in [
            (1, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(seconds * 1000), expected);
        }
        assert_eq!(date(0), "");
    }
}
