//! The connections of an agent. A connection that has not shown yet that it knows the token holds one of a few places,
//! and loses it to a later one: strangers can't keep a controller out, which needs its place for a moment only.

use super::wire::{Reply, send};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many connections of strangers at once.
const STRANGERS_MAX: usize = 8;
/// So many connections of those who know the token.
const KNOWN_MAX: usize = 8;

/// All connections of an agent.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<All>);

/// In the order in which they came.
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

/// The place of a connection, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    places: &'a Places,
    number: u64,
}

impl Places {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a stranger. Where all are held, the address that holds the most gives up its oldest.
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
            // It has room for so little, or is gone already.
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
    /// It has shown that it knows the token: it keeps its place. `false` where it has lost that already, or too many do.
    pub(super) fn keep(&self) -> bool {
        let mut all = self.places.all();
        let known = all.held.values().filter(|held| held.is_known).count();
        let own = all.held.get_mut(&self.number);
        let own = own.filter(|_| known < KNOWN_MAX);
        own.map(|own| own.is_known = true).is_some()
    }

    /// Whether a later connection has taken it.
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
    fn who_holds_the_most_gives_way_and_who_is_known_does_not() {
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
        // The next of the same address costs its oldest, one of another address too.
        let more = take(3);
        assert!(many[0].is_lost() && !many[1].is_lost() && !more.is_lost());
        let other = take(4);
        assert!(many[1].is_lost() && !many[2].is_lost() && !other.is_lost());
        assert!(!honest.is_lost() && honest.keep() && !many[0].keep());
        drop((more, many));
        // Each of another address: the oldest.
        let others: Vec<_> = (5..12).map(take).collect();
        assert!(!other.is_lost());
        let last = take(12);
        assert!(other.is_lost() && !others[0].is_lost() && !last.is_lost());
        let kept = others.iter().filter(|place| place.keep()).count();
        assert_eq!((kept, known.is_lost()), (KNOWN_MAX - 2, false));
    }
}
