//! IOZONE's lines as of version 1.16 (Bill Norcott 1992), which most comparisons of the nineties quote.

use spindles_measure::{Analysis, Run};

use super::{Block, Format, Repetition, Whole, parameter, seconds, size, wholes};
use crate::figures;

pub(super) static FORMAT: Format = Format {
    title: "IOZONE 1.16",
    remark: "Whole bytes a second. The clock of the write stops before the file is closed.",
    kinds: &["iozone"],
    blocks,
};

const PHASES: [&str; 2] = ["write", "read"];
/// Below so many seconds it says that the test completed too quickly.
const TOO_FAST_S: f64 = 10.0;
/// From so many sizes and records on they are a table, as `iozone auto` prints it.
const AUTO_MIN: usize = 3;

fn blocks(analysis: &Analysis) -> Vec<Block> {
    let wholes = wholes(analysis, FORMAT.kinds, &PHASES);
    let mut blocks = Vec::new();
    for system in &analysis.experiment.systems {
        let mine = wholes.iter().filter(|it| it.system.name == system.name);
        let mine: Vec<&Whole> = mine.collect();
        if mine.len() >= AUTO_MIN {
            blocks.push(Block {
                system: system.name.clone(),
                workload: "iozone auto".to_owned(),
                repetition: "each line of the repetition in the middle".to_owned(),
                text: auto(&mine),
            });
        } else {
            blocks.extend(mine.iter().filter_map(|whole| whole.block(lines)));
        }
    }
    blocks
}

fn record(run: &Run) -> u64 {
    parameter(run, "record").unwrap_or(run.workload.operation_bytes)
}

/// Bytes a second without decimals.
fn rate(run: &Run) -> String {
    format!("{:.0}", run.per_second().trunc())
}

fn lines(runs: &Repetition) -> String {
    let (write, read) = (runs.run("write"), runs.run("read"));
    let (bytes, record) = (size(write), record(write));
    let megabytes = bytes >> 20;
    let records = bytes.checked_div(record).unwrap_or(0);
    let mut text = format!(
        "\tIOZONE writes a {megabytes} Megabyte sequential file consisting of\n\
         \t{records} records which are each {record} bytes in length.\n\
         \tIt then reads the file.  It prints the bytes-per-second\n\
         \trate at which the computer can read and write files.\n\n\n\
         Writing the {megabytes} Megabyte file, 'iozone.tmp'...{:.6} seconds\n\
         Reading the file...{:.6} seconds\n\n\
         IOZONE performance measurements:\n\
         \t{} bytes/second for writing the file\n\
         \t{} bytes/second for reading the file\n",
        seconds(write),
        seconds(read),
        rate(write),
        rate(read),
    );
    let total = seconds(write) + seconds(read);
    if total < TOO_FAST_S {
        let good = (TOO_FAST_S / total * 2.0 * figures::float(megabytes)).trunc();
        text += &format!(
            "\nThe test completed too quickly to give a good result\n\
             You will get a more precise measure of this machine's\n\
             performance by re-running IOZONE using the command:\n\
             \n\tiozone {good:.0} \t(i.e., file size = {good:.0} megabytes)\n"
        );
    }
    text
}

fn auto(wholes: &[&Whole]) -> String {
    let mut text = "IOZONE: auto-test mode\n\n".to_owned();
    let mut row = |megabytes: &str, record: &str, written: &str, read: &str| {
        text += &format!("{megabytes:<8}{record:<8}{written:<20}{read:<20}\n");
    };
    row("MB", "reclen", "bytes/sec written", "bytes/sec read");
    for runs in wholes.iter().filter_map(|whole| whole.middle()) {
        let (write, read) = (runs.run("write"), runs.run("read"));
        let megabytes = (size(write) >> 20).to_string();
        row(
            &megabytes,
            &record(write).to_string(),
            &rate(write),
            &rate(read),
        );
    }
    text + "Completed series of tests\n"
}
