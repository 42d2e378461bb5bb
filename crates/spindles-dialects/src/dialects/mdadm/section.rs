//! The output of `mdadm --examine` for one device: its lines, and the state of its superblock.

use crate::dialect::Draft;
use crate::fault::Fault;
use crate::sizes::number;
use crate::text::Word;
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

// Bits of a feature map: `linux/raid/md_p.h`.
const REBUILT: u64 = 0x2;
/// Under way, backwards, or to another data offset.
pub(super) const RESHAPED: u64 = 0x4 | 0x20 | 0x40;
pub(super) const BAD_BLOCKS: u64 = 0x8;
pub(super) const JOURNALED: u64 = 0x200;
const FEATURES: u64 = 0x1fff;

/// The output for one device.
pub(super) struct Section<'text> {
    pub(super) device: Word<'text>,
    /// Its lines as name and value; a line without a colon has an empty name.
    pub(super) lines: Vec<(&'text str, Word<'text>)>,
}

impl<'text> Section<'text> {
    pub(super) fn line(&self, names: &[&str]) -> Option<&Word<'text>> {
        let mut lines = self.lines.iter();
        lines
            .find(|(name, _)| names.contains(name))
            .map(|(_, value)| value)
    }

    pub(super) fn needed(&self, name: &str) -> Result<&Word<'text>, Fault> {
        self.line(&[name]).ok_or_else(|| {
            let message = format!("the line '{name} :' of {} is missing", &*self.device);
            self.device.fault(message)
        })
    }

    /// The number that a value begins with.
    pub(super) fn number(&self, name: &str) -> Result<u64, Fault> {
        number(&first_word(self.needed(name)?), name)
    }

    /// Returns true if the superblock is of the first format, 0.90.
    pub(super) fn is_old(&self) -> Result<bool, Fault> {
        let version = self.needed("Version")?;
        match &**version {
            "1.0" | "1.1" | "1.2" => Ok(false),
            old if old.starts_with("0.90") || old.starts_with("00.90") => Ok(true),
            old if old.starts_with("0.91") || old.starts_with("00.91") => {
                Err(version.fault("version 0.91 is one during a reshape: let md end that first"))
            }
            _ => Err(version.fault(format!("there is no version {} of md", &**version))),
        }
    }

    /// Returns the bits of the feature map.
    pub(super) fn features(&self) -> Result<u64, Fault> {
        let Some(word) = self.line(&["Feature Map"]) else {
            return Ok(0);
        };
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let bits = u64::from_str_radix(digits, 16);
        let bits = bits.map_err(|_| word.fault("a feature map, as 0x8, is expected here"))?;
        match bits & !FEATURES {
            0 => Ok(bits),
            unknown => Err(word.fault(format!(
                "feature {unknown:#x} is not known: it may change where data lies"
            ))),
        }
    }

    pub(super) fn is_rebuilt(&self) -> Result<bool, Fault> {
        Ok(self.line(&["Recovery Offset"]).is_some() || self.features()? & REBUILT != 0)
    }

    /// Returns true if the table of version 0.90 has a device as removed or faulty.
    pub(super) fn table_lacks(&self, index: usize) -> bool {
        let rows = self.lines.iter().filter(|(name, _)| name.is_empty());
        let mut rows = rows.map(|(_, row)| row.split_whitespace().collect::<Vec<_>>());
        rows.any(|row| {
            let is_row_of_device =
                row[0] != "this" && row.get(4).is_some_and(|at| at.parse() == Ok(index));
            is_row_of_device && (row[5..].contains(&"removed") || row[5..].contains(&"faulty"))
        })
    }

    /// Returns true if the superblock itself is damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.line(&["Checksum"])
            .is_some_and(|checksum| !checksum.ends_with("correct"))
    }
}

pub(super) fn first_word<'word>(word: &'word Word<'_>) -> Word<'word> {
    let end = word.find(char::is_whitespace).unwrap_or(word.len());
    word.from(0).until(end)
}

/// Divides the text at the lines that name a device.
pub(super) fn sections<'text>(
    text: &'text str,
    draft: &mut Draft,
) -> Result<Vec<Section<'text>>, Fault> {
    let mut sections: Vec<Section<'text>> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let line = line.trim_end();
        let words = line.trim_start();
        let word = |part: &'text str| Word {
            text: Cow::Borrowed(part),
            at: start + (part.as_ptr().addr() - line.as_ptr().addr()),
        };
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let is_indented = words.len() < line.len();
        if let Some(device) = line.strip_suffix(':').filter(|_| !is_indented) {
            sections.push(Section {
                device: word(device),
                lines: Vec::new(),
            });
            continue;
        }
        if line.starts_with("mdadm:") || words.starts_with("$ ") || words.starts_with("sudo ") {
            draft.note(start, format!("'{words}' says nothing of an array"));
            continue;
        }
        let Some(section) = sections.last_mut() else {
            let message =
                "the line with the name of the device, as /dev/sda1:, is expected before this";
            return Err(Fault::new(word(words).at, message));
        };
        section.lines.push(match words.split_once(" : ") {
            Some((name, value)) => (name.trim_end(), word(value.trim_start())),
            None => ("", word(words)),
        });
    }
    Ok(sections)
}
