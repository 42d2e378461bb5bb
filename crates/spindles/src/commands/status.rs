//! `spindles status`: the state of an array that is not served.

use super::Command;
use crate::arrays;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::{Value, json};
use spindles_engine::Status;
use spindles_io::OpenOptions;
use spindles_io::assemble::{ArrayReport, AssembleOptions, JournalReport, MemberReport, assemble};

pub(crate) static COMMAND: Command = Command {
    name: "status",
    about: "Show the state of an array: its members, what is missing, whether it is clean",
    details: "Give the devices of the array, in any order. They are read only. What the \
              superblocks say in detail, and where they disagree, shows spindles examine.\n\n\
              spindles status a.img b.img c.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The devices of the array
    #[arg(value_name = "DEV", required = true)]
    devices: Vec<String>,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let devices = arrays::devices(&arguments.devices);
    let options = AssembleOptions {
        open: OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        },
        // To be looked at, not to be trusted: nothing is written.
        force: true,
        ..AssembleOptions::default()
    };
    let mut assembled = assemble(&devices, &options)?;
    let report = assembled.report;
    show(&report, 0, ui);
    while assembled.target.work() {}
    let bad = assembled
        .target
        .status()
        .map(|status| show_bad_blocks(&status, ui));
    let warnings = report.warnings();
    for warning in &warnings {
        ui.note(warning);
    }
    let mut document = arrays::to_json(&report);
    document["warnings"] = json!(warnings);
    document["bad_blocks"] = json!(bad);
    ui.json(&document);
    Ok(())
}

/// What the list of bad blocks says: how many blocks crashes took, and how many each member refused
/// to write.
fn show_bad_blocks(status: &Status, ui: &Ui) -> Value {
    let lost = status.lost_blocks;
    if lost > 0 {
        ui.line(format!(
            "  {lost} blocks are lost to a crash: they answer errors until they are written \
             (spindles examine names them)"
        ));
    }
    let members = status.members.iter().map(|member| {
        let blocks = member.faults.bad_blocks;
        if blocks > 0 {
            ui.line(format!(
                "  {blocks} blocks of member {} refused to be written, and are read from the others",
                member.member
            ));
        }
        blocks
    });
    let members: Vec<u64> = members.collect();
    json!({ "lost": lost, "members": members })
}

fn show(report: &ArrayReport, depth: usize, ui: &Ui) {
    let indent = "  ".repeat(depth);
    let line = |text: String| ui.line(format!("{indent}{text}"));
    line(format!("array '{}' ({})", report.name, report.uuid));
    line(format!(
        "  {}",
        arrays::shape(
            report.level.name,
            &report.layout,
            report.members.len(),
            report.chunk_bytes,
            report.block_bytes
        )
    ));
    line(format!(
        "  holds {}, consistency policy {}, checksums {}",
        arrays::size(report.bytes),
        report.consistency,
        report.checksum
    ));
    let clean = if report.clean { "clean" } else { "unclean" };
    line(format!(
        "  {}, {clean}, generation {}",
        arrays::state(report),
        report.generation
    ));
    for (index, member) in report.members.iter().enumerate() {
        match member {
            MemberReport::Device {
                name,
                lagging,
                filled_bytes,
            } => {
                let lagging = if *lagging {
                    ", missed the last superblock write"
                } else {
                    ""
                };
                let state = match filled_bytes {
                    None => "active".to_owned(),
                    Some(bytes) => {
                        format!("rebuilding, good below {}", arrays::size(*bytes))
                    }
                };
                line(format!("  member {index}: {name}, {state}{lagging}"));
            }
            MemberReport::Array(inner) => {
                line(format!(
                    "  member {index}: an array, {}",
                    arrays::state(inner)
                ));
                show(inner, depth + 2, ui);
            }
            MemberReport::Missing {
                out_since: Some(since),
            } => line(format!(
                "  member {index}: missing since generation {since}"
            )),
            MemberReport::Missing { out_since: None } => {
                line(format!("  member {index}: not there"));
            }
        }
    }
    match &report.journal {
        JournalReport::Members => {}
        JournalReport::Device(name) => line(format!("  journal: {name}")),
        JournalReport::DeviceMissing => {
            line("  journal: on the members, its device is not there".to_owned());
        }
    }
    for spare in &report.spares {
        let shared = if spare.shared { ", shared" } else { "" };
        line(format!(
            "  spare: {}, {}{shared}",
            spare.name,
            arrays::size(spare.bytes)
        ));
    }
}
