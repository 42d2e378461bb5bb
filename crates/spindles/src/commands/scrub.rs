//! `spindles scrub`: reads and compares everything, and repairs what is known to be wrong.

use super::Command;
use crate::arrays::{self, ArrayArguments, PLACES_MAX};
use crate::degraded::Degraded;
use crate::documents::scrub::{self as documents, Place, Resumed, offsets};
use crate::failure::Usage;
use crate::operation::Scrub;
use crate::operations::{self, Outcome, Perform, assembling};
use crate::plain::Plain;
use crate::rate::Rate;
use crate::ui::Ui;
use crate::words;
use anyhow::{anyhow, bail};
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::{ArrayReport, AssembleOptions};
use spindles_admin::plain::{PlainOptions, PlainTarget, is_plain};
use spindles_admin::scan::{Given, shell_word};
use spindles_admin::scrub::{
    Finding, SPARE_LABEL, SPARE_LABEL_BYTES, ScrubError, Scrubbed, scrub, scrub_plain,
};
use spindles_array::{no_space, positions};
use spindles_device::OpenOptions;
use spindles_device::notice::percent;
use spindles_engine::{self as engine, Fate, Flaw, Repair, ScrubStatus};
use std::mem::take;

pub(crate) static COMMAND: Command = Command {
    name: "scrub",
    about: "Read and compare a whole array, and repair what is known to be wrong",
    details: "Finds silent damage: unreadable blocks, and blocks that hold other bytes than \
              were written. Reports each of them. Unreadable blocks are recomputed from the \
              rest. With checksums, the default of create, each corrupt block is identified \
              and also repaired from the rest.\n\n\
              Scrub also reads the metadata of every member: superblocks, bitmaps, the list of \
              bad blocks, checksums, and the stamp of a journal device. It rewrites metadata \
              that is corrupt or can't be read, and counts it apart from data.\n\n\
              Without checksums, three or more copies, or two or more parities, can identify \
              the corrupt block, and scrub repairs it. One parity, or two copies, can't: scrub \
              reports the place and changes nothing. Parity recomputed from corrupt data would \
              only hide the corruption, and destroy what could have restored the data. Restore \
              such a place from a backup, and scrub again.\n\n\
              Lost blocks of the array return errors until they are written. These are blocks \
              that recovery after a crash could not verify, because members were missing or a \
              block was corrupt. They are also corrupt blocks that the rest of their row could \
              not restore when another block of that row was written. Scrub reports lost blocks \
              too, and no scrub restores them.\n\n\
              After Ctrl-C, the next scrub continues at the same point, and its summary counts \
              both parts. With --check, scrub starts at the beginning each time. Exit status 1 \
              means that some damage could not be repaired, or that blocks are lost.\n\n\
              plain:EXPR, the array of these members as they lie, is only read and compared.\n\n\
              spindles scrub pool\n\
              spindles scrub a.img b.img c.img\n\
              spindles scrub 'plain:raid5:left-asymmetric(a.img,b.img,c.img)' --chunk 16K",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// Chunks of a stripe whose array offsets are printed, at most.
const CHUNKS_MAX: usize = 8;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct Arguments {
    /// Begin at the start, not where the last scrub was stopped
    #[arg(long)]
    restart: bool,
    /// Report only, and change nothing; begins at the start
    #[arg(long, conflicts_with = "trust_data")]
    check: bool,
    /// If it is unknown which member is corrupt, trust the data, or the first copy, and make
    /// redundancy agree with it. If the data is corrupt, it can't be repaired afterwards
    #[arg(long)]
    trust_data: bool,
    /// Also open an array with parity that lacks devices and was not closed: data near interrupted
    /// writes may be wrong
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    array: ArrayArguments,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
    #[command(flatten)]
    plain: Plain,
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if let Some(array) = arguments.array.plain(&arguments.plain)? {
        if arguments.trust_data {
            return Err(Usage::error(
                "--trust-data: a plain array is only read and compared",
            ));
        }
        let looked = look_at(&array, &arguments, ui);
        operations::finish(operations::report(looked), ui)?;
        return Ok(());
    }
    let found = arguments.array.find(&[], ui)?;
    let operation = Scrub {
        restart: arguments.restart,
        check: arguments.check,
        trust_data: arguments.trust_data,
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        job_rate: Some(arguments.rate.bytes()),
    };
    operations::run(operation, &found, ui).map(drop)
}

impl Perform for Scrub {
    fn perform(&self, given: &Given, ui: &Ui) -> anyhow::Result<Outcome<documents::Scrubbed>> {
        let mut options = AssembleOptions {
            force: self.force,
            ..assembling(self.degraded, self.job_rate)
        };
        // A read-only open takes no spares and brings no member up to date.
        options.open.read_only = self.check;
        let wanted = engine::Scrub {
            anew: self.restart,
            repair: match (self.check, self.trust_data) {
                (true, _) => Repair::Nothing,
                (false, true) => Repair::TrustData,
                (false, false) => Repair::Located,
            },
        };
        if self.trust_data {
            ui.note(
                "--trust-data: where data is rotten, parity or copies are made to agree with it",
            );
        }
        carry_out(self.check, ui, |add, on_progress| {
            let devices = arrays::names(&given.devices);
            let host = arrays::host(&devices, ui);
            scrub(host, &options, wanted, add, on_progress)
        })
    }
}

/// Reads and compares a plain array.
fn look_at(
    array: &PlainTarget,
    arguments: &Arguments,
    ui: &Ui,
) -> anyhow::Result<Outcome<documents::Scrubbed>> {
    let open = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let options = PlainOptions {
        engine: arguments.rate.options(),
        ..arguments.plain.options(array, open, arguments.force)
    };
    for note in &array.notes {
        ui.note(note);
    }
    let outcome = carry_out(true, ui, |add, on_progress| {
        scrub_plain(&array.expression, &options, add, on_progress)
    })?;
    if outcome.is_success() {
        for unproved in words::plain::unproved(&array.expression) {
            ui.note(unproved);
        }
    }
    Ok(outcome)
}

/// Runs a scrub, which gets the sinks of its findings and of its progress. Prints the result.
fn carry_out(
    is_check: bool,
    ui: &Ui,
    scrub: impl FnOnce(
        &mut dyn FnMut(&Finding),
        &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Scrubbed, ScrubError>,
) -> anyhow::Result<Outcome<documents::Scrubbed>> {
    let mut on_progress = ui.until_interrupted("scrub")?;
    let mut findings = Findings::default();
    let mut add = |finding: &Finding| findings.add(finding, is_check, ui);
    let scrubbed = scrub(&mut add, &mut on_progress)?;
    drop(on_progress);
    let in_doubt = is_check && !scrubbed.report.is_clean();
    if in_doubt && !findings.places.is_empty() {
        ui.note(format!(
            "array '{}' was not closed in order: the differences below may be unfinished writes, \
             not corruption",
            scrubbed.report.name
        ));
    }
    findings.show_rest(ui);
    if !is_plain(&scrubbed.report) {
        for warning in words::report::warnings(&scrubbed.report) {
            ui.note(warning);
        }
    }
    let (document, left_bytes) = conclude(&scrubbed, &mut findings, ui);
    let end = check_scrubbed(is_check, &scrubbed, left_bytes, &findings.unlabelled);
    Ok(Outcome::of(document).ending(end))
}

/// Returns an error if the scrub did not read everything, or left something wrong.
fn check_scrubbed(
    is_check: bool,
    scrubbed: &Scrubbed,
    left_bytes: u64,
    unlabelled: &[String],
) -> anyhow::Result<()> {
    check_reached(scrubbed)?;
    if left_bytes > 0 && is_check {
        return Err(found_by_check(scrubbed));
    }
    if left_bytes > 0 {
        return Err(not_repaired(scrubbed, left_bytes, unlabelled));
    }
    let lost = words::report::lost_texts(&scrubbed.report);
    if !lost.is_empty() {
        bail!("{}", lost.join("; "));
    }
    let name = &scrubbed.report.name;
    if !scrubbed.through && is_check {
        bail!("array '{name}': the check was stopped: the next one begins at the start");
    }
    if !scrubbed.through {
        bail!("array '{name}': the scrub was stopped, and goes on there next time");
    }
    Ok(())
}

/// The findings of a scrub.
#[derive(Default)]
struct Findings {
    /// The findings for JSON.
    places: Vec<Place>,
    /// Lines of a check, printed last: in an array that was not closed cleanly they need not be
    /// corruption.
    held_back: Vec<String>,
    /// Spares that lost their label.
    unlabelled: Vec<String>,
    /// Where the scrub began in arrays of which it does not read all.
    resumed: Vec<Resumed>,
    /// The same as lines for the end.
    parts: Vec<String>,
}

impl Findings {
    /// Adds a finding, and shows it now unless this is a check.
    fn add(&mut self, finding: &Finding, is_check: bool, ui: &Ui) {
        if let Finding::Resumed {
            array,
            offset_bytes,
            array_bytes,
        } = finding
        {
            ui.line(text(finding));
            let percent = percent(*offset_bytes, *array_bytes);
            self.parts.push(format!(
                "array '{array}': only what follows {percent} % was read now"
            ));
            return self.resumed.push(Resumed {
                array: array.clone(),
                offset_bytes: *offset_bytes,
            });
        }
        if self.places.len() < PLACES_MAX && is_check {
            self.held_back.push(text(finding));
        } else if self.places.len() < PLACES_MAX {
            ui.line(text(finding));
        }
        self.places.extend(Place::from_finding(finding));
        let unlabelled = unlabelled_spare(finding);
        (self.unlabelled).extend(unlabelled.map(|spare| shell_word(spare).into_owned()));
    }

    /// Shows the lines that were held back, and how many more findings there are.
    fn show_rest(&self, ui: &Ui) {
        for line in &self.held_back {
            ui.line(line);
        }
        if let Some(more) = arrays::more_places(self.places.len()) {
            ui.line(more);
        }
    }
}

/// Returns an error if the scrub could not read the whole array.
fn check_reached(scrubbed: &Scrubbed) -> anyhow::Result<()> {
    let name = &scrubbed.report.name;
    if let (true, Some(no_space)) = (
        scrubbed.progress.failed > 0 || !scrubbed.through,
        no_space(&scrubbed.report.incidents),
    ) {
        bail!("array '{name}': {no_space}");
    }
    if scrubbed.progress.failed > 0 {
        bail!(
            "array '{name}': too many members are missing to read all of it: scrub it again when \
             they are back"
        );
    }
    Ok(())
}

/// Returns the error if a check found something wrong.
fn found_by_check(scrubbed: &Scrubbed) -> anyhow::Error {
    let (name, array) = (
        &scrubbed.report.name,
        words::report::as_written(&scrubbed.report),
    );
    if is_plain(&scrubbed.report) {
        return anyhow!(
            "array '{name}': its members disagree, or can't be read: check the level, the layout, \
             the chunk and the order of the members; which of them is right is not known"
        );
    }
    if scrubbed.report.is_clean() {
        anyhow!(
            "array '{name}': something is wrong, and `spindles status` does not show it, since a \
             check records nothing: `spindles scrub {array}` repairs what redundancy can restore"
        )
    } else {
        anyhow!(
            "array '{name}' was not closed in order, so a check can't distinguish corruption from \
             unfinished writes: run `spindles resync {array}`, then scrub it"
        )
    }
}

/// Returns the error if a scrub could not repair everything.
fn not_repaired(scrubbed: &Scrubbed, left_bytes: u64, unlabelled: &[String]) -> anyhow::Error {
    let name = &scrubbed.report.name;
    let label_bytes = unlabelled.iter().map(|_| SPARE_LABEL_BYTES).sum::<u64>();
    if left_bytes == label_bytes {
        let (spares, array) = (unlabelled.join(" "), shell_word(name));
        return anyhow!(
            "array '{name}': {spares} no longer has the label of a spare, and the array will not \
             take it: where no other program uses it, `spindles spare add {spares} --array {array} \
             --force` makes it a spare again"
        );
    }
    if scrubbed.report.is_degraded() {
        return anyhow!(
            "array '{name}': some damage could not be repaired, and a missing member may make \
             more unreadable: bring back the missing members first, then scrub again"
        );
    }
    let trust = if scrubbed.progress.found.disagreements > 0 {
        ", or accept the data as it is with --trust-data"
    } else {
        ""
    };
    anyhow!(
        "array '{name}': some damage could not be repaired: restore these places from a backup and \
         scrub again{trust}"
    )
}

/// Returns the device of a finding that reports a lost spare label.
fn unlabelled_spare(finding: &Finding) -> Option<&str> {
    match finding {
        Finding::Metadata {
            member,
            area: SPARE_LABEL,
            fate: Fate::Left,
            ..
        } => Some(member),
        _ => None,
    }
}

/// Prints the summary. Returns its values, and the bytes that are wrong and were not repaired.
fn conclude(scrubbed: &Scrubbed, findings: &mut Findings, ui: &Ui) -> (documents::Scrubbed, u64) {
    let (found, failed) = (scrubbed.progress.found, scrubbed.progress.failed);
    let block_bytes = u64::from(scrubbed.report.block_bytes);
    let name = &scrubbed.report.name;
    let size = |blocks: u64| arrays::size(blocks * block_bytes);
    for (blocks, what) in counts(&found) {
        if blocks > 0 {
            ui.line(format!("array '{name}': {} {what}", size(blocks)));
        }
    }
    let left_before = found.left_before_blocks;
    let left = found.left_blocks + found.metadata_left_blocks + found.disagreements + left_before;
    let wrong = found.repaired_blocks + found.metadata_repaired_blocks + left;
    let arrays = scrubbed.report.arrays();
    for array in arrays.iter().filter(|array| array.lost_bytes > 0) {
        ui.line(format!(
            "array '{}': {} lost, which answer errors until they are written",
            array.name,
            arrays::size(array.lost_bytes)
        ));
    }
    for part in &findings.parts {
        ui.line(part);
    }
    let read = if findings.parts.is_empty() {
        ""
    } else {
        " in the part that was read"
    };
    let lost_bytes: u64 = arrays.iter().map(|array| array.lost_bytes).sum();
    if scrubbed.through && wrong + found.made_to_agree + failed + lost_bytes == 0 {
        let unchecked = unchecked(&scrubbed.report);
        ui.line(if unchecked.is_empty() {
            format!("array '{name}': nothing is wrong{read}")
        } else {
            let unchecked = unchecked.join(", ");
            format!(
                "array '{name}': nothing is wrong with what is there; without {unchecked} some of \
                 it was read, and could not be compared with anything"
            )
        });
    }
    let document = documents::Scrubbed {
        name: name.clone(),
        uuid: scrubbed.report.uuid.to_string(),
        through: scrubbed.through,
        done_bytes: scrubbed.progress.done_bytes,
        total_bytes: scrubbed.progress.total_bytes,
        repaired_bytes: found.repaired_blocks * block_bytes,
        left_bytes: found.left_blocks * block_bytes,
        left_before_bytes: left_before * block_bytes,
        metadata_repaired_bytes: found.metadata_repaired_blocks * block_bytes,
        metadata_left_bytes: found.metadata_left_blocks * block_bytes,
        disagreement_bytes: found.disagreements * block_bytes,
        made_to_agree_bytes: found.made_to_agree * block_bytes,
        lost_bytes,
        not_looked_at: failed,
        resumed: take(&mut findings.resumed),
        places: take(&mut findings.places),
    };
    (document, left * block_bytes)
}

/// Returns the counts of blocks, each with its words for people.
fn counts(found: &ScrubStatus) -> [(u64, &'static str); 7] {
    [
        (found.repaired_blocks, "wrong and repaired"),
        (found.left_blocks, "wrong and not repaired"),
        (
            found.left_before_blocks,
            "wrong and not repaired in the part before, where this scrub went on",
        ),
        (
            found.metadata_repaired_blocks,
            "of metadata, or without good checksums, repaired",
        ),
        (
            found.metadata_left_blocks,
            "of metadata, or without good checksums, wrong and not repaired",
        ),
        (
            found.disagreements,
            "in disagreement, and nothing tells which member is wrong",
        ),
        (
            found.made_to_agree,
            "in disagreement, made to agree with the data",
        ),
    ]
}

/// Lists the members that the scrub lacked.
fn unchecked(report: &ArrayReport) -> Vec<String> {
    let missing = report.arrays().into_iter().filter_map(|array| {
        let of = if array.uuid == report.uuid {
            String::new()
        } else {
            format!(" of array '{}'", array.name)
        };
        let missing = array.missing();
        (!missing.is_empty()).then(|| positions(missing) + &of)
    });
    missing.collect()
}

fn text(finding: &Finding) -> String {
    match finding {
        Finding::Place {
            member,
            offset_bytes,
            bytes,
            array_offset_bytes,
            flaw,
            fate,
            array,
        } => {
            let (flaw, fate) = (flaw_text(*flaw), fate_text(*fate));
            let lost = array_offset_bytes
                .map(|offset| format!("; in array '{array}' that is {bytes} bytes at {offset}"));
            let lost = lost.unwrap_or_default();
            format!("{member}: {bytes} bytes at {offset_bytes} {flaw}: {fate}{lost}")
        }
        Finding::Metadata {
            member,
            area,
            offset_bytes,
            bytes,
            flaw,
            fate,
            ..
        } => format!(
            "{member}: {bytes} bytes of metadata ({area}) at {offset_bytes} {}: {}",
            flaw_text(*flaw),
            fate_text(*fate)
        ),
        Finding::Disagreement {
            array,
            offset_bytes,
            bytes,
            chunks,
            chunk_bytes,
            made_to_agree,
        } => {
            let fate = if *made_to_agree {
                "made to agree with the data"
            } else {
                "nothing tells which is wrong, nothing is changed"
            };
            format!(
                "array '{array}': the members disagree on {bytes} bytes of the stripe at \
                 {offset_bytes}: {fate}{}",
                in_chunks(*offset_bytes, *bytes, *chunks, *chunk_bytes)
            )
        }
        Finding::Lost {
            array,
            offset_bytes,
            bytes,
        } => format!("array '{array}': {bytes} bytes at {offset_bytes} are lost"),
        Finding::Out { array, member } => format!("array '{array}': {member} is out"),
        Finding::Resumed {
            array,
            offset_bytes,
            array_bytes,
        } => format!(
            "array '{array}': goes on at {} %, where it was stopped; --restart reads all",
            percent(*offset_bytes, *array_bytes)
        ),
    }
}

fn flaw_text(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::Unreadable => "could not be read",
        Flaw::Rotten => "were rotten",
        Flaw::ChecksumLost => "could not be verified, as their checksums were rotten",
    }
}

fn fate_text(fate: Fate) -> &'static str {
    match fate {
        Fate::Repaired => "repaired",
        Fate::Refused => "the device refuses to write them",
        Fate::Left => "not repaired",
    }
}

/// Lists the bytes of the array that a part of a stripe covers, if these are in several places.
fn in_chunks(offset_bytes: u64, bytes: u64, chunks: u8, chunk_bytes: u64) -> String {
    let offsets = offsets(offset_bytes, chunks, chunk_bytes);
    let shown: Vec<String> = (offsets.iter().take(CHUNKS_MAX))
        .map(u64::to_string)
        .collect();
    let more = match offsets.len().saturating_sub(CHUNKS_MAX) {
        0 => String::new(),
        more => format!(" and {more} more, each {chunk_bytes} on"),
    };
    match offsets.as_slice() {
        [_] => String::new(),
        _ => format!(
            "; in the array these are {bytes} bytes at each of {}{more}",
            shown.join(", ")
        ),
    }
}
