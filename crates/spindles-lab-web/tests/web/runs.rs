//! The list, the reports, their files and comparisons.

use crate::public::example;
use crate::public::folder::{Results, records, serve};
use crate::public::http::get;
use spindles_lab::{Ending, RECORDS_FILE};
use spindles_lab_web::Limits;
use spindles_measure::{Record, to_line};
use spindles_report::OUTPUTS;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::Duration;

/// Returns the names of the runs in the list, from the top.
fn listed(page: &str) -> Vec<&str> {
    let values = page.split("name=\"run\" value=\"").skip(1);
    values.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn the_list_has_all_runs_newest_first_with_their_states() {
    let results = Results::new();
    results.ended("old", &records(3, 0));
    let mut failing = records(2, 5);
    for record in &mut failing {
        if let Record::Run(run) = record {
            run.failed = (run.system.name == "raid5").then(|| "no space".to_owned());
        }
    }
    results.ended("group/nested", &failing);
    results.ended_early("stopped", &records(2, 1), Ending::Interrupted);
    let no_room = Ending::Failed("no <room>".to_owned());
    results.ended_early("broke", &records(2, 2), no_room);
    results.ended_early("late", &records(2, 3), Ending::OutOfTime);
    results.killed("killed", &records(2, 4));
    // Stored by a version that wrote no state.
    results.ended("early & <b>", &records(1, 6));
    fs::remove_file(results.root().join("early & <b>/state.json")).unwrap();
    let going = results.going("going", &records(3, 0)[..40]);
    let address = results.serve();
    let page = get(address, "/");
    page.says(
        200,
        &[
            "8 runs, one of them in progress",
            "<b>Running</b> <span>block 1: raid5, seq-read, 5 of 8 runs done</span>",
            "<progress max=\"8\" value=\"5\">",
            "<b>Interrupted</b> <span>after 5 of 8 runs</span>",
            "<b>Failed</b> <span>after 5 of 8 runs: no &lt;room&gt;</span>",
            "<b>Ended by its time limit</b>",
            "<b>Cut short</b> <span>after 5 of 8 runs: killed, or the power failed</span>",
            "<b>Stored</b>",
            "<b>Finished</b> <span></span>",
            "<b>Finished</b> <span>14 of 126 runs failed</span>",
            "; 7 failed.",
            "<p class=\"about\">Scaled: 64 to 512 MiB a run",
            "3 of 3 blocks",
            "Against single",
        ],
    );
    let newest_first = [
        "going",
        "early &amp; &lt;b&gt;",
        "group/nested",
        "killed",
        "late",
        "broke",
        "stopped",
        "old",
    ];
    assert_eq!(listed(&page.body), newest_first);
    get(address, "/runs/early%20%26%20%3Cb%3E/").says(200, &["<h1>"]);
    let place = get(address, "/runs/group/nested");
    assert_eq!(
        (place.status, place.field("location")),
        (308, Some("/runs/group/nested/"))
    );
    get(address, "/runs/group/nested/").says(200, &["<h1>"]);
    get(address, "/runs/group/").says(404, &[]);
    drop(going);
}

#[test]
fn one_folder_of_results_is_a_list_of_one() {
    let results = Results::new();
    results.killed("", &records(1, 0));
    let address = results.serve();
    get(address, "/").says(200, &["One run", "href=\"/runs//\"", "results"]);
    get(address, "/runs//").says(200, &["<h1>"]);
    get(address, "/runs//state").says(200, &["cut_short"]);
}

/// Reading hundreds of runs takes a while: the list is sent before.
#[test]
fn the_list_does_not_wait_for_all_results() {
    let results = Results::new();
    for minute in 0..4 {
        results.ended(&format!("run{minute}"), &records(1, minute));
    }
    let limits = Limits {
        list: Duration::ZERO,
        ..Limits::default()
    };
    let address = serve(&results.root(), "127.0.0.1:0", limits);
    let mut versions = Vec::new();
    for unread in [3, 2, 1, 0, 0] {
        let page = get(address, "/").body;
        assert_eq!(page.matches("Not read yet").count(), unread);
        assert_eq!(listed(&page), ["run3", "run2", "run1", "run0"]);
        versions.push(get(address, "/state").body);
    }
    versions.dedup();
    assert_eq!(versions.len(), 4, "each look is news until all is read");
}

#[test]
fn unreadable_runs_are_listed_with_the_reason() {
    let results = Results::new();
    results.ended("good", &records(1, 0));
    let put = |name: &str, text: &[u8]| {
        let folder = results.root().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(RECORDS_FILE), text).unwrap();
        folder
    };
    put("song", b"la la <script>alert(1)</script>\n");
    put("later", b"{\"schema\":2,\"record\":\"run\"}\n");
    put("bytes", &[0xff; 5000]);
    put("empty", b"");
    let large = put("large", b"");
    let sparse = fs::File::options()
        .write(true)
        .open(large.join(RECORDS_FILE));
    sparse.unwrap().set_len(3 << 30).unwrap();
    fs::create_dir_all(results.root().join("folder/records.jsonl")).unwrap();
    fs::create_dir(results.root().join("pipe")).unwrap();
    let pipe = results.root().join("pipe/records.jsonl");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let odd = results.root().join(OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(odd).unwrap();
    // A folder without records is not listed.
    fs::create_dir(results.root().join("photos")).unwrap();
    fs::write(results.root().join("notes.txt"), "x").unwrap();
    let address = results.serve();
    let page = get(address, "/");
    page.says(
        200,
        &[
            "One run",
            "<dt>song</dt>",
            "line 1 is not a record",
            "<dt>later</dt>",
            "use a newer version",
            "<dt>bytes</dt>",
            "<dt>empty</dt>",
            "it contains no record",
            "larger than 1 GiB",
            "<dt>folder</dt><dd>records.jsonl is not a file",
            "<dt>pipe</dt><dd>records.jsonl is not a file",
            "rename the folder",
        ],
    );
    assert!(!page.body.contains("photos") && !page.body.contains("<script>alert"));
    for name in ["song", "later", "bytes", "large", "folder", "pipe"] {
        for of in ["", "records.jsonl", "report.json"] {
            let path = format!("/runs/{name}/{of}");
            assert_eq!(get(address, &path).status, 404, "{path}");
        }
    }
    get(address, "/runs/song/").says(404, &["song can’t be shown", "line 1 is not a record"]);
}

#[test]
fn every_report_format_is_downloadable() {
    let results = Results::new();
    results.ended("a \"run\"", &example::file_records(2));
    let address = results.serve();
    let at = |file: &str| get(address, &format!("/runs/a%20%22run%22/{file}"));
    let page = at("").body;
    for output in OUTPUTS {
        let file = at(&output.file_name.replace('+', "%2B"));
        assert_eq!(at(output.file_name).status, 200, "{}", output.name);
        let kept = format!("attachment; filename=\"a__run_-{}\"", output.file_name);
        assert_eq!(file.field("content-disposition"), Some(&*kept));
        assert!(
            page.contains(&format!(">{}</a>", output.name)),
            "{}",
            output.name
        );
    }
    assert_eq!(at("report.json").json()["schema"], "spindles.report");
    assert_eq!(
        at("report.json").field("content-type"),
        Some("application/json")
    );
    assert!(at("report.csv").body.lines().count() > 50);
    assert!(at("report.md").body.contains("| "));
    let records = fs::read_to_string(results.root().join("a \"run\"/records.jsonl")).unwrap();
    assert_eq!(at("records.jsonl").body, records);
    // The server offers the records as a file; the page does not embed them.
    assert!(!page.contains("id=\"data\"") && page.contains("id=\"overview\""));
}

#[test]
fn two_runs_are_compared_in_order_of_time() {
    let results = Results::new();
    results.ended("a", &records(3, 9));
    results.ended("b", &records(3, 1));
    let mut other = records(3, 5);
    for record in &mut other {
        match record {
            Record::Experiment(it) => it
                .workloads
                .iter_mut()
                .for_each(|workload| workload.in_flight_max += 7),
            Record::Run(run) => run.workload.in_flight_max += 7,
            _ => {}
        }
    }
    results.ended("deep", &other);
    let nothing: Vec<_> = records(1, 0).into_iter().take(1).collect();
    results.ended("empty", &nothing);
    let address = results.serve();
    for pair in ["run=a&run=b", "run=b&run=a"] {
        let page = get(address, &format!("/compare?{pair}"));
        page.says(
            200,
            &[
                "Before: <a href=\"/runs/b/\">b</a>",
                "After: <a href=\"/runs/a/\">a</a>",
            ],
        );
        assert!(!page.body.contains("different-work"));
    }
    let differs = get(address, "/compare?run=b&run=deep");
    differs.says(200, &["not compared: different work", "different-work=on"]);
    assert!(!differs.body.contains("--different-work"));
    let asked = get(address, "/compare?run=b&run=deep&different-work=on");
    asked.says(200, &["that alone may explain a change"]);
    for pair in [
        "",
        "?run=a",
        "?run=a&run=none",
        "?run=a&run=b&run=deep",
        "?run=..%2fa&run=a",
    ] {
        get(address, &format!("/compare{pair}")).says(400, &["Choose two runs"]);
    }
    // Neither run used bonnie++, so its form is not offered.
    let page = get(address, "/runs/a/");
    page.says(200, &["report.legacy.txt"]);
    assert!(!page.body.contains("report.bonnie"));
    let without = get(address, "/runs/a/report.bonnie++.csv");
    without.says(404, &["it has no runs for the format bonnie++"]);
    get(address, "/compare?run=a&run=empty").says(404, &["no result to compare"]);
    get(address, "/runs/empty/").says(200, &["The run ended before its first result"]);
    get(address, "/runs/empty/report.csv").says(404, &["nothing is measured yet"]);
    let text = fs::read_to_string(results.root().join("empty/records.jsonl")).unwrap();
    assert_eq!(text, to_line(&nothing[0]));
}
