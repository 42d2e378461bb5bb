//! Runs on modelled disks: the draw of each block, and what of a run's record the disks determine.

use super::state::Runner;
use crate::experiment::SystemSpec;
use crate::experiment::systems::kinds;
use crate::experiment::systems::modelled::{Draws, Modelled};
use crate::measure::schedule;
use spindles_device::modelled::Stored;
use spindles_layout::Expression;
use spindles_measure::{CacheUse, Cpu, Evidence, Predicted, Run};
use spindles_model::{Draw, How};
use std::io;

impl Runner<'_> {
    /// Replaces modelled members by those of the draw of a block, the same for every system.
    pub(super) fn renew_members(&mut self, block: u32, side: usize) -> io::Result<()> {
        let Some(model) = self.model() else {
            return Ok(());
        };
        let draw = draw(model, seed_of(self.experiment.seed, block));
        let stored = stored(&self.sides[side].spec);
        let model = model.clone();
        self.pool.renew(&model, &draw, stored)
    }

    /// The model of the members, with the part that is faster now.
    fn model(&self) -> Option<&Modelled> {
        let faster = self.faster.as_ref().map(|(_, model)| model);
        faster.or(self.experiment.members.modelled())
    }

    /// Keeps of a run on modelled disks what they determine, and names the model. Nothing that the
    /// machine did meanwhile stays.
    pub(super) fn mark_predicted(&self, run: &mut Run) {
        let Some(model) = self.model() else {
            return;
        };
        let seed = seed_of(self.experiment.seed, run.repetition_block);
        let mut predicted = predicted(model, seed);
        predicted.faster = self.faster.as_ref().map(|(part, _)| part.clone());
        run.predicted = Some(predicted);
        run.started_unix_ms = 0;
        run.cpu_ns = Cpu::default();
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

fn predicted(model: &Modelled, seed: u64) -> Predicted {
    let parameters = &model.parameters;
    let draw = draw(model, seed);
    let links = model.links.iter().flat_map(|link| {
        let name = &link.parameters.name;
        let numbers = link.parameters.drawn(&draw).into_iter();
        let numbers: Vec<_> = numbers
            .map(|(key, value)| (format!("{name} {key}"), value))
            .collect();
        numbers
    });
    let inferred = parameters.drawn_inferred(&draw).unwrap_or_default();
    let numbers = parameters.drawn(&draw).into_iter();
    let numbers = numbers.map(|(name, value)| (name.to_owned(), value));
    let numbers = numbers.chain(inferred).chain(links);
    let switches = parameters.drawn_words(&draw).into_iter();
    let switches = switches.map(|(name, word)| (name.to_owned(), word.to_owned()));
    let assumed = (parameters.numbers.iter())
        .filter(|(_, number)| number.how == How::Assumed)
        .map(|(name, _)| name)
        .chain(
            (parameters.switches.iter())
                .filter(|(_, switch)| switch.how == How::Assumed)
                .map(|(name, _)| name),
        );
    Predicted {
        model: parameters.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        draw: seed,
        numbers: numbers.collect(),
        switches: switches.collect(),
        assumed: assumed.cloned().collect(),
        faster: None,
    }
}

/// Returns the bytes that disks under a system store. Arrays in an array have metadata of the outer
/// array among their payload.
fn stored(spec: &SystemSpec) -> Stored {
    let nests = |expression: Expression| match expression {
        Expression::Array { members, .. } => {
            let is_array = |member: &Expression| matches!(member, Expression::Array { .. });
            members.iter().any(is_array)
        }
        Expression::Leaf(_) | Expression::Slice { .. } => false,
    };
    if kinds::parse(&spec.target).is_ok_and(nests) {
        Stored::All
    } else {
        Stored::Metadata
    }
}
