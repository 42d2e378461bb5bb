//! The transports of a server, an option each.

use crate::failure::Usage;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};
use spindles_serve::{
    Bind, ExposedFile, Listener, ListenerError, ListenerOptions, ServerHandle, TRANSPORTS,
    Transport,
};
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Adds an option for each transport; at least one is required.
pub(super) fn with_options(command: clap::Command) -> clap::Command {
    let option = |transport: &&Transport| {
        Arg::new(transport.name)
            .long(transport.name)
            .value_name(transport.value)
            .help(transport.help)
            .action(ArgAction::Append)
    };
    let names = TRANSPORTS.iter().map(|transport| transport.name);
    let one = ArgGroup::new("transports").args(names);
    let command = command.args(TRANSPORTS.iter().map(option));
    command.group(one.multiple(true).required(true))
}

/// The listeners of several exports.
#[derive(Debug)]
pub(super) struct Listeners {
    /// Listeners that serve all exports.
    shared: Vec<Box<dyn Listener>>,
    /// Listeners that serve one export, by export.
    own: Vec<Vec<Box<dyn Listener>>>,
}

impl Listeners {
    /// Binds the listeners that the options ask for. A listener of one export serves
    /// one: the first listener the first export, and so on. A single export gets all of them.
    pub(super) fn bind(
        matches: &ArgMatches,
        options: &ListenerOptions,
        exports: usize,
    ) -> anyhow::Result<Self> {
        let values = |transport: &Transport| -> Vec<&String> {
            let values = matches.get_many(transport.name);
            values.into_iter().flatten().collect()
        };
        let is_shared = |transport: &&&'static Transport| transport.is_shared;
        let (shared, own): (Vec<_>, Vec<_>) = TRANSPORTS.iter().partition(is_shared);
        let shared: Vec<_> = (shared.into_iter())
            .flat_map(|it| values(it).into_iter().map(|value| (it.bind, value)))
            .collect();
        let mut of_each = vec![Vec::new(); exports];
        for transport in own {
            let values = values(transport);
            if exports > 1 && ![0, exports].contains(&values.len()) {
                let (name, value) = (transport.name, transport.value);
                return Err(Usage::error(format!(
                    "--{name} {value} is one array: give it once for each of the {exports}, in \
                     their order"
                )));
            }
            for (at, value) in values.into_iter().enumerate() {
                of_each[at % exports].push((transport.bind, value));
            }
        }
        let ways = shared.len();
        let listeners = |values: Vec<(Bind, &String)>, ways: usize| {
            let options = ListenerOptions {
                is_only: ways == 1,
                ..options.clone()
            };
            let listeners = values
                .into_iter()
                .map(|(bind, value)| bind(value, &options));
            listeners.collect::<Result<Vec<_>, _>>().map_err(refused)
        };
        let own = of_each.into_iter().map(|own| {
            let ways = ways + own.len();
            listeners(own, ways)
        });
        Ok(Self {
            own: own.collect::<Result<_, _>>()?,
            shared: listeners(shared, ways)?,
        })
    }

    /// Does the preparations that the sandbox forbids.
    pub(super) fn prepare(&mut self, handles: &[ServerHandle]) -> io::Result<()> {
        self.each(handles, |listener, handles| listener.prepare(handles))
    }

    /// Starts to accept clients.
    pub(super) fn open(&mut self, handles: &[ServerHandle]) -> io::Result<()> {
        self.each(handles, |listener, handles| listener.open(handles))
    }

    fn each(
        &mut self,
        handles: &[ServerHandle],
        step: impl Fn(&mut dyn Listener, &[ServerHandle]) -> io::Result<()>,
    ) -> io::Result<()> {
        for (listeners, handle) in self.own.iter_mut().zip(handles) {
            for listener in listeners {
                step(&mut **listener, std::slice::from_ref(handle))?;
            }
        }
        for listener in &mut self.shared {
            step(&mut **listener, handles)?;
        }
        Ok(())
    }

    /// All listeners.
    pub(super) fn all(&self) -> impl Iterator<Item = &dyn Listener> {
        let all = self.own.iter().flatten().chain(&self.shared);
        all.map(|listener| &**listener)
    }

    /// The file and block devices of an export.
    pub(super) fn seen(&self, export: usize) -> Vec<Weak<dyn ExposedFile>> {
        self.own[export]
            .iter()
            .filter_map(|listener| listener.seen())
            .collect()
    }

    /// The addresses of an export.
    pub(super) fn addresses(&self, export: usize, name: &str) -> Vec<String> {
        let listeners = self.own[export].iter().chain(&self.shared);
        listeners.map(|listener| listener.address(name)).collect()
    }
}

/// The listeners of one export. The last export to end closes the shared listeners.
#[derive(Debug)]
pub(super) struct Ways {
    own: Vec<Box<dyn Listener>>,
    shared: Arc<Mutex<Vec<Box<dyn Listener>>>>,
}

impl Ways {
    /// Splits the listeners by export.
    pub(super) fn of(listeners: Listeners) -> Vec<Self> {
        let shared = Arc::new(Mutex::new(listeners.shared));
        let of_each = listeners.own.into_iter().map(|own| Self {
            own,
            shared: Arc::clone(&shared),
        });
        of_each.collect()
    }

    /// Closes the listeners of an export that has ended. Returns notes for the user.
    pub(super) fn close(self) -> Vec<String> {
        let shared = Arc::into_inner(self.shared);
        let shared = shared.map(|listeners| {
            listeners
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
        });
        let listeners = self.own.into_iter().chain(shared.into_iter().flatten());
        listeners
            .filter_map(|mut listener| listener.close())
            .collect()
    }
}

pub(super) fn refused(error: ListenerError) -> anyhow::Error {
    match error {
        ListenerError::Usage(what) => Usage::error(what),
        ListenerError::Refused(_) => error.into(),
    }
}
