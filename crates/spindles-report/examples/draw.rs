//! Draws every form of a report into a folder, from a record file or from invented figures:
//! `cargo run -p spindles-report --example draw -- FOLDER [RECORDS]`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use spindles_measure::{Analysis, Verdicts, change, example, from_lines};
use spindles_report::{OUTPUTS, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: draw FOLDER [RECORDS]")?);
    let records = match arguments.next() {
        Some(path) => from_lines(&fs::read_to_string(path)?)?,
        None => example::records(8),
    };
    let analysis = Analysis::of(&records)?;
    let same = change(&analysis, &analysis, Verdicts::SameWork);
    let options = Options::default();
    fs::create_dir_all(&folder)?;
    for output in OUTPUTS {
        fs::write(
            folder.join(output.file_name),
            (output.report)(&analysis, &options),
        )?;
        let name = format!("change-{}", output.file_name);
        fs::write(folder.join(name), (output.change)(&same, &options))?;
    }
    Ok(())
}
