//! The members that the lab makes for an experiment, or that the user lists.

use crate::experiment::systems::Members;
use crate::experiment::systems::modelled::Modelled;
use crate::systems::scratch::{Scratch, hole_bytes, lay_out};
use spindles_device::modelled::{Room, Stored};
use spindles_model::{Draw, Fault};
use std::io;
use std::path::Path;

/// The members of an experiment: names to open. Every member has the same size.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Holds the files, which are removed with it.
    scratch: Option<Scratch>,
    pub(crate) names: Vec<String>,
    /// Holds the modelled disks, which end with it.
    room: Option<Room>,
}

/// Bytes of each member that are calibrated, at most.
pub(crate) const CALIBRATED_BYTES_MAX: u64 = 64 << 20;

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
            Members::Modelled(model) => {
                let (room, names) = disks(model, count, &Draw::nominal(0), Stored::All, false)?;
                return Ok(Self {
                    scratch: None,
                    names,
                    room: Some(room),
                });
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
        Ok(Self {
            scratch,
            names,
            room: None,
        })
    }

    /// Replaces modelled disks by new ones of the same names, with the numbers of a draw.
    pub(crate) fn renew(
        &mut self,
        model: &Modelled,
        draw: &Draw,
        stored: Stored,
        has_controller: bool,
    ) -> io::Result<()> {
        let (room, names) = disks(model, self.names.len(), draw, stored, has_controller)?;
        assert_eq!(names, self.names);
        self.room = Some(room);
        Ok(())
    }

    /// Allocates the blocks of the lab's files, once, so that their place is the same for every
    /// system and block. Of users' files, which may be larger than the medium, only the calibrated
    /// part.
    pub(crate) fn lay_out(&self, go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        if self.room.is_some() {
            return Ok(());
        }
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

/// Makes a room with `count` disks of a model, all new.
fn disks(
    model: &Modelled,
    count: usize,
    draw: &Draw,
    stored: Stored,
    has_controller: bool,
) -> io::Result<(Room, Vec<String>)> {
    let mut room = Room::new(stored);
    let parameters = &model.disk(draw, has_controller).map_err(io::Error::other)?;
    let mut shared = Vec::new();
    let mut add = |number| {
        let mut chain = Vec::new();
        for (place, link) in model.links.iter().enumerate() {
            let link = match shared.get(place).filter(|_| link.is_shared) {
                Some(link) => *link,
                None => room.add_link(link.parameters.link(draw)?),
            };
            if shared.len() == place {
                shared.push(link);
            }
            chain.push(link);
        }
        let name = format!("{}#{number}", parameters.name);
        let name = room.add(&name, parameters, draw, &chain)?;
        Ok(match (model.start_bytes, model.length_bytes) {
            (0, None) => name,
            (start, None) => format!("slice({name},{start})"),
            (start, Some(length)) => format!("slice({name},{start},{length})"),
        })
    };
    let names = (0..count).map(&mut add).collect::<Result<_, Fault>>();
    let names = names.map_err(io::Error::other)?;
    Ok((room, names))
}

/// Allocates the blocks of users' files, as far as they are calibrated.
pub(crate) fn fill_holes(names: &[String], go_on: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
    let files = names.iter().map(Path::new);
    let mut files = files.filter(|path| hole_bytes(path, CALIBRATED_BYTES_MAX) > 0);
    files.try_for_each(|path| lay_out(path, CALIBRATED_BYTES_MAX, go_on))
}
