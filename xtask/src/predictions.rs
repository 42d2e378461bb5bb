//! The generated parts of `docs/predictions.md`, from the rows in `experiments/predicted/*.csv`.

use crate::repo::Repo;
use std::fmt::Write as _;

/// A row of a file of predictions that also has a measurement.
struct Row<'a> {
    system: &'a str,
    workload: &'a str,
    unit: &'a str,
    predicted: &'a str,
    low: &'a str,
    high: &'a str,
    measured: &'a str,
    error_percent: i32,
    class: &'a str,
}

impl<'a> Row<'a> {
    /// Reads a line; `None` without a measurement.
    fn parse(line: &'a str) -> Option<Self> {
        let cells: Vec<&str> = line.split(',').collect();
        let &[
            system,
            workload,
            unit,
            predicted,
            low,
            high,
            measured,
            error,
            class,
        ] = cells.as_slice()
        else {
            return None;
        };
        Some(Self {
            system,
            workload,
            unit,
            predicted,
            low,
            high,
            measured,
            error_percent: error.parse().ok()?,
            class,
        })
    }

    fn is_in_band(&self) -> bool {
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        (number(self.low)..=number(self.high)).contains(&number(self.measured))
    }

    fn is_of_processor(&self) -> bool {
        self.workload.ends_with(": processor")
    }

    fn is_fit(&self) -> bool {
        self.class == "fit"
    }
}

fn rows<'a>(repo: &'a Repo, name: &str) -> Vec<Row<'a>> {
    let file = repo.file(&format!("experiments/predicted/{name}.csv"));
    let lines = file.map_or("", |file| file.text()).lines();
    lines.filter_map(Row::parse).collect()
}

/// Returns the errors and the coverage of each system and of each class of rows.
pub(crate) fn summary(repo: &Repo, name: &str) -> String {
    let rows = rows(repo, name);
    let mut systems: Vec<&str> = rows.iter().map(|row| row.system).collect();
    systems.dedup();
    let mut table =
        "| rows | measured | median error | in band |\n|---|---:|---:|---:|\n".to_owned();
    let mut add = |title: &str, is_chosen: &dyn Fn(&Row<'_>) -> bool| {
        let chosen: Vec<&Row<'_>> = rows.iter().filter(|row| is_chosen(row)).collect();
        let mut errors: Vec<i32> = chosen.iter().map(|row| row.error_percent.abs()).collect();
        errors.sort_unstable();
        let Some(upper) = errors.get(errors.len() / 2) else {
            return;
        };
        let lower = errors[(errors.len() - 1) / 2];
        let median = f64::from(lower + upper) / 2.0;
        let count = errors.len();
        let in_band = chosen.iter().filter(|row| row.is_in_band()).count();
        writeln!(table, "| {title} | {count} | {median} % | {in_band} |")
            .expect("strings take everything");
    };
    for system in systems {
        add(&format!("`{system}`"), &|row| row.system == system);
    }
    let is_plain = |row: &Row<'_>| !row.is_of_processor() && !row.is_fit();
    add("all times and rates, but fits", &is_plain);
    add("of these class P or Q", &|row| {
        is_plain(row) && matches!(row.class, "P" | "Q")
    });
    add("all of the processor", &|row| row.is_of_processor());
    table
}

/// Returns the rows with a measurement as a block of text, without those of the processor: most of
/// them only check the arithmetic.
pub(crate) fn measured(repo: &Repo, name: &str) -> String {
    let title = Row {
        system: "system",
        workload: "workload",
        unit: "unit",
        predicted: "predicted",
        low: "low",
        high: "high",
        measured: "measured",
        error_percent: 0,
        class: "class",
    };
    let mut text = "```text\n".to_owned();
    let mut add = |row: &Row<'_>, error: &str| {
        let Row {
            system,
            workload,
            unit,
            predicted,
            low,
            high,
            measured,
            class,
            ..
        } = row;
        writeln!(
            text,
            "{system:<11} {workload:<29} {unit:<5} {predicted:>9} {low:>6} {high:>6} \
             {measured:>8} {error:>7}  {class}"
        )
        .expect("strings take everything");
    };
    add(&title, "error %");
    for row in rows(repo, name).iter().filter(|row| !row.is_of_processor()) {
        add(row, &format!("{:+}", row.error_percent));
    }
    text += "```\n";
    text
}

/// Returns the predicted figures as a block of text, with a line for each system and a column for
/// each workload.
pub(crate) fn figures(repo: &Repo, name: &str) -> String {
    let file = repo.file(&format!("experiments/predicted/{name}.csv"));
    let lines = file.map_or("", |file| file.text()).lines().skip(1);
    let mut workloads: Vec<&str> = Vec::new();
    let mut systems: Vec<(&str, Vec<String>)> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let &[system, workload, _, predicted, low, high, ..] = cells.as_slice() else {
            continue;
        };
        if !workloads.contains(&workload) {
            workloads.push(workload);
        }
        if systems.last().is_none_or(|(last, _)| *last != system) {
            systems.push((system, Vec::new()));
        }
        let (_, figures) = systems.last_mut().expect("just added");
        figures.push(format!("{predicted} ({low}–{high})"));
    }
    let mut text = "```text\n".to_owned();
    let mut add = |first: &str, cells: &[String]| {
        let cells = cells.iter().map(|cell| format!("{cell:<24}"));
        let line = format!("{first:<8}{}", cells.collect::<String>());
        writeln!(text, "{}", line.trim_end()).expect("strings take everything");
    };
    let titles = workloads.iter().map(|&workload| workload.to_owned());
    add("", &titles.collect::<Vec<_>>());
    for (system, figures) in systems {
        add(system, &figures);
    }
    text += "```\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "system,workload,unit,predicted,low,high,measured,error_percent,class\n\
                        one,read,MB/s,11,9,12,10,+10,P\n\
                        one,read: processor,%,30,20,35,40,-25,P\n\
                        one,write,MB/s,8,7,9,10,-20,H\n\
                        two,write,MB/s,8,7,9,,,\n\
                        two,touch,s,5,4,6,5,0,fit\n";

    #[test]
    fn a_summary_counts_rows_with_measurements() {
        let repo = Repo::of(&[("experiments/predicted/1990.csv", ROWS)]);
        assert_eq!(
            summary(&repo, "1990").lines().skip(2).collect::<Vec<_>>(),
            [
                "| `one` | 3 | 20 % | 1 |",
                "| `two` | 1 | 0 % | 1 |",
                "| all times and rates, but fits | 2 | 15 % | 1 |",
                "| of these class P or Q | 1 | 10 % | 1 |",
                "| all of the processor | 1 | 25 % | 0 |",
            ]
        );
    }

    #[test]
    fn rows_without_measurement_and_of_the_processor_are_left_out() {
        let repo = Repo::of(&[("experiments/predicted/1990.csv", ROWS)]);
        let text = measured(&repo, "1990");
        assert_eq!(text.lines().count(), 6, "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = text.lines().nth(3).map(words);
        let wanted = "one write MB/s 8 7 9 10 -20 H";
        assert_eq!(line.as_deref(), Some(wanted));
    }
}
