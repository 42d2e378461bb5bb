//! Tests the page in a real browser: no network requests; nothing cut off or scrolled sideways on a
//! screen or a phone; contrast in light and dark; complete without scripts; few pages on paper.
//! Needs Chromium.

use std::fs;
use std::process::{Command, Stdio};

use super::example;
use serde_json::Value;
use spindles_browser::{Browser, Scheme};
use spindles_measure::{Analysis, Record};
use spindles_report::{Options, outputs};

/// Script that measures a page.
const PROBE: &str = r#"(() => {
// Folded parts must fit too; doubts stay folded.
document.querySelectorAll(".chart details, .legacy details, .fold, .fold details")
  .forEach((it) => { it.open = true; });
let overflowing = [];
for (const text of document.querySelectorAll("svg text")) {
  const box = text.getBoundingClientRect();
  const frame = text.closest("figure").getBoundingClientRect();
  if (box.left < frame.left || box.right > frame.right) overflowing.push(text.textContent);
}
const crossing = [];
const reportCrossing = (svg, text, other) =>
  crossing.push(`${svg.getAttribute("aria-label").slice(0, 40)}: ${text.textContent} on ${other}`);
const overlap = (a, b) => [
  Math.min(a.right, b.right) - Math.max(a.left, b.left),
  Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top),
];
for (const svg of document.querySelectorAll("svg[role=img]")) {
  const texts = [...svg.querySelectorAll("text")]
    .map((text) => [text, text.getBoundingClientRect()]);
  for (const [at, [text, a]] of texts.entries()) {
    for (const [other, b] of texts.slice(at + 1)) {
      const [wide, high] = overlap(a, b);
      // Boxes are higher than letters.
      if (wide > 1 && high > 4) reportCrossing(svg, text, other.textContent);
    }
  }
}
// Nor does a text lie on the end of an interval.
for (const svg of document.querySelectorAll("svg[role=img]")) {
  const ends = [...svg.querySelectorAll(".whisker")].map((line) => line.getBoundingClientRect());
  for (const text of svg.querySelectorAll("text")) {
    const a = text.getBoundingClientRect();
    const lies = ends.map((b) => overlap(a, b)).some(([wide, high]) => wide >= 0 && high > 4);
    if (lies) reportCrossing(svg, text, "an interval");
  }
}
// Labels of cards side by side, which nothing but room keeps apart.
const touching = [];
for (const row of document.querySelectorAll(".glance tbody tr")) {
  const cells = [...row.querySelectorAll("td")]
    .filter((cell) => getComputedStyle(cell).display === "block");
  for (const [at, cell] of cells.entries()) {
    const [a, b] = [cell, cells[at + 1]].map((it) => it?.getBoundingClientRect());
    if (b && a.top === b.top && b.left - a.right < 8) touching.push(cell.dataset.column);
  }
}
const all = (selector) => [...document.querySelectorAll(selector)];
const result = {
  cut: all("svg text").map((text) => text.textContent).filter((text) => text.includes("…")),
  legends: all(".legend").length - all("figure > .fold > .legend").length,
  bare: all("figure:has(svg)").filter((figure) => !figure.querySelector(".legend li")).length,
  doubts: all(".doubts > li").filter((doubt) => doubt.checkVisibility()).length,
  folded: all("details .doubts > li").length,
  requests: performance.getEntriesByType("resource").map((entry) => entry.name),
  button: !document.getElementById("download").hidden,
  records: JSON.parse(document.getElementById("data").textContent).length,
  svgs: all("svg[role=img][aria-label] > title").length,
  unnamed: all("svg:not([aria-label]):not([aria-hidden])").length,
  headless: all("td").filter((td) => !td.closest("tr").querySelector("th[scope=row]")).length,
  dead: all("a[href^='#']").map((a) => a.hash).filter((hash) => !document.querySelector(hash)),
  overflowing,
  crossing,
  touching,
  sections: all("section").map((section) => section.id),
};
return result;
})()"#;

/// The page of an example, with names that a careless experiment might have.
fn page(mut records: Vec<Record>) -> String {
    for record in &mut records {
        if let Record::Experiment(experiment) = record {
            experiment.summary = String::from("What <b>eight</b> & more levels cost </script>");
            experiment.definition = "# a line that is much wider than any phone ".repeat(9);
        }
        // Some runs differ by factors.
        if let Record::Run(run) = record
            && run.system.name == "raid5"
            && run.workload.name == "seeks"
        {
            run.elapsed_ns *= 12;
        }
        // Systems without a name are called like their target.
        let long = "raid6(/dev/disk/by-id/wwn-0x5000c500a1b2c3d4,/dev/loop11,/dev/loop12)";
        let systems = match record {
            Record::Experiment(experiment) => experiment.systems.iter_mut().collect(),
            Record::Run(run) => vec![&mut run.system],
            Record::Environment(_) | Record::Calibration(_) | Record::Discard(_) => Vec::new(),
        };
        let last = systems.into_iter().filter(|system| system.name == "raid6");
        last.for_each(|system| long.clone_into(&mut system.name));
    }
    let analysis = Analysis::of(&records).expect("the example has runs");
    let output = outputs::by_name("html").expect("there is an HTML output");
    (output.report)(&analysis, &Options::default())
}

/// Sections that only the example of files fills.
const NEEDS_FILES: &[&str] = &[
    "verdicts",
    "singles",
    "sweeps",
    "grids",
    "timeline",
    "singles-cpu",
    "heat",
    "prices",
    "legacy",
];

#[test]
fn the_page_works_in_a_browser() {
    let Some(mut browser) = Browser::start() else {
        println!("SKIPPED: the_page_works_in_a_browser: chromium is not installed");
        return;
    };
    let (blocks, files) = (page(example::records(5)), page(example::file_records(3)));
    let mut backgrounds = Vec::new();
    for (page, width, scheme) in [
        (&blocks, 1280, Scheme::Light),
        (&blocks, 900, Scheme::Light),
        (&blocks, 360, Scheme::Dark),
        (&files, 1280, Scheme::Dark),
        (&files, 1280, Scheme::Light),
        (&files, 360, Scheme::Light),
        (&files, 360, Scheme::Dark),
    ] {
        browser.look(width, 900, scheme);
        browser.open_html(page);
        let found = browser.value(PROBE);
        let number = |name: &str| found[name].as_f64().unwrap();
        let looks = browser.looks();
        assert_eq!(looks.faults, [""; 0], "at {width} in {scheme:?}");
        assert_eq!(browser.complaints(), [""; 0], "at {width} in {scheme:?}");
        for (what, why) in [
            ("cut", "is cut short"),
            ("crossing", "is written over another label"),
            ("touching", "touches the next label"),
        ] {
            assert_eq!(found[what], Value::Array(Vec::new()), "{width}: {why}");
        }
        for (what, why) in [
            ("legends", "legends that are not in their panels"),
            ("bare", "panels without a legend"),
        ] {
            assert_eq!(found[what], 0, "{width}: {why}");
        }
        assert_eq!(found["doubts"], 3, "the first three doubts are shown");
        assert!(number("folded") > 0.0, "the others are folded");
        assert_eq!(
            found["requests"],
            Value::Array(Vec::new()),
            "requests were made"
        );
        assert_eq!(found["button"], true, "no button to download the records");
        assert!(
            number("records") > 300.0 && number("svgs") > 30.0,
            "{found}"
        );
        assert!(
            number("unnamed") < 1.0 && number("headless") < 1.0,
            "{found}"
        );
        assert_eq!(
            found["dead"],
            Value::Array(Vec::new()),
            "links that lead nowhere"
        );
        assert_eq!(
            found["overflowing"],
            Value::Array(Vec::new()),
            "labels that are cut off"
        );
        let sections = found["sections"].to_string();
        for name in NEEDS_FILES {
            let is_there = sections.contains(&format!("\"{name}\""));
            assert_eq!(is_there, page == &files, "{name} in {sections}");
        }
        backgrounds.push(looks.background);
    }
    assert_ne!(
        backgrounds[0], backgrounds[2],
        "light and dark look the same"
    );
}

/// On paper only sections that need it start a new page, so the example takes few.
#[test]
fn the_page_prints_without_half_empty_pages() {
    const PAGES_MAX: usize = 20;
    let Some(browser) = spindles_browser::program() else {
        println!("SKIPPED: the_page_prints_without_half_empty_pages: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (path, paper) = (
        folder.path().join("page.html"),
        folder.path().join("page.pdf"),
    );
    let analysis = Analysis::of(&example::records(8)).unwrap();
    let output = outputs::by_name("html").unwrap();
    fs::write(&path, (output.report)(&analysis, &Options::default())).unwrap();
    let status = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args(["--disable-background-networking", "--no-pdf-header-footer"])
        .arg(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ))
        .arg(format!("--print-to-pdf={}", paper.display()))
        .arg(format!("file://{}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let printed = fs::read(&paper).unwrap();
    let mark = b"/Type /Page\n";
    let pages = printed.windows(mark.len()).filter(|bytes| bytes == mark);
    let pages = pages.count();
    assert!((3..=PAGES_MAX).contains(&pages), "{pages} pages");
}

/// The drawings stay small, however many panels there are. The records take what they need.
#[test]
fn drawings_stay_small() {
    const PANEL_BYTES_MAX: usize = 12 << 10;
    for records in [example::records(3), example::file_records(3)] {
        let page = page(records);
        let (drawn, _) = page
            .split_once("<script type=\"application/json\"")
            .unwrap();
        let panels = drawn.matches("<figure>").count();
        assert!(panels > 40, "{panels} panels");
        let each = drawn.len() / panels;
        assert!(
            each < PANEL_BYTES_MAX,
            "{each} bytes for each of {panels} panels"
        );
        for figure in drawn.split("<figure>").skip(1) {
            let bytes = figure.split("</figure>").next().unwrap().len();
            assert!(
                bytes < 5 * PANEL_BYTES_MAX,
                "{bytes} bytes: {}",
                &figure[..200]
            );
        }
    }
}

#[test]
fn the_page_is_complete_without_scripts_and_network() {
    let page = page(example::records(5));
    let (markup, _) = page
        .split_once("<script type=\"application/json\"")
        .unwrap();
    for needed in [
        "<h1>",
        "<table",
        "<svg",
        "id=\"doubts\"",
        "id=\"environment\"",
        "<noscript>",
    ] {
        assert!(markup.contains(needed), "{needed} is not in the markup");
    }
    for outside in [
        "http://", "https://", "src=", "@import", "url(", "<link", "fetch(",
    ] {
        assert!(!page.contains(outside), "{outside} in the page");
    }
    assert!(markup.contains("default-src 'none'"));
    // Text of an experiment is never markup, and the records end only once.
    assert!(markup.contains("What &lt;b&gt;eight&lt;/b&gt; &amp; more"));
    assert_eq!(page.matches("</script>").count(), 2);
}
