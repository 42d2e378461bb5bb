//! Finds arrays by name: looks in some folders and at block devices for devices with a Spindles
//! superblock. Users need not type every member, and a forgotten member is reported by name.

use crate::assemble::outermost;
pub use crate::errors::{FoundArray, ScanError, lines};
use rustix::process::geteuid;
use spindles_array::lists::few;
pub use spindles_array::shell::shell_word;
use spindles_block::MemberIndex;
use spindles_device::device_of;
use spindles_device::identity::{Identity, depth, file_of_loop, identity, share_bytes};
use spindles_device::peer::is_address;
use spindles_device::probe::{self, Probe, block_devices, glance, holds_superblock};
use spindles_format::{ArrayRecord, Found, SLOT_BYTES, Uuid, newest, take_left_over};
use spindles_layout::{ExpressionError, Slice, parse_devices, quoted};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The places to look in, separated by colons, unless the caller gives some. In the address of an
/// export, write `%3A` for each colon after its host and port.
pub const SCAN_VARIABLE: &str = "SPINDLES_SCAN";

/// Limits of a scan.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Files and devices examined in one folder.
    files: usize,
    /// Time after which no further file or device is examined. A disk that hardly answers must not
    /// block commands on other disks.
    time: Duration,
}

const LIMITS: Limits = Limits {
    files: 1 << 20,
    time: Duration::from_secs(30),
};

/// Attempts to read superblocks inside arrays that others are using.
const LOOKS_MAX: u32 = 10;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The devices that a user means.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The devices given, and those of the arrays given by name.
    pub devices: Vec<String>,
    /// Devices of their arrays that were found but not given.
    pub forgotten: Vec<Forgotten>,
    /// The arrays of the devices, with all outer and inner arrays.
    pub arrays: Vec<Uuid>,
    /// Places that could not be searched, or only partly, each with the reason.
    pub skipped: Vec<String>,
    /// Devices that are no longer members of their arrays.
    pub former: Vec<FormerMember>,
    /// Devices that this user may not read and that their arrays may lack.
    pub unreadable: Vec<String>,
    /// A message why an array given by name must not be written: it lacks devices and the scan was
    /// cut short. `None` if writing is fine.
    pub may_have_missed: Option<String>,
    /// A message where the scan looked and how to search elsewhere too. `Some` if arrays given by
    /// name lack members that they count on, and nothing else explains it.
    pub elsewhere: Option<String>,
}

/// A device of a given array that was itself not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// The device.
    pub device: String,
    /// The array's name; for an inner array, its own name.
    pub array: String,
    /// The array.
    pub uuid: Uuid,
    /// Its role in the array.
    pub role: Role,
}

/// A device that is no longer a member of its array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerMember {
    /// The device.
    pub device: String,
    /// The array's name.
    pub array: String,
    /// True if another device has its position. Otherwise the array went on without it for longer
    /// than it remembers.
    pub is_replaced: bool,
}

/// The role of a device in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A member.
    Member(MemberIndex),
    /// The journal device.
    Journal,
    /// A spare.
    Spare,
}

impl Given {
    /// Returns true if devices that the arrays lack may be present: the scan was cut short, or this
    /// user may not read them. A device that even root can't read is no member.
    #[must_use]
    pub fn hides_devices(&self) -> bool {
        self.may_have_missed.is_some() || !self.unreadable.is_empty() && !may_read_all()
    }
}

/// Returns true if permissions do not restrict this user.
#[must_use]
pub fn may_read_all() -> bool {
    geteuid().is_root()
}

/// Keeps the unreadable devices that may belong to the array on `devices`: files if `devices` has
/// files, block devices if it has block devices.
fn of_same_kind(unreadable: &[String], devices: &[String]) -> Vec<String> {
    let is_block = |name: &String| {
        let whole = identity(name).map(Identity::whole);
        matches!(whole, Some(Identity::Block { .. }))
    };
    let of_blocks: Vec<bool> = devices.iter().map(is_block).collect();
    let mut same = unreadable.to_vec();
    same.retain(|name| of_blocks.contains(&is_block(name)));
    same
}

/// Joins the names, or only the first few if there are many; `None` if there are none.
fn several(names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| few(names))
}

/// Splits arguments into devices and array names, and finds the devices of those arrays.
///
/// A word that exists as a file or block device, or contains a '/' or ':', is a device. Any other
/// word is the name or the identity of an array. Commas separate several words, which are quoted as
/// in array expressions. A list of words may begin with `array:`.
///
/// `apart` lists devices with another role in the coming command; they are not reported as
/// forgotten.
///
/// `places` lists files, block devices and folders to search, without subfolders. If it is empty,
/// the environment variable decides, or else the current folder and all block devices are searched.
/// Refuses a name of no array or of several; the error lists the arrays found.
pub fn resolve(arguments: &[&str], apart: &[&str], places: &[String]) -> Result<Given, ScanError> {
    resolve_within(arguments, apart, places, LIMITS)
}

fn resolve_within(
    arguments: &[&str],
    apart: &[&str],
    places: &[String],
    limits: Limits,
) -> Result<Given, ScanError> {
    let mut words = Vec::new();
    for argument in arguments {
        words.extend(split(argument)?);
    }
    let (devices, names): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| is_device(word));
    let mut selection = Selection::of(devices);
    if names.is_empty() && !selection.has_members() {
        // Without a superblock among them, nothing can be forgotten.
        return Ok(Given {
            devices: selection.devices,
            ..Given::default()
        });
    }
    let mut scan = Scan::of(places, limits);
    selection.add_named(&names, apart, &scan)?;
    let forgotten = selection.forgotten(apart, &scan);
    let is_member = |forgotten: &Forgotten| matches!(forgotten.role, Role::Member(_));
    if forgotten.iter().any(is_member) {
        // A spare must not take the place of a member that is present.
        scan.skipped.extend(selection.leave_out_spares());
    }
    let arrays = selection.arrays();
    let former = selection.former_members(&scan.left_over, &arrays);
    selection.look_at_apart(apart, &arrays);
    let may_have_missed = selection.may_have_missed(&scan.cut_off);
    let mut unreadable = Vec::new();
    let mut elsewhere = None;
    let is_named = !selection.named.is_empty();
    if (!scan.unreadable.is_empty() || is_named) && lacks_members(&selection.found) {
        unreadable = of_same_kind(&scan.unreadable, &selection.devices);
        unreadable.retain(|name| !apart.iter().any(|apart| share_bytes(apart, name)));
        let may_be_elsewhere = is_named && unreadable.is_empty() && may_have_missed.is_none();
        elsewhere = may_be_elsewhere.then(|| scan.elsewhere(&selection.devices));
    }
    Ok(Given {
        arrays: arrays.into_iter().collect(),
        unreadable,
        elsewhere,
        forgotten,
        former,
        may_have_missed,
        devices: selection.devices,
        skipped: scan.cut_off.into_iter().chain(scan.skipped).collect(),
    })
}

/// The devices that the arguments select.
struct Selection {
    devices: Vec<String>,
    /// The superblocks and labels on them.
    found: Vec<Found>,
    /// The arrays given by name.
    named: BTreeSet<Uuid>,
}

impl Selection {
    /// Selects these devices.
    fn of(devices: Vec<String>) -> Self {
        Self {
            found: devices.iter().filter_map(|name| glance(name)).collect(),
            devices,
            named: BTreeSet::new(),
        }
    }

    /// Returns true if one of the devices has the superblock of a member.
    fn has_members(&self) -> bool {
        self.found.iter().any(|found| found.record().is_ok())
    }

    /// Adds the devices of the arrays with these names, except those in `apart`.
    fn add_named(
        &mut self,
        names: &[String],
        apart: &[&str],
        scan: &Scan,
    ) -> Result<(), ScanError> {
        if names.is_empty() {
            return Ok(());
        }
        let mut taken = self.identities();
        let arrays = scan.arrays();
        for name in names {
            let array = choose(name, &arrays, scan)?;
            self.named.insert(array.uuid); // Also if `apart` has all its devices.
            for device in &array.devices {
                let identity = identity(device);
                // One name may be a loop device, and the other the file under it.
                let is_apart = apart.iter().any(|apart| share_bytes(apart, device));
                if is_apart || identity.is_some_and(|identity| !taken.insert(identity)) {
                    continue;
                }
                self.found.extend(scan.found_on(device).cloned());
                self.devices.push(device.clone());
            }
        }
        Ok(())
    }

    /// Returns the identities of the devices.
    fn identities(&self) -> BTreeSet<Identity> {
        let names = self.devices.iter();
        names.filter_map(|name| identity(name)).collect()
    }

    /// Returns the devices of the selected arrays that are neither selected nor in `apart`.
    fn forgotten(&self, apart: &[&str], scan: &Scan) -> Vec<Forgotten> {
        let mut forgotten = scan.forgotten(&self.found, &self.identities());
        let selected = self.devices.iter().map(String::as_str);
        let all: Vec<&str> = selected.chain(apart.iter().copied()).collect();
        let is_one = |device: &str| all.iter().any(|name| share_bytes(name, device));
        forgotten.retain(|forgotten| !is_one(&forgotten.device));
        forgotten
    }

    /// Removes the spares; returns a message about each.
    fn leave_out_spares(&mut self) -> Vec<String> {
        let found = self.found.iter();
        let spares = found.filter(|found| found.spare().is_some());
        let spares: Vec<&String> = spares.map(|found| &found.name).collect();
        let spares = self.devices.extract_if(.., |name| spares.contains(&&*name));
        spares
            .map(|spare| format!("{spare}: a spare, left out while a member is not given"))
            .collect()
    }

    /// Returns the arrays of the devices, with their outer arrays, and the arrays given by name.
    fn arrays(&self) -> BTreeSet<Uuid> {
        let records = self.found.iter().filter_map(Found::array);
        let arrays = records.flat_map(|array| [array.uuid, array.parent]);
        let arrays = arrays.filter(|uuid| *uuid != Uuid::NIL);
        arrays.chain(self.named.iter().copied()).collect()
    }

    /// Returns the former members of these arrays that were found but not selected.
    fn former_members(&self, left_over: &[Found], arrays: &BTreeSet<Uuid>) -> Vec<FormerMember> {
        let former = left_over.iter().filter_map(|found| {
            let (array, own) = found.record().ok()?;
            let mut devices = self.devices.iter();
            let is_given = devices.any(|name| share_bytes(name, &found.name));
            if is_given || !arrays.contains(&array.uuid) {
                return None;
            }
            let place = usize::from(own.member.0);
            let now = newest(&self.found, array.uuid).unwrap_or(array);
            let device_at = |array: &ArrayRecord| {
                let member = array.members().get(place);
                member.map(|member| member.device_uuid)
            };
            Some(FormerMember {
                device: found.name.clone(),
                array: now.name.to_string(),
                is_replaced: device_at(now) != device_at(array),
            })
        });
        former.collect()
    }

    /// Adds the superblocks on the devices in `apart` that are members of these arrays.
    fn look_at_apart(&mut self, apart: &[&str], arrays: &BTreeSet<Uuid>) {
        let found = apart.iter().filter_map(|name| glance(name));
        let is_theirs = |found: &Found| found.array().is_some_and(|own| arrays.contains(&own.uuid));
        self.found.extend(found.filter(is_theirs));
    }

    /// Returns a message if arrays given by name lack devices and the scan was cut short.
    fn may_have_missed(&self, cut_off: &[String]) -> Option<String> {
        if self.named.is_empty() || cut_off.is_empty() {
            return None;
        }
        let lacks = lacks_members(&self.found) || lacks_journal(&self.found);
        lacks.then(|| {
            format!(
                "the array lacks devices that the scan may have missed ({}), so nothing is written \
                 to it: give its devices in place of its name, or name each with --scan",
                cut_off.join("; ")
            )
        })
    }
}

/// Finds the array with that name or identity, in `places` as for `resolve`. `None` if no array has
/// it, or if `name` is a device.
#[must_use]
pub fn called(name: &str, places: &[String]) -> Option<FoundArray> {
    if is_device(name) {
        return None;
    }
    let scan = Scan::of(places, LIMITS);
    choose(name, &scan.arrays(), &scan).ok().cloned()
}

/// Groups the devices that `resolve` returned for `arguments` by array. Each group comes with the
/// index of the first argument that names it, and groups are in that order.
///
/// A spare joins the group of each array that may take it; the first array that needs it gets it.
/// If there is only one array, devices of no array join its group; otherwise each of them is a
/// group of its own.
#[must_use]
pub fn by_array(arguments: &[&str], devices: &[String]) -> Vec<(usize, Vec<String>)> {
    let scan = Scan::of(devices, LIMITS);
    let arrays = scan.arrays();
    if arrays.len() < 2 {
        return vec![(0, devices.to_vec())];
    }
    let first = |is_meant: &dyn Fn(&String) -> bool| {
        let words = |argument: &&str| split(argument).unwrap_or_default();
        let means = |argument: &&str| words(argument).iter().any(is_meant);
        arguments.iter().position(means).unwrap_or(0)
    };
    let serves = |device: &String, array: &FoundArray| {
        let spare = scan.found_on(device).and_then(Found::spare);
        spare.is_some_and(|spare| spare.is_shared() || array.devices.contains(device))
    };
    let mut left = devices.to_vec();
    let spares: Vec<String> = left
        .extract_if(.., |name| arrays.iter().any(|array| serves(name, array)))
        .collect();
    let mut groups = Vec::new();
    for array in arrays {
        let at = first(&|word| array.devices.contains(word) || is_called(&array, word));
        let own = left.extract_if(.., |name| array.devices.contains(name));
        let spares = spares.iter().filter(|spare| serves(spare, &array));
        groups.push((at, own.chain(spares.cloned()).collect()));
    }
    let alone = left
        .into_iter()
        .map(|name| (first(&|word| *word == name), vec![name.clone()]));
    groups.extend(alone);
    groups.sort_by_key(|(at, _)| *at);
    groups
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Overview {
    /// The arrays.
    pub arrays: Vec<FoundArray>,
    /// Describes the places searched.
    pub places: String,
    /// Places that could not be searched, each with the reason.
    pub skipped: Vec<String>,
    /// True if the scan was cut short.
    is_cut_off: bool,
    /// Devices that this user may not read.
    unreadable: Vec<String>,
}

impl Overview {
    /// Returns [`Given::hides_devices`] for an incomplete array on the devices `of`.
    #[must_use]
    pub fn hides_devices(&self, of: &[String]) -> bool {
        let may_be_theirs = || !of_same_kind(&self.unreadable, of).is_empty();
        self.is_cut_off || !may_read_all() && may_be_theirs()
    }
}

/// Finds all arrays in `places`, as for `resolve`.
#[must_use]
pub fn overview(places: &[String]) -> Overview {
    let scan = Scan::of(places, LIMITS);
    let denied = several(&scan.unreadable);
    let denied = denied.map(|names| format!("{names} can't be read: permission denied"));
    Overview {
        arrays: scan.arrays(),
        places: scan.described(),
        is_cut_off: !scan.cut_off.is_empty(),
        unreadable: scan.unreadable.clone(),
        skipped: (scan.cut_off.into_iter())
            .chain(scan.skipped)
            .chain(denied)
            .collect(),
    }
}

/// Returns true if a search of `places`, as for `resolve`, finds some of `devices` but not
/// `device`.
#[must_use]
pub fn is_out_of_sight(device: &str, devices: &[&str], places: &[String]) -> bool {
    let scan = Scan::of(places, LIMITS);
    let found = || scan.found.iter().map(|found| &found.name);
    let is_found = |name: &str| found().any(|found| share_bytes(found, name));
    !is_found(device) && devices.iter().any(|name| is_found(name))
}

/// Finds the array in `places`, as for `resolve`, that a device belongs to.
#[must_use]
pub fn array_of(device: &str, places: &[String]) -> Option<FoundArray> {
    let scan = Scan::of(places, LIMITS);
    let has = |array: &FoundArray| array.devices.iter().any(|own| share_bytes(own, device));
    scan.arrays().into_iter().find(has)
}

/// Refuses a name that another array in `places`, as for `resolve`, already has. `gives_way`
/// selects arrays that do not count: the array itself, or an array about to be overwritten. The
/// error lists the arrays.
pub fn refuse_taken(
    name: &str,
    places: &[String],
    gives_way: impl Fn(&FoundArray) -> bool,
) -> Result<(), ScanError> {
    let scan = Scan::of(places, LIMITS);
    let mut found = scan.arrays();
    found.retain(|array| array.name.as_deref() == Some(name) && !gives_way(array));
    if found.is_empty() {
        return Ok(());
    }
    let name = name.to_owned();
    Err(ScanError::Taken { name, found })
}

/// Returns true if all devices of an array are among these.
#[must_use]
pub fn lies_on(array: &FoundArray, devices: &[&str]) -> bool {
    let is_one = |device: &String| devices.iter().any(|one| share_bytes(one, device));
    array.devices.iter().all(is_one)
}

/// Returns the target string of the array with that name on these devices. Uses the name if a scan
/// finds exactly these devices by it, and lists the devices otherwise.
#[must_use]
pub fn target_of(name: &str, devices: &[&str]) -> String {
    let by_name = format!("array:{}", quoted(name));
    let found = resolve(&[&by_name], &[], &[]).map(|given| given.devices);
    let found = found.unwrap_or_default();
    let identities: BTreeSet<_> = devices.iter().map(|device| identity(device)).collect();
    if identities == found.iter().map(|device| identity(device)).collect() {
        return by_name;
    }
    let devices: Vec<_> = devices.iter().map(|device| quoted(device)).collect();
    format!("array:{}", devices.join(","))
}

/// Splits an argument: one existing path, or several words between commas, quoted as in array
/// expressions.
///
/// # Errors
///
/// If a list can't be parsed.
pub fn split(argument: &str) -> Result<Vec<String>, ExpressionError> {
    match argument.strip_prefix("array:") {
        Some(list) => parse_devices(list),
        None if exists(argument) => Ok(vec![argument.to_owned()]),
        None => parse_devices(argument),
    }
}

/// Returns the distinct array names among arguments, as `resolve` parses them.
///
/// # Errors
///
/// If an argument is no valid list.
pub fn names_among(arguments: &[&str]) -> Result<Vec<String>, ExpressionError> {
    let mut names = Vec::new();
    for argument in arguments {
        for word in split(argument)? {
            if !is_device(&word) && !names.contains(&word) {
                names.push(word);
            }
        }
    }
    Ok(names)
}

/// Returns true if a word names a device, and not an array. Array names contain no / and no :.
#[must_use]
pub fn is_device(word: &str) -> bool {
    word.contains(['/', ':']) || Slice::is_text(word) || exists(word)
}

fn exists(name: &str) -> bool {
    fs::metadata(name).is_ok_and(|it| !it.is_dir())
}

fn choose<'a>(
    name: &str,
    arrays: &'a [FoundArray],
    scan: &Scan,
) -> Result<&'a FoundArray, ScanError> {
    let meant: Vec<&FoundArray> = (arrays.iter())
        .filter(|array| is_called(array, name))
        .collect();
    match meant.as_slice() {
        [array] => Ok(array),
        [] => Err(match scan.around(name, arrays) {
            Some(array) => ScanError::Inside {
                name: name.to_owned(),
                array: array.clone(),
            },
            None => ScanError::Unknown {
                name: name.to_owned(),
                places: scan.described(),
                found: arrays.to_vec(),
                skipped: {
                    let denied = several(&scan.unreadable);
                    let denied = denied.map(|names| format!("{names}: permission denied"));
                    let skipped = scan.cut_off.iter().chain(&scan.skipped).cloned();
                    skipped.chain(denied).collect()
                },
            },
        }),
        several => Err(ScanError::Ambiguous {
            name: name.to_owned(),
            found: several.iter().copied().cloned().collect(),
        }),
    }
}

/// Returns true if that is the name or the identity of the array.
fn is_called(array: &FoundArray, name: &str) -> bool {
    array.name.as_deref() == Some(name) || array.uuid.to_string().eq_ignore_ascii_case(name)
}

/// A search for devices with a Spindles superblock.
#[derive(Debug)]
struct Scan {
    /// Files, block devices and folders.
    places: Vec<String>,
    /// True if all block devices are searched too.
    devices: bool,
    /// Devices with a superblock.
    found: Vec<Found>,
    /// Former members whose positions other devices took.
    left_over: Vec<Found>,
    seen: BTreeSet<Identity>,
    skipped: Vec<String>,
    limits: Limits,
    /// Messages about limits that cut the scan short.
    cut_off: Vec<String>,
    /// Devices that this user may not read.
    unreadable: Vec<String>,
}

impl Scan {
    /// Searches these places, or the default ones if there are none.
    fn of(places: &[String], limits: Limits) -> Self {
        let mut places = places.to_vec();
        if places.is_empty()
            && let Ok(list) = std::env::var(SCAN_VARIABLE)
        {
            places.extend(places_of(&list));
        }
        let devices = places.is_empty();
        if devices {
            places.push(".".to_owned());
        }
        let mut scan = Self {
            places,
            devices,
            found: Vec::new(),
            left_over: Vec::new(),
            seen: BTreeSet::new(),
            skipped: Vec::new(),
            limits,
            cut_off: Vec::new(),
            unreadable: Vec::new(),
        };
        scan.look();
        scan
    }

    /// Returns the superblocks on the device with that name.
    fn found_on(&self, name: &str) -> Option<&Found> {
        self.found.iter().find(|found| found.name == name)
    }

    /// Describes the places searched.
    fn described(&self) -> String {
        if self.devices {
            "the current folder or on block devices".to_owned()
        } else {
            self.places.join(", ")
        }
    }

    /// Says that members of the array on these devices are outside the searched places, and how to
    /// search elsewhere too.
    fn elsewhere(&self, devices: &[String]) -> String {
        let place_of = |device: &String| {
            let device = &*device_of(device);
            let path = Path::new(device);
            let is_file = !is_address(device) && path.is_file();
            match path.parent().and_then(Path::to_str) {
                Some("") if is_file => ".".to_owned(),
                Some(folder) if is_file => folder.to_owned(),
                _ => device.to_owned(),
            }
        };
        let mut places: Vec<String> = devices.iter().map(place_of).collect();
        if devices.is_empty() {
            places.clone_from(&self.places);
        }
        let mut seen = BTreeSet::new();
        places.retain(|place| seen.insert(place.clone()));
        let places = places
            .iter()
            .map(|place| format!("--scan {}", shell_word(place)));
        format!(
            "members that the array counts on are not in {}: if they lie in another folder, or are \
             slices, name that too: `{} --scan FOLDER`, `--scan 'slice(DEV,START,LENGTH)'`, or in \
             {SCAN_VARIABLE}",
            self.described(),
            places.collect::<Vec<_>>().join(" ")
        )
    }

    fn look(&mut self) {
        let started = Instant::now();
        for place in self.places.clone() {
            if is_address(&place) {
                match Probe::glance_at_export(&place) {
                    Ok(probe) => self.add(probe.found()),
                    Err(error) => self.skipped.push(error.to_string()),
                }
                continue;
            }
            match fs::metadata(&*device_of(&place)) {
                Ok(metadata) if metadata.is_dir() => self.look_in(&place, started),
                Ok(_) => self.look_at(&place),
                Err(error) => {
                    let why = format!("{place}: can't look there: {error}");
                    match error.kind() {
                        ErrorKind::NotFound => self.skipped.push(why),
                        _ => self.cut_off.push(why),
                    }
                }
            }
        }
        for device in self.devices.then(block_devices).into_iter().flatten() {
            if started.elapsed() > self.limits.time {
                self.cut_off.push(format!(
                    "block devices answer slowly: those from {device} on were not looked at"
                ));
                break;
            }
            self.look_at(&device);
        }
        // A device under another found device must not be used itself.
        let beneath: Vec<_> = (self.found.iter())
            .filter_map(|found| identity(&file_of_loop(&found.name)?))
            .collect();
        self.found.retain(|found| {
            identity(&found.name).is_none_or(|identity| !beneath.contains(&identity))
        });
        self.leave_out_second_names();
        self.left_over = take_left_over(&mut self.found);
    }

    /// Drops second names of the same bytes, such as a loop device on a partition that was found
    /// too.
    fn leave_out_second_names(&mut self) {
        let mut kept: Vec<Found> = Vec::new();
        for one in std::mem::take(&mut self.found) {
            let is_it =
                |other: &Found| say_the_same(&one, other) && share_bytes(&one.name, &other.name);
            let Some(at) = kept.iter().position(is_it) else {
                kept.push(one);
                continue;
            };
            let (nearer, other) = if distance(&one) < distance(&kept[at]) {
                (one.name.clone(), std::mem::replace(&mut kept[at], one).name)
            } else {
                (kept[at].name.clone(), one.name)
            };
            self.skipped.push(format!(
                "left out: {other}: it has the same bytes as {nearer}"
            ));
        }
        self.found = kept;
    }

    fn look_in(&mut self, folder: &str, started: Instant) {
        let names = match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.file_name()),
            Err(error) => {
                let why = format!("{folder}: can't look there: {error}");
                self.cut_off.push(why);
                return;
            }
        };
        // One more than allowed, to detect an overrun.
        let names = names.take(self.limits.files.saturating_add(1));
        let printable = |name: String| {
            if name.contains(char::is_control) {
                Err(OsString::from(name))
            } else {
                Ok(name)
            }
        };
        let names = names.map(|name| name.into_string().and_then(printable));
        let (names, others): (Vec<_>, Vec<_>) = names.partition(Result::is_ok);
        for name in others.into_iter().filter_map(Result::err) {
            self.look_at_unnamed(&Path::new(folder).join(name));
        }
        let mut names: Vec<String> = names.into_iter().flatten().collect();
        names.sort_unstable();
        for (count, name) in names.iter().enumerate() {
            if count == self.limits.files || started.elapsed() > self.limits.time {
                self.cut_off.push(format!(
                    "{folder}: {count} files were looked at, and not those that are left: --scan \
                     with the devices themselves looks at those"
                ));
                return;
            }
            let in_folder = if folder == "." && !name.contains(':') {
                name.clone()
            } else {
                let path = Path::new(folder).join(name);
                path.to_string_lossy().into_owned()
            };
            self.look_at(&in_folder);
        }
    }

    /// Examines a file whose name is not UTF-8 or has a control character. Such a member can't be
    /// used but must be reported.
    fn look_at_unnamed(&mut self, path: &Path) {
        let Some(file) = path.is_file().then(|| fs::File::open(path).ok()).flatten() else {
            return;
        };
        if holds_superblock(&format!("/proc/self/fd/{}", file.as_raw_fd())) {
            self.cut_off.push(format!(
                "{}: it belongs to an array, and its name is not UTF-8 or has a control character: \
                 rename it",
                path.display().to_string().escape_debug()
            ));
        }
    }

    fn look_at(&mut self, name: &str) {
        // Skip the many small files of a large folder quickly.
        let is_short = |file: fs::Metadata| file.is_file() && file.len() <= SLOT_BYTES[0];
        if fs::metadata(name).is_ok_and(is_short) {
            return;
        }
        match glance(name) {
            Some(found) => self.add(found),
            None if probe::is_denied(name) => self.unreadable.push(name.to_owned()),
            None => {}
        }
    }

    fn add(&mut self, found: Found) {
        let mut is_new = || identity(&found.name).is_some_and(|own| self.seen.insert(own));
        if found.is_labelled() && is_new() {
            self.found.push(found);
        }
    }

    /// Returns the identity and the name of the outermost array around each outer array.
    fn outer_arrays(&self) -> BTreeMap<Uuid, (Uuid, String)> {
        // The members' superblocks give the outer array's identity; its data holds its name. Of a
        // device and its copy, open only one.
        let inner = self.found.iter();
        let inner = inner.filter_map(|found| Some((found.array()?, found)));
        let mut inner: Vec<(&ArrayRecord, &Found)> = inner
            .filter(|(array, _)| array.parent != Uuid::NIL)
            .collect();
        inner.sort_by_key(|(array, _)| Reverse(array.generation));
        let mut of_parent: BTreeMap<Uuid, Vec<&str>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (array, found) in inner {
            if seen.insert(found.identity()) {
                of_parent.entry(array.parent).or_default().push(&found.name);
            }
        }
        let outermost_of = of_parent.iter().filter_map(|(parent, devices)| {
            // A server may be writing the superblock just now, so retry.
            let looks = (0..LOOKS_MAX).map(|look| {
                if look > 0 {
                    sleep(PAUSE);
                }
                outermost(devices).ok().flatten()
            });
            let record = looks.into_iter().flatten().next()?;
            Some((*parent, (record.uuid, record.name.to_string())))
        });
        outermost_of.collect()
    }

    /// Returns the outermost arrays, with all their devices.
    fn arrays(&self) -> Vec<FoundArray> {
        let outer = self.outer_arrays();
        let mut arrays: Vec<FoundArray> = Vec::new();
        // For each array, also the identities of inner arrays: spares and journals may belong to
        // those.
        let mut uuids: Vec<BTreeSet<Uuid>> = Vec::new();
        for found in &self.found {
            let Some(array) = found.array() else {
                continue;
            };
            let (uuid, name) = if array.parent == Uuid::NIL {
                (array.uuid, Some(array.name.to_string()))
            } else if let Some((uuid, name)) = outer.get(&array.parent) {
                (*uuid, Some(name.clone()))
            } else {
                (array.parent, None)
            };
            let at = arrays.iter().position(|array| array.uuid == uuid);
            let at = at.unwrap_or_else(|| {
                arrays.push(FoundArray {
                    name: None,
                    uuid,
                    devices: Vec::new(),
                });
                uuids.push(BTreeSet::from([uuid]));
                arrays.len() - 1
            });
            // Members that missed a rename still have the old name.
            let says = newest(&self.found, array.uuid);
            if says.is_some_and(|says| says.generation == array.generation) && name.is_some() {
                arrays[at].name = name;
            }
            arrays[at].devices.push(found.name.clone());
            uuids[at].extend([array.uuid, array.parent]);
        }
        for found in &self.found {
            for (array, uuids) in arrays.iter_mut().zip(&uuids) {
                // A shared spare may serve several arrays.
                let spare = found.spare().map_or(&[][..], |spare| &spare.arrays);
                let journal = found.journal_device().map(|journal| &journal.array);
                let mut serves = spare.iter().chain(journal);
                if serves.any(|array| uuids.contains(array)) {
                    array.devices.push(found.name.clone());
                }
            }
        }
        arrays
    }

    /// Returns the outermost of `arrays` that contains an inner array with that name or identity.
    fn around<'a>(&self, name: &str, arrays: &'a [FoundArray]) -> Option<&'a FoundArray> {
        let is_inside = |array: &ArrayRecord| {
            let uuid = array.uuid.to_string();
            let is_called = array.name.as_str() == name || uuid.eq_ignore_ascii_case(name);
            array.parent != Uuid::NIL && is_called
        };
        let mut found = self.found.iter();
        let inside = found.find(|found| found.array().is_some_and(is_inside))?;
        let mut arrays = arrays.iter();
        arrays.find(|array| array.devices.contains(&inside.name))
    }

    /// Returns the found devices of the given arrays that are not `taken`.
    fn forgotten(&self, given: &[Found], taken: &BTreeSet<Identity>) -> Vec<Forgotten> {
        let mut all = given.to_vec();
        all.extend(self.found.iter().cloned());
        let of_given = given.iter().filter_map(Found::array);
        let arrays: BTreeSet<Uuid> = of_given
            .flat_map(|array| [array.uuid, array.parent])
            .collect();
        let known = |uuid: &Uuid| *uuid != Uuid::NIL && arrays.contains(uuid);
        let is_taken = |name: &str| identity(name).is_none_or(|identity| taken.contains(&identity));
        let others = self.found.iter().filter(|found| !is_taken(&found.name));
        let forgotten = others.filter_map(|found| {
            let (uuid, role) = if let Some((uuid, member, own)) = found.identity() {
                if !known(&uuid) && !known(&found.array()?.parent) {
                    return None;
                }
                let place = newest(&all, uuid)?.members().get(usize::from(member.0))?;
                // The device was replaced, or is the copy of a given member.
                let is_copy = given.iter().any(|given| given.is_member(uuid, own));
                (place.device_uuid == own && !is_copy).then_some((uuid, Role::Member(member)))?
            } else if let Some(journal) = found.journal_device() {
                let is_old = newest(&all, journal.array).is_some_and(|record| {
                    record.journal.device != journal.device_uuid || has_journal(given, record)
                });
                (known(&journal.array) && !is_old).then_some((journal.array, Role::Journal))?
            } else {
                let mut serves = found.spare()?.arrays.iter();
                (*serves.find(|uuid| known(uuid))?, Role::Spare)
            };
            let record = newest(&all, uuid);
            // No device stores the name of an outer array: show its UUID.
            let array = record.map_or_else(|| uuid.to_string(), |record| record.name.to_string());
            Some(Forgotten {
                device: found.name.clone(),
                array,
                uuid,
                role,
            })
        });
        forgotten.collect()
    }
}

/// Finds all devices with a superblock in the default places.
pub(crate) fn all() -> Vec<Found> {
    Scan::of(&[], LIMITS).found
}

/// Returns the slices among the places of [`SCAN_VARIABLE`] that share bytes with a device.
pub(crate) fn slices_over(device: &str) -> Vec<Probe> {
    let mut places = places_of(&std::env::var(SCAN_VARIABLE).unwrap_or_default());
    places.retain(|place| Slice::is_text(place) && share_bytes(place, device));
    places
        .iter()
        .filter_map(|place| Probe::glance(place))
        .collect()
}

/// Returns true if the arrays on these devices count on members that are not among them.
fn lacks_members(given: &[Found]) -> bool {
    let records: Vec<&ArrayRecord> = given.iter().filter_map(Found::array).collect();
    let uuids: BTreeSet<Uuid> = records.iter().map(|array| array.uuid).collect();
    let lacks_some = uuids
        .iter()
        .filter_map(|uuid| newest(given, *uuid))
        .any(|array| {
            let missing = array.missing();
            let counted_on = (0..)
                .zip(array.members())
                .filter(|(at, _)| !missing.contains(MemberIndex(*at)));
            let is_here = |own| given.iter().any(|found| found.is_member(array.uuid, own));
            let others = counted_on.filter(|(_, member)| !is_here(member.device_uuid));
            // Inner arrays on the given devices count as members too.
            let inner = records.iter().filter(|inner| inner.parent == array.uuid);
            let inner: BTreeSet<Uuid> = inner.map(|inner| inner.uuid).collect();
            others.count() > inner.len()
        });
    // If all members of the outer array are arrays, its superblock lies inside them: open them.
    let parents = records.iter().map(|array| array.parent);
    let parents: BTreeSet<Uuid> = parents
        .filter(|uuid| *uuid != Uuid::NIL && !uuids.contains(uuid))
        .collect();
    let names: Vec<&str> = given.iter().map(|found| found.name.as_str()).collect();
    let lacks_arrays = || {
        let outer = outermost(&names).ok().flatten();
        outer.is_none_or(|outer| {
            outer.members().len() > uuids.len() + outer.missing().iter().count()
        })
    };
    lacks_some || !parents.is_empty() && lacks_arrays()
}

/// Returns true if an array on these devices counts on a journal device that is not among them.
fn lacks_journal(given: &[Found]) -> bool {
    let records = given.iter().filter_map(Found::array);
    let uuids: BTreeSet<Uuid> = records.map(|array| array.uuid).collect();
    let mut newest = uuids.iter().filter_map(|uuid| newest(given, *uuid));
    newest.any(|array| array.journal.device != Uuid::NIL && !has_journal(given, array))
}

fn has_journal(given: &[Found], array: &ArrayRecord) -> bool {
    let mut journals = given.iter().filter_map(Found::journal_device);
    journals
        .any(|journal| journal.array == array.uuid && journal.device_uuid == array.journal.device)
}

/// Returns true if both superblocks claim the same role: one device under two names, or a device
/// and its copy.
fn say_the_same(one: &Found, other: &Found) -> bool {
    let says = |found: &Found| {
        let spare = found.spare().map(|spare| spare.device_uuid);
        let journal = found.journal_device().map(|journal| journal.device_uuid);
        (found.identity(), spare, journal)
    };
    says(one) == says(other)
}

/// Ranks a name by its distance from the device that holds its bytes. A name whose length differs
/// from the member's ranks last.
fn distance(found: &Found) -> (bool, usize) {
    let record = found.record();
    let other_length = record.is_ok_and(|(_, device)| device.device_bytes != found.bytes);
    (other_length, depth(&found.name))
}

/// Splits a list at colons, except for the colons of an address up to its host and port.
fn places_of(list: &str) -> Vec<String> {
    let mut places = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let colon = rest.find(':').unwrap_or(rest.len());
        let behind = rest[colon..].strip_prefix("://");
        let path = behind.and_then(|behind| Some(rest.len() - behind.len() + behind.find('/')?));
        let end = match (behind, path) {
            (None, _) => colon,
            (Some(_), None) => rest.len(),
            (Some(_), Some(path)) => rest[path..].find(':').map_or(rest.len(), |at| path + at),
        };
        let (place, more) = rest.split_at(end);
        places.push(place.to_owned());
        rest = more.strip_prefix(':').unwrap_or(more);
    }
    places.retain(|place| !place.is_empty());
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::Devices;
    use crate::create::CreateOptions;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn device_names_are_separated_by_colons() {
        for (list, expected) in [
            ("", ""),
            ("a", "a"),
            (":a::/b/c:", "a /b/c"),
            ("nbd://h:7/x:a", "nbd://h:7/x a"),
            (
                "a:nbd://[::1]:7/:nbd+unix:///x?socket=/s:b",
                "a nbd://[::1]:7/ nbd+unix:///x?socket=/s b",
            ),
            ("nbd://h:7", "nbd://h:7"),
            ("nbd://h/a%3Ab:nbd://h/c", "nbd://h/a%3Ab nbd://h/c"),
        ] {
            assert_eq!(places_of(list).join(" "), expected, "{list}");
        }
    }

    /// If a cut-off scan finds only one of two members of an array given by name, the array may
    /// lack the unseen one.
    #[test]
    fn a_truncated_scan_reports_what_it_may_have_missed() {
        let devices = Devices::new(&["a", "b"], 16 << 20);
        let folder = &devices.0;
        let [place, a, b] = ["", "a", "b"].map(|name| devices.path(name));
        devices.create("raid1(a,b)", &CreateOptions::new("pool"));
        let scan = |words: &[&str], files, seconds| {
            let limits = Limits {
                files,
                time: Duration::from_secs(seconds),
            };
            resolve_within(words, &[], std::slice::from_ref(&place), limits)
        };
        let all = scan(&["pool"], 2, 60).expect("it is there");
        assert!(all.skipped.is_empty() && all.may_have_missed.is_none());
        let some = scan(&["pool"], 1, 60).expect("a part of it is there");
        let missed = some.may_have_missed.expect("a member");
        for words in [
            "the array lacks devices",
            ": 1 files were looked at",
            "--scan",
        ] {
            assert!(missed.contains(words), "{missed}");
        }
        assert_eq!(some.devices, [a.as_str()]);
        assert_eq!(some.skipped.len(), 1);
        // Devices listed by the user need no scan.
        let given = scan(&[&a, &b], 1, 60).expect("both are there");
        assert!(given.may_have_missed.is_none() && given.skipped.len() == 1);
        let unnamed = folder.path().join(OsStr::from_bytes(b"b\xff"));
        fs::rename(&b, &unnamed).expect("it is renamed");
        let some = scan(&["pool"], 9, 60).expect("a part of it is there");
        let missed = some.may_have_missed.expect("a member");
        assert!(
            missed.contains("its name is not UTF-8 or has a control character: rename it"),
            "{missed}"
        );
        fs::rename(&unnamed, &b).expect("it is renamed");
        fs::write(folder.path().join(OsStr::from_bytes(b"\xfe")), [7; 9]).expect("a file");
        let all = scan(&["pool"], 9, 60).expect("it is there");
        assert!(all.skipped.is_empty());
        let none = scan(&["pool"], 2, 0).expect_err("there is no time");
        assert!(
            none.to_string().contains("0 files were looked at"),
            "{none}"
        );
    }
}
