//! A kind of devices: the keys that it reads.

/// A number that a kind reads.
#[derive(Clone, Copy, Debug)]
pub struct NumberRule {
    /// The key.
    pub key: &'static str,
    /// The least value allowed.
    pub least: f64,
    /// The largest value allowed.
    pub most: f64,
    /// The meaning, with the unit.
    pub about: &'static str,
}

/// Returns the rule of a number.
pub(crate) const fn number(
    key: &'static str,
    least: f64,
    most: f64,
    about: &'static str,
) -> NumberRule {
    NumberRule {
        key,
        least,
        most,
        about,
    }
}

/// A switch that a kind reads.
#[derive(Clone, Copy, Debug)]
pub struct SwitchRule {
    /// The key.
    pub key: &'static str,
    /// The words it takes; the first is the default.
    pub words: &'static [&'static str],
    /// What it decides.
    pub about: &'static str,
}

/// A part of a device that can be made faster: the numbers that describe it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The name.
    pub name: &'static str,
    /// Keys of times, or the beginnings of keys.
    pub times: &'static [&'static str],
    /// Keys of rates, or the beginnings of keys.
    pub rates: &'static [&'static str],
}

/// A kind of device.
#[derive(Debug)]
pub struct Kind {
    /// The name that presets use.
    pub name: &'static str,
    /// One line for help.
    pub about: &'static str,
    /// The numbers it reads.
    pub numbers: &'static [NumberRule],
    /// The switches it reads.
    pub switches: &'static [SwitchRule],
    /// The parts that can be made faster.
    pub parts: &'static [Part],
}

/// Kinds are equal if their names are.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
