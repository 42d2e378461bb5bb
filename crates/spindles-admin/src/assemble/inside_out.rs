//! Opens nested arrays from the inside out.

use super::config::config;
use super::described::{Described, knows};
use super::opening::{Opening, read_found};
use super::parts::{Candidate, Lost, innermost, leaves};
use crate::errors::AssembleError;
use crate::write_back;
use spindles_array::NodeId;
use spindles_block::MemberSet;
use spindles_device::random;
use spindles_engine::{Command, Config, OpenError as EngineError};
use spindles_format::{
    AssembleError as ChooseError, Assembly, DecodeError, Found, Reason, Refusal, SUPERBLOCK_BYTES,
    Uuid,
};
use std::mem::take;

/// The remedy for an array that has not taken its place yet.
const GOES_ON: &str = "; the rebuild that was to fill it goes on when it is given again";

impl Opening<'_> {
    /// Opens all inner arrays, from the inside out. Returns the parts of the outermost array.
    pub(super) fn open_inner(
        &mut self,
        mut parts: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, AssembleError> {
        while let Some(inner) = innermost(&parts) {
            let (mut members, others): (Vec<Candidate>, _) = parts
                .into_iter()
                .partition(|part: &Candidate| part.array() == Some(inner));
            parts = others;
            parts.extend(self.open(&mut members)?);
        }
        Ok(parts)
    }

    /// Opens the array of these parts. `None` for an inner array that lacks too many members: the
    /// outer array may continue without it.
    pub(super) fn open(
        &mut self,
        parts: &mut [Candidate],
    ) -> Result<Option<Candidate>, AssembleError> {
        let is_inner = parts.iter().any(|part| part.parent().is_some());
        let mut described = match self.describe(parts) {
            // Each device was refused with a reason, or some devices continued without the others.
            Err(
                error @ AssembleError::Choose(
                    ChooseError::NothingLeft { .. } | ChooseError::SplitBrain { .. },
                ),
            ) if is_inner => {
                self.lost.extend(Lost::refused(parts, error.to_string()));
                return Ok(None);
            }
            described => described?,
        };
        if described.report.failed && !self.rescues(&described) {
            let missing = described.assembly.missing;
            return self.lacks_too_much(described, parts, missing);
        }
        if described.assembly.array.is_unfinished() {
            let name = &described.report.name;
            let why = format!("array '{name}' was being made, and is not finished{GOES_ON}");
            self.lost.push(Lost::new(&described.assembly, parts, why));
            return Ok(None);
        }
        let mut asks = self.asks(&described, parts);
        // A look first reports other obstacles.
        if let Some(asks) = asks.take_if(|_| !is_inner && !self.look_only) {
            return Err(asks);
        }
        self.leave_out(&described, parts)?;
        for refusal in &described.assembly.refused {
            let part = &mut parts[refusal.found];
            let outdated = part.outdated.take();
            self.outdated
                .extend(outdated.map(|lost| lost.stands(part, &refusal.reason)));
        }
        let is_left_out = self.left_out.contains(&described.assembly.array.uuid);
        let read_only = self.read_only || described.assembly.read_only || is_left_out;
        if read_only {
            let journal = described.journal.iter().map(|(_, _, node)| *node);
            for node in parts.iter().map(|part| part.node).chain(journal) {
                self.stack.protect(node);
            }
        }
        self.catch_up(&described, parts)?;
        let config = self.config(&mut described, read_only)?;
        match self.add_array(&described, config, parts, read_only) {
            Ok(node) => match asks {
                Some(asks) if !is_inner => Err(asks),
                asks => Ok(self.opened(described, node, parts, asks)),
            },
            Err(EngineError::BeyondTolerance { missing }) => {
                self.lacks_too_much(described, parts, missing)
            }
            Err(EngineError::UncleanDegraded { missing }) => {
                let asks = asks.is_some() || self.options.degraded;
                Err(described.unclean(missing, asks))
            }
        }
    }

    /// Returns true if an array that lacks too many members is opened to rescue its readable data.
    /// Not for inner arrays: the outer array may continue without them.
    fn rescues(&self, described: &Described) -> bool {
        let array = &described.assembly.array;
        self.options.rescue
            && self.read_only
            && array.parent == Uuid::NIL
            && described.report.clean
            && array.growth.older.is_none()
    }

    /// Returns the reason not to write this array, or an inner array that takes part in it: missing
    /// members hold data that the write would discard.
    fn asks(&self, described: &Described, parts: &mut [Candidate]) -> Option<AssembleError> {
        let taken = self.taken(described);
        let mut inner = taken.iter().filter_map(|&index| parts[index].asks.take());
        let writes = (self.look_only || !self.read_only) && !described.assembly.read_only;
        let is_allowed = self.options.degraded || described.assembly.array.degraded_writes;
        inner
            .next()
            .or_else(|| (writes && !is_allowed).then(|| described.asks(self.options.force))?)
    }

    /// Returns the parts that an array opened for writing takes: its members, and returning
    /// members.
    fn taken(&self, described: &Described) -> Vec<usize> {
        let Assembly {
            devices, refused, ..
        } = &described.assembly;
        let returning = (refused.iter())
            .filter(|refusal| knows(refusal) && !self.options.only_recovers)
            .map(|refusal| refusal.found);
        devices.iter().flatten().copied().chain(returning).collect()
    }

    /// During a look, records the arrays that their outer arrays continue without. They must not be
    /// written afterwards.
    fn leave_out(
        &mut self,
        described: &Described,
        parts: &[Candidate],
    ) -> Result<(), AssembleError> {
        let arrays = |index: usize| parts[index].arrays();
        if self.look_only {
            let gone_on = |refusal: &&Refusal| {
                matches!(refusal.reason, Reason::Stale { .. } | Reason::Replaced)
                    || knows(refusal) && self.options.only_recovers
            };
            let refused = described.assembly.refused.iter().filter(gone_on);
            self.left_out
                .extend(refused.flat_map(|refusal| arrays(refusal.found)));
        } else if (self.taken(described).into_iter().flat_map(arrays))
            .any(|array| self.left_out.contains(&array))
        {
            return Err(AssembleError::Changed);
        }
        Ok(())
    }

    /// Opens the engine of an array over its parts. Returning members begin to catch up.
    fn add_array(
        &mut self,
        described: &Described,
        config: Config,
        parts: &[Candidate],
        read_only: bool,
    ) -> Result<NodeId, EngineError> {
        let assembly = &described.assembly;
        let mut nodes: Vec<Option<NodeId>> = (assembly.devices.iter())
            .map(|index| index.map(|index| parts[index].node))
            .collect();
        let returns = !read_only && !self.options.only_recovers;
        let returning = (assembly.refused.iter())
            .filter(|_| returns)
            .filter(|refusal| knows(refusal));
        let returning = returning.filter_map(|refusal| {
            let (_, device) = parts[refusal.found].found.record().ok()?;
            Some((device.member, *device, parts[refusal.found].node))
        });
        let returning: Vec<_> = returning.collect();
        for (member, _, node) in &returning {
            nodes[usize::from(member.0)] = Some(*node);
        }
        let journal = described.journal.as_ref().map(|(_, _, node)| *node);
        let name = &described.report.name;
        let node = (self.stack).add_array_with_journal(name, config, &nodes, journal)?;
        for (member, device, _) in returning {
            let device = Box::new(device);
            // If that fails the array continues without it; the refusal says so.
            _ = self.stack.command(node, Command::Return { member, device });
        }
        Ok(node)
    }

    /// Turns an open array into a part of the one around it. `None` if it holds no data yet.
    fn opened(
        &mut self,
        described: Described,
        node: NodeId,
        parts: &[Candidate],
        asks: Option<AssembleError>,
    ) -> Option<Candidate> {
        let is_inner = parts.iter().any(|part| part.parent().is_some());
        let mut report = described.report;
        let name = &report.name;
        let block_bytes = u64::from(described.assembly.array.block_size.bytes());
        let bytes = self.stack.blocks(node) * block_bytes;
        let of_it = format!("array '{name}'");
        // An inner array holds the superblock of the outer array.
        let found = if is_inner {
            read_found(&mut self.stack, node, of_it, bytes)
        } else {
            Found::new(of_it, bytes, [Err(DecodeError::NotOurs); 2])
        };
        if is_inner && found.record() == Err(DecodeError::NotOurs) {
            let why = format!("array '{name}' is empty: nothing was written to it yet{GOES_ON}");
            self.lost.push(Lost::new(&described.assembly, parts, why));
            return None;
        }
        report.bytes = bytes;
        if let Some(growing) = &mut report.growing {
            growing.moved_bytes = growing.moved_bytes.min(bytes);
        }
        Some(Candidate {
            node,
            found,
            outdated: Some(Lost::new(&described.assembly, parts, String::new())),
            report: Some(report),
            leaves: leaves(parts),
            asks,
        })
    }

    /// Continues without an inner array that lacks these members. The outer array may tolerate
    /// that.
    fn lacks_too_much(
        &mut self,
        mut described: Described,
        parts: &[Candidate],
        missing: MemberSet,
    ) -> Result<Option<Candidate>, AssembleError> {
        let error = described.incomplete(missing);
        if described.assembly.array.parent == Uuid::NIL {
            return Err(error);
        }
        let mut lost = Lost::new(&described.assembly, parts, error.to_string());
        described.report.refused = Vec::new();
        lost.report = Some(described.report);
        self.lost.push(lost);
        Ok(None)
    }

    /// Returns the engine configuration of the array, with its changes applied.
    fn config(&self, described: &mut Described, read_only: bool) -> Result<Config, AssembleError> {
        let open = &self.options.open;
        let assembly = &described.assembly;
        let array = &assembly.array;
        let engine = &self.options.engine;
        let drawn = match engine.drawn {
            Some(drawn) => drawn,
            None => random::nonce()?,
        };
        let mut config = Config {
            read_only,
            beyond_tolerance: self.rescues(described),
            // The outer array keeps its metadata in the inner array, with separate checksums.
            // Identifying the arrays needs no proof of it.
            look_only: self.look_only || read_only && array.parent != Uuid::NIL,
            force: self.options.force,
            only_recovers: self.options.only_recovers,
            job_rate: engine.job_rate(),
            read_policy: engine.read_policy(),
            ..config(
                array,
                assembly.records.clone(),
                described.geometry.clone(),
                described.policy,
                assembly.nonce(drawn),
                open.requests_max,
            )
        };
        if engine.drawn.is_some() {
            config.limits.dirty_bytes = 0; // Marking regions ahead of writes depends on time.
        }
        if let Some(persistence) = &mut config.persistence {
            persistence.opened_s = persistence.opened_s.filter(|_| engine.drawn.is_none());
            persistence.journal_device = described.journal.as_ref().map(|(_, device, _)| *device);
            take(&mut described.changes).apply(persistence, read_only)?;
            config.write_back = write_back::of_engine(&persistence.array, engine.drains);
        }
        Ok(config)
    }

    /// Writes the newest superblock to members that missed it.
    fn catch_up(
        &mut self,
        described: &Described,
        parts: &[Candidate],
    ) -> Result<(), AssembleError> {
        let assembly = &described.assembly;
        for member in assembly.lagging.iter() {
            let at = usize::from(member.0);
            let (Some(index), Some(device)) = (assembly.devices[at], &assembly.records[at]) else {
                unreachable!("a member that lags is there");
            };
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            spindles_format::encode(&described.found, device, &mut bytes);
            let slot = device.slot_block(described.found.generation);
            self.stack
                .write(parts[index].node, slot, &bytes)
                .map_err(|source| AssembleError::CatchUp {
                    device: parts[index].found.name.clone(),
                    source,
                })?;
        }
        Ok(())
    }
}
