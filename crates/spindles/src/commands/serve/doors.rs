//! The transports of a server, an option each.

use crate::failure::Usage;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches};
use spindles_serve::{Bind, Door, DoorError, DoorOptions, Offer, Seen, TRANSPORTS, Transport};
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

/// The doors to several exports.
#[derive(Debug)]
pub(super) struct Doors {
    /// Doors to all exports.
    shared: Vec<Box<dyn Door>>,
    /// Doors to each export alone.
    own: Vec<Vec<Box<dyn Door>>>,
}

impl Doors {
    /// Binds the doors that the options ask for. A door that can't lead to several exports leads to
    /// one: the first door to the first export, and so on. A single export gets all of them.
    pub(super) fn bind(
        matches: &ArgMatches,
        options: &DoorOptions,
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
        let doors = |values: Vec<(Bind, &String)>, ways: usize| {
            let options = DoorOptions {
                is_only: ways == 1,
                ..options.clone()
            };
            let doors = values
                .into_iter()
                .map(|(bind, value)| bind(value, &options));
            doors.collect::<Result<Vec<_>, _>>().map_err(refused)
        };
        let own = of_each.into_iter().map(|own| {
            let ways = ways + own.len();
            doors(own, ways)
        });
        Ok(Self {
            own: own.collect::<Result<_, _>>()?,
            shared: doors(shared, ways)?,
        })
    }

    /// Does the preparations that the sandbox forbids.
    pub(super) fn prepare(&mut self, offers: &[Offer]) -> io::Result<()> {
        self.each(offers, |door, offers| door.prepare(offers))
    }

    /// Starts to accept clients.
    pub(super) fn open(&mut self, offers: &[Offer]) -> io::Result<()> {
        self.each(offers, |door, offers| door.open(offers))
    }

    fn each(
        &mut self,
        offers: &[Offer],
        step: impl Fn(&mut dyn Door, &[Offer]) -> io::Result<()>,
    ) -> io::Result<()> {
        for (doors, offer) in self.own.iter_mut().zip(offers) {
            for door in doors {
                step(&mut **door, std::slice::from_ref(offer))?;
            }
        }
        for door in &mut self.shared {
            step(&mut **door, offers)?;
        }
        Ok(())
    }

    /// All doors.
    pub(super) fn all(&self) -> impl Iterator<Item = &dyn Door> {
        let all = self.own.iter().flatten().chain(&self.shared);
        all.map(|door| &**door)
    }

    /// The file and block devices of an export.
    pub(super) fn seen(&self, export: usize) -> Vec<Weak<dyn Seen>> {
        self.own[export]
            .iter()
            .filter_map(|door| door.seen())
            .collect()
    }

    /// The addresses of an export.
    pub(super) fn addresses(&self, export: usize, name: &str) -> Vec<String> {
        let doors = self.own[export].iter().chain(&self.shared);
        doors.map(|door| door.address(name)).collect()
    }
}

/// The doors to one export. The last export to end closes the shared doors.
#[derive(Debug)]
pub(super) struct Ways {
    own: Vec<Box<dyn Door>>,
    shared: Arc<Mutex<Vec<Box<dyn Door>>>>,
}

impl Ways {
    /// Splits the doors by export.
    pub(super) fn of(doors: Doors) -> Vec<Self> {
        let shared = Arc::new(Mutex::new(doors.shared));
        let of_each = doors.own.into_iter().map(|own| Self {
            own,
            shared: Arc::clone(&shared),
        });
        of_each.collect()
    }

    /// Closes the doors of an export that has ended. Returns notes for the user.
    pub(super) fn close(self) -> Vec<String> {
        let shared = Arc::into_inner(self.shared);
        let shared = shared.map(|doors| doors.into_inner().unwrap_or_else(PoisonError::into_inner));
        let doors = self.own.into_iter().chain(shared.into_iter().flatten());
        doors.filter_map(|mut door| door.close()).collect()
    }
}

pub(super) fn refused(error: DoorError) -> anyhow::Error {
    match error {
        DoorError::Usage(what) => Usage::error(what),
        DoorError::Refused(_) => error.into(),
    }
}
