//! Clients: they ask for what is drawn, and the ledger judges each answer. A link carries the
//! requests: an NBD connection, or an array opened through the library.

use crate::torture::ledger::{Ledger, Wish};
use crate::torture::random::Random;
use std::io;
use std::ops::Range;

/// A way to the array.
pub(crate) trait Link {
    /// Sends a request; `data` is the bytes of a write.
    fn send(&mut self, number: u64, wish: Wish, blocks: Range<u64>, data: &[u8]) -> io::Result<()>;

    /// Returns an answer: its number, and the bytes of a read or an error. Without `wait` it
    /// returns `None` if there is none yet.
    fn receive(&mut self, wait: bool) -> io::Result<Option<Answer>>;
}

/// The number of a request, and the bytes of a read or an error.
pub(crate) type Answer = (u64, Result<Vec<u8>, String>);

/// The reason why a client stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The array is gone.
    Gone(io::Error),
    /// An answer is illegal.
    Found(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

impl From<Stop> for String {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Gone(error) => format!("the array is gone: {error}"),
            Stop::Found(what) => what,
        }
    }
}

/// The requests to draw.
#[derive(Debug)]
pub(crate) struct Draw {
    pub(crate) blocks: u64,
    /// The longest request.
    pub(crate) longest: u64,
    /// The blocks of a whole stripe; `None` if requests can't be that long.
    pub(crate) stripe: Option<u64>,
    /// A range of the array that is used often begins here.
    pub(crate) hot: u64,
}

impl Draw {
    fn wish(&self, random: &mut Random) -> (Wish, Range<u64>) {
        let fua = random.percent(15);
        let wish = match random.below(100) {
            0..20 => Wish::Read,
            20..82 => Wish::Write { fua },
            82..92 => return (Wish::Flush, 0..0),
            92..96 => Wish::Discard,
            _ => Wish::Zeroes { fua },
        };
        let stripe = self.stripe.filter(|stripe| *stripe <= self.blocks);
        if let Some(stripe) = stripe
            && random.percent(25)
        {
            let first = random.below(self.blocks / stripe);
            let most = (self.longest / stripe).min(self.blocks / stripe - first);
            let stripes = first..first + random.between(1, most.min(3));
            return (wish, stripes.start * stripe..stripes.end * stripe);
        }
        let count = match random.below(4) {
            0 | 1 => 1,
            2 => random.between(1, self.longest.min(8)),
            _ => random.between(1, self.longest),
        };
        let last = self.blocks - count;
        let first = if random.percent(40) {
            (self.hot + random.below(6)).min(last)
        } else {
            random.below(last + 1)
        };
        (wish, first..first + count)
    }
}

/// A client that may have several requests in flight.
pub(crate) struct Client<'a, L> {
    pub(crate) link: L,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) in_flight: u64,
}

impl<'a, L: Link> Client<'a, L> {
    pub(crate) fn new(link: L, ledger: &'a mut Ledger) -> Self {
        Self {
            link,
            ledger,
            in_flight: 0,
        }
    }

    pub(crate) fn ask(&mut self, wish: Wish, blocks: Range<u64>) -> Result<(), Stop> {
        let index = self.ledger.asks(wish, blocks.clone());
        let payload = self.ledger.payload(index);
        self.in_flight += 1;
        let number = u64::try_from(index).expect("64 bits");
        Ok(self.link.send(number, wish, blocks, &payload)?)
    }

    /// Takes an answer and judges it. Returns the bytes of a read; `None` for an error, and if
    /// there is no answer yet.
    pub(crate) fn hear(&mut self, wait: bool) -> Result<Option<Vec<u8>>, Stop> {
        let Some((number, answer)) = self.link.receive(wait)? else {
            assert!(!wait, "a request is lost");
            return Ok(None);
        };
        self.in_flight -= 1;
        let index = usize::try_from(number).expect("we sent it");
        let judged = self.ledger.answered(index, answer.as_deref());
        judged.map_err(Stop::Found)?;
        Ok(answer.ok())
    }

    /// Sends a request, and waits for its answer.
    pub(crate) fn ask_now(
        &mut self,
        wish: Wish,
        blocks: Range<u64>,
    ) -> Result<Option<Vec<u8>>, Stop> {
        self.ask(wish, blocks)?;
        self.hear(true)
    }

    /// Sends this many requests, up to `depth` at once, and takes all answers.
    pub(crate) fn work(
        &mut self,
        draw: &Draw,
        random: &mut Random,
        requests: u64,
        depth: u64,
    ) -> Result<(), Stop> {
        for _ in 0..requests {
            let (wish, blocks) = draw.wish(random);
            self.ask(wish, blocks)?;
            if random.percent(2) {
                let pause = std::time::Duration::from_micros(random.below(3000));
                std::thread::sleep(pause);
            }
            if self.in_flight == depth || random.percent(60) {
                self.hear(self.in_flight == depth)?;
            }
        }
        self.hear_all()
    }

    pub(crate) fn hear_all(&mut self) -> Result<(), Stop> {
        while self.in_flight > 0 {
            self.hear(true)?;
        }
        Ok(())
    }

    /// Reads blocks with one request, or one by one if that fails.
    pub(crate) fn read(&mut self, blocks: Range<u64>) -> Result<(), Stop> {
        let read = self.ask_now(Wish::Read, blocks.clone())?;
        if read.is_none() && blocks.end - blocks.start > 1 {
            for block in blocks {
                self.read(block..block + 1)?;
            }
        }
        Ok(())
    }

    /// Reads every block, this many at once.
    pub(crate) fn read_all(&mut self, at_once: u64) -> Result<(), Stop> {
        let blocks = self.ledger.blocks();
        for part in 0..blocks.div_ceil(at_once) {
            self.read(part * at_once..blocks.min((part + 1) * at_once))?;
        }
        Ok(())
    }
}
