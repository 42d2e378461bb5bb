//! Reads fio's output into the record of a run.

use serde_json::Value;
use spindles_measure::{Histogram, Rate, Run};

/// Fills in the record. Leaves it without a time if there is no result.
///
/// # Errors
/// Why there is no result.
pub(crate) fn read(said: &str, run: &mut Run) -> Result<(), String> {
    // Notes may precede and follow the document.
    let from = said.find("{\n").or_else(|| said.find('{'));
    let from = from.ok_or("fio printed no JSON")?;
    let mut documents = serde_json::Deserializer::from_str(&said[from..]).into_iter::<Value>();
    let document = documents.next().ok_or("fio printed no JSON")?;
    let document = document.map_err(|error| format!("fio's output is not JSON: {error}"))?;
    let job = &document["jobs"][0];
    let count = |key: &str| job[key].as_u64().unwrap_or(0);
    // Errors skipped by `continue_on_error` and `ignore_error` count, too.
    if let (Some(code), _) | (None, Some(code)) =
        (above_zero(&job["error"]), above_zero(&job["first_error"]))
    {
        let code = i32::try_from(code).unwrap_or(0);
        let first = std::io::Error::from_raw_os_error(code);
        return Err(match count("total_err") {
            0 => format!("fio failed: {first}"),
            1 => format!("fio had an I/O error: {first}"),
            many => format!("fio had {many} I/O errors, first: {first}"),
        });
    }
    let mut runtime_ms = 0;
    let mut operations = 0;
    for (name, sum) in [
        ("read", &mut run.application.read),
        ("write", &mut run.application.written),
    ] {
        let side = &job[name];
        let number = |key: &str| side[key].as_u64().unwrap_or(0);
        *sum = number("io_bytes");
        operations += number("total_ios");
        runtime_ms = runtime_ms.max(number("runtime"));
        let mut latency = Histogram::new();
        // Latency since submission: synchronous engines wait for the device in the submission.
        let bins = side["lat_ns"]["bins"].as_object();
        for (value, count) in bins.into_iter().flatten() {
            let value = value.parse::<u64>().unwrap_or(0);
            latency.record_many(value, count.as_u64().unwrap_or(0));
        }
        if !latency.is_empty() {
            run.latency.insert(name.to_owned(), latency);
        }
    }
    if runtime_ms == 0 || operations == 0 {
        return Err("fio finished no operation in its time: give it a longer runtime".to_owned());
    }
    run.operations = operations;
    run.counted = match run.workload.rate {
        Rate::Bytes => run.application.total(),
        Rate::Operations => run.operations,
    };
    let elapsed_ns = runtime_ms * 1_000_000;
    // Shares of the time, in percent.
    let percent = |key: &str| job[key].as_f64().unwrap_or(0.0);
    let share = (percent("usr_cpu") + percent("sys_cpu")) / 100.0;
    let jobs = run.workload.parameters.get("numjobs");
    let jobs = jobs.and_then(|jobs| jobs.parse::<u64>().ok()).unwrap_or(1);
    run.cpu_ns.workload = spindles_workload::file::times(elapsed_ns * jobs, share);
    run.cpu_ns.machine = run
        .cpu_ns
        .machine
        .max(run.cpu_ns.workload + run.cpu_ns.engine);
    if let Some(evidence) = &mut run.evidence {
        evidence.actors = run.workload.in_flight_max;
    }
    run.elapsed_ns = elapsed_ns;
    Ok(())
}

fn above_zero(value: &Value) -> Option<u64> {
    value.as_u64().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_output_is_parsed() {
        // One operation in flight, 10 operations in 2 s: the submissions took the time.
        let output = r#"note: {both} iodepth >= 1
{
"jobs": [{
    "error": 0, "usr_cpu": 10.0, "sys_cpu": 15.0,
    "read": {
        "io_bytes": 40960, "total_ios": 10, "runtime": 2000,
        "slat_ns": {"mean": 198000000},
        "clat_ns": {"bins": {"1000": 7, "64000": 3}},
        "lat_ns": {"bins": {"198001000": 7, "198064000": 3}}
    },
    "write": {"io_bytes": 0, "total_ios": 0, "runtime": 0}
}]}
fio: a note
"#;
        let mut run = Run::default();
        run.workload.rate = Rate::Operations;
        read(output, &mut run).unwrap();
        assert_eq!(
            (run.operations, run.counted, run.elapsed_ns),
            (10, 10, 2_000_000_000)
        );
        assert_eq!(
            (run.application.read, run.latency["read"].total()),
            (40960, 10)
        );
        let mean_ns = run.latency["read"].mean();
        assert!((190e6..=200e6).contains(&mean_ns), "{mean_ns}");
        assert_eq!(run.cpu_ns.workload, 500_000_000);
    }

    #[test]
    fn missing_fio_results_report_the_reason() {
        for (output, words) in [
            ("fio: file not found", "no JSON"),
            ("{\"jobs\": [{\"error\": 5}]}", "failed: Input/output error"),
            (
                "{\"jobs\": [{\"error\": 0, \"total_err\": 7, \"first_error\": 5, \
                 \"read\": {\"total_ios\": 9, \"runtime\": 9}}]}",
                "7 I/O errors, first: Input/output error",
            ),
            ("{\"jobs\": [{}]}", "finished no operation"),
            (
                "{\"jobs\": [{\"mixed\": {\"total_ios\": 9, \"runtime\": 9}}]}",
                "finished no operation",
            ),
        ] {
            let mut run = Run::default();
            let error = read(output, &mut run).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert_eq!(run.elapsed_ns, 0, "it is none that was measured: {output}");
        }
    }
}
