//! The options of fio that the lab must understand: their names, and the numbers in them.

/// Each second name of an option, and its first name.
pub(super) const SYNONYMS: &[(&str, &str)] = &[
    ("blockalign", "ba"),
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("disable_bw", "disable_bw_measurement"),
    ("fileoffset", "offset"),
    ("fill_fs", "fill_device"),
    ("io_limit", "io_size"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iomem", "mem"),
    ("nr_files", "nrfiles"),
    ("ratecycle", "rate_cycle"),
    ("ratemin", "rate_min"),
    ("readwrite", "rw"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("timeout", "runtime"),
    ("wait_for_previous", "stonewall"),
];

/// Options that are set if given without a value.
const FLAGS: &[&str] = &[
    "bs_unaligned",
    "norandommap",
    "refill_buffers",
    "thread",
    "time_based",
    "verify_only",
    "zero_buffers",
];

/// Groups of options that specify the same thing in different ways. At most one option per group is
/// allowed.
const RIVALS: &[&[&str]] = &[&["bs", "bsrange", "bssplit"]];

/// Options that the lab chooses.
const CHOSEN: &[&str] = &[
    "directory",
    "exit_what",
    "exitall",
    "exitall_on_error",
    "filename",
    "filename_format",
    "group_reporting",
    "lat_percentiles",
    "name",
    "new_group",
    "opendir",
    "output",
    "output-format",
    "stonewall",
    "unified_rw_reporting",
    "unique_filename",
    "wait_for",
];

const RUNS_A_PROGRAM: &str = "it runs another program, whose work would be measured too";
const WRITES_A_LOG: &str =
    "it writes files next to the results, and each run would overwrite the files of the last run";

/// Options that can't be used here, and why.
const REFUSED: &[(&str, &str)] = &[
    ("create_only", "it does no I/O"),
    ("exec_postrun", RUNS_A_PROGRAM),
    ("exec_prerun", RUNS_A_PROGRAM),
    (
        "kb_base",
        "a size must mean the same to the lab and to fio, so K is 1024 here",
    ),
    ("merge_blktrace_file", "it replays no I/O"),
    ("profile", "it replaces the other options"),
    (
        "read_iolog",
        "it replays I/O on files that the log names, and would overwrite them",
    ),
    (
        "replay_redirect",
        "it replays I/O on a device other than the system",
    ),
    ("write_bw_log", WRITES_A_LOG),
    ("write_hist_log", WRITES_A_LOG),
    ("write_iolog", WRITES_A_LOG),
    ("write_iops_log", WRITES_A_LOG),
    ("write_lat_log", WRITES_A_LOG),
];

/// Engines that do their I/O on the given file, one operation of a job at a time.
const SYNCHRONOUS: &[&str] = &[
    "mmap", "psync", "pvsync", "pvsync2", "sg", "splice", "sync", "vsync",
];

/// Engines that do their I/O on the given file, several operations at a time.
const ASYNCHRONOUS: &[&str] = &["io_uring", "libaio", "posixaio"];

/// How the lab treats an option.
pub(super) enum Fate {
    /// Passed to fio.
    Passed,
    /// Chosen by the lab.
    Chosen,
    /// Refused; holds the reason.
    Refused(&'static str),
}

pub(super) fn fate(name: &str) -> Fate {
    if CHOSEN.contains(&name) {
        return Fate::Chosen;
    }
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((_, why)) => Fate::Refused(why),
        None => Fate::Passed,
    }
}

/// Returns an option with its first name. `buffered` becomes `direct` with the opposite value.
pub(super) fn canonical(name: &str, value: &str) -> (String, String) {
    let negated = match (name, value) {
        ("buffered", "0") => Some("1"),
        ("buffered", "1") => Some("0"),
        // fio refuses other values.
        _ => None,
    };
    if let Some(value) = negated {
        return ("direct".to_owned(), value.to_owned());
    }
    let first = SYNONYMS.iter().find(|(second, _)| *second == name);
    let name = first.map_or(name, |(_, first)| first);
    let is_set = value.is_empty() && FLAGS.contains(&name);
    let value = if is_set { "1" } else { value };
    (name.to_owned(), value.to_owned())
}

/// Returns the first names of the options that exclude this one, its own name included.
pub(crate) fn rivals(name: &str) -> Vec<String> {
    let (name, _) = canonical(name, "0");
    match RIVALS.iter().find(|group| group.contains(&&*name)) {
        Some(group) => group.iter().map(|&rival| rival.to_owned()).collect(),
        None => vec![name],
    }
}

/// Checks that an engine does its I/O on the system. Returns true if one operation of a job is in
/// flight at a time.
pub(super) fn is_synchronous(engine: &str) -> Result<bool, String> {
    if SYNCHRONOUS.contains(&engine) {
        return Ok(true);
    }
    if ASYNCHRONOUS.contains(&engine) {
        return Ok(false);
    }
    let engines: Vec<_> = ASYNCHRONOUS.iter().chain(SYNCHRONOUS).copied().collect();
    Err(format!(
        "fio's ioengine {engine} does not read and write the system: use one of {}",
        engines.join(", ")
    ))
}

/// Parses a number as fio does: `4096`, `0x1000`, `4k`, `1GiB`. `None` for anything else, such as
/// `50%` or `4k,64k`.
pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let text = text.strip_suffix('b').unwrap_or(&text);
    let text = text.strip_suffix('i').unwrap_or(text);
    let units = ["k", "m", "g", "t", "p"];
    let unit = units
        .iter()
        .zip(1_u32..)
        .find(|(unit, _)| text.ends_with(**unit));
    let (digits, steps) = match unit {
        Some((unit, steps)) => (text.strip_suffix(unit)?, steps),
        None => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << (10 * steps))
}

/// Parses a time as fio does, in seconds without a unit: `30`, `90s`, `5m`, `1500ms`.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    const UNITS: &[(&str, u64)] = &[
        // Longer names first: `ms` ends in `s`.
        ("msec", 1_000_000),
        ("usec", 1_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("s", 1_000_000_000),
        ("m", 60 * 1_000_000_000),
        ("h", 3_600 * 1_000_000_000),
        ("d", 86_400 * 1_000_000_000),
    ];
    let text = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, scale) = match unit {
        Some((unit, scale)) => (text.strip_suffix(unit)?, *scale),
        None => (&*text, 1_000_000_000),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(scale)
}

/// Formats a time for fio: whole seconds without a unit.
pub(super) fn time_text(time_ns: u64) -> String {
    match time_ns {
        whole if whole.is_multiple_of(1_000_000_000) => (whole / 1_000_000_000).to_string(),
        other => format!("{}us", other / 1_000),
    }
}
