//! Bonnie's table (Tim Bray 1990): two lines of headings padded with 14 blanks, a third, and a line
//! of figures.

use spindles_measure::Analysis;

use super::{Block, Format, Repetition, cpu_percent, k_per_second, size, wholes};

pub(super) static FORMAT: Format = Format {
    title: "Bonnie",
    remark: "K is 1024 bytes. A rewrite counts its bytes once though they move twice. %CPU counts \
        only the requesting processes, not later work of the kernel or an array in a process of \
        its own. With 3 seekers the last column shows at most threefold parallelism, with any \
        number of members.",
    kinds: &["bonnie"],
    blocks,
};

/// The phases in column order, which is not the order in which they run.
pub(super) const COLUMNS: [&str; 6] = [
    "putc",
    "block-write",
    "rewrite",
    "getc",
    "block-read",
    "seeks",
];

const HEAD: &str = concat!(
    "              -------Sequential Output-------- ---Sequential Input-- --Random--\n",
    "              -Per Char- --Block--- -Rewrite-- -Per Char- --Block--- --Seeks---\n",
    "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU  /sec %CPU\n",
);

fn blocks(analysis: &Analysis) -> Vec<Block> {
    let wholes = wholes(analysis, FORMAT.kinds, &COLUMNS);
    let blocks = wholes
        .iter()
        .filter_map(|whole| whole.block(|runs| table(&whole.system.name, runs)));
    blocks.collect()
}

fn table(machine: &str, runs: &Repetition) -> String {
    let megabytes = size(runs.run("putc")) >> 20;
    let mut line = format!("{machine:<8.8} {megabytes:>4} ");
    for phase in &COLUMNS[..5] {
        let run = runs.run(phase);
        line += &format!("{:>5.0} {:>4.1} ", k_per_second(run), cpu_percent(run));
    }
    let seeks = runs.run("seeks");
    line += &format!("{:>5.1} {:>4.1}\n", seeks.per_second(), cpu_percent(seeks));
    format!("{HEAD}{line}")
}
