//! `spindles lab serve`: shows stored runs in the browser.

use super::Command;
use crate::documents::tools::LabServer;
use crate::interrupt;
use crate::ui::Ui;
use crate::words;
use clap::{ArgMatches, Args, FromArgMatches as _};
use spindles_lab::RESULTS_FOLDER;
use spindles_lab_web::{Limits, Server};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

pub(crate) static COMMAND: Command = Command {
    name: "serve",
    about: "Show stored runs in the browser, with live updates of a running one",
    details: "Lists the runs of a folder, shows each report as it grows, compares two runs, \
              and offers their records and reports as files. The server only reads. Ctrl-C \
              ends it.\n\n\
              Only this machine can connect; from another machine, use an SSH tunnel. With \
              another address in --listen, everyone who can connect to it can read the \
              results.\n\n\
              spindles lab serve\n\
              spindles lab serve results --listen 127.0.0.1:8000\n\
              ssh -L 7118:127.0.0.1:7118 server spindles lab serve",
    hidden: false,
    arguments: Arguments::augment_args,
    run,
};

#[derive(Args)]
struct Arguments {
    /// A folder of results, or a folder that contains several, also one level deeper
    #[arg(value_name = "DIR", default_value = RESULTS_FOLDER)]
    folder: PathBuf,
    /// Address to listen on; port 0 picks a free one
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        value_parser = address,
        default_value = "127.0.0.1:7118",
    )]
    listen: SocketAddr,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse().ok();
    address.ok_or_else(|| "give an address and a port, such as 127.0.0.1:7118".to_owned())
}

fn run(matches: &ArgMatches, ui: &Ui) -> anyhow::Result<()> {
    let arguments = Arguments::from_arg_matches(matches)?;
    let (sender, interrupted) = mpsc::channel();
    // The receiver is gone if the server could not start.
    interrupt::call(move || sender.send(()).unwrap_or(()))?;
    let server = Server::bind(
        &arguments.folder,
        arguments.listen,
        Limits::default(),
        words::lab::report_command,
    )?;
    let (folder, url) = (arguments.folder.display().to_string(), server.url());
    ui.line(format!("The runs in {folder}: {url}"));
    ui.json(&LabServer { folder, url });
    if server.is_public() {
        ui.note(format!(
            "everyone who reaches {} can read these results; leave out --listen to show them to \
             this machine alone",
            server.address()
        ));
    }
    thread::spawn(move || server.run());
    // The server writes nothing, so it may end at any moment.
    Ok(interrupted.recv()?)
}
