//! The terminal: the choice of a system and the most important doubts, on one screen. On request,
//! tables for each workload and an overview come before. Columns that don't fit are left out, the
//! least important first, and named. If none may be left out, a table continues below itself.

use std::fmt::Write as _;

use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use spindles_measure::{
    Analysis, Change, ChangeRow, Comparison, Finding, PredictionCheck, Quantity, Stage, Verdict,
};

use super::{Options, Output};
use crate::comparisons::{self, Column};
use crate::sections::{deciding, help, jobs, nodes, own_baselines, prices, request_time};
use crate::{choice, figures, headline, matrix, prediction as predictions, verdicts, words};

pub(super) static OUTPUT: Output = Output {
    name: "terminal",
    summary: "tables for a terminal",
    file_name: "report.txt",
    has_sections: false,
    applies: |_| true,
    report,
    together: Some(super::concatenated),
    change: Some(change),
    prediction: Some(prediction),
};

/// Lines of evidence for each doubt.
const DETAILS_SHOWN: usize = 3;
/// Most lines of bottlenecks.
const BOTTLENECK_LINES_MAX: usize = 12;
/// Below this width, verdicts are shown as marks only.
const NARROW: u16 = 72;

/// Consecutive tables, and the columns that were left out.
#[derive(Default)]
struct Tables {
    text: String,
    left_out: Vec<String>,
}

fn report(analysis: &Analysis, options: &Options) -> String {
    let matrix = choice::Matrix::of(analysis);
    let mut text = String::new();
    if options.tables || matrix.is_none() {
        all_tables(analysis, options, &mut text);
    }
    if let Some(matrix) = &matrix {
        text += &first_screen(analysis, matrix, options);
    } else {
        doubts(&analysis.findings, options, &mut text);
        let headline = headline(analysis);
        let floor = words::noise_floor(analysis);
        let sentences = floor.iter().chain([&headline.lead]);
        for sentence in sentences.chain(&headline.scaled) {
            wrapped(&mut text, sentence, "", options.width);
        }
    }
    coloured(&text, options)
}

/// Writes a table for each workload, the differences from the baseline, and the bottlenecks.
fn all_tables(analysis: &Analysis, options: &Options, text: &mut String) {
    let mut tables = Tables::default();
    systems(analysis, options, &mut tables.text);
    for workload in &analysis.experiment.workloads {
        let title = format!("{} · {}", workload.name, workload.summary);
        wrapped(
            &mut tables.text,
            title.trim_end_matches(" · "),
            "  ",
            options.width,
        );
        if let Some(how) = words::how_compared(analysis, workload) {
            wrapped(&mut tables.text, &format!("  {how}"), "  ", options.width);
        }
        let columns = comparisons::columns(analysis, workload, &|comparison| {
            verdict(comparison, options)
        });
        tables.draw(columns, options);
    }
    against_own_baselines(analysis, options, &mut tables);
    around_jobs(analysis, options, &mut tables.text);
    let of_models = [&request_time::TABLE, &deciding::TABLE, &help::TABLE];
    for table in [&nodes::TABLE, &prices::TABLE].into_iter().chain(of_models) {
        tables.captioned(table.caption(), table.columns(analysis), options);
    }
    overview(analysis, options, &mut tables);
    all_pairs(analysis, options, &mut tables);
    *text += &tables.done(options);
    bottlenecks(analysis, options, text);
    if choice::Matrix::of(analysis).is_some() {
        let floor = words::noise_floor(analysis);
        let headline = headline(analysis);
        let among = words::not_shown_among(analysis);
        let lead = [&headline.lead];
        for sentence in floor
            .iter()
            .chain(&among)
            .chain(lead)
            .chain(&headline.extremes)
        {
            wrapped(text, sentence, "", options.width);
        }
        text.push('\n');
    }
}

/// Most lines of the first screen, not counting the final lines about the page and the records.
const FIRST_SCREEN_LINES_MAX: usize = 42;

/// Formats the choice of a system and the doubts about it, in few lines.
fn first_screen(analysis: &Analysis, matrix: &choice::Matrix<'_>, options: &Options) -> String {
    let mut text = String::new();
    let headline = headline(analysis);
    let answer = choice::answer(analysis);
    let weighted = choice::weighted(analysis);
    // The matrix already shows how often each pair differs.
    let sentences = answer.iter().chain(&weighted);
    for sentence in sentences.chain(&headline.scaled) {
        wrapped(&mut text, sentence, "", options.width);
    }
    text.push('\n');
    let mut doubts_text = String::new();
    let mut after = String::new();
    if options.all_doubts {
        doubts(&analysis.findings, options, &mut doubts_text);
    } else {
        more_doubts(&analysis.findings, options, &mut after);
    }
    if !options.tables {
        let said = if verdicts::sentences(analysis).is_empty() {
            "Tables for each workload"
        } else {
            "Tables and bottlenecks for each workload"
        };
        match &options.command {
            Some(command) => line(&mut after, &format!("{said}:\n  {command} --tables")),
            None => wrapped(
                &mut after,
                &format!("{said}: the same command with --tables"),
                "  ",
                options.width,
            ),
        }
    }
    // The matrix takes precedence over the remedies, which the reader can request.
    let brief = brief_doubts(&analysis.findings, options, 0);
    let used = |text: &str| text.lines().count();
    let rest = if options.all_doubts {
        0
    } else {
        used(&brief) + 1
    };
    let room = FIRST_SCREEN_LINES_MAX.saturating_sub(used(&text) + used(&after) + rest);
    text += &drawn_matrix(analysis, matrix, options, room);
    text.push('\n');
    if !options.all_doubts {
        let room = FIRST_SCREEN_LINES_MAX.saturating_sub(used(&text) + used(&after));
        let with_remedies = (0..=words::DOUBTS_SHOWN).rev();
        let mut drawn =
            with_remedies.map(|with_remedy| brief_doubts(&analysis.findings, options, with_remedy));
        doubts_text = drawn.find(|text| used(text) <= room).unwrap_or(brief);
    }
    text + &doubts_text + &after
}

/// The first doubts, each with its first evidence, and this many of them with their remedies.
fn brief_doubts(findings: &[Finding], options: &Options, remedies: usize) -> String {
    let mut text = String::new();
    if !findings.is_empty() {
        line(&mut text, "Doubts");
    }
    for (at, finding) in findings.iter().take(words::DOUBTS_SHOWN).enumerate() {
        let doubt = format!("! {}", words::short(finding));
        wrapped(&mut text, &doubt, "  ", options.width);
        if at < remedies {
            let remedy = format!("  {}", finding.remedy);
            wrapped(&mut text, &remedy, "  ", options.width);
        }
    }
    text
}

/// Formats the matrix in at most `room` lines.
fn drawn_matrix(
    analysis: &Analysis,
    matrix: &choice::Matrix<'_>,
    options: &Options,
    room: usize,
) -> String {
    let mut text = String::new();
    wrapped(&mut text, &matrix.legend(analysis), "  ", options.width);
    // The titles, the rule, and the line about omissions.
    let rows_max = room.saturating_sub(text.lines().count() + 3);
    let width = usize::from(options.width);
    let (grid, left_out) = matrix::fitted(analysis, matrix, width, rows_max);
    for drawn in matrix::lines(&grid) {
        line(&mut text, &drawn);
    }
    if !left_out.is_empty() {
        let said = format!("and {left_out}: --tables");
        wrapped(&mut text, &said, "  ", options.width);
    }
    text
}

/// Writes the verdict on every pair of systems, by workload.
fn all_pairs(analysis: &Analysis, options: &Options, tables: &mut Tables) {
    let choice = &analysis.choice;
    let rankings = choice
        .workloads
        .iter()
        .filter(|workload| workload.pairs.len() > 1);
    for (at, ranking) in rankings.enumerate() {
        if at == 0 {
            let title = format!(
                "Each row's system compared with each column's: {}. Holm's correction covers all \
                 {} pairs.",
                choice::legend_of_pairs(analysis),
                choice.pairs
            );
            wrapped(&mut tables.text, &title, "  ", options.width);
        }
        let (systems, rows) = choice::pairs(ranking);
        let first = Column {
            title: ranking.workload.clone(),
            texts: systems.iter().map(|system| (*system).to_owned()).collect(),
            figures: false,
            expendable: 0,
        };
        let others = systems.iter().enumerate().map(|(column, system)| Column {
            title: (*system).to_owned(),
            texts: rows.iter().map(|row| row[column].clone()).collect(),
            figures: true,
            expendable: 0,
        });
        let columns = std::iter::once(first).chain(others).collect();
        tables.draw(columns, options);
    }
}

/// Describes the systems that the tables only name.
fn systems(analysis: &Analysis, options: &Options, text: &mut String) {
    for system in &analysis.experiment.systems {
        let said = format!("{}: {}", system.name, words::described(system));
        wrapped(text, &said, "  ", options.width);
    }
    // The names of workloads follow, with the sizes that they define.
    if let Some(scaled) = words::scaled(&analysis.experiment) {
        wrapped(text, &scaled, "  ", options.width);
    }
    text.push('\n');
}

/// Writes the comparisons with baselines of their own: with marks, which the overview explains, if
/// there is no room for words.
fn against_own_baselines(analysis: &Analysis, options: &Options, tables: &mut Tables) {
    let mut columns = own_baselines::TABLE.columns(analysis);
    if width_of(&columns) > usize::from(options.width)
        && let Some(verdicts) = columns.last_mut()
    {
        let marks = analysis.own_comparisons.iter();
        let marks = marks.map(|mark| figures::mark(mark.verdict).to_owned());
        verdicts.texts = marks.collect();
    }
    tables.captioned(own_baselines::TABLE.caption(), columns, options);
}

/// Writes the latencies before, during and after jobs. Each workload and system has its own lines,
/// since a row with all intervals would be too wide.
fn around_jobs(analysis: &Analysis, options: &Options, text: &mut String) {
    for row in jobs::rows(analysis) {
        wrapped(
            text,
            &format!("{}: {}", row[0], row[1]),
            "  ",
            options.width,
        );
        for (title, of) in [("p50", 2..5), ("p99", 5..8)] {
            let stages = Stage::ALL.iter().zip(&row[of]);
            let words: Vec<String> = stages
                .map(|(stage, figure)| format!("{} {figure}", stage.words()))
                .collect();
            let sentence = format!("  {title} {}", words.join(", "));
            wrapped(text, &sentence, "    ", options.width);
        }
        let known = |figure: &String| match figure.as_str() {
            "" => "unknown".to_owned(),
            known => known.to_owned(),
        };
        let rates = format!(
            "  the job ran at {} during the workload, {} alone: {}",
            known(&row[8]),
            known(&row[9]),
            known(&row[10])
        );
        wrapped(text, &rates, "    ", options.width);
        text.push('\n');
    }
}

/// Formats a verdict in words, or as its mark if the terminal is narrow.
fn verdict(comparison: Option<&Comparison>, options: &Options) -> String {
    let Some(comparison) = comparison else {
        let is_narrow = options.width < NARROW;
        return if is_narrow { "" } else { "  baseline" }.to_owned();
    };
    match (options.width < NARROW, comparison.control) {
        (true, true) => "A/A".to_owned(),
        (true, false) => figures::mark(comparison.verdict).to_owned(),
        (false, true) => format!("  {}", words::verdict(comparison)),
        (false, false) => words::marked(comparison),
    }
}

/// Name of all workloads together in the overview.
const OVERALL: &str = "geometric mean";

/// A row of the overview: a workload and a quantity, or `None` for all workloads together, which
/// have no quantity.
type Question<'a> = Option<(&'a str, Quantity)>;

/// Writes each difference with its mark: workloads as rows, systems as columns. If that is too
/// wide, and the opposite is not, they change places.
fn overview(analysis: &Analysis, options: &Options, tables: &mut Tables) {
    let systems: Vec<&str> = analysis
        .compared()
        .map(|system| system.name.as_str())
        .collect();
    if systems.is_empty() {
        return;
    }
    let questions = analysis.questions().into_iter();
    let mut questions: Vec<Question<'_>> = questions
        .map(|(workload, quantity)| Some((&*workload.name, quantity)))
        .collect();
    questions.extend((!analysis.overall.is_empty()).then_some(None));
    let is_wide = |columns: &[Column]| width_of(columns) > usize::from(options.width);
    let mut columns = systems_across(analysis, &systems, &questions);
    if is_wide(&columns) {
        let turned = questions_across(analysis, &systems, &questions);
        if !is_wide(&turned) {
            columns = turned;
        }
    }
    let baseline = words::baseline_name(analysis);
    let mut title = format!(
        "Difference from {baseline} in percent, or as a factor from 2 × on: {}.",
        words::legend(analysis)
    );
    title += &words::exceptions(analysis);
    if !analysis.overall.is_empty() {
        title += &format!(" {}", words::overall(analysis));
    }
    wrapped(&mut tables.text, &title, "  ", options.width);
    tables.draw(columns, options);
}

/// The overview with a column for each system.
fn systems_across(
    analysis: &Analysis,
    systems: &[&str],
    questions: &[Question<'_>],
) -> Vec<Column> {
    let baseline = analysis.experiment.baseline.as_str();
    let names = questions
        .iter()
        .map(|question| question_name(*question))
        .collect();
    let figures = questions.iter().map(|question| {
        let figure = question
            .and_then(|question| comparisons::baseline_figure(analysis, baseline, question));
        figure.unwrap_or_default()
    });
    let mut columns = vec![
        overview_column("", names, false),
        overview_column(baseline, figures.collect(), true),
    ];
    columns.extend(systems.iter().map(|system| {
        let texts = questions
            .iter()
            .map(|question| difference(analysis, system, *question));
        overview_column(system, texts.collect(), true)
    }));
    columns
}

/// The overview with a column for each question.
fn questions_across(
    analysis: &Analysis,
    systems: &[&str],
    questions: &[Question<'_>],
) -> Vec<Column> {
    let names = systems.iter().map(|&system| system.to_owned()).collect();
    let mut columns = vec![overview_column("", names, false)];
    columns.extend(questions.iter().map(|question| {
        let texts = systems
            .iter()
            .map(|system| difference(analysis, system, *question));
        overview_column(&question_name(*question), texts.collect(), true)
    }));
    columns
}

fn overview_column(title: &str, texts: Vec<String>, figures: bool) -> Column {
    Column {
        title: title.to_owned(),
        texts,
        figures,
        expendable: 0,
    }
}

fn question_name(question: Question<'_>) -> String {
    question.map_or(OVERALL.to_owned(), |(workload, quantity)| {
        quantity.of(workload)
    })
}

/// Formats the difference of a system from the baseline with its mark.
fn difference(analysis: &Analysis, system: &str, question: Question<'_>) -> String {
    let found = match question {
        None => analysis.overall.iter().find(|c| c.system == system),
        Some(question) => comparisons::comparison_of(analysis, system, question),
    };
    if let Some(figure) =
        question.and_then(|question| comparisons::baseline_figure(analysis, system, question))
    {
        return figure;
    }
    found.map_or(String::new(), |c| match c.verdict {
        Verdict::Failed => words::marked(c),
        verdict => {
            let has_sign = matches!(verdict, Verdict::Faster | Verdict::Slower);
            let difference = match figures::factor(c.log_ratio.value) {
                Some((factor, _)) if has_sign => format!("{factor} ×"),
                Some((factor, which)) => format!("{factor} × {which}"),
                None => figures::signed(c.percent().0),
            };
            format!("{difference} {}", figures::mark(verdict))
        }
    })
}

/// Writes the bottlenecks in few lines; the page has all of them.
fn bottlenecks(analysis: &Analysis, options: &Options, text: &mut String) {
    let sentences = verdicts::sentences(analysis);
    if sentences.is_empty() {
        return;
    }
    let mut lines = 0;
    for (at, sentence) in sentences.iter().enumerate() {
        let mut next = String::new();
        wrapped(&mut next, sentence, "  ", options.width);
        lines += next.lines().count();
        if lines > BOTTLENECK_LINES_MAX {
            let rest = sentences.len() - at;
            let s = if rest == 1 { "" } else { "s" };
            line(text, &format!("and {rest} more bottleneck{s}"));
            all_of_them(options, "--format html", "", text);
            break;
        }
        text.push_str(&next);
    }
    // Show every trial: the user requested the trials and they took time.
    for sentence in verdicts::trials(analysis) {
        wrapped(text, &sentence, "  ", options.width);
    }
    text.push('\n');
}

fn change(change: &Change, options: &Options) -> String {
    let mut text = String::new();
    for (what, side) in ["before", "after"].into_iter().zip(words::sides(change)) {
        wrapped(&mut text, &format!("{what}: {side}"), "  ", options.width);
    }
    text.push('\n');
    if let Some(said) = words::different_work_asked(change) {
        wrapped(&mut text, &said, "", options.width);
        for difference in &change.different_work {
            let line = format!("  {}", difference.words());
            wrapped(&mut text, &line, "    ", options.width);
        }
        text.push('\n');
    }
    let whole = change_columns(change, &short_change_row);
    let mut tables = Tables::default();
    let columns = if width_of(&whole) <= usize::from(options.width) {
        whole.into()
    } else {
        let is_there = |verdict| change.rows.iter().any(|row| row.verdict == Some(verdict));
        wrapped(
            &mut tables.text,
            &format!("{}.", words::marks(is_there)),
            "  ",
            options.width,
        );
        grouped(change_columns(change, &narrow_change_row))
    };
    tables.draw(columns, options);
    text += &tables.done(options);
    for (name, before, after) in &change.environment {
        wrapped(
            &mut text,
            &format!("{name}: {before} before, {after} after"),
            "",
            options.width,
        );
    }
    for only in &change.unmatched {
        wrapped(&mut text, only, "  ", options.width);
    }
    doubts(&change.findings, options, &mut text);
    if let Some(why) = words::change_not_shown_among(change) {
        wrapped(&mut text, &why, "", options.width);
    }
    line(&mut text, &words::change_sums(change));
    coloured(&text, options)
}

fn prediction(check: &PredictionCheck, options: &Options) -> String {
    let mut text = String::new();
    for (what, side) in ["predicted", "measured"]
        .into_iter()
        .zip(predictions::sides(check))
    {
        wrapped(&mut text, &format!("{what}: {side}"), "  ", options.width);
    }
    text.push('\n');
    let mut tables = Tables::default();
    for (title, columns) in predictions::tables(check) {
        tables.captioned(title, columns, options);
    }
    wrapped(&mut tables.text, predictions::CAPTION, "  ", options.width);
    text += &tables.done(options);
    for remark in predictions::remarks(check) {
        wrapped(&mut text, &remark, "  ", options.width);
    }
    doubts(&check.findings, options, &mut text);
    text.push('\n');
    for sentence in predictions::sentences(check) {
        wrapped(&mut text, &sentence, "  ", options.width);
    }
    text
}

/// Builds the columns of a change. The difference, its interval and the verdict always stay; the
/// figures before and after may be dropped.
fn change_columns(change: &Change, texts: &dyn Fn(&ChangeRow) -> [String; 5]) -> [Column; 7] {
    let titles = [
        ("workload", false, 0),
        ("system", false, 0),
        ("before", true, 2),
        ("after", true, 1),
        ("change", true, 0),
        ("95 % interval", true, 0),
        ("verdict", false, 0),
    ];
    let mut columns = titles.map(|(title, figures, expendable)| Column {
        title: title.to_owned(),
        texts: Vec::new(),
        figures,
        expendable,
    });
    for row in &change.rows {
        let names = [row.of(), row.system.clone()].into_iter();
        for (column, text) in columns.iter_mut().zip(names.chain(texts(row))) {
            column.texts.push(text);
        }
    }
    columns
}

/// Moves the name of each workload to a row above its systems, which saves a column.
fn grouped([workloads, mut systems, figures @ ..]: [Column; 7]) -> Vec<Column> {
    let mut names = Vec::new();
    let mut rows: Vec<Option<usize>> = Vec::new();
    for (at, (workload, system)) in workloads.texts.iter().zip(&systems.texts).enumerate() {
        if at == 0 || workloads.texts[at - 1] != *workload {
            names.push(workload.clone());
            rows.push(None);
        }
        names.push(format!("  {system}"));
        rows.push(Some(at));
    }
    systems.texts = names;
    let spread = |mut column: Column| {
        let texts = rows
            .iter()
            .map(|row| row.map_or(String::new(), |at| column.texts[at].clone()));
        column.texts = texts.collect();
        column
    };
    std::iter::once(systems)
        .chain(figures.into_iter().map(spread))
        .collect()
}

/// Texts of a row with a shorter verdict, which leaves room for the interval.
fn short_change_row(row: &ChangeRow) -> [String; 5] {
    let mut texts = words::change_row(row);
    if row.verdict == Some(Verdict::NoDifferenceShown) && row.not_shown_among.is_none() {
        "· none shown".clone_into(&mut texts[4]);
    }
    texts
}

/// Texts of a row with a mark instead of the verdict. Since ▲ and ▼ mean `faster` and `slower`, a
/// factor omits these words.
fn narrow_change_row(row: &ChangeRow) -> [String; 5] {
    let mut texts = words::change_row(row);
    if row.control {
        "A/A".clone_into(&mut texts[4]);
    } else if let Some(verdict) = row.verdict {
        figures::mark(verdict).clone_into(&mut texts[4]);
        if let (Some((factor, _)), Verdict::Faster | Verdict::Slower) =
            (figures::factor(row.log_ratio.value), verdict)
        {
            texts[2] = format!("{factor} ×");
        }
    }
    texts
}

/// Writes the most important doubts, or all of them on request.
fn doubts(findings: &[Finding], options: &Options, text: &mut String) {
    if findings.is_empty() {
        return;
    }
    let most = |few| if options.all_doubts { usize::MAX } else { few };
    line(text, "Doubts");
    for finding in findings.iter().take(most(words::DOUBTS_SHOWN)) {
        let doubt = format!("! {}. {}", finding.title, finding.remedy);
        wrapped(text, &doubt, "  ", options.width);
        let (shown, more) = match finding.details.len() {
            few if few <= most(DETAILS_SHOWN) => (few, 0),
            many => (DETAILS_SHOWN - 1, many + 1 - DETAILS_SHOWN),
        };
        for detail in &finding.details[..shown] {
            wrapped(text, &format!("  - {detail}"), "    ", options.width);
        }
        if more > 0 {
            line(text, &format!("  - and {more} more"));
        }
    }
    if !options.all_doubts {
        more_doubts(findings, options, text);
    }
    text.push('\n');
}

/// Writes the titles of the doubts not shown, and how to see them.
fn more_doubts(findings: &[Finding], options: &Options, text: &mut String) {
    if let Some(rest @ [_, ..]) = findings.get(words::DOUBTS_SHOWN..) {
        let titles: Vec<&str> = rest.iter().map(|finding| &*finding.title).collect();
        let count = rest.len();
        let more = format!("and {count} more: {}", titles.join("; "));
        wrapped(text, &more, "  ", options.width);
        let elsewhere = "the same command with --all-doubts";
        all_of_them(options, "--all-doubts", elsewhere, text);
    }
}

/// Writes how to see the omitted part: the command with one more option, on a line of its own for
/// copying. Without a command it writes `elsewhere`, if not empty.
fn all_of_them(options: &Options, option: &str, elsewhere: &str, text: &mut String) {
    match &options.command {
        Some(command) => line(text, &format!("  all of them: {command} {option}")),
        None if elsewhere.is_empty() => {}
        None => line(text, &format!("  all of them: {elsewhere}")),
    }
}

impl Tables {
    /// Writes a table below its caption; nothing without columns.
    fn captioned(&mut self, caption: &str, columns: Vec<Column>, options: &Options) {
        if !columns.is_empty() {
            wrapped(&mut self.text, caption, "  ", options.width);
            self.draw(columns, options);
        }
    }

    /// Writes the columns that fit as a table. If the columns that always stay do not fit, the
    /// table continues below, starting with the first column again.
    fn draw(&mut self, mut columns: Vec<Column>, options: &Options) {
        let width = usize::from(options.width);
        while width_of(&columns) > width {
            let least = columns.iter().map(|column| column.expendable).max();
            let Some(least @ 1..) = least else {
                break;
            };
            for column in columns.extract_if(.., |column| column.expendable == least) {
                // The part after "of" differs between tables.
                let (title, _) = column
                    .title
                    .split_once(" of ")
                    .unwrap_or((&column.title, ""));
                if !self.left_out.iter().any(|name| name == title) {
                    self.left_out.push(title.to_owned());
                }
            }
        }
        let mut rest = columns.iter();
        let Some(first) = rest.next() else {
            return;
        };
        let mut table = vec![first];
        for column in rest {
            table.push(column);
            if table.len() > 2 && width_of(table.iter().copied()) > width {
                table.pop();
                self.text += &drawn(&table);
                self.text.push('\n');
                table = vec![first, column];
            }
        }
        self.text += &drawn(&table);
        self.text.push('\n');
    }

    /// Returns the text, with a note about omitted columns.
    fn done(mut self, options: &Options) -> String {
        if !self.left_out.is_empty() {
            let count = self.left_out.len();
            let s = if count == 1 { "" } else { "s" };
            let names = self.left_out.join(", ");
            let said = format!("{count} column{s} left out for lack of space: {names}");
            wrapped(&mut self.text, &said, "  ", options.width);
            let elsewhere = "in a wider terminal";
            all_of_them(options, "--format markdown", elsewhere, &mut self.text);
            self.text.push('\n');
        }
        self.text
    }
}

/// Formats columns as a table.
fn drawn(columns: &[&Column]) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(columns.iter().map(|column| column.title.as_str()));
    for row in 0..columns
        .iter()
        .map(|column| column.texts.len())
        .max()
        .unwrap_or(0)
    {
        table.add_row(columns.iter().map(|column| column.texts[row].as_str()));
    }
    for (index, column) in columns.iter().enumerate() {
        if let Some(drawn) = table.column_mut(index).filter(|_| column.figures) {
            drawn.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for drawn in table.lines() {
        line(&mut text, drawn.trim_end());
    }
    text
}

/// Width of a table with these columns: a space on both sides of each, one between them.
fn width_of<'a>(columns: impl IntoIterator<Item = &'a Column>) -> usize {
    let width = |text: &String| text.chars().count();
    let texts: usize = columns
        .into_iter()
        .map(|column| {
            column
                .texts
                .iter()
                .map(width)
                .max()
                .unwrap_or(0)
                .max(width(&column.title))
                + 3
        })
        .sum();
    texts.saturating_sub(1)
}

/// Wraps a sentence between words and indents the later lines by `indent`.
fn wrapped(text: &mut String, sentence: &str, indent: &str, width: u16) {
    let width = usize::from(width.max(20));
    let lead = sentence.len() - sentence.trim_start().len();
    let mut row = " ".repeat(lead);
    let mut empty = true;
    for word in sentence.split_whitespace() {
        let room = row.chars().count() + 1 + word.chars().count() <= width;
        if !empty && !room {
            line(text, &row);
            indent.clone_into(&mut row);
            empty = true;
        }
        if !empty {
            row.push(' ');
        }
        row.push_str(word);
        empty = false;
    }
    line(text, &row);
}

/// Names come from other people's files, so escape everything that controls a terminal.
fn coloured(text: &str, options: &Options) -> String {
    let text = super::printable(text);
    if !options.colour {
        return text.into_owned();
    }
    text.replace("▲ faster", "\u{1b}[32m▲ faster\u{1b}[0m")
        .replace("▼ slower", "\u{1b}[33m▼ slower\u{1b}[0m")
        .replace("\n! ", "\n\u{1b}[33m!\u{1b}[0m ")
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("writing to a string does not fail");
}
