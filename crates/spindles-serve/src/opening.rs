//! Opens doors while the server runs: some need its answers before anybody can come.

use crate::offer::Offer;
use crate::transports::Door;
use std::io;
use std::slice;
use std::thread::{self, JoinHandle};

/// The doors, which are to be closed, and whether all are open.
pub type Opened = (Vec<Box<dyn Door>>, io::Result<()>);

/// Doors that are being opened.
#[derive(Debug)]
pub struct Opening(JoinHandle<Opened>);

impl Opening {
    /// Begins. When all are open the server hears `News::Opened`; if one can't be opened it is stopped.
    ///
    /// # Errors
    ///
    /// There can be no thread.
    pub fn begin(mut doors: Vec<Box<dyn Door>>, offer: &Offer) -> io::Result<Self> {
        let offer = offer.clone();
        let thread = thread::Builder::new().name("spindles-doors".to_owned());
        let thread = thread.spawn(move || {
            let mut each = doors.iter_mut();
            let opened = each.try_for_each(|door| door.open(slice::from_ref(&offer)));
            match &opened {
                Ok(()) => offer.opened(),
                Err(_) => offer.stopper().stop(),
            }
            (doors, opened)
        })?;
        Ok(Self(thread))
    }

    /// Waits until that is over.
    pub fn end(self) -> Opened {
        self.0.join().expect("it does not panic")
    }
}
