//! The control socket of a served array.

use crate::commands::answer;
use crate::serving::Serving;
use anyhow::Context as _;
use spindles_device::notice::{self, Named};
use spindles_format::Uuid;
use spindles_serve::control::{Control, OpenControl};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The control socket of an array, before it answers anybody.
pub(super) struct Sockets {
    /// `None` if there is no folder for it.
    pub(super) control: Option<Control>,
    /// The link to it by the array's name.
    named: Option<Named>,
}

impl Sockets {
    /// Binds the socket to the path asked for, or else where commands of this user look for it.
    pub(super) fn bind(array: Uuid, name: &str, asked: Option<&Path>) -> anyhow::Result<Self> {
        let own = || notice::own_socket(array);
        let path = asked.map(Path::to_owned).or_else(own);
        let bind = |path: PathBuf| Control::bind(&path).with_context(|| path.display().to_string());
        let control = path.map(bind).transpose()?;
        let named = asked.is_none().then(|| Named::put(array, name));
        Ok(Self {
            control,
            named: named.flatten(),
        })
    }

    /// Starts to accept commands.
    pub(super) fn open(self, serving: Serving) -> anyhow::Result<Commands> {
        let answers = serving.clone();
        let control = self
            .control
            .map(|control| control.open(Arc::new(move |ask, to| answer(&answers, ask, to))));
        Ok(Commands {
            serving,
            control: control.transpose()?,
            named: self.named,
        })
    }
}

/// The control socket of a served array, in use.
pub(super) struct Commands {
    serving: Serving,
    control: Option<OpenControl>,
    named: Option<Named>,
}

impl Commands {
    /// Ends the commands that wait for the array to be closed, with the result of closing it.
    pub(super) fn end(self, result: Result<Vec<String>, String>) {
        let Self {
            serving,
            mut control,
            named,
        } = self;
        // Before `stop` returns: afterwards, no command may find the server.
        drop(named);
        control.iter_mut().for_each(OpenControl::hide);
        serving.end(result);
        if let Some(control) = control {
            control.close();
        }
    }
}
