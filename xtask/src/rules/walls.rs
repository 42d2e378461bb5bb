//! Only the files of `engine/` listed in [`ROOMS`] touch the fields of a room. All other files call
//! the room's methods.

use super::{Problem, Rule};
use crate::repo::Repo;

pub(crate) static RULE: Rule = Rule {
    name: "walls",
    check,
};

const ENGINE: &str = "crates/spindles-engine/src/engine/";

/// Rooms, by the name of the engine's field, with the files of `engine/` that may touch the room's
/// fields. A name that ends in `/` stands for a folder.
const ROOMS: &[(&str, &[&str])] = &[
    ("bad", &["bad_blocks.rs"]),
    ("extension", &["extension.rs"]),
    ("faults", &["faults.rs"]),
    ("first_touch", &["first_touch.rs"]),
    ("grow", &["jobs/grow.rs"]),
    ("hedges", &["hedges.rs"]),
    ("jobs", &["jobs/"]),
    ("locks", &[]),
    ("log", &[]),
    ("metadata", &["metadata.rs"]),
    ("opening", &["opening.rs"]),
    ("pages", &["checksums/"]),
    ("rebuild", &["jobs/rebuild.rs"]),
    (
        "regions",
        &[
            "regions.rs",
            "bitmaps.rs",
            "extension.rs",
            "first_touch.rs",
            "zeroing.rs",
        ],
    ),
    ("replace", &["jobs/replace.rs"]),
    ("scrub", &["jobs/scrub.rs"]),
    ("slow", &["slow.rs"]),
    ("waits", &[]),
    ("zeroing", &["zeroing.rs"]),
];

fn check(repo: &Repo) -> Vec<Problem> {
    let files = repo.files.iter();
    let mut problems = Vec::new();
    for file in files.filter(|file| file.path.starts_with(ENGINE)) {
        let name = &file.path[ENGINE.len()..];
        let may_touch = |own: &&str| name == *own || own.ends_with('/') && name.starts_with(own);
        let foreign = ROOMS.iter().filter(|(_, own)| !own.iter().any(&may_touch));
        let foreign: Vec<&str> = foreign.map(|(room, _)| *room).collect();
        let code = file.code();
        for (number, line) in (1..).zip(code.lines()) {
            for room in foreign.iter().filter(|room| touches(line, room)) {
                let what = format!("it touches what `{room}` remembers: give that a method");
                problems.push(Problem::new(&file.path, number, what));
            }
        }
    }
    problems
}

/// Returns true if a line names a field of `self.room`, not a method.
fn touches(line: &str, room: &str) -> bool {
    let of_room = format!("self.{room}.");
    line.match_indices(&of_room).any(|(at, found)| {
        let rest = &line[at + found.len()..];
        let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        end > 0 && !rest[end..].starts_with(['(', ':'])
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_a_hand_through_a_wall() {
        let touches =
            "impl Engine {\n    fn it(&mut self) {\n        self.slow.reads += 1;\n    }\n}";
        let calls = "impl Engine {\n    fn it(&mut self) {\n        self.slow.look();\n    }\n}";
        let good = [
            ("crates/spindles-engine/src/engine/slow.rs", touches),
            ("crates/spindles-engine/src/engine/hedges.rs", calls),
        ];
        let bad = [("crates/spindles-engine/src/engine/hedges.rs", touches)];
        assert_finds(&RULE, &good, &bad, "it touches what `slow` remembers");
    }
}
