//! How commands come to an array that is served.

use crate::served::Serving;
use anyhow::Context as _;
use spindles_format::Uuid;
use spindles_io::notice::{self, Named};
use spindles_serve::control::{Control, OpenControl};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The socket for commands on an array, before anybody is answered.
pub(super) struct Sockets {
    /// Where there can be one.
    pub(super) control: Option<Control>,
    /// What leads to it by the array's name.
    named: Option<Named>,
}

impl Sockets {
    /// There, or else where other commands of this user look for it.
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

    /// Lets commands in.
    pub(super) fn open(self, serving: Serving) -> anyhow::Result<Commands> {
        let answers = serving.clone();
        let control = self
            .control
            .map(|control| control.open(Arc::new(move |ask, to| answers.answer(ask, to))));
        Ok(Commands {
            serving,
            control: control.transpose()?,
            named: self.named,
        })
    }
}

/// Commands on an array that is served.
pub(super) struct Commands {
    serving: Serving,
    control: Option<OpenControl>,
    named: Option<Named>,
}

impl Commands {
    /// Answers whoever waits for the array to be closed, whether it could be or not.
    pub(super) fn end(self, result: Result<Vec<String>, String>) {
        let Self {
            serving,
            mut control,
            named,
        } = self;
        // Before `stop` is answered: whoever looks for the server after that must not find it.
        drop(named);
        control.iter_mut().for_each(OpenControl::hide);
        serving.end(result);
        if let Some(control) = control {
            control.close();
        }
    }
}
