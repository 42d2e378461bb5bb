//! Figures in the words of the evidence.

/// Formats a share in percent, without decimals. Counters read one after the other may add up to
/// slightly more than 1.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share.min(1.0) * 100.0)
}

/// Formats a time in seconds as milliseconds.
pub(super) fn milliseconds(seconds: f64) -> String {
    let ms = seconds * 1e3;
    match ms {
        ms if ms >= 99.5 => format!("{ms:.0} ms"),
        ms if ms >= 9.95 => format!("{ms:.1} ms"),
        ms => format!("{ms:.2} ms"),
    }
}

/// Formats bytes per second in MB/s.
pub(super) fn megabytes(bytes_per_s: f64) -> String {
    format!("{:.0} MB/s", bytes_per_s / 1e6)
}

/// Formats bytes in a binary unit.
pub(super) fn bytes(count: f64) -> String {
    const KIB: f64 = 1024.0;
    match count {
        count if count >= KIB * KIB * KIB => format!("{:.1} GiB", count / (KIB * KIB * KIB)),
        count if count >= KIB * KIB => format!("{:.0} MiB", count / (KIB * KIB)),
        count => format!("{:.0} KiB", count / KIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_at_most_one() {
        assert_eq!([0.126, 1.0, 1.01].map(percent), ["13 %", "100 %", "100 %"]);
    }
}
