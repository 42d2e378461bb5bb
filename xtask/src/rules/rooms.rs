//! Code that acts on the engine as a whole lies in the folder `engine/`. The other modules of the
//! crate are rooms. A room keeps state of its own, and callers hand it the data of other rooms.

use super::{Problem, Rule};
use crate::repo::Repo;
use crate::source::{Keep, strip, without_tests};

pub(crate) static RULE: Rule = Rule {
    name: "rooms",
    check,
};

const ROOMS: &str = "crates/spindles-engine/src/";
const ENGINE: &str = "crates/spindles-engine/src/engine/";

fn check(repo: &Repo) -> Vec<Problem> {
    let is_room = |path: &str| path.starts_with(ROOMS) && !path.starts_with(ENGINE);
    let rooms = repo.files.iter().filter(|file| is_room(&file.path));
    rooms
        .filter(|file| {
            let code = strip(without_tests(file.text()), Keep::CodeOnly);
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
}
