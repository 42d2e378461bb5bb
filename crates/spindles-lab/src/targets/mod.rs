//! The targets that a workload can run on. A kind of target has a file in this folder and two lines
//! in this file.

mod array;
mod assembled;
pub(crate) mod commands; // Not a row: around a target of any kind.
mod device;
mod folder;
pub(crate) mod mounted; // Not a row: around a target of any kind.
pub(crate) mod names; // Not a row: what targets may say.
pub(crate) mod options; // Not a row: what systems may say.
mod single;

use crate::calibrate::SIZE_BYTES;
use crate::evidence::Watched;
use crate::experiment::Members;
use crate::export::{self, Exported};
use crate::scratch::{Scratch, hole_bytes, lay_out};
use spindles_array::Target;
use spindles_device::OpenOptions;
use spindles_device::TargetFacts;
use spindles_engine::Policy;
use spindles_format::ChecksumKind;
use std::io;
use std::path::{Path, PathBuf};

pub use commands::Commands;
pub use mounted::{FILE_SYSTEMS, FileSystem, Mounting};
pub use options::check_chunk;

type Prepare = fn(&str, &Site<'_>) -> Result<Box<dyn System>, String>;

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
    /// Returns the needs that are known before anything is opened.
    pub(crate) needs: fn(&str) -> Result<Needs, String>,
    /// Prepares everything for `System::open`.
    pub(crate) prepare: Prepare,
}

/// Every kind of target. The last kind claims any remaining text.
pub static KINDS: &[&Kind] = &[
    &single::KIND,
    &array::KIND,
    &assembled::KIND,
    &folder::KIND,
    &device::KIND,
];

/// The needs of a target.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Members of the experiment, by number.
    pub members: usize,
    /// Devices and files that the target names: writing workloads destroy their contents.
    pub named: Vec<String>,
}

/// The members and settings from which a system is made.
#[expect(clippy::struct_excessive_bools, reason = "each is chosen by itself")]
pub(crate) struct Site<'a> {
    /// The experiment's members in the order in which this system uses them. The rest is free for
    /// its jobs.
    pub members: &'a [String],
    /// Bytes that the workloads need.
    pub size_bytes: u64,
    /// Chunk of an array; `None` for the level's default.
    pub chunk_bytes: Option<u64>,
    /// Consistency policy of an array; `None` for the level's default.
    pub consistency: Option<&'static Policy>,
    /// Checksum of an array's blocks; `None` for the default of `create`.
    pub checksum: Option<ChecksumKind>,
    /// Device of an array's journal; `None` for its members.
    pub journal: Option<&'a str>,
    /// True if a server exports a single device, as for arrays.
    pub is_served: bool,
    /// Options for opening devices.
    pub open: &'a OpenOptions,
    /// Path of this program, to serve arrays.
    pub program: &'a Path,
    /// Write to a degraded array even if that discards newer data on absent members.
    pub degraded: bool,
    /// True if no workload writes.
    pub read_only: bool,
    /// Allow the contents of named devices to be lost.
    pub force: bool,
    /// Called regularly; its error ends the preparation.
    pub go_on: &'a dyn Fn() -> io::Result<()>,
}

impl Site<'_> {
    /// Returns how existing devices and arrays are opened.
    fn open_as_is(&self) -> OpenOptions {
        OpenOptions {
            read_only: self.read_only,
            ..self.open.clone()
        }
    }
}

/// A system that is ready. At most one of its targets is open at a time.
pub(crate) trait System {
    /// Opens the system.
    fn open(&mut self) -> Result<Box<dyn Target>, String>;

    /// Opens it without its first device, which can then be cleared.
    fn open_without_first(&mut self) -> Result<Box<dyn Target>, String> {
        Err(
            "no device of this system can be left out: give an array on files or devices"
                .to_owned(),
        )
    }

    /// Begins to copy the first device onto a blank one, which then takes its place.
    fn replace_first(&mut self, _open: &mut dyn Target) -> Result<(), String> {
        Err(
            "no device of this system can be replaced: give an array on files or devices"
                .to_owned(),
        )
    }

    /// Opens it with one more device, and begins to grow onto it.
    fn open_growing(&mut self) -> Result<Box<dyn Target>, String> {
        Err("this system can't grow: give an array on files or devices".to_owned())
    }

    /// Describes the array beneath, if a workload on files only sees the file system on it.
    fn facts(&mut self) -> Result<Option<TargetFacts>, String> {
        Ok(None)
    }

    /// Returns a folder on the file system that it is or holds, for workloads on files. The system
    /// must not be opened otherwise meanwhile.
    fn folder(&mut self) -> Result<Place, String> {
        Err(
            "it has no file system for a workload on files: give a folder, or have one made and \
             mounted: `fs = \"ext4\"` in an experiment, --fs ext4 with bench"
                .to_owned(),
        )
    }

    /// Ends the use of `folder`, and checks the file system. After an error, results measured there
    /// are discarded.
    fn leave_folder(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Exports the system as a block device of the kernel. `program` serves arrays.
    fn export(&mut self, _program: &Path) -> Result<Exported, String> {
        Err(
            "it can't be a block device of the kernel: give an array on files or devices, a file \
            or a device"
                .to_owned(),
        )
    }

    /// Describes how the kernel reaches the exported device; empty if unknown.
    fn exported_how(&self) -> &'static str {
        ""
    }

    /// Takes down whatever the lab created for the system. Returns an error if that failed.
    fn end(self: Box<Self>) -> Result<(), String> {
        Ok(())
    }

    /// Returns the devices that can be opened individually while the system is closed.
    fn devices(&self) -> Vec<String>;
}

/// A folder for workloads on files, and the counters that belong to it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    pub(crate) watched: Watched,
    /// How the kernel reaches the device beneath: `FUSE and a loop device`. Empty if directly.
    pub(crate) how: &'static str,
}

/// Returns the kind that a text means.
pub(crate) fn kind_of(target: &str) -> &'static Kind {
    let claims = |kind: &&&'static Kind| (kind.claims)(target);
    KINDS
        .iter()
        .find(claims)
        .expect("the last kind claims everything")
}

/// Returns the usable size of an existing device, file or array; `None` if the target is yet to be
/// created.
///
/// # Errors
/// What is wrong with the target.
pub fn existing_bytes(target: &str, open: &OpenOptions) -> Result<Option<u64>, String> {
    check(target)?;
    let kind = kind_of(target);
    if !kind.exists {
        return Ok(None);
    }
    let place = Site {
        members: &[],
        size_bytes: 0,
        chunk_bytes: None,
        consistency: None,
        checksum: None,
        journal: None,
        is_served: false,
        open,
        program: Path::new(""),
        degraded: false,
        read_only: true,
        force: false,
        go_on: &|| Ok(()),
    };
    let target = (kind.prepare)(target, &place)?.open()?;
    let bytes = target.facts().bytes();
    drop(target.close());
    Ok(Some(bytes))
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

/// The members of an experiment: names to open. Every member has the same size.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Holds the files, which are removed with it.
    scratch: Option<Scratch>,
    pub(crate) names: Vec<String>,
}

/// Members exceed the size that workloads need by this, a 16th and a chunk: space for superblocks,
/// bitmaps, journal and checksums, twice if arrays are nested.
const MEMBER_EXTRA_BYTES: u64 = 4 << 20;

/// Returns the size of a member for `size_bytes` of data in chunks of at most `chunk_bytes`.
pub(crate) fn member_bytes(size_bytes: u64, chunk_bytes: u64) -> u64 {
    let extra = (size_bytes / 16).saturating_add(chunk_bytes);
    let extra = extra.saturating_add(MEMBER_EXTRA_BYTES);
    let bytes = size_bytes.saturating_add(extra);
    bytes.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX)
}

impl Pool {
    /// Creates `count` members of `bytes` each. The blocks of files are not allocated yet.
    pub(crate) fn new(
        members: &Members,
        count: usize,
        bytes: u64,
        folder: &Path,
    ) -> io::Result<Self> {
        let (scratch, names) = match members {
            // Devices that no system needs are left alone.
            Members::Devices(paths) => (None, paths[..count].to_vec()),
            Members::Fresh(backend) => {
                let numbers = 0..count;
                let made = numbers.filter_map(|number| {
                    let name = format!("member{number}");
                    backend.fresh(folder, &name, bytes)
                });
                (None, made.collect::<io::Result<_>>()?)
            }
            Members::Files if count == 0 => (None, Vec::new()),
            Members::Files => {
                let scratch = Scratch::new(folder)?;
                let names = (0..count)
                    .map(|number| {
                        let path = scratch.sparse(&format!("member{number}"), bytes)?;
                        Ok(path.to_string_lossy().into_owned())
                    })
                    .collect::<io::Result<_>>()?;
                (Some(scratch), names)
            }
        };
        Ok(Self { scratch, names })
    }

    /// Allocates the blocks of the lab's files, once, so that their place is the same for every
    /// system and block. Of users' files, which may be larger than the medium, only the calibrated
    /// part.
    pub(crate) fn lay_out(&self, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        if self.scratch.is_some() {
            let mut files = self.names.iter().map(Path::new);
            return files.try_for_each(|path| lay_out(path, u64::MAX, go_on));
        }
        fill_holes(&self.names, go_on)
    }

    /// Returns the folder of the files, if the lab created them.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.scratch.as_ref().map(Scratch::path)
    }
}

/// Allocates the blocks of users' files, as far as they are calibrated.
pub(crate) fn fill_holes(names: &[String], go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    let files = names.iter().map(Path::new);
    let mut files = files.filter(|path| hole_bytes(path, SIZE_BYTES) > 0);
    files.try_for_each(|path| lay_out(path, SIZE_BYTES, go_on))
}

/// Returns the default folder for temporary files, preferably not in memory.
pub(crate) fn temporary_folder() -> PathBuf {
    let standard = std::env::temp_dir();
    let on_disk = Path::new("/var/tmp");
    if std::env::var_os("TMPDIR").is_none() && is_memory(&standard) && !is_memory(on_disk) {
        return on_disk.to_owned();
    }
    standard
}

/// Creates a folder there, for `what`. The `Scratch` removes it.
pub(crate) fn own_folder(what: &str) -> Result<(PathBuf, Scratch), String> {
    let place = temporary_folder();
    let made = Scratch::new(&place).and_then(|scratch| Ok((scratch.folder()?, scratch)));
    made.map_err(|error| {
        format!(
            "no folder for {what} in {}: {error}; the variable TMPDIR names another place",
            place.display()
        )
    })
}

fn is_memory(folder: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::statfs(folder).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(TMPFS_MAGIC))
}

/// Returns the facts of a target, and closes it.
fn facts_of(target: Box<dyn Target>) -> Result<Option<TargetFacts>, String> {
    let facts = target.facts().clone();
    let closed = target.close();
    closed.map_err(|error| error.to_string())?;
    Ok(Some(facts))
}

/// Opens one device without an engine.
fn open_raw(name: &str, options: &OpenOptions) -> Result<Box<dyn Target>, String> {
    spindles_array::open_device(name, options).map_err(|error| error.to_string())
}

/// Checks that nothing else uses a device or file: it can be opened for writing.
pub(crate) fn check_unused(name: &str, options: &OpenOptions) -> Result<(), String> {
    facts_of(open_raw(name, options)?).map(drop)
}

/// A device that each workload opens directly.
struct Raw {
    name: String,
    /// True if it is exported to the kernel as arrays are.
    is_served: bool,
    options: OpenOptions,
}

impl System for Raw {
    fn open(&mut self) -> Result<Box<dyn Target>, String> {
        open_raw(&self.name, &self.options)
    }

    fn export(&mut self, program: &Path) -> Result<Exported, String> {
        // The kernel attaches a loop device to any file, and mkfs does not check either.
        check_unused(&self.name, &self.options)?;
        if self.is_served {
            Exported::as_it_is(&self.name, &self.options, program)
        } else {
            Exported::of_path(&self.name)
        }
    }

    fn exported_how(&self) -> &'static str {
        if self.is_served {
            export::served_how()
        } else {
            export::direct_how(&self.name)
        }
    }

    fn devices(&self) -> Vec<String> {
        vec![self.name.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_texts_select_their_kinds() {
        for (text, kind) in [
            ("single", "single"),
            ("raid5(4)", "array"),
            ("raid0(raid5(3),raid5(3))", "array"),
            ("raid1(/dev/a,b.img)", "array"),
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
        let needs = |text: &str| (kind_of(text).needs)(text).unwrap();
        assert_eq!(needs("raid0(raid5(3),raid5(3))").members, 6);
        assert_eq!(needs("raid1(/dev/a,b.img)").named, ["/dev/a", "b.img"]);
        assert_eq!(needs("raid1(mem:1M,b.img)").named, ["b.img"]);
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
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        // A missing file may exist another time.
        let absent = "array:a.img,b.img";
        assert_eq!(check(absent), Ok(()));
        let error = (kind_of(absent).needs)(absent).unwrap_err();
        assert!(
            error.contains("'a.img' is neither a file nor a block device"),
            "{error}"
        );
    }
}
