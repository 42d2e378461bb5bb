//! `mdadm --create` and `mdadm --build`.

use super::words::{
    CHUNK_BYTES, KIB, SUFFIXES, check_part, chunk, has_chunks, has_journals, is_redundant, layout,
    level, name_of,
};
use crate::commands::{Choice, Command, Item, Takes, commands, items, words};
use crate::devices::{Devices, Use, array_name, device_name};
use crate::dialect::{Draft, Source};
use crate::expressions::{MISSING, Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::sizes::{SECTOR_BYTES, number, size};
use crate::text::Word;
use alloc::borrow::{Cow, ToOwned};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The chunk size of an array without metadata, and the rounding of a linear one.
const CHUNK_BYTES_BUILD: u64 = 64 << 10;

/// Our levels of arrays without metadata.
const LEVELS_BUILD: [&str; 4] = ["concat", "raid0", "raid1", "raid10"];

/// The most members and spares that a command may name.
const DEVICES_MAX: usize = 256;

/// What an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Create,
    Build,
    /// Another mode: no array is described.
    Other,
    Level,
    Layout,
    Chunk,
    Devices,
    Spares,
    Name,
    Journal,
    Metadata,
    DataOffset,
    Size,
    Bitmap,
    /// How the array is kept consistent.
    Policy,
    /// The devices after it are only read if others can't be.
    WriteMostly,
    AssumeClean,
    /// Ignored, with a note.
    Nothing,
}

use Says as S;
use Takes::{Nothing, Value, ValueWithin};

static OPTIONS: &[Choice<Says>] = &[
    Choice::new(&["create"], Some('C'), Nothing, S::Create),
    Choice::new(&["build"], Some('B'), Nothing, S::Build),
    Choice::new(&["assemble"], Some('A'), Nothing, S::Other),
    Choice::new(&["detail"], Some('D'), Nothing, S::Other),
    Choice::new(&["examine"], Some('E'), Nothing, S::Other),
    Choice::new(&["follow", "monitor"], Some('F'), Nothing, S::Other),
    Choice::new(&["grow"], Some('G'), Nothing, S::Other),
    Choice::new(&["incremental"], Some('I'), Nothing, S::Other),
    Choice::new(&["query"], Some('Q'), Nothing, S::Other),
    Choice::new(&["stop"], Some('S'), Nothing, S::Other),
    Choice::new(&["examine-bitmap"], Some('X'), Nothing, S::Other),
    Choice::new(
        &["manage", "misc", "zero-superblock"],
        None,
        Nothing,
        S::Other,
    ),
    Choice::new(
        &["add", "re-add", "remove", "fail", "wait"],
        None,
        Nothing,
        S::Other,
    ),
    Choice::new(&["level"], Some('l'), Value, S::Level),
    Choice::new(&["layout", "parity"], Some('p'), Value, S::Layout),
    Choice::new(&["chunk", "rounding"], Some('c'), Value, S::Chunk),
    Choice::new(
        &["raid-devices", "raid-disks"],
        Some('n'),
        Value,
        S::Devices,
    ),
    Choice::new(
        &["spare-devices", "spare-disks"],
        Some('x'),
        Value,
        S::Spares,
    ),
    Choice::new(&["name"], Some('N'), Value, S::Name),
    Choice::new(&["write-journal"], None, Value, S::Journal),
    Choice::new(&["metadata"], Some('e'), Value, S::Metadata),
    Choice::new(&["data-offset"], None, Value, S::DataOffset),
    Choice::new(&["size"], Some('z'), Value, S::Size),
    Choice::new(&["bitmap"], Some('b'), Value, S::Bitmap),
    Choice::new(&["consistency-policy"], Some('k'), Value, S::Policy),
    Choice::new(&["write-mostly"], Some('W'), Nothing, S::WriteMostly),
    Choice::new(&["assume-clean"], None, Nothing, S::AssumeClean),
    Choice::new(&["array-size"], Some('Z'), Value, S::Nothing),
    Choice::new(&["auto"], Some('a'), ValueWithin, S::Nothing),
    Choice::new(
        &["bitmap-chunk", "delay", "homehost"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(
        &["homecluster", "nodes", "symlinks", "uuid"],
        None,
        Value,
        S::Nothing,
    ),
    Choice::new(&["write-behind"], None, ValueWithin, S::Nothing),
    Choice::new(&["failfast"], None, Nothing, S::Nothing),
    Choice::new(&["force"], Some('f'), Nothing, S::Nothing),
    Choice::new(&["run"], Some('R'), Nothing, S::Nothing),
    Choice::new(&["readonly"], Some('o'), Nothing, S::Nothing),
    Choice::new(&["quiet"], Some('q'), Nothing, S::Nothing),
    Choice::new(&["verbose"], Some('v'), Nothing, S::Nothing),
    Choice::new(&["test"], Some('t'), Nothing, S::Nothing),
];

/// A command that makes an array, as it is written.
struct Made<'word> {
    /// True for an array without metadata.
    is_build: bool,
    /// The offset of the mode.
    at: usize,
    /// The offset of the end.
    end: usize,
    options: Vec<(Says, Word<'word>, Word<'word>)>,
    /// The array and its devices.
    words: Vec<&'word Word<'word>>,
}

pub(super) fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let commands = commands(source.text)?;
    let mut draft = Draft::default();
    let mut arrays: Vec<Array> = Vec::new();
    let mut known = Devices::default();
    let mut other = None;
    for command in &commands {
        if &*command.program != "mdadm" {
            other.get_or_insert(command.program.at);
            draft.note(command.program.at, command.skipped("is not mdadm"));
        } else if let Some(made) = Made::read(command, &mut draft)? {
            let array = made.array(source, &mut arrays, &mut known, &mut draft)?;
            arrays.push(array);
        } else {
            let at = command.words.first().unwrap_or(&command.program).at;
            other.get_or_insert(at);
            draft.note(command.program.at, command.skipped("makes no array"));
        }
    }
    if arrays.is_empty() {
        let at = other.unwrap_or(source.text.trim_end().len());
        let message = "mdadm --create or --build is expected here: only these say the shape of an \
                       array; of one that exists the output of mdadm --examine does";
        return Err(Fault::new(at, message));
    }
    for array in arrays {
        if array.in_place {
            draft.add(array.shape, &array.tree, array.at)?;
        } else {
            let text = "it does not show where the data begins on the devices: for the array as \
                        it lies, give the output of mdadm --examine of its members";
            draft.note_here(array.at, text);
            draft.note_lost(&array.shape, array.at);
            draft.add_shape(array.shape);
        }
    }
    Ok(draft)
}

/// An array that a later one may have as a member.
struct Array {
    /// The path or name in the command.
    path: String,
    at: usize,
    tree: Tree,
    /// False if the offset of the data is not known.
    in_place: bool,
    shape: Shape,
}

impl<'word> Made<'word> {
    /// Reads a command; `None` if it makes no array.
    fn read(command: &'word Command<'_>, draft: &mut Draft) -> Result<Option<Self>, Fault> {
        let is_mode = |word: &&Word<'_>| {
            let word = &***word;
            let long = word.len() > 3
                && ["--create", "--build"]
                    .iter()
                    .any(|long| long.starts_with(word));
            long || word.starts_with("-C") || word.starts_with("-B")
        };
        let Some(create) = command.words.iter().find(is_mode) else {
            return Ok(None);
        };
        let mut made = Self {
            is_build: create.starts_with("--b") || create.starts_with("-B"),
            at: create.at,
            end: command.end,
            options: Vec::new(),
            words: Vec::new(),
        };
        for item in items(command.own_words()?, OPTIONS)? {
            match item {
                Item::Word(word) => made.words.push(word),
                Item::Option(Says::Create | Says::Build, ..) => {}
                Item::Option(Says::Other, option, _) => {
                    let message = format!("{} doesn't go with {}", &*option, &**create);
                    return Err(option.fault(message));
                }
                Item::Option(Says::WriteMostly, option, _) => {
                    let text = format!(
                        "{}: md reads the devices after it only if it must; an array here \
                         prefers no member",
                        &*option
                    );
                    draft.note(option.at, text);
                }
                Item::Option(Says::AssumeClean, option, _) => {
                    let text = "--assume-clean: md does not compute the redundancy first";
                    draft.note(option.at, text);
                }
                Item::Option(Says::Nothing, option, _) => {
                    draft.note(option.at, format!("{} has no meaning here", &*option));
                }
                Item::Option(id, option, value) => {
                    let value = value.unwrap_or_else(|| option.clone());
                    if let Some((_, earlier, _)) =
                        made.options.iter().find(|(other, ..)| *other == id)
                    {
                        let message = format!("{} is given twice", &**earlier);
                        return Err(option.fault(message));
                    }
                    made.options.push((id, option, value));
                }
            }
        }
        Ok(Some(made))
    }

    fn option(&self, id: Says) -> Option<&Word<'word>> {
        let mut options = self.options.iter();
        options
            .find(|(other, ..)| *other == id)
            .map(|(_, _, value)| value)
    }

    fn count(&self, id: Says, expected: &str) -> Result<Option<usize>, Fault> {
        let value = self.option(id).map(|word| {
            let count = number(word, expected)?;
            usize::try_from(count).map_err(|_| word.fault(format!("{count} is too many")))
        });
        value.transpose()
    }

    /// Returns the command's array. Takes its members out of the earlier `arrays`.
    fn array(
        &self,
        source: &Source<'_>,
        arrays: &mut Vec<Array>,
        known: &mut Devices,
        draft: &mut Draft,
    ) -> Result<Array, Fault> {
        let missing = |what: &str| Fault::new(self.end, format!("{what} is missing here"));
        let (path, named) = self
            .words
            .split_first()
            .ok_or_else(|| missing("the array's name"))?;
        let level_word = self
            .option(S::Level)
            .ok_or_else(|| missing("the level, --level=,"))?;
        let level = level(level_word)?;
        self.note_options(level, draft)?;
        if self.is_build && !LEVELS_BUILD.contains(&level) {
            let text = format!("mdadm --build makes no {level}: only linear, raid0, raid1, raid10");
            draft.note(level_word.at, text);
        }
        let chunk_bytes = match (self.option(S::Chunk), self.is_build) {
            (Some(word), _) => chunk(level, word)?,
            (None, true) => CHUNK_BYTES_BUILD,
            (None, false) => CHUNK_BYTES,
        };
        let (members, spares) = self.devices(level, named)?;
        let mut tree = Vec::new();
        let mut inner = Inner::default();
        for word in &members {
            tree.push(if &**word == MISSING {
                Tree::Part(Part::whole(MISSING.to_owned()))
            } else if let Some(at) = arrays.iter().position(|array| array.is(word)) {
                inner.take(arrays.remove(at), word)?
            } else {
                Tree::Part(self.part(word, source, known)?)
            });
        }
        let layout = self.layout(level, chunk_bytes, &tree, source, draft)?;
        if level == "concat" {
            self.round(&mut tree, chunk_bytes, source, draft)?;
        }
        let tree = Tree::array(level, layout, tree);
        let own = has_chunks(level).then_some(chunk_bytes);
        let spares = spares.iter().map(|word| known.add(word, Use::Spare));
        let name = self.option(S::Name).unwrap_or(path);
        let shape = Shape {
            name: array_name(name, name_of(name))?,
            spares: spares.collect::<Result<_, _>>()?,
            journal: self.journal(level, known)?,
            ..Shape::new(&tree, inner.chunk(own, self.at)?, level_word.at)?
        };
        Ok(Array {
            path: (***path).to_owned(),
            at: self.at,
            in_place: (self.is_build || self.option(S::DataOffset).is_some())
                && !inner.has_metadata,
            tree,
            shape,
        })
    }
}

impl<'word> Made<'word> {
    /// Checks and notes the options that don't change the shape.
    fn note_options(&self, level: &str, draft: &mut Draft) -> Result<(), Fault> {
        for (id, option, value) in &self.options {
            let (option, value) = (&**option, value);
            let text = match id {
                S::Metadata => match &**value {
                    "ddf" | "imsm" => {
                        let message = format!(
                            "{}: its metadata has an order of the devices of its own",
                            &**value
                        );
                        return Err(value.fault(message));
                    }
                    "0" | "0.9" | "0.90" | "1" | "1.0" | "1.1" | "1.2" | "default" => {
                        format!(
                            "{option} {}: an array here has metadata of its own",
                            &**value
                        )
                    }
                    _ => {
                        let message = "a format of metadata, as 1.2 or 0.90, is expected here";
                        return Err(value.fault(message));
                    }
                },
                S::Size if &**value == "max" => continue,
                S::Size => {
                    size(
                        value,
                        KIB,
                        SUFFIXES,
                        "a size of each device, as 10G or max,",
                    )?;
                    format!("{option} {}: a new array here uses whole devices", &**value)
                }
                S::Bitmap => format!("{option} {}: md's bitmap has no use here", &**value),
                S::Policy => format!(
                    "{option} {}: an array here has consistency policies of its own",
                    &**value
                ),
                S::Layout if level == "raid0" && &**value == "dangerous" => {
                    let message = "dangerous: the layout is that of the running kernel; original \
                                   or alternate is expected here";
                    return Err(value.fault(message));
                }
                _ => continue,
            };
            draft.note(value.at, text);
        }
        Ok(())
    }

    /// Returns the members and the spares, which are named last.
    fn devices(
        &self,
        level: &str,
        named: &[&'word Word<'word>],
    ) -> Result<(Vec<Word<'word>>, Vec<Word<'word>>), Fault> {
        let expected = "the number of devices, --raid-devices=,";
        let members = self.count(S::Devices, expected)?;
        let members =
            members.ok_or_else(|| Fault::new(self.end, format!("{expected} is missing here")))?;
        let spares = self.count(S::Spares, "the number of spares")?.unwrap_or(0);
        let mut devices = Vec::new();
        for word in named {
            devices.extend(words(word)?);
            if devices.len() > DEVICES_MAX {
                return Err(word.fault(format!("this is more than {DEVICES_MAX} devices")));
            }
        }
        for word in devices.iter().filter(|word| &***word != MISSING) {
            device_name(word)?;
        }
        if devices.len() != members.saturating_add(spares) {
            let of = self.option(S::Devices).expect("counted above");
            let and = if spares > 0 {
                format!(" and {spares} spares")
            } else {
                String::new()
            };
            let message = format!("{members} devices{and} announced, {} named", devices.len());
            return Err(of.fault(message));
        }
        if let Some(word) = self
            .option(S::Spares)
            .filter(|_| spares > 0 && !is_redundant(level))
        {
            return Err(word.fault(format!("{level} has no redundancy, so no use for spares")));
        }
        let spares = devices.split_off(members);
        let is_missing = |word: &&Word<'_>| &***word == MISSING;
        if let Some(word) = spares.iter().find(is_missing) {
            return Err(word.fault("a spare can't be missing"));
        }
        if let Some(word) = devices.iter().find(is_missing) {
            if !is_redundant(level) {
                return Err(word.fault(format!(
                    "{level} has no redundancy: no member can be missing"
                )));
            }
            if devices.iter().all(|word| is_missing(&word)) {
                return Err(word.fault("all members are missing"));
            }
        }
        Ok((devices, spares))
    }

    /// The part of a device that holds data.
    fn part(
        &self,
        word: &Word<'_>,
        source: &Source<'_>,
        known: &mut Devices,
    ) -> Result<Part, Fault> {
        let (device, offset) = match self.option(S::DataOffset) {
            Some(offset) if &**offset == "variable" => {
                let colon = word.rfind(':').ok_or_else(|| {
                    word.fault("its data offset after a ':' is expected here, as sda:1M")
                })?;
                (word.until(colon), Some(word.from(colon + 1)))
            }
            offset => (word.clone(), offset.cloned()),
        };
        let sectors = |word: &Word<'_>, expected| {
            let bytes = size(word, KIB, SUFFIXES, expected)?;
            Ok::<_, Fault>(bytes / SECTOR_BYTES)
        };
        let start = offset
            .map(|word| sectors(&word, "a data offset, as 1M,"))
            .transpose()?;
        let length = self
            .option(S::Size)
            .filter(|word| &***word != "max" && start.is_some());
        let part = Part {
            device: known.add(&device, Use::Member)?,
            start_sectors: start.unwrap_or(0),
            length_sectors: length.map(|word| sectors(word, "a size")).transpose()?,
        };
        if start.is_some() {
            check_part(&part, &device, source)?;
        }
        Ok(part)
    }

    /// Returns our layout. Striped members of different sizes are `original`, as in mdadm.
    fn layout(
        &self,
        level: &'static str,
        chunk_bytes: u64,
        members: &[Tree],
        source: &Source<'_>,
        draft: &mut Draft,
    ) -> Result<Cow<'static, str>, Fault> {
        if let Some(word) = self.option(S::Layout) {
            return layout(level, members.len(), word);
        }
        if level != "raid0" || members.len() < 2 {
            return Ok(Cow::Borrowed(""));
        }
        let chunks = members.iter().map(|member| match member {
            Tree::Part(part) => {
                let sectors = source
                    .sectors_of(&part.device)?
                    .saturating_sub(part.start_sectors);
                Some(sectors / (chunk_bytes / SECTOR_BYTES))
            }
            Tree::Array { .. } => None,
        });
        let chunks: Option<Vec<u64>> = chunks.collect();
        let Some(chunks) = chunks else {
            let text = "members are taken to have one size: for others mdadm's layout is original";
            draft.note(self.at, text);
            return Ok(Cow::Borrowed(""));
        };
        let is_even = chunks.iter().all(|count| *count == chunks[0]);
        Ok(Cow::Borrowed(if is_even { "" } else { "original" }))
    }

    /// Rounds the members of a linear array down to its chunk, as md does without metadata.
    fn round(
        &self,
        members: &mut [Tree],
        chunk_bytes: u64,
        source: &Source<'_>,
        draft: &mut Draft,
    ) -> Result<(), Fault> {
        if !self.is_build || chunk_bytes == 0 {
            return Ok(());
        }
        let chunk_sectors = chunk_bytes / SECTOR_BYTES;
        for member in members {
            let Tree::Part(part) = member else {
                continue;
            };
            let to_the_end = || {
                let sectors = source.sectors_of(&part.device)?;
                Some(sectors.saturating_sub(part.start_sectors))
            };
            match part.length_sectors.or_else(to_the_end) {
                Some(sectors) if sectors.is_multiple_of(chunk_sectors) => {}
                Some(sectors) if sectors < chunk_sectors => {
                    let message = format!("{} has less than a chunk", part.device);
                    return Err(Fault::new(self.at, message));
                }
                Some(sectors) => part.length_sectors = Some(sectors - sectors % chunk_sectors),
                None => {
                    let text = format!(
                        "md rounds {} down to a multiple of {}K, and its size is not known: what \
                         is after it may be misplaced",
                        part.device,
                        chunk_bytes / KIB
                    );
                    draft.note(self.at, text);
                }
            }
        }
        Ok(())
    }

    fn journal(&self, level: &str, known: &mut Devices) -> Result<Option<String>, Fault> {
        let journal = self.option(S::Journal).map(|word| {
            if !has_journals(level) || self.is_build {
                return Err(word.fault("md has a journal for new raid4, raid5 and raid6 only"));
            }
            known.add(word, Use::Journal)
        });
        journal.transpose()
    }
}

impl Array {
    /// Returns true if a device's name is that of this array.
    fn is(&self, device: &str) -> bool {
        self.path == device
            || device.strip_prefix("/dev/") == Some(&self.path)
            || device.strip_prefix("/dev/md/") == Some(&self.path)
    }
}

/// Properties of inner arrays, which the outer array depends on.
#[derive(Default)]
struct Inner {
    chunk_bytes: Option<u64>,
    has_metadata: bool,
}

impl Inner {
    /// Takes an array as a member.
    fn take(&mut self, array: Array, word: &Word<'_>) -> Result<Tree, Fault> {
        if !array.shape.spares.is_empty() || array.shape.journal.is_some() {
            let message = format!(
                "{} has a spare or a journal: an inner array can't here",
                &**word
            );
            return Err(word.fault(message));
        }
        self.has_metadata |= !array.in_place;
        let chunk_bytes = self.chunk(array.shape.chunk_bytes, word.at)?;
        self.chunk_bytes = chunk_bytes;
        Ok(array.tree)
    }

    /// Returns the chunk size of all, with this one.
    fn chunk(&self, own: Option<u64>, at: usize) -> Result<Option<u64>, Fault> {
        match (self.chunk_bytes, own) {
            (Some(inner), Some(own)) if inner != own => {
                let message = format!(
                    "chunks of {}K and of {}K: an array of arrays has one chunk size here",
                    inner / KIB,
                    own / KIB
                );
                Err(Fault::new(at, message))
            }
            (inner, own) => Ok(inner.or(own)),
        }
    }
}
