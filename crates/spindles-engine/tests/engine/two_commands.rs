//! Two commands at once: the second comes after each step of the first. The engine takes it or
//! refuses it, without a failed assertion, and written data is there in the end.

use crate::public::world::{BLOCK, Setup, World, equal};
use spindles_block::MemberIndex;
use spindles_engine::{ArrayState, Command, CommandError, Scrub};

const STEPS_MAX: u32 = 100_000;

#[derive(Clone, Copy, Debug)]
enum Ask {
    Fail(u8),
    Rebuild(u8),
    Return(u8),
    Replace(u8),
    Scrub,
    Stop(&'static str),
    Close,
}

fn array(level: &str, members: usize) -> World {
    let spec = equal(level, members, 4, 16);
    let setup = Setup {
        persistent: true,
        regions: true,
        ..Setup::new(spec)
    };
    setup.open().unwrap()
}

fn ask(world: &mut World, ask: Ask, identity: u8) -> Result<(), CommandError> {
    match ask {
        Ask::Fail(member) => world.command(Command::Fail(MemberIndex(member))),
        // There is no device to name for a position that does not exist.
        Ask::Rebuild(member) | Ask::Return(member)
            if usize::from(member) >= world.devices.len() =>
        {
            let device = Box::new(world.devices[0]);
            world.command(Command::Return {
                member: MemberIndex(member),
                device,
            })
        }
        Ask::Rebuild(member) => world.rebuild(member, identity),
        Ask::Return(member) => {
            let gone = world.gone;
            let taken = world.bring_back(member);
            if taken.is_err() {
                world.gone = gone;
            }
            taken
        }
        Ask::Replace(member) => world.replace(member, identity),
        Ask::Scrub => world.command(Command::Scrub(Scrub::default())),
        Ask::Stop(job) => world.command(Command::StopJob(job)),
        Ask::Close => world.command(Command::Close),
    }
}

fn is_over(world: &World) -> bool {
    let is_filling = world.engine.replacing().is_some() || world.engine.is_rebuilding();
    !is_filling && world.engine.status().jobs.iter().all(|job| !job.going)
}

/// Returns how many of the second commands were taken.
fn run(level: &str, members: usize, before: &[Ask], first: Ask, second: Ask) -> u32 {
    let mut taken = 0;
    for steps in 0.. {
        let mut world = array(level, members);
        let why = format!("{level}: {before:?}, {first:?}, {steps} steps, {second:?}");
        assert_eq!(world.write(3, &[7; BLOCK]), Ok(()), "{why}");
        for &early in before {
            ask(&mut world, early, 90).unwrap();
            world.run();
        }
        assert_eq!(world.write(5, &[8; BLOCK]), Ok(()), "{why}");
        ask(&mut world, first, 100).unwrap();
        let mut is_last = false;
        for _ in 0..steps {
            is_last = is_over(&world);
            if is_last {
                break;
            }
            world.step();
        }
        let state = world.engine.membership();
        let asked = ask(&mut world, second, 101);
        if asked.is_err() {
            assert_eq!(world.engine.membership(), state, "{why}");
        }
        taken += u32::from(asked.is_ok());
        for _ in 0..STEPS_MAX {
            if is_over(&world) || world.idle() {
                break;
            }
            world.step();
        }
        // A close leaves a rebuild where it is.
        if !matches!((second, asked), (Ask::Close, Ok(()))) {
            assert!(is_over(&world), "{why}");
            assert_ne!(world.engine.state(), ArrayState::Failed, "{why}");
            assert_eq!(world.read(3, 1).unwrap(), [7; BLOCK], "{why}");
            assert_eq!(world.read(5, 1).unwrap(), [8; BLOCK], "{why}");
            assert!(world.close(), "{why}");
        }
        if is_last {
            break;
        }
    }
    taken
}

#[test]
fn commands_at_once_end_in_no_assertion() {
    let firsts: [(&[Ask], Ask); 5] = [
        (&[], Ask::Replace(1)),
        (&[Ask::Fail(1)], Ask::Rebuild(1)),
        (&[Ask::Fail(1)], Ask::Return(1)),
        (&[], Ask::Fail(1)),
        (&[], Ask::Scrub),
    ];
    for (level, members) in [("raid1", 2), ("raid5", 3)] {
        let positions = 0..=u8::try_from(members).unwrap();
        let of_members = positions
            .clone()
            .flat_map(|member| [Ask::Fail(member), Ask::Rebuild(member), Ask::Return(member)]);
        let replaces = positions.take(members).map(Ask::Replace);
        let others = [
            Ask::Scrub,
            Ask::Stop("replace"),
            Ask::Stop("rebuild"),
            Ask::Stop("scrub"),
            Ask::Close,
        ];
        let seconds: Vec<Ask> = of_members.chain(replaces).chain(others).collect();
        for (before, first) in firsts {
            let taken = seconds
                .iter()
                .map(|&second| run(level, members, before, first, second));
            assert!(taken.sum::<u32>() > 0);
        }
    }
}
