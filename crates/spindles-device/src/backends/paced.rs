//! `paced:MODEL:DEVICE`: a file or device that answers no sooner than a modelled disk.
//!
//! The bytes lie on the device, and every operation is carried out there. Its answer waits until
//! the model of the disk, which begins with each opening, has answered the same operation too.

use super::{Backend, Medium, Opened};
use crate::paced::Paced;
use crate::slices;
use crate::{BackendFacts, OpenError, OpenOptions, modelled, random};
use spindles_model::Draw;

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "paced",
        outlives_opening: true,
        whole_sectors_only: true,
        is_path: false,
    },
    syntax: "paced:MODEL:PATH",
    summary: "a file or device that answers no sooner than a modelled disk",
    matches: |name| slices::paced(name).is_some(),
    open,
    at_rest: Some(|name, access| super::at_rest(device_of(name), access)),
    fresh: None,
};

fn device_of(name: &str) -> &str {
    slices::paced(name).map_or(name, |(_, device)| device)
}

fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    let refused = |why: String| OpenError::Paced {
        device: name.to_owned(),
        why,
    };
    let (model, device) = slices::paced(name).expect("the name matches");
    let parameters = modelled::parameters(model).map_err(refused)?;
    let opened = super::open(device, options)?;
    let Medium::File(file) = opened.medium else {
        return Err(refused(format!("{device} is neither a file nor a device")));
    };
    let start_bytes = opened.part.as_ref().map_or(0, |part| part.start);
    let draw = Draw::nominal(random::nonce()?);
    let fault = |fault: spindles_model::Fault| refused(fault.to_string());
    let paced = Paced::new(&parameters, &draw, file, start_bytes, options.io).map_err(fault)?;
    let (bytes, model_bytes) = (opened.facts.bytes, paced.model_bytes());
    if bytes > model_bytes {
        return Err(refused(format!(
            "{device} has {bytes} bytes, and the model {model_bytes}: give a part of it, as in \
             paced:{model}:slice({device},0,{model_bytes})"
        )));
    }
    let mut facts = opened.facts;
    name.clone_into(&mut facts.name);
    facts.backend = &BACKEND.facts;
    facts.rotational = Some(modelled::is_rotational(&parameters));
    Ok(Opened {
        facts,
        medium: Medium::Later(Box::new(paced)),
        held: opened.held,
        part: opened.part,
    })
}
