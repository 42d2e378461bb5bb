//! An export on its own thread, from opening to closing: its I/O backend belongs to the thread that
//! made it.
//!
//! ```text
//!  opened ──▶ confined ──▶ serves ──▶ closed
//!     └──────────┴── (serving does not begin) ──▶ closed
//! ```

use super::arguments::Arguments;
use super::control::Commands;
use super::listeners::Ways;
use super::subject::{self, Subject};
use super::targets::What;
use crate::ui::Ui;
use spindles_admin::assemble::{ArrayReport, AssembleOptions};
use spindles_array::ArraySnapshot;
use spindles_format::Uuid;
use spindles_serve::sandbox::{Needs, Sandbox, enter_thread};
use spindles_serve::{
    Alarm, EventBus, Handle, Served, Server, ServerHandle, ServerLimits, Stopper, Watch, state_line,
};
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, Sender, channel};
use std::thread::{self, JoinHandle};

/// An open target, ready to be served.
pub(super) struct Export {
    /// The name of the export.
    pub(super) name: String,
    /// Its name for an administrator.
    pub(super) called: String,
    /// A remark about how it is served.
    but: &'static str,
    /// Warnings to show when it is served.
    warnings: Vec<String>,
    /// The export description for clients.
    pub(super) handle: ServerHandle,
    /// Stops serving it.
    pub(super) stopper: Stopper,
    /// Its state when it was opened, in a line.
    pub(super) state: String,
    /// Alarms about that state.
    alarms: Vec<Alarm>,
    /// The array that accepts commands: its report, its devices, and its options.
    array: Option<(ArrayReport, Vec<String>, AssembleOptions)>,
    bus: EventBus,
    thread: Thread,
}

/// Facts about an export that begins to be served.
pub(super) struct Beginning {
    /// As in `Export`.
    pub(super) name: String,
    pub(super) called: String,
    pub(super) alarms: Vec<Alarm>,
    pub(super) stopper: Stopper,
    but: &'static str,
    warnings: Vec<String>,
}

impl Beginning {
    /// Reports that the export is served at these addresses.
    pub(super) fn tell(&self, addresses: &[String], ui: &Ui) {
        for address in addresses {
            // Also with --json: it says that clients can connect by every listener.
            ui.note(format!("{} is served{}: {address}", self.called, self.but));
        }
        for warning in &self.warnings {
            ui.note(warning);
        }
    }
}

/// The thread of an export.
struct Thread {
    orders: Sender<Order>,
    confined: Receiver<io::Result<Sandbox>>,
    end: JoinHandle<()>,
}

/// The next step for the thread. Without an order it closes the export.
enum Order {
    Confine(Needs),
    Serve(Box<Service>),
}

/// The clients and commands of an export, and the receiver of its events.
pub(super) struct Service {
    /// The number of the export in its events.
    pub(super) number: usize,
    /// The listeners to close in the end: they open while the export is served.
    pub(super) ways: Receiver<Ways>,
    /// The control socket.
    pub(super) commands: Option<Commands>,
    pub(super) events: Sender<ExportEvent>,
}

/// An event of an export.
pub(super) enum ExportEvent {
    /// A message for people.
    Note(String),
    /// For people, and for the program that runs on events.
    Alarm(Alarm),
    /// For that program; people get another message.
    Event(Alarm),
    /// The array of an export has this name from now on.
    Renamed(usize, String),
    /// The new state of an export.
    State(usize, String),
    /// An export serves no more clients.
    Ends(usize),
    /// An export is closed, or closing it failed.
    Closed(usize, Result<Served, String>),
}

impl Export {
    /// Opens a target on a new thread.
    pub(super) fn open(what: What, arguments: &Arc<Arguments>) -> anyhow::Result<Self> {
        let (opened, is_open) = channel();
        let (orders, ordered) = channel();
        let (answers, confined) = channel();
        let arguments = Arc::clone(arguments);
        let thread = thread::Builder::new().name("spindles-export".to_owned());
        let end = thread.spawn(move || {
            match open(what, &arguments) {
                Ok((server, facts)) => {
                    // `open` returns now; the thread continues.
                    drop(opened.send(Ok(facts)));
                    follow(server, &ordered, &answers);
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        })?;
        let Ok(facts) = is_open.recv() else {
            resume_unwind(end.join().expect_err("it said nothing"));
        };
        let Facts {
            subject,
            handle,
            stopper,
            bus,
            state,
            alarms,
        } = facts?;
        Ok(Self {
            name: subject.name,
            called: subject.called,
            but: subject.but,
            warnings: subject.warnings,
            array: subject.array,
            handle,
            stopper,
            state,
            alarms,
            bus,
            thread: Thread {
                orders,
                confined,
                end,
            },
        })
    }

    /// The array, if it accepts commands.
    pub(super) fn array(&self) -> Option<Uuid> {
        self.array.as_ref().map(|(report, ..)| report.uuid)
    }

    /// The devices of the array.
    pub(super) fn devices(&self) -> &[String] {
        let devices = self.array.as_ref().map(|(_, devices, _)| devices);
        devices.map_or(&[], Vec::as_slice)
    }

    /// Returns true if that spare took a place in the array when it was opened.
    pub(super) fn has_taken(&self, spare: &str) -> bool {
        let taken = self.array.as_ref().map(|(report, ..)| &report.taken);
        let mut taken = taken.into_iter().flatten();
        taken.any(|taken| taken.device == spare && taken.error.is_none())
    }

    /// The facts to report when it begins to be served.
    pub(super) fn beginning(&self) -> Beginning {
        Beginning {
            name: self.name.clone(),
            called: self.called.clone(),
            but: self.but,
            warnings: self.warnings.clone(),
            alarms: self.alarms.clone(),
            stopper: self.stopper.clone(),
        }
    }

    /// Returns the handle of the array, for commands.
    pub(super) fn handle(&self) -> Option<Handle> {
        let (report, devices, options) = self.array.as_ref()?;
        let (handle, bus) = (&self.handle, &self.bus);
        Some(Handle::new(handle, bus, devices, options, report))
    }

    /// Enters the sandbox on its thread.
    pub(super) fn confine(&self, needs: &Needs) -> anyhow::Result<Sandbox> {
        let ordered = self.thread.orders.send(Order::Confine(needs.clone()));
        ordered.expect("it waits for orders");
        let confined = self.thread.confined.recv();
        Ok(confined.expect("it answers every order")?)
    }

    /// Starts to serve it. The thread ends when serving does.
    pub(super) fn serve(self, service: Service) -> JoinHandle<()> {
        let ordered = self.thread.orders.send(Order::Serve(Box::new(service)));
        ordered.expect("it waits for orders");
        self.thread.end
    }

    /// Closes it without serving it.
    pub(super) fn close(self) {
        drop(self.thread.orders);
        self.thread
            .end
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic));
    }
}

/// Facts about a server, which itself stays on its thread.
struct Facts {
    subject: Subject,
    handle: ServerHandle,
    stopper: Stopper,
    bus: EventBus,
    state: String,
    alarms: Vec<Alarm>,
}

fn open(what: What, arguments: &Arguments) -> anyhow::Result<(Server, Facts)> {
    let (target, subject) = subject::open(what, arguments)?;
    let limits = ServerLimits::default();
    let description = subject.description.clone();
    let (server, handle) = Server::new(target, &subject.name, description, limits)?;
    if let Some((report, ..)) = &subject.array {
        handle.identify(report.uuid.0);
    }
    let mut alarms = Watch::begin(server.arrays());
    if let Some(name) = &subject.not_closed {
        alarms.push(Watch::not_closed(name, server.arrays()));
    }
    let facts = Facts {
        subject,
        handle,
        stopper: server.stopper(),
        bus: server.bus(),
        state: state_line(server.arrays()),
        alarms,
    };
    Ok((server, facts))
}

/// Carries out orders, until serving has ended or can't begin.
fn follow(mut server: Server, ordered: &Receiver<Order>, answers: &Sender<io::Result<Sandbox>>) {
    loop {
        match ordered.recv() {
            Ok(Order::Confine(needs)) => {
                let entered = enter_thread(&needs);
                let confined = server.restart_threads().map(|()| entered);
                // If the receiver is gone, the export is closed next.
                drop(answers.send(confined));
            }
            Ok(Order::Serve(service)) => return serve(server, *service),
            // Serving never began, so no client wrote data.
            Err(RecvError) => return drop(server.close()),
        }
    }
}

fn serve(server: Server, service: Service) {
    let Service {
        number,
        ways,
        commands,
        events,
    } = service;
    // The receiver lives until the last sender is dropped.
    let send = |event| drop(events.send(event));
    let mut name = server.name();
    let name_of = |arrays: &[ArraySnapshot]| arrays.first().map(|array| array.name.clone());
    let mut called = name_of(server.arrays());
    let mut rename = |arrays: &[ArraySnapshot]| {
        if let Some(now) = name_of(arrays).filter(|now| Some(now) != called.as_ref()) {
            send(ExportEvent::Renamed(number, now.clone()));
            called = Some(now.clone());
            name = now;
        }
    };
    let mut watch = Watch::default();
    let mut state = state_line(server.arrays());
    let ended = server.run(|bus, arrays| {
        rename(arrays);
        for alarm in watch.hear(bus, arrays) {
            send(ExportEvent::Alarm(alarm));
        }
        let now = state_line(arrays);
        if now != state {
            send(ExportEvent::State(number, now.clone()));
            state = now;
        }
    });
    let arrays = ended.as_ref().map_or(&[][..], Server::arrays);
    rename(arrays);
    watch
        .end(arrays)
        .into_iter()
        .map(ExportEvent::Alarm)
        .for_each(send);
    send(ExportEvent::Ends(number));
    // No listeners arrive if opening them failed; the error was already reported.
    let notes = ways.recv().map_or_else(|_| Vec::new(), Ways::close);
    notes.iter().cloned().map(ExportEvent::Note).for_each(send);
    let closed = ended.map_err(|error| error.to_string());
    let closed = closed.and_then(|server| server.close().map_err(|error| error.to_string()));
    if let Err(error) = &closed {
        send(ExportEvent::Event(Watch::unclean(&name, error)));
    }
    let result = closed.as_ref().map(|_| notes).map_err(String::clone);
    send(ExportEvent::Closed(number, closed));
    if let Some(commands) = commands {
        commands.end(result);
    }
}
