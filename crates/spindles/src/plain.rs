//! Plain arrays on the command line: `plain:EXPR`, `plain:FILE` and their options.

use crate::failure::Usage;
use clap::Args;
use spindles_admin::plain::{PREFIX, PlainOptions, PlainTarget, parse};
use spindles_block::SizeBytes;
use spindles_device::OpenOptions;

// No doc comment: clap would show it as the help of the commands that flatten this.
#[derive(Args)]
pub(crate) struct Plain {
    /// Chunk size of every array in plain:EXPR [default: the level's]
    #[arg(long, value_name = "SIZE")]
    chunk: Option<SizeBytes>,
    /// Redundancy of plain:EXPR may not match its data, as after a crash. No data is computed from
    /// parity, and only one of several copies is read
    #[arg(long)]
    unclean: bool,
    /// With plain:FILE: the system whose habits differ, where two use the same words: freebsd or
    /// netbsd for ccd [default: freebsd]
    #[arg(long, value_name = "SYSTEM")]
    flavour: Option<String>,
}

impl Plain {
    /// Returns how a plain array is opened.
    pub(crate) fn options(
        &self,
        array: &PlainTarget,
        open: OpenOptions,
        force: bool,
    ) -> PlainOptions {
        PlainOptions {
            open,
            chunk_bytes: self.chunk.map(|chunk| chunk.0).or(array.chunk_bytes),
            unclean: self.unclean || array.unclean,
            force,
            ..PlainOptions::default()
        }
    }

    /// Refuses options of plain arrays if no target is one.
    pub(crate) fn check<'a>(
        &self,
        targets: impl IntoIterator<Item = &'a String>,
        writable: bool,
    ) -> anyhow::Result<()> {
        let given = [
            ("--chunk", self.chunk.is_some()),
            ("--unclean", self.unclean),
            ("--flavour", self.flavour.is_some()),
            ("--writable", writable),
        ];
        let given = given.into_iter().find(|(_, is_given)| *is_given);
        match given {
            Some((option, _)) if !targets.into_iter().any(|target| is_plain(target)) => {
                Err(Usage::error(format!(
                    "{option} is for plain arrays, as plain:raid1(a.img,b.img)"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the plain array of a command for one array; `None` if the arguments name others.
    pub(crate) fn of_one(&self, targets: &[String]) -> anyhow::Result<Option<PlainTarget>> {
        self.check(targets, false)?;
        match targets {
            [target] => self.target(target),
            several if several.iter().any(|target| is_plain(target)) => {
                Err(Usage::error("plain:EXPR is a whole array: give it alone"))
            }
            _ => Ok(None),
        }
    }

    /// Parses a target; `None` if it is no plain array.
    pub(crate) fn target(&self, target: &str) -> anyhow::Result<Option<PlainTarget>> {
        Ok(parse(target, self.flavour.as_deref()).transpose()?)
    }
}

/// Returns true if a target is a plain array.
pub(crate) fn is_plain(target: &str) -> bool {
    target.starts_with(PREFIX)
}

/// The commands that take plain arrays; `stop` says how their servers end.
const TAKEN_BY: [&str; 7] = ["serve", "stop", "copy", "scrub", "status", "bench", "lab"];

/// Refuses a plain array among the arguments of a command that does not take one.
pub(crate) fn refuse<'a>(
    command: &str,
    mut arguments: impl Iterator<Item = &'a str>,
) -> anyhow::Result<()> {
    match arguments.find(|argument| is_plain(argument)) {
        Some(array) if !TAKEN_BY.contains(&command) => Err(Usage::error(format!(
            "{array}: nothing on the devices of a plain array describes it, so there is nothing \
             that `spindles {command}` could show or change; serve, copy, scrub, status, bench and \
             experiments of the lab take it"
        ))),
        _ => Ok(()),
    }
}
