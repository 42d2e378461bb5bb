//! btrfs: `mkfs.btrfs`. The shape of its data only: btrfs places block groups of a GiB, each of a
//! profile.

use crate::commands::{
    Choice, Command, Item, Takes, commands, devices, foreign_or_end, items, runs_first,
};
use crate::devices::{Devices, Use, array_name};
use crate::dialect::{Dialect, Draft, Source};
use crate::expressions::{Part, Tree};
use crate::fault::Fault;
use crate::shape::Shape;
use crate::text::Word;
use alloc::format;
use alloc::vec::Vec;

pub(super) static DIALECT: Dialect = Dialect {
    name: "btrfs",
    summary: "btrfs of Linux",
    reads: "mkfs.btrfs commands",
    flavours: &[],
    recognises: |text| runs_first(text, PROGRAM),
    read,
    write: None,
};

const PROGRAM: &str = "mkfs.btrfs";

/// The length of a stripe on a device.
const STRIPE_BYTES: u64 = 64 << 10;

/// What an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Data,
    Metadata,
    Label,
    /// Ignored, with a note.
    Nothing,
}

use Says as S;
use Takes::{Nothing, Value};

static OPTIONS: &[Choice<Says>] = &[
    Choice::new(&["data"], Some('d'), Value, S::Data),
    Choice::new(&["metadata"], Some('m'), Value, S::Metadata),
    Choice::new(&["label"], Some('L'), Value, S::Label),
    Choice::new(&["byte-count"], Some('b'), Value, S::Nothing),
    Choice::new(&["csum", "checksum"], None, Value, S::Nothing),
    Choice::new(&["nodesize"], Some('n'), Value, S::Nothing),
    Choice::new(&["leafsize"], Some('l'), Value, S::Nothing),
    Choice::new(&["sectorsize"], Some('s'), Value, S::Nothing),
    Choice::new(&["rootdir"], Some('r'), Value, S::Nothing),
    Choice::new(&["features"], Some('O'), Value, S::Nothing),
    Choice::new(&["runtime-features"], Some('R'), Value, S::Nothing),
    Choice::new(&["uuid"], Some('U'), Value, S::Nothing),
    Choice::new(&["alloc-start"], Some('A'), Value, S::Nothing),
    Choice::new(&["mixed"], Some('M'), Nothing, S::Nothing),
    Choice::new(&["nodiscard"], Some('K'), Nothing, S::Nothing),
    Choice::new(&["force"], Some('f'), Nothing, S::Nothing),
    Choice::new(&["quiet"], Some('q'), Nothing, S::Nothing),
    Choice::new(&["verbose"], Some('v'), Nothing, S::Nothing),
    Choice::new(&["shrink"], None, Nothing, S::Nothing),
];

/// A profile of block groups.
struct Profile {
    name: &'static str,
    /// Copies of each block, on as many devices; 1 for others.
    copies: usize,
    /// Our level for profiles without copies.
    level: &'static str,
    differs: &'static str,
}

const fn profile(
    name: &'static str,
    copies: usize,
    level: &'static str,
    differs: &'static str,
) -> Profile {
    Profile {
        name,
        copies,
        level,
        differs,
    }
}

const PAIRED: &str = "btrfs picks the devices of the copies for each GiB on its own";

static PROFILES: [Profile; 9] = [
    profile(
        "single",
        1,
        "concat",
        "btrfs fills the emptiest device, a GiB at a time",
    ),
    profile(
        "dup",
        1,
        "concat",
        "both copies are on one device; an array here keeps one there",
    ),
    profile(
        "raid0",
        1,
        "raid0",
        "btrfs stripes each GiB over the devices that have room",
    ),
    profile("raid1", 2, "", PAIRED),
    profile("raid1c3", 3, "", PAIRED),
    profile("raid1c4", 4, "", PAIRED),
    profile(
        "raid10",
        1,
        "raid10",
        "btrfs pairs the devices for each GiB on its own",
    ),
    profile(
        "raid5",
        1,
        "raid5",
        "btrfs puts parity on another member than the raid5 here",
    ),
    profile(
        "raid6",
        1,
        "raid6",
        "btrfs puts P and Q on other members than the raid6 here",
    ),
];

/// Reads the name of a profile; its case does not matter.
fn known(word: &Word<'_>) -> Result<&'static Profile, Fault> {
    let known = PROFILES
        .iter()
        .find(|known| word.eq_ignore_ascii_case(known.name));
    known.ok_or_else(|| {
        let message = format!(
            "a profile, as single, raid1 or raid10, is expected here, not '{}'",
            &**word
        );
        word.fault(message)
    })
}

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let commands = commands(source.text)?;
    let mut draft = Draft::default();
    let mut taken = Devices::default();
    for command in &commands {
        if &*command.program == PROGRAM {
            file_system(command, &mut taken, &mut draft)?;
        } else {
            draft.note(command.program.at, command.skipped("is not mkfs.btrfs"));
        }
    }
    let at = foreign_or_end(&commands, &[PROGRAM], source.text);
    draft.some_array(at, "mkfs.btrfs DEVICE... is missing here")
}

fn file_system(command: &Command<'_>, taken: &mut Devices, draft: &mut Draft) -> Result<(), Fault> {
    let (mut data, mut metadata, mut label) = (None, None, None);
    let mut parts = Vec::new();
    for item in items(command.own_words()?, OPTIONS)? {
        match item {
            Item::Word(word) => {
                parts.extend(
                    devices(word, taken, Use::Member)?
                        .into_iter()
                        .map(Part::whole),
                );
            }
            Item::Option(S::Data, option, value) => data = Some(value.unwrap_or(option)),
            Item::Option(S::Metadata, option, value) => metadata = Some(value.unwrap_or(option)),
            Item::Option(S::Label, _, value) => label = value,
            Item::Option(S::Nothing, option, _) => {
                draft.note(option.at, format!("{} has no meaning here", &*option));
            }
        }
    }
    let count = parts.len();
    if count == 0 {
        return Err(Fault::new(command.end, "a device is missing here"));
    }
    let at = data.as_ref().map_or(command.program.at, |word| word.at);
    let data = data.as_ref().map_or(Ok(&PROFILES[0]), known)?;
    let (name, said, place) = match &metadata {
        Some(word) => (known(word)?.name, "", word.at),
        None if count > 1 => ("raid1", " by default", command.program.at),
        None => ("dup", " by default", command.program.at),
    };
    let text = format!("metadata is {name}{said}: an array here keeps all alike");
    draft.note(place, text);
    if count < data.copies {
        let message = format!("{} needs {} devices, not {count}", data.name, data.copies);
        return Err(Fault::new(at, message));
    }
    draft.note(at, format!("{}: {}", data.name, data.differs));
    let tree = match (data.copies, data.level) {
        (1, level) => Tree::of(level, "", parts),
        (copies, _) if copies == count => Tree::of("raid1", "", parts),
        (copies, _) => Tree::of("raid10", format!("near{copies}"), parts),
    };
    let name = label.map(|label| array_name(&label, &label));
    let has_stripes = !matches!(data.level, "" | "concat");
    let shape = Shape {
        name: name.transpose()?.flatten(),
        ..Shape::new(&tree, has_stripes.then_some(STRIPE_BYTES), at)?
    };
    draft.add_shape(shape);
    Ok(())
}
