//! What a server gives up before its first client comes, and the helper that stays outside.

use crate::commands::outside;
use anyhow::Context as _;
use spindles_io::notice;
use spindles_serve::control::Control;
use spindles_serve::sandbox::helper::{Helper, Rules};
use spindles_serve::sandbox::{self, Needs, Sandbox};
use spindles_serve::{Door, Server};
use std::path::{Path, PathBuf};

/// Gives up what is not needed any more, now that the devices are open. What needs more later is asked of a helper.
pub(super) fn enter(
    devices: &[&str],
    doors: &[Box<dyn Door>],
    control: Option<&Control>,
    server: &mut Server,
) -> anyhow::Result<Sandbox> {
    let rules = Rules {
        folders: devices.iter().filter_map(|name| folder_of(name)).collect(),
        hook: None,
    };
    let helper = Helper::start(outside::command(&rules));
    let helper =
        helper.context("can't start the helper of the sandbox; --no-sandbox does without")?;
    let opener = move |name: &str, flags| helper.open(Path::new(name), flags);
    spindles_io::open_devices_by(Box::new(opener));
    let removes_from = doors.iter().filter_map(|door| door.folder());
    let removes_from = removes_from.chain(control.map(Control::folder));
    let entered = sandbox::enter(&Needs {
        writes_in: notice::own_folder().into_iter().collect(),
        removes_from: removes_from.map(Path::to_owned).collect(),
        // To come back after a connection is lost.
        connects: devices.iter().any(|name| spindles_io::is_address(name)),
    });
    server.restart_threads()?;
    Ok(entered)
}

/// Where a file lies that is a device.
fn folder_of(device: &str) -> Option<PathBuf> {
    let path = Path::new(device).canonicalize().ok()?;
    let is_file = path.metadata().is_ok_and(|it| it.is_file());
    path.parent().filter(|_| is_file).map(Path::to_owned)
}
