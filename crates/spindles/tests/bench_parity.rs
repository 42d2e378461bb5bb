//! `spindles bench parity`, run as a user types it.

use serde_json::Value;
use std::process::Command;

fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spindles"))
        .args(["bench", "parity", "--rounds", "1"])
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
    let (status, out, err) = bench(&["--chunk", "4K", "--data", "3"]);
    assert_eq!((status, err.as_str()), (Some(0), ""));
    assert!(
        out.starts_with("parity of 3 data chunks of 4 KiB, GB/s on one core"),
        "{out}"
    );
    let scalar = out.lines().filter(|line| line.starts_with("scalar"));
    assert_eq!(scalar.count(), 3, "{out}");
    assert!(out.contains("\narrays use: "), "{out}");

    let (status, out, _) = bench(&["--chunk", "4K", "--json"]);
    assert_eq!(status, Some(0));
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["chunk_bytes"], 4096);
    assert!(report["memcpy_bytes_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(report["rows"][0]["kernel"], "scalar");
    assert_eq!(report["rows"][0]["code"], "xor");
}

#[test]
fn invalid_arguments_are_refused() {
    for (arguments, message) in [
        (["--chunk", "65M"], "--chunk 65M: give a size from 1 to 64M"),
        (["--data", "62"], "62 is not in 1..=61"),
    ] {
        let (status, out, err) = bench(&arguments);
        assert_eq!((status, out.as_str()), (Some(2), ""));
        assert!(err.contains(message), "{err}");
    }
}
