//! Figures of the source that may only improve. Each has a file and a row of the table;
//! `xtask/measures.txt` keeps the figures.

mod circles;
mod cli_sentences;
mod comments; // Not a row: read by two of them.
mod doc_words;
mod lines;
mod long_functions;
mod long_lines;
mod methods;
mod open_fields;
mod self_calls;
mod test_executables;
mod weak_sentences;
mod word_list;

use crate::repo::{File, Repo};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use syn::Item;

/// One figure for each crate.
pub(crate) struct Measure {
    /// The name of its file.
    pub(crate) name: &'static str,
    /// The description for the table.
    pub(crate) about: &'static str,
    /// How a crate's findings are combined into its figure.
    figure: Figure,
    /// True if the figure may only get smaller. A size that every feature adds to is only printed.
    is_kept: bool,
    find: fn(&Sources) -> Vec<Finding>,
}

/// How findings make a figure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// The sum of their weights.
    Sum,
    /// The largest weight.
    Largest,
}

/// All measures.
pub(crate) static MEASURES: &[&Measure] = &[
    &lines::MEASURE,
    &cli_sentences::MEASURE,
    &circles::MEASURE,
    &self_calls::MEASURE,
    &methods::MEASURE,
    &open_fields::MEASURE,
    &long_functions::MEASURE,
    &long_lines::MEASURE,
    &weak_sentences::MEASURE,
    &word_list::MEASURE,
    &doc_words::MEASURE,
    &test_executables::MEASURE,
];

/// A place in the source that adds to a figure.
pub(crate) struct Finding {
    /// The crate, or the folder of files outside crates.
    pub(crate) part: String,
    /// The place: `path:line`.
    pub(crate) place: String,
    /// A description of the finding.
    pub(crate) what: String,
    weight: u64,
}

impl Finding {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self {
            part: file.crate_name().to_owned(),
            place: format!("{}:{line}", file.path),
            what: what.into(),
            weight: 1,
        }
    }

    fn weighing(self, weight: usize) -> Self {
        let weight = u64::try_from(weight).expect("64 bits");
        Self { weight, ..self }
    }
}

/// A Rust file of a crate without its tests.
struct Source<'a> {
    file: &'a File,
    items: Vec<Item>,
}

/// The repository, with the files of crates parsed.
pub(crate) struct Sources<'a> {
    repo: &'a Repo,
    parsed: Vec<Source<'a>>,
}

impl<'a> Sources<'a> {
    /// Parses the files of crates; tests, benches and examples are left out.
    ///
    /// # Errors
    /// Returns the parse error of a file.
    pub(crate) fn parse(repo: &'a Repo) -> Result<Self, String> {
        let is_source =
            |file: &&File| file.is_rust() && file.path.contains("/src/") && !file.is_test();
        let files = repo.files.iter().filter(is_source);
        let parse = |file: &'a File| {
            let parsed = syn::parse_file(file.text());
            let mut items = parsed
                .map_err(|error| format!("{}: {error}", file.path))?
                .items;
            items.retain(|item| !is_test(item));
            Ok(Source { file, items })
        };
        Ok(Self {
            repo,
            parsed: files.map(parse).collect::<Result<_, String>>()?,
        })
    }

    /// The names of the crates that have parsed files.
    fn crates(&self) -> Vec<&str> {
        let mut names: Vec<&str> = (self.parsed.iter())
            .map(|source| source.file.crate_name())
            .collect();
        names.dedup();
        names
    }

    fn rust_files(&self) -> impl Iterator<Item = &'a File> {
        self.repo.files.iter().filter(|file| file.is_rust())
    }
}

/// Returns true for an item under `#[cfg(test)]`.
fn is_test(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident("cfg") && list.is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

/// The figures: measure, crate, value.
pub(crate) type Figures = BTreeMap<(&'static str, String), u64>;

/// Measures everything.
pub(crate) fn figures(sources: &Sources) -> Figures {
    let mut figures = Figures::new();
    for measure in MEASURES {
        for finding in (measure.find)(sources) {
            let figure = figures.entry((measure.name, finding.part)).or_default();
            *figure = match measure.figure {
                Figure::Sum => *figure + finding.weight,
                Figure::Largest => (*figure).max(finding.weight),
            };
        }
    }
    figures
}

/// Returns the findings of a measure, in crate `part` only if that is given.
pub(crate) fn findings(sources: &Sources, measure: &Measure, part: Option<&str>) -> Vec<Finding> {
    let mut all = (measure.find)(sources);
    all.retain(|finding| part.is_none_or(|part| part == finding.part));
    all
}

/// One line for each measure: the figure of the whole, and of each crate.
pub(crate) fn table(figures: &Figures) -> String {
    let mut text = String::new();
    for measure in MEASURES {
        let of_crates = figures
            .iter()
            .filter(|((name, _), _)| *name == measure.name);
        let of_crates: Vec<(&str, u64)> = of_crates
            .map(|((_, part), figure)| (part.as_str(), *figure))
            .collect();
        let values = of_crates.iter().map(|(_, figure)| *figure);
        let whole = match measure.figure {
            Figure::Sum => values.sum(),
            Figure::Largest => values.max().unwrap_or(0),
        };
        writeln!(text, "{whole:>8}  {}", measure.about).expect("strings take everything");
        let mut largest = of_crates;
        largest.sort_by_key(|(_, figure)| std::cmp::Reverse(*figure));
        let most: Vec<String> = (largest.iter().take(6))
            .map(|(part, figure)| format!("{} {figure}", short(part)))
            .collect();
        writeln!(text, "          {}", most.join(", ")).expect("strings take everything");
    }
    text
}

fn short(part: &str) -> &str {
    part.strip_prefix("spindles-").unwrap_or(part)
}

/// The text of the kept file: a line for each figure.
pub(crate) fn kept_text(figures: &Figures) -> String {
    let mut text = String::from(
        "# measure, crate, figure: each may only get smaller. `cargo xtask measure --keep` writes \
         this file.\n",
    );
    for ((name, part), figure) in figures.iter().filter(|((name, _), _)| is_kept(name)) {
        writeln!(text, "{name} {part} {figure}").expect("strings take everything");
    }
    text
}

fn is_kept(name: &str) -> bool {
    MEASURES
        .iter()
        .any(|measure| measure.name == name && measure.is_kept)
}

/// Compares with the kept file. Returns a line for each figure that got worse, or that got better
/// and is not kept yet.
pub(crate) fn compare(figures: &Figures, kept: &str) -> Vec<String> {
    let kept: BTreeMap<(&str, &str), u64> = kept
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some(((words.next()?, words.next()?), words.next()?.parse().ok()?))
        })
        .collect();
    let mut changes = Vec::new();
    for ((name, part), figure) in figures.iter().filter(|((name, _), _)| is_kept(name)) {
        let before = kept.get(&(*name, part.as_str())).copied().unwrap_or(0);
        if *figure > before {
            changes.push(format!(
                "{name} of {part} is {figure}, and was {before}: `cargo xtask measure {name} \
                 {part}` lists the places"
            ));
        }
    }
    let is_better = |((name, part), before): (&(&str, &str), &u64)| {
        let now = figures.iter().find(|((n, p), _)| n == name && p == part);
        now.map_or(0, |(_, figure)| *figure) < *before
    };
    if changes.is_empty() && kept.iter().any(is_better) {
        changes.push("figures got better: keep them by `cargo xtask measure --keep`".to_owned());
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the figure of one crate in a made-up repository.
    pub(super) fn figure(measure: &Measure, files: &[(&str, &str)]) -> u64 {
        let repo = Repo::of(files);
        let sources = Sources::parse(&repo).expect("it is Rust");
        let weights = (measure.find)(&sources);
        let weights = weights.iter().map(|finding| finding.weight);
        match measure.figure {
            Figure::Sum => weights.sum(),
            Figure::Largest => weights.max().unwrap_or(0),
        }
    }

    #[test]
    fn a_figure_may_only_get_smaller() {
        let figures = |value| Figures::from([(("long_lines", "spindles-admin".to_owned()), value)]);
        let kept = kept_text(&figures(3));
        assert_eq!(compare(&figures(3), &kept), Vec::<String>::new());
        assert!(compare(&figures(4), &kept)[0].contains("is 4, and was 3"));
        assert!(compare(&figures(2), &kept)[0].contains("--keep"));
        assert!(compare(&Figures::new(), &kept)[0].contains("--keep"));
        assert!(compare(&figures(1), "")[0].contains("was 0"));
    }
}
