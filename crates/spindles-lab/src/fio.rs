//! Driving fio: a well-kept tool is not rewritten. It is given a block device, or a file in a folder, and its
//! JSON is read.

use crate::evidence::Watched;
use crate::execute::Failure;
use crate::{tool, undo};
use serde_json::Value;
use spindles_block::SizeBytes;
use spindles_measure::{Histogram, Rate, Run};
use std::collections::BTreeMap;

/// What experiments call it.
pub const FIO: &str = "fio";

/// Options of fio, by their names, as they were given; the rest is chosen here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioWork {
    options: BTreeMap<String, String>,
}

/// What is chosen where nobody says otherwise.
const DEFAULTS: &[(&str, &str)] = &[
    ("bs", "4k"),
    ("direct", "1"),
    ("iodepth", "1"),
    ("ioengine", "libaio"),
    ("numjobs", "1"),
    ("runtime", "10"),
    ("size", "256m"),
];

impl FioWork {
    /// From what was given. `runtime_s` takes the place of its run time.
    ///
    /// # Errors
    /// What is wrong, and the remedy.
    pub(crate) fn new(
        mut options: BTreeMap<String, String>,
        runtime_s: Option<u64>,
        scale: f64,
    ) -> Result<Self, String> {
        if !options.contains_key("rw") {
            return Err(
                "fio needs to know what to do: parameters = { rw = \"randread\" }".to_owned(),
            );
        }
        for ours in ["filename", "directory", "output", "output-format", "name"] {
            if options.contains_key(ours) {
                return Err(format!("fio's {ours} is chosen by the lab: leave it out"));
            }
        }
        for (name, value) in DEFAULTS {
            options
                .entry((*name).to_owned())
                .or_insert_with(|| (*value).to_owned());
        }
        let runtime = options["runtime"].parse::<u64>();
        let runtime =
            runtime.map_err(|_| "fio's runtime is in seconds: give a number".to_owned())?;
        let scaled = spindles_workload::file::times(runtime, scale.min(1.0)).max(1);
        options.insert(
            "runtime".to_owned(),
            runtime_s.unwrap_or(scaled).to_string(),
        );
        Ok(Self { options })
    }

    /// Whether it only reads.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(self.options["rw"].as_str(), "read" | "randread")
    }

    /// What its result counts.
    pub(crate) fn rate(&self) -> Rate {
        if self.options["rw"].starts_with("rand") {
            Rate::Operations
        } else {
            Rate::Bytes
        }
    }

    pub(crate) fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    fn number(&self, name: &str) -> u64 {
        self.options[name].parse().unwrap_or(0)
    }

    /// Bytes of an operation, where that is one number.
    pub(crate) fn operation_bytes(&self) -> u64 {
        let size = self.options["bs"].to_uppercase().parse::<SizeBytes>();
        size.map_or(0, |size| size.0)
    }

    pub(crate) fn in_flight(&self) -> u32 {
        let all = self.number("iodepth") * self.number("numjobs");
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    pub(crate) fn runtime_ns(&self) -> u64 {
        self.number("runtime") * 1_000_000_000
    }

    /// How it is called for that device or file.
    pub(crate) fn arguments(&self, file: &str) -> Vec<String> {
        let mut arguments: Vec<String> = [
            "--name=lab",
            "--output-format=json+",
            "--time_based=1",
            "--group_reporting=1",
            "--thread=1",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--filename={file}"));
        arguments.extend(
            self.options
                .iter()
                .map(|(name, value)| format!("--{name}={value}")),
        );
        arguments
    }

    /// Bytes of the file that it works on, where it makes one.
    pub(crate) fn file_bytes(&self) -> u64 {
        // fio takes these too, and `SizeBytes` does not.
        let size = self.options["size"].to_uppercase();
        let size = size.trim_end_matches('B').trim_end_matches('I');
        size.parse::<SizeBytes>().map_or(0, |size| size.0)
    }

    /// Makes the file, which is no part of the work.
    pub(crate) fn lay_out(&self, file: &str) -> Result<(), Failure> {
        let mut arguments = self.arguments(file);
        arguments.push("--create_only=1".to_owned());
        undo::run(FIO, &arguments).map_err(Failure::Failed)?;
        let made = std::fs::File::open(file).and_then(|file| file.sync_all());
        made.map_err(|error| Failure::Failed(format!("{file}: {error}")))
    }

    /// Runs it on that device or file.
    pub(crate) fn run(
        &self,
        file: &str,
        watched: &Watched,
        idle_permille: u64,
        run: &mut Run,
    ) -> Result<(), Failure> {
        let arguments = self.arguments(file);
        let said = tool::timed(watched, idle_permille, run, || {
            undo::run(FIO, &arguments).map_err(Failure::Failed)
        })?;
        let version = tool::version(FIO, "--version");
        run.workload
            .parameters
            .insert("version".to_owned(), version);
        read(&said, run).map_err(Failure::Failed)
    }
}

/// Reads what fio printed into the record.
pub(crate) fn read(said: &str, run: &mut Run) -> Result<(), String> {
    // Notes may come before the document.
    let from = said.find('{').ok_or("fio printed no JSON")?;
    let document: Value = serde_json::from_str(&said[from..])
        .map_err(|error| format!("what fio printed is no JSON: {error}"))?;
    let job = &document["jobs"][0];
    if let Some(error) = job["error"].as_u64().filter(|error| *error != 0) {
        return Err(format!("fio says error {error}"));
    }
    let mut runtime_ms = 0;
    for (name, sum) in [
        ("read", &mut run.application.read),
        ("write", &mut run.application.written),
    ] {
        let side = &job[name];
        let number = |key: &str| side[key].as_u64().unwrap_or(0);
        *sum = number("io_bytes");
        run.operations += number("total_ios");
        runtime_ms = runtime_ms.max(number("runtime"));
        let mut latency = Histogram::new();
        let bins = side["clat_ns"]["bins"].as_object();
        for (value, count) in bins.into_iter().flatten() {
            let value = value.parse::<u64>().unwrap_or(0);
            latency.record_many(value, count.as_u64().unwrap_or(0));
        }
        if !latency.is_empty() {
            run.latency.insert(name.to_owned(), latency);
        }
    }
    if runtime_ms == 0 || run.operations == 0 {
        return Err("fio did nothing in its time: give it a longer runtime".to_owned());
    }
    run.elapsed_ns = runtime_ms * 1_000_000;
    run.counted = match run.workload.rate {
        Rate::Bytes => run.application.total(),
        Rate::Operations => run.operations,
    };
    // Shares of the time, in percent.
    let percent = |key: &str| job[key].as_f64().unwrap_or(0.0);
    let share = (percent("usr_cpu") + percent("sys_cpu")) / 100.0;
    let jobs = run.workload.parameters.get("numjobs");
    let jobs = jobs.and_then(|it| it.parse::<u64>().ok()).unwrap_or(1);
    run.cpu_ns.workload = spindles_workload::file::times(run.elapsed_ns * jobs, share);
    run.cpu_ns.machine = run
        .cpu_ns
        .machine
        .max(run.cpu_ns.workload + run.cpu_ns.engine);
    if let Some(evidence) = &mut run.evidence {
        evidence.actors = run.workload.in_flight_max;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_prints_is_read() {
        let said = "note: both iodepth >= 1\n{\"jobs\": [{\"error\": 0, \"usr_cpu\": 10.0, \"sys_cpu\": 15.0, \
                    \"read\": {\"io_bytes\": 40960, \"total_ios\": 10, \"runtime\": 2000, \
                    \"clat_ns\": {\"bins\": {\"1000\": 7, \"64000\": 3}}}, \
                    \"write\": {\"io_bytes\": 0, \"total_ios\": 0, \"runtime\": 0}}]}";
        let mut run = Run::default();
        run.workload.rate = Rate::Operations;
        read(said, &mut run).unwrap();
        assert_eq!(
            (run.operations, run.counted, run.elapsed_ns),
            (10, 10, 2_000_000_000)
        );
        assert_eq!(
            (run.application.read, run.latency["read"].total()),
            (40960, 10)
        );
        assert_eq!(run.cpu_ns.workload, 500_000_000);
        for (said, words) in [
            ("fio: file not found", "no JSON"),
            ("{\"jobs\": [{\"error\": 5}]}", "error 5"),
            ("{\"jobs\": [{}]}", "did nothing"),
        ] {
            let error = read(said, &mut Run::default()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn its_options_are_checked() {
        let options = |text: &str| {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let work = FioWork::new(options("rw=randrw bs=16k iodepth=8 numjobs=2"), None, 0.1);
        let work = work.unwrap();
        assert!(!work.only_reads());
        assert_eq!(
            (work.rate(), work.operation_bytes()),
            (Rate::Operations, 16384)
        );
        assert_eq!((work.in_flight(), work.runtime_ns()), (16, 1_000_000_000));
        let seconds = FioWork::new(options("rw=read"), Some(7), 1.0).unwrap();
        assert_eq!(
            (seconds.only_reads(), seconds.runtime_ns()),
            (true, 7_000_000_000)
        );
        for (text, words) in [
            ("bs=4k", "needs to know what to do"),
            ("rw=read filename=/dev/sda", "chosen by the lab"),
            ("rw=read runtime=5m", "in seconds"),
        ] {
            let error = FioWork::new(options(text), None, 1.0).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
