//! The connections of an agent. A connection that is not yet authenticated holds one of a few
//! places, and loses it to a later connection. Strangers thus can't keep a controller out, which
//! needs such a place only for a moment.

use super::wire::{Reply, send};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most unauthenticated connections at once.
const STRANGERS_MAX: usize = 8;
/// Most authenticated connections at once.
const KNOWN_MAX: usize = 8;

/// All connections of an agent.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<All>);

/// Connections by number, in the order of their arrival.
#[derive(Debug, Default)]
struct All {
    held: BTreeMap<u64, Held>,
    next: u64,
}

#[derive(Debug)]
struct Held {
    from: IpAddr,
    stream: TcpStream,
    is_known: bool,
}

/// The place of a connection; freed on drop.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    number: u64,
}

impl Places {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a stranger. If all are taken, the address with the most places loses its
    /// oldest.
    pub(super) fn take(&self, stream: &TcpStream, from: IpAddr) -> io::Result<Place<'_>> {
        let stream = stream.try_clone()?;
        let mut all = self.all();
        let number = all.next;
        all.next += 1;
        let held = Held {
            from,
            stream,
            is_known: false,
        };
        all.held.insert(number, held);
        if all.strangers().count() > STRANGERS_MAX
            && let Some(number) = all.first_to_go()
            && let Some(mut held) = all.held.remove(&number)
        {
            // The frame fits the socket's buffer; the peer may be gone already.
            let _gone = send(&mut held.stream, &Reply::Busy);
            let _closed = held.stream.shutdown(Shutdown::Both);
        }
        Ok(Place {
            places: self,
            number,
        })
    }
}

impl All {
    fn strangers(&self) -> impl Iterator<Item = (u64, IpAddr)> {
        let strangers = self.held.iter().filter(|(_, held)| !held.is_known);
        strangers.map(|(number, held)| (*number, held.from))
    }

    fn first_to_go(&self) -> Option<u64> {
        let mut of_each: BTreeMap<IpAddr, Vec<u64>> = BTreeMap::new();
        for (number, from) in self.strangers() {
            of_each.entry(from).or_default().push(number);
        }
        let most = of_each.values().map(Vec::len).max()?;
        let oldest = of_each.values().filter(|numbers| numbers.len() == most);
        oldest.filter_map(|numbers| numbers.first()).min().copied()
    }
}

impl Place<'_> {
    /// Keeps the place of an authenticated connection. Returns `false` if the place is lost
    /// already, or too many connections are authenticated.
    pub(super) fn keep(&self) -> bool {
        let mut all = self.places.all();
        let known = all.held.values().filter(|held| held.is_known).count();
        let own = all.held.get_mut(&self.number);
        let own = own.filter(|_| known < KNOWN_MAX);
        own.map(|own| own.is_known = true).is_some()
    }

    /// Returns true if a later connection has taken the place.
    pub(super) fn is_lost(&self) -> bool {
        !self.places.all().held.contains_key(&self.number)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.places.all().held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn the_largest_holder_is_evicted_unless_known() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let places = Places::default();
        let take = |last: u8| {
            let from = Ipv4Addr::new(10, 0, 0, last);
            places.take(&stream, from.into()).unwrap()
        };
        let known = take(1);
        assert!(known.keep());
        let honest = take(2);
        let many: Vec<_> = (1..STRANGERS_MAX).map(|_| take(3)).collect();
        assert!(many.iter().all(|place| !place.is_lost()));
        // A further connection from this address evicts the oldest connection of the address. So
        // does a connection from another address.
        let more = take(3);
        assert!(many[0].is_lost() && !many[1].is_lost() && !more.is_lost());
        let other = take(4);
        assert!(many[1].is_lost() && !many[2].is_lost() && !other.is_lost());
        assert!(!honest.is_lost() && honest.keep() && !many[0].keep());
        drop((more, many));
        // Connections from several other addresses: the oldest is evicted.
        let others: Vec<_> = (5..12).map(take).collect();
        assert!(!other.is_lost());
        let last = take(12);
        assert!(other.is_lost() && !others[0].is_lost() && !last.is_lost());
        let kept = others.iter().filter(|place| place.keep()).count();
        assert_eq!((kept, known.is_lost()), (KNOWN_MAX - 2, false));
    }
}
