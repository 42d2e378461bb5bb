//! The options of fio that agents on nodes accept: only those known to be harmless. Others would
//! run programs or write to arbitrary files, which no controller may do through an agent.

use std::collections::BTreeMap;

/// The accepted options.
const OPTIONS: &[&str] = &[
    "bs",
    "bsrange",
    "direct",
    "end_fsync",
    "fdatasync",
    "fsync",
    "invalidate",
    "io_size",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete_min",
    "ioengine",
    "loops",
    "norandommap",
    "number_ios",
    "numjobs",
    "offset",
    "ramp_time",
    "random_distribution",
    "randrepeat",
    "randseed",
    "rate",
    "rate_iops",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "sync",
    "thinktime",
    "time_based",
];

/// Engines that only do I/O on the file.
const ENGINES: &[&str] = &[
    "io_uring", "libaio", "mmap", "posixaio", "psync", "pvsync", "pvsync2", "sync", "vsync",
];

/// Checks that agents accept these options of fio.
///
/// # Errors
/// The option that agents refuse, and the remedy.
pub(crate) fn check(options: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in options {
        if !OPTIONS.contains(&name.as_str()) {
            return Err(format!(
                "fio's {name} is not allowed on nodes: leave it out, or use any of {}",
                OPTIONS.join(", ")
            ));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || ".,:-_%".contains(c);
        if value.is_empty() || !value.chars().all(plain) {
            return Err(format!(
                "fio's {name} = {value} is not allowed on nodes: use letters, digits and .,:-_%"
            ));
        }
        if name == "ioengine" && !ENGINES.contains(&value.as_str()) {
            return Err(format!(
                "fio's ioengine {value} is not allowed on nodes: use one of {}",
                ENGINES.join(", ")
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_fio_options_are_passed_on() {
        let options =
            |name: &str, value: &str| check(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        for (name, value) in [
            ("rw", "randrw:8"),
            ("bs", "4k,64k"),
            ("ioengine", "io_uring"),
        ] {
            assert_eq!(options(name, value), Ok(()));
        }
        for (name, value) in [
            ("exec_prerun", "reboot"),
            ("filename", "a"),
            ("write_bw_log", "a"),
            ("ioengine", "external"),
            ("ioengine", "null"),
            ("bs", "4k --exec_prerun=reboot"),
            ("bs", "${HOME}"),
            ("size", "/dev/sda"),
            ("rw", ""),
        ] {
            let error = options(name, value).unwrap_err();
            assert!(error.contains("is not allowed on nodes"), "{error}");
        }
    }
}
