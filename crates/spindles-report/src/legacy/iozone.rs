//! The output of IOZONE 1.16 (Bill Norcott 1992), which most comparisons of the nineties quote.

use spindles_measure::{Analysis, Run};

use super::{Block, Format, Repetition, Whole, parameter, seconds, size, wholes};
use crate::figures;

pub(super) static FORMAT: Format = Format {
    title: "IOZONE 1.16",
    remark: "Whole bytes a second. The write time ends before the file is closed.",
    kinds: &["iozone"],
    blocks,
};

const PHASES: [&str; 2] = ["write", "read"];
/// Below this many seconds it reports that the test completed too quickly.
const TOO_FAST_S: f64 = 10.0;
/// From this many sizes and records on, the output is a table like that of `iozone auto`.
const AUTO_MIN: usize = 3;

fn blocks(analysis: &Analysis) -> Vec<Block> {
    let mut blocks = sizes(analysis);
    blocks.extend(
        wholes(analysis, FORMAT.kinds, &[])
            .iter()
            .filter_map(|whole| {
                let middle = whole.middle()?;
                let rows = phases_of_auto(middle);
                (!rows.is_empty()).then(|| whole.block(|_| auto(&rows)))?
            }),
    );
    blocks
}

/// Formats whole workloads with one size and one record each.
fn sizes(analysis: &Analysis) -> Vec<Block> {
    let wholes = wholes(analysis, FORMAT.kinds, &PHASES);
    let mut blocks = Vec::new();
    for system in &analysis.experiment.systems {
        let mine = wholes
            .iter()
            .filter(|whole| whole.system.name == system.name);
        let mine: Vec<&Whole> = mine.collect();
        if mine.len() >= AUTO_MIN {
            blocks.push(Block {
                system: system.name.clone(),
                workload: "iozone auto".to_owned(),
                repetition: "each line of the median repetition".to_owned(),
                text: auto(&rows_of(&mine)),
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

/// Bytes per second without decimals.
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

/// A line of the table: megabytes, record, and the two runs.
struct Row<'a> {
    megabytes: String,
    record: String,
    write: &'a Run,
    read: &'a Run,
}

fn rows_of<'a>(wholes: &[&Whole<'a>]) -> Vec<Row<'a>> {
    let middles = wholes.iter().filter_map(|whole| whole.middle());
    let rows = middles.map(|runs| {
        let (write, read) = (runs.run("write"), runs.run("read"));
        Row {
            megabytes: (size(write) >> 20).to_string(),
            record: record(write).to_string(),
            write,
            read,
        }
    });
    rows.collect()
}

/// Collects phases such as `write 4M 512`, of a workload that runs all sizes and records itself.
fn phases_of_auto<'a>(runs: &Repetition<'a>) -> Vec<Row<'a>> {
    let writes = runs.runs.iter().filter_map(|(phase, write)| {
        let case = phase.strip_prefix("write ")?;
        let (megabytes, record) = case.split_once("M ")?;
        Some(Row {
            megabytes: megabytes.to_owned(),
            record: record.to_owned(),
            write,
            read: runs.runs.get(&*format!("read {case}"))?,
        })
    });
    let mut rows: Vec<Row> = writes.collect();
    rows.sort_by_key(|row| row.write.order);
    rows
}

fn auto(rows: &[Row]) -> String {
    let mut text = "IOZONE: auto-test mode\n\n".to_owned();
    let mut line = |megabytes: &str, record: &str, written: &str, read: &str| {
        text += &format!("{megabytes:<8}{record:<8}{written:<20}{read:<20}\n");
    };
    line("MB", "reclen", "bytes/sec written", "bytes/sec read");
    for row in rows {
        line(
            &row.megabytes,
            &row.record,
            &rate(row.write),
            &rate(row.read),
        );
    }
    text + "Completed series of tests\n"
}
