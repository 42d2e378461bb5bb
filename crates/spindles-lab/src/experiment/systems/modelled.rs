//! Members that are modelled disks.

use spindles_device::modelled;
use spindles_model::{Parameters, preset};
use std::sync::Arc;

/// The begin of the word for modelled members: `model:NAME`.
pub(crate) const PREFIX: &str = modelled::PREFIX;

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
        let parameters = modelled::parameters(name)?;
        Ok(Self {
            parameters: Arc::new(parameters),
            links: Vec::new(),
            draws: Draws::default(),
        })
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
