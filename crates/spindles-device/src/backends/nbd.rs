//! `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`: the export of an NBD server, so
//! that an array spans machines.
//!
//! A server that comes back after a lost connection may be another process. Changes that the old
//! server had answered but not flushed may be lost, and unanswered requests may still be executed.
//! The protocol does not show which. So the operations in progress decide what happens when a
//! connection is lost:
//!
//! | when the connection is lost | then |
//! |---|---|
//! | nothing is in flight, and all changes are durable | the next request reconnects |
//! | reads and flushes are in flight, and all changes are durable | reconnects and resends them |
//! | changes were answered, and neither flushed nor written with FUA | the device is out |
//! | changes were sent, wholly or in part, and not answered | the device is out |
//!
//! Changes in the send queue count only once their first byte was sent. A device that is out
//! answers `Gone` until it is closed. When it is opened again, the member rejoins and gets the
//! writes that it missed.
//!
//! A separate thread tries to reconnect. If no request is answered within `PeerTimeouts::reconnect`
//! of the loss, the device is out. The export must be the one that was lost: the same size, the
//! same features, and the same bytes in both superblock slots. A restarted server may export
//! something else.
//!
//! The connection also ends if the server violates the protocol, answers `ESHUTDOWN`, or is silent
//! for `PeerTimeouts::silence` while an answer is due. Other errors translate to those of a disk:
//! `ENOSPC` to `NoSpace`, any other error of a read to `Medium`, and any other error to `Gone`.
//!
//! A discard is sent as a write-zeroes that may leave a hole, because trimmed blocks need not read
//! as zeros. Without write-zeroes, zeros are written as data; without FUA, a flush follows.
//!
//! A lock on a stand-in file keeps commands of one user on one machine from writing to the export
//! at once. Other users and machines are not kept out.

use super::{Backend, Medium, Opened, opening};
use crate::at_rest::{Access, AtRest};
use crate::peer::{Address, Connection, Link, Rest, Route, StandIn, connect, is_address};
use crate::{BackendFacts, DeviceFacts, OpenError, OpenOptions, PeerTimeouts};
use spindles_nbd::TransmissionFlags;
use std::io;
use std::time::{Duration, Instant};

pub(super) static BACKEND: Backend = Backend {
    facts: BackendFacts {
        name: "nbd",
        outlives_opening: true,
        whole_sectors_only: true,
        is_path: false,
    },
    syntax: "nbd://HOST[:PORT]/EXPORT or nbd+unix:///EXPORT?socket=PATH, or with TLS nbds",
    summary: "the export of an NBD server",
    matches: is_address,
    open,
    at_rest: Some(at_rest),
    fresh: None,
};

/// The smallest sector size of any disk.
const SECTOR_BYTES: u32 = 512;

fn open(name: &str, options: &OpenOptions) -> Result<Opened, OpenError> {
    let (route, link) = reach(name, options.peer_timeouts.connect)?;
    let device = || name.to_owned();
    let terms = link.terms;
    if !options.read_only {
        if terms.has(TransmissionFlags::READ_ONLY) {
            return Err(OpenError::ServedReadOnly { device: device() });
        }
        if !terms.has(TransmissionFlags::SEND_FLUSH) {
            return Err(OpenError::NoFlush { device: device() });
        }
    }
    let (locks, mut held) = (options.own_locks(), None);
    let may_lock = !options.locks.is_locked();
    while may_lock && let Some(stand_in) = StandIn::of(&route.address) {
        if let Some(kept) = locks.take_same(stand_in.file()) {
            held = Some(locks.hold_locked(kept));
            break;
        }
        opening::lock(name, stand_in.file(), false, options)?;
        if stand_in.is_there() {
            held = Some(locks.hold(stand_in.into_file()));
            break;
        }
    }
    Ok(Opened {
        part: None,
        held: held.into_iter().collect(),
        facts: DeviceFacts {
            name: device(),
            backend: &BACKEND.facts,
            bytes: terms.bytes,
            sector_bytes: terms.min_bytes.max(SECTOR_BYTES),
            // The protocol does not report the unit that the medium writes.
            physical_sector_bytes: SECTOR_BYTES,
            direct: true,
            direct_reason: None,
            rotational: terms.has(TransmissionFlags::ROTATIONAL).then_some(true),
            physical_device: None,
            zeroes_without_moving_bytes: terms.has(TransmissionFlags::SEND_WRITE_ZEROES),
            // The server may make holes if no space is requested.
            thin: terms.has(TransmissionFlags::SEND_WRITE_ZEROES),
        },
        medium: Medium::Later(Box::new(Connection::new(
            name,
            route,
            link,
            options.peer_timeouts,
        ))),
    })
}

fn at_rest(name: &str, _access: Access) -> io::Result<Box<dyn AtRest>> {
    let timeouts = PeerTimeouts::default();
    let (_, link) = reach(name, timeouts.connect).map_err(io::Error::other)?;
    Ok(Box::new(Rest::new(link, timeouts.silence)))
}

fn reach(name: &str, timeout: Duration) -> Result<(Route, Link), OpenError> {
    let address = Address::parse(name).map_err(|what| OpenError::Address {
        device: name.to_owned(),
        what,
    })?;
    let route = Route::to(address);
    let linked = route.and_then(|route| {
        let link = connect(&route, Instant::now() + timeout)?;
        Ok((route, link))
    });
    linked.map_err(|reason| OpenError::Server {
        device: name.to_owned(),
        reason,
    })
}
