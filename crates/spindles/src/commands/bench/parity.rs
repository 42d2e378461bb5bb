//! `spindles bench parity`: measures the parity kernels on this machine.

use super::Command;
use crate::bench::parity::{CHUNK_BYTES_MAX, DATA_CHUNKS_MAX, Options, Report, measure};
use crate::documents::tools::{ParityBench, ParityRow};
use crate::failure::Usage;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_block::SizeBytes;
use spindles_parity::best_kernel;

pub(crate) static COMMAND: Command = Command {
    name: "parity",
    about: "Measure the speed of every parity kernel on this machine, next to a plain copy",
    details: "Figures are GB/s (10^9 bytes) on one core: medians of rounds in which all cases \
              take turns. encode: computes all parity from all data; counts the data read. \
              recover: recomputes as many lost chunks as the code survives; counts the chunks \
              read. update: computes all parity after a small write; counts the new data. \
              Takes a few seconds.\n\n\
              spindles bench parity\n\
              spindles bench parity --data 4 --chunk 1M",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Data chunks of a stripe
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u8).range(1..=i64::from(DATA_CHUNKS_MAX)))]
    data: u8,
    /// The chunk size, up to 64M
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    chunk: SizeBytes,
    /// How often to measure each case
    #[arg(long, value_name = "N", default_value_t = 51,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let chunk = arguments.chunk;
    let chunk_bytes = u32::try_from(chunk.0)
        .ok()
        .filter(|bytes| (1..=CHUNK_BYTES_MAX).contains(bytes))
        .ok_or_else(|| {
            Usage::error(format!(
                "--chunk {}: give a size from 1 to 64M",
                chunk.typed()
            ))
        })?;
    let report = measure(&Options {
        data_chunks: arguments.data,
        chunk_bytes,
        rounds: arguments.rounds,
    });
    print(ui, &arguments, &report);
    Ok(())
}

fn print(ui: &Ui, arguments: &Arguments, report: &Report) {
    let gb = |rate: f64| format!("{:.1}", rate / 1e9);
    ui.line(format!(
        "parity of {} data chunks of {}, GB/s on one core; a plain copy: {} GB/s\n",
        arguments.data,
        arguments.chunk,
        gb(report.memcpy_bytes_per_s),
    ));
    let rows = report.rows.iter().map(|row| {
        vec![
            row.kernel.to_owned(),
            row.code.to_owned(),
            gb(row.encode_bytes_per_s),
            gb(row.recover_bytes_per_s),
            gb(row.update_bytes_per_s),
            format!("{:.2}", row.encode_bytes_per_s / report.memcpy_bytes_per_s),
        ]
    });
    ui.table(
        &[
            "kernel",
            "code",
            "encode",
            "recover",
            "update",
            "encode : copy",
        ],
        &rows.collect::<Vec<_>>(),
    );
    ui.line(format!("\narrays use: {}", best_kernel().name));
    if !report.unavailable.is_empty() {
        ui.line(format!(
            "not on this machine: {}",
            report.unavailable.join(", ")
        ));
    }
    let rows = report.rows.iter().map(|row| ParityRow {
        kernel: row.kernel,
        code: row.code,
        encode_bytes_per_s: row.encode_bytes_per_s.round(),
        recover_bytes_per_s: row.recover_bytes_per_s.round(),
        update_bytes_per_s: row.update_bytes_per_s.round(),
    });
    ui.json(&ParityBench {
        data_chunks: arguments.data,
        chunk_bytes: arguments.chunk.0,
        rounds: arguments.rounds,
        memcpy_bytes_per_s: report.memcpy_bytes_per_s.round(),
        rows: rows.collect(),
        used: best_kernel().name,
        unavailable: &report.unavailable,
    });
}
