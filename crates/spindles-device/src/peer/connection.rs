//! An export in use: many requests in flight on one connection, without blocking.
//!
//! This file decides what survives the loss of a connection; `backends/nbd.rs` documents it.

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

/// The two descriptors to poll: the socket for reading, or the one of a reconnection; and the
/// socket for writing.
const RECEIVES: usize = 0;
const SENDS: usize = 1;

/// State of the connection to the server.
#[derive(Debug)]
enum LinkState {
    Connected(Link),
    /// The connection was lost while no operation was in progress. The next operation reconnects.
    Idle,
    Reconnecting(Reconnection),
    /// The export has failed for good.
    Out,
}

/// An export in use.
#[derive(Debug)]
pub(crate) struct Connection {
    name: String,
    route: Route,
    terms: Terms,
    timeouts: PeerTimeouts,
    state: LinkState,
    traffic: Traffic,
    /// Previous states, kept until their descriptors are no longer polled.
    closing: Vec<LinkState>,
    watched: [bool; LOOKOUTS],
    /// Set while the socket takes no more bytes.
    blocked: bool,
    /// Set if the socket may have bytes to receive.
    arrived: bool,
    /// When the connection was lost, and how many requests had been answered until then.
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
            state: LinkState::Connected(link),
            closing: Vec::new(),
            watched: [false; LOOKOUTS],
            blocked: false,
            arrived: false,
            lost: None,
        }
    }

    /// Handles the loss of the connection, or a server that can no longer be trusted.
    fn lose(&mut self, why: &io::Error) {
        if let LinkState::Connected(link) = &self.state {
            link.socket.shutdown();
        }
        self.become_state(LinkState::Idle);
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
            // A temporary network outage must not cost an idle array a member.
            waiting::tell(&format!(
                "{}: the connection is lost ({why}): the next request reconnects",
                self.name
            ));
        }
    }

    /// Changes the state. Keeps the old state while its descriptors may be polled.
    fn become_state(&mut self, state: LinkState) {
        let before = std::mem::replace(&mut self.state, state);
        if self.watched != [false; LOOKOUTS] {
            self.closing.push(before);
        }
    }

    /// Starts to reconnect. Operations wait meanwhile.
    fn reconnect(&mut self, why: &str) {
        let answers = self.traffic.answers;
        let lost = self.lost.filter(|(_, before)| *before == answers);
        let (since, _) = *self.lost.insert(lost.unwrap_or((Instant::now(), answers)));
        let timeout = self.timeouts.reconnect.saturating_sub(since.elapsed());
        if timeout.is_zero() {
            self.go_out(&format!("the connection keeps breaking ({why})"));
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
            start_bytes: self.traffic.start_bytes,
            pages: self.traffic.pages.clone(),
            timeout,
        });
        match begun {
            Ok(reconnection) => self.become_state(LinkState::Reconnecting(reconnection)),
            Err(error) => self.go_out(&format!("reconnecting failed: {error}")),
        }
    }

    /// Acts on the outcome of a reconnection, if there is one.
    fn look_at_reconnection(&mut self) {
        // Wait until no old descriptor is polled: every watch then belongs to the new connection.
        if self.watched != [false; LOOKOUTS] {
            return;
        }
        let LinkState::Reconnecting(reconnection) = &self.state else {
            return;
        };
        match reconnection.outcome() {
            None => {}
            Some(Ok(link)) => {
                self.traffic.moved_at = Instant::now();
                self.become_state(LinkState::Connected(link));
                waiting::tell(&format!("{}: it is connected again", self.name));
            }
            Some(Err(why)) => self.go_out(&why),
        }
    }

    /// Fails everything in progress, and everything that follows.
    fn go_out(&mut self, why: &str) {
        waiting::tell(&format!("{}: it is given up: {why}", self.name));
        self.become_state(LinkState::Out);
        self.traffic.give_up();
    }

    fn go_on(&mut self) -> io::Result<()> {
        let LinkState::Connected(link) = &self.state else {
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
        if let LinkState::Connected(link) = std::mem::replace(&mut self.state, LinkState::Out) {
            let (link, pages) = pages(link, self.traffic.start_bytes, self.timeouts.silence)?;
            self.traffic.pages = pages;
            self.state = LinkState::Connected(link);
        }
        Ok(())
    }

    fn cut(&mut self, start_bytes: u64) {
        self.traffic.start_bytes = start_bytes;
    }

    fn start(&mut self, job: Job) {
        if matches!(self.state, LinkState::Out) {
            self.traffic
                .done
                .push_back((job.tag, Err(MemberError::Gone)));
            return;
        }
        // The server may have ended the idle connection. Receive first to find out: a write sent on
        // it would be in doubt.
        self.arrived |= self.traffic.operations.in_use() == 0;
        self.traffic.take(job);
        if matches!(self.state, LinkState::Idle) {
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
            (LinkState::Connected(link), RECEIVES) => (link.socket.descriptor(), Readiness::Read),
            (LinkState::Connected(link), SENDS) if self.blocked => {
                (link.socket.descriptor(), Readiness::Write)
            }
            (LinkState::Reconnecting(reconnection), RECEIVES) => {
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
        let awaits = matches!(self.state, LinkState::Connected(_)) && self.traffic.awaits();
        awaits.then(|| self.traffic.moved_at + self.timeouts.silence)
    }

    fn in_flight(&self) -> usize {
        self.traffic.operations.in_use() + self.traffic.done.len()
    }

    fn end(&mut self) {
        if let LinkState::Connected(link) = &self.state {
            link.disconnect();
        }
        self.become_state(LinkState::Out);
        self.traffic.give_up();
    }

    fn at_rest(self: Box<Self>) -> Box<dyn AtRest> {
        match self.state {
            LinkState::Connected(link) => Box::new(Rest::new(link, self.timeouts.silence)),
            _ => unreachable!("it was just opened"),
        }
    }
}
