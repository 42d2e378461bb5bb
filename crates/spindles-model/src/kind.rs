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
}

/// Kinds are equal if their names are.
impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}
