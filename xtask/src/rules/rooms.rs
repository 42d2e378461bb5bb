//! Code that acts on the engine as a whole lies in the folder `engine/`. The other modules of the
//! crate are rooms. A room keeps state of its own, and callers hand it the data of other rooms.
//!
//! The lab has folders as rooms, in an order. A room imports only earlier rooms.

use super::{Problem, Rule, imports};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "rooms",
    check,
};

const ROOMS: &str = "crates/spindles-engine/src/";
const ENGINE: &str = "crates/spindles-engine/src/engine/";

const LAB: &str = "crates/spindles-lab/src/";
const LAB_ROOMS: [&str; 6] = [
    "machine",
    "experiment",
    "systems",
    "measure",
    "nodes",
    "run",
];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = engines_in_rooms(repo);
    problems.extend(imports_of_later_rooms(repo));
    problems
}

/// Returns the imports of the lab that go to a later room.
fn imports_of_later_rooms(repo: &Repo) -> Vec<Problem> {
    let room = |path: &str| {
        let (first, _) = path.strip_prefix(LAB)?.split_once('/')?;
        LAB_ROOMS.iter().position(|room| *room == first)
    };
    let imports = imports(repo, LAB);
    let pairs = imports
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let later = pairs.filter(|(from, to)| room(to) > room(from) && room(from).is_some());
    later
        .map(|(from, to)| {
            let what = format!("it imports {to}, of a later room: {}", LAB_ROOMS.join(", "));
            Problem::new(from, None, what)
        })
        .collect()
}

fn engines_in_rooms(repo: &Repo) -> Vec<Problem> {
    let is_room = |path: &str| path.starts_with(ROOMS) && !path.starts_with(ENGINE);
    let rooms = repo.files.iter().filter(|file| is_room(&file.path));
    rooms
        .filter(|file| {
            let code = file.code();
            code.lines()
                .any(|line| line.starts_with("impl") && line.ends_with(" Engine {"))
        })
        .map(|file| {
            let what = format!("it has an `impl Engine`: that belongs into {ENGINE}");
            Problem::new(&file.path, None, what)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_an_engine_in_a_room() {
        let text = "impl Engine {\n    fn write(&mut self) {}\n}";
        let good = [("crates/spindles-engine/src/engine/locks.rs", text)];
        let bad = [("crates/spindles-engine/src/locks.rs", text)];
        assert_finds(&RULE, &good, &bad, "it has an `impl Engine`");
    }

    #[test]
    fn it_finds_an_import_of_a_later_room() {
        let lib = ("crates/spindles-lab/src/lib.rs", "mod measure;\nmod run;\n");
        let rooms = |measure, run| {
            [
                lib,
                ("crates/spindles-lab/src/measure/mod.rs", measure),
                ("crates/spindles-lab/src/run/mod.rs", run),
            ]
        };
        let good = rooms("pub(crate) struct A;", "use crate::measure::A;");
        let bad = rooms("use crate::run::A;", "pub(crate) struct A;");
        assert_finds(&RULE, &good, &bad, "of a later room");
    }
}
