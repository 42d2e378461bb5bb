//! `spindles model show`: shows every number of a model with its source.

use super::Command;
use super::list::FILE_SYSTEM;
use crate::documents::models::{ModelDemerit, ModelNumber, ModelReplay, ModelShown, ModelSwitch};
use crate::failure::Usage;
use crate::measuring;
use crate::ui::Ui;
use anyhow::Context as _;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_host::file_systems::{self, Row};
use spindles_lab::{Modelled, load_controller, load_host, load_software};
use spindles_model::{
    Measured, Number, Parameters, Switch, demerit, parse_requests, percentile, preset, replay,
};
use spindles_report::{ModelFacts, model_page};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) static COMMAND: Command = Command {
    name: "show",
    about: "Show every number of a model: its value, its bounds and where it is from",
    details: "MODEL is a name of `spindles model list`, a preset of your own, or the folder of a \
              drive with drive.toml, seek.csv and extents.csv. If the folder has requests.csv, \
              its requests are replayed, and modelled responses compared with the measured \
              ones. The demerit is the root mean square distance of the two distributions.\n\n\
              spindles model show quantum-xp32150w\n\
              spindles model show mine.toml --json\n\
              spindles model show exos-x18-18tb --html exos.html",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// A name, a file that ends in .toml, or the folder of a drive
    #[arg(value_name = "MODEL")]
    model: String,
    /// Also write a page for the browser, with the portrait of the device: its seek curve, its
    /// rates by place, and measured next to modelled responses
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if let Some(row) = file_systems::by_name(&arguments.model) {
        ui.json(&of_file_system(row));
        print_file_system(row, ui);
        return Ok(());
    }
    if let Some(page) = &arguments.html {
        measuring::check_page_at(page, "name another file")?;
    }
    let (parameters, requests) = read_model(&arguments.model)?;
    let replayed = match &requests {
        Some(requests) => Some(replay(&parameters, requests).map_err(Usage::error)?),
        None => None,
    };
    let shown = document(&parameters, requests.as_deref().zip(replayed.as_deref()))?;
    if let Some(page) = &arguments.html {
        let facts = facts(
            &parameters,
            &shown,
            requests.as_deref().zip(replayed.as_deref()),
        )?;
        measuring::write_page_at(page, &model_page(&facts).html())?;
    }
    print(&shown, ui);
    if let Some(page) = &arguments.html {
        ui.line(format!("\nPage: {}", page.display()));
    }
    ui.json(&shown);
    Ok(())
}

/// Loads a model by its name, its file or its folder; of a folder also the measured requests.
fn read_model(model: &str) -> anyhow::Result<(Arc<Parameters>, Option<Vec<Measured>>)> {
    let parameters = match preset(model) {
        Ok(parameters) if !Path::new(model).exists() => Arc::new(parameters),
        _ => match load_host(model)
            .or_else(|_| load_controller(model))
            .or_else(|_| load_software(model))
        {
            Ok(found) => found,
            Err(_) => Modelled::load(model).map_err(Usage::error)?.parameters,
        },
    };
    let requests = Path::new(model).join("requests.csv");
    if !requests.exists() {
        return Ok((parameters, None));
    }
    let file = requests.display().to_string();
    let text = fs::read_to_string(&requests).with_context(|| file.clone())?;
    let requests = parse_requests(&file, &text).map_err(Usage::error)?;
    let requests = Some(requests).filter(|requests| !requests.is_empty());
    Ok((parameters, requests))
}

fn document(
    parameters: &Parameters,
    replayed: Option<(&[Measured], &[f64])>,
) -> anyhow::Result<ModelShown> {
    let mut numbers: Vec<ModelNumber> = parameters.numbers.iter().map(number).collect();
    let inferred = parameters.inferred().map_err(Usage::error)?;
    numbers.extend(inferred.iter().map(number));
    Ok(ModelShown {
        name: parameters.name.clone(),
        kind: parameters.kind.name,
        year: parameters.year,
        numbers,
        switches: parameters.switches.iter().map(switch).collect(),
        zones: parameters.zones.len(),
        extents: parameters.extents.len(),
        seek_points: parameters.seek.len(),
        not_modelled: Vec::new(),
        replay: replayed.and_then(|(requests, modelled)| {
            let of = |takes: fn(&Measured) -> bool| compared(requests, modelled, takes);
            Some(ModelReplay {
                all: of(|_| true)?,
                reads: of(|request| !request.is_write),
                writes: of(|request| request.is_write),
            })
        }),
    })
}

fn of_file_system(row: &Row) -> ModelShown {
    ModelShown {
        name: row.name.to_owned(),
        kind: FILE_SYSTEM,
        year: row.year,
        numbers: Vec::new(),
        switches: Vec::new(),
        zones: 0,
        extents: 0,
        seek_points: 0,
        not_modelled: row.not_modelled.to_vec(),
        replay: None,
    }
}

fn print_file_system(row: &Row, ui: &Ui) {
    let year = row
        .year
        .map_or_else(String::new, |year| format!(", {year}"));
    ui.line(format!("{}: {FILE_SYSTEM}{year}", row.name));
    ui.line("");
    ui.line(row.about);
    ui.line(format!("not modelled: {}", row.not_modelled.join(", ")));
}

/// Collects what the page shows.
fn facts(
    parameters: &Parameters,
    shown: &ModelShown,
    replayed: Option<(&[Measured], &[f64])>,
) -> anyhow::Result<ModelFacts> {
    let portrait = parameters.portrait().map_err(Usage::error)?;
    let numbers = shown.numbers.iter().map(|number| {
        let [value, low, high] = [number.value, number.low, number.high].map(rounded);
        let key = number.key.clone();
        [
            key,
            value,
            low,
            high,
            number.how.to_owned(),
            number.source.clone(),
        ]
    });
    let switches = shown.switches.iter().map(|switch| {
        let mut words = vec![switch.value.clone()];
        words.extend(switch.or.iter().map(|or| format!("or {or}")));
        let (key, how) = (switch.key.clone(), switch.how.to_owned());
        let none = String::new;
        [
            key,
            words.join(", "),
            none(),
            none(),
            how,
            switch.source.clone(),
        ]
    });
    let year = shown
        .year
        .map_or_else(String::new, |year| format!(", {year}"));
    let (measured_ms, modelled_ms) = replayed.map_or_else(Default::default, |(requests, us)| {
        let measured = requests.iter().map(|request| request.response_us / 1e3);
        (measured.collect(), us.iter().map(|us| us / 1e3).collect())
    });
    let demerit = shown.replay.as_ref().map(|replay| &replay.all);
    Ok(ModelFacts {
        name: shown.name.clone(),
        summary: format!("{}{year}", parameters.kind.about),
        numbers: numbers.chain(switches).collect(),
        seek: portrait.seek,
        rates: portrait.rates,
        measured_ms,
        modelled_ms,
        demerit: demerit.map_or_else(String::new, |of| {
            format!(
                "{} requests, demerit {:.2} %",
                of.requests, of.demerit_percent
            )
        }),
    })
}

fn number((key, number): (&String, &Number)) -> ModelNumber {
    ModelNumber {
        key: key.clone(),
        value: number.value,
        low: number.low,
        high: number.high,
        how: number.how.word(),
        source: number.source.clone(),
    }
}

fn switch((key, switch): (&String, &Switch)) -> ModelSwitch {
    ModelSwitch {
        key: key.clone(),
        value: switch.value.clone(),
        or: switch.or.clone(),
        how: switch.how.word(),
        source: switch.source.clone(),
    }
}

fn compared(
    requests: &[Measured],
    modelled: &[f64],
    takes: fn(&Measured) -> bool,
) -> Option<ModelDemerit> {
    let pairs = requests.iter().zip(modelled);
    let (measured, modelled): (Vec<f64>, Vec<f64>) = pairs
        .filter(|(request, _)| takes(request))
        .map(|(request, us)| (request.response_us, *us))
        .unzip();
    let result = demerit(&measured, &modelled)?;
    Some(ModelDemerit {
        requests: measured.len(),
        measured_mean_us: result.measured_mean_us,
        modelled_mean_us: result.modelled_mean_us,
        demerit_us: result.demerit_us,
        demerit_percent: result.share() * 100.0,
        measured_p95_us: percentile(&measured, 0.95)?,
        modelled_p95_us: percentile(&modelled, 0.95)?,
        measured_p99_us: percentile(&measured, 0.99)?,
        modelled_p99_us: percentile(&modelled, 0.99)?,
    })
}

fn print(shown: &ModelShown, ui: &Ui) {
    let year = shown
        .year
        .map_or_else(String::new, |year| format!(", {year}"));
    ui.line(format!("{}: {}{year}", shown.name, shown.kind));
    let numbers: Vec<Vec<String>> = (shown.numbers.iter())
        .map(|number| {
            let bounds = if number.low < number.high {
                format!("{} to {}", rounded(number.low), rounded(number.high))
            } else {
                String::new()
            };
            let value = rounded(number.value);
            vec![
                number.key.clone(),
                value,
                bounds,
                number.how.to_owned(),
                number.source.clone(),
            ]
        })
        .collect();
    ui.line("");
    ui.table(&["number", "value", "bounds", "how", "source"], &numbers);
    let switches: Vec<Vec<String>> = (shown.switches.iter())
        .map(|switch| {
            let source = switch.source.clone();
            let or = switch.or.join(", ");
            vec![
                switch.key.clone(),
                switch.value.clone(),
                or,
                switch.how.to_owned(),
                source,
            ]
        })
        .collect();
    if !switches.is_empty() {
        ui.line("");
        ui.table(&["switch", "value", "or", "how", "source"], &switches);
    }
    if shown.zones > 0 {
        ui.line("");
        ui.line(format!(
            "{} zones, {} extents, {} points of the seek curve",
            shown.zones, shown.extents, shown.seek_points
        ));
    }
    if let Some(replay) = &shown.replay {
        ui.line("");
        print_replay(replay, ui);
    }
}

/// A number with at most four decimals.
fn rounded(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn print_replay(replay: &ModelReplay, ui: &Ui) {
    let parts = [
        ("all", Some(&replay.all)),
        ("reads", replay.reads.as_ref()),
        ("writes", replay.writes.as_ref()),
    ];
    let row = |(name, result): (&str, &ModelDemerit)| {
        let ms = |us: f64| format!("{:.3}", us / 1e3);
        vec![
            name.to_owned(),
            result.requests.to_string(),
            ms(result.measured_mean_us),
            ms(result.modelled_mean_us),
            format!("{:.2} %", result.demerit_percent),
            ms(result.measured_p95_us),
            ms(result.modelled_p95_us),
            ms(result.measured_p99_us),
            ms(result.modelled_p99_us),
        ]
    };
    let rows: Vec<Vec<String>> = (parts.into_iter())
        .filter_map(|(name, result)| Some(row((name, result?))))
        .collect();
    let header = [
        "replay",
        "requests",
        "measured ms",
        "modelled ms",
        "demerit",
        "p95",
        "modelled",
        "p99",
        "modelled",
    ];
    ui.table(&header, &rows);
}
