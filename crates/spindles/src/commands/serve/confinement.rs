//! What a server gives up before its first client comes, and the helper that stays outside.

use super::doors::Doors;
use super::export::Export;
use crate::commands::outside;
use anyhow::Context as _;
use spindles_io::notice;
use spindles_serve::Door;
use spindles_serve::sandbox::helper::{Helper, Rules};
use spindles_serve::sandbox::{self, Needs, Sandbox};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Gives up what is not needed any more, now that all devices are open. What needs more later is asked of a helper.
/// `sockets` are the folders of those for commands, which are to be removed in the end.
pub(super) fn enter(
    exports: &[Export],
    doors: &Doors,
    sockets: Vec<PathBuf>,
) -> anyhow::Result<(Sandbox, Arc<Helper>)> {
    let devices = || exports.iter().flat_map(Export::devices);
    let rules = Rules {
        folders: devices().filter_map(|name| folder_of(name)).collect(),
        hook: None,
    };
    let helper = Helper::start(outside::command(&rules));
    let helper =
        helper.context("can't start the helper of the sandbox; --no-sandbox does without")?;
    let helper = Arc::new(helper);
    let asked = Arc::clone(&helper);
    let opener = move |name: &str, flags| asked.open(Path::new(name), flags);
    spindles_io::open_devices_by(Box::new(opener));
    let of_doors = doors.all().filter_map(Door::folder).map(Path::to_owned);
    let needs = Needs {
        writes_in: notice::own_folder().into_iter().collect(),
        removes_from: of_doors.chain(sockets).collect(),
        // To come back after a connection is lost.
        connects: devices().any(|name| spindles_io::is_address(name)),
        exceeds_locked_memory: doors.all().any(Door::needs_ipc_lock),
    };
    let threads = exports.iter().map(|export| export.confine(&needs));
    let threads: Vec<Sandbox> = threads.collect::<anyhow::Result<_>>()?;
    let entered = sandbox::enter(&needs);
    let entered = threads.iter().fold(entered, Sandbox::with_thread);
    Ok((entered, helper))
}

/// The folder of a file that is a device, or that a loop device stands on.
fn folder_of(device: &str) -> Option<PathBuf> {
    let file = spindles_io::file_of_loop(device);
    let path = Path::new(file.as_deref().unwrap_or(device));
    let path = path.canonicalize().ok()?;
    let is_file = path.metadata().is_ok_and(|it| it.is_file());
    path.parent().filter(|_| is_file).map(Path::to_owned)
}
