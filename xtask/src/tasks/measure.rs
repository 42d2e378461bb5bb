//! `cargo xtask measure`: how large, how tangled and how readable the source is.

use super::task::Task;
use crate::measures::{self, MEASURES, Sources};
use crate::repo::Repo;

pub(crate) static TASK: Task = Task {
    name: "measure",
    arguments: "[--keep | MEASURE [CRATE]]",
    about: "prints figures of the source that may only improve, or the places of one; --keep \
        writes xtask/measures.txt, with which tidy compares",
    run,
};

/// The file with the figures reached so far.
pub(crate) const KEPT: &str = "xtask/measures.txt";

fn run(arguments: &[String]) -> Result<(), String> {
    let repo = Repo::load()?;
    let sources = Sources::parse(&repo)?;
    match arguments {
        [] => print!("{}", measures::table(&measures::figures(&sources))),
        [keep] if keep == "--keep" => {
            let text = measures::kept_text(&measures::figures(&sources));
            std::fs::write(KEPT, text).map_err(|error| format!("{KEPT}: {error}"))?;
        }
        [name, part @ ..] if part.len() <= 1 => {
            let Some(measure) = MEASURES.iter().find(|measure| measure.name == name) else {
                let names: Vec<&str> = MEASURES.iter().map(|measure| measure.name).collect();
                return Err(format!("there is no measure {name}: {}", names.join(", ")));
            };
            let part = part.first().map(String::as_str);
            for finding in measures::findings(&sources, measure, part) {
                println!("{}: {}", finding.place, finding.what);
            }
        }
        _ => return Err("it takes --keep, or a measure and a crate, or nothing".to_owned()),
    }
    Ok(())
}
