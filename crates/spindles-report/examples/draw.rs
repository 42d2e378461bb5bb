//! Draws every form of a report of a record file into a folder:
//! `cargo run -p spindles-report --example draw -- FOLDER RECORDS`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use spindles_measure::{Analysis, Record, Verdicts, change, from_lines};
use spindles_report::{OUTPUTS, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: draw FOLDER RECORDS";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let records = fs::read_to_string(arguments.next().ok_or(usage)?)?;
    draw(&folder, &from_lines(&records)?)
}

fn draw(folder: &Path, records: &[Record]) -> Result<(), Box<dyn Error>> {
    let analysis = Analysis::of(records)?;
    let same = change(&analysis, &analysis, Verdicts::SameWork);
    let options = Options::default();
    fs::create_dir_all(folder)?;
    for output in OUTPUTS {
        let report = (output.report)(&analysis, &options);
        fs::write(folder.join(output.file_name), report)?;
        if let Some(change) = output.change {
            let name = format!("change-{}", output.file_name);
            fs::write(folder.join(name), change(&same, &options))?;
        }
    }
    Ok(())
}
