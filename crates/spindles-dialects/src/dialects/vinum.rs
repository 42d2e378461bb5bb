//! Vinum's configurations, read by `vinum create` and written by `vinum printconfig` of FreeBSD.
//!
//! A subdisk is a part of a drive, a plex an array of subdisks, a volume one plex or a mirror of
//! several. The expressions name drives; [`Translation::devices`](crate::Translation::devices) has
//! their devices.

use crate::commands::{refuse_commands, runs_first};
use crate::dialect::{Dialect, Draft, Source};
use crate::fault::Fault;
use crate::text::{Grammar, Quotes, statements};
use crate::vinum::{Config, arrays, write};

pub(super) static DIALECT: Dialect = Dialect {
    name: "vinum",
    summary: "the volume manager of FreeBSD",
    reads: "a description file for vinum create, with drives, volumes, plexes and subdisks",
    flavours: &[],
    recognises,
    read,
    write: Some(write),
};

const GRAMMAR: Grammar = Grammar {
    continuation: true,
    quotes: Quotes::Shell,
};

fn recognises(text: &str) -> bool {
    if PROGRAMS.iter().any(|program| runs_first(text, program)) {
        return true;
    }
    let lines = statements(text, GRAMMAR).map_while(Result::ok);
    let mut is_other = false;
    for line in lines {
        let word = |index: usize| line.words.get(index).map(|word| &**word);
        match (word(0), word(2)) {
            (Some("drive"), Some("device")) => return true,
            (Some("plex"), _) if line.words.iter().any(|word| &**word == "org") => return true,
            (Some("volume" | "vol"), _) if !is_other => return true,
            (Some("volume" | "vol" | "drive" | "plex" | "sd" | "subdisk"), _) => {}
            // The words of a later line may be clearer.
            _ => is_other = true,
        }
    }
    false
}

const PROGRAMS: [&str; 2] = ["vinum", "gvinum"];

fn read(source: &Source<'_>) -> Result<Draft, Fault> {
    let expected = "the file of vinum create or the output of vinum printconfig is expected here";
    refuse_commands(source.text, &PROGRAMS, expected)?;
    let mut config = Config::default();
    for line in statements(source.text, GRAMMAR) {
        config.line(&line?)?;
    }
    arrays(config, source)
}
