//! The configuration of a shape, over whole drives.

use super::drives::LABEL_SECTORS;
use crate::expressions::{MISSING, Smallest};
use crate::shape::{Shape, Unsayable, component, plain_word};
use crate::writing::Writing;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write as _;
use spindles_layout::{Expression, Layout, Level};

/// Writes a shape as drives and a volume. Every subdisk takes all of its drive.
pub(crate) fn write(shape: &Shape, writing: &mut Writing<'_>) -> Result<String, Unsayable> {
    shape.without_journal()?;
    writing.each_device_once(shape)?;
    let name = match &shape.name {
        None => Cow::Owned(writing.name("v")),
        Some(name) => Cow::Borrowed(plain_word(name)?),
    };
    let mut writer = Writer {
        shape,
        writing,
        drives: String::new(),
        volume: String::new(),
    };
    writer.volume(&name)?;
    for spare in &shape.spares {
        let (name, device) = (writer.writing.name("spare"), plain_word(spare)?);
        writeln!(writer.drives, "drive {name} device {device} hotspare").expect("a string");
    }
    Ok(writer.drives + &writer.volume)
}

struct Writer<'a, 'text> {
    shape: &'a Shape,
    writing: &'a mut Writing<'text>,
    drives: String,
    volume: String,
}

impl Writer<'_, '_> {
    fn volume(&mut self, name: &str) -> Result<(), Unsayable> {
        let Expression::Array { level, members, .. } = &self.shape.expression else {
            return Err(Unsayable::new("a device without an array"));
        };
        if level.name != "raid1" {
            writeln!(self.volume, "volume {name}").expect("a string");
            return self.plex(&self.shape.expression);
        }
        if members.len() > 8 {
            return Err(Unsayable::new(format!(
                "{} copies: vinum makes 8",
                members.len()
            )));
        }
        self.check_equal(level, members)?;
        writeln!(self.volume, "volume {name} setupstate").expect("a string");
        for member in members {
            match member {
                Expression::Leaf(device) => {
                    writeln!(self.volume, "  plex org concat").expect("a string");
                    self.subdisk(device)?;
                }
                array => self.plex(array)?,
            }
        }
        Ok(())
    }

    fn plex(&mut self, array: &Expression) -> Result<(), Unsayable> {
        let Expression::Array {
            level,
            layout,
            members,
        } = array
        else {
            return Err(Unsayable::new("a device without an array"));
        };
        let organization = organization(level, *layout, members.len())?;
        if organization != "concat" {
            self.check_equal(level, members)?;
        }
        let stripe = match organization {
            "concat" => String::new(),
            _ => format!(" {}b", self.shape.chunk_sectors(level)?),
        };
        writeln!(self.volume, "  plex org {organization}{stripe}").expect("a string");
        for member in members {
            match member {
                Expression::Leaf(device) => self.subdisk(device)?,
                _ => return Err(Unsayable::new("an array as a subdisk")),
            }
        }
        Ok(())
    }

    /// Returns an error if the members are known to differ in size.
    fn check_equal(&self, level: &Level, members: &[Expression]) -> Result<(), Unsayable> {
        match self.writing.smallest(members) {
            Smallest::Uneven(_) => Err(Unsayable::new(format!(
                "{} of devices that differ in size: its subdisks have one size",
                level.name
            ))),
            Smallest::Even | Smallest::Unknown => Ok(()),
        }
    }

    fn subdisk(&mut self, device: &str) -> Result<(), Unsayable> {
        if device == MISSING {
            return Err(Unsayable::new("a missing subdisk"));
        }
        let (name, device) = (self.writing.name("d"), component(device, LABEL_SECTORS)?);
        writeln!(self.drives, "drive {name} device {device}").expect("a string");
        writeln!(self.volume, "    sd length 0 drive {name}").expect("a string");
        Ok(())
    }
}

fn organization(
    level: &'static Level,
    layout: Option<Layout>,
    members: usize,
) -> Result<&'static str, Unsayable> {
    let layout_name = layout.map(|layout| layout.to_string()).unwrap_or_default();
    match (level.name, layout_name.as_str(), members) {
        ("concat", "", _) => Ok("concat"),
        ("raid0", "", 2..) => Ok("striped"),
        ("raid4", "", _) => Ok("raid4"),
        ("raid5", "left-asymmetric", 3..) => Ok("raid5"),
        _ => Err(Unsayable::array(level, layout, members)),
    }
}
