//! A table of all arrays, found on devices or served.

use crate::arrays;
use crate::documents::array::{Array, State};
use crate::documents::status::{self as documents, ServedBy};
use crate::failure::STATUS_FAILED;
use crate::served;
use crate::ui::Ui;
use crate::words;
use spindles_admin::assemble::ArrayReport;
use spindles_admin::host::report_of;
use spindles_admin::scan::{self, FoundArray};
use spindles_admin::survey::{Server, server_of};
use spindles_serve::control::Silent;

/// An array in the list.
struct Listed {
    name: String,
    uuid: String,
    devices: Vec<String>,
    /// The known facts, or the reason for the lack of them.
    summary: Result<Summary, String>,
    /// True if this user lacks the permission to know more.
    is_hidden: bool,
    service: Service,
}

/// An array in short.
struct Summary {
    level: String,
    bytes: u64,
    state: State,
}

impl From<&ArrayReport> for Summary {
    fn from(report: &ArrayReport) -> Self {
        Self {
            level: report.level.name.to_owned(),
            bytes: report.bytes,
            state: State::from(report.health()),
        }
    }
}

impl From<Array> for Summary {
    fn from(array: Array) -> Self {
        Self {
            level: array.level,
            bytes: array.bytes,
            state: array.state,
        }
    }
}

/// How an array is served.
enum Service {
    Not,
    /// By a server that does not accept commands from this user, or whose socket was not found: the
    /// server, as far as the devices reveal it.
    Elsewhere(Option<Server>),
    /// By a server that does not reply.
    Silent(Silent),
    /// At these addresses.
    At(Vec<String>),
}

impl Listed {
    /// Lists an array found on devices, for which no server accepts commands from this user.
    fn found(array: FoundArray, hides_devices: bool) -> Self {
        let report = report_of(&array.devices).map(|mut report| {
            if hides_devices {
                report.note_hidden_devices();
            }
            report
        });
        let server = server_of(&arrays::names(&array.devices));
        Self {
            name: array.name.unwrap_or_else(|| array.uuid.to_string()),
            uuid: array.uuid.to_string(),
            summary: match report {
                Ok(report) => Ok(Summary::from(&report)),
                Err(error) => Err(words::errors::text(&error)),
            },
            devices: array.devices,
            is_hidden: hides_devices,
            service: server.map_or(Service::Not, |server| Service::Elsewhere(Some(server))),
        }
    }

    /// Lists an array of a server.
    fn served(array: served::Known) -> Self {
        let addresses = array.addresses().to_owned();
        let array = match array.status {
            Ok(status) => status.array,
            Err(why) => {
                let summary = Err(why.to_string());
                return Self {
                    name: why.name.unwrap_or_else(|| array.uuid.clone()),
                    uuid: array.uuid,
                    devices: Vec::new(),
                    summary,
                    is_hidden: why.silent.is_none(),
                    service: why.silent.map_or(Service::Elsewhere(None), Service::Silent),
                };
            }
        };
        Self {
            name: array.name.clone(),
            uuid: array.uuid.clone(),
            devices: Vec::new(),
            is_hidden: false,
            service: Service::At(addresses),
            summary: Ok(Summary::from(array)),
        }
    }

    /// Its state; `None` if the devices make no array.
    fn state(&self) -> Option<State> {
        match (&self.summary, &self.service) {
            // Members that are missing here may be open in the silent server.
            (Ok(summary), Service::Silent(_)) if summary.state != State::Healthy => {
                Some(State::Unknown)
            }
            (Ok(summary), _) => Some(summary.state),
            (Err(_), _) => self.is_hidden.then_some(State::Unknown),
        }
    }

    /// The exit status that `status` would have for this array.
    fn status(&self) -> u8 {
        self.state().map_or(STATUS_FAILED, State::exit_status)
    }

    /// A row of the table. `several` is set if several arrays have that name.
    fn row(&self, several: bool) -> Vec<String> {
        let summary = self.summary.as_ref().ok();
        vec![
            if several {
                format!("{} ({})", self.name, self.uuid)
            } else {
                self.name.clone()
            },
            summary.map_or_else(|| "-".to_owned(), |summary| summary.level.clone()),
            summary.map_or_else(
                || "-".to_owned(),
                |summary| arrays::size(summary.bytes).to_string(),
            ),
            match self.state() {
                None | Some(State::Unknown) => "not known".to_owned(),
                Some(state) => state.to_string(),
            },
            match &self.service {
                Service::Not => "no".to_owned(),
                Service::Elsewhere(server) => by(server.as_ref()),
                Service::Silent(Silent { pid: Some(pid), .. }) => {
                    format!("does not answer, pid {pid}")
                }
                Service::Silent(_) => "does not answer".to_owned(),
                Service::At(addresses) => addresses.join(", "),
            },
        ]
    }

    fn document(&self) -> documents::Listed<'_> {
        let summary = self.summary.as_ref().ok();
        documents::Listed {
            name: &self.name,
            uuid: &self.uuid,
            devices: &self.devices,
            level: summary.map(|summary| &*summary.level),
            bytes: summary.map(|summary| summary.bytes),
            state: self.state(),
            served: match &self.service {
                Service::Not => None,
                Service::Elsewhere(server) => Some(ServedBy {
                    pid: Some(server.as_ref().map(|server| server.pid)),
                    ..ServedBy::default()
                }),
                Service::Silent(silent) => Some(ServedBy {
                    pid: Some(silent.pid),
                    silent: Some(silent.to_string()),
                    ..ServedBy::default()
                }),
                Service::At(addresses) => Some(ServedBy {
                    addresses: Some(addresses),
                    ..ServedBy::default()
                }),
            },
            error: self.summary.as_ref().err().map(|error| &**error),
        }
    }
}

/// Names the server of an array whose addresses are unknown.
fn by(server: Option<&Server>) -> String {
    match server {
        None => "by another user".to_owned(),
        Some(Server { pid, another }) => {
            let user = another.as_deref().unwrap_or("this user");
            format!("by {user}, pid {pid}")
        }
    }
}

/// The names of all arrays, found or served.
pub(crate) fn names() -> Vec<String> {
    let served = served::known().into_iter().map(Listed::served);
    let found = scan::overview(&[]).arrays.into_iter();
    let names = found.filter_map(|array| array.name);
    let mut names: Vec<String> = names.chain(served.map(|array| array.name)).collect();
    names.sort();
    names.dedup();
    names
}

/// Shows all arrays in these places and all that are served on this machine. Returns the highest of
/// their exit statuses.
pub(crate) fn show(places: &[String], ui: &Ui) -> u8 {
    let found = scan::overview(places);
    for skipped in &found.skipped {
        ui.note(skipped);
    }
    let mut all: Vec<Listed> = served::known().into_iter().map(Listed::served).collect();
    for array in &found.arrays {
        let array = array.clone();
        let hides_devices = found.hides_devices(&array.devices);
        let uuid = array.uuid.to_string();
        let Some(served) = all.iter_mut().find(|listed| listed.uuid == uuid) else {
            all.push(Listed::found(array, hides_devices));
            continue;
        };
        if served.summary.is_err() {
            // Take from the superblocks what the server does not report.
            let found = Listed::found(array, hides_devices);
            let service = match (&served.service, &found.service) {
                (Service::Silent(silent), _) => Service::Silent(*silent),
                (_, Service::Elsewhere(by)) => Service::Elsewhere(by.clone()),
                _ => Service::Elsewhere(None),
            };
            *served = Listed {
                is_hidden: found.is_hidden || found.summary.is_err(),
                service,
                ..found
            };
        } else {
            served.devices = array.devices;
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    if all.is_empty() {
        ui.line(format!(
            "there is no array in {}: --scan says where else to look",
            found.places
        ));
    } else {
        let rows = all.iter().map(|listed| {
            let same = all.iter().filter(|other| other.name == listed.name);
            listed.row(same.count() > 1)
        });
        let rows: Vec<Vec<String>> = rows.collect();
        ui.table(&["array", "level", "holds", "state", "served"], &rows);
    }
    for listed in &all {
        if let Err(error) = &listed.summary {
            ui.note(format!("{}: {error}", listed.name));
        } else if let Service::Silent(silent) = &listed.service {
            let state = "its state is what the superblocks say";
            ui.note(format!("{}: {silent}; {state}", listed.name));
        }
    }
    ui.json(&documents::Overview {
        arrays: all.iter().map(Listed::document).collect(),
    });
    all.iter().map(Listed::status).max().unwrap_or(0)
}
