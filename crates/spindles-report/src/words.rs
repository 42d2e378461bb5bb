//! Text of reports in plain words: the headline, and names for reading.

use std::collections::BTreeSet;

use spindles_measure::{
    Analysis, Cell, Change, ChangeRow, Comparison, Device, Experiment, Finding, Quantity, Reason,
    Run, System, Verdict, Workload, statistics::Estimate,
};

use crate::figures;

/// The first lines of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Result of the comparisons in one sentence.
    pub lead: String,
    /// How the work was scaled. `None` if it was not.
    pub scaled: Option<String>,
    /// The largest differences.
    pub extremes: Vec<String>,
    /// Doubts that the reader must know before trusting the figures.
    pub caveats: Vec<String>,
}

/// Builds the headline of an analysis.
pub fn headline(analysis: &Analysis) -> Headline {
    let is_cached = |comparison: &&Comparison| {
        analysis.choice.not_counted(&comparison.workload) == Some(Reason::Cached)
    };
    let (cached, asked): (Vec<&Comparison>, Vec<&Comparison>) =
        analysis.headlines().partition(is_cached);
    Headline {
        lead: lead(analysis, &asked, cached.len()),
        scaled: scaled(&analysis.experiment),
        extremes: extremes(analysis, &asked),
        caveats: caveats(analysis),
    }
}

/// Explains the scaling, which every reader of the figures must know. `None` for full size.
pub fn scaled(experiment: &Experiment) -> Option<String> {
    let how = match experiment.scaled_how.trim_end_matches('.') {
        "" => "sizes are smaller than the workloads define",
        how => how,
    };
    let names_size =
        (experiment.workloads.iter()).any(|workload| workload.name.split(' ').any(is_size));
    let of_names = if names_size {
        "; sizes in names of workloads are unscaled"
    } else {
        ""
    };
    (experiment.scaled).then(|| format!("Scaled: {how}{of_names}."))
}

/// Returns true if a word is a size, as in names of workloads: `5M`.
fn is_size(word: &str) -> bool {
    let number = word.strip_suffix(['K', 'M', 'G', 'T']);
    number.is_some_and(|number| number.parse::<f64>().is_ok())
}

/// Summarises the comparisons. Failed ones don't count.
fn lead(analysis: &Analysis, asked: &[&Comparison], cached: usize) -> String {
    if asked.is_empty() && cached > 0 {
        let of = plural(cached, "comparison");
        return format!("All of {of} are of cache figures, which count nowhere.");
    }
    if asked.is_empty() {
        let runs = plural(analysis.runs.len(), "run");
        return format!("{runs}; nothing to compare them with.");
    }
    let count = |verdict| asked.iter().filter(|c| c.verdict == verdict).count();
    let (faster, slower) = (count(Verdict::Faster), count(Verdict::Slower));
    let (equal, one_block) = (count(Verdict::NoDifferenceShown), count(Verdict::OneBlock));
    let failed = count(Verdict::Failed);
    let compared = match asked.len() - failed {
        // Exclude comparisons of a single repetition block, unless no other comparisons exist.
        all if one_block < all => all - one_block,
        all => all,
    };
    let of = plural(compared, "comparison");
    let some = |count: usize, what: &str| match count {
        0 => format!("{what} none"),
        count => format!("{what} {count}"),
    };
    let mut others: Vec<&str> = asked.iter().map(|c| &*c.baseline).collect();
    others.retain(|other| *other != analysis.experiment.baseline);
    others.dedup();
    let mut lead = match others.as_slice() {
        [] => format!("Against {}: ", baseline_name(analysis)),
        others if asked.iter().all(|c| others.contains(&&*c.baseline)) => {
            format!("Against {}: ", others.join(" or "))
        }
        others => format!(
            "Against {}, or {} for workloads it did not run: ",
            baseline_name(analysis),
            others.join(" or ")
        ),
    };
    lead += &if compared == 0 {
        "nothing can be compared".to_owned()
    } else if one_block == asked.len() - failed {
        format!("no verdict in {of}, which have one block each")
    } else if faster + slower > 0 {
        let mut parts = vec![some(faster, "faster in"), some(slower, "slower in")];
        parts.extend((equal > 0).then(|| some(equal, "no difference shown in")));
        format!("{} of {of}", parts.join(", "))
    } else if compared == 1 {
        "no difference was shown in the one comparison".to_owned()
    } else {
        format!("no difference was shown in any of {of}")
    };
    match count(Verdict::Refused) {
        0 => {}
        refused => lead += &format!(", {refused} refused as results of the load generator"),
    }
    if one_block > 0 && one_block < asked.len() - failed {
        lead += &format!(", {one_block} without a verdict: one block");
    }
    if failed > 0 {
        lead += &format!("; {failed} failed");
    }
    if cached > 0 {
        lead += &format!("; {cached} of cache figures count nowhere");
    }
    lead + "."
}

/// Formats a number with its noun: `1 run`, `2 runs`.
fn plural(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

/// Formats the compared figure of a cell: its rate, or a time if that says more. `failed` if no
/// repetition finished.
pub(crate) fn figure(cell: &Cell, quantity: Quantity) -> String {
    match (&*cell.repetitions, quantity.is_time()) {
        ([], _) => Verdict::Failed.words().to_owned(),
        (_, true) => cell.time_ns(quantity).map_or(String::new(), figures::time),
        (_, false) => figures::rate(cell.geometric_mean, cell.rate),
    }
}

/// Caption of an overview in which some differences are not of the rate, or not from the baseline.
pub(crate) fn exceptions(analysis: &Analysis) -> String {
    let workloads = || analysis.experiment.workloads.iter();
    let of = |is_meant: &dyn Fn(&Workload) -> bool| -> Vec<&str> {
        let some = workloads().filter(|workloads| is_meant(workloads));
        some.map(|workload| &*workload.name).collect()
    };
    let is_first = |workload: &Workload, quantity: Quantity| {
        analysis.quantities(workload).first() == Some(&quantity)
    };
    let mut said = String::new();
    for (quantity, what) in [
        (Quantity::ResponseP99, "the response time"),
        (Quantity::Time, "the time"),
    ] {
        let some = of(&|workload| is_first(workload, quantity));
        if !some.is_empty() {
            said += &format!(
                " For {}, {what} is compared: less is faster.",
                some.join(", ")
            );
        }
    }
    let others = of(&|workload| other_baseline(analysis, workload).is_some());
    if !others.is_empty() {
        said += &format!(
            " For {}, not run by {}, the difference is from the first system that ran it, whose \
             figure is shown.",
            others.join(", "),
            baseline_name(analysis)
        );
    }
    said
}

/// Explains the comparison of a workload for the head of its table. `None` if it is simply the rate
/// against the baseline.
pub(crate) fn how_compared(analysis: &Analysis, workload: &Workload) -> Option<String> {
    let of_times = match analysis.quantities(workload).first() {
        Some(Quantity::ResponseP99 | Quantity::ResponseP50) => Some(format!(
            "Operations arrive at a set rate, {} a second: response times are compared, from when \
             an operation was due; less is faster.",
            figures::thousands(figures::float(workload.arrivals_per_s)),
        )),
        Some(Quantity::Time) => {
            Some("A run is one operation: its time is compared; less is faster.".to_owned())
        }
        Some(Quantity::Rate) | None => None,
    };
    let of_another = other_baseline(analysis, workload).map(|other| {
        let baseline = baseline_name(analysis);
        format!("Not run by {baseline}: compared with {other}, the first that ran it.")
    });
    let said = of_another.into_iter().chain(of_times);
    let said: Vec<String> = said.chain(behind(analysis, workload)).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// Returns the system that others are compared with in a workload, if it is not the baseline.
pub(crate) fn other_baseline<'a>(analysis: &'a Analysis, workload: &Workload) -> Option<&'a str> {
    let baseline = analysis.baseline_of(&workload.name);
    (baseline != analysis.experiment.baseline).then_some(baseline)
}

/// Returns true if a cell's system is the one that others are compared with in that workload.
pub(crate) fn is_baseline(analysis: &Analysis, cell: &Cell) -> bool {
    cell.system == analysis.baseline_of(&cell.workload)
}

/// Lists systems that did not keep up with the rate of a workload, and the shares they answered.
fn behind(analysis: &Analysis, workload: &Workload) -> Option<String> {
    let cells = analysis.cells.iter();
    let mine = cells.filter(|cell| cell.workload == workload.name);
    let behind = mine.filter_map(|cell| {
        let overload = analysis.overload(cell)?;
        Some(format!("{} ({})", cell.system, overload.words()))
    });
    let behind: Vec<String> = behind.collect();
    (!behind.is_empty()).then(|| format!("Did not keep up: {}.", behind.join(", ")))
}

/// Formats the difference of a comparison, if there is one: see [`difference_of`].
pub(crate) fn difference(comparison: &Comparison) -> String {
    match comparison.verdict {
        Verdict::Failed => String::new(),
        _ => difference_of(comparison.quantity, &comparison.log_ratio, TIMES_IN_TABLES),
    }
}

/// Formats the interval of a comparison.
pub(crate) fn interval(comparison: &Comparison) -> String {
    match comparison.verdict {
        Verdict::Failed => String::new(),
        _ => interval_of(comparison.quantity, &comparison.log_ratio, TIMES_IN_TABLES),
    }
}

/// Word after a factor in tables and charts, and in sentences.
pub(crate) const TIMES_IN_TABLES: &str = "×";
const TIMES: &str = "times";

/// Formats a difference in percent, or as a factor if it is large.
pub(crate) fn difference_of(quantity: Quantity, log_ratio: &Estimate, times: &str) -> String {
    match figures::factor(log_ratio.value) {
        Some((factor, which)) => format!("{factor} {times} {which}"),
        None => figures::percent(spindles_measure::difference_of(quantity, log_ratio).0),
    }
}

/// Formats a difference for a sentence, where a minus must not suggest a loss: `−34 %`, but for a
/// time `34 % less time`.
fn in_words(quantity: Quantity, log_ratio: &Estimate) -> String {
    let said = difference_of(quantity, log_ratio, TIMES);
    if !quantity.is_time() || figures::factor(log_ratio.value).is_some() {
        return said;
    }
    let which = if log_ratio.value > 0.0 {
        "less"
    } else {
        "more"
    };
    format!("{} {which} time", said.trim_start_matches(['−', '+', '±']))
}

/// Formats an interval in the unit of its difference.
pub(crate) fn interval_of(quantity: Quantity, log_ratio: &Estimate, times: &str) -> String {
    let (low, high) = (log_ratio.low, log_ratio.high);
    if figures::factor(log_ratio.value).is_none() || !(low.is_finite() && high.is_finite()) {
        return figures::interval(spindles_measure::difference_of(quantity, log_ratio));
    }
    let (from, to) = match log_ratio.value {
        faster if faster > 0.0 => (low, high),
        _ => (-high, -low),
    };
    if figures::says_nothing(from.exp(), to.exp()) {
        return figures::UNKNOWN.to_owned();
    }
    let [from, to] = [from, to].map(|end| figures::how_often(end.exp()));
    format!("{from} … {to} {times}")
}

/// Formats the verdict of a comparison.
pub(crate) fn verdict(comparison: &Comparison) -> String {
    match comparison.not_shown_among {
        _ if comparison.control => Verdict::AaPair.words().to_owned(),
        Some(all) => among(all),
        None => comparison.verdict.words().to_owned(),
    }
}

/// Formats the verdict on a difference that is not shown among this many comparisons.
fn among(comparisons: usize) -> String {
    format!("not shown among {comparisons}")
}

/// Explains the differences that are not shown among many.
pub(crate) fn not_shown_among(analysis: &Analysis) -> Option<String> {
    let all = || analysis.comparisons.iter().chain(&analysis.own_comparisons);
    let among = all().find_map(|comparison| comparison.not_shown_among);
    let why = why_not_shown(among?);
    let asked = analysis
        .comparisons
        .iter()
        .filter(|comparison| !comparison.control);
    let others = [
        (
            asked.count() > analysis.headlines().count(),
            "of parts of totals",
        ),
        (
            !analysis.own_comparisons.is_empty(),
            "with systems' own baselines",
        ),
    ];
    let others = others
        .into_iter()
        .filter_map(|(there, what)| there.then_some(what));
    let others: Vec<&str> = others.collect();
    Some(match others.as_slice() {
        [] => why,
        others => format!(
            "{why} The comparisons include those {}.",
            others.join(" and ")
        ),
    })
}

/// Does the same for a change.
pub(crate) fn change_not_shown_among(change: &Change) -> Option<String> {
    let among = change.rows.iter().find_map(|row| row.not_shown_among);
    among.map(why_not_shown)
}

fn why_not_shown(among: usize) -> String {
    format!(
        "Not shown among {among}: the interval alone shows a difference, but some of {among} \
         comparisons do so by chance. There are too few repetition blocks to rule that out (Holm's \
         correction). Use more blocks, or compare less."
    )
}

/// Formats the verdict of a comparison with its mark.
pub(crate) fn marked(comparison: &Comparison) -> String {
    match verdict(comparison) {
        words if comparison.control => words,
        words => format!("{} {words}", figures::mark(comparison.verdict)),
    }
}

/// Explains the marks that occur.
pub(crate) fn legend(analysis: &Analysis) -> String {
    let all = || analysis.comparisons.iter().chain(&analysis.overall);
    marks(|verdict| all().any(|comparison| !comparison.control && comparison.verdict == verdict))
}

/// Explains the marks of verdicts: always those for faster, slower and neither, others if they
/// occur.
pub(crate) fn marks(is_there: impl Fn(Verdict) -> bool) -> String {
    let meanings = [
        (Verdict::Faster, "faster"),
        (Verdict::Slower, "slower"),
        (Verdict::NoDifferenceShown, "none shown"),
        (Verdict::OneBlock, Verdict::OneBlock.words()),
        (Verdict::Refused, Verdict::Refused.words()),
    ];
    let there = meanings
        .iter()
        .enumerate()
        .filter(|(at, (verdict, _))| *at < 3 || is_there(*verdict));
    let words = there.map(|(_, (verdict, words))| format!("{} {words}", figures::mark(*verdict)));
    words.collect::<Vec<_>>().join(", ")
}

fn extremes(analysis: &Analysis, asked: &[&Comparison]) -> Vec<String> {
    let most = |verdict: Verdict, sign: f64| {
        asked
            .iter()
            .filter(|c| c.verdict == verdict && analysis.choice.not_counted(&c.workload).is_none())
            .max_by(|a, b| (sign * a.log_ratio.value).total_cmp(&(sign * b.log_ratio.value)))
    };
    let said = |what: &str, comparison: &Comparison| {
        let (quantity, log_ratio) = (comparison.quantity, &comparison.log_ratio);
        format!(
            "{what}: {} in {}, {} (95 % interval {}).",
            comparison.system,
            comparison.of(),
            in_words(quantity, log_ratio),
            interval_of(quantity, log_ratio, TIMES),
        )
    };
    let mut extremes = Vec::new();
    match most(Verdict::Faster, 1.0) {
        Some(comparison) => extremes.push(said("Largest gain", comparison)),
        None if asked.iter().any(|c| c.verdict == Verdict::Slower) => {
            let all = &analysis.comparisons;
            let is_faster = |comparison: &Comparison| comparison.verdict == Verdict::Faster;
            let what = if analysis.headlines().any(is_faster) {
                "The only gains shown are cache figures."
            } else if all
                .iter()
                .any(|comparison| comparison.verdict == Verdict::Faster)
            {
                "The only gains shown are in parts of totals."
            } else {
                "No gain was shown in any single workload."
            };
            extremes.push(what.to_owned());
        }
        None => {}
    }
    if let Some(comparison) = most(Verdict::Slower, -1.0) {
        extremes.push(said("Largest loss", comparison));
    }
    extremes
}

/// More workloads than this, left out for one reason, are counted instead of named.
const LEFT_OUT_NAMED_MAX: usize = 6;

/// Explains the comparison over all workloads: which count, and which are left out.
pub(crate) fn overall(analysis: &Analysis) -> String {
    let scope = &analysis.overall_scope;
    let (counted, left_out) = (scope.workloads.len(), scope.left_out.len());
    let which = match left_out {
        0 => "all workloads".to_owned(),
        // Name the smaller group.
        few if few <= counted => format!("{counted} of {} workloads", counted + few),
        _ => scope.workloads.join(", "),
    };
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for it in &scope.left_out {
        let (reason, workload) = (it.reason.words(), &*it.workload);
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, workloads)) => workloads.push(workload),
            None => by_reason.push((reason, vec![workload])),
        }
    }
    let reasons = by_reason.into_iter().map(|(reason, workloads)| {
        let which = match workloads.len() {
            0..=LEFT_OUT_NAMED_MAX => workloads.join(", "),
            many => format!("{many} workloads"),
        };
        format!("{which} ({reason})")
    });
    let reasons: Vec<String> = reasons.collect();
    let without = match reasons.as_slice() {
        [] => String::new(),
        some => format!(" Left out: {}.", some.join("; ")),
    };
    format!(
        "Geometric mean of the ratios to the baseline over {which}: all have the same \
         weight.{without}"
    )
}

/// This many doubts are shown before the rest is folded.
pub(crate) const DOUBTS_SHOWN: usize = 3;

/// The most important doubts in short, and the noise floor.
fn caveats(analysis: &Analysis) -> Vec<String> {
    let first = analysis.findings.iter().take(DOUBTS_SHOWN);
    let short = first.map(|finding| match &*finding.kind {
        "shared-device" => "All members share one physical device: this measures the cost of the \
                            software, not the gain of more disks."
            .to_owned(),
        _ => short(finding),
    });
    let short = short.chain(not_shown_among(analysis));
    short.chain(noise_floor(analysis)).collect()
}

/// Formats a doubt with its first evidence.
pub(crate) fn short(finding: &Finding) -> String {
    let more = match finding.details.len() {
        0 | 1 => String::new(),
        // The evidence itself may end with the number of further items.
        count => format!(" (the first of {count})"),
    };
    let first = finding.details.first().map_or("", String::as_str);
    let first = first.trim_end_matches('.');
    let first = match first.chars().count() {
        0..=SHORT_CHARS_MAX => first.to_owned(),
        // Keep the reason of a failure, which is needed to fix it.
        _ if finding.kind == "failed-runs" => {
            let beginning: String = first.chars().take(SHORT_CHARS_MAX).collect();
            format!("{}…)", beginning.trim_end())
        }
        _ => without_parentheses(first),
    };
    format!("{}: {first}{more}.", finding.title)
}

/// Largest number of characters of evidence in a summary. The full text is with the doubts.
const SHORT_CHARS_MAX: usize = 160;

/// Removes the parts in parentheses from a text.
fn without_parentheses(text: &str) -> String {
    let mut kept = String::new();
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '(' => {
                depth += 1;
                kept.truncate(kept.trim_end().len());
            }
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept
}

/// Introduces a change in which the work differs.
pub(crate) fn different_work(change: &Change) -> Option<&'static str> {
    let judged = |row: &ChangeRow| !row.same_work && row.verdict.is_some();
    if change.different_work.is_empty() {
        None
    } else if change.rows.iter().any(judged) {
        Some("Before and after did different work: that alone may explain a change.")
    } else {
        Some("Before and after did different work. Differing work gets no verdict.")
    }
}

/// Does the same for a command line, with its option; the server's page has a link instead.
pub(crate) fn different_work_asked(change: &Change) -> Option<String> {
    let said = different_work(change)?;
    let is_left_out = change.rows.iter().any(|row| row.verdict.is_none());
    let option = if is_left_out {
        " Use --different-work to get one anyway."
    } else {
        ""
    };
    Some(format!("{said}{option}"))
}

/// Describes both sides of a change: name of the experiment, its start, and the path of its
/// records.
pub(crate) fn sides(change: &Change) -> [String; 2] {
    let (before, after) = &change.read_from;
    [(&change.before, before), (&change.after, after)].map(|((name, started), folder)| {
        let facts = [name, &figures::date(*started), folder];
        joined(&facts.map(String::as_str))
    })
}

/// Summarises the verdicts of a change in one sentence.
pub(crate) fn change_sums(change: &Change) -> String {
    let count = |verdict| {
        let rows = change.rows.iter().filter(|row| !row.control);
        rows.filter(|row| row.verdict == verdict).count()
    };
    let without = match count(None) {
        0 => String::new(),
        rows => format!(", {rows} not compared: different work"),
    };
    let refused = match count(Some(Verdict::Refused)) {
        0 => String::new(),
        rows => format!(", {rows} refused: the load generator was the limit"),
    };
    let one_block = match count(Some(Verdict::OneBlock)) {
        0 => String::new(),
        rows => format!(", {rows} without a verdict: one block"),
    };
    let failed = match count(Some(Verdict::Failed)) {
        0 => String::new(),
        rows => format!("; {rows} failed"),
    };
    let times = change.rows.iter().filter(|row| row.quantity.is_time());
    let times: BTreeSet<String> = times.map(ChangeRow::of).collect();
    let less = match times.into_iter().collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => none,
        times => format!(" For {times}, less is faster."),
    };
    format!(
        "{} faster, {} slower, {} without a difference \
         shown{without}{refused}{one_block}{failed}.{less}",
        count(Some(Verdict::Faster)),
        count(Some(Verdict::Slower)),
        count(Some(Verdict::NoDifferenceShown)),
    )
}

/// Formats the verdict of a row of a change.
pub(crate) fn change_verdict(row: &ChangeRow) -> String {
    let words = match (row.verdict, row.not_shown_among) {
        (_, Some(all)) => return among(all),
        (Some(verdict), _) => verdict.words(),
        (None, _) if row.control => Verdict::AaPair.words(),
        (None, _) => "different work",
    };
    words.to_owned()
}

/// Formats the texts of a row of a change: before, after, change, interval, verdict.
pub(crate) fn change_row(row: &ChangeRow) -> [String; 5] {
    let (before, after) = (row.before, row.after);
    let [before, after] = [before, after].map(|figure| {
        if row.log_ratio.blocks == 0 && figure <= 0.0 {
            Verdict::Failed.words().to_owned()
        } else if row.quantity.is_time() {
            figures::time(figure)
        } else {
            figures::rate(figure, row.rate)
        }
    });
    let words = match row.verdict {
        Some(verdict) => format!("{} {}", figures::mark(verdict), change_verdict(row)),
        None => change_verdict(row),
    };
    let is_compared = row.same_work || row.verdict.is_some();
    if row.log_ratio.blocks == 0 || !is_compared {
        return [before, after, String::new(), String::new(), words];
    }
    [
        before,
        after,
        difference_of(row.quantity, &row.log_ratio, TIMES_IN_TABLES),
        interval_of(row.quantity, &row.log_ratio, TIMES_IN_TABLES),
        words,
    ]
}

/// Formats the largest difference of the A/A pair.
pub(crate) fn noise_floor(analysis: &Analysis) -> Option<String> {
    let widest = analysis
        .comparisons
        .iter()
        .filter(|c| c.control && c.log_ratio.blocks > 0)
        .max_by(|a, b| a.log_ratio.value.abs().total_cmp(&b.log_ratio.value.abs()))?;
    // The same text as in the pair's row, so that readers can find it there.
    Some(format!(
        "Noise floor: {}, measured twice under two names, differed most from itself in {}: under \
         the second {}.",
        baseline_name(analysis),
        widest.of(),
        difference_of(widest.quantity, &widest.log_ratio, TIMES),
    ))
}

/// Name of the baseline in the experiment.
pub(crate) fn baseline_name(analysis: &Analysis) -> &str {
    &analysis.experiment.baseline
}

/// Describes the extent: `8 systems × 7 workloads × 6 repetition blocks`, or the numbers of what
/// has run while runs are missing.
pub(crate) fn extent(analysis: &Analysis) -> String {
    let (experiment, blocks) = (&analysis.experiment, analysis.blocks());
    let in_blocks = plural(blocks, "repetition block");
    if analysis.runs.len() >= experiment.runs_per_block() * blocks {
        let systems = plural(experiment.systems.len(), "system");
        let workloads = plural(experiment.workloads_that_run().count(), "workload");
        return format!("{systems} × {workloads} × {in_blocks}");
    }
    let different = |name: fn(&Run) -> &str| {
        let names: BTreeSet<&str> = analysis.runs.iter().map(name).collect();
        names.len()
    };
    let runs = plural(analysis.runs.len(), "run");
    let systems = plural(different(|run| &run.system.name), "system");
    let workloads = plural(different(|run| &run.workload.name), "workload");
    format!("{runs}: {systems}, {workloads}, {in_blocks}")
}

/// Describes a system: its members, capacity and fault tolerance.
pub(crate) fn describe(system: &System) -> String {
    let members = match system.members {
        0 | 1 => "1 member".to_owned(),
        members => format!("{members} members"),
    };
    let holds = match system.capacity_bytes {
        0 => String::new(),
        bytes => format!(", holds {}", figures::bytes(figures::float(bytes))),
    };
    let survives = match (system.members, system.known_to_survive()) {
        (_, None) => ", survives an unknown number of losses".to_owned(),
        (0 | 1, _) => String::new(),
        (_, Some(0)) => ", survives no loss".to_owned(),
        (_, Some(1)) => ", survives any 1 loss".to_owned(),
        (_, Some(losses)) => format!(", survives any {losses} losses"),
    };
    let missing = match system.missing {
        0 => String::new(),
        missing => format!(", {missing} missing"),
    };
    let options = ["through", "file system", "mount", "mkfs", System::MOUNTED].map(|name| {
        let value = system.options.get(name)?;
        Some(match name {
            "file system" => format!(", {value}"),
            "mount" => format!(" mounted {value}"),
            "mkfs" => format!(", made with {value}"),
            System::MOUNTED => format!(", {}", found_mounted(value)),
            name => format!(", {name} {value}"),
        })
    });
    let options: String = options.into_iter().flatten().collect();
    format!("{members}{holds}{survives}{missing}{options}")
}

/// Formats the file system that was found mounted, with its options except the kernel's defaults.
fn found_mounted(found: &str) -> String {
    let (file_system, options) = found.split_once(' ').unwrap_or((found, ""));
    let options = options.split([',', ';', ' ']);
    let chosen = options.filter(|option| !["", "rw", "relatime"].contains(option));
    match chosen.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => file_system.to_owned(),
        some => format!("{file_system} mounted {some}"),
    }
}

/// Describes a system with its expression: `raid5(a,b,c), 3 members, survives any 1 loss`.
pub(crate) fn described(system: &System) -> String {
    joined(&[&system.expression, &describe(system)])
}

/// Lists the I/O backends used: `io_uring, direct`.
pub(crate) fn backends(analysis: &Analysis) -> String {
    let mut all: Vec<String> = analysis
        .runs
        .iter()
        .filter(|run| !run.io.backend.is_empty())
        .map(|run| {
            let direct = if run.io.direct { ", direct" } else { "" };
            format!("{}{direct}", run.io.backend)
        })
        .collect();
    all.sort();
    all.dedup();
    all.join("; ")
}

/// Lists names and values of everything known about the environment.
pub(crate) fn environment(analysis: &Analysis) -> Vec<(String, String)> {
    let environment = &analysis.environment;
    let experiment = &analysis.experiment;
    let mut rows: Vec<(String, String)> = [
        ("experiment", experiment.name.clone()),
        ("began", figures::date(experiment.started_unix_ms)),
        ("extent", extent(analysis)),
        ("seed", experiment.seed.to_string()),
        (
            "spindles",
            joined(&[
                &environment.tool_version,
                &environment.commit,
                &environment.profile,
            ]),
        ),
        ("I/O", backends(analysis)),
        ("operating system", environment.os.clone()),
        ("kernel", environment.kernel.clone()),
        ("CPU", environment.cpu_model.clone()),
        (
            "logical CPUs",
            match environment.cpus {
                0 => String::new(),
                cpus => cpus.to_string(),
            },
        ),
        ("frequency governor", environment.governor.clone()),
        ("virtualization", environment.virtualization.clone()),
        ("memory", known_bytes(environment.memory_bytes)),
        (
            "memory available",
            known_bytes(environment.memory_available_bytes),
        ),
        ("file system", environment.file_system.clone()),
        ("mount options", environment.mount_options.clone()),
        (
            "clock resolution",
            match environment.clock_resolution_ns {
                0 => String::new(),
                ns => figures::time(figures::float(ns)),
            },
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let systems = experiment
        .systems
        .iter()
        .map(|system| (format!("system {}", system.name), described(system)));
    rows.extend(systems);
    let devices = environment
        .devices
        .iter()
        .map(|device| (format!("device {}", device.name), facts_of(device)));
    rows.extend(devices);
    rows.extend(
        environment
            .more
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    rows.retain(|(_, value)| !value.is_empty());
    rows
}

/// Lists the known facts of a device.
fn facts_of(device: &Device) -> String {
    let kind = if device.rotational {
        "spinning"
    } else {
        "not spinning"
    };
    let sector = match device.sector_bytes {
        0 => String::new(),
        bytes => format!("sectors of {bytes} bytes"),
    };
    let scheduler = match &*device.scheduler {
        "" => String::new(),
        name => format!("scheduler {name}"),
    };
    joined(&[
        &*device.model,
        &*device.serial,
        &*known_bytes(device.bytes),
        kind,
        &*sector,
        &*scheduler,
    ])
}

/// Returns a number of bytes in words; empty if it is 0, which means unknown.
fn known_bytes(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        bytes => figures::bytes(figures::float(bytes)),
    }
}

pub(crate) fn joined(parts: &[&str]) -> String {
    let known: Vec<&str> = parts
        .iter()
        .copied()
        .filter(|part| !part.is_empty())
        .collect();
    known.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public::example;
    use spindles_measure::{LeftOut, Reason, Record};

    #[test]
    fn the_headline_states_the_result_and_its_limits() {
        let analysis = Analysis::of(&example::records(6)).unwrap();
        let headline = headline(&analysis);
        assert!(headline.lead.starts_with("Against single: faster in "));
        assert!(
            headline.lead.ends_with(" of 49 comparisons."),
            "{}",
            headline.lead
        );
        assert!(
            headline.extremes[1].starts_with("Largest loss: "),
            "{:?}",
            headline.extremes
        );
        assert_eq!(
            headline.caveats[0],
            "All members share one physical device: this measures the cost of the software, not \
             the gain of more disks."
        );
        let floor = headline.caveats.last().unwrap();
        assert!(floor.starts_with("Noise floor: single, measured twice"));
        assert_eq!(headline.caveats.len(), DOUBTS_SHOWN + 2);
        // Eight workloads against the baseline, and one level against another in each.
        let among = &headline.caveats[DOUBTS_SHOWN];
        assert!(among.starts_with("Not shown among 56: "), "{among}");
        let own = " The comparisons include those with systems' own baselines.";
        assert!(among.ends_with(own), "{among}");
        // Phases with a total are compared too, but counted in no headline.
        let mut of_files = Analysis::of(&example::file_records(3)).unwrap();
        of_files.comparisons[0].not_shown_among = Some(99);
        let part = of_files.comparisons[0].workload.clone();
        of_files.experiment.workloads.push(Workload {
            together: vec![part],
            ..Workload::default()
        });
        let among = not_shown_among(&of_files).unwrap();
        assert!(
            among.contains(" The comparisons include those of parts of totals"),
            "{among}"
        );
        let verdicts = analysis.comparisons.iter().map(verdict);
        assert!(
            verdicts
                .filter(|verdict| verdict == "not shown among 56")
                .count()
                > 0
        );
    }

    fn runs(records: &mut [Record]) -> impl Iterator<Item = &mut Run> {
        records.iter_mut().filter_map(Record::run_mut)
    }

    /// A loss is treated like a gain, and the figure matches the table's.
    #[test]
    fn the_noise_floor_comes_from_the_row_of_the_pair() {
        for (factor, divisor, ending) in [
            (5, 2, " 2.5 times slower."),
            (2, 5, " 2.5 times faster."),
            (3, 2, " −33 %."),
        ] {
            let mut records = example::records(3);
            let baseline: Vec<Run> = (runs(&mut records))
                .filter(|run| run.system.name == "single")
                .map(|run| run.clone())
                .collect();
            for run in runs(&mut records).filter(|run| run.system.name == "single-again") {
                let twin = baseline.iter().find(|other| {
                    (&other.workload.name, other.repetition_block)
                        == (&run.workload.name, run.repetition_block)
                });
                run.elapsed_ns = twin.unwrap().elapsed_ns / divisor * factor;
                run.counted = twin.unwrap().counted;
            }
            let analysis = Analysis::of(&records).unwrap();
            let floor = noise_floor(&analysis).unwrap();
            assert!(floor.ends_with(ending), "{floor}");
            let mut pairs = analysis
                .comparisons
                .iter()
                .filter(|comparison| comparison.control);
            let figure = ending[1..].trim_end_matches('.').replace("times", "×");
            assert!(pairs.any(|pair| difference(pair) == figure), "{figure}");
        }
    }

    /// A gain with a minus would look like a loss.
    #[test]
    fn sentences_about_times_use_less_and_more() {
        let of = |quantity, ratio: f64| {
            let value = ratio.ln();
            in_words(
                quantity,
                &Estimate {
                    value,
                    low: value,
                    high: value,
                    p_value: 1.0,
                    blocks: 5,
                    method: spindles_measure::statistics::Method::StudentT,
                },
            )
        };
        assert_eq!(of(Quantity::Time, 1.0 / 0.66), "34 % less time");
        assert_eq!(of(Quantity::ResponseP99, 1.0 / 1.5), "50 % more time");
        assert_eq!(of(Quantity::Time, 7.14), "7.1 times faster");
        assert_eq!(of(Quantity::Rate, 0.66), "−34 %");
        let mut wide = Estimate {
            value: -5.0,
            low: -25.0,
            high: 15.0,
            p_value: 1.0,
            blocks: 2,
            method: spindles_measure::statistics::Method::StudentT,
        };
        assert_eq!(interval_of(Quantity::Rate, &wide, TIMES), "unknown");
        wide.high = 0.0;
        let text = interval_of(Quantity::Rate, &wide, TIMES);
        assert_eq!(text, "1.0 … over 1,000 times");
    }

    /// Many workloads left out for one reason are given as a number.
    #[test]
    fn many_excluded_workloads_are_summarized_as_a_number() {
        let mut records = example::records(3);
        let workload = |run: &Run| run.workload.name.clone();
        let first = runs(&mut records).map(|run| workload(run)).next().unwrap();
        for run in runs(&mut records) {
            let is_short = workload(run) == first;
            run.elapsed_ns = if is_short { 1_000_000 } else { 1_000_000_000 };
        }
        let mut analysis = Analysis::of(&records).unwrap();
        let few = overall(&analysis);
        assert!(
            few.ends_with(&format!("Left out: {first} (took less than 0.1 s).")),
            "{few}"
        );
        analysis.overall_scope.left_out = (0..43)
            .map(|at| LeftOut {
                workload: format!("cp {at}"),
                reason: Reason::TooShort,
            })
            .collect();
        let many = overall(&analysis);
        assert!(
            many.ends_with("Left out: 43 workloads (took less than 0.1 s)."),
            "{many}"
        );
    }

    #[test]
    fn a_summary_shortens_long_reasons() {
        let finding = |details: &str| Finding {
            title: "Cached".to_owned(),
            details: vec![details.to_owned(), String::new()],
            kind: String::new(),
            remedy: String::new(),
        };
        let brief = "read: single (30 % (all))";
        assert_eq!(
            short(&finding(brief)),
            format!("Cached: {brief} (the first of 2).")
        );
        let long = format!(
            "read: single ({}), raid5 ({brief}) and 3 more",
            "x".repeat(200)
        );
        assert_eq!(
            short(&finding(&long)),
            "Cached: read: single, raid5 and 3 more (the first of 2)."
        );
        let failed = Finding {
            kind: "failed-runs".to_owned(),
            ..finding(&format!(
                "log-write: raid5 (fio: no /dev/fuse{})",
                "!".repeat(200)
            ))
        };
        let message = short(&failed);
        assert!(
            message.starts_with("Cached: log-write: raid5 (fio: no /dev/fuse!"),
            "{message}"
        );
        assert!(message.ends_with("!…) (the first of 2)."), "{message}");
    }

    /// The fault tolerance of systems made by other tools is unknown, not none.
    #[test]
    fn fault_tolerance_of_systems_is_stated_if_known() {
        for (level, members, survives, expected) in [
            ("single", 1, 0, "1 member"),
            ("raid0", 4, 0, "4 members, holds 3.00 GiB, survives no loss"),
            ("raid6", 6, 2, "6 members, survives any 2 losses"),
            (
                "made by commands",
                4,
                0,
                "4 members, survives an unknown number of losses",
            ),
            (
                "made by the kernel",
                2,
                0,
                "2 members, survives an unknown number of losses",
            ),
            (
                "folder",
                1,
                0,
                "1 member, survives an unknown number of losses",
            ),
        ] {
            let system = System {
                level: level.to_owned(),
                members,
                survives,
                capacity_bytes: if level == "raid0" { 3 << 30 } else { 0 },
                ..System::default()
            };
            assert_eq!(describe(&system), expected);
        }
        let mut system = System {
            expression: "raid5(3)".to_owned(),
            members: 3,
            survives: 1,
            ..System::default()
        };
        for (name, value) in [
            ("through", "FUSE and a loop device"),
            ("file system", "ext4"),
            ("mount", "sync"),
        ] {
            system.options.insert(name.to_owned(), value.to_owned());
        }
        let expected = "raid5(3), 3 members, survives any 1 loss, through FUSE and a loop device, \
            ext4 mounted sync";
        assert_eq!(described(&system), expected);
        let found = |mount: &str| System {
            expression: "$DIR/mnt".to_owned(),
            members: 1,
            options: [(System::MOUNTED.to_owned(), mount.to_owned())].into(),
            ..System::default()
        };
        for (mount, expected) in [
            (
                "btrfs rw,relatime; rw,ssd,subvol=/",
                "btrfs mounted ssd,subvol=/",
            ),
            ("ext4 rw,relatime; rw", "ext4"),
        ] {
            let described = described(&found(mount));
            assert_eq!(described, format!("$DIR/mnt, 1 member, {expected}"));
        }
    }

    /// Whatever the baseline is made of, texts use its name from the tables.
    #[test]
    fn the_baseline_has_its_name_from_the_experiment() {
        let mut records = example::records(2);
        for record in &mut records {
            if let spindles_measure::Record::Run(run) = record {
                if run.system.name == "single" {
                    "bare".clone_into(&mut run.system.name);
                }
            } else if let spindles_measure::Record::Experiment(experiment) = record {
                "bare".clone_into(&mut experiment.systems[0].name);
                "bare".clone_into(&mut experiment.baseline);
            }
        }
        let analysis = Analysis::of(&records).unwrap();
        assert!(headline(&analysis).lead.starts_with("Against bare: "));
        for output in crate::OUTPUTS {
            let text = (output.report)(&analysis, &crate::Options::default());
            assert!(!text.contains("the single disk"), "{}", output.name);
        }
    }
}
