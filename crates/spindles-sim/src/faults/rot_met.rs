//! Blocks of a disk are corrupted, no read of them fails, and clients continue.

use super::{Fault, Stateless};
use crate::disk::View;
use crate::stack::Decay;
use crate::world::World;
use spindles_block::BlockIndex;

pub(super) static FAULT: Fault = Fault {
    name: "rot_met",
    about: "some blocks of an array with checksums hold wrong bytes, and clients go on",
    percent: 50,
    own_stream: false,
    start: |_| Box::new(Stateless(rot_anywhere)),
};

/// Corrupts random blocks of a disk while clients continue. Returns true if any was corrupted.
fn rot_anywhere(world: &mut World) -> bool {
    let disk = world.random_disk();
    let mut any = false;
    for _ in 0..world.faults.between(1, 8) {
        let block = world.stack.in_use(disk).any(&mut world.faults);
        let bit = world.faults.any();
        if world.may_decay(disk, block) {
            decay(world, disk, block, bit);
            any = true;
        }
    }
    any
}

fn decay(world: &mut World, disk: usize, block: BlockIndex, bit: u64) {
    world.note(&format!("block {block} of disk {disk} rots"));
    let right = world.stack.disk_block(disk, block, View::Current);
    let mut wrong = right.clone();
    let bits = 8 * wrong.len();
    let bit = usize::try_from(bit % u64::try_from(bits).expect("fits")).expect("fits");
    wrong[bit / 8] ^= 1 << (bit % 8);
    world.stack.put_disk_block(disk, block, &wrong);
    world
        .stack
        .decayed
        .insert((disk, block.0), Decay::new(right, wrong));
}
