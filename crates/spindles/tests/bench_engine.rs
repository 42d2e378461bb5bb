//! `spindles bench engine`, run as a user types it.

use serde_json::Value;
use std::process::Command;

fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["bench", "engine", "--size", "2M", "--slice", "1"])
        .args(arguments)
        .output()
        .expect("the command runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn a_table_and_json_report_the_measurements() {
    let (status, out, _) = bench(&["raid5(3)", "device"]);
    assert_eq!(status, Some(0));
    let rows: Vec<Vec<&str>> = out
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().take(4).collect())
        .collect();
    for row in [
        ["raid5(3)", "null", "healthy", "none"],
        ["raid5(3)", "null", "degraded", "none"],
        ["raid5(3)", "mem", "healthy", "none"],
        ["raid5(3)", "mem", "healthy", "default"],
        ["raid5(3)", "mem", "healthy", "ratio"],
        ["raid5(3)", "mem", "degraded", "default"],
        ["device", "null", "healthy", "none"],
        ["device", "mem", "healthy", "none"],
    ] {
        assert!(rows.iter().any(|found| found == &row), "{row:?} in {out}");
    }

    let (status, out, _) = bench(&["raid1(2)", "--members", "null", "--json"]);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    assert_eq!(rows[0]["work"], "read 4 KiB");
    assert_eq!(rows[0]["promises"], "none");
    assert_eq!(rows[0]["ratio"], Value::Null);
    assert_eq!(rows[0]["request_bytes"], 4096);
    assert!(
        rows.iter()
            .all(|row| row["requests_per_s"].as_u64() > Some(0))
    );
}

#[test]
fn default_promises_are_compared_with_none() {
    let (status, out, _) = bench(&["raid1(2)", "--members", "mem", "--json"]);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 24);
    for row in rows {
        let is_default = row["promises"] == "default";
        assert_eq!(row["ratio"].as_f64() > Some(0.0), is_default, "{row}");
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let (status, out, err) = bench(&["raid6(2)"]);
    assert_eq!((status, out.as_str()), (Some(2), ""));
    assert!(err.contains("raid6"), "{err}");
    let (status, _, err) = bench(&["raid9(4)"]);
    assert_eq!(status, Some(2));
    assert!(err.contains("raid9"), "{err}");
}
