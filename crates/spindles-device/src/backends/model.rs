//! `model:NAME`: a modelled disk of this thread, which answers in virtual time.

use super::{Backend, Medium, Opened};
use crate::at_rest::AtRest;
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions, modelled};
use std::io;

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "model",
        outlives_opening: true,
        whole_sectors_only: true,
        is_path: false,
    },
    syntax: "model:NAME",
    summary: "a modelled disk, in virtual time, of experiments only",
    matches: |name| name.starts_with(modelled::PREFIX),
    open,
    at_rest: Some(|name, _access| match modelled::find(name) {
        Some(disk) => Ok(Box::new(disk) as Box<dyn AtRest>),
        None => Err(io::ErrorKind::NotFound.into()),
    }),
    fresh: None,
};

fn open(name: &str, _options: &OpenOptions) -> Result<Opened, OpenError> {
    let disk = modelled::find(name).ok_or_else(|| OpenError::Modelled {
        device: name.to_owned(),
    })?;
    Ok(Opened {
        part: None,
        held: Vec::new(),
        facts: DeviceFacts {
            name: name.to_owned(),
            backend: &BACKEND.facts,
            bytes: disk.capacity_bytes(),
            sector_bytes: 512,
            physical_sector_bytes: 512,
            direct: true,
            direct_reason: None,
            rotational: Some(disk.is_rotational()),
            physical_device: None,
            zeroes_without_moving_bytes: false,
            thin: false,
        },
        medium: Medium::Modelled(disk),
    })
}
