//! A second command arrives before the first is complete.

use super::Fault;
use crate::random::Random;
use crate::world::{Strike, World};
use spindles_block::MemberIndex;
use spindles_engine::{Command, Engine, Scrub};
use spindles_format::areas_to_join;

pub(super) static FAULT: Fault = Fault {
    name: "two_commands",
    about: "a second command changes an array's devices while the first is under way, or is \
        refused",
    percent: 30,
    own_stream: true,
    start: |seed| {
        Box::new(TwoCommands {
            random: Random::new(seed, "two commands"),
        })
    },
};

/// Draws which commands arrive together.
#[derive(Debug)]
struct TwoCommands {
    random: Random,
}

impl Strike for TwoCommands {
    fn strike(&mut self, world: &mut World) -> bool {
        let struck = self.strike_one_of(world, &["replace", "rebuild", "put_out", "scrub"]);
        self.check_refusals(world);
        let also = self.strike_one_of(world, &["replace", "scrub", "rebuild"]);
        self.check_refusals(world);
        struck || also
    }
}

impl TwoCommands {
    /// Makes a random fault of `names` strike. Returns false if no fault of the list can.
    fn strike_one_of(&mut self, world: &mut World, names: &[&str]) -> bool {
        let first = usize::try_from(self.random.below(names.len() as u64)).expect("few");
        let mut order = (0..names.len()).map(|at| names[(first + at) % names.len()]);
        order.any(|name| world.strike(name))
    }

    /// Sends an array commands that its engine says it would refuse. Each must be refused and leave
    /// the array unchanged.
    fn check_refusals(&mut self, world: &mut World) {
        let array = self.random.index(world.stack.arrays.len());
        if !world.arrays.is_open(array) || world.arrays.engine(array).record().is_none() {
            return;
        }
        let members = u64::from(world.stack.arrays[array].geometry.members());
        let member = u8::try_from(self.random.below(members)).expect("few");
        let member = MemberIndex(member);
        let record = world
            .arrays
            .engine(array)
            .record()
            .expect("it has superblocks");
        let bytes = world.stack.member_bytes(array, usize::from(member.0));
        let Ok(device) = areas_to_join(record, bytes, member) else {
            return;
        };
        let device = Box::new(device);
        let uuid = self.random.uuid();
        let commands = [
            Command::Fail(member),
            Command::Rebuild {
                member,
                device: device.clone(),
                uuid,
            },
            Command::Return {
                member,
                device: device.clone(),
            },
            Command::Replace {
                member,
                device,
                uuid,
            },
            Command::Scrub(Scrub::default()),
            Command::StopJob("replace"),
        ];
        let now = world.clock.now();
        for command in commands {
            let engine = world.arrays.engine_mut(array);
            let state = |engine: &Engine| (engine.record().cloned(), engine.status());
            if engine.may(&command).is_ok() {
                continue;
            }
            let before = state(engine);
            let name = format!("{command:?}");
            let refused = engine.command(now, command).is_err();
            let unchanged = state(engine) == before;
            if !refused || !unchanged {
                let array = array.to_string();
                world.stalled(&format!(
                    "array {array} was to refuse, and took a part of {name}"
                ));
                return;
            }
        }
        world.log.count("refused commands", 1);
    }
}
