//! The targets that a workload can run on. A kind of target has its text in
//! `experiment/systems/kinds.rs`, a file in this folder and two lines in this file.

mod array;
mod assembled;
pub(crate) mod commands; // Not a row: around a target of any kind.
mod device;
mod folder;
pub(crate) mod mounted; // Not a row: around a target of any kind.
mod plain;
mod raw; // Not a row: devices by themselves, for several kinds.
mod single;
mod site; // Not a row: the members and settings of a system.
mod system; // Not a row: the trait of a ready system.

use crate::experiment::systems::kind_of;
pub use crate::experiment::systems::{
    Commands, FILE_SYSTEMS, FileSystem, FreshShape, KINDS, Kind, Mounting, check, check_chunk,
    fresh_shape,
};
pub(crate) use raw::check_unused;
pub(crate) use site::Site;
use spindles_admin::assemble::EngineOptions;
use spindles_device::OpenOptions;
use std::path::Path;
use system::Needs;
pub(crate) use system::{System, WatchedFolder};

type Prepare = fn(&str, &Site<'_>) -> Result<Box<dyn System>, String>;

/// How a kind of target becomes a system.
struct Opener {
    kind: &'static Kind,
    /// Returns the needs that are known before anything is opened.
    needs: fn(&str) -> Result<Needs, String>,
    /// Prepares everything for `System::open`.
    prepare: Prepare,
}

/// The openers of all kinds, except `from:`, which is an array when an experiment was read.
static OPENERS: &[&Opener] = &[
    &single::OPENER,
    &plain::OPENER,
    &array::OPENER,
    &assembled::OPENER,
    &folder::OPENER,
    &device::OPENER,
];

fn opener_of(target: &str) -> &'static Opener {
    let kind = kind_of(target);
    let mut openers = OPENERS.iter();
    let found = openers.find(|opener| opener.kind.name == kind.name);
    found.expect("each kind has an opener")
}

/// Returns the needs of a target that are known before anything is opened.
pub(crate) fn needs(target: &str) -> Result<Needs, String> {
    (opener_of(target).needs)(target)
}

/// Prepares everything for `System::open`.
pub(crate) fn prepare(target: &str, site: &Site<'_>) -> Result<Box<dyn System>, String> {
    (opener_of(target).prepare)(target, site)
}

/// Returns the usable size of an existing device, file or array; `None` if the target is yet to be
/// created.
///
/// # Errors
/// What is wrong with the target.
pub fn existing_bytes(
    target: &str,
    chunk_bytes: Option<u64>,
    open: &OpenOptions,
) -> Result<Option<u64>, String> {
    check(target)?;
    if !kind_of(target).exists {
        return Ok(None);
    }
    let place = Site {
        members: &[],
        size_bytes: 0,
        chunk_bytes,
        consistency: None,
        checksum: None,
        journal: None,
        write_back: None,
        is_plain: false,
        is_served: false,
        open,
        engine: EngineOptions::default(),
        program: Path::new(""),
        degraded: false,
        read_only: true,
        force: false,
        go_on: &|| Ok(()),
    };
    let target = prepare(target, &place)?.open()?;
    let bytes = target.facts().bytes();
    drop(target.close());
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::systems::kinds::FROM;

    #[test]
    fn each_kind_has_an_opener() {
        let names = |kinds: Vec<&Kind>| kinds.iter().map(|kind| kind.name).collect::<Vec<_>>();
        let opened = OPENERS.iter().map(|opener| opener.kind).collect();
        let mut kinds = KINDS.to_vec();
        kinds.retain(|kind| kind.name != FROM.name);
        assert_eq!(names(kinds), names(opened));
    }

    #[test]
    fn target_texts_select_their_kinds() {
        for (text, kind) in [
            ("single", "single"),
            ("raid5(4)", "array"),
            ("raid0(raid5(3),raid5(3))", "array"),
            ("raid1(/dev/a,b.img)", "array"),
            ("plain:raid5:left-asymmetric(a,missing,c)", "plain"),
            ("folder:/mnt/x", "folder"),
            ("/dev/sdb", "device"),
            ("mem:64M", "device"),
            ("disk.img", "device"),
        ] {
            assert_eq!(kind_of(text).name, kind, "{text}");
            assert_eq!(check(text), Ok(()), "{text}");
        }
        // Names of existing files.
        let [a, b] = [(); 2].map(|()| tempfile::NamedTempFile::new().unwrap());
        let text = format!("array:{},{}", a.path().display(), b.path().display());
        assert_eq!(kind_of(&text).name, "assembled");
        assert_eq!(check(&text), Ok(()));
        let needs = |text: &str| needs(text).unwrap();
        assert_eq!(needs("raid0(raid5(3),raid5(3))").members, 6);
        assert_eq!(needs("raid1(/dev/a,b.img)").named, ["/dev/a", "b.img"]);
        assert_eq!(needs("raid1(mem:1M,b.img)").named, ["b.img"]);
        assert_eq!(needs("plain:raid5(a,missing,c)").named, ["a", "c"]);
        assert_eq!(needs("single").members, 1);
        assert_eq!(needs("/dev/sdb").named, ["/dev/sdb"]);
        assert_eq!(needs("null:1G").named, [""; 0]);
    }

    #[test]
    fn invalid_target_texts_are_refused() {
        for (text, words) in [
            ("", "a target is empty"),
            ("raid5(2", "lacks a ',' or a ')'"),
            ("raid9(4)", "there is no level 'raid9'"),
            ("raid6(3)", "needs at least 4 members"),
            ("array:", "write DEV,DEV,.. or the name of an array"),
            ("array:a,,b", "write DEV,DEV,.. or the name of an array"),
            ("folder:", "folder:PATH"),
            ("plain:", "lacks a device or an array here"),
            ("plain:a.img", "lacks a level with its members here"),
            ("plain:raid5(3)", "counts devices where it has to name them"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        // A missing file may exist another time.
        let absent = "array:a.img,b.img";
        assert_eq!(check(absent), Ok(()));
        let error = needs(absent).unwrap_err();
        assert!(
            error.contains("'a.img' is neither a file nor a block device"),
            "{error}"
        );
    }
}
