//! Descriptions of arrays and sizes for people and programs, the same in all commands.

use crate::documents::NotGiven;
use crate::failure::{self, Usage};
use crate::plain::Plain;
use crate::served::{InServer, also_served};
use crate::ui::Ui;
use crate::words;
use anyhow::{anyhow, bail};
use clap::Args;
use spindles_admin::host::{Host, check_one_array, report_of};
use spindles_admin::plain::PlainTarget;
use spindles_admin::scan::{self, FoundArray, Given, ScanError};
use spindles_admin::spare::Taken;
use spindles_array::Incident;
use spindles_block::{RoundedSize, SizeBytes, counted};
use spindles_device::identity::absolute;
use spindles_device::{is_address, utc, with_device};
use spindles_engine::{Policy, WriteHole};
use spindles_format::ErrorCounts;
use spindles_layout::{Expression, Level, Redundancy, Slice, parse_devices};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Rounds a size for people: `1.5 GiB`, `512 bytes`.
pub(crate) fn size(bytes: u64) -> RoundedSize {
    SizeBytes(bytes).rounded()
}

// No doc comment: clap would show it as the help of the commands that flatten this.
#[derive(Args)]
pub(crate) struct Scan {
    /// Where to look for arrays by name, and for members that were not given: a folder, a file, a
    /// block device or the address of an export. May be given several times [default: the paths in
    /// `SPINDLES_SCAN`, separated by colons, or else the current folder and all block devices]
    #[arg(long = "scan", value_name = "PATH")]
    places: Vec<String>,
}

impl Scan {
    /// Returns the paths to search, in the form that the library takes.
    pub(crate) fn places(&self) -> &[String] {
        &self.places
    }

    /// Resolves command arguments to devices: devices, lists of devices and names of arrays. Warns
    /// about members of their arrays that were not given, except for the devices in `apart`, which
    /// have another role in the command.
    pub(crate) fn devices(
        &self,
        arguments: &[String],
        apart: &[&str],
        ui: &Ui,
    ) -> anyhow::Result<Vec<String>> {
        let given = self.given(arguments, apart, ui)?;
        check_found(&given, ui)?;
        Ok(given.devices)
    }

    /// Finds the array of an operation: the server that has it open, or else its devices. Checks
    /// and notes the same as [`Scan::devices`].
    pub(crate) fn find(
        &self,
        arguments: &[String],
        apart: &[&str],
        ui: &Ui,
    ) -> anyhow::Result<Found> {
        let found = self.search(arguments, apart, ui)?;
        if found.server.is_none() {
            check_found(&found.given, ui)?;
        }
        Ok(found)
    }

    /// Like [`Scan::find`], but leaves unreadable devices to the caller.
    pub(crate) fn search(
        &self,
        arguments: &[String],
        apart: &[&str],
        ui: &Ui,
    ) -> anyhow::Result<Found> {
        refuse_expressions(arguments)?;
        let arguments = names(arguments);
        let given = scan::resolve(&arguments, apart, &self.places);
        if let (Err(ScanError::Unknown { .. }), [name]) = (&given, &arguments[..])
            && let Some(server) = InServer::called(name)?
        {
            let (given, server) = (Given::default(), Some(server));
            return Ok(Found { given, server });
        }
        let given = given.map_err(usage)?;
        let server = InServer::of(&given.arrays);
        if server.is_none() {
            note_found(&given, ui);
        } else if arguments.len() > 1 {
            // The server has one array, and never sees the other arguments.
            check_one_array(&given.devices)?;
        }
        Ok(Found { given, server })
    }

    /// Returns the usage error for a command that takes a device and then an array. It shows the
    /// command line that was probably meant.
    pub(crate) fn needs_array(
        &self,
        command: &str,
        arguments: &[String],
        or: &str,
    ) -> anyhow::Error {
        let is_array = |word: &&String| scan::called(word, &self.places).is_some();
        let (named, devices): (Vec<&String>, Vec<&String>) = arguments.iter().partition(is_array);
        let words = |words: &[&String], otherwise: &str| match words {
            [] => otherwise.to_owned(),
            words => {
                let words = words.iter().map(|word| scan::shell_word(word));
                words.collect::<Vec<_>>().join(" ")
            }
        };
        let (device, array) = (words(&devices, "DEV"), words(&named, "ARRAY"));
        Usage::error(format!(
            "the device comes first, then the array with --array: `spindles {command} {device} \
             --array {array}`{or}"
        ))
    }

    /// Notes that the array's name will not find new devices that lie outside of the searched
    /// paths.
    pub(crate) fn note_out_of_sight(&self, new: &[&str], found: &Found, ui: &Ui) {
        let devices = names(&found.given.devices);
        let is_out = |device: &&&str| scan::is_out_of_sight(device, &devices, &self.places);
        for device in new.iter().filter(is_out) {
            ui.note(format!(
                "{device} lies outside of the searched paths. It is used now, but later the \
                 array's name alone does not find it: give {device} too, or name its folder with \
                 --scan or in SPINDLES_SCAN"
            ));
        }
    }

    /// Like [`Scan::devices`], grouped by array. Each group has the index of the first argument
    /// that names the array.
    pub(crate) fn arrays(
        &self,
        arguments: &[String],
        ui: &Ui,
    ) -> anyhow::Result<Vec<(usize, Vec<String>)>> {
        let devices = self.devices(arguments, &[], ui)?;
        Ok(scan::by_array(&names(arguments), &devices))
    }

    /// Describes the members that superblocks count on and that are not there, or why that is
    /// unknown. Prints nothing.
    pub(crate) fn awaited(&self, arguments: &[String]) -> Option<String> {
        let arguments = names(arguments);
        let given = match scan::resolve(&arguments, &[], &self.places) {
            Ok(given) => given,
            Err(error) => return Some(words::errors::text(&error)),
        };
        let arrays = scan::by_array(&arguments, &given.devices).into_iter();
        let awaited = arrays.filter_map(|(_, devices)| match report_of(&devices) {
            Ok(report) => report.awaited(),
            Err(error) => Some(words::errors::text(&error)),
        });
        let awaited: Vec<String> = awaited.collect();
        (!awaited.is_empty()).then(|| awaited.join("; "))
    }

    /// Returns the `--scan` options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let words = self.places.iter().map(|place| format!("--scan={place}"));
        words.collect()
    }

    /// Resolves arguments to devices, with everything else the scan found. Leaves unreadable
    /// devices to the caller.
    pub(crate) fn given(
        &self,
        arguments: &[String],
        apart: &[&str],
        ui: &Ui,
    ) -> anyhow::Result<Given> {
        refuse_expressions(arguments)?;
        let given = scan::resolve(&names(arguments), apart, &self.places);
        let given = given.map_err(usage)?;
        note_found(&given, ui);
        Ok(given)
    }
}

/// Notes what the search found apart from the devices.
fn note_found(given: &Given, ui: &Ui) {
    for note in given
        .skipped
        .iter()
        .chain(&words::scan::former(given, false))
    {
        ui.note(note);
    }
    if let Some(warning) = words::scan::forgotten(given) {
        ui.note(warning);
    }
    // A left-over inner array also lacks members, although the array does not count on it.
    let is_whole = || report_of(&given.devices).is_ok_and(|it| it.awaited().is_none());
    if let Some(elsewhere) = given.elsewhere.as_ref().filter(|_| !is_whole()) {
        ui.note(elsewhere);
    }
    ui.not_given(given.forgotten.iter().map(NotGiven::from));
    ui.works_on(&given.arrays);
}

/// Refuses an array of which the search may have missed devices.
fn check_found(given: &Given, ui: &Ui) -> anyhow::Result<()> {
    if let Some(missed) = &given.may_have_missed {
        bail!("{missed}");
    }
    if let Some(denied) = words::scan::denied(given) {
        ui.note(format!("the missing devices may be here: {denied}"));
    }
    Ok(())
}

/// The array of an operation.
#[derive(Debug)]
pub(crate) struct Found {
    /// What the search found. Without devices if only the server knows them.
    pub given: Given,
    /// The server that has the array open.
    pub server: Option<InServer>,
}

impl Found {
    /// Returns true if that is the array, or one inside it or around it.
    pub(crate) fn is(&self, array: &FoundArray) -> bool {
        let is_served = |server: &InServer| server.array == array.uuid.to_string();
        self.given.arrays.contains(&array.uuid) || self.server.as_ref().is_some_and(is_served)
    }

    /// Returns the device of the array, or the new one, that a word names. See [`device_meant`].
    pub(crate) fn device(&self, word: &str) -> anyhow::Result<String> {
        let Some(server) = &self.server else {
            return device_meant(word, &self.given.devices);
        };
        let is_named = is_address(word) || Slice::is_text(word) || word.contains('/');
        let is_bare = !is_named && !Path::new(word).exists();
        let of_array = if is_bare {
            server.devices()?
        } else {
            Vec::new()
        };
        Ok(whole(&device_meant(word, &of_array)?))
    }

    /// Returns a device that is new to the array. Its name is absolute if a server gets it.
    pub(crate) fn new_device(&self, word: &str) -> String {
        match self.server {
            None => word.to_owned(),
            Some(_) => whole(word),
        }
    }

    /// Returns devices that are new to the array, in the form in which they were given.
    pub(crate) fn new_devices(&self, expression: &Expression) -> Expression {
        expression.with_leaves(&mut |device| self.new_device(device))
    }
}

/// Returns the absolute name of a device, even of one that does not exist.
fn whole(device: &str) -> String {
    with_device(&absolute(device), |name| {
        let path = std::path::absolute(name).ok().filter(|_| !is_address(name));
        let path = path.and_then(|path| path.into_os_string().into_string().ok());
        path.unwrap_or_else(|| name.to_owned())
    })
}

// The array of a command. (A doc comment here would become the help of the commands.)
#[derive(Args)]
pub(crate) struct ArrayArguments {
    /// The array: its name, or its devices in any order
    #[arg(value_name = "ARRAY|DEV", required = true)]
    devices: Vec<String>,
    #[command(flatten)]
    pub(crate) scan: Scan,
}

impl ArrayArguments {
    /// Returns the plain array that the arguments name, opened with these options; `None` if they
    /// name another array.
    pub(crate) fn plain(&self, options: &Plain) -> anyhow::Result<Option<PlainTarget>> {
        options.of_one(&self.devices)
    }

    /// Resolves the devices of the array, as [`Scan::devices`] does.
    pub(crate) fn devices(&self, apart: &[&str], ui: &Ui) -> anyhow::Result<Vec<String>> {
        self.scan.devices(&self.devices, apart, ui)
    }

    /// Finds the array, as [`Scan::find`] does.
    pub(crate) fn find(&self, apart: &[&str], ui: &Ui) -> anyhow::Result<Found> {
        self.scan.find(&self.devices, apart, ui)
    }
}

// A device, and the array that gains or loses it. (A doc comment here would become the help of the
// commands.)
#[derive(Args)]
pub(crate) struct DeviceOfArray {
    /// The device; give it first, then the array
    #[arg(value_name = "DEV", required = true)]
    device: String,
    /// The array: its name, or its devices in any order
    #[arg(value_name = "ARRAY|DEV", required = true)]
    devices: Vec<String>,
    #[command(flatten)]
    pub(crate) scan: Scan,
}

impl DeviceOfArray {
    /// Returns the device, and finds the array as [`Scan::find`] does.
    pub(crate) fn find(&self, ui: &Ui) -> anyhow::Result<(String, Found)> {
        let found = find_apart(&[&self.device], &self.devices, &self.scan, ui)?;
        Ok((found.device(&self.device)?, found))
    }
}

// A member, and its array. (A doc comment here would become the help of the commands.)
#[derive(Args)]
pub(crate) struct MemberOfArray {
    /// The device; give it first, then the array. Omit it with --member
    #[arg(value_name = "DEV", required_unless_present = "member")]
    first: Option<String>,
    /// The array: its name, or its devices in any order
    #[arg(value_name = "ARRAY|DEV", required_unless_present = "member")]
    others: Vec<String>,
    /// The position of the member, instead of its device
    #[arg(long, value_name = "N")]
    pub member: Option<u8>,
    #[command(flatten)]
    scan: Scan,
}

impl MemberOfArray {
    /// Finds the array, as [`Scan::find`] does. Returns the device too, unless `member` is given.
    pub(crate) fn find(&self, ui: &Ui) -> anyhow::Result<(Found, Option<String>)> {
        let Some(member) = self.member else {
            let first = self.first.as_deref().expect("clap demands it");
            let found = find_apart(&[first], &self.others, &self.scan, ui)?;
            let device = found.device(first)?;
            return Ok((found, Some(device)));
        };
        let array = self.first.iter().chain(&self.others).cloned();
        let array: Vec<String> = array.collect();
        if array.is_empty() {
            return Err(Usage::error(format!(
                "--member {member}: of which array? Give its name, or its devices"
            )));
        }
        Ok((self.scan.find(&array, &[], ui)?, None))
    }
}

/// Finds an array, without the devices in `apart`, which have another role in the
/// command. The first one of these is a device, not the name of an array.
pub(crate) fn find_apart(
    apart: &[&str],
    array: &[String],
    scan: &Scan,
    ui: &Ui,
) -> anyhow::Result<Found> {
    if let [device, ..] = apart
        && !Path::new(device).exists()
        && let Some(named) = scan::called(device, scan.places())
    {
        let name = scan::shell_word(device);
        let others: Vec<_> = array.iter().map(|it| scan::shell_word(it)).collect();
        return Err(Usage::error(format!(
            "{device} is an array, with the devices {}: the device comes first, then the array: \
             `{} {name}`",
            named.devices.join(", "),
            others.join(" "),
        )));
    }
    scan.find(array, apart, ui)
}

/// Finds the device of an array that a word names. An existing path names itself; a bare name that
/// does not exist here names the array's device with that file name.
///
/// # Errors
///
/// Several devices have that name.
fn device_meant(word: &str, of_array: &[String]) -> anyhow::Result<String> {
    if is_address(word) || Slice::is_text(word) || Path::new(word).exists() {
        return Ok(word.to_owned());
    }
    if word.contains('/') {
        // A server of the array has another working directory.
        return Ok(absolute(word));
    }
    let is_called = |device: &&String| Path::new(device).file_name() == Some(OsStr::new(word));
    let called: Vec<&String> = of_array.iter().filter(is_called).collect();
    match called.as_slice() {
        [] => Ok(word.to_owned()),
        [one] => Ok((*one).clone()),
        [one, other, ..] => Err(Usage::error(format!(
            "{word} is not in this folder, and several devices of the array are called so, as \
             {one} and {other}: give the whole path"
        ))),
    }
}

/// Returns the names of arrays if the arguments name several; the command then runs once for each.
pub(crate) fn several(arguments: &[String]) -> anyhow::Result<Vec<String>> {
    refuse_expressions(arguments)?;
    let names = scan::names_among(&names(arguments)).map_err(Usage::error)?;
    if names.len() < 2 {
        return Ok(Vec::new());
    }
    if names.len() < devices(arguments)?.len() {
        return Err(Usage::error(
            "several arrays are given by their names alone, each once, and one array by its \
             devices",
        ));
    }
    Ok(names)
}

/// Rejects expressions of new arrays. A device list would split an expression at its commas.
fn refuse_expressions(arguments: &[String]) -> anyhow::Result<()> {
    let is_one = |word: &&String| matches!(expression(word), Ok(Expression::Array { .. }));
    match arguments.iter().find(is_one) {
        None => Ok(()),
        Some(word) => Err(Usage::error(format!(
            "{word} describes a new array: give an existing array by its name, or by its devices"
        ))),
    }
}

/// Splits the lists among the arguments into words.
pub(crate) fn devices(arguments: &[String]) -> anyhow::Result<Vec<String>> {
    let lists = arguments.iter().map(|argument| scan::split(argument));
    let lists: Result<Vec<_>, _> = lists.collect();
    Ok(lists.map_err(Usage::error)?.concat())
}

/// Returns a better error for a device that was not found, if its name is that of an array.
pub(crate) fn instead_of_device(error: &anyhow::Error, places: &[String]) -> Option<anyhow::Error> {
    let name = failure::absent_device(error)?;
    // A server gets absolute names.
    let here = std::env::current_dir().ok();
    let here = here.and_then(|here| Path::new(name).strip_prefix(here).ok()?.to_str());
    let name = here.unwrap_or(name);
    let array = scan::called(name, places)?;
    Some(Usage::error(format!(
        "{name} is an array, and only devices can be given here: its devices are {}",
        array.devices.join(", ")
    )))
}

/// Parses a device, or an array of devices.
pub(crate) fn expression(text: &str) -> anyhow::Result<Expression> {
    if Slice::is_text(text) {
        let slice = Slice::parse(text).map(|slice| slice.to_string());
        // It may begin a list of devices.
        let leaf = slice.or_else(|error| match parse_devices(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(_) => Err(Usage::error(error)),
        });
        Ok(Expression::Leaf(leaf?))
    } else if text.contains('(') && !Path::new(text).exists() {
        Expression::parse(text).map_err(Usage::error)
    } else {
        Ok(Expression::Leaf(text.to_owned()))
    }
}

/// Selects the host of an array: the server if it runs this command, or else the devices.
pub(crate) fn host<'a>(devices: &'a [&'a str], ui: &'a Ui) -> Host<'a> {
    match ui.serving() {
        Some(serving) => Host::Served(serving.handle()),
        None => Host::Devices(devices),
    }
}

/// Notes that a file in this folder has the same name as the array.
pub(crate) fn note_hidden_by_file(name: &str, uuid: &str, ui: &Ui) {
    if Path::new(name).is_file() {
        ui.note(format!(
            "a file in this folder is called {} too, and here the name means the file: call the \
             array by its UUID, {uuid}, or from another folder",
            scan::shell_word(name)
        ));
    }
}

/// Borrows the words, in the form that the library takes.
pub(crate) fn names(devices: &[String]) -> Vec<&str> {
    devices.iter().map(String::as_str).collect()
}

fn usage(error: ScanError) -> anyhow::Error {
    match error {
        ScanError::List(error) => Usage::error(error),
        // A server may have renamed the array.
        ScanError::Unknown { ref found, .. } => anyhow!("{error}{}", also_served(found)),
        error => error.into(),
    }
}

/// `raid5 left-symmetric, 3 members, chunks of 64 KiB, blocks of 4 KiB`.
pub(crate) fn shape(
    level: &str,
    layout: &str,
    members: usize,
    chunk_bytes: u64,
    block_bytes: u32,
) -> String {
    let space = if layout.is_empty() { "" } else { " " };
    format!(
        "{level}{space}{layout}, {members} member{}, chunks of {}, blocks of {}",
        if members == 1 { "" } else { "s" },
        SizeBytes(chunk_bytes),
        SizeBytes(block_bytes.into()),
    )
}

/// Notes what happened to devices: incidents, spares taken, and data overwritten.
pub(crate) fn note_devices(
    incidents: &[Incident],
    taken: &[Taken],
    wiped: &[(String, String)],
    ui: &Ui,
) {
    for incident in incidents {
        ui.note(incident);
    }
    for taken in taken {
        ui.note(taken);
    }
    for (device, what) in wiped {
        ui.note(format!("{device} held {what}; that is overwritten"));
    }
}

/// Places listed for people, at most.
pub(crate) const PLACES_MAX: usize = 50;

/// Returns the line about the places beyond [`PLACES_MAX`].
pub(crate) fn more_places(places: usize) -> Option<String> {
    let more = places.checked_sub(PLACES_MAX).filter(|more| *more > 0)?;
    Some(format!(
        "and {}: --json names all",
        counted(more, "more place")
    ))
}

/// How long something takes, roughly: `40 s`, `3 min`, `5 h`, `2 days`.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A time in seconds since 1970, and how long ago that is: `2026-11-23 08:15:07 UTC, 3 min ago`.
pub(crate) fn moment(at_s: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let ago = now.map_or(0, |now| now.as_secs()).checked_sub(at_s);
    let ago = ago.map_or_else(String::new, |ago| format!(", {} ago", duration(ago)));
    format!("{}{ago}", utc(at_s))
}

/// Describes a consistency policy for people. If the policy logs but the level has no parity, the
/// text says so.
pub(crate) fn policy(name: &str, level: &Level) -> String {
    let logs = Policy::by_name(name).is_some_and(|it| it.write_hole == WriteHole::Closed);
    let has_parity = matches!(level.redundancy, Redundancy::Parity(_));
    if logs && !has_parity {
        format!("{name} (this level has nothing to log)")
    } else {
        name.to_owned()
    }
}

/// The error counters of a device, for people: "2 failed reads, 12 KiB corrupt, 12 KiB repaired".
pub(crate) fn errors_text(errors: &ErrorCounts, block_bytes: u32) -> String {
    let counted = |count: u64, one: &str, many: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {many}")),
    };
    let bytes = |blocks: u64, what: &str| {
        (blocks > 0).then(|| format!("{} {what}", size(blocks.saturating_mul(block_bytes.into()))))
    };
    let parts = [
        counted(errors.read_errors, "failed read", "failed reads"),
        bytes(errors.corrupt_blocks, "corrupt"),
        bytes(errors.repaired_blocks, "repaired"),
        counted(errors.slow_answers, "slow answer", "slow answers"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_without_a_file_means_an_array_device() {
        let of_array = ["/srv/a.img", "/srv/b.img", "/other/b.img", "c.img"].map(str::to_owned);
        for (word, meant) in [
            ("a.img", "/srv/a.img"),
            ("c.img", "c.img"),
            ("/a.img", "/a.img"),
            ("nbd://h/a.img", "nbd://h/a.img"),
            ("d.img", "d.img"),
            // Tests run in the crate's folder, where `Cargo.toml` exists.
            ("Cargo.toml", "Cargo.toml"),
        ] {
            assert_eq!(device_meant(word, &of_array).expect("one"), meant);
        }
        let meant = device_meant("./a.img", &of_array).expect("one");
        assert!(meant.ends_with("/crates/spindles/a.img"), "{meant}");
        assert!(device_meant("b.img", &of_array).is_err());
        let here = ["/srv/Cargo.toml".to_owned()];
        assert_eq!(
            device_meant("Cargo.toml", &here).expect("one"),
            "Cargo.toml"
        );
    }

    #[test]
    fn times_include_their_age() {
        assert!(moment(951_782_400).starts_with("2000-02-29 00:00:00 UTC, "));
        assert!(moment(951_782_400).ends_with(" days ago"));
        assert!(!moment(4_107_542_400).contains("ago"));
        for (seconds, text) in [
            (119, "119 s"),
            (125, "2 min"),
            (9_000, "2 h"),
            (200_000, "2 days"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
