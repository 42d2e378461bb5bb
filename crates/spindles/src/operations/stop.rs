//! Stops serving an array.

use super::outcome::Outcome;
use crate::operation::Stop;
use crate::serving::Serving;
use crate::ui::Ui;
use anyhow::{anyhow, bail};
use serde_json::json;
use spindles_serve::{User, by_users};

/// Clients that a refusal names, at most.
const NAMED_MAX: usize = 5;

pub(super) fn perform(operation: &Stop, ui: &Ui) -> anyhow::Result<Outcome> {
    let serving = ui.serving();
    let serving = serving.ok_or_else(|| anyhow!("no server serves the array"))?;
    let name = serving.name();
    if !operation.force {
        refuse_in_use(serving, &name)?;
    }
    match serving.stop() {
        Ok(notes) => notes.iter().for_each(|note| ui.note(note)),
        Err(error) => bail!("{error}"),
    }
    ui.line(format!("array '{name}' is not served any more, and closed"));
    Ok(Outcome::of(&json!({ "stopped": true, "name": name })))
}

/// Refuses while the file or block device is in use: to its users, its end is a disk that is pulled
/// out.
fn refuse_in_use(serving: &Serving, name: &str) -> anyhow::Result<()> {
    let Some((path, users)) = serving.in_use()? else {
        return refuse_clients(serving, name);
    };
    let path = path.display();
    let remedies: Vec<String> = users.iter().map(User::remedy).collect();
    let first = match remedies.as_slice() {
        [] => "end the processes that use it".to_owned(),
        remedies => remedies.join("; "),
    };
    bail!(
        "{path}, which is array '{name}', is in use {}: it is served as before. To stop it, first: \
         {first}. What --force does to them says spindles stop --help",
        by_users(&users)
    )
}

/// Refuses while clients are connected: a client that does not reconnect loses its disk.
fn refuse_clients(serving: &Serving, name: &str) -> anyhow::Result<()> {
    let clients = serving.lasting_clients();
    let (named, more) = clients.split_at(clients.len().min(NAMED_MAX));
    let named: Vec<String> = named.iter().map(ToString::to_string).collect();
    if named.is_empty() {
        return Ok(());
    }
    let more = match more.len() {
        0 => String::new(),
        count => format!(", and {count} more"),
    };
    bail!(
        "array '{name}' is in use over NBD by {}{more}: it is served as before. To stop it, \
         disconnect these first (`nbd-client -d`, `qemu-nbd -d`, or end the program), or cut their \
         connections: --force",
        named.join(", ")
    )
}
