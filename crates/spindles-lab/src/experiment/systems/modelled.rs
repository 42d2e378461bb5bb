//! Members that are modelled disks.

use spindles_model::{DriveTexts, Parameters, parse_drive, parse_preset};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The begin of the word for modelled members: `model:NAME`.
pub(crate) const PREFIX: &str = spindles_device::modelled::PREFIX;

/// Returns true if a device is a modelled disk.
pub(crate) fn is_modelled(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The model of all members of an experiment.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// The parameters of each disk.
    pub parameters: Arc<Parameters>,
    /// Where the numbers that are not exactly known come from.
    pub draws: Draws,
}

/// How a repetition block chooses the numbers that are not exactly known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draws {
    /// Each block draws every number between its low and its high.
    #[default]
    Drawn,
    /// Every block takes the nominal values, and draws only the angles of the spindles.
    Nominal,
}

impl Modelled {
    /// Loads a model: a file of parameters, or the folder of a measured drive.
    ///
    /// # Errors
    /// The file that can't be read, or its mistake.
    pub fn load(name: &str) -> Result<Self, String> {
        let path = Path::new(name);
        let read = |path: &Path| {
            let text = fs::read_to_string(path);
            text.map_err(|error| format!("{}: {error}", path.display()))
        };
        let parameters = if path.is_dir() {
            let [drive, seek, extents] =
                ["drive.toml", "seek.csv", "extents.csv"].map(|file| read(&path.join(file)));
            parse_drive(&DriveTexts {
                folder: name,
                drive: &drive?,
                seek: &seek?,
                extents: &extents?,
            })
        } else {
            parse_preset(name, &read(path)?)
        };
        Ok(Self {
            parameters: Arc::new(parameters.map_err(|fault| fault.to_string())?),
            draws: Draws::default(),
        })
    }
}

/// Models are equal if they are the same one.
impl PartialEq for Modelled {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.parameters, &other.parameters) && self.draws == other.draws
    }
}

impl Eq for Modelled {}
