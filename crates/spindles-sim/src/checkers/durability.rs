//! Data answered as durable is durable at that moment on every disk that holds it.

use super::{Checker, Scene, Seen, Stateless};
use crate::disk::View;
use spindles_block::BlockIndex;

pub(super) static CHECKER: Checker = Checker {
    name: "durability",
    about: "what a flush or a durable write answered for survives the loss of all caches",
    start: || {
        Box::new(Stateless(|scene, seen| match *seen {
            Seen::Written { durable, .. } | Seen::Flushed { durable } => check(scene, durable),
            _ => Ok(()),
        }))
    },
};

fn check(scene: &Scene<'_>, sectors: &[u64]) -> Result<(), String> {
    let sector_bytes = scene.history.sector_bytes();
    let per_block = u64::try_from(scene.stack.block_bytes / sector_bytes).expect("fits");
    for &sector in sectors {
        let block = BlockIndex(sector / per_block);
        let at = usize::try_from(sector % per_block).expect("fits") * sector_bytes;
        for (place, bytes) in scene.stack.places(scene.stack.top(), block, View::Durable) {
            scene
                .history
                .check_durable(sector, &bytes[at..at + sector_bytes])
                .map_err(|violation| format!("durable on {place}: {violation}"))?;
        }
    }
    Ok(())
}
