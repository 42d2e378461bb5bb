//! Options of fio, checked and completed.

use super::options::{Fate, canonical, fate, is_synchronous, number, rivals, time_ns, time_text};
use spindles_measure::Rate;
use std::collections::BTreeMap;

/// The name of the workload in experiments.
pub const FIO: &str = "fio";

/// Options of fio by their first names, as given; the lab chooses the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioWork {
    options: BTreeMap<String, String>,
}

/// Where options come from, which determines the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The parameters of an experiment: the lab's defaults.
    Parameters,
    /// A job file: fio's own defaults.
    JobFile,
}

/// The default of an option.
struct Default {
    name: &'static str,
    /// For parameters of an experiment.
    lab: &'static str,
    /// For job files.
    fio: &'static str,
    /// Options that suppress this default.
    unless: &'static [&'static str],
}

impl Default {
    const fn new(
        name: &'static str,
        lab: &'static str,
        fio: &'static str,
        unless: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            lab,
            fio,
            unless,
        }
    }
}

const DEFAULTS: &[Default] = &[
    Default::new("bs", "4k", "4k", &["bsrange", "bssplit"]),
    Default::new("direct", "1", "0", &["atomic", "buffered"]),
    Default::new("iodepth", "1", "1", &[]),
    Default::new("ioengine", "libaio", "psync", &[]),
    Default::new("numjobs", "1", "1", &[]),
    Default::new("size", "256m", "256m", &[]),
    Default::new("time_based", "1", "0", AMOUNTS),
];

/// Options that end a run by its work, which a run for a time would ignore.
const AMOUNTS: &[&str] = &["fill_device", "io_size", "loops", "number_ios"];

/// Default run time of timed runs, in seconds.
const RUNTIME_DEFAULT: &str = "10";

const SECOND_NS: u64 = 1_000_000_000;

impl FioWork {
    /// Checks the given options and adds defaults. `runtime_s` overrides the run time.
    ///
    /// # Errors
    /// The mistake and the remedy.
    pub(crate) fn new(
        given: BTreeMap<String, String>,
        source: Source,
        runtime_s: Option<u64>,
        scale: f64,
    ) -> Result<Self, String> {
        let mut options = by_first_names(given)?;
        check_direction(&options)?;
        for default in DEFAULTS {
            if !default
                .unless
                .iter()
                .any(|option| options.contains_key(*option))
            {
                let value = match source {
                    Source::Parameters => default.lab,
                    Source::JobFile => default.fio,
                };
                let entry = options.entry(default.name.to_owned());
                entry.or_insert_with(|| value.to_owned());
            }
        }
        if source == Source::JobFile {
            let entry = options.entry("invalidate".to_owned());
            entry.or_insert_with(|| "1".to_owned());
        }
        let mut work = Self { options };
        is_synchronous(work.option("ioengine"))?;
        for name in ["iodepth", "numjobs"] {
            let value = work.option(name);
            if number(value).is_none_or(|count| count == 0) {
                return Err(format!(
                    "fio's {name} = {value} is not possible: give a whole number above 0"
                ));
            }
        }
        let size = work.option("size");
        if number(size).is_none_or(|bytes| bytes == 0) && !size.ends_with('%') {
            return Err(format!(
                "fio's size = {size} is not possible: give a size such as 256m, or a share such as \
                 50%"
            ));
        }
        if work.is_timed() {
            let entry = work.options.entry("runtime".to_owned());
            entry.or_insert_with(|| RUNTIME_DEFAULT.to_owned());
        }
        if let Some(runtime) = work.options.get("runtime") {
            let given_ns = time_ns(runtime).filter(|time| *time > 0);
            let given_ns = given_ns.ok_or_else(|| {
                format!(
                    "fio's runtime = {runtime} is not possible: give seconds, or a time such \
                    as 90s or 5m"
                )
            })?;
            let scaled = spindles_workload::file::times(given_ns, scale.min(1.0));
            let scaled = scaled.max(given_ns.min(SECOND_NS));
            let chosen = runtime_s.map(|seconds| seconds.saturating_mul(SECOND_NS));
            let text = time_text(chosen.unwrap_or(scaled));
            work.options.insert("runtime".to_owned(), text);
        }
        Ok(work)
    }

    /// Returns an option that was given or has a default; empty if there is none.
    fn option(&self, name: &str) -> &str {
        self.options.get(name).map_or("", String::as_str)
    }

    /// Returns true if it runs for a time, whatever its work.
    fn is_timed(&self) -> bool {
        self.options
            .get("time_based")
            .is_some_and(|option| option != "0")
    }

    /// Returns the kind of I/O: `randread` of `randread:8`.
    fn direction(&self) -> &str {
        direction_of(self.option("rw"))
    }

    /// Returns true if it only reads.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.direction(), "read" | "randread")
    }

    /// Returns the unit of its result.
    pub(crate) fn rate(&self) -> Rate {
        if self.direction().starts_with("rand") {
            Rate::Operations
        } else {
            Rate::Bytes
        }
    }

    /// Returns its options by their first names, with the defaults.
    pub fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    fn number(&self, name: &str) -> u64 {
        number(self.option(name)).unwrap_or(0)
    }

    /// Returns the bytes of an operation; 0 if they vary.
    pub(crate) fn operation_bytes(&self) -> u64 {
        self.number("bs")
    }

    pub(crate) fn in_flight(&self) -> u32 {
        let each = match is_synchronous(self.option("ioengine")) {
            Ok(true) => 1,
            _ => self.number("iodepth"),
        };
        let all = each.saturating_mul(self.number("numjobs"));
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Summarizes the workload in one line.
    pub(crate) fn summary(&self) -> String {
        let mut sizes = ["bs", "bsrange", "bssplit"].into_iter();
        let size = sizes.find_map(|name| self.options.get(name));
        let (rw, size) = (self.option("rw"), size.map_or("", String::as_str));
        format!("fio: {rw} of {size}, {} in flight", self.in_flight())
    }

    /// Returns true if the lab drops the file from the cache once before the run. fio by itself
    /// drops it after each pass over the file, so repeated reads would never hit the cache.
    pub(crate) fn empties_cache_once(&self) -> bool {
        !self.options.contains_key("invalidate")
    }

    /// Returns how long it runs; 0 if its work ends it.
    pub(crate) fn runtime_ns(&self) -> u64 {
        let runtime_ns = time_ns(self.option("runtime"));
        runtime_ns.filter(|_| self.is_timed()).unwrap_or(0)
    }

    /// Returns fio's arguments for that device or file.
    ///
    /// # Errors
    /// When fio would work on another file.
    pub(crate) fn arguments(&self, file: &str) -> Result<Vec<String>, String> {
        if file.contains(COMMENT) {
            return Err(format!(
                "{file}: fio takes what follows # or ; as a comment: choose a path without them"
            ));
        }
        let mut arguments: Vec<String> = [
            "--name=lab",
            "--output-format=json+",
            "--group_reporting=1",
            "--lat_percentiles=1",
        ]
        .map(str::to_owned)
        .into();
        if !self.options.contains_key("thread") {
            arguments.push("--thread=1".to_owned());
        }
        if self.empties_cache_once() {
            arguments.push("--invalidate=0".to_owned());
        }
        // A colon would begin another file name.
        arguments.push(format!("--filename={}", file.replace(':', "\\:")));
        // fio knows the options of an engine only after `ioengine`.
        arguments.push(format!("--ioengine={}", self.option("ioengine")));
        let others = self.options.iter().filter(|(name, _)| *name != "ioengine");
        arguments.extend(others.map(|(name, value)| match &**value {
            "" => format!("--{name}"),
            value => format!("--{name}={value}"),
        }));
        Ok(arguments)
    }

    /// Returns the bytes of the file that fio creates; 0 if the size is a share of a device.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.number("size")
    }

    /// Returns the share of the device that fio uses, in percent; 0 if the size is in bytes.
    pub(crate) fn share_percent(&self) -> u64 {
        let share = self.option("size").strip_suffix('%');
        let percent: Option<u64> = share.and_then(|share| share.parse().ok());
        percent.unwrap_or(0).min(100)
    }
}

/// Characters that begin a comment in values, on the command line too.
const COMMENT: [char; 2] = ['#', ';'];

/// Renames options to their first names. Refuses an option given twice.
fn by_first_names(given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    let mut options = BTreeMap::new();
    for (name, value) in given {
        let (first, value) = canonical(&name, &value);
        match fate(&first) {
            Fate::Passed => {}
            Fate::Chosen => return Err(format!("fio's {name} is chosen by the lab: leave it out")),
            Fate::Refused(why) => {
                return Err(format!(
                    "fio's {name} is not supported, {why}: leave it out"
                ));
            }
        }
        if value.contains(COMMENT) || value.contains('\n') {
            return Err(format!(
                "fio's {name} = {value}: fio takes what follows # or ; as a comment: leave these \
                 out"
            ));
        }
        for rival in rivals(&first) {
            if let Some(other) = named.get(&rival) {
                return Err(format!(
                    "fio's {other} and {name} say the same thing: leave one of them out"
                ));
            }
        }
        named.insert(first.clone(), name);
        options.insert(first, value);
    }
    Ok(options)
}

fn direction_of(rw: &str) -> &str {
    rw.split(':').next().unwrap_or_default()
}

/// Refuses work that has no figures in a record.
fn check_direction(options: &BTreeMap<String, String>) -> Result<(), String> {
    let Some(rw) = options.get("rw") else {
        return Err("fio needs to know what to do: parameters = { rw = \"randread\" }".to_owned());
    };
    if direction_of(rw).contains("trim") {
        return Err(format!(
            "fio's rw = {rw} is not supported, because records have no figures for trims: use \
             read, write, rw, randread, randwrite or randrw"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pairs.collect()
    }

    fn of(text: &str) -> Result<FioWork, String> {
        FioWork::new(options(text), Source::Parameters, None, 1.0)
    }

    #[test]
    fn fio_options_are_checked() {
        let given = options("rw=randrw bs=16k iodepth=8 numjobs=2");
        let work = FioWork::new(given, Source::Parameters, None, 0.1).unwrap();
        assert!(!work.only_reads());
        assert_eq!(
            (work.rate(), work.operation_bytes()),
            (Rate::Operations, 16384)
        );
        assert_eq!((work.in_flight(), work.runtime_ns()), (16, SECOND_NS));
        let given = options("rw=read:8k timeout=5m");
        let seconds = FioWork::new(given, Source::Parameters, Some(7), 1.0).unwrap();
        assert_eq!(
            (seconds.only_reads(), seconds.runtime_ns()),
            (true, 7 * SECOND_NS)
        );
        for (text, words) in [
            ("bs=4k", "needs to know what to do"),
            ("rw=read filename=/dev/sda", "chosen by the lab"),
            (
                "rw=read wait_for_previous=1",
                "wait_for_previous is chosen by the lab",
            ),
            ("rw=read runtime=5x", "give seconds, or a time"),
            ("rw=read runtime=0", "give seconds, or a time"),
            (
                "rw=read bs=4k blocksize=8k",
                "blocksize and bs say the same",
            ),
            (
                "rw=read blocksize=4k bssplit=4k/50:8k/50",
                "blocksize and bssplit say the same",
            ),
            (
                "rw=read direct=1 buffered=1",
                "buffered and direct say the same",
            ),
            ("rw=randtrim", "no figures for trims"),
            (
                "rw=read ioengine=null",
                "does not read and write the system",
            ),
            ("rw=read iodepth=0", "iodepth = 0 is not possible"),
            ("rw=read size=0", "size = 0 is not possible"),
            ("rw=read read_iolog=log", "read_iolog is not supported"),
            ("rw=read description=a#b", "as a comment"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    /// The default of an option's first name must not override a value given by its second name.
    #[test]
    fn every_alias_of_an_option_is_recognized() {
        for (text, expected) in [
            ("rw=read", "bs=4k direct=1 time_based=1 runtime=10"),
            ("readwrite=read", "rw=read bs=4k"),
            ("rw=read blocksize=64k", "bs=64k"),
            ("rw=read blocksize_range=4k-8k", "bsrange=4k-8k"),
            ("rw=read buffered=1", "direct=0"),
            ("rw=read buffered=0", "direct=1"),
            ("rw=read timeout=1500ms", "runtime=1500000us"),
            ("rw=read io_limit=1g", "io_size=1g"),
        ] {
            let work = of(text).unwrap();
            for (name, value) in options(expected) {
                assert_eq!(work.options.get(&name), Some(&value), "{text}");
            }
        }
        let without =
            |text: &str, name: &str| assert!(!of(text).unwrap().options.contains_key(name));
        without("rw=read bssplit=4k/50:8k/50", "bs");
        without("rw=read loops=2", "runtime");
        without("rw=read loops=2", "time_based");
        let in_flight = |text: &str| of(text).unwrap().in_flight();
        assert_eq!(in_flight("rw=read ioengine=psync iodepth=8 numjobs=3"), 3);
        assert_eq!(in_flight("rw=read iodepth=0x10 numjobs=1k"), 16 << 10);
        assert_eq!(
            in_flight("rw=read iodepth=9999999999999999999 numjobs=9"),
            u32::MAX
        );
        let job = FioWork::new(options("rw=read"), Source::JobFile, None, 1.0).unwrap();
        assert_eq!(
            (job.option("ioengine"), job.option("direct")),
            ("psync", "0")
        );
        assert_eq!(job.runtime_ns(), 0);
        // An agent receives all of them, and must come to the same result.
        let again = FioWork::new(job.options.clone(), Source::Parameters, None, 1.0);
        assert_eq!(again, Ok(job));
    }

    /// Compares the lab's second names of options with those of the installed fio.
    #[test]
    fn installed_fio_knows_all_option_names() {
        let help = |name: &str| {
            let fio = std::process::Command::new(FIO)
                .arg(format!("--cmdhelp={name}"))
                .output();
            fio.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        if help("rw").is_err() {
            return println!("SKIPPED: installed_fio_knows_all_option_names: fio is not installed");
        }
        let defaults = DEFAULTS.iter().map(|default| default.name);
        let others = ["rw", "runtime", "bsrange", "bssplit", "invalidate"];
        for name in defaults.chain(others).chain(AMOUNTS.iter().copied()) {
            let output = help(name).unwrap();
            let field = |key: &str| {
                let mut lines = output.lines().filter_map(|line| line.split_once(':'));
                let found = lines.find(|(found, _)| found.trim() == key);
                found.map(|(_, value)| value.trim().to_owned())
            };
            assert!(field(name).is_some(), "{output}");
            if let Some(second) = field("alias") {
                assert_eq!(canonical(&second, "").0, name, "{output}");
            }
        }
    }

    #[test]
    fn a_cache_is_emptied_once() {
        let given =
            |source| FioWork::new(options("rw=read buffered=1"), source, None, 1.0).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let keeps = |work: &FioWork| {
            let arguments = work.arguments(path).unwrap();
            arguments.contains(&"--invalidate=0".to_owned())
        };
        let (own, of_job) = (given(Source::Parameters), given(Source::JobFile));
        assert_eq!((keeps(&own), keeps(&of_job)), (true, false));
    }

    #[test]
    fn fio_gets_the_path_of_its_target() {
        let work = of("rw=read").unwrap();
        let arguments = work.arguments("/mnt/a:b/fio").unwrap();
        assert!(arguments.contains(&"--filename=/mnt/a\\:b/fio".to_owned()));
        assert!(work.arguments("/mnt/a#b/fio").is_err());
    }
}
