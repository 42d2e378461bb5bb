//! Errors as text: what is wrong, in the words of the library that found it, then the commands that
//! help.

use super::report;
use spindles_admin::assemble::{ArrayReport, AssembleError};
use spindles_admin::attach::{ChangeError, OwnRole};
use spindles_admin::create::CreateError;
use spindles_admin::plain::PlainError;
use spindles_admin::scan::shell_word;
use spindles_admin::scrub::ScrubError;
use spindles_admin::survey::{self, FreedBy};
use spindles_array::errors::AttachError;
use spindles_copy::CopyError;
use spindles_device::OpenError;
use spindles_engine::{CommandError, OpenError as EngineError, PlanError, Role};
use spindles_format::{AssembleError as ChooseError, Half};
use spindles_lab::RecordsError;
use spindles_lab_web::ServeError;
use spindles_measure::ReadError;
use std::error::Error;
use std::iter;

/// An error of any type.
type AnyError = dyn Error + 'static;

/// Returns the causes of an error, from the outside in, each without the types around it that add
/// no words.
pub(crate) fn causes(error: &AnyError) -> impl Iterator<Item = &AnyError> {
    chain(error).map(innermost)
}

fn chain(error: &AnyError) -> impl Iterator<Item = &AnyError> {
    iter::successors(Some(error), |&error| error.source())
}

/// Returns the error in one that shows nothing but that error.
fn innermost(error: &AnyError) -> &AnyError {
    let inner: Option<&AnyError> = if let Some(error) = error.downcast_ref::<ChangeError>() {
        match error {
            ChangeError::Assemble(error) => Some(error),
            ChangeError::Attach(error) => Some(error),
            ChangeError::Close(error) => Some(error),
            ChangeError::Device(error) => Some(error),
            ChangeError::Name(error) => Some(error),
            ChangeError::Open(error) => Some(error),
            ChangeError::TooSmall(error) => Some(error),
            _ => None,
        }
    } else if let Some(error) = error.downcast_ref::<AssembleError>() {
        match error {
            AssembleError::Attach(error) => Some(&**error),
            AssembleError::Close(error) => Some(error),
            AssembleError::Open(error) => Some(error),
            _ => None,
        }
    } else if let Some(error) = error.downcast_ref::<CreateError>() {
        match error {
            CreateError::Open(error) => Some(error),
            CreateError::TooSmall(error) => Some(error),
            _ => None,
        }
    } else if let Some(error) = error.downcast_ref::<AttachError>() {
        match error {
            AttachError::Open(error) => Some(error),
            AttachError::TooSmall(error) => Some(error),
            _ => None,
        }
    } else if let Some(error) = error.downcast_ref::<ScrubError>() {
        match error {
            ScrubError::Assemble(error) => Some(error),
            ScrubError::Plain(error) => Some(error),
            _ => None,
        }
    } else if let Some(PlainError::Device(error)) = error.downcast_ref() {
        Some(error)
    } else {
        None
    };
    inner.map_or(error, innermost)
}

/// Returns the text of an error: each cause after a colon, unless the text before already contains
/// it, and then the remedies.
pub(crate) fn text(error: &AnyError) -> String {
    let mut text = String::new();
    for cause in chain(error) {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    for remedy in causes(error).filter_map(remedy) {
        text = format!("{text}; {remedy}");
    }
    text
}

/// Returns the remedy of an error, if it is one that commands of the program can mend.
fn remedy(error: &AnyError) -> Option<String> {
    if let Some(error) = error.downcast_ref() {
        return of_assembling(error);
    }
    if let Some(error) = error.downcast_ref() {
        return of_change(error);
    }
    if let Some(error) = error.downcast_ref() {
        return of_attaching(error);
    }
    if let Some(ChooseError::SplitBrain {
        one,
        other,
        parted: Some(_),
    }) = error.downcast_ref()
    {
        return keep_half(one, other);
    }
    if let Some(CreateError::Spare { device, .. }) = error.downcast_ref() {
        let device = shell_word(device);
        return Some(format!(
            "`spindles spare add {device} --array ARRAY` tries again"
        ));
    }
    if let Some(CopyError::Read {
        name,
        is_lost: true,
        ..
    }) = error.downcast_ref()
    {
        return Some(format!(
            "`spindles examine {}` lists them",
            shell_word(name)
        ));
    }
    if let Some(PlainError::Engine {
        source: EngineError::UncleanDegraded { .. },
        ..
    }) = error.downcast_ref()
    {
        return Some("--force returns them, right or wrong".to_owned());
    }
    if let Some(PlainError::Labelled { .. }) = error.downcast_ref() {
        return Some("--force does that".to_owned());
    }
    if let Some(ReadError::Mixed { .. }) = error.downcast_ref() {
        return Some("`spindles lab compare BEFORE AFTER` does that".to_owned());
    }
    if let Some(RecordsError::None(_)) = error.downcast_ref() {
        return Some("`spindles lab run` makes one".to_owned());
    }
    if let Some(ServeError::Folder { .. }) = error.downcast_ref() {
        return Some("`spindles lab run` makes one".to_owned());
    }
    match error.downcast_ref()? {
        OpenError::Busy { device, .. } => {
            let freed_by = survey::freed_by(device)?;
            Some(format!("`{}` does that", releases(&freed_by, device)))
        }
        _ => None,
    }
}

/// Returns the command that makes a server release a device.
pub(crate) fn releases(freed_by: &FreedBy, device: &str) -> String {
    match freed_by {
        FreedBy::Removal(array) => {
            format!(
                "spindles remove {} {}",
                shell_word(device),
                shell_word(array)
            )
        }
        FreedBy::Stop(array) => format!("spindles stop {}", shell_word(array)),
    }
}

fn of_assembling(error: &AssembleError) -> Option<String> {
    Some(match error {
        AssembleError::TwoJournals { second, older, .. } => {
            let copy = shell_word(older.as_ref().unwrap_or(second));
            format!("or make the copy a plain device: `spindles wipe {copy}`")
        }
        AssembleError::Incomplete { .. } => {
            "bring back enough of them, or copy what can still be read with `spindles copy \
             --rescue`, if it was closed in order"
                .to_owned()
        }
        AssembleError::MayBeNewer { array, .. } => format!(
            "`spindles set {} --degraded-writes allow --degraded` sets that",
            shell_word(array)
        ),
        AssembleError::HoldsLastWrites { array, .. } => format!(
            "meanwhile `spindles copy` reads what is here, and changes nothing; `spindles set {} \
             --degraded-writes allow --degraded` gives such blocks up from now on without a \
             question",
            shell_word(array)
        ),
        AssembleError::CantGrow { array, reason } => {
            let array = shell_word(array);
            match reason {
                PlanError::Degraded => format!("`spindles status {array}` says how"),
                PlanError::Unclean => format!("`spindles resync {array}` does that"),
                _ => return None,
            }
        }
        AssembleError::TooLate { array } => {
            format!("`spindles grow {}` goes on with it", shell_word(array))
        }
        _ => return None,
    })
}

fn of_change(error: &ChangeError) -> Option<String> {
    Some(match error {
        ChangeError::NothingToRebuild(report) => fill_places(report),
        ChangeError::MemberLost { array, onto, .. } => format!(
            "`spindles rebuild {}` with the devices that are left and {onto} goes on",
            shell_word(array)
        ),
        ChangeError::Own {
            device,
            role: OwnRole::Spare,
            ..
        } => format!(
            "or take it away first: `spindles spare remove {}`",
            shell_word(device)
        ),
        ChangeError::ComesBack { array, device } => format!(
            "`spindles add {} {}` takes it back, by what it missed; --force overwrites it",
            shell_word(device),
            shell_word(array)
        ),
        ChangeError::Growing { array } => {
            let array = shell_word(array);
            format!(
                "`spindles grow {array}` goes on with it, and `spindles grow {array} --abort` \
                 gives it up if nothing was moved yet"
            )
        }
        ChangeError::NotWhole { array, .. } => {
            let array = shell_word(array);
            format!(
                "`spindles status {array}` says how to bring them back, and `spindles rebuild \
                 {array} --onto DEV` fills a new device"
            )
        }
        ChangeError::GrowthOut { array, .. } => format!(
            "`spindles grow {} --add DEV` puts another device in its place",
            shell_word(array)
        ),
        ChangeError::HasJournal { array, .. } => {
            format!(
                "`spindles journal remove --array {}` does that",
                shell_word(array)
            )
        }
        ChangeError::OutUnrecorded { array, .. } => {
            format!("`spindles status {}` shows its state", shell_word(array))
        }
        ChangeError::NoSpare { .. } => {
            "`spindles status ARRAY` lists the spares of an array".to_owned()
        }
        ChangeError::NoSpareOf {
            device,
            shared: true,
            ..
        } => format!(
            "`spindles spare remove {}` without --array takes it back",
            shell_word(device)
        ),
        _ => return None,
    })
}

fn of_attaching(error: &AttachError) -> Option<String> {
    Some(match error {
        AttachError::NothingMissing => {
            "`spindles replace` exchanges a device that works, and `spindles spare add` keeps one \
             for later"
                .to_owned()
        }
        AttachError::NotReturning { device } => format!(
            "`spindles rebuild ARRAY --onto {}` fills it completely",
            shell_word(device)
        ),
        AttachError::NotOut { .. } => "`spindles fail` puts one out".to_owned(),
        AttachError::InUse { role, .. } => match role {
            Role::Filling(_) | Role::Active(_) => "`spindles fail` puts it out first",
            Role::Journal => "`spindles journal remove` takes it away first",
            Role::Out(_) => "`spindles remove` releases it first",
            Role::Spare => "`spindles spare remove` takes it away first",
            Role::Joining(_) | Role::Replaced(_) | Role::Replacement(_) | Role::Stranger => {
                return None;
            }
        }
        .to_owned(),
        AttachError::StaysIn {
            device,
            outermost,
            reason,
            ..
        } => {
            let (array, device) = (shell_word(outermost), shell_word(device));
            match reason {
                CommandError::BeyondTolerance => format!(
                    "`spindles replace {device} {array} --onto DEV` exchanges it while it works; \
                     if others are missing, `spindles status {array}` says how to bring them back \
                     first"
                ),
                CommandError::AlreadyOut => format!(
                    "`spindles remove {device} {array}` releases the device, and `spindles add \
                     {device} {array}` takes it back"
                ),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Returns how to keep one of two halves of a mirror that went on without each other.
fn keep_half(one: &Half, other: &Half) -> Option<String> {
    let ([one], [other]) = (one.devices.as_slice(), other.devices.as_slice()) else {
        return None;
    };
    let (keeps, overwrites) = (shell_word(one), shell_word(other));
    Some(format!(
        "`spindles rebuild {keeps} --onto {overwrites} --force` keeps what {one} holds and \
         overwrites {other}, `spindles rebuild {overwrites} --onto {keeps} --force` the other way \
         round"
    ))
}

/// Returns what fills the missing places of an array, and which of its devices can't.
fn fill_places(array: &ArrayReport) -> String {
    let arrays = array.arrays();
    let is_named = |refused: &&String| {
        let mut held_out = arrays.iter().flat_map(|array| &array.held_out);
        held_out.any(|(_, device)| refused.starts_with(&format!("{device}: ")))
    };
    let remedy = report::remedy(array).unwrap_or_else(|| {
        let name = shell_word(&array.name);
        format!("`spindles status {name}` shows its state")
    });
    let refused = array.refused.iter().filter(|refused| !is_named(refused));
    let refused = refused.map(|refused| format!("; {refused}"));
    remedy + &refused.collect::<String>()
}
