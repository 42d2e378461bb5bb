//! Runs on modelled disks: the draw of each block, and what of a run's record the disks determine.

use super::state::{Runner, moves_blocks};
use crate::experiment::SystemSpec;
use crate::experiment::systems::modelled::{Draws, Modelled, cost_factor, machine};
use crate::experiment::systems::{ModelledFileSystem, kinds};
use crate::measure::files::HostPlan;
use crate::measure::schedule;
use crate::run::preflight::file_system_on_host;
use crate::systems::controlled::ControllerPlan;
use spindles_device::modelled::Stored;
use spindles_layout::{Expression, Geometry, Spec};
use spindles_measure::{CacheUse, Cpu, Evidence, Predicted, Run};
use spindles_model::{Draw, How, Parameters};
use std::io;
use std::sync::Arc;

impl Runner<'_> {
    /// Replaces modelled members by those of the draw of a block, the same for every system.
    pub(super) fn renew_members(&mut self, block: u32, side: usize) -> io::Result<()> {
        let Some(model) = self.model() else {
            return Ok(());
        };
        let draw = draw(model, seed_of(self.experiment.seed, block));
        let spec = &self.sides[side].spec;
        let (stored, has_controller) = (stored(spec), spec.controller.is_some());
        let model = model.clone();
        self.pool.renew(&model, &draw, stored, has_controller)
    }

    /// The model of the members, with the part that is faster now.
    fn model(&self) -> Option<&Modelled> {
        let faster = self.faster.as_ref().map(|(_, model)| model);
        faster.or(self.experiment.members.modelled())
    }

    /// Returns the host of a block that carries out workloads on files on a system, if any.
    pub(super) fn host_plan(
        &self,
        block: u32,
        spec: &SystemSpec,
    ) -> Result<Option<HostPlan>, String> {
        let model = self.experiment.members.modelled();
        let host = model.and_then(|model| model.host.as_ref().map(|host| (model, host)));
        let fs = file_system_on_host(self.experiment, spec);
        let (Some((model, host)), Some(fs)) = (host, fs) else {
            return Ok(None);
        };
        let draw = draw(model, seed_of(self.experiment.seed, block));
        let machine = machine(host, &draw)?;
        let factor = spec.software.as_ref();
        let factor = factor.map_or(1.0, |software| cost_factor(software, &draw));
        Ok(Some(HostPlan {
            machine: machine.with_array_costs(factor),
            fs,
        }))
    }

    /// Returns the modelled controller of a system in a block, if any.
    pub(super) fn controller_plan(&self, block: u32, spec: &SystemSpec) -> Option<ControllerPlan> {
        let model = self.experiment.members.modelled()?;
        let parameters = spec.controller.as_ref()?;
        let draw = draw(model, seed_of(self.experiment.seed, block));
        Some(ControllerPlan {
            parameters: Arc::clone(parameters),
            queue: model.queue(&draw),
            draw,
            sets: sets_of(spec),
        })
    }

    /// Keeps of a run on modelled disks what they determine, and names the model. Nothing that the
    /// machine did meanwhile stays.
    pub(super) fn mark_predicted(&self, run: &mut Run) {
        let Some(model) = self.model() else {
            return;
        };
        let seed = seed_of(self.experiment.seed, run.repetition_block);
        let workload_ns = run.cpu_ns.workload;
        let is_on_host = run.predicted.take().is_some();
        let mut about = predicted(model, seed);
        about.faster = self.faster.as_ref().map(|(part, _)| part.clone());
        let mut sides = self.sides.iter();
        let side = sides.find(|side| side.spec.name == run.system.name);
        if let Some(spec) = side.map(|side| &side.spec) {
            let draw = draw(model, seed);
            let parts = [&spec.controller, &spec.software].into_iter().flatten();
            for part in parts {
                add(&mut about, part, &draw, &format!("{} ", part.kind.name));
            }
        }
        run.cpu_ns = Cpu::default();
        if let Some(fs) = self.file_system_of(run).filter(|_| is_on_host) {
            // The time of the modelled processors.
            run.cpu_ns.workload = workload_ns;
            run.cpu_ns.machine = workload_ns;
            fs.row.name.clone_into(&mut about.file_system);
            let left_out = fs.row.not_modelled.iter();
            about.not_modelled = left_out.map(|&text| text.to_owned()).collect();
        }
        run.predicted = Some(about);
        run.started_unix_ms = 0;
        run.doubts.clear();
        run.devices = None;
        if let Some(evidence) = run.evidence.take() {
            run.evidence = Some(Evidence {
                actors: evidence.actors,
                actor_ns: evidence.actor_ns,
                members: evidence.members,
                cache: CacheUse {
                    file_bytes: evidence.cache.file_bytes,
                    ..CacheUse::default()
                },
                ..Evidence::default()
            });
        }
    }

    /// Returns the modelled file system of a run's system.
    fn file_system_of(&self, run: &Run) -> Option<ModelledFileSystem> {
        let mut sides = self.sides.iter();
        let side = sides.find(|side| side.spec.name == run.system.name)?;
        file_system_on_host(self.experiment, &side.spec)
    }
}

/// Returns the seed of the draw of a block.
fn seed_of(experiment: u64, block: u32) -> u64 {
    schedule::Draw::new(experiment, 8, block.into()).number()
}

fn draw(model: &Modelled, seed: u64) -> Draw {
    match model.draws {
        Draws::Drawn => Draw::seeded(seed),
        Draws::Nominal => Draw::nominal(seed),
    }
}

/// Describes a draw: the numbers of the disks, and those of links and host with a name before them.
fn predicted(model: &Modelled, seed: u64) -> Predicted {
    let draw = draw(model, seed);
    let mut about = Predicted {
        model: model.parameters.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        draw: seed,
        ..Predicted::default()
    };
    add(&mut about, &model.parameters, &draw, "");
    for link in &model.links {
        let prefix = format!("{} ", link.parameters.name);
        add(&mut about, &link.parameters, &draw, &prefix);
    }
    if let Some(host) = &model.host {
        about.host.clone_from(&host.name);
        add(&mut about, host, &draw, "host ");
    }
    about
}

/// Adds the drawn numbers and switches of parameters, and the names of those that are only assumed.
fn add(about: &mut Predicted, parameters: &Parameters, draw: &Draw, prefix: &str) {
    let named = |name: &str| format!("{prefix}{name}");
    let numbers = parameters.drawn(draw).into_iter();
    let numbers = numbers.map(|(name, value)| (named(name), value));
    let inferred = parameters.drawn_inferred(draw).unwrap_or_default();
    let inferred = inferred
        .into_iter()
        .map(|(name, value)| (named(&name), value));
    about.numbers.extend(numbers.chain(inferred));
    let switches = parameters.drawn_words(draw).into_iter();
    let switches = switches.map(|(name, word)| (named(name), word.to_owned()));
    about.switches.extend(switches);
    let numbers = parameters.numbers.iter();
    let numbers = numbers.filter(|(_, number)| number.how == How::Assumed);
    let switches = parameters.switches.iter();
    let switches = switches.filter(|(_, switch)| switch.how == How::Assumed);
    let assumed = numbers.map(|(name, _)| name);
    let assumed = assumed.chain(switches.map(|(name, _)| name));
    about.assumed.extend(assumed.map(|name| named(name)));
}

/// Returns the arrays with redundancy that a system consists of, one after the other; `None` if it
/// is one.
fn sets_of(spec: &SystemSpec) -> Option<(u32, u64)> {
    let Expression::Array { members, .. } = kinds::parse(&spec.target).ok()? else {
        return None;
    };
    let shapes = members.iter().map(|member| match member {
        Expression::Array {
            level,
            layout,
            members,
        } => Some((*level, *layout, members.len())),
        Expression::Leaf(_) | Expression::Slice { .. } => None,
    });
    let shapes: Vec<_> = shapes.collect::<Option<_>>()?;
    // The file system takes each for a disk.
    let parts = spec.modelled_fs.as_ref().map_or(0, |fs| fs.options.disks);
    let is_row = usize::try_from(parts).is_ok_and(|parts| parts == shapes.len());
    let &(level, layout, disks) = shapes.first().filter(|_| is_row)?;
    if shapes.iter().any(|shape| *shape != (level, layout, disks)) {
        return None;
    }
    // Stripes do not depend on sizes: two periods of any layout are enough.
    let rows = u64::try_from(disks * disks * 2).ok()?;
    let geometry = Geometry::new(&Spec {
        level,
        layout,
        chunk_blocks: 1,
        member_blocks: vec![rows; disks],
    });
    let geometry = geometry.ok().filter(|geometry| geometry.redundancy() > 0)?;
    let chunk_bytes = spec.chunk_bytes.unwrap_or(level.chunk_bytes.into());
    Some((
        u32::try_from(members.len()).ok()?,
        chunk_bytes * u64::from(geometry.data_chunks()),
    ))
}

/// Returns the bytes that disks under a system store. Arrays in an array have metadata of the outer
/// array among their payload, unless they are plain.
fn stored(spec: &SystemSpec) -> Stored {
    let nests = |expression: Expression| match expression {
        Expression::Array { members, .. } => {
            let is_array = |member: &Expression| matches!(member, Expression::Array { .. });
            members.iter().any(is_array)
        }
        Expression::Leaf(_) | Expression::Slice { .. } => false,
    };
    if !moves_blocks(spec) && kinds::parse(&spec.target).is_ok_and(nests) {
        Stored::All
    } else {
        Stored::Metadata
    }
}
