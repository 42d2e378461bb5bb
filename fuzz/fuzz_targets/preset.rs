//! Any text is read as a preset or refused. A preset that is read makes a device in every draw, or
//! says what is missing, and the device answers.

#![no_main]

use libfuzzer_sys::fuzz_target;
use spindles_host::Machine;
use spindles_model::{Controller, Draw, Surroundings, parse_preset};

#[path = "shared/disk.rs"]
mod shared;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let parameters = match parse_preset("fuzz.toml", text) {
        Ok(parameters) => parameters,
        Err(fault) => return assert!(fault.to_string().starts_with("fuzz.toml")),
    };
    for draw in [Draw::exact(), Draw::nominal(1), Draw::seeded(2)] {
        let numbers = parameters.drawn(&draw);
        match parameters.kind.name {
            "link" => drop(parameters.link(&draw)),
            "controller" => {
                let around = Surroundings {
                    openings: 1,
                    sorts: true,
                    stripe_bytes: 65_536,
                    capacity_bytes: 1 << 30,
                };
                drop(Controller::new(&parameters, &draw, around));
            }
            "host" => drop(Machine::new(
                |key| numbers.get(key).copied(),
                |key| parameters.drawn_word(&draw, key),
            )),
            _ => shared::check(&parameters, &draw),
        }
    }
});
