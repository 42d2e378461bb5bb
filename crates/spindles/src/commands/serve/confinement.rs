//! The rights that a server gives up before its first client connects, and the helper outside.

use super::export::Export;
use super::listeners::Listeners;
use crate::commands::outside;
use anyhow::Context as _;
use spindles_device::{Opener, device_of, notice};
use spindles_serve::Listener;
use spindles_serve::sandbox::helper::{Helper, Rules};
use spindles_serve::sandbox::{self, Needs, Sandbox};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Enters the sandbox, now that all devices are open. Later needs go through a helper outside.
/// `sockets` are the folders of the control sockets, which the server removes in the end.
pub(super) fn enter(
    exports: &[Export],
    listeners: &Listeners,
    sockets: Vec<PathBuf>,
) -> anyhow::Result<(Sandbox, Arc<Helper>)> {
    let devices = || exports.iter().flat_map(Export::devices);
    let rules = Rules {
        folders: devices()
            .filter_map(|name| folder_of(&device_of(name)))
            .collect(),
        hook: None,
    };
    let helper = Helper::start(outside::command(&rules));
    let helper =
        helper.context("can't start the helper of the sandbox; --no-sandbox does without")?;
    let helper = Arc::new(helper);
    let opener: Arc<dyn Opener> = helper.clone();
    spindles_device::open_devices_by(opener);
    let of_listeners = listeners
        .all()
        .filter_map(Listener::folder)
        .map(Path::to_owned);
    let needs = Needs {
        writes_in: notice::own_folder().into_iter().collect(),
        removes_from: of_listeners.chain(sockets).collect(),
        // For reconnecting after a lost connection.
        connects: devices().any(|name| spindles_device::is_address(&device_of(name))),
        exceeds_locked_memory: listeners.all().any(Listener::needs_ipc_lock),
    };
    let threads = exports.iter().map(|export| export.confine(&needs));
    let threads: Vec<Sandbox> = threads.collect::<anyhow::Result<_>>()?;
    let entered = sandbox::enter(&needs);
    let entered = threads.iter().fold(entered, Sandbox::with_thread);
    Ok((entered, helper))
}

/// Returns the folder of a file that is a device or backs a loop device; `None` for other devices.
fn folder_of(device: &str) -> Option<PathBuf> {
    let file = spindles_device::file_of_loop(device);
    let path = Path::new(file.as_deref().unwrap_or(device));
    let path = path.canonicalize().ok()?;
    let is_file = path.metadata().is_ok_and(|it| it.is_file());
    path.parent().filter(|_| is_file).map(Path::to_owned)
}
