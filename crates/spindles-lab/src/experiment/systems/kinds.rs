//! The kinds of targets and the syntax of their texts. `crate::systems::targets` opens targets.

use super::shapes;
use spindles_admin::plain::{self, PlainTarget};
use spindles_admin::scan;
use spindles_layout::{Expression, Slice};
use std::path::Path;

/// A kind of target.
#[derive(Debug)]
pub struct Kind {
    /// Its name in help texts.
    pub name: &'static str,
    /// Its syntax.
    pub syntax: &'static str,
    /// Help text, one line.
    pub summary: &'static str,
    /// True if the target exists before the lab runs. Otherwise the lab fills the target before the
    /// first measurement.
    pub(crate) exists: bool,
    /// Returns true if a text means this kind. The first row that claims it wins.
    pub(crate) claims: fn(&str) -> bool,
    /// Checks the syntax only, whatever exists.
    pub(crate) check: fn(&str) -> Result<(), String>,
}

/// Every kind of target. The last kind claims any remaining text.
pub static KINDS: &[&Kind] = &[&SINGLE, &PLAIN, &FROM, &ARRAY, &ASSEMBLED, &FOLDER, &DEVICE];

/// Returns the kind that a text means.
pub(crate) fn kind_of(target: &str) -> &'static Kind {
    let claims = |kind: &&&'static Kind| (kind.claims)(target);
    KINDS
        .iter()
        .find(claims)
        .expect("the last kind claims everything")
}

/// Checks that a text can be a target. The devices that it names need not exist.
///
/// # Errors
/// What is wrong, and the remedy.
pub fn check(target: &str) -> Result<(), String> {
    if target.trim().is_empty() {
        return Err(format!("a target is empty: write one of {}", syntaxes()));
    }
    (kind_of(target).check)(target)
}

fn syntaxes() -> String {
    let all: Vec<_> = KINDS.iter().map(|kind| kind.syntax).collect();
    all.join(", ")
}

/// A single member, without array or engine.
pub(crate) static SINGLE: Kind = Kind {
    name: "single",
    syntax: "single or single:N",
    summary: "one member by itself, the first or the Nth, without array or engine: the single disk",
    exists: false,
    claims: |text| text == "single" || text.starts_with("single:"),
    check: |text| member_number(text).map(drop),
};

/// Parses the number of the member: 1 is the first.
pub(crate) fn member_number(text: &str) -> Result<usize, String> {
    let Some((_, number)) = text.split_once(':') else {
        return Ok(1);
    };
    let number = number
        .parse()
        .ok()
        .filter(|number| (1..=64).contains(number));
    number.ok_or_else(|| format!("{text} names no member: write single:1, single:2 .."))
}

/// A plain array.
pub(crate) static PLAIN: Kind = Kind {
    name: "plain",
    syntax: "plain:LEVEL(DEV,DEV,..)",
    summary: "the array of these members as they lie, without superblocks; missing is a member",
    exists: true,
    claims: |text| text.starts_with(plain::PREFIX),
    check: |text| parse_plain(text).map(drop),
};

/// Parses the text of a plain array.
pub(crate) fn parse_plain(text: &str) -> Result<PlainTarget, String> {
    let parsed = plain::parse(text, None).expect("it has the prefix");
    parsed.map_err(|error| error.to_string())
}

/// The shape of a configuration, which stands for an array of counted members.
pub(crate) static FROM: Kind = Kind {
    name: "from",
    syntax: "from:FILE, from:FILE#ARRAY or from:TEXT",
    summary: "a fresh array in the shape that another system's configuration has, of the \
        experiment's members",
    exists: false,
    claims: |text| text.starts_with(shapes::PREFIX),
    check: |text| {
        let shape = shapes::fresh_shape(text).expect("it has the prefix");
        shape.map(drop)
    },
};

/// An array that the lab makes.
pub(crate) static ARRAY: Kind = Kind {
    name: "array",
    syntax: "LEVEL(COUNT) or LEVEL(DEV,DEV,..)",
    summary: "a fresh array of that many members, or of these devices: raid5(4), raid1(mem:1G,x)",
    exists: false,
    claims: |text| {
        let is_device = text.starts_with("paced:") || Slice::is_text(text);
        text.contains('(') && !text.starts_with("array:") && !is_device
    },
    check: |text| parse(text).map(drop),
};

/// Parses the expression of an array whose members may be counted: `raid5(4)`.
pub(crate) fn parse(text: &str) -> Result<Expression, String> {
    Expression::parse_counted(text).map_err(|error| error.to_string())
}

/// Returns true if a leaf of an expression counts members instead of naming one.
pub(crate) fn is_number(leaf: &str) -> bool {
    leaf.bytes().all(|byte| byte.is_ascii_digit())
}

/// An existing array.
pub(crate) static ASSEMBLED: Kind = Kind {
    name: "assembled",
    syntax: "array:NAME, array:DEV,DEV,..",
    summary: "an existing array, found by its name or assembled from the superblocks on these \
        devices",
    exists: true,
    claims: |text| text.starts_with("array:"),
    check: |text| {
        scan::split(text)
            .map(drop)
            .map_err(|error| error.to_string())
    },
};

/// A folder of a mounted file system.
pub(crate) static FOLDER: Kind = Kind {
    name: "folder",
    syntax: "folder:PATH",
    summary: "a folder, and with it whatever is mounted there; workloads on blocks get a file in \
        it",
    exists: false,
    claims: |text| text.starts_with("folder:") || Path::new(text).is_dir(),
    check: |text| match folder_path(text) {
        "" => Err("the folder is missing: write folder:PATH".to_owned()),
        _ => Ok(()),
    },
};

/// Returns the path in the text of a folder.
pub(crate) fn folder_path(text: &str) -> &str {
    text.strip_prefix("folder:").unwrap_or(text)
}

/// A device, a file, memory or nothing, as it is.
pub(crate) static DEVICE: Kind = Kind {
    name: "device",
    syntax: "DEVICE, FILE, nbd://HOST/EXPORT, mem:SIZE or null:SIZE",
    summary: "a block device, a file, memory or nothing, used directly: also kernel RAID and \
        controllers",
    exists: true,
    claims: |_| true,
    check: |text| {
        let slice = Slice::is_text(text).then(|| Slice::parse(text).map(drop));
        slice.unwrap_or(Ok(())).map_err(|error| error.to_string())
    },
};
