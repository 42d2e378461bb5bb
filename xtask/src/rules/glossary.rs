//! Names use the words of `docs/reference/glossary.md`, not other projects' words for the same
//! things.

use super::{Problem, Rule};
use crate::repo::Repo;
use crate::source::{defined_names, words};

pub(crate) static RULE: Rule = Rule {
    name: "glossary",
    check,
};

/// Sequences of words that no name may have, and the words to use instead.
const FORBIDDEN: &[(&[&str], &str)] = &[
    (&["strip"], "chunk"),
    (&["strips"], "chunks"),
    (&["stripe", "unit"], "chunk"),
    (
        &["stripe", "width"],
        "members, data_chunks or full_stripe_bytes",
    ),
    (&["stripe", "size"], "chunk_bytes or full_stripe_bytes"),
    (&["stripe", "depth"], "chunk_blocks"),
    (&["vdev"], "member"),
    (&["rdev"], "device"),
    (&["bdev"], "member or device"),
    (&["raid", "disk"], "member or slot"),
    (&["personality"], "level"),
    (&["resilver"], "rebuild"),
    (&["resilvering"], "rebuilding"),
    (&["patrol"], "scrub"),
    (&["iodepth"], "in_flight_max"),
    (&["queue", "depth"], "in_flight_max"),
    (&["outstanding"], "in_flight"),
    (&["lba"], "block"),
    (&["txg"], "generation"),
    (&["dirty", "region"], "intent_bitmap"),
    (&["parity", "map"], "intent_bitmap"),
    (&["vouch"], "verify"),
    (&["vouches"], "verifies"),
    (&["believes"], "trusts"),
    (&["newcomer"], "replacement"),
    (&["patience"], "hedge_delay"),
    (&["mishap"], "incident"),
    (&["gated"], "the enum of what it waits for"),
    (&["nothing", "more"], "stop_writing"),
];

/// Names that we need for functions of std, and a field of fuser.
const EXCEPTIONS: &[&str] = &["strip_prefix", "strip_suffix", "rdev"];

fn check(repo: &Repo) -> Vec<Problem> {
    let mut problems = Vec::new();
    let ours = |path: &str| path.starts_with("crates/");
    for file in repo
        .files
        .iter()
        .filter(|file| file.is_rust() && ours(&file.path))
    {
        for (line, name) in defined_names(file.code()) {
            let name_words = words(&name);
            let is_in = |forbidden: &[&str]| {
                name_words
                    .windows(forbidden.len())
                    .any(|window| window == forbidden)
            };
            let found = FORBIDDEN.iter().find(|(forbidden, _)| is_in(forbidden));
            if let Some((_, instead)) = found
                && !EXCEPTIONS.contains(&name.as_str())
            {
                let what = format!("{name}: our word is {instead} (docs/reference/glossary.md)");
                problems.push(Problem::new(&file.path, line, what));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::tests::assert_finds;
    use super::*;

    #[test]
    fn it_finds_other_peoples_words() {
        let path = "crates/x/src/a.rs";
        let good = "fn chunk_blocks() { let a = b.strip_prefix(c); } // strip_size";
        for bad in [
            "fn strip_size() {}",
            "struct QueueDepth;",
            "struct A {\n    vdev: u8,\n}",
        ] {
            assert_finds(&RULE, &[(path, good)], &[(path, bad)], "our word is");
        }
    }
}
