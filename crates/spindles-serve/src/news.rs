//! What happens to the arrays of a target, told to all who want to know.

use spindles_engine::Event;
use spindles_io::spare::Taken;
use spindles_io::{Managed, Target};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum News {
    /// In the array of that name.
    Event(String, Event),
    /// A spare took a place.
    Taken(Taken),
}

impl News {
    /// All there are now.
    pub(crate) fn of(target: &mut dyn Target) -> Vec<Self> {
        let mut news = Vec::new(); // Without news nothing is allocated.
        while let Some((array, event)) = target.next_event() {
            news.push(Self::Event(array, event));
        }
        let managed: &mut dyn Managed = target;
        if !news.is_empty() {
            news.extend(managed.spares_taken().into_iter().map(Self::Taken));
        }
        news
    }
}

/// Where news are heard.
#[derive(Clone, Debug, Default)]
pub struct Newsroom(Arc<Mutex<Vec<Sender<News>>>>);

impl Newsroom {
    /// All news from now on.
    #[must_use]
    pub fn listen(&self) -> Receiver<News> {
        let (sender, receiver) = channel();
        let listeners = self.0.lock();
        listeners
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        receiver
    }

    /// Who does not listen any more is forgotten.
    pub(crate) fn tell(&self, news: &News) {
        let mut listeners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.retain(|listener| listener.send(news.clone()).is_ok());
    }
}
