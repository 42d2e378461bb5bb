//! `spindles copy`: copies bytes between files, devices and arrays.

use super::Command;
use crate::arrays::{self, Scan};
use crate::degraded::Degraded;
use crate::documents::array::incidents;
use crate::documents::tools::{self, Stretch};
use crate::failure::Usage;
use crate::interrupt;
use crate::plain::{self, Plain};
use crate::progress::{Progress as Bar, Unit};
use crate::rate::Rate;
use crate::ui::Ui;
use crate::words::{self, wipe::Tense};
use anyhow::{anyhow, bail};
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_admin::assemble::{AssembleError, AssembleOptions, assemble};
use spindles_admin::plain::{PlainOptions, devices as devices_of, open as open_plain};
use spindles_admin::reading::assemble_to_read;
use spindles_admin::scan;
use spindles_admin::wipe::{Labelled, overwritten};
use spindles_array::{Incident, Target};
use spindles_block::{SizeBytes, counted};
use spindles_copy::{self as copy, CopyEnd, CopyError, Phase, Progress};
use spindles_device::notice::percent;
use spindles_device::{Backend, OpenOptions, device_of};

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) static COMMAND: Command = Command {
    name: "copy",
    about: "Copy data between files, devices and arrays",
    details: "FROM and TO are each a file, a block device, nbd://HOST/EXPORT, mem:SIZE, \
              null:SIZE, or an array. array:NAME selects the array by its name; \
              array:DEV,DEV,.. selects it by its devices, in any order. An array may lack as \
              many devices as its level survives. Put the name of a device in double quotes if \
              it contains a comma. plain:EXPR is the array of these members as they lie, without \
              superblocks; TO needs --writable for it. A TO file that does not exist is \
              created; one that holds data is overwritten only with --force. The command \
              copies all of FROM to the \
              beginning of TO; the rest of TO stays unchanged. When the command succeeds, the \
              data is on the medium.\n\n\
              If FROM can't be read, the copy ends. With --rescue the command copies \
              everything else and reports the blocks that it left out. There TO stays \
              unchanged, and a new file holds zeros. --rescue also copies an array that lacks \
              more devices than its level survives, if the array was closed cleanly.\n\n\
              spindles copy data.bin array:pool\n\
              spindles copy data.bin array:a.img,b.img,c.img\n\
              spindles copy array:a.img,c.img back.bin --bytes 10M\n\
              spindles copy 'plain:raid5(a.img,missing,c.img)' back.bin --chunk 16K\n\
              spindles copy /dev/sdx disk.img --verify",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

/// A shorter copy prints no rate.
const SHORT: Duration = Duration::from_millis(50);

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
struct Arguments {
    /// Source of the data
    #[arg(value_name = "FROM")]
    from: String,
    /// Destination of the data
    #[arg(value_name = "TO")]
    to: String,
    /// Read both back afterwards and compare them
    #[arg(long)]
    verify: bool,
    /// Skip parts of FROM that can't be read, and report them
    #[arg(long)]
    rescue: bool,
    /// Copy only this many bytes, from the beginning of FROM
    #[arg(long, value_name = "SIZE")]
    bytes: Option<SizeBytes>,
    /// Overwrite a file that holds data, or a superblock, partition table or file system in TO;
    /// open an array that was not closed cleanly and lacks devices
    #[arg(long)]
    force: bool,
    /// Write to plain:EXPR
    #[arg(long)]
    writable: bool,
    #[command(flatten)]
    plain: Plain,
    #[command(flatten)]
    scan: Scan,
    #[command(flatten)]
    degraded: Degraded,
    #[command(flatten)]
    rate: Rate,
}

const ARRAY: &str = "array:";
/// Skipped places listed for people, at most.
const LEFT_OUT_MAX: usize = 10;

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let interrupted = interrupt::flag()?;
    check_ends(&arguments)?;
    let from_devices = devices(&arguments.from, &arguments, ui)?;
    let to_devices = devices(&arguments.to, &arguments, ui)?;
    if is_array(&arguments.from) && is_place(&arguments.to) && !arguments.force {
        copy::check_target(&arguments.to, &arrays::names(&from_devices))?;
    }
    let mut warnings = Vec::new();
    let mut from = open_source(&arguments, &from_devices, &mut warnings, ui)?;
    let bytes = arguments.bytes.map_or(from.bytes(), |bytes| bytes.0);
    copy::check_source(&from, bytes, &arrays::names(&to_devices))?;
    let (mut to, created) = open_target(&arguments, &to_devices, bytes, &mut warnings, ui)?;
    let mut checked = copy::check(&from, &to, bytes);
    if checked.is_ok() && !arguments.force {
        checked = to.check_unoccupied();
    }

    let before = (arguments.force && checked.is_ok() && is_place(&arguments.to))
        .then(|| overwritten(&arguments.to))
        .flatten();
    let started = Instant::now();
    let copied =
        checked.and_then(|()| transfer(&arguments, &mut from, &mut to, bytes, ui, &interrupted));
    let elapsed = started.elapsed();
    if copied.is_ok() {
        finish_resync(&mut to, ui, &interrupted);
    }
    let incidents = note_incidents([&mut from, &mut to], ui);
    note_filling(&arguments.to, &to, ui);
    if copied.is_ok() {
        note_rot(&arguments.from, &from, ui);
    }
    if let Some(before) = before {
        note_overwritten(&before, ui);
    }
    let left_out = from.left_out().to_vec();
    let io = to.target().map(|target| target.facts().io);
    let from_name = from.name().to_owned();
    // Close in any case, so that an array is marked clean.
    let closed = to.close().and(from.close());
    if let Err(error) = copied {
        if created {
            remove_created(&arguments.to, ui);
        }
        return Err(with_remedy(error, &from_name, arguments.rescue));
    }
    closed?;
    let lost_bytes: u64 = left_out.iter().map(|bytes| bytes.end - bytes.start).sum();
    note_left_out(&from_name, &left_out, ui);
    let copied = Copied {
        bytes: bytes - lost_bytes,
        elapsed,
        io,
        left_out,
        warnings,
        incidents,
    };
    ui.line(copied.line(arguments.verify));
    ui.json(&copied.document(&arguments));
    if lost_bytes > 0 {
        bail!(
            "{from_name}: {} could not be read and was left out",
            arrays::size(lost_bytes)
        );
    }
    Ok(())
}

/// Adds the remedy to the error if the source could not be read.
fn with_remedy(error: CopyError, from: &str, is_rescue: bool) -> anyhow::Error {
    let is_read = matches!(&error, CopyError::Read { name, .. } if name == from);
    if is_read && !is_rescue {
        let error = words::errors::text(&error);
        anyhow!("{error}; --rescue copies all that can be read")
    } else {
        error.into()
    }
}

/// The result of a copy.
struct Copied {
    bytes: u64,
    elapsed: Duration,
    /// What performed the I/O of the target, if it is an array.
    io: Option<&'static str>,
    left_out: Vec<Range<u64>>,
    warnings: Vec<String>,
    incidents: Vec<Incident>,
}

impl Copied {
    /// Returns the bytes copied per second.
    fn bytes_per_second(&self) -> u64 {
        let rate = u128::from(self.bytes) * 1_000_000_000 / self.elapsed.as_nanos().max(1);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Returns the line for people.
    fn line(&self, is_verified: bool) -> String {
        let verified = if is_verified { " and verified" } else { "" };
        let copied = arrays::size(self.bytes);
        if self.elapsed < SHORT {
            return format!("{copied} copied{verified}");
        }
        let seconds = self.elapsed.as_secs_f64();
        format!(
            "{copied} copied{verified} in {seconds:.1} s, {} MiB/s",
            self.bytes_per_second() >> 20
        )
    }

    /// Returns the JSON document.
    fn document<'a>(&'a self, arguments: &'a Arguments) -> tools::Copied<'a> {
        let left_out = self.left_out.iter().map(|bytes| Stretch {
            offset_bytes: bytes.start,
            bytes: bytes.end - bytes.start,
        });
        tools::Copied {
            from: &arguments.from,
            to: &arguments.to,
            bytes: self.bytes,
            seconds: self.elapsed.as_secs_f64(),
            bytes_per_second: self.bytes_per_second(),
            verified: arguments.verify,
            io: self.io,
            warnings: &self.warnings,
            left_out: left_out.collect(),
            incidents: incidents(&self.incidents),
        }
    }
}

/// Reports the new incidents of both ends, and returns them.
fn note_incidents(ends: [&mut CopyEnd; 2], ui: &Ui) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for end in ends {
        let new = end.incidents();
        if let Some(target) = end.target_mut() {
            arrays::note_devices(&new, &target.spares_taken(), &[], ui);
        }
        incidents.extend(new);
    }
    incidents
}

/// Reports how far a device that replaces a member of the target is filled.
fn note_filling(name: &str, to: &CopyEnd, ui: &Ui) {
    if let Some(filling) = to.target().and_then(<dyn Target>::rebuild_progress) {
        ui.note(format!(
            "{name}: a device that takes a place is filled to {} %: spindles rebuild finishes \
             that, or it goes on when the array is written again",
            percent(filling.done_bytes, filling.total_bytes)
        ));
    }
}

/// Reports that corrupt blocks of the source were not repaired.
fn note_rot(name: &str, from: &CopyEnd, ui: &Ui) {
    // Corrupt blocks that the copy read were reconstructed. Skipped parts may hold other corrupt
    // blocks.
    if from.left_out().is_empty() && from.incidents().iter().any(Incident::is_rot) {
        ui.note(format!(
            "{name}: corrupt blocks were only read, not repaired; spindles scrub repairs them"
        ));
    }
}

/// Removes a file that this command created and could not fill.
fn remove_created(name: &str, ui: &Ui) {
    if let Err(error) = std::fs::remove_file(name) {
        ui.note(format!("{name}: can't be removed: {error}"));
    }
}

/// Reports what the target held, and which arrays lack it now.
fn note_overwritten(before: &Labelled, ui: &Ui) {
    let Labelled {
        device,
        holds,
        losses,
        ..
    } = before;
    let is_ours = !losses.is_empty();
    match overwritten(device) {
        Some(after) if is_ours && after.holds == *holds => {
            ui.note(format!(
                "{device} holds {holds} still, and a part of that may be overwritten"
            ));
        }
        _ => {
            let lacking = words::wipe::losses(losses, Tense::Past);
            let lacking: Vec<_> = lacking.iter().map(|it| format!("; {it}")).collect();
            ui.note(format!(
                "{device} held {holds}; that is overwritten{}",
                lacking.concat()
            ));
        }
    }
}

fn note_left_out(name: &str, left_out: &[Range<u64>], ui: &Ui) {
    for bytes in left_out.iter().take(LEFT_OUT_MAX) {
        ui.note(format!(
            "{name}: {} at {} can't be read",
            SizeBytes(bytes.end - bytes.start),
            SizeBytes(bytes.start)
        ));
    }
    if let Some(more) = left_out.get(LEFT_OUT_MAX..).filter(|more| !more.is_empty()) {
        ui.note(format!(
            "{name}: and {} can't be read: --json names all",
            counted(more.len(), "more place")
        ));
    }
}

fn transfer(
    arguments: &Arguments,
    from: &mut CopyEnd,
    to: &mut CopyEnd,
    bytes: u64,
    ui: &Ui,
    interrupted: &AtomicBool,
) -> Result<(), CopyError> {
    let both = if arguments.verify { 2 } else { 1 };
    let mut bar = ui.progress("copy", bytes * both, Unit::Bytes);
    let mut again: Option<Bar> = None;
    let mut on_progress = |progress: Progress| {
        match progress.phase {
            Phase::Copying => bar.set(progress.bytes),
            Phase::Comparing => bar.set(bytes + progress.bytes),
            Phase::Again => again
                .get_or_insert_with(|| {
                    let what = "unreadable stretches, block by block";
                    ui.progress(what, progress.bytes_total, Unit::Bytes)
                })
                .set(progress.bytes),
        }
        if interrupted.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    copy::copy(from, to, bytes, &mut on_progress)?;
    if arguments.verify {
        copy::compare(from, to, bytes, &mut on_progress)?;
    }
    Ok(())
}

/// Makes an array that was not closed consistent as a whole before closing it.
fn finish_resync(to: &mut CopyEnd, ui: &Ui, interrupted: &AtomicBool) {
    let Some(target) = to.target_mut() else {
        return;
    };
    let (settled, total) = target.in_sync_bytes();
    if settled == total {
        return;
    }
    let mut bar: Option<Bar> = None;
    let settled = spindles_array::await_resync(target, &mut |done, total| {
        bar.get_or_insert_with(|| ui.progress("resync", total, Unit::Bytes))
            .set(done);
        !interrupted.load(Ordering::Relaxed)
    });
    drop(bar);
    if !settled {
        ui.note(format!(
            "{} stays unclean: its resync did not finish, and restarts at the next write",
            to.name()
        ));
    }
}

/// Returns true if the name is that of an array.
fn is_array(name: &str) -> bool {
    name.starts_with(ARRAY) || plain::is_plain(name)
}

/// Returns true if the name is that of a file or device.
fn is_place(name: &str) -> bool {
    !is_array(name) && Backend::facts_of(name).outlives_opening
}

/// Rejects ends that can't be copied from or to.
fn check_ends(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.from == "-" || arguments.to == "-" {
        return Err(Usage::error(
            "copy needs an end that can be read back and flushed, which - is not: give a file",
        ));
    }
    let ends = [&arguments.from, &arguments.to];
    for end in ends {
        check_absent(end, &arguments.scan)?;
    }
    arguments.plain.check(ends, arguments.writable)?;
    if plain::is_plain(&arguments.to) && !arguments.writable {
        return Err(Usage::error(format!(
            "{}: a plain array is read only without --writable",
            arguments.to
        )));
    }
    Ok(())
}

/// Rejects a missing name that is probably meant for an array or a device, not for a new file.
fn check_absent(name: &str, scan: &Scan) -> anyhow::Result<()> {
    let name = &*device_of(name);
    if !is_place(name) || Path::new(name).exists() {
        return Ok(());
    }
    if name.starts_with("/dev/") && !name.starts_with("/dev/shm/") {
        bail!(
            "there is no {name}, and a new file there would be gone after a restart: check the \
               name"
        );
    }
    if name.contains('/') {
        return Ok(());
    }
    if let Some((kind, _)) = name.split_once(':') {
        return Err(Usage::error(format!(
            "there is no {name}, and nothing that '{kind}:' stands for: give array:NAME, mem:SIZE \
             or null:SIZE, or ./{name} for a file of that name"
        )));
    }
    if scan::resolve(&[name], &[], scan.places()).is_ok() {
        return Err(Usage::error(format!(
            "{name} is the name of an array: give array:{name} for it, or ./{name} for a file of \
             that name"
        )));
    }
    Ok(())
}

/// The devices behind a name.
fn devices(name: &str, arguments: &Arguments, ui: &Ui) -> anyhow::Result<Vec<String>> {
    if let Some(array) = arguments.plain.target(name)? {
        let devices = devices_of(&array.expression).into_iter();
        Ok(devices.map(str::to_owned).collect())
    } else if name.starts_with(ARRAY) {
        arguments.scan.devices(&[name.to_owned()], &[], ui)
    } else {
        Ok(vec![name.to_owned()])
    }
}

/// Opens one end, and adds facts the user should know to the warnings.
fn open(
    name: &str,
    devices: &[String],
    read_only: bool,
    arguments: &Arguments,
    warnings: &mut Vec<String>,
    ui: &Ui,
) -> anyhow::Result<CopyEnd> {
    let open = OpenOptions {
        read_only,
        ..OpenOptions::default()
    };
    let mut tell = |line: String| {
        ui.note(&line);
        warnings.push(line);
    };
    if let Some(array) = arguments.plain.target(name)? {
        let options = PlainOptions {
            rescue: read_only && arguments.rescue,
            ..arguments.plain.options(&array, open, arguments.force)
        };
        let opened = open_plain(&array.expression, &options)?;
        let notes = words::plain::notes(&array, &options, &opened.report).into_iter();
        notes.for_each(tell);
        return Ok(CopyEnd::new(opened.target));
    }
    if !name.starts_with(ARRAY) {
        return Ok(CopyEnd::open(name, &open)?);
    }
    let devices = arrays::names(devices);
    let options = AssembleOptions {
        open,
        engine: arguments.rate.options(),
        force: arguments.force,
        degraded: arguments.degraded.degraded,
        rescue: read_only && arguments.rescue,
        ..AssembleOptions::default()
    };
    let array = if read_only {
        let array = assemble_to_read(&devices, &options, &mut tell);
        array.map_err(|error| match error {
            AssembleError::Incomplete { .. } if !arguments.rescue => anyhow!(
                "{error}; --rescue copies what can still be read of it, if it was closed in order"
            ),
            AssembleError::Incomplete { .. } => anyhow!(
                "{error}; --rescue reads an array without them only if it was closed in order, and \
                 is not growing: bring back as many as it needs"
            ),
            error => error.into(),
        })?
    } else {
        assemble(&devices, &options)?
    };
    words::report::warnings(&array.report)
        .into_iter()
        .for_each(tell);
    Ok(CopyEnd::new(array.target))
}

/// Opens the source; with `--rescue` it leaves out unreadable parts.
fn open_source(
    arguments: &Arguments,
    devices: &[String],
    warnings: &mut Vec<String>,
    ui: &Ui,
) -> anyhow::Result<CopyEnd> {
    let mut from = open(&arguments.from, devices, true, arguments, warnings, ui)?;
    if arguments.rescue {
        from.leave_out_unreadable();
    }
    Ok(from)
}

/// Opens the target, and creates the file if there is none; true if it did.
fn open_target(
    arguments: &Arguments,
    devices: &[String],
    bytes: u64,
    warnings: &mut Vec<String>,
    ui: &Ui,
) -> anyhow::Result<(CopyEnd, bool)> {
    let name = arguments.to.as_str();
    let created = is_place(name) && CopyEnd::prepare_file(name, bytes)?;
    match open(name, devices, false, arguments, warnings, ui) {
        Ok(to) => Ok((to, created)),
        Err(error) => {
            if created {
                remove_created(name, ui);
            }
            Err(error)
        }
    }
}
