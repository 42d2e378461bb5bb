//! LVM: `lvcreate`, with the devices of `vgcreate`. The shape only: LVM places extents of a volume
//! where the group has room.

use crate::commands::{
    Choice, Command, Item, Takes, commands, foreign_or_end, items, runs_first, words,
};
use crate::devices::{Devices, Use, array_name};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::{Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::{BINARY, number, size};
use crate::text::Word;
use alloc::borrow::{Cow, ToOwned};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) static DIALECT: Dialect = Dialect {
    name: "lvm",
    summary: "LVM of Linux",
    reads: "lvcreate commands, with their vgcreate",
    flavours: &[],
    recognises: |text| PROGRAMS.iter().any(|program| runs_first(text, program)),
    read,
    write: None,
};

const PROGRAMS: [&str; 4] = ["lvcreate", "vgcreate", "pvcreate", "vgextend"];

/// The limit of a volume group.
const DEVICES_MAX: usize = 1024;

const STRIPE_BYTES: u64 = 64 << 10;

/// What an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Type,
    Stripes,
    StripeSize,
    Mirrors,
    Name,
    Size,
    /// Makes a volume that is no array of devices.
    Other,
    /// Ignored, with a note.
    Nothing,
}

use Says as S;
use Takes::{Nothing, Value};

static OPTIONS: &[Choice<Says>] = &[
    Choice::new(&["type"], None, Value, S::Type),
    Choice::new(&["stripes"], Some('i'), Value, S::Stripes),
    Choice::new(&["stripesize"], Some('I'), Value, S::StripeSize),
    Choice::new(&["mirrors"], Some('m'), Value, S::Mirrors),
    Choice::new(&["name"], Some('n'), Value, S::Name),
    Choice::new(&["size"], Some('L'), Value, S::Size),
    Choice::new(&["extents"], Some('l'), Value, S::Size),
    Choice::new(&["snapshot"], Some('s'), Nothing, S::Other),
    Choice::new(&["thin"], Some('T'), Nothing, S::Other),
    Choice::new(&["cache"], Some('H'), Nothing, S::Other),
    Choice::new(&["vdo"], None, Nothing, S::Other),
    Choice::new(
        &["thinpool", "vdopool", "cachepool", "cachevol"],
        None,
        Value,
        S::Other,
    ),
    Choice::new(&["cachedevice"], None, Value, S::Other),
    Choice::new(&["virtualsize"], Some('V'), Value, S::Other),
    Choice::new(&["regionsize"], Some('R'), Value, S::Nothing),
    Choice::new(&["activate"], Some('a'), Value, S::Nothing),
    Choice::new(&["autobackup"], Some('A'), Value, S::Nothing),
    Choice::new(&["contiguous"], Some('C'), Value, S::Nothing),
    Choice::new(&["major"], Some('j'), Value, S::Nothing),
    Choice::new(&["permission"], Some('p'), Value, S::Nothing),
    Choice::new(&["persistent"], Some('M'), Value, S::Nothing),
    Choice::new(&["readahead"], Some('r'), Value, S::Nothing),
    Choice::new(&["setactivationskip"], Some('k'), Value, S::Nothing),
    Choice::new(&["wipesignatures"], Some('W'), Value, S::Nothing),
    Choice::new(&["zero"], Some('Z'), Value, S::Nothing),
    Choice::new(
        &["addtag", "alloc", "config", "minor", "monitor"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(
        &["mirrorlog", "raidintegrity", "metadataprofile"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(
        &["raidintegrityblocksize", "raidintegritymode"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(
        &["minrecoveryrate", "maxrecoveryrate"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(
        &["raidminrecoveryrate", "raidmaxrecoveryrate"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(
        &["nosync", "noudevsync", "ignoremonitoring"],
        None,
        Nothing,
        S::Nothing,
    ),
    Choice::new(&["ignoreactivationskip"], Some('K'), Nothing, S::Nothing),
    Choice::new(&["yes"], Some('y'), Nothing, S::Nothing),
    Choice::new(&["quiet"], Some('q'), Nothing, S::Nothing),
    Choice::new(&["verbose"], Some('v'), Nothing, S::Nothing),
    Choice::new(&["test"], Some('t'), Nothing, S::Nothing),
    Choice::new(&["debug"], Some('d'), Nothing, S::Nothing),
    Choice::new(&["force"], Some('f'), Nothing, S::Nothing),
];

/// Options of `vgcreate` and `vgextend`; none changes the shape.
static GROUP_OPTIONS: &[Choice<()>] = &[
    Choice::new(&["physicalextentsize"], Some('s'), Value, ()),
    Choice::new(&["maxlogicalvolumes"], Some('l'), Value, ()),
    Choice::new(&["maxphysicalvolumes"], Some('p'), Value, ()),
    Choice::new(&["clustered"], Some('c'), Value, ()),
    Choice::new(&["autobackup"], Some('A'), Value, ()),
    Choice::new(&["zero"], Some('Z'), Value, ()),
    Choice::new(
        &[
            "metadatasize",
            "dataalignment",
            "alloc",
            "addtag",
            "systemid",
        ],
        None,
        Value,
        (),
    ),
    Choice::new(&["shared"], None, Nothing, ()),
    Choice::new(&["force"], Some('f'), Nothing, ()),
    Choice::new(&["yes"], Some('y'), Nothing, ()),
    Choice::new(&["verbose"], Some('v'), Nothing, ()),
    Choice::new(&["quiet"], Some('q'), Nothing, ()),
];

/// A type of volume: our level and layout, and the devices for parity; what differs.
struct Type {
    name: &'static str,
    level: &'static str,
    layout: &'static str,
    parity: usize,
    differs: &'static str,
}

const fn of(
    name: &'static str,
    level: &'static str,
    layout: &'static str,
    parity: usize,
    differs: &'static str,
) -> Type {
    Type {
        name,
        level,
        layout,
        parity,
        differs,
    }
}

const OTHER_ROTATION: &str = "P and Q lie on other members than in the raid6 here";

static TYPES: [Type; 24] = [
    of("linear", "concat", "", 0, ""),
    of("striped", "raid0", "", 0, ""),
    of("raid0", "raid0", "", 0, ""),
    of("raid0_meta", "raid0", "", 0, ""),
    of(
        "mirror",
        "raid1",
        "",
        0,
        "its log of regions has no use here",
    ),
    of("raid1", "raid1", "", 0, ""),
    of(
        "raid4",
        "raid4",
        "",
        1,
        "its parity is on the first device, here on the last",
    ),
    of("raid5", "raid5", "", 1, ""),
    of("raid5_ls", "raid5", "", 1, ""),
    of("raid5_la", "raid5", "left-asymmetric", 1, ""),
    of("raid5_rs", "raid5", "right-symmetric", 1, ""),
    of("raid5_ra", "raid5", "right-asymmetric", 1, ""),
    of("raid5_n", "raid5", "parity-last", 1, ""),
    of("raid6", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_zr", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_nr", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_nc", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_n_6", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_ls_6", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_rs_6", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_la_6", "raid6", "", 2, OTHER_ROTATION),
    of("raid6_ra_6", "raid6", "", 2, OTHER_ROTATION),
    of("raid10", "raid10", "", 0, ""),
    of("raid10_near", "raid10", "", 0, ""),
];

/// Types that are no arrays of devices.
const REFUSED: [&str; 10] = [
    "snapshot",
    "thin",
    "thin-pool",
    "vdo",
    "vdo-pool",
    "cache",
    "cache-pool",
    "writecache",
    "error",
    "zero",
];

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let commands = commands(source.text)?;
    let mut draft = Draft::default();
    let mut groups: BTreeMap<String, Vec<Word<'_>>> = BTreeMap::new();
    let mut taken = Taken::default();
    for command in &commands {
        match &*command.program {
            "lvcreate" => {
                let notes = draft.notes.len();
                let volume = volume(command, &groups, &mut taken, &mut draft);
                if volume.is_err() {
                    draft.notes.truncate(notes);
                }
                draft.skip_refused(volume)?;
            }
            "vgcreate" | "vgextend" => group(command, &mut groups)?,
            "pvcreate" => draft.note(command.program.at, command.skipped("makes no volume")),
            _ => draft.note(command.program.at, command.skipped("is not lvcreate")),
        }
    }
    for (at, device) in taken.left {
        if !taken.used.contains(&device) {
            let text = format!("{device} is not needed: LVM may take it instead of another");
            draft.note(at, text);
        }
    }
    let at = foreign_or_end(&commands, &PROGRAMS, source.text);
    let message = "lvcreate is missing here: only it describes the shape of a volume";
    draft.some_array(at, message)
}

/// The devices of all volumes.
#[derive(Default)]
struct Taken {
    used: BTreeSet<String>,
    /// Devices that a volume did not need, with their offsets.
    left: Vec<(usize, String)>,
}

/// Takes the devices of a volume group.
fn group<'word>(
    command: &'word Command<'_>,
    groups: &mut BTreeMap<String, Vec<Word<'word>>>,
) -> Result<(), Fault> {
    let items = items(command.own_words()?, GROUP_OPTIONS)?.into_iter();
    let mut named = items.filter_map(|item| match item {
        Item::Word(word) => Some(word),
        Item::Option(..) => None,
    });
    let missing = |what: &str| Fault::new(command.end, format!("{what} is missing here"));
    let name = named
        .next()
        .ok_or_else(|| missing("the name of the volume group"))?;
    let devices = groups.entry(group_name(name).to_owned()).or_default();
    for word in named {
        devices.extend(words(word)?);
        if devices.len() > DEVICES_MAX {
            return Err(word.fault(format!("this is more than {DEVICES_MAX} physical volumes")));
        }
    }
    if devices.is_empty() {
        return Err(missing("a physical volume"));
    }
    Ok(())
}

/// Returns a path below `/dev`.
fn path(word: &str) -> &str {
    word.strip_prefix("/dev/").unwrap_or(word)
}

/// `/dev/vg` and `vg/lv` name the group `vg`.
fn group_name(word: &str) -> &str {
    let name = path(word);
    name.split('/').next().unwrap_or(name)
}

/// The words of a `lvcreate` command.
struct Volume<'word> {
    command: &'word Command<'word>,
    options: Vec<(Says, Word<'word>)>,
    /// The volume group and its devices.
    named: Vec<&'word Word<'word>>,
}

impl<'word> Volume<'word> {
    fn read(command: &'word Command<'_>, draft: &mut Draft) -> Result<Self, Fault> {
        let mut volume = Self {
            command,
            options: Vec::new(),
            named: Vec::new(),
        };
        for item in items(command.own_words()?, OPTIONS)? {
            match item {
                Item::Word(word) => volume.named.push(word),
                Item::Option(S::Other, option, _) => {
                    let message = format!("{}: this volume is no array of devices", &*option);
                    return Err(option.fault(message).refusal());
                }
                Item::Option(S::Nothing, option, _) => {
                    draft.note(option.at, format!("{} has no meaning here", &*option));
                }
                Item::Option(S::Size, option, _) => {
                    let text = format!("{}: a new array here uses whole devices", &*option);
                    draft.note(option.at, text);
                }
                Item::Option(id, option, value) => {
                    volume.options.push((id, value.unwrap_or(option)));
                }
            }
        }
        Ok(volume)
    }

    fn option(&self, id: Says) -> Option<&Word<'word>> {
        let mut options = self.options.iter();
        options
            .find(|(other, _)| *other == id)
            .map(|(_, value)| value)
    }

    fn count(&self, id: Says, expected: &str) -> Result<Option<usize>, Fault> {
        let value = self.option(id).map(|word| {
            let count = number(word, expected)?;
            let count = usize::try_from(count).ok().filter(|count| *count <= 64);
            count.ok_or_else(|| word.fault(format!("{} is too many", &**word)))
        });
        value.transpose()
    }

    /// Returns the type, stripes and copies.
    fn shape(&self) -> Result<(&'static Type, usize, usize), Fault> {
        let stripes = self.count(S::Stripes, "a number of stripes")?;
        let mirrors = self.count(S::Mirrors, "a number of further copies")?;
        if let (Some(0), Some(word)) = (stripes, self.option(S::Stripes)) {
            return Err(word.fault("stripes can't be 0"));
        }
        let (many, copies) = (stripes.unwrap_or(1) > 1, mirrors.unwrap_or(0) > 0);
        let implied = match (many, copies) {
            (true, true) => "raid10",
            (false, true) => "raid1",
            (true, false) => "striped",
            (false, false) => "linear",
        };
        let name = self.option(S::Type).map_or(implied, |word| word);
        let found = TYPES.iter().find(|known| known.name == name);
        let kind = found.ok_or_else(|| {
            let word = self.option(S::Type).unwrap_or(&self.command.program);
            if REFUSED.contains(&name) {
                return word.fault(format!("{name}: no array of devices")).refusal();
            }
            let expected = "a type of volume, as raid5 or striped,";
            word.fault(format!("{expected} is expected here, not '{name}'"))
        })?;
        let stripes_default = match (kind.level, kind.parity) {
            ("concat" | "raid1", _) => 1,
            (_, 2) => 3,
            _ => 2,
        };
        let copies_default = usize::from(matches!(kind.level, "raid1" | "raid10"));
        let stripes = stripes.unwrap_or(stripes_default);
        let mirrors = mirrors.unwrap_or(copies_default);
        if mirrors > 0 && copies_default == 0 {
            let word = self.option(S::Mirrors).unwrap_or(&self.command.program);
            return Err(word.fault(format!("{name} has no mirrors")));
        }
        if let Some(word) = self.option(S::Stripes)
            && stripes > 1
            && (kind.level == "concat" || kind.name == "raid1")
        {
            return Err(word.fault(format!("{name} has no stripes")));
        }
        Ok((kind, stripes, mirrors + 1))
    }

    /// Returns the name of the volume group.
    fn group(&self) -> Result<&str, Fault> {
        let of_name = self.option(S::Name).filter(|name| name.contains('/'));
        let name = self.named.first().copied().or(of_name);
        let name = name.map(|name| group_name(name));
        name.ok_or_else(|| {
            let message = "the name of the volume group is missing here";
            Fault::new(self.command.end, message)
        })
    }

    /// Returns the devices after the group's name, or else those of the group.
    fn devices(
        &self,
        groups: &BTreeMap<String, Vec<Word<'word>>>,
    ) -> Result<Vec<Word<'word>>, Fault> {
        let group = groups.get(self.group()?);
        let mut devices = Vec::new();
        for word in self.named.iter().skip(1).take(DEVICES_MAX) {
            for device in words(word)? {
                let is_there = |known: &Word<'_>| {
                    let extents = path(&device).strip_prefix(path(known));
                    extents.is_some_and(|extents| extents.is_empty() || extents.starts_with(':'))
                };
                if group.is_some_and(|group| !group.iter().any(is_there)) {
                    let message = format!("{} is not in {}", &*device, self.group()?);
                    return Err(device.fault(message));
                }
                devices.push(device);
            }
        }
        if devices.is_empty() {
            devices = group.cloned().unwrap_or_default();
        }
        Ok(devices)
    }
}

/// Adds the array of a volume.
fn volume(
    command: &Command<'_>,
    groups: &BTreeMap<String, Vec<Word<'_>>>,
    taken: &mut Taken,
    draft: &mut Draft,
) -> Result<(), Fault> {
    let volume = Volume::read(command, draft)?;
    let (kind, stripes, copies) = volume.shape()?;
    let group = volume.group()?;
    let mut devices = volume.devices(groups)?;
    let needed = match kind.level {
        "concat" => devices.len().max(1),
        "raid1" | "raid10" => stripes * copies,
        _ => stripes + kind.parity,
    };
    if devices.len() < needed {
        let message = format!(
            "{} needs {needed} physical volumes, not {}: name them after {group}",
            kind.name,
            devices.len()
        );
        return Err(Fault::new(command.end, message));
    }
    let mut known = Devices::default();
    let mut parts = Vec::new();
    for word in devices.drain(..needed) {
        parts.push(Part::whole(
            known.add(&without_extents(&word, draft), Use::Member)?,
        ));
    }
    let left = devices.iter();
    let left = left.map(|word| (word.at, (**word).to_owned()));
    taken.left.extend(left);
    for part in &parts {
        if !taken.used.insert(part.device.clone()) {
            let text = format!(
                "{} has parts of several volumes, and a new array uses whole devices: choose other \
                 devices, or slices",
                part.device
            );
            draft.note(command.program.at, text);
        }
    }
    let what = match kind.differs {
        "" => "LVM places extents where the group has room: only the shape is taken",
        differs => differs,
    };
    draft.note(command.program.at, format!("{}: {what}", kind.name));
    let chunk_bytes = match volume.option(S::StripeSize) {
        _ if matches!(kind.level, "concat" | "raid1") && stripes == 1 => None,
        None => Some(STRIPE_BYTES),
        Some(word) => Some(stripe_bytes(word)?),
    };
    let tree = tree(kind, stripes, copies, parts);
    let name = volume
        .option(S::Name)
        .map(|word| array_name(word, word.rsplit('/').next().unwrap_or(word)));
    let shape = Shape {
        name: name.transpose()?.flatten(),
        ..Shape::new(&tree, chunk_bytes, command.program.at)?
    };
    draft.add_shape(shape);
    Ok(())
}

/// Returns a physical volume without its range of extents, as `/dev/sda1:0-1000`.
fn without_extents<'word>(word: &Word<'word>, draft: &mut Draft) -> Word<'word> {
    let is_range = |text: &str| {
        !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b":-".contains(&byte))
    };
    match word.find(':') {
        Some(at) if is_range(&word[at + 1..]) => {
            draft.note(word.at, format!("{}: extents are not taken over", &**word));
            word.until(at)
        }
        _ => word.clone(),
    }
}

fn stripe_bytes(word: &Word<'_>) -> Result<u64, Fault> {
    let bytes = size(word, 1 << 10, BINARY, "a stripe size")?;
    if bytes.is_power_of_two() && bytes >= 4 << 10 {
        Ok(bytes)
    } else {
        Err(word.fault("a stripe size is a power of two from 4K on"))
    }
}

fn tree(kind: &Type, stripes: usize, copies: usize, parts: Vec<Part>) -> Tree {
    if kind.level == "raid1" && stripes > 1 {
        // A mirror of stripes.
        let legs = parts
            .chunks(stripes)
            .map(|leg| Tree::of("raid0", "", leg.iter().cloned()));
        return Tree::array("raid1", "", legs.collect());
    }
    let layout = match (kind.level, copies) {
        ("raid10", copies) if copies != 2 => Cow::Owned(format!("near{copies}")),
        _ => Cow::Borrowed(kind.layout),
    };
    Tree::of(kind.level, layout, parts)
}
