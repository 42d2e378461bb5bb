//! Plain arrays: arrays without metadata of ours. No superblock describes the array, so the user
//! gives its shape, and nothing records missing members.

use crate::assemble::{Assembled, EngineOptions};
use crate::configuration::{Configuration, ConfigurationError};
use crate::occupants::occupant;
use crate::report::{ArrayReport, MemberReport, bare_report};
use crate::survey::Survey;
use spindles_array::{NodeId, Stack};
use spindles_block::{BlockIndex, BlockSize, MemberIndex, MemberSet};
use spindles_device::probe::Probe;
use spindles_device::{OpenError, OpenOptions, named_twice};
use spindles_engine::{Config, FaultLimits, ReadPolicy};
use spindles_format::{ErrorCounts, Uuid};
use spindles_layout::{
    Expression, ExpressionError, Geometry, GeometryError, MISSING, Redundancy, Slice, Spec,
    chunk_blocks,
};
use thiserror::Error;

/// What a target that is a plain array begins with.
pub const PREFIX: &str = "plain:";

/// Options of a plain array.
#[derive(Clone, Debug, Default)]
pub struct PlainOptions {
    /// Options for opening the devices.
    pub open: OpenOptions,
    /// Options of the engines.
    pub engine: EngineOptions,
    /// The chunk size of every array in the expression; `None` for each level's default.
    pub chunk_bytes: Option<u64>,
    /// True if redundancy may not match the data, as after a crash.
    pub unclean: bool,
    /// Also open an unclean array with parity that lacks members. Reconstructed data may be wrong.
    pub force: bool,
    /// Open a clean array read-only even if more members are missing than its level survives.
    pub rescue: bool,
}

/// Why a plain array can't be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlainError {
    /// A device could not be opened.
    #[error(transparent)]
    Device(#[from] OpenError),
    /// Two members have bytes in common.
    #[error("{0}")]
    SameDevice(String),
    /// The expression is invalid.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// The configuration can't become an array.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The configuration says only the shape of an array.
    #[error("{text}: words of {dialect} don't say where the data lies on its devices")]
    NotInPlace {
        /// The file or text.
        text: String,
        /// The dialect.
        dialect: &'static str,
    },
    /// The target is a device, not an array.
    #[error("{device} names no level: write plain:LEVEL(DEV,DEV,..)")]
    NoLevel {
        /// The device.
        device: String,
    },
    /// The array is invalid.
    #[error("{array}: {source}")]
    Geometry {
        /// The array, as in the expression.
        array: String,
        /// The reason.
        source: GeometryError,
    },
    /// The engine refused it.
    #[error("{array}: {source}")]
    Engine {
        /// The array, as in the expression.
        array: String,
        /// The reason.
        source: spindles_engine::OpenError,
    },
    /// A slice of an array does not fit.
    #[error("{slice} goes beyond the end of its array, which has {bytes} bytes")]
    Slice {
        /// The slice, as in the expression.
        slice: String,
        /// The size of the array.
        bytes: u64,
    },
    /// A superblock of ours is on a device that is to be written.
    #[error("{device} holds {holds}: writing a plain array there destroys it")]
    Labelled {
        /// The device.
        device: String,
        /// Its data.
        holds: String,
    },
    /// All members of an array are missing.
    #[error("{array} has no member that is there: name at least one device")]
    Empty {
        /// The array, as in the expression.
        array: String,
    },
}

/// Reads of an unclean array of copies see one fixed copy: that of the first present member.
static FIRST_COPY: ReadPolicy = ReadPolicy {
    name: "first",
    about: "the first copy",
    cost: |_, _| 0,
};

/// A target that is a plain array.
#[derive(Clone, Debug)]
pub struct PlainTarget {
    /// The array.
    pub expression: Expression,
    /// Its name in a configuration, if that names it.
    pub name: Option<String>,
    /// The chunk size, if a configuration says it.
    pub chunk_bytes: Option<u64>,
    /// True if a configuration says that redundancy may not match the data.
    pub unclean: bool,
    /// Words of a configuration that have no effect here, and their lines.
    pub notes: Vec<String>,
}

/// Parses a target, an expression or the configuration of another system; `None` if it is no plain
/// array. The flavour is that of the configuration's dialect; `None` for its first.
pub fn parse(target: &str, flavour: Option<&str>) -> Option<Result<PlainTarget, PlainError>> {
    let text = target.strip_prefix(PREFIX)?;
    Some(match Expression::parse(text) {
        Ok(expression) => Ok(PlainTarget {
            expression,
            name: None,
            chunk_bytes: None,
            unclean: false,
            notes: Vec::new(),
        }),
        Err(error) => match Configuration::find(text) {
            Ok(None) => Err(error.into()),
            Ok(Some(configuration)) => in_place(text, &configuration, flavour),
            Err(error) => Err(error.into()),
        },
    })
}

fn in_place(
    text: &str,
    configuration: &Configuration,
    flavour: Option<&str>,
) -> Result<PlainTarget, PlainError> {
    let described = configuration.read(None, flavour)?;
    let array = described.only()?;
    if !array.in_place {
        return Err(PlainError::NotInPlace {
            text: text.to_owned(),
            dialect: described.dialect.name,
        });
    }
    Ok(PlainTarget {
        expression: array.expression,
        name: array.shape.name,
        chunk_bytes: array.shape.chunk_bytes,
        unclean: array.unclean,
        notes: described.notes(),
    })
}

/// Returns true for the report of a plain array, which has no UUID.
#[must_use]
pub fn is_plain(report: &ArrayReport) -> bool {
    report.uuid == Uuid::NIL
}

/// Returns the devices of a plain array. Leaves missing members out.
#[must_use]
pub fn devices(expression: &Expression) -> Vec<&str> {
    let mut devices = expression.leaves();
    devices.retain(|leaf| *leaf != MISSING);
    devices
}

/// Opens the array of these members. Redundancy is taken to agree with the data, unless the options
/// say otherwise. Blocks have 512 bytes if the size of a member or the chunk demands that.
///
/// # Errors
///
/// The device or array of the expression that is invalid, and the reason.
pub fn open(expression: &Expression, options: &PlainOptions) -> Result<Assembled, PlainError> {
    if let Some(twice) = named_twice(&devices(expression)) {
        return Err(PlainError::SameDevice(twice));
    }
    if !options.open.read_only
        && !options.force
        && let Some((device, holds)) = labels(expression).into_iter().next()
    {
        return Err(PlainError::Labelled { device, holds });
    }
    let (stack, nodes) = open_devices(expression, options)?;
    let mut builder = Builder {
        stack,
        nodes: nodes.into_iter(),
        options,
    };
    let (root, report) = builder.array(expression)?;
    Ok(Assembled {
        target: builder.stack.into_target(root),
        report,
    })
}

/// Returns the devices with a superblock of ours, and their contents. The superblock may be on the
/// device of which they are a part.
pub fn labels(expression: &Expression) -> Vec<(String, String)> {
    let label = |probe: &Probe| probe.found().is_labelled().then(|| probe.holds(&[]))?;
    let found = |device| Probe::glance(device).and_then(|probe| occupant(&probe, label));
    let found = devices(expression).into_iter().filter_map(found);
    found.map(|(found, holds)| (found.name, holds)).collect()
}

/// Surveys the array of these members. Members that are missing are no error.
///
/// # Errors
///
/// As for `open`.
pub fn survey(expression: &Expression, options: &PlainOptions) -> Result<Survey, PlainError> {
    let mut options = options.clone();
    options.open.read_only = true;
    (options.force, options.rescue) = (true, true);
    let report = open(expression, &options)?.report;
    Ok(Survey {
        reports: vec![report],
        open: Vec::new(),
        users: Vec::new(),
        needs_force: None,
    })
}

type Nodes = Vec<Option<NodeId>>;

/// Opens the devices, with the block size of the array.
fn open_devices(
    expression: &Expression,
    options: &PlainOptions,
) -> Result<(Stack, Nodes), OpenError> {
    let sectors = Some(BlockSize::B512);
    let wanted = if needs_sectors(expression, options) {
        sectors
    } else {
        options.open.block_size
    };
    match open_blocks(wanted, expression, options) {
        Err(OpenError::NotWhole { .. } | OpenError::TooSmall { .. }) if wanted.is_none() => {
            open_blocks(sectors, expression, options)
        }
        opened => opened,
    }
}

/// Returns true if a chunk, or the start or the length of a slice, is no whole number of larger
/// blocks.
fn needs_sectors(expression: &Expression, options: &PlainOptions) -> bool {
    let cut = |start_bytes: u64, length_bytes: Option<u64>| {
        [start_bytes, length_bytes.unwrap_or(0)]
            .into_iter()
            .any(|bytes| BlockSize::dividing(bytes) == BlockSize::B512)
    };
    let is_cut = match expression {
        Expression::Leaf(name) => {
            Slice::parse(name).is_ok_and(|slice| cut(slice.start_bytes, slice.length_bytes))
        }
        Expression::Slice {
            of,
            start_bytes,
            length_bytes,
        } => cut(*start_bytes, *length_bytes) || needs_sectors(of, options),
        Expression::Array { members, .. } => {
            members.iter().any(|member| needs_sectors(member, options))
        }
    };
    is_cut || cut(options.chunk_bytes.unwrap_or(0), None)
}

/// Opens the devices with blocks of this size, of which each has to be a whole number.
fn open_blocks(
    block_size: Option<BlockSize>,
    expression: &Expression,
    options: &PlainOptions,
) -> Result<(Stack, Nodes), OpenError> {
    let mut stack = Stack::new(&OpenOptions {
        block_size,
        ..options.open.clone()
    })?;
    let block_bytes = stack.block_size().bytes();
    let mut node = |name: &str| {
        if name == MISSING {
            return Ok(None);
        }
        let node = stack.add_device(name)?;
        let bytes = stack.device_facts(node).expect("a device").bytes;
        if !bytes.is_multiple_of(block_bytes.into()) {
            return Err(OpenError::NotWhole {
                device: name.to_owned(),
                bytes,
                block_bytes,
            });
        }
        Ok(Some(node))
    };
    let leaves = expression.leaves().into_iter();
    let nodes = leaves.map(&mut node).collect::<Result<Nodes, _>>()?;
    Ok((stack, nodes))
}

/// A present member: a node, or a part of one.
#[derive(Clone, Copy)]
struct Part {
    node: NodeId,
    start: BlockIndex,
    blocks: u64,
}

/// Builds arrays over open devices, from the leaves up.
struct Builder<'a> {
    stack: Stack,
    /// The devices of the leaves that are left.
    nodes: std::vec::IntoIter<Option<NodeId>>,
    options: &'a PlainOptions,
}

impl Builder<'_> {
    /// Adds a member; `None` if it is missing. Expressions are at most eight arrays deep.
    fn member(
        &mut self,
        expression: &Expression,
    ) -> Result<(Option<Part>, MemberReport), PlainError> {
        let (node, report) = match expression.uncut() {
            Expression::Leaf(name) => match self.nodes.next().expect("a node for every leaf") {
                None => (None, MemberReport::UNSEEN),
                Some(node) => {
                    let report = MemberReport::Device {
                        name: name.clone(),
                        lagging: false,
                        filled_bytes: None,
                        errors: ErrorCounts::NONE,
                    };
                    (Some(node), report)
                }
            },
            array => {
                let (node, report) = self.array(array)?;
                (Some(node), MemberReport::Array(Box::new(report)))
            }
        };
        let part = node.map(|node| self.part(node, expression)).transpose()?;
        Ok((part, report))
    }

    /// Returns the part of a node that an expression cuts out, or all of it.
    fn part(&self, node: NodeId, expression: &Expression) -> Result<Part, PlainError> {
        let all_blocks = self.stack.blocks(node);
        let all = Part {
            node,
            start: BlockIndex(0),
            blocks: all_blocks,
        };
        let Expression::Slice {
            start_bytes,
            length_bytes,
            ..
        } = expression
        else {
            return Ok(all);
        };
        let block_bytes = u64::from(self.stack.block_size().bytes());
        let start = start_bytes / block_bytes;
        let left = all_blocks.checked_sub(start);
        let blocks = length_bytes.map_or(left, |bytes| Some(bytes / block_bytes));
        match (left, blocks) {
            (Some(left), Some(blocks)) if (1..=left).contains(&blocks) => Ok(Part {
                start: BlockIndex(start),
                blocks,
                ..all
            }),
            _ => Err(PlainError::Slice {
                slice: expression.to_string(),
                bytes: all_blocks * block_bytes,
            }),
        }
    }

    fn array(&mut self, expression: &Expression) -> Result<(NodeId, ArrayReport), PlainError> {
        let array = expression.to_string();
        let Expression::Array {
            level,
            layout,
            members,
        } = expression
        else {
            return Err(PlainError::NoLevel { device: array });
        };
        let members = members.iter().map(|member| self.member(member));
        let members: Vec<_> = members.collect::<Result<_, _>>()?;
        let (parts, reports): (Vec<Option<Part>>, Vec<MemberReport>) = members.into_iter().unzip();
        let Some(smallest) = parts.iter().flatten().map(|part| part.blocks).min() else {
            return Err(PlainError::Empty { array });
        };
        let block_size = self.stack.block_size();
        let bytes = self.options.chunk_bytes;
        let chunk = chunk_blocks(bytes.unwrap_or(level.chunk_bytes.into()), block_size);
        // Where every member holds everything, a chunk only must not cut off the end.
        let is_whole = |blocks: &u32| smallest.is_multiple_of((*blocks).into());
        let chunk = chunk.map(|most| match level.redundancy {
            Redundancy::CopyOnEveryMember => (1..=most).rev().find(is_whole).unwrap_or(1),
            _ => most,
        });
        let blocks = |part: &Option<Part>| part.map_or(smallest, |part| part.blocks);
        let geometry = chunk.and_then(|chunk_blocks| {
            Geometry::new(&Spec {
                level,
                layout: *layout,
                chunk_blocks,
                member_blocks: parts.iter().map(blocks).collect(),
            })
        });
        let geometry = match geometry {
            Ok(geometry) => geometry,
            Err(source) => return Err(PlainError::Geometry { array, source }),
        };
        let missing = (0..).map(MemberIndex).zip(&parts);
        let missing = missing.filter_map(|(member, part)| part.is_none().then_some(member));
        let missing: MemberSet = missing.collect();
        let mut report = bare_report(&array, &geometry, block_size, missing);
        report.members = reports;
        report.clean = !self.options.unclean;
        let start = |part: &Option<Part>| part.map_or(BlockIndex(0), |part| part.start);
        let config = Config {
            data_start: parts.iter().map(start).collect(),
            ..self.config(geometry, block_size, missing)
        };
        let nodes: Nodes = (parts.iter()).map(|it| it.map(|it| it.node)).collect();
        match self.stack.add_array(&array, config, &nodes) {
            Ok(node) => Ok((node, report)),
            Err(source) => Err(PlainError::Engine { array, source }),
        }
    }

    fn config(&self, geometry: Geometry, block_size: BlockSize, missing: MemberSet) -> Config {
        let PlainOptions {
            open,
            engine,
            unclean,
            force,
            rescue,
            ..
        } = self.options;
        let config = Config {
            clean: !unclean,
            read_only: open.read_only,
            beyond_tolerance: *rescue,
            // Without missing members, `force` must not weaken the checks.
            force: *force && !missing.is_empty(),
            read_policy: engine.read_policy(),
            job_rate: engine.job_rate(),
            missing,
            ..Config::bare(geometry, block_size, open.requests_max)
        };
        if !unclean {
            return config;
        }
        Config {
            read_policy: &FIRST_COPY,
            // Nothing is computed, and no other copy is read, because a member is slow.
            faults: FaultLimits {
                slow_factor: 0,
                stall_factor: 0,
                ..FaultLimits::DEFAULT
            },
            ..config
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_names_its_array() {
        let name = |target| {
            let parsed = parse(target, None).expect("a plain array");
            parsed.expect("its words").name
        };
        assert_eq!(name("plain:ccd0 16 none a b").as_deref(), Some("ccd0"));
        assert_eq!(name("plain:raid0(a,b)"), None);
    }
}
