//! A place for one connection to a server at a time.
//!
//! A lease is given a lane when it begins and stays on it, and on the very connection that it
//! began on while that lives, so that its acquire, extend and release cannot overtake another.
//! A lane does not connect: its owner keeps it filled.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::connection::Connection;
use super::open_error::OpenError;
use crate::box_future::BoxFuture;
use crate::mutex::lock;

/// What a lane holds.
#[derive(Clone)]
pub enum Link {
    /// A first or next connection is being made.
    Connecting,
    /// A connection that was usable when it was put here.
    Up(Arc<Connection>),
    /// The last try to connect failed; the next one waits.
    Down(OpenError),
}

/// One lane.
pub struct Lane {
    link: Mutex<Link>,
    /// Wakes its waiters in the order in which they came.
    changed: Notify,
}

impl Default for Lane {
    fn default() -> Self {
        Self { link: Mutex::new(Link::Connecting), changed: Notify::new() }
    }
}

impl Lane {
    /// The connection, if there is one that can take commands.
    pub fn ready(&self) -> Option<Arc<Connection>> {
        self.now().ok()
    }

    /// The connection, or why there is none now.
    ///
    /// # Errors
    ///
    /// What the last try said; [`OpenError::Connecting`] while the first, or the next after an
    /// end, is under way.
    pub fn now(&self) -> Result<Arc<Connection>, OpenError> {
        match &*lock(&self.link) {
            Link::Up(connection) if connection.is_alive() => Ok(Arc::clone(connection)),
            Link::Down(error) => Err(error.clone()),
            Link::Up(_) | Link::Connecting => Err(OpenError::Connecting),
        }
    }

    /// The connection that was put here last, whether it has ended or not, while it is here.
    pub fn last(&self) -> Option<Arc<Connection>> {
        match &*lock(&self.link) {
            Link::Up(connection) => Some(Arc::clone(connection)),
            Link::Connecting | Link::Down(_) => None,
        }
    }

    /// Puts `link` here and tells the waiters.
    pub fn set(&self, link: Link) {
        self.put(link);
        self.tell();
    }

    /// Puts `link` here for callers that look; waiters are told by [`Lane::tell`].
    pub fn put(&self, link: Link) {
        let before = std::mem::replace(&mut *lock(&self.link), link);
        drop(before);
    }

    /// Tells the waiters. To be called where no mutex is held: what a waker does is its own
    /// affair.
    pub fn tell(&self) {
        self.changed.notify_waiters();
    }

    /// Waits until a try has ended, this one or an earlier one.
    ///
    /// # Errors
    ///
    /// What the last try said.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub fn tried(&self) -> BoxFuture<'_, Result<Arc<Connection>, OpenError>> {
        Box::pin(async {
            loop {
                let changed = self.changed.notified();
                if !matches!(&*lock(&self.link), Link::Connecting) {
                    return self.now();
                }
                changed.await;
            }
        })
    }

    /// Waits for a connection, or for why the next try to get one failed.
    ///
    /// # Errors
    ///
    /// What the try that ended after this call said.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub fn settled(&self) -> BoxFuture<'_, Result<Arc<Connection>, OpenError>> {
        Box::pin(async {
            loop {
                let changed = self.changed.notified();
                if let Some(connection) = self.ready() {
                    return Ok(connection);
                }
                changed.await;
                if let Link::Down(error) = &*lock(&self.link) {
                    return Err(error.clone());
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_waiter_learns_why_the_next_try_failed_not_an_earlier_one() {
        let lane = Arc::new(Lane::default());
        let failure = |ms| OpenError::Timeout(std::time::Duration::from_millis(ms));
        lane.set(Link::Down(failure(1)));
        let waiter = tokio::spawn({
            let lane = Arc::clone(&lane);
            async move { lane.settled().await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        lane.set(Link::Connecting);
        lane.set(Link::Down(failure(2)));
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), failure(2).to_string());
    }
}
