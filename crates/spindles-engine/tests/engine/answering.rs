//! Partial-row writes, which are answered once the log holds their blocks.

use crate::public::replay::wide;
use crate::public::world::{BLOCK, Kept, World};
use spindles_block::Operation;

/// Writes a part of a row, steps until that is answered, and takes the client's buffer back.
/// Returns true if operations were still under way then.
fn write_a_part(world: &mut World, block: u64, byte: u8) -> bool {
    let bytes = vec![byte; 2 * BLOCK];
    let token = world.submit(Operation::Write { fua: false }, block, bytes, 2);
    world.await_answer(token).unwrap();
    world.buffer(token);
    world.has_pending()
}

/// The write goes to its place without the client's buffer, and reads of the part wait for that.
#[test]
fn parts_of_rows_are_answered_before_they_are_in_their_places() {
    for (level, members) in [("raid5", 4), ("raid6", 5)] {
        for checksums in [false, true] {
            let (mut before, mut unfit) = (0, 0);
            for seed in 0..40 {
                let mut setup = wide(level, members, checksums);
                setup.seed = seed;
                setup.spec.member_blocks = vec![600; members];
                let mut world = setup.open().unwrap();
                world.write(0, &[1; 24 * BLOCK]).unwrap();
                before += u32::from(write_a_part(&mut world, 5, 2));
                assert_eq!(world.read(5, 2).unwrap(), [2; 2 * BLOCK], "{level} {seed}");
                // The parity of a second part is computed from the first.
                write_a_part(&mut world, 6, 3);
                before += u32::from(write_a_part(&mut world, 5, 4));
                assert_eq!(world.read(4, 4).unwrap()[0], 1);
                let missing = world
                    .engine
                    .geometry()
                    .locate(spindles_block::BlockIndex(5));
                world.fail(missing.member.0);
                let read = world.read(4, 4).unwrap();
                let firsts: Vec<u8> = read.iter().step_by(BLOCK).copied().collect();
                unfit += u32::from(firsts != [1, 4, 4, 3]);
            }
            assert_eq!(unfit, 0, "{level}, checksums {checksums}");
            assert!(
                before > 30,
                "{level}, checksums {checksums}: {before} of 80"
            );
        }
    }
}

/// The journal gets one write on each member that the part changes. It has FUA, or is too long for
/// that, and the members are flushed. An answered part outlives a loss of power.
#[test]
fn a_part_of_a_row_is_one_durable_write_a_member() {
    for (level, members, parts) in [("raid5", 4, 2), ("raid6", 5, 3)] {
        for (fua_bytes_max, flushes) in [(1 << 20, 0), (10 * 512, 0), (9 * 512, parts)] {
            let mut setup = wide(level, members, true);
            setup.fua_bytes_max = fua_bytes_max;
            setup.spec.member_blocks = vec![600; members];
            let mut world = setup.open().unwrap();
            world.write(0, &[1; 24 * BLOCK]).unwrap();
            world.write(5, &[2; 2 * BLOCK]).unwrap(); // This starts the log.
            world.trace = Some(Vec::new());
            write_a_part(&mut world, 9, 3);
            let trace = world.trace.take().unwrap();
            let answered = trace.iter().position(|line| line == "reply done").unwrap();
            let count = |is: &dyn Fn(&str) -> bool| {
                let lines = trace[..answered].iter();
                lines.filter(|line| is(line)).count()
            };
            // A header of eight blocks, and two blocks.
            let durable = count(&|line| line.starts_with("write-fua ") && line.ends_with("+10"));
            let cached = count(&|line| line.starts_with("write ") && line.ends_with("+10"));
            let seen = (durable, cached, count(&|line| line.starts_with("flush ")));
            let expected = if flushes == 0 { (parts, 0) } else { (0, parts) };
            assert_eq!(seen, (expected.0, expected.1, flushes), "{level}");
            // Dirty bits take a block; the places come later.
            let others = count(&|line| line.starts_with("write") && !line.ends_with("+1"));
            assert_eq!(others, parts, "{level}: {trace:?}");
            world.lose_power(|_| Kept::Nothing);
            let mut world = world.reopen(&setup);
            assert_eq!(world.read(9, 2).unwrap(), [3; 2 * BLOCK], "{level}");
        }
    }
}
