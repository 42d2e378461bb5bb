//! A disk of any parameters answers each request, or its parameters are refused.

use spindles_block::{Instant, Operation};
use spindles_model::{Draw, Parameters, Tag, Work, World};

/// Makes a disk and sends it requests at both ends.
pub fn check(parameters: &Parameters, draw: &Draw) {
    drop(parameters.inferred());
    drop(parameters.portrait());
    let mut world = World::new();
    let Ok(disk) = world.add_disk(parameters, draw, &[]) else {
        return;
    };
    let capacity = world.capacity_bytes(disk);
    let length = capacity.min(65_536);
    let mut answers = Vec::new();
    let operations = [Operation::Read, Operation::Write { fua: false }];
    let places = [0, capacity - length].into_iter();
    let works = places.flat_map(|offset| operations.map(|operation| (offset, operation)));
    for ((offset_bytes, operation), tag) in works.zip(0..) {
        let work = Work {
            operation,
            offset_bytes,
            length_bytes: length,
        };
        world.submit(Instant(0), disk, Tag(tag), work);
    }
    while let Some(at) = world.next_event() {
        world.advance(at, &mut answers);
    }
    assert_eq!(answers.len(), 4);
}
