//! Reports events: to people, and to the program that runs on events.

use super::export::Export;
use crate::commands::outside;
use crate::failure::Usage;
use crate::ui::Ui;
use crate::words;
use anyhow::Context as _;
use spindles_serve::sandbox::helper::{Helper, Rules};
use spindles_serve::{Alarm, may_execute};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Reports alarms to people, and runs the program for them. Dropping it waits for that program,
/// within a limit.
pub(super) struct Reporter<'a> {
    pub(super) hook: Option<Helper>,
    pub(super) ui: &'a Ui,
}

impl Reporter<'_> {
    pub(super) fn report(&mut self, alarm: &Alarm) {
        let alarm = words::alarms::advised(alarm);
        self.ui.note(&alarm.message);
        self.run(&alarm);
    }

    /// Runs the program for an alarm of which people get another message.
    pub(super) fn raise(&mut self, alarm: &Alarm) {
        self.run(&words::alarms::advised(alarm));
    }

    fn run(&mut self, alarm: &Alarm) {
        let raised = self.hook.as_ref().map(|hook| hook.run_hook(alarm));
        if let Some(Err(error)) = raised {
            self.ui
                .note(format!("programs for events are no longer run: {error}"));
            self.hook = None;
        }
    }
}

/// Starts the helper that runs the program. The helper stays outside of the sandbox, and does
/// nothing else.
pub(super) fn hook(program: Option<&OsString>) -> anyhow::Result<Option<Helper>> {
    let Some(program) = program else {
        return Ok(None);
    };
    let path = Path::new(program);
    if let Some(why) = why_not(path) {
        return Err(Usage::error(why));
    }
    let rules = Rules {
        hook: Some(path.to_owned()),
        ..Rules::default()
    };
    let helper = Helper::start(outside::command(&rules));
    Ok(Some(
        helper.context("can't start what runs programs for events")?,
    ))
}

/// Returns the reason if a program can't run on events. A bare name is searched in PATH.
fn why_not(path: &Path) -> Option<String> {
    let program = path.display();
    if path.as_os_str().as_bytes().contains(&b'/') {
        if is_program(path) {
            return None;
        }
        return Some(if path.is_file() {
            format!(
                "{program} can't be run for events: this user may not execute it; `chmod +x \
                 {program}` makes a program of it"
            )
        } else {
            format!("{program}: there is no such program to run for events")
        });
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&folders).any(|folder| is_program(&folder.join(path))) {
        return None;
    }
    let meant = if path.is_file() {
        format!("; give ./{program} for that of this folder")
    } else {
        String::new()
    };
    Some(format!(
        "{program}: there is no such program to run for events in PATH{meant}"
    ))
}

/// Returns true for a file that this user may execute.
fn is_program(path: &Path) -> bool {
    path.is_file() && may_execute(path)
}

/// The state of each export, as the status line of the server.
pub(super) struct States {
    names: Vec<String>,
    called: Vec<String>,
    now: Vec<String>,
    /// The addresses of each; empty before it is open and after it has ended.
    at: Vec<String>,
    served: usize,
}

impl States {
    pub(super) fn new(exports: &[Export]) -> Self {
        Self {
            names: exports.iter().map(|export| export.name.clone()).collect(),
            called: exports.iter().map(|export| export.called.clone()).collect(),
            now: exports.iter().map(|export| export.state.clone()).collect(),
            at: exports.iter().map(|_| String::new()).collect(),
            served: exports.len(),
        }
    }

    /// Records that an export is open, at these addresses.
    pub(super) fn open(&mut self, number: usize, addresses: &[String]) {
        self.at[number] = format!(", at {}", addresses.join(" and "));
    }

    /// Records the new name of an export's array.
    pub(super) fn rename(&mut self, number: usize, name: String) {
        self.called[number] = format!("array '{name}'");
        self.names[number] = name;
    }

    /// Records the new state of an export.
    pub(super) fn set(&mut self, number: usize, state: String) {
        self.now[number] = state;
    }

    /// Records that an export is no longer served.
    pub(super) fn end(&mut self, number: usize) {
        self.set(number, "closed".to_owned());
        self.at[number].clear();
        self.served -= 1;
    }

    /// Returns true if no export is served any longer.
    pub(super) fn are_over(&self) -> bool {
        self.served == 0
    }

    /// The name of an export; after a rename, that of its array.
    pub(super) fn name(&self, number: usize) -> &str {
        &self.names[number]
    }

    /// Its name for an administrator.
    pub(super) fn called(&self, number: usize) -> &str {
        &self.called[number]
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.now.iter().zip(&self.at);
        let all = all.map(|(now, at)| format!("{now}{at}"));
        let all: Vec<String> = match &self.called[..] {
            [_] => all.collect(),
            called => {
                let each = called.iter().zip(all);
                each.map(|(called, it)| format!("{called}: {it}")).collect()
            }
        };
        f.write_str(&all.join("; "))
    }
}
