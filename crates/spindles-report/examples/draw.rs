//! Draws every form of a report into folders, from a record file or from the invented experiments:
//! `cargo run -p spindles-report --example draw -- FOLDER [RECORDS]`.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use spindles_measure::{Analysis, Record, Verdicts, change, example, from_lines};
use spindles_report::{OUTPUTS, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: draw FOLDER [RECORDS]")?);
    if let Some(path) = arguments.next() {
        return draw(&folder, &from_lines(&fs::read_to_string(path)?)?);
    }
    draw(&folder.join("blocks"), &example::records(8))?;
    draw(&folder.join("files"), &example::file_records(6))
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
