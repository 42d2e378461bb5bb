//! `spindles lab agent`: makes this machine a node of a run on several machines.

use super::Command;
use crate::failure::Usage;
use crate::interrupt;
use crate::ui::Ui;
use anyhow::anyhow;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_lab::nodes::{Agent, AgentOptions};
use std::env;
use std::io::{IsTerminal as _, stdin};
use std::path::PathBuf;

pub(crate) static COMMAND: Command = Command {
    name: "agent",
    about: "Let an experiment on another machine use this machine as a node",
    details: "`spindles lab run --nodes HOST` starts the agent over ssh, speaks to it through the \
              pipes of ssh, and ends it. Nothing listens. The agent copies files to and from the \
              machine that runs the experiment. It runs workloads on files, and fio, in a folder \
              of its own, and removes the folder afterwards. The agent does nothing else. A key \
              that may start nothing else has restrict,command=\"spindles lab agent\" before it \
              in authorized_keys.\n\n\
              spindles lab run ide-raid-server --nodes 10.0.0.2,10.0.0.3\n\
              spindles lab run mine.toml --nodes node3 --ssh 'ssh -p 2222'\n\
              spindles lab run mine.toml --nodes node3 --agent 'spindles lab agent --folder /nfs'",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// Folder for temporary files: name one on a network file system to measure that [default: the
    /// system's temporary folder]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// A device for runs of fio, which MAY DESTROY ITS DATA
    #[arg(long = "device", value_name = "DEV")]
    devices: Vec<String>,
    /// Use these devices even if something else uses them
    #[arg(long)]
    force: bool,
}

fn run(matches: &ArgMatches, _ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    if stdin().is_terminal() {
        let why = "`spindles lab run --nodes HOST` on another machine starts the agent over ssh";
        return Err(Usage::error(why));
    }
    let agent = Agent::new(AgentOptions {
        folder: arguments.folder.unwrap_or_else(env::temp_dir),
        devices: arguments.devices,
        force: arguments.force,
    })?;
    let interrupt = interrupt::flag()?;
    agent.run(&interrupt).map_err(|why| anyhow!(why))
}
