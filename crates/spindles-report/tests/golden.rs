//! Compares the complete text outputs with files, so that any change of a report shows in review.
//! `UPDATE=1 cargo test -p spindles-report golden` rewrites the files.

use std::fs;
use std::path::Path;

use super::example;
use spindles_measure::{
    Analysis, Correlation, Deciding, Help, MemberTime, MemberUse, Predicted, Rate, Reason, Record,
    Verdicts, Workload, change, check_prediction,
};
use spindles_report::{Options, outputs};

/// Few enough systems and workloads that the files are readable.
fn analysis(blocks: u32, faster: u64) -> Analysis {
    let mut records = example::records(blocks);
    let systems = ["single", "single-again", "raid0", "raid5"];
    let workloads = ["dd-write", "seeks"];
    records.retain(|record| match record {
        Record::Run(run) => {
            systems.contains(&&*run.system.name) && workloads.contains(&&*run.workload.name)
        }
        _ => true,
    });
    for record in &mut records {
        match record {
            Record::Experiment(experiment) => {
                experiment
                    .systems
                    .retain(|system| systems.contains(&&*system.name));
                experiment
                    .workloads
                    .retain(|workload| workloads.contains(&&*workload.name));
            }
            Record::Run(run) if run.system.name == "raid5" => {
                run.elapsed_ns = run.elapsed_ns * 100 / faster;
            }
            _ => {}
        }
    }
    Analysis::of(&records).expect("the example has runs")
}

/// Workloads of the original tools, on a disk and a stripe.
fn files(blocks: u32) -> Analysis {
    let mut records = example::file_records(blocks);
    let systems = ["wd0", "stripe"];
    let kinds = ["bonnie", "bonnie++", "iozone", "touch", "cp", "varmail"];
    records.retain(|record| match record {
        Record::Run(run) => {
            let is_kept = run.workload.in_flight_max != 2 && run.workload.in_flight_max != 4;
            systems.contains(&&*run.system.name) && kinds.contains(&&*run.workload.kind) && is_kept
        }
        _ => true,
    });
    Analysis::of(&records).expect("the example has runs")
}

/// Workloads with each kind of verdict.
fn judged() -> Analysis {
    let mut records = example::file_records(3);
    let kept = [
        "varmail",
        "touch retouch",
        "touch unlink",
        "iozone read",
        "random-read-paced",
    ];
    let is_kept = |workload: &Workload| kept.contains(&&*workload.name);
    records.retain(|record| record.run().is_none_or(|run| is_kept(&run.workload)));
    let experiment = records[0].experiment_mut().expect("it comes first");
    experiment.workloads.retain(is_kept);
    Analysis::of(&records).expect("the example has runs")
}

/// Options for everything that the terminal can show.
fn with_tables() -> Options {
    Options {
        tables: true,
        ..Options::default()
    }
}

fn check(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, found).expect("a golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differs = found
        .lines()
        .zip(expected.lines())
        .position(|(a, b)| a != b);
    let line = differs.unwrap_or(found.lines().count().min(expected.lines().count()));
    assert!(
        found == expected,
        "{name} changed from line {}:\n- {}\n+ {}\nIf that is meant, run again with UPDATE=1.",
        line + 1,
        expected.lines().nth(line).unwrap_or("(end)"),
        found.lines().nth(line).unwrap_or("(end)"),
    );
}

#[test]
fn reports_equal_the_golden_files() {
    let analysis = analysis(6, 100);
    for (output, name, width, tables) in [
        ("terminal", "screen-80.txt", 80, false),
        ("terminal", "report-100.txt", 100, true),
        ("terminal", "report-60.txt", 60, true),
        ("markdown", "report.md", 100, false),
        ("csv", "report.csv", 100, false),
        ("json", "report.json", 100, false),
    ] {
        let options = Options {
            width,
            tables,
            ..Options::default()
        };
        let output = outputs::by_name(output).unwrap();
        check(name, &(output.report)(&analysis, &options));
    }
}

/// A workload that the baseline did not run, an open loop that one system did not keep up with, and
/// a workload whose runs are one operation each.
fn odd_questions() -> Analysis {
    let systems = ["single", "raid0", "raid5"];
    let workloads = ["dd-write", "seeks", "rewrite", "dd-read"];
    let mut records = example::records(5);
    records.retain(|record| match record {
        Record::Run(run) => {
            let is_missing = run.system.name == "single" && run.workload.name == "dd-write";
            systems.contains(&&*run.system.name)
                && workloads.contains(&&*run.workload.name)
                && !is_missing
        }
        _ => true,
    });
    for record in &mut records {
        match record {
            Record::Experiment(experiment) => {
                experiment.control = None;
                let all = &mut experiment.systems;
                all.retain(|system| systems.contains(&&*system.name));
                let all = &mut experiment.workloads;
                all.retain(|workload| workloads.contains(&&*workload.name));
                for workload in all {
                    pace(workload);
                    if workload.name == "dd-write" {
                        workload.systems = ["raid0", "raid5"].map(str::to_owned).into();
                    }
                }
            }
            Record::Run(run) if run.workload.name == "seeks" => {
                pace(&mut run.workload);
                // raid5 answers fewer operations than arrive.
                let answered = if run.system.name == "raid5" {
                    16_000
                } else {
                    20_000
                };
                run.elapsed_ns = run.operations * 1_000_000_000 / answered;
                run.response = run.latency.clone();
            }
            Record::Run(run) if run.workload.name == "rewrite" => {
                pace(&mut run.workload);
                run.counted = 1;
            }
            _ => {}
        }
    }
    Analysis::of(&records).expect("the example has runs")
}

fn pace(workload: &mut Workload) {
    match &*workload.name {
        "seeks" => workload.arrivals_per_s = 20_000,
        "rewrite" => workload.rate = Rate::Operations,
        _ => {}
    }
}

/// Every format explains unusual comparisons.
#[test]
fn reports_of_unusual_comparisons_equal_the_golden_files() {
    let analysis = odd_questions();
    for (output, name) in [
        ("terminal", "odd.txt"),
        ("markdown", "odd.md"),
        ("csv", "odd.csv"),
    ] {
        let output = outputs::by_name(output).unwrap();
        check(name, &(output.report)(&analysis, &with_tables()));
    }
    let options = Options {
        sections: ["overview", "difference", "comparison"]
            .map(str::to_owned)
            .into(),
        ..Options::default()
    };
    let page = (outputs::by_name("html").unwrap().report)(&analysis, &options);
    for text in [
        "Not run by single: compared with raid0, the first that ran it.",
        "not run by single: raid0, the first that ran it, reaches",
        "<th scope=\"col\" class=\"n\" title=\"4000 random reads of 8 KiB by 3 seekers, every 10th \
         written back\">seeks, p50 response time</th>",
        "p99 response time, left is faster: single takes",
        "time, left is faster: single takes",
        "Did not keep up: raid5 (answered 80 % of arrivals).",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

/// Every format shows errors, bands, and the order of systems. The page draws them.
#[test]
fn a_prediction_next_to_a_measurement_equals_the_golden_files() {
    let mut predicted = analysis(6, 100);
    for run in &mut predicted.runs {
        run.predicted = Some(Predicted {
            model: "disk".to_owned(),
            ..Predicted::default()
        });
    }
    let check = check_prediction(&predicted, &analysis(5, 180));
    for (output, name, width) in [
        ("terminal", "prediction.txt", 100),
        ("terminal", "prediction-60.txt", 60),
        ("markdown", "prediction.md", 100),
        ("csv", "prediction.csv", 100),
    ] {
        let options = Options {
            width,
            ..Options::default()
        };
        let draw = outputs::by_name(output).unwrap().prediction.unwrap();
        self::check(name, &draw(&check, &options));
    }
    let draw = outputs::by_name("html").unwrap().prediction.unwrap();
    let page = draw(&check, &Options::default());
    for text in [
        "<h1>Predicted and measured</h1>",
        "raid5: predicted",
        "<circle class=\"measured\"",
        "Order: 2 of 6 pairs",
        "<td data-column=\"in band\">no</td>",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

/// An example whose disks are modelled.
pub(crate) fn predicted() -> Analysis {
    let mut predicted = analysis(6, 100);
    for run in &mut predicted.runs {
        let time = MemberTime {
            requests: 1000,
            response_ns: 7_000_000_000,
            busy_ns: run.elapsed_ns / 2,
            seek_ns: 4_000_000_000,
            rotation_ns: 2_500_000_000,
            ..MemberTime::default()
        };
        let member = MemberUse {
            time: Some(time),
            ..MemberUse::default()
        };
        run.evidence.get_or_insert_default().members = vec![member];
    }
    let cell = predicted.comparisons[1].clone();
    predicted.deciding = vec![Deciding {
        system: cell.system.clone(),
        baseline: cell.baseline.clone(),
        workload: cell.workload.clone(),
        quantity: cell.quantity,
        draws: 20,
        tested: 31,
        numbers: vec![Correlation {
            name: "rpm".to_owned(),
            correlation: -0.83,
            p_corrected: 0.0004,
        }],
    }];
    predicted.help = vec![Help {
        part: "arm".to_owned(),
        system: cell.system.clone(),
        workload: cell.workload.clone(),
        quantity: cell.quantity,
        log_ratio: cell.log_ratio,
    }];
    predicted
}

/// A predicted report shows where the time went, which numbers decided, and what would help, as
/// tables and as charts. Measured reports have no such section.
#[test]
fn a_predicted_report_shows_what_decided() {
    let predicted = predicted();
    let draw = |output: &str, analysis: &Analysis| {
        (outputs::by_name(output).unwrap().report)(analysis, &with_tables())
    };
    let texts = [
        "Spearman's rank correlation",
        "−0.83",
        "< 0.001",
        "a tenth faster",
        "Mean times of a request",
        "4.00 ms",
        "rotation",
    ];
    for output in ["terminal", "markdown"] {
        let shown = draw(output, &predicted).replace("&lt;", "<");
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in texts {
            assert!(shown.contains(text), "{output}: {text}");
        }
    }
    let charts = [
        "id=\"request-parts\"",
        "id=\"correlations\"",
        "id=\"faster-part-gains\"",
    ];
    let page = draw("html", &predicted);
    let measured = draw("html", &analysis(6, 100));
    for chart in charts {
        assert!(page.contains(chart) && !measured.contains(chart), "{chart}");
    }
    assert!(page.contains("arm: 4.00 ms") && page.contains("rpm: −0.83"));
}

/// The interval is the point of a comparison, so other columns give way.
#[test]
fn a_change_keeps_its_intervals_on_narrow_terminals() {
    let found = change(&analysis(6, 100), &analysis(7, 120), Verdicts::SameWork);
    let drawn = outputs::by_name("terminal").unwrap().change.unwrap();
    let at = |width| {
        let options = Options {
            width,
            ..Options::default()
        };
        drawn(&found, &options)
    };
    for width in [80, 120] {
        assert!(!at(width).contains("left out"), "{}", at(width));
    }
    // The mark shows the direction.
    let large = change(&analysis(6, 100), &analysis(6, 400), Verdicts::SameWork);
    let options = Options {
        width: 80,
        ..Options::default()
    };
    let large = drawn(&large, &options);
    assert!(
        large.contains(" × ") && !large.contains("× faster"),
        "{large}"
    );
    for width in [60, 80] {
        let text = at(width);
        assert!(text.contains("95 % interval") && !text.contains("left out for lack of space: 95"));
        assert!(text.contains("▲ faster, ▼ slower, · none shown."), "{text}");
        for line in text.lines() {
            assert!(
                line.chars().count() <= usize::from(width),
                "{width}: {line}"
            );
        }
    }
}

#[test]
fn verdicts_equal_the_golden_files() {
    let analysis = judged();
    for (output, name) in [
        ("terminal", "verdicts.txt"),
        ("markdown", "verdicts.markdown.txt"),
        ("html", "verdicts.html"),
    ] {
        let options = Options {
            sections: vec!["verdicts".to_owned()],
            ..with_tables()
        };
        let text = (outputs::by_name(output).unwrap().report)(&analysis, &options);
        let found = match name {
            "verdicts.html" => between(&text, "<section id=\"verdicts\"", "</section>"),
            "verdicts.markdown.txt" => between(&text, "## Bottlenecks", "## Doubts"),
            _ => between(&text, "bottleneck of ", "\n\n"),
        };
        // One line for each card and row, so that changes are visible.
        check(
            name,
            &found
                .replace("<article", "\n<article")
                .replace("<div>", "\n<div>"),
        );
    }
}

/// The latencies include a mail server's slowest operations, whatever their kind.
#[test]
fn latencies_cover_all_operations_and_are_labelled_so() {
    let analysis = Analysis::of(&example::file_records(2)).unwrap();
    let report = |name: &str| {
        let options = Options {
            width: 140,
            ..with_tables()
        };
        (outputs::by_name(name).unwrap().report)(&analysis, &options)
    };
    let table = report("markdown");
    let table = between(&table, "## varmail", "| wd0-again");
    assert!(table.contains("| p99 of all |"), "{table}");
    let p99_ns = analysis
        .cell("wd0", "varmail")
        .unwrap()
        .latencies()
        .unwrap()
        .p99_ns;
    let expected = format!("| {} ms |", (p99_ns + 500_000) / 1_000_000);
    assert!(
        p99_ns > 100_000_000 && table.contains(&expected),
        "{expected}: {table}"
    );
    let terminal = report("terminal");
    let table = between(&terminal, "varmail · ", " wd0 ");
    assert!(table.contains("p99 of all"), "{table}");
    let page = report("html");
    let head = between(&page, "<b>varmail</b> <small>", "</small>");
    assert!(
        head.contains("; latencies of all operations; CPU"),
        "{head}"
    );
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).expect("it is in the report");
    let length = text[start..].find(to).expect("it ends");
    &text[start..start + length]
}

/// A terminal shows a dozen lines and the number of others. The page has all, the later ones
/// folded.
#[test]
fn verdicts_are_few_on_a_terminal_and_folded_in_the_page() {
    let analysis = Analysis::of(&example::file_records(2)).unwrap();
    let report = |name: &str, width: u16| {
        let options = Options {
            width,
            ..with_tables()
        };
        (outputs::by_name(name).unwrap().report)(&analysis, &options)
    };
    for width in [56, 100] {
        let text = report("terminal", width);
        let lines: Vec<&str> = between(&text, "bottleneck of ", "\n\n").lines().collect();
        assert!(lines.len() <= 13, "{width}: {lines:#?}");
        assert!(width > 56 || lines[lines.len() - 1].starts_with("and "));
    }
    let page = report("html", 100);
    let section = between(&page, "<section id=\"verdicts\"", "</section>");
    let (shown, folded) = section
        .split_once("<details class=\"more\"")
        .expect("the rest is folded");
    assert_eq!(shown.matches("<article").count(), 12);
    let first_undetermined = shown.find("bonnie putc").unwrap();
    assert!(shown.find("waiting for flushes").unwrap() < first_undetermined);
    for workload in &analysis.experiment.workloads {
        let heading = format!("<span class=\"of\">{}</span>", workload.name);
        assert!(
            shown.contains(&heading) || folded.contains(&heading),
            "{heading}"
        );
    }
    for kind in [
        "card named",
        "card refused",
        "card undetermined",
        "badge\"",
        "badge strong",
    ] {
        assert!(section.contains(kind), "the example has no {kind}");
    }
}

/// Without evidence, bottlenecks are not mentioned.
#[test]
fn records_without_evidence_have_no_verdicts() {
    let analysis = analysis(5, 100);
    for form in ["terminal", "markdown", "html"] {
        let text = (outputs::by_name(form).unwrap().report)(&analysis, &Options::default());
        assert!(!text.to_lowercase().contains("bottleneck"), "{form}");
    }
}

#[test]
fn changes_equal_the_golden_files() {
    let found = change(&analysis(6, 100), &analysis(7, 120), Verdicts::SameWork);
    for (output, name) in [
        ("terminal", "change.txt"),
        ("markdown", "change.md"),
        ("csv", "change.csv"),
    ] {
        let output = outputs::by_name(output).unwrap();
        let change = output.change.expect("it is a form of changes too");
        check(name, &change(&found, &Options::default()));
    }
}

#[test]
fn legacy_outputs_equal_the_golden_files() {
    let analysis = files(3);
    for (output, name) in [
        ("legacy", "files.legacy.txt"),
        ("bonnie++", "files.bonnie++.csv"),
    ] {
        let output = outputs::by_name(output).unwrap();
        check(name, &(output.report)(&analysis, &Options::default()));
    }
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    let output = outputs::by_name("terminal").unwrap();
    for records in [example::records(5), example::file_records(2)] {
        let analysis = Analysis::of(&records).unwrap();
        for width in [56, 60, 72, 80, 100, 132, 200] {
            for tables in [false, true] {
                let options = Options {
                    width,
                    tables,
                    ..Options::default()
                };
                for line in (output.report)(&analysis, &options).lines() {
                    let wide = line.chars().count();
                    assert!(wide <= usize::from(width), "{wide} of {width}: {line}");
                }
            }
        }
    }
}

/// However many systems and workloads there are, a terminal shows the difference and the price of
/// each.
#[test]
fn a_narrow_terminal_shows_every_system() {
    let mut records = example::records(2);
    let experiment = records[0].experiment_mut().expect("it comes first");
    experiment
        .systems
        .iter_mut()
        .for_each(|system| system.price = Some(120.0));
    let analysis = Analysis::of(&records).unwrap();
    for width in [40, 60, 80, 100, 200] {
        let options = Options {
            width,
            ..with_tables()
        };
        let text = (outputs::by_name("terminal").unwrap().report)(&analysis, &options);
        let prices = between(&text, "In the currency", "Difference from");
        let words: Vec<&str> = prices.split_whitespace().collect();
        assert!(
            words.join(" ").contains("per 1,000 op/s in seeks"),
            "{prices}"
        );
        let differences = between(&text, "Difference from", "Each row's");
        for part in [prices, differences] {
            for system in analysis.compared() {
                let words = part.split_whitespace();
                let count = words.filter(|word| *word == system.name).count();
                assert_eq!(count, 1, "{width}: {} in {part}", system.name);
            }
        }
        for workload in &analysis.experiment.workloads {
            assert!(
                differences.contains(&workload.name),
                "{width}: {differences}"
            );
        }
        assert!(differences.contains("geometric mean"), "{width}");
        let omits_columns = text.contains("left out for");
        assert_eq!(omits_columns, width < 200, "{width}");
    }
}

/// The choice of a system and the doubts about it fit on one screen. If there are too many systems
/// and workloads, the systems that are among the best least often are left out.
#[test]
fn the_first_screen_is_one_screen() {
    const LINES_MAX: usize = 42;
    let output = outputs::by_name("terminal").unwrap();
    let mut many = example::records(3);
    let copies = 1..4;
    let more: Vec<Record> = copies
        .flat_map(|copy| many.clone().into_iter().map(move |record| (copy, record)))
        .filter_map(|(copy, mut record)| {
            let Record::Run(run) = &mut record else {
                return None;
            };
            run.system.name = format!("{} {copy}", run.system.name);
            run.workload.name = format!("{} {}", run.workload.name, copy % 2);
            run.elapsed_ns += copy;
            Some(record)
        })
        .collect();
    many.extend(more);
    let mut one_block = example::records(1);
    one_block.retain(|record| !matches!(record, Record::Calibration(_)));
    for records in [
        example::records(6),
        example::file_records(3),
        one_block,
        many,
    ] {
        let analysis = Analysis::of(&records).unwrap();
        for width in [60, 72, 80, 100, 160] {
            let options = Options {
                width,
                command: Some("spindles lab report results".to_owned()),
                ..Options::default()
            };
            let text = (output.report)(&analysis, &options);
            let lines = text.lines().count();
            assert!(lines <= LINES_MAX, "{lines} lines at {width}:\n{text}");
            assert!(text.starts_with("Which should I take? "), "{text}");
            assert!(
                text.contains("\n  spindles lab report results --tables\n"),
                "{text}"
            );
            // The first three doubts, by rank.
            let doubts = text.lines().filter_map(|line| line.strip_prefix("! "));
            let words = |text: &str| {
                let words = text.split_whitespace().take(2);
                words.collect::<Vec<_>>().join(" ").replace(':', "")
            };
            let titles = analysis.findings.iter().take(3);
            let titles = titles.map(|title| words(&title.title));
            assert!(doubts.map(words).eq(titles), "{text}");
            for word in ["survives", "holds", "members"] {
                assert!(text.contains(word), "{width}: {text}");
            }
        }
    }
}

/// A rate of a cache or of the load generator has no price, since it does not measure the system.
#[test]
fn rates_of_a_cache_have_no_price() {
    let analysis = Analysis::of(&example::file_records(3)).unwrap();
    let cells = analysis.cells.iter();
    let mut cached = cells.filter(|cell| cell.is_cached() && cell.system != "wd0-again");
    let cached = cached.next().expect("the example has a cache figure");
    for form in ["terminal", "markdown", "html"] {
        let options = Options {
            sections: vec!["prices".to_owned()],
            ..with_tables()
        };
        let text = (outputs::by_name(form).unwrap().report)(&analysis, &options);
        let row = format!("in {}", cached.workload);
        let rows = text.split("per ");
        let row = rows.filter(|rows| rows.contains(&row)).last();
        let row = row.expect("a row of prices");
        assert!(row.contains("cache figure"), "{form}: {row}");
    }
    // It does not count among the comparisons either.
    let counted = analysis.headlines().filter(|headlines| {
        analysis.choice.not_counted(&headlines.workload) != Some(Reason::Cached)
    });
    let (counted, all) = (counted.count(), analysis.headlines().count());
    let lead = spindles_report::headline(&analysis).lead;
    assert!(
        counted < all && lead.contains(&format!("of {counted} comparisons")),
        "{lead}"
    );
    let left_out = format!("; {} of cache figures count nowhere.", all - counted);
    assert!(lead.ends_with(&left_out), "{lead}");
    // Nor is it the largest gain.
    let rankings = analysis.choice.workloads.iter();
    for ranking in rankings.filter(|ranking| ranking.not_counted.is_some()) {
        let name = format!(" in {}, ", ranking.workload);
        let extremes = spindles_report::headline(&analysis).extremes;
        assert!(
            !extremes.iter().any(|extreme| extreme.contains(&name)),
            "{extremes:?}"
        );
    }
}

/// A difference of one block is no result, and every chart and table marks it.
#[test]
fn results_of_one_block_are_marked_in_the_page() {
    let analysis = Analysis::of(&example::records(1)).unwrap();
    let page = |sections: &[&str]| {
        let options = Options {
            sections: sections
                .iter()
                .map(|section| (*section).to_owned())
                .collect(),
            ..Options::default()
        };
        (outputs::by_name("html").unwrap().report)(&analysis, &options)
    };
    let compared = analysis.compared().count() * analysis.questions().len();
    let overview = page(&["overview"]);
    assert_eq!(
        overview.matches("<i>?</i>").count(),
        compared + analysis.overall.len() - 1
    );
    assert!(overview.contains("? one block: no verdict"), "{overview}");
    let choice = page(&["choice"]);
    assert!(choice.contains("? one block, no verdict") && !choice.contains("n best"));
    let bars = page(&["difference"]);
    assert!(bars.matches(" ?</text>").count() >= compared, "{bars}");
}

/// Shows three doubts, and how to see the others.
#[test]
fn doubts_are_folded_after_the_third() {
    let analysis = analysis(6, 100);
    let count = analysis.findings.len();
    assert!(count > 4, "{count}");
    let command = "spindles lab report 'my results'";
    let report = |name: &str, all_doubts: bool| {
        let options = Options {
            all_doubts,
            command: Some(command.to_owned()),
            ..Options::default()
        };
        (outputs::by_name(name).unwrap().report)(&analysis, &options)
    };
    let (few, all) = (report("terminal", false), report("terminal", true));
    assert_eq!(few.matches("\n! ").count(), 3);
    let more = format!("\nand {} more: ", count - 3);
    let how = format!("\n  all of them: {command} --all-doubts\n");
    assert!(few.contains(&more) && few.contains(&how), "{few}");
    assert!(!all.contains("--all-doubts"), "{all}");
    assert_eq!(all.matches("\n! ").count(), count);
    for form in ["html", "markdown"] {
        let text = report(form, false);
        let summary = format!("<summary>{} more</summary>", count - 3);
        let (_, folded) = text.split_once(&summary).expect("something is folded");
        for (at, finding) in analysis.findings.iter().enumerate() {
            let is_folded = folded.contains(&format!("{}<", finding.title))
                || folded.contains(&format!("{}.**", finding.title));
            assert_eq!(is_folded, at >= 3, "{form}: {}", finding.title);
        }
    }
}

#[test]
fn every_output_names_every_system_and_workload() {
    let analysis = analysis(5, 100);
    for output in spindles_report::OUTPUTS {
        assert!(!output.summary.is_empty() && output.file_name.starts_with("report."));
        // The other formats apply only to some runs.
        let Some(change_of) = output.change else {
            continue;
        };
        let text = (output.report)(&analysis, &with_tables());
        let same = change_of(
            &change(&analysis, &analysis, Verdicts::SameWork),
            &Options::default(),
        );
        let systems = analysis
            .experiment
            .systems
            .iter()
            .map(|system| &system.name);
        let workloads = analysis
            .experiment
            .workloads
            .iter()
            .map(|workload| &workload.name);
        for name in systems.chain(workloads) {
            assert!(text.contains(name), "{}: {name}", output.name);
            assert!(same.contains(name), "{}: {name}", output.name);
        }
    }
}

#[test]
fn colours_appear_only_on_request() {
    let analysis = analysis(5, 100);
    let output = outputs::by_name("terminal").unwrap();
    let plain = (output.report)(&analysis, &with_tables());
    let coloured = (output.report)(
        &analysis,
        &Options {
            colour: true,
            ..with_tables()
        },
    );
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.contains("\u{1b}[33m▼ slower\u{1b}[0m"));
}
