//! `spindles status`: the state of an array that is not served.

use super::Command;
use crate::arrays::{self, Scan};
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::{Value, json};
use spindles_engine::{Member, Policy, RegionsStatus, Status};
use spindles_io::assemble::{ArrayReport, AssembleOptions, JournalReport, MemberReport, assemble};
use spindles_io::{OpenOptions, Target};

pub(crate) static COMMAND: Command = Command {
    name: "status",
    about: "Show the state of an array: its members, what is missing, whether it is clean",
    details: "Give the name of the array, or its devices in any order. They are read only. What the \
              superblocks say in detail, and where they disagree, shows spindles examine.\n\n\
              spindles status pool\n\
              spindles status a.img b.img c.img",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// The array: its name, or its devices in any order
    #[arg(value_name = "ARRAY|DEV", required = true)]
    devices: Vec<String>,
    #[command(flatten)]
    scan: Scan,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let devices = arguments.scan.devices(&arguments.devices, &[], ui)?;
    let devices = arrays::names(&devices);
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
    while assembled.target.work() {}
    let mut document = arrays::to_json(&report);
    show(&report, assembled.target.as_ref(), 0, ui, &mut document);
    let bad = assembled
        .target
        .status()
        .map(|status| show_bad_blocks(&status, ui));
    let warnings = report.warnings();
    for warning in &warnings {
        ui.note(warning);
    }
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

/// What the bitmaps say, for people.
fn regions_line(regions: &RegionsStatus) -> String {
    let unsettled = match regions.unsettled {
        0 => String::new(),
        count => format!(", {count} to be settled after a crash"),
    };
    format!(
        "{} of {} regions of {} written, {} dirty{unsettled}",
        regions.written,
        regions.total,
        arrays::size(regions.region_bytes),
        regions.dirty
    )
}

/// What a member lacks, for people.
fn lacks(status: &Status, member: usize) -> String {
    let (Some(regions), Some(member)) = (&status.regions, status.members.get(member)) else {
        return String::new();
    };
    let count = member.lacks_regions;
    let s = if count == 1 { "" } else { "s" };
    match member.state {
        Member::Active => String::new(),
        Member::Rebuilding { .. } => format!(", {count} region{s} to go"),
        Member::Missing { .. } => format!(
            "; if it comes back it lacks {count} region{s}, a new device {}",
            regions.written
        ),
    }
}

/// Shows an array and those inside it, and adds to the document what the bitmaps say.
fn show(report: &ArrayReport, target: &dyn Target, depth: usize, ui: &Ui, document: &mut Value) {
    let status = target.status_of(&report.name).expect("it is assembled");
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
    let marks = Policy::by_name(report.consistency).is_none_or(|it| it.resync_after_crash);
    let clean = match (marks, report.clean) {
        (false, _) => "no record of crashes",
        (true, true) => "clean",
        (true, false) => "unclean",
    };
    line(format!(
        "  {}, {clean}, generation {}",
        arrays::state(report),
        report.generation
    ));
    document["regions"] = json!(status.regions.map(|regions| json!({
        "total": regions.total,
        "region_bytes": regions.region_bytes,
        "written": regions.written,
        "dirty": regions.dirty,
        "unsettled": regions.unsettled,
    })));
    if let Some(regions) = &status.regions {
        line(format!("  {}", regions_line(regions)));
    }
    for (index, member) in report.members.iter().enumerate() {
        let lacks = lacks(&status, index);
        let document = &mut document["members"][index];
        document["lacks_regions"] = json!(
            (status.regions.as_ref())
                .and(status.members.get(index))
                .map(|member| member.lacks_regions)
        );
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
                line(format!("  member {index}: {name}, {state}{lacks}{lagging}"));
            }
            MemberReport::Array(inner) => {
                line(format!(
                    "  member {index}: an array, {}{lacks}",
                    arrays::state(inner)
                ));
                show(inner, target, depth + 2, ui, &mut document["array"]);
            }
            MemberReport::Missing {
                out_since: Some(since),
            } => line(format!(
                "  member {index}: missing since generation {since}{lacks}"
            )),
            MemberReport::Missing { out_since: None } => {
                line(format!("  member {index}: not there{lacks}"));
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
