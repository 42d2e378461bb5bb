//! Members that are modelled disks.

use spindles_model::{DriveTexts, Parameters, parse_drive, parse_preset, preset};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The begin of the word for modelled members: `model:NAME`.
pub(crate) const PREFIX: &str = spindles_device::modelled::PREFIX;

/// Returns true if a device is a modelled disk.
pub(crate) fn is_modelled(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// The kind of models that are links.
const LINK: &str = "link";

/// The model of all members of an experiment.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// The parameters of each disk.
    pub parameters: Arc<Parameters>,
    /// The links from each disk to the host, in this order.
    pub links: Vec<ModelledLink>,
    /// Where the numbers that are not exactly known come from.
    pub draws: Draws,
    /// True if all blocks run again with each part a tenth faster.
    pub what_would_help: bool,
}

/// A link between the disks and the host.
#[derive(Clone, Debug)]
pub struct ModelledLink {
    /// Its parameters.
    pub parameters: Arc<Parameters>,
    /// True if all disks share it; false if each has one.
    pub is_shared: bool,
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
    /// Loads a model by its name, its file of parameters, or the folder of a measured drive.
    ///
    /// # Errors
    /// The file that can't be read, or its mistake.
    pub fn load(name: &str) -> Result<Self, String> {
        if name.is_empty() {
            return Err("give the name of a model, as in model:exos-x18-18tb".to_owned());
        }
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
        } else if path.is_file() {
            parse_preset(name, &read(path)?)
        } else {
            preset(name)
        };
        let parameters = parameters.map_err(|fault| fault.to_string())?;
        if parameters.kind.name == LINK {
            return Err(format!("{name} is a link, and members are disks"));
        }
        Ok(Self {
            parameters: Arc::new(parameters),
            links: Vec::new(),
            draws: Draws::default(),
            what_would_help: false,
        })
    }

    /// Returns a model for each part of the disks and of the links, with this part `factor` times
    /// as fast.
    pub(crate) fn with_faster_parts(&self, factor: f64) -> Vec<(String, Self)> {
        let parts = self.parameters.kind.parts.iter();
        let mut all: Vec<(String, Self)> = parts
            .filter_map(|part| {
                let mut model = self.clone();
                model.parameters = Arc::new(self.parameters.faster(part, factor)?);
                Some((part.name.to_owned(), model))
            })
            .collect();
        for at in 0..self.links.len() {
            let parameters = &self.links[at].parameters;
            let mut model = self.clone();
            let parts = parameters.kind.parts.iter();
            for faster in parts.filter_map(|part| parameters.faster(part, factor)) {
                model.links[at].parameters = Arc::new(faster);
            }
            all.push((format!("link {}", parameters.name), model));
        }
        all
    }

    /// Adds a link between the links so far and the host: a name, and `each` or `shared`.
    ///
    /// # Errors
    /// The mistake in the text.
    pub(crate) fn add_link(&mut self, text: &str) -> Result<(), String> {
        let Some((name, how @ ("each" | "shared"))) = text.rsplit_once(' ') else {
            return Err(format!(
                "the link \"{text}\" is not possible: write its name, and `each` or `shared`, as \
                 in \"sata-600 each\""
            ));
        };
        let parameters = preset(name).map_err(|fault| fault.to_string())?;
        if parameters.kind.name != LINK {
            return Err(format!(
                "{name} is no link: choose one of the models of kind link"
            ));
        }
        self.links.push(ModelledLink {
            parameters: Arc::new(parameters),
            is_shared: how == "shared",
        });
        Ok(())
    }
}

/// Two values are equal if they share one loaded model, its links and its draws.
impl PartialEq for Modelled {
    fn eq(&self, other: &Self) -> bool {
        let pairs = self.links.iter().zip(&other.links);
        let mut same = pairs.map(|(one, other)| {
            Arc::ptr_eq(&one.parameters, &other.parameters) && one.is_shared == other.is_shared
        });
        Arc::ptr_eq(&self.parameters, &other.parameters)
            && self.links.len() == other.links.len()
            && same.all(|is_same| is_same)
            && self.draws == other.draws
    }
}

impl Eq for Modelled {}
