//! ZFS: the words of `zpool create`, and of `zpool add` after it. The shape only: ZFS places blocks
//! of files, so no array lies on the devices.

use crate::commands::{
    Choice, Command, Item, Takes, commands, devices, foreign_or_end, items, runs_first,
};
use crate::devices::{Devices, Use};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::{Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::number;
use crate::text::Word;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use spindles_layout::{Expression, Redundancy};

mod write; // Not a row: the words of a pool.

use write::write;

pub(super) static DIALECT: Dialect = Dialect {
    name: "zpool",
    summary: "ZFS of OpenZFS and illumos",
    reads: "zpool create commands",
    flavours: &[],
    recognises: |text| runs_first(text, "zpool"),
    read,
    write: Some(write),
};

/// The levels with 1, 2 and 3 parity chunks.
const PARITY: [&str; 3] = ["raid5", "raid6", "raid7"];

/// The use of a group of devices in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Data,
    Spare,
    Log,
    Cache,
    Special,
    Dedup,
}

/// Words that begin the devices of a class.
const CLASSES: [(&str, Class); 5] = [
    ("spare", Class::Spare),
    ("log", Class::Log),
    ("cache", Class::Cache),
    ("special", Class::Special),
    ("dedup", Class::Dedup),
];

/// How a group keeps its devices redundant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Disk,
    Mirror,
    Raidz(u8),
    Draid(Draid),
}

/// The numbers of a draid; 0 if not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Draid {
    parity: u8,
    data: u8,
    children: u8,
    spares: u8,
}

/// A top-level vdev, such as `mirror a b`.
#[derive(Debug)]
struct Group<'word> {
    word: &'word Word<'word>,
    kind: Kind,
    members: Vec<String>,
}

#[derive(Debug)]
struct Pool<'word> {
    name: String,
    at: usize,
    groups: Vec<Group<'word>>,
    spares: Vec<String>,
    /// The first device of its log, and the offset of that word.
    journal: Option<(String, usize)>,
}

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let commands = commands(source.text)?;
    let mut draft = Draft::default();
    let mut pools: Vec<Pool<'_>> = Vec::new();
    let mut known = Devices::default();
    for command in &commands {
        let verb = command.words.first().map(|verb| &**verb);
        match (&*command.program, verb) {
            ("zpool", Some("create" | "add")) => {
                vdevs(command, &mut pools, &mut known, &mut draft)?;
            }
            ("zpool", Some("attach" | "replace" | "detach" | "remove" | "split")) => {
                let message = "this changes the devices of a pool: write the pool that it becomes \
                               as one zpool create";
                return Err(command.words[0].fault(message));
            }
            ("zpool", _) => draft.note(command.program.at, command.skipped("makes no pool")),
            _ => draft.note(command.program.at, command.skipped("is not zpool")),
        }
    }
    if pools.is_empty() {
        let message = "zpool create NAME DEVICE... is missing here";
        let at = foreign_or_end(&commands, &["zpool"], source.text);
        return Err(Fault::new(at, message));
    }
    for pool in pools {
        finish(pool, &mut draft)?;
    }
    Ok(draft)
}

/// The options of `zpool create` and `zpool add`, and the nouns of their values; none changes the
/// shape.
static OPTIONS: &[Choice<&str>] = &[
    Choice::new(&[], Some('f'), Takes::Nothing, ""),
    Choice::new(&[], Some('n'), Takes::Nothing, ""),
    Choice::new(&[], Some('d'), Takes::Nothing, ""),
    Choice::new(&[], Some('g'), Takes::Nothing, ""),
    Choice::new(&[], Some('L'), Takes::Nothing, ""),
    Choice::new(&[], Some('P'), Takes::Nothing, ""),
    Choice::new(&[], Some('m'), Takes::Value, "a mount point"),
    Choice::new(&[], Some('o'), Takes::Value, "a property"),
    Choice::new(&[], Some('O'), Takes::Value, "a property"),
    Choice::new(&[], Some('R'), Takes::Value, "an alternate root"),
    Choice::new(&[], Some('t'), Takes::Value, "a temporary name"),
];

/// Reads the pool and the devices of a command. `zpool add` continues a pool of the same text.
fn vdevs<'word>(
    command: &'word Command<'_>,
    pools: &mut Vec<Pool<'word>>,
    known: &mut Devices,
    draft: &mut Draft,
) -> Result<(), Fault> {
    let (verb, rest) = command
        .own_words()?
        .split_first()
        .expect("a verb was found");
    let mut words = Vec::new();
    for item in items(rest, OPTIONS)? {
        match item {
            Item::Word(word) => words.push(word),
            Item::Option(_, option, None) => {
                draft.note(option.at, format!("{} has no meaning here", &*option));
            }
            Item::Option(noun, option, Some(value)) => {
                let text = format!("{} {} is {noun} of ZFS", &*option, &*value);
                draft.note(option.at, text);
            }
        }
    }
    let mut words = words.into_iter();
    let missing = |what: &str| Fault::new(command.end, format!("{what} is missing here"));
    let name = words
        .next()
        .ok_or_else(|| missing("the name of the pool"))?;
    let pool = match pools.iter_mut().find(|pool| pool.name == **name) {
        Some(_) if &**verb == "create" => {
            return Err(name.fault(format!("the pool {} is created twice", &**name)));
        }
        Some(pool) => pool,
        None if &**verb == "add" => {
            let message = format!("there is no zpool create of {} before this", &**name);
            return Err(name.fault(message));
        }
        None => {
            check_name(name)?;
            pools.push(Pool::new(name));
            pools.last_mut().expect("just added")
        }
    };
    let mut place = Destination::of(Class::Data, None);
    for word in words {
        if let Some((_, class)) = CLASSES.iter().find(|(name, _)| **word == **name) {
            place.end()?;
            place = Destination::of(*class, Some(word));
        } else if let Some(kind) = kind(word)? {
            place = place.group(word, kind)?;
            if place.class == Class::Data {
                pool.groups.push(Group::new(word, kind));
            }
        } else {
            place.is_empty = false;
            pool.take(word, &place, known, draft)?;
        }
    }
    place.end()?;
    if pool.groups.is_empty() {
        return Err(missing("a device of the pool"));
    }
    Ok(())
}

/// Where the next device of a command belongs.
struct Destination<'word> {
    class: Class,
    /// The word that began the class or the group.
    word: Option<&'word Word<'word>>,
    is_group: bool,
    /// True until a device follows.
    is_empty: bool,
}

impl<'word> Destination<'word> {
    fn of(class: Class, word: Option<&'word Word<'word>>) -> Self {
        Self {
            class,
            word,
            is_group: false,
            is_empty: true,
        }
    }

    /// The place within a group. A group ends spares and caches, which have none.
    fn group(&self, word: &'word Word<'word>, kind: Kind) -> Result<Self, Fault> {
        let class = match self.class {
            Class::Data | Class::Spare | Class::Cache => Class::Data,
            class @ (Class::Log | Class::Special | Class::Dedup) => class,
        };
        if class != Class::Data && kind != Kind::Mirror {
            let message = format!("{} can't be {}: only a mirror", class.word(), &**word);
            return Err(word.fault(message));
        }
        if self.is_group || class == Class::Data {
            self.end()?;
        }
        Ok(Self {
            is_group: true,
            ..Self::of(class, Some(word))
        })
    }

    /// Returns an error if no device followed. Our level counts those of a group of data.
    fn end(&self) -> Result<(), Fault> {
        match self.word {
            Some(word) if self.is_empty && self.class != Class::Data => {
                Err(word.fault(format!("{} has no devices", &**word)))
            }
            _ => Ok(()),
        }
    }
}

impl Class {
    fn word(self) -> &'static str {
        let mut classes = CLASSES.iter();
        let class = classes.find(|(_, class)| *class == self);
        class.map_or("data", |(word, _)| word)
    }
}

/// Checks the name of a pool as ZFS does.
fn check_name(name: &Word<'_>) -> Result<(), Fault> {
    const RESERVED: [&str; 4] = ["mirror", "raidz", "draid", "spare"];
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-:. ".contains(c);
    if RESERVED.iter().any(|word| name.starts_with(word)) || &**name == "log" {
        let message = format!("the name of the pool is expected here, not '{}'", &**name);
        return Err(name.fault(message));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(is_valid) {
        let message = format!(
            "'{}' can't be the name of a pool: a letter, then letters, digits, _ - : or .",
            &**name
        );
        return Err(name.fault(message));
    }
    Ok(())
}

/// Returns the kind of group that a word begins; `None` for a device.
fn kind(word: &Word<'_>) -> Result<Option<Kind>, Fault> {
    if &**word == "mirror" {
        return Ok(Some(Kind::Mirror));
    }
    if let Some(digits) = word.strip_prefix("raidz") {
        return match digits {
            "" | "1" => Ok(Some(Kind::Raidz(1))),
            "2" => Ok(Some(Kind::Raidz(2))),
            "3" => Ok(Some(Kind::Raidz(3))),
            _ => {
                let message = format!(
                    "raidz1, raidz2 or raidz3 is expected here, not '{}'",
                    &**word
                );
                Err(word.fault(message))
            }
        };
    }
    if word.starts_with("draid") {
        return draid(word).map(|draid| Some(Kind::Draid(draid)));
    }
    Ok(None)
}

/// Reads `draid2:4d:11c:1s`.
fn draid(word: &Word<'_>) -> Result<Draid, Fault> {
    let mut draid = Draid {
        parity: 1,
        ..Draid::default()
    };
    let parts = word.split(&[':']);
    for (index, part) in parts.iter().enumerate() {
        let (digits, target) = match (index, part.chars().last()) {
            (0, _) if part.len() == 5 => continue,
            (0, _) => (part.from(5), &mut draid.parity),
            (_, Some('d')) => (part.until(part.len() - 1), &mut draid.data),
            (_, Some('c')) => (part.until(part.len() - 1), &mut draid.children),
            (_, Some('s')) => (part.until(part.len() - 1), &mut draid.spares),
            _ => {
                return Err(part.fault(
                    "draid's data as 4d, children as 11c or spares as 1s is expected here",
                ));
            }
        };
        let count = number(&digits, "a number of draid")?;
        *target = u8::try_from(count).map_err(|_| digits.fault(format!("{count} is too many")))?;
    }
    match draid.parity {
        1..=3 => Ok(draid),
        _ => Err(word.fault("draid1, draid2 or draid3 is expected here")),
    }
}

impl<'word> Pool<'word> {
    fn new(name: &Word<'_>) -> Self {
        Self {
            name: (**name).to_owned(),
            at: name.at,
            groups: Vec::new(),
            spares: Vec::new(),
            journal: None,
        }
    }

    /// Takes a device, or several if the word has braces.
    fn take(
        &mut self,
        word: &'word Word<'word>,
        place: &Destination<'_>,
        known: &mut Devices,
        draft: &mut Draft,
    ) -> Result<(), Fault> {
        let new = match place.class {
            Class::Data => Use::Member,
            Class::Spare => Use::Spare,
            _ => Use::Journal,
        };
        for name in devices(word, known, new)? {
            let what = match (place.class, self.groups.last_mut()) {
                (Class::Data, Some(last)) if place.is_group => {
                    last.members.push(name);
                    continue;
                }
                (Class::Data, _) => {
                    self.groups.push(Group {
                        members: [name].into(),
                        ..Group::new(word, Kind::Disk)
                    });
                    continue;
                }
                (Class::Spare, _) => {
                    self.spares.push(name);
                    continue;
                }
                (Class::Log, _) if self.journal.is_none() => {
                    self.journal = Some((name, word.at));
                    continue;
                }
                (Class::Log, _) => "the journal of an array is one device",
                (Class::Cache, _) => "an array here has no read cache",
                (Class::Special, _) => {
                    "ZFS keeps metadata apart there; an array here has no such device"
                }
                (Class::Dedup, _) => {
                    "ZFS keeps its deduplication table there; an array here has none"
                }
            };
            draft.note(word.at, format!("{} {name}: {what}", place.class.word()));
        }
        Ok(())
    }
}

impl<'word> Group<'word> {
    fn new(word: &'word Word<'word>, kind: Kind) -> Self {
        Self {
            word,
            kind,
            members: Vec::new(),
        }
    }

    /// The nearest array of ours.
    fn tree(mut self, spares: &mut Vec<String>, draft: &mut Draft) -> Result<Tree, Fault> {
        let word = self.word;
        let level = match self.kind {
            Kind::Disk => return Ok(Tree::Part(Part::whole(self.members.remove(0)))),
            Kind::Mirror => "raid1",
            Kind::Raidz(parity) => {
                let level = PARITY[usize::from(parity) - 1];
                let text = format!(
                    "{} is a file system's stripe of variable width: each block has a width and a \
                     parity of its own; the nearest array is {level}, whose stripes are all as \
                     wide as the array",
                    &**word
                );
                draft.note(word.at, text);
                level
            }
            Kind::Draid(draid) => return self.draid(draid, spares, draft),
        };
        let tree = Tree::of(level, "", self.members.into_iter().map(Part::whole));
        tree.shape(word.at)?;
        Ok(tree)
    }

    /// Its groups side by side if they divide the devices, otherwise one stripe over all.
    fn draid(
        mut self,
        draid: Draid,
        spares: &mut Vec<String>,
        draft: &mut Draft,
    ) -> Result<Tree, Fault> {
        let word = self.word;
        let children = self.members.len();
        if draid.children > 0 && usize::from(draid.children) != children {
            let message = format!(
                "{} devices follow, and {} has {}c",
                children, &**word, draid.children
            );
            return Err(word.fault(message));
        }
        let level = PARITY[usize::from(draid.parity) - 1];
        let used = children.saturating_sub(draid.spares.into());
        let data = match usize::from(draid.data) {
            0 => used.saturating_sub(draid.parity.into()).min(8),
            data => data,
        };
        let width = data + usize::from(draid.parity);
        if data == 0 || width > used {
            let message = format!(
                "{} devices are too few for {}: a group has {width}, and {} are spares",
                children, &**word, draid.spares
            );
            return Err(word.fault(message));
        }
        spares.extend(self.members.drain(used..));
        let is_whole = used.is_multiple_of(width);
        let nearest = if is_whole && used > width {
            format!("{} {level} arrays, striped,", used / width)
        } else {
            format!("one {level}")
        };
        let text = format!(
            "{} is declustered: its groups of {width} and its spare space move over all {children} \
             devices; the nearest is {nearest} with spares as devices",
            &**word
        );
        draft.note(word.at, text);
        let group =
            |members: &[String]| Tree::of(level, "", members.iter().cloned().map(Part::whole));
        let tree = if is_whole && used > width {
            Tree::array("raid0", "", self.members.chunks(width).map(group).collect())
        } else {
            group(&self.members)
        };
        tree.shape(word.at)?;
        Ok(tree)
    }
}

/// Adds the array of a pool.
fn finish(mut pool: Pool<'_>, draft: &mut Draft) -> Result<(), Fault> {
    let at = pool.at;
    let mut members = Vec::new();
    let are_disks = pool.groups.iter().all(|group| group.kind == Kind::Disk);
    for group in pool.groups {
        let is_disk = group.kind == Kind::Disk;
        if is_disk && !are_disks {
            let text =
                "a disk without redundancy among groups that have it: its loss is the pool's";
            draft.note(group.word.at, text);
        }
        match group.tree(&mut pool.spares, draft)? {
            // Groups of a draid are groups of the pool.
            Tree::Array {
                level: "raid0",
                members: groups,
                ..
            } => members.extend(groups),
            tree => members.push(tree),
        }
    }
    let tree = match &members[..] {
        [Tree::Array { .. }] => members.remove(0),
        _ => Tree::array("raid0", "", members),
    };
    let mut shape = Shape {
        name: Some(pool.name),
        spares: pool.spares,
        ..Shape::new(&tree, None, at)?
    };
    match pool.journal {
        Some((log, at)) if !has_parity(&shape.expression) => {
            draft.note(at, format!("log {log} is ignored: {NO_PARITY}"));
        }
        journal => shape.journal = journal.map(|(device, _)| device),
    }
    draft.add_shape(shape);
    Ok(())
}

const NO_PARITY: &str = "an array without parity logs nothing";

fn has_parity(expression: &Expression) -> bool {
    match expression {
        Expression::Array { level, members, .. } => {
            matches!(level.redundancy, Redundancy::Parity(_)) || members.iter().any(has_parity)
        }
        Expression::Leaf(_) | Expression::Slice { .. } => false,
    }
}
