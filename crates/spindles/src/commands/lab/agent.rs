//! `spindles lab agent`: makes this machine a node of a run on several machines.

use super::Command;
use crate::interrupt;
use crate::ui::Ui;
use clap::{ArgMatches, Args, FromArgMatches as _};
use serde_json::json;
use spindles_lab::nodes::{Agent, AgentOptions, PORT, Token, ip_address};
use std::env;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

pub(crate) static COMMAND: Command = Command {
    name: "agent",
    about: "Let experiments on another machine use this machine as a node",
    details: "Copies files to and from the machine that runs the experiment. Runs workloads on \
              files, and fio, in a folder of its own, and removes the folder afterwards. The \
              agent does nothing else, and serves only clients that know the token. It listens \
              on loopback unless --listen gives another address. The token authenticates \
              clients; NOTHING IS ENCRYPTED: in a network that you don't trust, use an SSH \
              tunnel or a VPN. Ctrl-C ends the agent and everything it runs.\n\n\
              openssl rand -hex 32 > token; chmod 600 token      # the same file on all machines\n\
              spindles lab agent --token-file token --listen 10.0.0.2\n\
              spindles lab run ide-raid-server --nodes 10.0.0.2,10.0.0.3 --token-file token",
    hidden: false,
    forwards: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// File with the token, which no other user may read: at least 32 characters that can't be
    /// guessed
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Address to listen on [default: 127.0.0.1:7117]
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address)]
    listen: Option<SocketAddr>,
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

/// Parses an address, with a port or with the default port of agents.
fn address(text: &str) -> Result<SocketAddr, String> {
    let with_port = text.parse::<SocketAddr>().ok();
    let alone = || ip_address(text).map(|address| (address, PORT).into());
    with_port.or_else(alone).ok_or_else(|| {
        format!(
            "give an address of this machine, such as 10.0.0.2, 10.0.0.2:{PORT} or [fd00::2]:{PORT}"
        )
    })
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let agent = Agent::new(AgentOptions {
        listen: (arguments.listen).unwrap_or((Ipv4Addr::LOCALHOST, PORT).into()),
        folder: arguments.folder.unwrap_or_else(env::temp_dir),
        devices: arguments.devices,
        force: arguments.force,
        token: Token::from_file(&arguments.token_file)?,
    })?;
    let interrupt = interrupt::flag()?;
    ui.note(format!("listening on {}", agent.address()));
    agent.run(&interrupt, &|what| ui.note(what));
    ui.json(&json!({ "address": agent.address().to_string() }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_gets_the_default_port() {
        for (text, shown) in [
            ("10.0.0.2", "10.0.0.2:7117"),
            ("10.0.0.2:80", "10.0.0.2:80"),
            ("fd77::3", "[fd77::3]:7117"),
            ("[fd77::3]", "[fd77::3]:7117"),
            ("[fd77::3]:80", "[fd77::3]:80"),
        ] {
            assert_eq!(address(text).map(|it| it.to_string()), Ok(shown.to_owned()));
        }
        let error = address("node3").unwrap_err();
        assert!(error.contains("an address of this machine"), "{error}");
    }
}
