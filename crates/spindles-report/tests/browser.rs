//! The page in a real browser: no request to anywhere, nothing cut off or scrolled sideways on a
//! screen or a phone, contrast in light and dark, complete without scripts, and few pages on paper.
//! Needs Chromium.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use spindles_measure::{Analysis, Record, example};
use spindles_report::{Options, outputs};

/// Measures the page it is put into and leaves the figures in an attribute.
const PROBE: &str = r#"<script>
// What is folded has to hold as well; doubts are tested as they are.
document.querySelectorAll(".chart details, .legacy details, #verdicts details").forEach((it) => { it.open = true; });
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const known = new Map();
const channels = (colour) => {
  if (!known.has(colour)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    known.set(colour, [...canvas.getImageData(0, 0, 1, 1).data]);
  }
  return known.get(colour);
};
const luminance = (colour) => {
  const [r, g, b] = channels(colour).map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const opaque = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (channels(colour)[3] === 255) return colour;
  }
  return getComputedStyle(document.body).backgroundColor;
};
const contrasts = new Map();
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  if (!own || !element.checkVisibility() || element.closest("title, script, noscript")) continue;
  const style = getComputedStyle(element);
  const front = element instanceof SVGElement ? style.fill : style.color;
  const back = opaque(element);
  const key = front + " on " + back;
  if (contrasts.has(key)) continue;
  const [high, low] = [luminance(front), luminance(back)].sort((a, b) => b - a);
  contrasts.set(key, { ratio: (high + 0.05) / (low + 0.05), text: element.textContent.slice(0, 40) });
}
let overflowing = [];
for (const text of document.querySelectorAll("svg text")) {
  const box = text.getBoundingClientRect();
  const frame = text.closest("figure").getBoundingClientRect();
  if (box.left < frame.left || box.right > frame.right) overflowing.push(text.textContent);
}
const crossing = [];
for (const svg of document.querySelectorAll("svg[role=img]")) {
  const texts = [...svg.querySelectorAll("text")].map((text) => [text, text.getBoundingClientRect()]);
  for (const [at, [text, a]] of texts.entries()) {
    for (const [other, b] of texts.slice(at + 1)) {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Boxes are higher than letters.
      if (wide > 1 && high > 4) crossing.push(svg.getAttribute("aria-label").slice(0, 40) + ": " + text.textContent + " on " + other.textContent);
    }
  }
}
const name = (element) => element.tagName + "." + element.className + " " + element.textContent.slice(0, 60);
const clipped = [];
for (const element of document.querySelectorAll("body *")) {
  if (!element.checkVisibility() || element.closest("svg, script, .hidden")) continue;
  // What originals print is as wide as they made it: it scrolls by itself.
  if (element.matches("pre.printed")) continue;
  const box = element.getBoundingClientRect();
  const wide = element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
  if (wide || box.right > innerWidth + 0.5 || box.left < -0.5) clipped.push(name(element));
}
const result = {
  clipped,
  cut: [...document.querySelectorAll("svg text")].map((text) => text.textContent).filter((text) => text.includes("…")),
  legends: document.querySelectorAll(".legend").length - document.querySelectorAll("figure > .legend").length,
  bare: [...document.querySelectorAll("figure")].filter((figure) => !figure.querySelector(".legend li")).length,
  doubts: [...document.querySelectorAll(".doubts > li")].filter((doubt) => doubt.checkVisibility()).length,
  folded: document.querySelectorAll("details .doubts > li").length,
  scroll: document.documentElement.scrollWidth,
  width: innerWidth,
  requests: performance.getEntriesByType("resource").map((entry) => entry.name),
  background: getComputedStyle(document.body).backgroundColor,
  button: !document.getElementById("download").hidden,
  records: JSON.parse(document.getElementById("data").textContent).length,
  svgs: document.querySelectorAll("svg[role=img][aria-label] > title").length,
  unnamed: [...document.querySelectorAll("svg:not([aria-label]):not([aria-hidden])")].length,
  headless: [...document.querySelectorAll("td")].filter((td) => !td.closest("tr").querySelector("th[scope=row]")).length,
  dead: [...document.querySelectorAll("a[href^='#']")].map((a) => a.hash).filter((hash) => !document.querySelector(hash)),
  contrasts: [...contrasts].map(([pair, { ratio, text }]) => ({ pair, ratio, text })),
  overflowing,
  crossing,
  sections: [...document.querySelectorAll("section")].map((section) => section.id),
};
document.documentElement.setAttribute("data-result", JSON.stringify(result));
</script>"#;

fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| {
            let mut command = Command::new(name);
            command
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })
}

/// The page of an example, with names that a careless experiment might have.
fn page(mut records: Vec<Record>) -> String {
    for record in &mut records {
        if let Record::Experiment(experiment) = record {
            experiment.summary = String::from("What <b>eight</b> & more levels cost </script>");
            experiment.definition = "# a line that is much wider than any phone ".repeat(9);
        }
        // Systems without a name of their own are called as their target is.
        let long = "raid6(/dev/disk/by-id/wwn-0x5000c500a1b2c3d4,/dev/loop11,/dev/loop12)";
        let systems = match record {
            Record::Experiment(experiment) => experiment.systems.iter_mut().collect(),
            Record::Run(run) => vec![&mut run.system],
            Record::Environment(_) | Record::Calibration(_) => Vec::new(),
        };
        let last = systems.into_iter().filter(|system| system.name == "raid6");
        last.for_each(|system| long.clone_into(&mut system.name));
    }
    let analysis = Analysis::of(&records).expect("the example has runs");
    let output = outputs::by_name("html").expect("there is an HTML output");
    (output.report)(&analysis, &Options::default())
}

/// What the probe found in a window of this size.
fn probed(browser: &str, folder: &Path, page: &str, width: u32, more: &[&str]) -> Value {
    let path = folder.join("page.html");
    let (before, after) = page.rsplit_once("</body>").expect("a page has a body");
    let probed = format!("{before}{PROBE}</body>{after}");
    // Windows have a least width, frames do not.
    let framed = format!(
        "<!DOCTYPE html><html><head><meta name=\"color-scheme\" content=\"light dark\"></head>\
         <body><iframe style=\"width:{width}px;height:900px;border:0\" onload=\"document\
         .documentElement.dataset.result = contentDocument.documentElement.dataset.result\" \
         srcdoc=\"{}\"></iframe></body></html>",
        probed.replace('&', "&amp;").replace('"', "&quot;")
    );
    fs::write(&path, framed).expect("a page is written");
    let profile = tempfile::tempdir().expect("a folder for the browser");
    let child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .args(["--hide-scrollbars", "--dump-dom", "--window-size=1400,1000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(format!("file://{}", path.display()))
        .stdout(Stdio::from(
            fs::File::create(folder.join("dom")).expect("a file for the page"),
        ))
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.expect("the browser starts");
    let begun = Instant::now();
    while child.try_wait().expect("the browser is ours").is_none() {
        if begun.elapsed() > Duration::from_mins(2) {
            child.kill().expect("the browser is ours");
            panic!("the browser did not end within 120 s");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let dom = fs::read_to_string(folder.join("dom")).expect("the browser printed the page");
    // Of the outer page: the inner one is an attribute of it that was there from the start.
    let (_, rest) = dom.split_once("data-result=\"").expect("the probe ran");
    let (text, _) = rest.split_once('"').expect("an attribute ends");
    let text = text
        .replace("&quot;", "\"")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    serde_json::from_str(&text.replace("&nbsp;", " ").replace("&amp;", "&"))
        .expect("the probe leaves JSON")
}

/// Sections that only the example of files has something to show in.
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
fn the_page_holds_in_a_browser() {
    let Some(browser) = chromium() else {
        println!("SKIPPED: the_page_holds_in_a_browser: chromium is not installed");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (blocks, files) = (page(example::records(5)), page(example::file_records(3)));
    let dark = "--blink-settings=preferredColorScheme=0";
    let light = "--blink-settings=preferredColorScheme=1";
    let mut backgrounds = Vec::new();
    for (page, width, scheme) in [
        (&blocks, 1280, light),
        (&blocks, 900, light),
        (&blocks, 360, dark),
        (&files, 1280, dark),
        (&files, 1280, light),
        (&files, 360, light),
        (&files, 360, dark),
    ] {
        let found = probed(browser, folder.path(), page, width, &[scheme]);
        let number = |name: &str| found[name].as_f64().unwrap();
        assert!(
            (number("width") - f64::from(width)).abs() < 1.0,
            "the window is {found}"
        );
        assert!(
            number("scroll") <= number("width"),
            "scrolls sideways: {}",
            number("scroll")
        );
        for (what, why) in [
            ("clipped", "is cut off or reaches out of the page"),
            ("cut", "is cut short"),
            ("crossing", "is written over another label"),
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
        for contrast in found["contrasts"].as_array().unwrap() {
            let ratio = contrast["ratio"].as_f64().unwrap();
            assert!(ratio >= 4.5, "contrast {ratio:.2} at {width}: {contrast}");
        }
        let sections = found["sections"].to_string();
        for name in NEEDS_FILES {
            let is_there = sections.contains(&format!("\"{name}\""));
            assert_eq!(is_there, page == &files, "{name} in {sections}");
        }
        backgrounds.push(found["background"].to_string());
    }
    assert_ne!(
        backgrounds[0], backgrounds[2],
        "light and dark look the same"
    );
}

/// On paper nothing begins a page that need not: the example takes few.
#[test]
fn the_page_prints_without_half_empty_pages() {
    const PAGES_MAX: usize = 17;
    let Some(browser) = chromium() else {
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

/// What is drawn stays small, however many panels there are; the records are as large as they are.
#[test]
fn what_is_drawn_stays_small() {
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
    // What an experiment says is text, never markup, and the records end only once.
    assert!(markup.contains("What &lt;b&gt;eight&lt;/b&gt; &amp; more"));
    assert_eq!(page.matches("</script>").count(), 2);
}
