//! The devices that a text names, each once.

use crate::expressions::MISSING;
use crate::fault::Fault;
use crate::text::{Word, is_control};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

/// The longest name of a device in bytes.
const NAME_BYTES_MAX: usize = 4095;

/// The limit of a text.
const DEVICES_MAX: usize = 1 << 16;

/// The use of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Member,
    Spare,
    Journal,
}

impl Use {
    fn noun(self) -> &'static str {
        match self {
            Self::Member => "a member",
            Self::Spare => "a spare",
            Self::Journal => "the journal",
        }
    }
}

/// The devices of one array, or of several that can't share any.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    seen: BTreeMap<String, Use>,
}

impl Devices {
    /// Takes a device and returns its name. Returns an error if the name is invalid or taken.
    pub(crate) fn add(&mut self, word: &Word<'_>, new: Use) -> Result<String, Fault> {
        let name = device_name(word)?;
        if self.seen.len() == DEVICES_MAX {
            return Err(word.fault(format!("this is more than {DEVICES_MAX} devices")));
        }
        match self.seen.insert(name.clone(), new) {
            None => Ok(name),
            Some(old) if old == new => {
                Err(word.fault(format!("{name} is named twice: take different devices")))
            }
            Some(old) => Err(word.fault(format!(
                "{name} is {} already and can't be {} too",
                old.noun(),
                new.noun()
            ))),
        }
    }
}

/// Returns the name of an array, part of this word; `None` if it is empty.
pub(crate) fn array_name(word: &Word<'_>, name: &str) -> Result<Option<String>, Fault> {
    check_text(word, "array")?;
    Ok(Some(name.to_owned()).filter(|name| !name.is_empty()))
}

/// Returns an error if a name has control characters or was no UTF-8.
fn check_text(word: &Word<'_>, noun: &str) -> Result<(), Fault> {
    if !word.contains(|c: char| is_control(c) || c == char::REPLACEMENT_CHARACTER) {
        return Ok(());
    }
    let shown = word.escape_debug();
    Err(word.fault(format!("'{shown}' is no text: no {noun} has such a name")))
}

/// Returns the name of a device, or an error if it can't be one.
pub(crate) fn device_name(word: &Word<'_>) -> Result<String, Fault> {
    if word.is_empty() {
        return Err(word.fault("the name of a device is missing here"));
    }
    if word.len() > NAME_BYTES_MAX {
        let message = format!("the name of a device has more than {NAME_BYTES_MAX} bytes");
        return Err(word.fault(message));
    }
    check_text(word, "device")?;
    if word.starts_with(['"', '\'']) {
        return Err(word.fault("a name in quotes is not possible here"));
    }
    if word.contains(['*', '?', '[', ']', '{', '}']) {
        let message = format!("'{}' is a pattern: name each device", &**word);
        return Err(word.fault(message));
    }
    if &**word == MISSING || word.starts_with("slice(") {
        let message = format!(
            "'{0}' has a meaning of its own in expressions: write ./{0} or the whole path",
            &**word
        );
        return Err(word.fault(message));
    }
    Ok((**word).to_owned())
}
