//! Members that are modelled disks.

use spindles_device::modelled;
use spindles_host::Machine;
use spindles_model::{Controller, Draw, Parameters, Surroundings, parse_preset, preset};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The begin of the word for modelled members: `model:NAME`.
pub(crate) const PREFIX: &str = modelled::PREFIX;

/// Returns true if a device is a modelled disk, or a part of one.
pub(crate) fn is_modelled(name: &str) -> bool {
    name.strip_prefix("slice(")
        .unwrap_or(name)
        .starts_with(PREFIX)
}

/// The kinds of models that are links, hosts, controllers and software.
const LINK: &str = "link";
const HOST: &str = "host";
const CONTROLLER: &str = "controller";
const SOFTWARE: &str = "software";

/// The model of all members of an experiment.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// The parameters of each disk.
    pub parameters: Arc<Parameters>,
    /// The links from each disk to the host, in this order.
    pub links: Vec<ModelledLink>,
    /// The first byte of each disk that is used.
    pub start_bytes: u64,
    /// How many bytes from there are used; `None` for all.
    pub length_bytes: Option<u64>,
    /// The host that carries out workloads on files; `None` if they are placed on blocks.
    pub host: Option<Arc<Parameters>>,
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
        let parameters = modelled::parameters(name)?;
        Ok(Self {
            parameters: Arc::new(parameters),
            links: Vec::new(),
            start_bytes: 0,
            length_bytes: None,
            host: None,
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

/// Loads a host by its name or its file of parameters.
///
/// # Errors
/// The file that can't be read, its mistake, or that it is no host.
pub fn load_host(name: &str) -> Result<Arc<Parameters>, String> {
    let parameters = load(name, HOST)?;
    machine(&parameters, &Draw::exact())?;
    Ok(Arc::new(parameters))
}

/// Loads a controller by its name or its file of parameters.
///
/// # Errors
/// The file that can't be read, its mistake, or that it is no controller.
pub fn load_controller(name: &str) -> Result<Arc<Parameters>, String> {
    let parameters = load(name, CONTROLLER)?;
    let around = Surroundings {
        openings: 1,
        sorts: false,
        stripe_bytes: 1 << 20,
        capacity_bytes: 1 << 30,
        sets: 1,
    };
    let built = Controller::new(&parameters, &Draw::exact(), around);
    built.map_err(|fault| fault.to_string())?;
    Ok(Arc::new(parameters))
}

/// Loads the software of an array by its name or its file of parameters.
///
/// # Errors
/// The file that can't be read, its mistake, or that it is no software.
pub fn load_software(name: &str) -> Result<Arc<Parameters>, String> {
    load(name, SOFTWARE).map(Arc::new)
}

/// Returns the factor on the host's costs of arrays in a draw.
pub(crate) fn cost_factor(software: &Parameters, draw: &Draw) -> f64 {
    let numbers = software.drawn(draw);
    numbers.get("cost_factor").copied().unwrap_or(1.0)
}

/// Loads parameters of a kind by their name or their file.
fn load(name: &str, kind: &str) -> Result<Parameters, String> {
    let path = Path::new(name);
    let parameters = if path.is_file() {
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        parse_preset(name, &text)
    } else {
        preset(name)
    };
    let parameters = parameters.map_err(|fault| fault.to_string())?;
    if parameters.kind.name != kind {
        return Err(format!(
            "{name} is no {kind}: choose one of the models of kind {kind}"
        ));
    }
    Ok(parameters)
}

/// Returns the machine of a host in a draw.
///
/// # Errors
/// The number that is missing.
pub(crate) fn machine(host: &Parameters, draw: &Draw) -> Result<Machine, String> {
    let numbers = host.drawn(draw);
    let machine = Machine::new(
        |key| numbers.get(key).copied(),
        |key| host.drawn_word(draw, key),
    );
    machine.map_err(|key| format!("{}: {key} is missing: add it", host.name))
}

/// Requests that a system without tags sends to a disk at once.
const WITHOUT_TAGS: f64 = 1.0;

/// Requests that a controller has from workloads without a host, at most.
const WITHOUT_HOST: u32 = 256;

/// Returns the number of requests that a host sends to a disk at once.
fn openings(host: &Parameters, draw: &Draw) -> f64 {
    let has_tags = host.drawn_word(draw, "tags") == Some("on");
    let openings = host.drawn(draw).get("openings").copied();
    openings.filter(|_| has_tags).unwrap_or(WITHOUT_TAGS)
}

impl Modelled {
    /// Returns how many requests the host sends at once to what it takes for one disk, and whether
    /// it sorts the others by place.
    pub(crate) fn queue(&self, draw: &Draw) -> (u32, bool) {
        let Some(host) = &self.host else {
            return (WITHOUT_HOST, false);
        };
        let queue = host.drawn_word(draw, "queue");
        let sorts = queue.is_some_and(|queue| queue != FIFO);
        (whole(openings(host, draw)), sorts)
    }

    /// Returns the parameters of the disks in a draw. Without a controller the host decides how
    /// many requests a disk has at once, and in which order it gets the others.
    pub(crate) fn disk(
        &self,
        draw: &Draw,
        has_controller: bool,
    ) -> Result<Arc<Parameters>, String> {
        let mut disk = Arc::clone(&self.parameters);
        let Some(host) = self.host.as_ref().filter(|_| !has_controller) else {
            return Ok(disk);
        };
        let changed = Arc::make_mut(&mut disk);
        let has = |key: &str| changed.kind.numbers.iter().any(|rule| rule.key == key);
        if has("depth") {
            let openings = openings(host, draw);
            let own = changed.drawn(draw).get("depth").copied();
            let depth = own.map_or(openings, |own| own.min(openings));
            changed.fix("depth", depth, "the host's openings");
        }
        let takes = |key: &str| changed.kind.switches.iter().any(|rule| rule.key == key);
        if let Some(queue) = host
            .drawn_word(draw, "queue")
            .filter(|_| takes("host_discipline"))
        {
            let set = changed.set("host_discipline", queue);
            set.map_err(|fault| fault.to_string())?;
        }
        Ok(disk)
    }
}

/// The queue that keeps the order of arrival.
const FIFO: &str = "fifo";

/// Rounds a small count, at least 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, which is the intent"
)]
fn whole(count: f64) -> u32 {
    (count.round() as u32).max(1)
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
            && self.start_bytes == other.start_bytes
            && self.length_bytes == other.length_bytes
            && match (&self.host, &other.host) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() == other.is_none(),
            }
    }
}

impl Eq for Modelled {}
