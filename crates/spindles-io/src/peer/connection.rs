//! An export in use: many requests are under way on one connection, and nothing waits.
//!
//! What holds when the connection is lost is decided here, and said in `backends/nbd.rs`.

use super::link::{Link, Terms};
use super::reconnection::{Reconnection, Sought, pages};
use super::rest::Rest;
use super::route::Route;
use super::traffic::Traffic;
use crate::at_rest::AtRest;
use crate::buffers::Memory;
use crate::later::{Job, LOOKOUTS, Later};
use crate::options::PeerTimeouts;
use crate::queues::Readiness;
use crate::transfer::Tag;
use crate::waiting;
use spindles_block::{MemberError, MemberResult};
use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

/// The descriptors that are looked out for: the socket for what can be read, or that of a reconnection; and the socket
/// for what can be written.
const RECEIVES: usize = 0;
const SENDS: usize = 1;

/// How the server is reached.
#[derive(Debug)]
enum State {
    Connected(Link),
    /// The connection was lost while nothing was asked: it is made again when something is.
    Idle,
    Reconnecting(Reconnection),
    /// It does not come back.
    Out,
}

/// An export in use.
#[derive(Debug)]
pub(crate) struct Connection {
    name: String,
    route: Route,
    terms: Terms,
    timeouts: PeerTimeouts,
    state: State,
    traffic: Traffic,
    /// What it was in before, until nobody looks out for descriptors of that.
    closing: Vec<State>,
    watched: [bool; LOOKOUTS],
    /// The socket took no more.
    blocked: bool,
    /// Something may be there to be received.
    arrived: bool,
    /// When the connection was lost, and how much was answered until then.
    lost: Option<(Instant, u64)>,
}

impl Connection {
    pub(crate) fn new(name: &str, route: Route, link: Link, timeouts: PeerTimeouts) -> Self {
        Self {
            name: name.to_owned(),
            route,
            terms: link.terms,
            timeouts,
            traffic: Traffic::new(link.terms),
            state: State::Connected(link),
            closing: Vec::new(),
            watched: [false; LOOKOUTS],
            blocked: false,
            arrived: false,
            lost: None,
        }
    }

    /// The connection is lost, or the server is not to be trusted any more.
    fn lose(&mut self, why: &io::Error) {
        if let State::Connected(link) = &self.state {
            link.socket.shutdown();
        }
        self.become_state(State::Idle);
        self.blocked = false;
        self.arrived = false;
        if let Some(what) = self.traffic.in_doubt() {
            self.go_out(&format!("the connection is lost ({why}), and {what}"));
            return;
        }
        self.traffic.begin_again();
        if self.traffic.operations.in_use() > 0 {
            self.reconnect(&why.to_string());
        } else {
            // A network that is away for a while takes no member from an array that nobody uses.
            waiting::tell(&format!(
                "{}: the connection is lost ({why}): it is made again when something is asked",
                self.name
            ));
        }
    }

    /// Leaves the state that it is in, in which descriptors may be looked out for.
    fn become_state(&mut self, state: State) {
        let before = std::mem::replace(&mut self.state, state);
        if self.watched != [false; LOOKOUTS] {
            self.closing.push(before);
        }
    }

    /// Begins to connect again. What is asked meanwhile waits.
    fn reconnect(&mut self, why: &str) {
        let answers = self.traffic.answers;
        let lost = self.lost.filter(|(_, before)| *before == answers);
        let (since, _) = *self.lost.insert(lost.unwrap_or((Instant::now(), answers)));
        let timeout = self.timeouts.reconnect.saturating_sub(since.elapsed());
        if timeout.is_zero() {
            self.go_out(&format!("the connection is lost again and again ({why})"));
            return;
        }
        waiting::tell(&format!(
            "{}: the connection is lost ({why}): trying again for {} s",
            self.name,
            self.timeouts.reconnect.as_secs()
        ));
        let begun = Reconnection::begin(Sought {
            route: self.route.clone(),
            terms: self.terms,
            pages: self.traffic.pages.clone(),
            timeout,
        });
        match begun {
            Ok(reconnection) => self.become_state(State::Reconnecting(reconnection)),
            Err(error) => self.go_out(&format!("it can't be connected to again: {error}")),
        }
    }

    /// Something came of connecting again.
    fn look_at_reconnection(&mut self) {
        // Nothing is looked out for that is not of this connection.
        if self.watched != [false; LOOKOUTS] {
            return;
        }
        let State::Reconnecting(reconnection) = &self.state else {
            return;
        };
        match reconnection.outcome() {
            None => {}
            Some(Ok(link)) => {
                self.traffic.moved_at = Instant::now();
                self.become_state(State::Connected(link));
                waiting::tell(&format!("{}: it is connected again", self.name));
            }
            Some(Err(why)) => self.go_out(&why),
        }
    }

    /// Everything that is under way fails, and all that follows.
    fn go_out(&mut self, why: &str) {
        waiting::tell(&format!("{}: it is given up: {why}", self.name));
        self.become_state(State::Out);
        self.traffic.give_up();
    }

    fn go_on(&mut self) -> io::Result<()> {
        let State::Connected(link) = &self.state else {
            return Ok(());
        };
        if std::mem::take(&mut self.arrived) {
            self.traffic.receive(&link.socket)?;
        }
        if !self.blocked {
            self.blocked = !self.traffic.send(&link.socket)?;
        }
        if self.wake_at().is_some_and(|at| at <= Instant::now()) {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "its server does not answer",
            ));
        }
        Ok(())
    }
}

impl Later for Connection {
    fn prepare(&mut self, zeros: Memory) -> io::Result<()> {
        self.traffic.zeros = zeros;
        if let State::Connected(link) = std::mem::replace(&mut self.state, State::Out) {
            let (link, pages) = pages(link, self.timeouts.silence)?;
            self.traffic.pages = pages;
            self.state = State::Connected(link);
        }
        Ok(())
    }

    fn start(&mut self, job: Job) {
        if matches!(self.state, State::Out) {
            self.traffic
                .done
                .push_back((job.tag, Err(MemberError::Gone)));
            return;
        }
        // The server may have ended the connection meanwhile: what was sent on it would be in doubt.
        self.arrived |= self.traffic.operations.in_use() == 0;
        self.traffic.take(job);
        if matches!(self.state, State::Idle) {
            self.reconnect("nothing was asked until now");
        }
    }

    fn advance(&mut self) {
        self.look_at_reconnection();
        if let Err(error) = self.go_on() {
            self.lose(&error);
        }
    }

    fn next_watch(&mut self, place: usize) -> Option<(RawFd, Readiness)> {
        if self.watched[place] {
            return None;
        }
        let watch = match (&self.state, place) {
            (State::Connected(link), RECEIVES) => (link.socket.descriptor(), Readiness::Read),
            (State::Connected(link), SENDS) if self.blocked => {
                (link.socket.descriptor(), Readiness::Write)
            }
            (State::Reconnecting(reconnection), RECEIVES) => {
                (reconnection.descriptor(), Readiness::Read)
            }
            _ => return None,
        };
        self.watched[place] = true;
        Some(watch)
    }

    fn ready(&mut self, place: usize) {
        self.watched[place] = false;
        if self.watched == [false; LOOKOUTS] {
            self.closing.clear();
        }
        if place == SENDS {
            self.blocked = false;
        } else {
            self.arrived = true;
        }
    }

    fn next_done(&mut self) -> Option<(Tag, MemberResult)> {
        self.traffic.done.pop_front()
    }

    fn has_done(&self) -> bool {
        !self.traffic.done.is_empty()
    }

    fn wake_at(&self) -> Option<Instant> {
        let awaits = matches!(self.state, State::Connected(_)) && self.traffic.awaits();
        awaits.then(|| self.traffic.moved_at + self.timeouts.silence)
    }

    fn in_flight(&self) -> usize {
        self.traffic.operations.in_use() + self.traffic.done.len()
    }

    fn end(&mut self) {
        if let State::Connected(link) = &self.state {
            link.disconnect();
        }
        self.become_state(State::Out);
        self.traffic.give_up();
    }

    fn at_rest(self: Box<Self>) -> Box<dyn AtRest> {
        match self.state {
            State::Connected(link) => Box::new(Rest::new(link, self.timeouts.silence)),
            _ => unreachable!("it was just opened"),
        }
    }
}
