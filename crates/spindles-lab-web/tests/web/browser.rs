//! The pages in a real browser: at any size, in light and dark, and while a run grows. Needs
//! Chromium.

use crate::public::folder::{Results, records};
use spindles_browser::{Browser, Scheme};
use spindles_lab::Ending;

/// Panics if the open page has faults or complaints. Returns its background colour.
fn holds(browser: &mut Browser, what: &str) -> String {
    let looks = browser.looks();
    assert_eq!(looks.faults, [""; 0], "{what}");
    assert_eq!(browser.complaints(), [""; 0], "{what}");
    looks.background
}

#[test]
fn pages_work_in_a_browser_and_show_a_live_run() {
    let Some(mut browser) = Browser::start() else {
        println!("SKIPPED: pages_work_in_a_browser_and_show_a_live_run: chromium is not installed");
        return;
    };
    let results = Results::new();
    results.ended(
        "a-name-as-long-as-names-of-experiments-with-dates-in-them-may-become-20261121-204501",
        &records(2, 0),
    );
    results
        .going("stopped", &records(2, 1))
        .end(5, Ending::Failed("no room ".repeat(20)));
    std::fs::create_dir(results.root().join("broken")).unwrap();
    std::fs::write(results.root().join("broken/records.jsonl"), "no\n").unwrap();
    let all = records(3, 2);
    let mut file = results.going("now", &all[..60]);
    let url = format!("http://{}", results.serve());
    let pages = ["/", "/runs/now/", "/compare?run=stopped&run=now"];
    let mut grounds = Vec::new();
    for (width, scheme, pages) in [
        (1280, Scheme::Light, &pages[..]),
        (390, Scheme::Dark, &pages[..]),
        (1280, Scheme::Dark, &pages[..1]),
        (390, Scheme::Light, &pages[..1]),
    ] {
        browser.look(width, 900, scheme);
        for path in pages {
            browser.open(&format!("{url}{path}"));
            let what = format!("{path} at {width}, {scheme:?}");
            grounds.push(holds(&mut browser, &what));
        }
    }
    assert_ne!(grounds[0], grounds[3], "light and dark look the same");

    // The run grows: the reader's open details and scroll position stay.
    browser.open(&format!("{url}/runs/now/"));
    browser
        .value("document.querySelectorAll('#doubts details').forEach((it) => { it.open = true; })");
    browser.value(
        "document.querySelector('#doubts h2').scrollIntoView(); scrollBy(0, -290); window.mine = \
         true",
    );
    let place = "document.querySelector('#doubts h2').getBoundingClientRect().top";
    let open = "document.querySelectorAll('details[open]').length";
    let (top, opened) = (browser.value(place).as_f64().unwrap(), browser.value(open));
    assert_ne!(opened, 0);
    let extent = browser.value("document.querySelector('.kicker').textContent");
    for record in &all[60..] {
        file.add(record).unwrap();
    }
    file.progress(7, 8, "block 3: raid6, seeks");
    browser
        .wait_for("document.querySelector('#live').textContent.includes('raid6, seeks, 7 of 8')");
    browser.wait_for(&format!(
        "document.querySelector('.kicker').textContent !== {extent}"
    ));
    file.end(8, Ending::Finished);
    browser.wait_for("document.querySelector('#live').textContent.includes('Finished')");
    let moved = browser.value(place).as_f64().unwrap() - top;
    assert!(
        moved.abs() < 2.0,
        "the page moved by {moved} under its reader"
    );
    assert_eq!(browser.value(open), opened, "something closed or opened");
    assert_eq!(browser.value("window.mine"), true, "the page was reloaded");
    holds(&mut browser, "the run that ended");

    // The list shows new runs, and keeps ticked boxes.
    browser.open(&url);
    browser.value("document.querySelector('[value=stopped]').checked = true; window.mine = true");
    drop(results.going("another", &all[..3]));
    browser.wait_for("document.querySelectorAll('.runs > li').length === 4");
    assert_eq!(
        browser.value("document.querySelector('[value=stopped]').checked && window.mine"),
        true
    );
    holds(&mut browser, "the list that grew");

    // Without scripts, the page is complete too.
    browser.scripts(false);
    browser.open(&format!("{url}/runs/now/"));
    assert_eq!(
        browser.value("document.querySelectorAll('section').length > 5"),
        true
    );
}
