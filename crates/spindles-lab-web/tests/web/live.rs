//! A run that grows while it is watched.

use crate::public::folder::{Results, records};
use crate::public::http::get;
use spindles_lab::{Ending, RECORDS_FILE};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Waits until the page at `path` contains `text`: a live page is redrawn only after a rest.
fn wait_for(address: SocketAddr, path: &str, text: &str) {
    let begun = Instant::now();
    while !get(address, path).body.contains(text) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{path} never says {text}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_is_shown_while_it_grows_and_when_it_ends() {
    let results = Results::new();
    let records = records(2, 0);
    let (runs, head) = (&records[2..], &records[..2]);
    let address = results.serve();
    get(address, "/").says(200, &["No runs yet"]);
    let version = |path: &str| get(address, path).json()["page"].to_string();
    let none = version("/state");

    let mut file = results.going("now", head);
    assert_ne!(version("/state"), none);
    let state = get(address, "/runs/now/state");
    state.says(200, &[]);
    let state = state.json();
    assert_eq!(state["state"], "running");
    assert_eq!(
        state["details"],
        "block 1: raid5, seq-read, 5 of 8 runs done"
    );
    assert_eq!((&state["done"], &state["total"]), (&5.into(), &8.into()));
    get(address, "/runs/now/").says(
        200,
        &["Nothing is measured yet", "<b>Running</b>", "data-going>"],
    );

    // Progress changes the version of the list, but not the one of the report, which is large.
    let (list, page) = (version("/state"), version("/runs/now/state"));
    file.progress(6, 8, "block 1: raid6, seq-read");
    assert_ne!(version("/state"), list);
    assert_eq!(version("/runs/now/state"), page);
    assert_eq!(get(address, "/runs/now/state").json()["done"], 6);

    for record in &runs[..20] {
        file.add(record).unwrap();
    }
    wait_for(address, "/runs/now/", "id=\"overview\"");
    assert_ne!(version("/runs/now/state"), page);
    // Missing runs of a running experiment are no doubt.
    let is_doubted = |body: &str| {
        body.contains("A repetition block is incomplete") || body.contains("Fewer repetitions")
    };
    let page = get(address, "/runs/now/").body;
    assert!(!is_doubted(&page));
    // Planned runs don't count as measured, and no other system replaces a baseline that is yet to
    // run.
    assert!(page.contains("<dd>20 runs: ") && !page.contains("workloads × "));
    assert!(!page.contains("the first that ran it"));
    for record in &runs[20..] {
        file.add(record).unwrap();
    }
    // The next line is half written.
    let path = results.root().join("now").join(RECORDS_FILE);
    let mut half = OpenOptions::new().append(true).open(path).unwrap();
    half.write_all(b"{\"schema\":1,\"record\":\"ru").unwrap();
    wait_for(address, "/runs/now/", "2 repetition blocks");
    get(address, "/").says(200, &["One run, in progress", "2 of 2 blocks"]);

    // The end is visible at once.
    file.end(8, Ending::Finished);
    let page = get(address, "/runs/now/");
    page.says(200, &["<b>Finished</b>"]);
    assert!(!page.body.contains("data-going>"));
    assert_eq!(get(address, "/runs/now/state").json()["state"], "finished");
    get(address, "/").says(200, &["One run</h1>"]);
}

#[test]
fn runs_may_appear_and_disappear() {
    let results = Results::new();
    results.ended("one", &records(1, 0));
    let address = results.serve();
    get(address, "/runs/one/").says(200, &[]);
    std::fs::rename(results.root().join("one"), results.root().join("two")).unwrap();
    get(address, "/runs/one/").says(404, &[]);
    get(address, "/runs/two/").says(200, &[]);
    std::fs::remove_dir_all(results.root().join("two")).unwrap();
    results.ended("two", &records(3, 4));
    get(address, "/runs/two/").says(200, &["3 repetition blocks"]);
    std::fs::remove_dir_all(results.root()).unwrap();
    get(address, "/").says(200, &["Not readable"]);
}
